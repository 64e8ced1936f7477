/** API keys: creating and hashing them, and their principals. */
import { isInForce, keyToken } from "../../core/credentials.ts";
import type { Principal } from "../../core/principal.ts";
import { type Scope, scopes } from "../../core/scopes.ts";
import { newKeyId, randomText } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { type KeyCredentials, lookUpKey } from "./sql.ts";

/** The scopes of a stored key. What was edited into something else grants nothing. */
export function scopesIn(stored: unknown): Scope[] {
  return scopes.filter((scope) => Array.isArray(stored) && stored.includes(scope));
}

/** The principal of a stored key. */
export function principalOfCredentials(key: KeyCredentials): Principal {
  const { id, tenant, scopes: stored, destination, expiresAt, confirm } = key;
  return {
    key: id,
    scopes: scopesIn(stored),
    ...(tenant !== null && { tenant }),
    ...(destination !== null && { destination }),
    ...(expiresAt !== null && { expiresAt }),
    ...(confirm !== null && { confirm: true }),
  };
}

/** The principal of a stored key as it is now; undefined if the key is revoked, expired or unknown. */
export async function principalOfKey({ db, now }: Services, id: string): Promise<Principal | undefined> {
  const { key } = await lookUpKey(db, id);
  return key && isInForce(key, now()) ? principalOfCredentials(key) : undefined;
}

const SECRET_CHARACTERS = 32;

/** A new API key. `token` is shown to its owner once and not stored; `hash` is stored. */
export async function newKey(): Promise<Readonly<{ id: string; token: string; hash: string }>> {
  const id = newKeyId();
  const token = keyToken(id, randomText(SECRET_CHARACTERS));
  return { id, token, hash: new Uint8Array(await keyDigest(token)).toHex() };
}

/** Whether the stored hash is this digest, in constant time. One that was edited into something else matches none. */
export function isKeyHash(hash: string, digest: ArrayBuffer): boolean {
  const [stored, right] = [encoder.encode(hash), encoder.encode(new Uint8Array(digest).toHex())];
  return stored.byteLength === right.byteLength && crypto.subtle.timingSafeEqual(stored, right);
}

const encoder = new TextEncoder();

export function keyDigest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", encoder.encode(text));
}
