/**
 * Where destinations' secrets are sealed and opened. What was opened is kept in memory for as long as the
 * isolate lives and there is room, so that signing a batch costs no decryption after the first.
 */
import type { MasterKeys } from "./master-keys.ts";
import { labelOf, seal, unseal } from "./seal.ts";
import { type SigningKey, signingKey } from "./signing-key.ts";

export type Vault = Readonly<{
  /** The text to store for a destination's signing secret. */
  seal: (destination: string, secret: string) => Promise<string>;
  /** The secret itself: to seal it anew, or to compare it. */
  unseal: (destination: string, sealed: string) => Promise<string>;
  /** The key to sign with. Rejects when the stored text does not open for this destination. */
  open: (destination: string, sealed: string) => Promise<SigningKey>;
  /** Whether the text was sealed with the key that seals today. */
  isCurrent: (sealed: string) => boolean;
}>;

/** Opened keys kept in memory: a few hundred bytes each. */
const KEPT = 1_000;

export function vaultOf(keys: MasterKeys): Vault {
  const opened = new Map<string, Promise<SigningKey>>();

  function open(destination: string, sealed: string): Promise<SigningKey> {
    const name = `${destination} ${sealed}`;
    const key = opened.get(name) ?? unseal(keys, destination, sealed).then(signingKey);
    // The last used stay: a Map keeps the order of insertion.
    opened.delete(name);
    opened.set(name, key);
    key.catch(() => opened.delete(name));
    for (const oldest of opened.keys()) if (opened.size > KEPT) opened.delete(oldest);
    return key;
  }

  return {
    seal: (destination, secret) => seal(keys, destination, secret),
    unseal: (destination, sealed) => unseal(keys, destination, sealed),
    open,
    isCurrent: (sealed) => labelOf(sealed)?.keyId === keys[0].id,
  };
}
