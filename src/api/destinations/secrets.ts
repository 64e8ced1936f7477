/**
 * Rotating a destination's secret: a new one signs from the next batch on, and those before sign beside it
 * until the overlap of each ends, so that no delivery fails while the receiver changes over.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { MOST_PREVIOUS, type PreviousSecret, previousSecrets } from "../../core/credentials.ts";
import { changeDestination, type Destination, findDestination } from "../../db/destinations.ts";
import { faultOf } from "../../log.ts";
import { toBase64, toBase64Url } from "../../secrets/base64.ts";
import { newSecret, type Scheme, schemeOf, signingKey } from "../../secrets/signing.ts";
import { labelOf } from "../../secrets/vault.ts";
import type { Services } from "../../services.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import type { Api } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { idParam, jsonAnswer, optionalJson, strict } from "../parameters.ts";
import {
  type FieldError,
  invalid,
  noSuch,
  type ProblemResponse,
  problem,
  problemResponses,
} from "../problems.ts";
import { destinationSchema, destinationView, secretInput } from "./schema.ts";

// §§ The signing secret that a caller supplies, or has made: what is well-formed, and what is shown of it. It
// is shown once, in the answer that begins its use. Of an ed25519 key nobody needs the private half: only
// the public one is shown.

const EXPECTED = "whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an ed25519 key";

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

const DAY_S = 86_400;
const OVERLAP_EXPECTED = `expected a whole number of seconds from 0 to ${7 * DAY_S}`;

const rotationSchema = strict({
  ...secretInput,
  overlap_seconds: z
    .int({ error: OVERLAP_EXPECTED })
    .min(0, { error: OVERLAP_EXPECTED })
    .max(7 * DAY_S, { error: OVERLAP_EXPECTED })
    .nullish()
    .openapi({
      description:
        "How long the secret that is replaced signs as well; 86400 by default. 0 leaves only the new one: those of " +
        "earlier rotations end with it.",
    }),
  secret_version: z.int({ error: "expected a whole number" }).optional().openapi({
    description:
      "The version that is to be replaced, so that a request that is repeated makes no second secret.",
  }),
}).openapi("SecretRotation");

const rotate = createRoute({
  method: "post",
  path: "/v1/destinations/{id}/rotate-secret",
  summary: "Rotate a destination's secret",
  tags: ["Destinations"],
  description:
    "Each secret signs until its own overlap ends, also when it is rotated again before that: the current one and " +
    `${MOST_PREVIOUS} before it at most. One more is refused (409) until the first of them ends. With a secret of your ` +
    "own, or with secret_version, the request may be repeated.",
  middleware: [requires("admin"), jsonBody({ mayBeEmpty: true })],
  request: { params: idParam, body: optionalJson(rotationSchema) },
  responses: {
    200: jsonAnswer(destinationSchema.extend(shownSecret), "The destination, and its new secret this once."),
    ...problemResponses(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

export function registerDestinationRotation(api: Api): void {
  api.openapi(rotate, async (c) => {
    const services = c.get("services");
    const [{ id }, input, principal] = [c.req.valid("param"), c.req.valid("json"), c.get("principal")];
    const stored = await findDestination(services.db, id, principal.tenant);
    if (stored === undefined) return noSuch("destination", id);
    const chosen = await chosenSecret(input, labelOf(stored.secret)?.scheme ?? "hmac-sha256");
    if ("errors" in chosen) return invalid(chosen.errors);
    const { secret } = chosen;
    const row = (await isSecret(services, stored, stored.secret, secret))
      ? stored
      : await rotated(services, stored, secret, input);
    if (row instanceof Response) return row;
    return c.json({ ...destinationView(row, principal), ...(await showSecret(secret)) }, 200);
  });
}

/** One write, while the secret that is to sign beside the new one is still the current one. */
async function rotated(
  services: Services,
  stored: Destination,
  secret: string,
  { overlap_seconds: overlap, secret_version: version }: z.infer<typeof rotationSchema>,
): Promise<Destination | ProblemResponse<409>> {
  const { db, vault, now } = services;
  if (version !== undefined && version !== stored.secretVersion) return versionTaken(version, stored);
  const at = now();
  const previous = overlap === 0 ? [] : await stillSigning(services, stored, secret, at);
  if (previous.length >= MOST_PREVIOUS) return tooMany(previous, at);
  const replaced = { secret: stored.secret, expires_at: at + (overlap ?? DAY_S) * 1000 };
  const change = {
    secret: await vault.seal(stored.id, secret),
    secretVersion: stored.secretVersion + 1,
    previousSecrets: overlap === 0 ? [] : [replaced, ...previous],
    updatedAt: at,
  };
  const row = await changeDestination(db, stored.id, change, stored.tenant, { secret: stored.secret });
  return row ?? problem(409, "The destination was changed at the same moment");
}

