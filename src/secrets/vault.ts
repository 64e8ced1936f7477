/**
 * Destinations' signing secrets at rest: AES-256-GCM under a master key that is never in D1.
 *
 * A sealed text reads `scheme.key-id.base64url(nonce ‖ ciphertext ‖ tag)`, so that its scheme and its master key are
 * known without opening it. Both, and the destination's id, are authenticated with it: a sealed secret that is moved to
 * another row, or relabelled, does not open.
 *
 * `MASTER_KEYS` is `id:base64`, or several of them with commas between. The first seals; all of them open. So a key is
 * replaced by putting a new one before it, sealing every secret again, and removing the old one.
 */

import { fromBase64, fromBase64Url, toBase64Url } from "./base64.ts";
import { type Scheme, type SigningKey, schemeOf, signingKey } from "./signing.ts";

/** NIST SP 800-38D: 96 random bits for each sealing; safe for 2^32 sealings under one key. */
const NONCE_BYTES = 12;
/** Of a master key, for AES-256. */
const KEY_BYTES = 32;
/** Imported signing keys kept in memory, a few hundred bytes each. */
const MOST_KEPT = 1_000;

export type Vault = Readonly<{
  /** The text to store for a destination's signing secret. */
  seal: (destination: string, secret: string) => Promise<string>;
  /** The secret itself: to seal it again, or to compare it. */
  unseal: (destination: string, sealed: string) => Promise<string>;
  /** The key to sign with. Rejects when the stored text does not open for this destination. */
  open: (destination: string, sealed: string) => Promise<SigningKey>;
  /** Whether the text was sealed with the first master key. */
  isCurrent: (sealed: string) => boolean;
}>;

/** Imported keys are kept while the isolate lives, so that signing decrypts a secret only once. */
export function vaultOf(keys: MasterKeys): Vault {
  const opened = new Map<string, Promise<SigningKey>>();

  function open(destination: string, sealed: string): Promise<SigningKey> {
    const name = `${destination} ${sealed}`;
    const key = opened.get(name) ?? unseal(keys, destination, sealed).then(signingKey);
    // The most recently used stay: a Map keeps the order of insertion.
    opened.delete(name);
    opened.set(name, key);
    key.catch(() => opened.delete(name));
    for (const oldest of opened.keys()) if (opened.size > MOST_KEPT) opened.delete(oldest);
    return key;
  }

  return {
    seal: (destination, secret) => seal(keys, destination, secret),
    unseal: (destination, sealed) => unseal(keys, destination, sealed),
    open,
    isCurrent: (sealed) => labelOf(sealed)?.keyId === keys[0].id,
  };
}

type Label = Readonly<{ scheme: Scheme; keyId: string }>;

/** Seals a destination's signing secret with the first master key. */
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

/** The secret sealed for this destination. Throws, with nothing of it in the message, when it cannot be opened. */
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

/** The label of a sealed text, which is unverified until the text is opened; undefined for any other text. */
export function labelOf(sealed: string): Label | undefined {
  const [, scheme, keyId] =
    /^(hmac-sha256|ed25519)\.([A-Za-z0-9_-]{1,32})\.[A-Za-z0-9_-]+$/.exec(sealed) ?? [];
  return scheme && keyId ? { scheme: scheme as Scheme, keyId } : undefined;
}

function parameters(iv: Uint8Array<ArrayBuffer>, label: string, destination: string) {
  return { name: "AES-GCM", iv, additionalData: new TextEncoder().encode(`${label}.${destination}`) };
}

const imports = new WeakMap<MasterKey, Promise<CryptoKey>>();

/** Imports each configured key once. */
function imported(key: MasterKey): Promise<CryptoKey> {
  const known = imports.get(key);
  if (known) return known;
  const made = crypto.subtle.importKey("raw", key.bytes, "AES-GCM", false, ["encrypt", "decrypt"]);
  imports.set(key, made);
  return made;
}

type MasterKey = Readonly<{
  /** Stored with everything that it seals. */
  id: string;
  bytes: Uint8Array<ArrayBuffer>;
}>;

/** At least one; the first seals. */
export type MasterKeys = readonly [MasterKey, ...MasterKey[]];

/** What is wrong with the text, to follow the variable's name; it repeats nothing of a key. */
type MasterKeysFault = Readonly<{ fault: string }>;

export function parseMasterKeys(text: string): MasterKeys | MasterKeysFault {
  const parts = text.split(/[\s,]+/).filter((part) => part !== "");
  const keys = parts.map(masterKey);
  const wrong = keys.indexOf(undefined);
  if (wrong >= 0) return { fault: `expected id:base64 of ${KEY_BYTES} bytes as key number ${wrong + 1}` };
  const [first, ...others] = keys.filter((key) => key !== undefined);
  if (first === undefined) return { fault: "expected at least one id:base64" };
  const ids = new Set([first, ...others].map(({ id }) => id));
  return ids.size === keys.length ? [first, ...others] : { fault: "expected each key to have its own id" };
}

function masterKey(part: string): MasterKey | undefined {
  const [, id, base64] = /^([A-Za-z0-9_-]{1,32}):(.+)$/.exec(part) ?? [];
  const bytes = base64 === undefined ? undefined : fromBase64(base64);
  return id !== undefined && bytes?.length === KEY_BYTES ? { id, bytes } : undefined;
}
