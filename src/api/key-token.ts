/**
 * What an API key looks like: `bw_<id>_<secret>`. The id finds the row, the secret proves the key, the prefix
 * lets a scanner for leaked secrets recognise it. What is stored is the digest of the whole token: its 160
 * random bits leave nothing to guess, so that a slow hash would add nothing but its slowness.
 */
import { newKeyId, randomText } from "../id.ts";

const SECRET_CHARACTERS = 32;

/** A new key. `token` is shown to its owner once and not kept; `hash` is kept. */
export async function newKey(): Promise<Readonly<{ id: string; token: string; hash: string }>> {
  const id = newKeyId();
  const token = `bw_${id.slice(4)}_${randomText(SECRET_CHARACTERS)}`;
  return { id, token, hash: hex(await digest(token)) };
}

/** The id of the key that a token claims to be; undefined when it is none of ours. */
export function claimedKey(token: string): string | undefined {
  const id = /^bw_([0-9a-z]{20})_[0-9a-z]{32}$/.exec(token)?.[1];
  return id && `key_${id}`;
}

/** Whether the token is the one that was stored as this hash. A hash edited into something else is nobody's. */
export async function isTokenOf(token: string, hash: string): Promise<boolean> {
  return isSame(hex(await digest(token)), hash);
}

/** Compares digests, which are of one length, in constant time: the time taken tells nothing of either. */
export async function isSame(a: string, b: string): Promise<boolean> {
  const [left, right] = await Promise.all([digest(a), digest(b)]);
  return crypto.subtle.timingSafeEqual(left, right);
}

function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}

function hex(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