/** What signed before and still does, but for the one that is taken up again: it signs as the current one. */
async function stillSigning(services: Services, stored: Destination, secret: string, at: number) {
  const kept = await Promise.all(
    previousSecrets(stored.previousSecrets, at).map(async (each) =>
      (await isSecret(services, stored, each.secret, secret)) ? [] : [each],
    ),
  );
  return kept.flat();
}

function versionTaken(version: number, { secretVersion }: Destination) {
  const [fault, expected] = [`is ${version}`, `the current ${secretVersion}`];
  const detail = `The secret has been rotated already: secret_version ${fault}; expected ${expected}`;
  return problem(409, detail, [{ field: "secret_version", fault, expected }]);
}

function tooMany(previous: readonly PreviousSecret[], now: number) {
  const next = Math.min(...previous.map(({ expires_at: at }) => at));
  const detail = `${MOST_PREVIOUS} secrets before this one still sign: the next rotation may be made at ${isoTime(next)}, or now with overlap_seconds 0, which ends them`;
  return problem(409, detail, undefined, { "retry-after": String(Math.ceil((next - now) / 1000)) });
}

/** Whether that is sealed there. A secret that cannot be opened is nobody's: rotating is the way out of that. */
async function isSecret({ vault }: Services, { id }: Destination, sealed: string, secret: string) {
  return vault.unseal(id, sealed).then(
    (opened) => opened === secret,
    () => false,
  );
}

// §§ The public keys of a destination that is signed for with ed25519, as a JSON Web Key Set (RFC 7517, 8037):
// whoever receives its deliveries can fetch what verifies them, without a key of ours. During a rotation
// the keys before are there as well, the current one first.

/** Short enough for a rotation to be seen long before an overlap of a day ends. */
const CACHED_S = 300;

const jwkSchema = z.object({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  alg: z.literal("EdDSA"),
  use: z.literal("sig"),
  kid: z.string().openapi({
    description: "The key's thumbprint (RFC 7638).",
    example: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
  }),
  x: z.string().openapi({
    description: "The 32 bytes of the key, in base64url.",
    example: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
  }),
  whpk: z.string().openapi({
    description: "The same key as Standard Webhooks writes it.",
    example: "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
  }),
});

type Jwk = z.infer<typeof jwkSchema>;

const getKeys = createRoute({
  method: "get",
  path: "/v1/destinations/{id}/jwks.json",
  summary: "Show a destination's public keys",
  description: "For its receiver, who needs no key for it. Only with `ed25519` there are any.",
  tags: ["Destinations"],
  security: [],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(
      z.object({ keys: z.array(jwkSchema) }).openapi("JsonWebKeySet"),
      "The public keys; none for a destination that is signed for with a shared secret.",
    ),
    ...problemResponses(404, 503),
  },
});

/** Registered before authentication. */
export function registerDestinationKeys(api: Api): void {
  api.openapi(getKeys, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const row = await findDestination(services.db, id, undefined);
    if (row === undefined) return noSuch("destination", id);
    const keys = await publicKeys(services, row);
    if (keys === undefined) return problem(503, "The keys cannot be read at the moment");
    return c.json({ keys }, 200, { "cache-control": `public, max-age=${CACHED_S}` });
  });
}

/** Undefined when what is stored does not open. */
async function publicKeys({ vault, log, now }: Services, row: Destination): Promise<Jwk[] | undefined> {
  const sealed = [row, ...previousSecrets(row.previousSecrets, now())].map(({ secret }) => secret);
  try {
    const opened = await Promise.all(sealed.map((text) => vault.open(row.id, text)));
    return Promise.all(opened.flatMap(({ publicKey }) => (publicKey ? [jwkOf(publicKey)] : [])));
  } catch (error) {
    log({ what: "secret_unreadable", destination: row.id, error: faultOf(error) });
    return undefined;
  }
}

async function jwkOf(publicKey: Uint8Array): Promise<Jwk> {
  const x = toBase64Url(publicKey);
  // The members that RFC 8037 requires, in the order of RFC 7638.
  const required = new TextEncoder().encode(JSON.stringify({ crv: "Ed25519", kty: "OKP", x }));
  const thumbprint = new Uint8Array(await crypto.subtle.digest("SHA-256", required));
  const whpk = `whpk_${toBase64(publicKey)}`;
  return { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid: toBase64Url(thumbprint), x, whpk };
}
