/** The master keys of the tests, and secrets sealed with them as the API would store them. */
import { parseMasterKeys, vaultOf } from "../../src/secrets/vault.ts";

/** In the format of the binding; the Worker of the tests has the same. */
export const MASTER_KEYS = "test:dGhlIG1hc3RlciBrZXkgb2YgdGhlIHRlc3RzIG9ubHk=";

export function keysOf(text: string) {
  const keys = parseMasterKeys(text);
  if ("fault" in keys) throw new Error(keys.fault);
  return keys;
}

export const vault = vaultOf(keysOf(MASTER_KEYS));
