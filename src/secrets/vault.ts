/**
 * Destinations' secrets at rest: AES-256-GCM under a master key that is never in D1.
 *
 * A sealed text reads `content.key-id.base64url(nonce ‖ ciphertext ‖ tag)`. The content names the purpose of the
 * secret, and for a signing secret also its scheme, so that these and the master key are known without opening it. Both
 * are authenticated with it, and so is the destination's id, or another owner: a sealed secret that is moved to another
 * row, or relabelled, does not open. The caller that opens one names the purpose, so that a signing secret that is
 * moved into the headers is not sent.
 *
 * `MASTER_KEYS` is `id:base64`, or several of them with commas between. The first seals; all of them open. So a key is
 * replaced by putting a new one before it, sealing every secret again, and removing the old one. Keys for other
 * purposes are derived from them, and replaced with them.
 */

import { fromBase64, fromBase64Url, toBase64, toBase64Url } from "./base64.ts";
import { type Scheme, type SigningKey, schemeOf, schemes, signingKey } from "./signing.ts";

/**
 * Contents that are sealed: a signing secret, by its scheme; the value of a header; the secret of `auth`; an access
 * token; the target of notices; or, for a portal link, the API key that made it.
 */
type SealedContent = Scheme | "header" | "auth" | "token" | "notice" | "link";

const contents: readonly string[] = [
  ...schemes,
  "header",
  "auth",
  "token",
  "notice",
  "link",
] satisfies readonly SealedContent[];

/** NIST SP 800-38D: 96 random bits for each sealing; safe for 2^32 sealings under one key. */
const NONCE_BYTES = 12;
/** Bytes of a master key, for AES-256. */
const KEY_BYTES = 32;
/** Imported signing keys kept in memory, a few hundred bytes each. */
const MOST_KEPT = 1_000;
/** Characters of sealed texts whose contents are kept in memory. */
const MOST_KEPT_CHARACTERS = 4_000_000;

export type Vault = Readonly<{
  /**
   * The text to store for a destination's secret.
   * @param content of anything but a signing secret
   */
  seal: (destination: string, secret: string, content?: SealedContent) => Promise<string>;
  /** The same secret, sealed with the first master key. */
  sealAgain: (destination: string, sealed: string) => Promise<string>;
  /** A signing secret itself, to compare it. */
  unseal: (destination: string, sealed: string) => Promise<string>;
  /** The key to sign with. Rejects when the stored text does not open for this destination, or is not a signing secret. */
  open: (destination: string, sealed: string) => Promise<SigningKey>;
  /**
   * Opens a text sealed as this content. Rejects when the stored text does not open for this destination, or is another.
   */
  openText: (destination: string, content: SealedContent, sealed: string) => Promise<string>;
  /** Whether the text was sealed with the first master key. */
  isCurrent: (sealed: string) => boolean;
}>;

/** An opened secret is kept while the isolate lives, so that sending decrypts it only once. */
export function vaultOf(keys: MasterKeys): Vault {
  const signingKeys = new Kept<SigningKey>(MOST_KEPT);
  const texts = new Kept<string>(MOST_KEPT_CHARACTERS);
  const unsealSecret = (destination: string, sealed: string) => unseal(keys, destination, sealed, schemes);
  return {
    seal: (destination, secret, content) => seal(keys, destination, secret, content),
    sealAgain: async (destination, sealed) => {
      const secret = await unseal(keys, destination, sealed, contents);
      return seal(keys, destination, secret, labelOf(sealed)?.content);
    },
    unseal: unsealSecret,
    open: (destination, sealed) =>
      signingKeys.get(`${destination} ${sealed}`, 1, () =>
        unsealSecret(destination, sealed).then(signingKey),
      ),
    openText: (destination, content, sealed) =>
      texts.get(`${destination} ${content} ${sealed}`, sealed.length, () =>
        unseal(keys, destination, sealed, [content]),
      ),
    isCurrent: (sealed) => labelOf(sealed)?.keyId === keys[0].id,
  };
}

