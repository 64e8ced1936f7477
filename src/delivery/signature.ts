/**
 * The signatures of an attempt, in the forms that its destination has chosen (core/signature-forms.ts). After a
 * rotation the previous secrets sign too until they expire, so that a receiver can change over at any time; in a form
 * that has room for one signature, only the newest secret signs.
 */
import { previousSecrets } from "../core/credentials.ts";
import {
  formsOf,
  type Recipe,
  recipeOf,
  type Signed,
  signatureHeaders,
  signedTexts,
} from "../core/signature-forms.ts";
import type { SigningKey } from "../secrets/signing.ts";
import type { Vault } from "../secrets/vault.ts";
import type { Destination } from "../store/destination.ts";

/**
 * Signs one attempt: id, type and body are the same on every attempt, the timestamp is this one's.
 * @param at epoch ms; sent as whole seconds
 */
export type Signer = (event: SignedEvent, at: number) => Promise<Record<string, string>>;

type SignedEvent = Omit<Signed, "timestamp"> & Readonly<{ body: Uint8Array }>;

type Signing = Pick<Destination, "id" | "secret" | "previousSecrets" | "signatureForms">;

/**
 * Opens the secrets that the destination signs with at `now`. Rejects when one cannot be opened, or the current one
 * cannot sign in all of the forms, as after an edit by hand.
 */
export async function signerFor(vault: Vault, destination: Signing, now: number): Promise<Signer> {
  const { id, secret, previousSecrets: stored, signatureForms } = destination;
  const recipes = formsOf(signatureForms).map(recipeOf);
  const sealed = [{ secret, expires_at: Number.POSITIVE_INFINITY }, ...previousSecrets(stored, now)];
  const keys = await Promise.all(
    sealed.map(async ({ secret, expires_at: until }) => ({ key: await vault.open(id, secret), until })),
  );
  for (const recipe of recipes)
    if (!keys.slice(0, 1).every(({ key }) => canSign(key, recipe)))
      throw new Error(`The secret cannot sign for ${recipe.header}`);
  return async ({ id, type, body }, at) => {
    const signed = { id, type, timestamp: String(Math.floor(at / 1000)) };
    const signing = keys.filter(({ until }) => until > at).map(({ key }) => key);
    const headers = { "webhook-id": signed.id, "webhook-timestamp": signed.timestamp };
    for (const recipe of recipes) Object.assign(headers, await headersFor(recipe, signed, body, signing));
    return headers;
  };
}

function canSign({ hmac }: SigningKey, { takesKeyPairs }: Recipe): boolean {
  return hmac !== undefined || takesKeyPairs === true;
}

const encoder = new TextEncoder();
/** The most bytes that a character of a JavaScript string takes. */
const UTF8_BYTES = 3;

async function headersFor(recipe: Recipe, signed: Signed, body: Uint8Array, keys: readonly SigningKey[]) {
  const content = contentOf(signedTexts(recipe, signed), body);
  const able = keys.filter((key) => canSign(key, recipe));
  const signing = recipe.separator === undefined ? able.slice(0, 1) : able;
  const signatures: string[] = [];
  for (const { sign, hmac } of signing)
    signatures.push(
      recipe.takesKeyPairs || !hmac
        ? await sign(content)
        : recipe.version + (await hmac(content, recipe.digest)),
    );
  return signatureHeaders(recipe, signed, signatures);
}

/** The body between the texts: one buffer, because each is work for the garbage collector. */
function contentOf([before, after]: readonly [string, string], body: Uint8Array): Uint8Array<ArrayBuffer> {
  const longest = UTF8_BYTES * (before.length + after.length) + body.byteLength;
  const content = new Uint8Array(longest);
  const bodyAt = encoder.encodeInto(before, content).written;
  content.set(body, bodyAt);
  const afterAt = bodyAt + body.byteLength;
  return content.subarray(0, afterAt + encoder.encodeInto(after, content.subarray(afterAt)).written);
}

/** Matches what may be a signature, without the known parts of its header. No event id is as long. */
const SIGNATURE = /[\w+/-]{27,}={0,2}/g;

/**
 * The parts of a request that only its receiver may see, besides credentials: the headers that the event was posted
 * with, and signatures, alone and with the rest of their header.
 * @param sent the headers of the request, in lower case
 */
export function sentSecrets(
  sent: Readonly<Record<string, string>>,
  posted: Readonly<Record<string, string>> = {},
  { signatureForms }: Pick<Destination, "signatureForms">,
): readonly string[] {
  const signatures = formsOf(signatureForms).map((form) => sent[recipeOf(form).header] ?? "");
  const alone = signatures.flatMap((value) => value.match(SIGNATURE) ?? []);
  return [...Object.values(posted), ...signatures, ...alone];
}
