/**
 * What a request to accept events says, in a few bytes: the same content has the same fingerprint, whether
 * it came alone, in a list or in lines, and however it was spaced. Numbers count as they were written.
 */
import type { PostedEvent } from "./accept.ts";

/** SHA-256 in hexadecimal. */
export async function fingerprintOf(posted: readonly PostedEvent[]): Promise<string> {
  const said = posted.map(({ tenant, type, data, deliverAt }) => [tenant, type, data, deliverAt]);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(said)));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