/** Results by name: those used last, up to a total weight. A failed value is made again. */
class Kept<T> {
  readonly #most: number;
  readonly #entries = new Map<string, Readonly<{ result: Promise<T>; weight: number }>>();
  #weight = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get(name: string, weight: number, make: () => Promise<T>): Promise<T> {
    const known = this.#entries.get(name);
    const result = known?.result ?? make();
    // The most recently used stay: a Map keeps the order of insertion.
    this.#drop(name);
    this.#entries.set(name, { result, weight });
    this.#weight += weight;
    if (!known) result.catch(() => this.#drop(name));
    for (const oldest of this.#entries.keys()) if (this.#weight > this.#most) this.#drop(oldest);
    return result;
  }

  #drop(name: string): void {
    this.#weight -= this.#entries.get(name)?.weight ?? 0;
    this.#entries.delete(name);
  }
}

type Label = Readonly<{ content: SealedContent; keyId: string }>;

/** Seals a destination's secret with the first master key. */
export async function seal(
  keys: MasterKeys,
  destination: string,
  secret: string,
  content: SealedContent = schemeOf(secret),
): Promise<string> {
  const [key] = keys;
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  const label = `${content}.${key.id}`;
  const plain = new TextEncoder().encode(secret);
  const cipher = await crypto.subtle.encrypt(
    parameters(nonce, label, destination),
    await imported(key),
    plain,
  );
  return `${label}.${toBase64Url(new Uint8Array([...nonce, ...new Uint8Array(cipher)]))}`;
}

/**
 * The secret sealed for this destination. Throws, with nothing of it in the message, when it cannot be opened.
 * @param expected the contents that it may have
 */
export async function unseal(
  keys: MasterKeys,
  destination: string,
  sealed: string,
  expected: readonly string[],
): Promise<string> {
  const label = labelOf(sealed);
  const key = keys.find(({ id }) => id === label?.keyId);
  const bytes = fromBase64Url(sealed.slice(sealed.lastIndexOf(".") + 1));
  if (!label || !bytes) throw new Error("The secret is not sealed");
  if (!expected.includes(label.content)) throw new Error(`The secret is sealed as ${label.content}`);
  if (!key) throw new Error(`MASTER_KEYS has no key ${label.keyId}`);
  const [nonce, cipher] = [bytes.subarray(0, NONCE_BYTES), bytes.subarray(NONCE_BYTES)];
  const how = parameters(nonce, `${label.content}.${label.keyId}`, destination);
  try {
    return new TextDecoder().decode(await crypto.subtle.decrypt(how, await imported(key), cipher));
  } catch {
    throw new Error(`The secret was not sealed with the key ${label.keyId} for this destination`);
  }
}

/** The label of a sealed text, which is unverified until the text is opened; undefined for any other text. */
export function labelOf(sealed: string): Label | undefined {
  const [, content = "", keyId] = /^([a-z0-9-]+)\.([A-Za-z0-9_-]{1,32})\.[A-Za-z0-9_-]+$/.exec(sealed) ?? [];
  return keyId && contents.includes(content) ? { content: content as SealedContent, keyId } : undefined;
}

/** The scheme of a sealed signing secret, as its label has it; undefined for any other text. */
export function sealedScheme(sealed: string): Scheme | undefined {
  const label = labelOf(sealed);
  return schemes.find((scheme) => scheme === label?.content);
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

/**
 * A key for another purpose, derived from each master key in their order with HKDF (RFC 5869), in base64.
 * @param salt another secret, with which the derived keys change too
 */
export function derivedKeys(keys: MasterKeys, purpose: string, salt: string): Promise<string[]> {
  const encode = (text: string) => new TextEncoder().encode(text);
  const how = { name: "HKDF", hash: "SHA-256", salt: encode(salt), info: encode(`breakwater ${purpose}`) };
  return Promise.all(
    keys.map(async ({ bytes }) => {
      const secret = await crypto.subtle.importKey("raw", bytes, "HKDF", false, ["deriveBits"]);
      return toBase64(new Uint8Array(await crypto.subtle.deriveBits(how, secret, 256)));
    }),
  );
}

type MasterKey = Readonly<{
  /** Stored with everything that it seals. */
  id: string;
  bytes: Uint8Array<ArrayBuffer>;
}>;

/** At least one; the first seals. */
export type MasterKeys = readonly [MasterKey, ...MasterKey[]];

/** The fault of the text, to follow the variable's name; it repeats nothing of a key. */
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
