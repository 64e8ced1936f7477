/**
 * The signing secret that a caller supplies, or has made: what is well-formed, and what is shown of it. It
 * is shown once, in the answer that begins its use. Of an ed25519 key nobody needs the private half: only
 * the public one is shown.
 */
import { z } from "@hono/zod-openapi";
import { toBase64 } from "../secrets/base64.ts";
import { signingKey } from "../secrets/signing-key.ts";
import { newSecret, type Scheme, schemeOf, schemes, secretBytes } from "../secrets/signing-secret.ts";
import type { FieldError } from "./field-errors.ts";

const EXPECTED = "whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an ed25519 key";

const wellFormed = z
  .string({ error: `expected ${EXPECTED}` })
  .refine((text) => secretBytes(text) !== undefined, { error: `expected ${EXPECTED}` });

/** The fields by which a caller says what is to be signed with. */
export const secretInput = {
  secret: wellFormed.nullish().openapi({
    description: "The signing secret, `whsec_…` or `whsk_…`; made for you when left out.",
  }),
  signature: z.enum(schemes).nullish().openapi({
    description: "`hmac-sha256` signs with a shared secret (v1), `ed25519` with a key pair (v1a).",
  }),
};

/** What the answer that begins a secret's use shows of it. */
export const shownSecret = {
  secret: z.string().optional().openapi({
    description: "The shared secret, this once.",
    example: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
  }),
  public_key: z.string().optional().openapi({ description: "With ed25519: whpk_ and the public key." }),
};

type Input = Readonly<{ secret?: string | null | undefined; signature?: Scheme | null | undefined }>;
type Chosen = Readonly<{ secret: string }> | Readonly<{ errors: readonly FieldError[] }>;

/** The caller's own secret, or a new one of the kind that was asked for, or of the kind `otherwise`. */
export async function chosenSecret({ secret, signature }: Input, otherwise: Scheme): Promise<Chosen> {
  if (!secret) return { secret: newSecret(signature ?? otherwise) };
  if (signature && signature !== schemeOf(secret)) {
    return {
      errors: [{ field: "secret", fault: `is for ${schemeOf(secret)}`, expected: `one for ${signature}` }],
    };
  }
  const isPair = await signingKey(secret).then(
    () => true,
    () => false,
  );
  const fault = "joins halves of different keys";
  return isPair ? { secret } : { errors: [{ field: "secret", fault, expected: EXPECTED }] };
}

/** Shows a secret whose use begins, this once. */
export async function showSecret(secret: string): Promise<{ secret?: string; public_key?: string }> {
  const { publicKey } = await signingKey(secret);
  return publicKey ? { public_key: `whpk_${toBase64(publicKey)}` } : { secret };
}
