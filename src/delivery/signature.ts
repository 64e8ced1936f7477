/**
 * The signature of an attempt: Standard Webhooks, with HMAC (`v1`) or ed25519 (`v1a`). After a rotation the previous
 * secrets sign too until they expire, so that a receiver can change over at any time.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import { previousSecrets } from "../core/credentials.ts";
import type { Destination } from "../db/destinations.ts";
import type { SigningKey } from "../secrets/signing.ts";
import type { Vault } from "../secrets/vault.ts";

/**
 * Signs one attempt: the id and the body are the same on every attempt, the timestamp is this one's.
 * @param at epoch ms; sent as whole seconds
 */
export type Signer = (id: string, body: string, at: number) => Promise<Record<string, string>>;

type Signing = Pick<Destination, "id" | "secret" | "previousSecrets">;

/** Opens the secrets that the destination signs with at `now`. Rejects when one cannot be opened. */
export async function signerFor(vault: Vault, destination: Signing, now: number): Promise<Signer> {
  const { id, secret, previousSecrets: stored } = destination;
  const sealed = [{ secret, expires_at: Number.POSITIVE_INFINITY }, ...previousSecrets(stored, now)];
  const keys = await Promise.all(
    sealed.map(async ({ secret, expires_at: until }) => ({ key: await vault.open(id, secret), until })),
  );
  return (event, body, at) => {
    const signing = keys.filter(({ until }) => until > at).map(({ key }) => key);
    return signatureHeaders(event, body, at, signing);
  };
}

async function signatureHeaders(id: string, body: string, at: number, keys: readonly SigningKey[]) {
  const timestamp = String(Math.floor(at / 1000));
  const signatures = await Promise.all(keys.map((key) => key.sign(`${id}.${timestamp}.${body}`)));
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": signatures.join(" "),
  };
}
