/**
 * A destination's signing secrets: rotation, and the public keys.
 *
 * After a rotation the new secret signs from the next batch on, and each previous one signs too until its overlap
 * ends, so that no delivery fails verification while the receiver changes over. With ed25519 the public keys are
 * published as a JSON Web Key Set (RFC 7517, 8037), which a receiver can fetch without an API key.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { MOST_PREVIOUS, type PreviousSecret, previousSecrets } from "../../core/credentials.ts";
import { formsOf } from "../../core/signature-forms.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { idParam, jsonAnswer, optionalJson, strict } from "../../http/parameters.ts";
import { invalid, notFound, type ProblemResponse, problem, problemResponses } from "../../http/problems.ts";
import { withinAnonymousLimit } from "../../http/rate-limit.ts";
import { faultOf } from "../../log.ts";
import { toBase64, toBase64Url } from "../../secrets/base64.ts";
import { fitsEveryForm, signingKey } from "../../secrets/signing.ts";
import { sealedScheme } from "../../secrets/vault.ts";
import type { Services } from "../../services.ts";
import { changeDestination, type Destination, findDestination } from "../../store/destinations.ts";
import { isoTime } from "../../time.ts";
import { changed } from "../audit/routes.ts";
import { destinationSchema, destinationView, secretInput, shownSecret } from "./schema.ts";
import { chosenSecret } from "./validate.ts";

export function registerDestinationRotation(api: Api): void {
  api.openapi(rotate, async (c) => {
    const services = c.get("services");
    const [{ id }, input, principal] = [c.req.valid("param"), c.req.valid("json"), c.get("principal")];
    const stored = await findDestination(services.db, id, principal.tenant);
    if (stored === undefined) return notFound("destination", id);
    const scheme = sealedScheme(stored.secret) ?? "hmac-sha256";
    const chosen = await chosenSecret(input, scheme, formsOf(stored.signatureForms));
    if ("errors" in chosen) return invalid(chosen.errors);
    const { secret } = chosen;
    const row = (await isSecret(services, stored, stored.secret, secret))
      ? stored
      : await rotated(services, stored, secret, input);
    if (row instanceof Response) return row;
    if (row !== stored) changed(c, "destination.secret_rotated", row);
    return c.json({ ...destinationView(row), ...(await showSecret(secret)) }, 200);
  });
}

/** Registered before authentication. */
export function registerDestinationKeys(api: Api): void {
  api.openapi(getKeys, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const row = await findDestination(services.db, id, undefined);
    if (row === undefined) return notFound("destination", id);
    const keys = await publicKeys(services, row);
    if (keys === undefined) return problem(503, "The keys cannot be read at the moment");
    return c.json({ keys }, 200, { "cache-control": `public, max-age=${MAX_AGE_S}` });
  });
}

const DAY_S = 86_400;
const OVERLAP_EXPECTED = `expected a whole number of seconds from 0 to ${7 * DAY_S}`;

const rotationSchema = strict({
  ...secretInput,
  overlap_s: z
    .int({ error: OVERLAP_EXPECTED })
    .min(0, { error: OVERLAP_EXPECTED })
    .max(7 * DAY_S, { error: OVERLAP_EXPECTED })
    .nullish()
    .openapi({
      description:
        "For how long the replaced secret still signs too; 86400 by default. 0 ends it, and those of earlier " +
        "rotations, at once.",
    }),
  secret_version: z.int({ error: "expected a whole number" }).optional().openapi({
    description: "The version to replace, so that a repeated request does not rotate twice.",
  }),
}).openapi("SecretRotation");

