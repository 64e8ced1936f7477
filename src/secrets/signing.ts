/**
 * Signing secrets and signatures of Standard Webhooks. A secret is `whsec_` and the base64 of 24 to 64 bytes for
 * HMAC-SHA256 (`v1`), or `whsk_` and the base64 of an ed25519 key (`v1a`): seed and public half, 64 bytes, or the seed
 * alone. Signing is WebCrypto's; an imported key is kept and used for every attempt.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import { fromBase64, fromBase64Url, toBase64, toBase64Url } from "./base64.ts";

export const schemes = ["hmac-sha256", "ed25519"] as const;

/** What a destination's deliveries are signed with. */
export type Scheme = (typeof schemes)[number];

const PREFIXES: Readonly<Record<Scheme, string>> = { "hmac-sha256": "whsec_", ed25519: "whsk_" };
const NEW_BYTES = 24;
const SEED_BYTES = 32;

/** The scheme that a secret is for, by its prefix. */
export function schemeOf(secret: string): Scheme {
  return secret.startsWith(PREFIXES.ed25519) ? "ed25519" : "hmac-sha256";
}

/** A new random secret; of an ed25519 key it is the seed. */
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

export type SigningKey = Readonly<{
  /** The signature of a text's UTF-8, as a member of `webhook-signature`: `v1,…` or `v1a,…`. */
  sign: (text: string) => Promise<string>;
  /** The 32 bytes that verify an ed25519 signature; absent for HMAC, which has nothing to publish. */
  publicKey?: Uint8Array<ArrayBuffer>;
}>;

/** What precedes the seed in the PKCS #8 of a private key (RFC 8410 §7). */
const PKCS8_START = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/** Imports a secret. Throws when it is not well-formed, or is a key pair whose halves do not belong together. */
export async function signingKey(secret: string): Promise<SigningKey> {
  const bytes = secretBytes(secret);
  if (!bytes) throw new Error("The secret is not well-formed");
  return schemeOf(secret) === "ed25519" ? ed25519Key(bytes) : hmacKey(bytes);
}

async function hmacKey(bytes: Uint8Array<ArrayBuffer>): Promise<SigningKey> {
  const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return { sign: async (text) => `v1,${await signature("HMAC", key, text)}` };
}

/** The public half is derived from the seed: a signature with another one would reveal the seed. */
async function ed25519Key(bytes: Uint8Array<ArrayBuffer>): Promise<SigningKey> {
  const pkcs8 = new Uint8Array([...PKCS8_START, ...bytes.subarray(0, SEED_BYTES)]);
  const key = await crypto.subtle.importKey("pkcs8", pkcs8, "Ed25519", true, ["sign"]);
  const { x } = (await crypto.subtle.exportKey("jwk", key)) as JsonWebKey;
  const publicKey = fromBase64Url(x ?? "");
  const given = bytes.subarray(SEED_BYTES);
  if (!publicKey || (given.length > 0 && toBase64Url(given) !== x))
    throw new Error("The key's halves differ");
  return { sign: async (text) => `v1a,${await signature("Ed25519", key, text)}`, publicKey };
}

async function signature(algorithm: string, key: CryptoKey, text: string): Promise<string> {
  const signed = await crypto.subtle.sign(algorithm, key, new TextEncoder().encode(text));
  return toBase64(new Uint8Array(signed));
}
