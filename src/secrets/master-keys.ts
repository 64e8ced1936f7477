/**
 * The master keys that destinations' secrets are sealed with, as `MASTER_KEYS` writes them: `id:base64`, or
 * several of them with commas between. The first seals; all of them open. So a key is replaced by putting
 * a new one before it, sealing everything anew, and taking the old one away.
 */
import { fromBase64 } from "./base64.ts";

export type MasterKey = Readonly<{
  /** Stored with everything that it seals. */
  id: string;
  /** 32, for AES-256. */
  bytes: Uint8Array<ArrayBuffer>;
}>;

/** At least one; the first seals. */
export type MasterKeys = readonly [MasterKey, ...MasterKey[]];

/** What is wrong with the text, to follow the variable's name; it never repeats any of the key. */
export type MasterKeysFault = Readonly<{ fault: string }>;

const KEY_BYTES = 32;

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
