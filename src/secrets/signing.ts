/**
 * Signing secrets, and signatures with them. A secret of Standard Webhooks is `whsec_` and the base64 of 24 to 64 bytes
 * for HMAC (`v1`), or `whsk_` and the base64 of an ed25519 key (`v1a`): seed and public half, 64 bytes, or the seed
 * alone. Receivers of other forms know a secret as a plain text, whose UTF-8 is the key. So an HMAC secret has two
 * readings, its text as it is written and its bytes; they are the same unless it is `whsec_…`. Signing is WebCrypto's;
 * an imported key is cached and used for every attempt.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import { fromBase64, fromBase64Url, toBase64, toBase64Url } from "./base64.ts";

export const schemes = ["hmac-sha256", "ed25519"] as const;

/** How a destination's deliveries are signed. */
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

/** Matches 20 to 128 characters: a shorter secret can be guessed from a signature. */
const PLAIN_TEXT = /^[!-~][ -~]{18,126}[!-~]$/;

/**
 * Whether a text that is not a secret of Standard Webhooks may be a secret nevertheless. No text may look like a key
 * pair.
 */
export function isPlainTextSecret(secret: string): boolean {
  return PLAIN_TEXT.test(secret) && schemeOf(secret) !== "ed25519";
}

/** The bytes of a well-formed secret of Standard Webhooks; undefined for any other text. */
export function secretBytes(secret: string): Uint8Array<ArrayBuffer> | undefined {
  const scheme = schemeOf(secret);
  const prefix = PREFIXES[scheme];
  const bytes = secret.startsWith(prefix) ? fromBase64(secret.slice(prefix.length)) : undefined;
  return bytes && hasRightLength(scheme, bytes.length) ? bytes : undefined;
}

/** Whether a secret can sign in every form: `whsec_…` can, a key pair cannot, and of a plain text it is not certain. */
export function fitsEveryForm(secret: string): boolean {
  return schemeOf(secret) === "hmac-sha256" && secretBytes(secret) !== undefined;
}

function hasRightLength(scheme: Scheme, length: number): boolean {
  if (scheme === "ed25519") return length === SEED_BYTES || length === 2 * SEED_BYTES;
  return length >= 24 && length <= 64;
}

const HASHES = { sha256: "SHA-256", sha512: "SHA-512", sha1: "SHA-1" } as const;

/** How an HMAC is made and written, and which reading of the secret is its key. */
type Digest = Readonly<{
  key: "text" | "bytes";
  algorithm: keyof typeof HASHES;
  encoding: "hex" | "base64";
}>;

export type SigningKey = Readonly<{
  /** The signature as a member of `webhook-signature`: `v1,…` or `v1a,…`. */
  sign: (content: Uint8Array<ArrayBuffer>) => Promise<string>;
  /** The HMAC; absent for ed25519. */
  hmac?: (content: Uint8Array<ArrayBuffer>, digest: Digest) => Promise<string>;
  /** The 32 bytes that verify an ed25519 signature; absent for HMAC, which has nothing to publish. */
  publicKey?: Uint8Array<ArrayBuffer>;
}>;

/** The bytes before the seed in the PKCS #8 of a private key (RFC 8410 §7). */
const PKCS8_START = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/** Imports a secret. Throws when it is not well-formed, or is a key pair whose halves do not belong together. */
export async function signingKey(secret: string): Promise<SigningKey> {
  const bytes = secretBytes(secret);
  if (bytes && schemeOf(secret) === "ed25519") return ed25519Key(bytes);
  if (!bytes && !isPlainTextSecret(secret)) throw new Error("The secret is not well-formed");
  const text = Uint8Array.from(secret, (char) => char.charCodeAt(0));
  return hmacKey({ text, bytes: bytes ?? text });
}

/** A key is imported when it is first used: most destinations need one of the six. */
function hmacKey(readings: Readonly<Record<Digest["key"], Uint8Array<ArrayBuffer>>>): SigningKey {
  const imported = new Map<string, Promise<CryptoKey>>();

  function keyFor({ key, algorithm }: Digest): Promise<CryptoKey> {
    const name = `${key} ${algorithm}`;
    const known = imported.get(name);
    if (known) return known;
    const how = { name: "HMAC", hash: HASHES[algorithm] };
    const made = crypto.subtle.importKey("raw", readings[key], how, false, ["sign"]);
    imported.set(name, made);
    return made;
  }

  async function hmac(content: Uint8Array<ArrayBuffer>, digest: Digest): Promise<string> {
    const signed = await signature("HMAC", await keyFor(digest), content);
    return digest.encoding === "hex" ? toHex(signed) : toBase64(signed);
  }

  return { sign: async (content) => `v1,${await hmac(content, STANDARD)}`, hmac };
}

const STANDARD: Digest = { key: "bytes", algorithm: "sha256", encoding: "base64" };

/** The public half is derived from the seed: a signature with another one would reveal the seed. */
async function ed25519Key(bytes: Uint8Array<ArrayBuffer>): Promise<SigningKey> {
  const pkcs8 = new Uint8Array([...PKCS8_START, ...bytes.subarray(0, SEED_BYTES)]);
  const key = await crypto.subtle.importKey("pkcs8", pkcs8, "Ed25519", true, ["sign"]);
  const { x } = (await crypto.subtle.exportKey("jwk", key)) as JsonWebKey;
  const publicKey = fromBase64Url(x ?? "");
  const given = bytes.subarray(SEED_BYTES);
  if (!publicKey || (given.length > 0 && toBase64Url(given) !== x))
    throw new Error("The key's halves differ");
  return { sign: async (content) => `v1a,${toBase64(await signature("Ed25519", key, content))}`, publicKey };
}

async function signature(
  algorithm: string,
  key: CryptoKey,
  content: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.sign(algorithm, key, content));
}

function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
