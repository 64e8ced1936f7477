/**
 * Signing with WebCrypto: HMAC-SHA256 (`v1`) and ed25519 (`v1a`) of Standard Webhooks. An imported key is
 * kept and used for every attempt.
 */
import { fromBase64Url, toBase64, toBase64Url } from "./base64.ts";
import { SEED_BYTES, schemeOf, secretBytes } from "./signing-secret.ts";

export type SigningKey = Readonly<{
  /** The signature of a text's UTF-8, as a member of `webhook-signature`: `v1,…` or `v1a,…`. */
  sign: (text: string) => Promise<string>;
  /** The 32 bytes that verify an ed25519 signature; absent for HMAC, which has nothing to publish. */
  publicKey?: Uint8Array<ArrayBuffer>;
}>;

/** RFC 8410 §7: what comes before the seed in a private key's PKCS #8. */
const PKCS8_START = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/** Throws when the secret is not well-formed, or is a pair whose halves do not belong together. */
export async function signingKey(secret: string): Promise<SigningKey> {
  const bytes = secretBytes(secret);
  if (!bytes) throw new Error("The secret is not well-formed");
  return schemeOf(secret) === "ed25519" ? ed25519Key(bytes) : hmacKey(bytes);
}

async function hmacKey(bytes: Uint8Array<ArrayBuffer>): Promise<SigningKey> {
  const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return { sign: async (text) => `v1,${await signature("HMAC", key, text)}` };
}

/** The public half is worked out from the seed: signing with another one would give the seed away. */
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