const rotate = createRoute({
  method: "post",
  path: "/v1/destinations/{id}/rotate-secret",
  summary: "Rotate a destination's secret",
  tags: ["Destinations"],
  description:
    "Each secret signs until its own overlap ends, even when the secret is rotated again before that: the current one " +
    `and at most ${MOST_PREVIOUS} previous ones. A further rotation is refused (409) until the first of them expires. ` +
    "With a secret of your own, or with `secret_version`, the request may be repeated. Signature forms with room for one " +
    "signature (`github`, `slack`, `shopify`, `template`) are signed with the new secret alone, from the next batch on.",
  middleware: [requires("admin", "rotate_secret"), jsonBody({ mayBeEmpty: true })],
  request: { params: idParam, body: optionalJson(rotationSchema) },
  responses: {
    200: jsonAnswer(
      destinationSchema.extend(shownSecret),
      "The destination, with its new secret; it is shown only here.",
    ),
    ...problemResponses(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

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
    description: "The same key in the form of Standard Webhooks.",
    example: "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
  }),
});

type Jwk = z.infer<typeof jwkSchema>;

const getKeys = createRoute({
  method: "get",
  path: "/v1/destinations/{id}/jwks.json",
  summary: "Show a destination's public keys",
  description:
    "For the receiver, which needs no API key: with `ed25519`, the keys that verify deliveries, the current one first. " +
    "With `hmac-sha256` there are none.",
  tags: ["Destinations"],
  security: [],
  middleware: [withinAnonymousLimit],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(
      z.object({ keys: z.array(jwkSchema) }).openapi("JsonWebKeySet"),
      "The public keys; an empty list for a destination with a shared secret.",
    ),
    ...problemResponses(404, 429, 503),
  },
});

/** The rotated row. The write requires that the secret to replace is still the current one. */
async function rotated(
  services: Services,
  stored: Destination,
  secret: string,
  { overlap_s: overlap, secret_version: version }: z.infer<typeof rotationSchema>,
): Promise<Destination | ProblemResponse<409>> {
  const { db, vault, now } = services;
  if (version !== undefined && version !== stored.secretVersion) return versionTaken(version, stored);
  const at = now();
  const previous = overlap === 0 ? [] : await stillSigning(services, stored, secret, at);
  if (previous.length >= MOST_PREVIOUS) return tooManyPrevious(previous, at);
  const replaced = { secret: stored.secret, expires_at: at + (overlap ?? DAY_S) * 1000 };
  const change = {
    secret: await vault.seal(stored.id, secret),
    secretVersion: stored.secretVersion + 1,
    previousSecrets: overlap === 0 ? [] : [replaced, ...previous],
    updatedAt: at,
  };
  const { signatureForms } = stored;
  const seen = { secret: stored.secret, ...(!fitsEveryForm(secret) && { signatureForms }) };
  const row = await changeDestination(db, stored.id, change, stored.tenant, seen);
  return row ?? problem(409, "The destination was changed at the same moment");
}

/** The previous secrets that still sign, without the new one, should it be one of them. */
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

function tooManyPrevious(previous: readonly PreviousSecret[], now: number) {
  const next = Math.min(...previous.map(({ expires_at: at }) => at));
  const detail = `${MOST_PREVIOUS} previous secrets still sign: rotate again at ${isoTime(next)}, or now with overlap_s 0, which ends them`;
  return problem(409, detail, undefined, { "retry-after": String(Math.ceil((next - now) / 1000)) });
}

/** Whether the sealed secret is this one. False when it cannot be opened: rotating is the way out of that. */
async function isSecret({ vault }: Services, { id }: Destination, sealed: string, secret: string) {
  return vault.unseal(id, sealed).then(
    (opened) => opened === secret,
    () => false,
  );
}

/** What is shown of a new secret: the shared secret, or the public half of a key pair. */
export async function showSecret(secret: string): Promise<{ secret?: string; public_key?: string }> {
  const { publicKey } = await signingKey(secret);
  return publicKey ? { public_key: `whpk_${toBase64(publicKey)}` } : { secret };
}

/**
 * Short, so that a rotation is seen long before an overlap of a day ends. Isolates do not cache the keys: a receiver that
 * looks again, because it met a key that it does not know, must find it.
 */
const MAX_AGE_S = 300;

/** The keys that verify deliveries now. Undefined when a stored secret cannot be opened. */
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
