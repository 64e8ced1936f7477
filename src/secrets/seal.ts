/**
 * Secrets at rest: AES-256-GCM under a master key that D1 never sees. The sealed text reads
 * `scheme.key-id.base64url(nonce ‖ ciphertext ‖ tag)`: what it signs with and which master key opens it can
 * be told without opening it. Both, and the destination's id, are authenticated with it, so that a sealed
 * secret moved to another row, or relabelled, opens for nobody.
 */
import { fromBase64Url, toBase64Url } from "./base64.ts";
import type { MasterKey, MasterKeys } from "./master-keys.ts";
import { type Scheme, schemeOf } from "./signing-secret.ts";

/** NIST SP 800-38D: 96 random bits for each sealing; safe for 2^32 sealings under one key. */
const NONCE_BYTES = 12;

export type Label = Readonly<{ scheme: Scheme; keyId: string }>;

/** Seals a signing secret for a destination, with the first of the keys. */
export async function seal(keys: MasterKeys, destination: string, secret: string): Promise<string> {
  const [key] = keys;
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const label = `${schemeOf(secret)}.${key.id}`;
  const plain = new TextEncoder().encode(secret);
  const cipher = await crypto.subtle.encrypt(
    parameters(nonce, label, destination),
    await imported(key),
    plain,
  );
  return `${label}.${toBase64Url(new Uint8Array([...nonce, ...new Uint8Array(cipher)]))}`;
}

/** The secret that was sealed for this destination. Throws, without naming any of it, when it cannot be opened. */
export async function unseal(keys: MasterKeys, destination: string, sealed: string): Promise<string> {
  const label = labelOf(sealed);
  const key = keys.find(({ id }) => id === label?.keyId);
  const bytes = fromBase64Url(sealed.slice(sealed.lastIndexOf(".") + 1));
  if (!label || !bytes) throw new Error("The secret is not sealed");
  if (!key) throw new Error(`MASTER_KEYS has no key ${label.keyId}`);
  const [nonce, cipher] = [bytes.subarray(0, NONCE_BYTES), bytes.subarray(NONCE_BYTES)];
  const how = parameters(nonce, `${label.scheme}.${label.keyId}`, destination);
  try {
    return new TextDecoder().decode(await crypto.subtle.decrypt(how, await imported(key), cipher));
  } catch {
    throw new Error(`The secret was not sealed with the key ${label.keyId} for this destination`);
  }
}

/** What a sealed text says of itself; undefined when it is none. Not to be trusted before it is opened. */
export function labelOf(sealed: string): Label | undefined {
  const [, scheme, keyId] =
    /^(hmac-sha256|ed25519)\.([A-Za-z0-9_-]{1,32})\.[A-Za-z0-9_-]+$/.exec(sealed) ?? [];
  return scheme && keyId ? { scheme: scheme as Scheme, keyId } : undefined;
}

function parameters(iv: Uint8Array<ArrayBuffer>, label: string, destination: string) {
  return { name: "AES-GCM", iv, additionalData: new TextEncoder().encode(`${label}.${destination}`) };
}

const imports = new WeakMap<MasterKey, Promise<CryptoKey>>();

/** A key is imported once for as long as it is configured. */
function imported(key: MasterKey): Promise<CryptoKey> {
  const known = imports.get(key);
  if (known) return known;
  const made = crypto.subtle.importKey("raw", key.bytes, "AES-GCM", false, ["encrypt", "decrypt"]);
  imports.set(key, made);
  return made;
}
