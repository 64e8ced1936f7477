/**
 * Signing secrets as Standard Webhooks writes them: `whsec_` and the base64 of 24 to 64 bytes for HMAC, and
 * `whsk_` and the base64 of an ed25519 key (seed and public half, 64 bytes, or the seed alone).
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import { fromBase64, toBase64 } from "./base64.ts";

export const schemes = ["hmac-sha256", "ed25519"] as const;

/** What a destination's deliveries are signed with. */
export type Scheme = (typeof schemes)[number];

const PREFIXES: Readonly<Record<Scheme, string>> = { "hmac-sha256": "whsec_", ed25519: "whsk_" };
const NEW_BYTES = 24;
export const SEED_BYTES = 32;

/** The scheme that a secret is for, by its prefix. */
export function schemeOf(secret: string): Scheme {
  return secret.startsWith(PREFIXES.ed25519) ? "ed25519" : "hmac-sha256";
}

/** A new random secret. Of an ed25519 key the seed is all that there is to keep. */
export function newSecret(scheme: Scheme): string {
  const bytes = crypto.getRandomValues(new Uint8Array(scheme === "ed25519" ? SEED_BYTES : NEW_BYTES));
  return `${PREFIXES[scheme]}${toBase64(bytes)}`;
}

/** The bytes of a well-formed secret; undefined for any other text. */
export function secretBytes(secret: string): Uint8Array<ArrayBuffer> | undefined {
  const scheme = schemeOf(secret);
  const prefix = PREFIXES[scheme];
  const bytes = secret.startsWith(prefix) ? fromBase64(secret.slice(prefix.length)) : undefined;
  return bytes && hasRightLength(scheme, bytes.length) ? bytes : undefined;
}

function hasRightLength(scheme: Scheme, length: number): boolean {
  if (scheme === "ed25519") return length === SEED_BYTES || length === 2 * SEED_BYTES;
  return length >= 24 && length <= 64;
}
