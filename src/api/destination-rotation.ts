/**
 * Rotating a destination's secret: a new one signs from the next batch on, and those before sign beside it
 * until the overlap of each ends, so that no delivery fails while the receiver changes over.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { isoTime } from "../iso-time.ts";
import { MOST_PREVIOUS, type PreviousSecret, previousSecrets } from "../policy/previous-secrets.ts";
import { labelOf } from "../secrets/seal.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destination-settings.ts";
import { changeDestination, findDestination } from "../store/destinations.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { destinationSchema } from "./destination-schema.ts";
import { chosenSecret, secretInput, shownSecret, showSecret } from "./destination-secret.ts";
import { destinationView } from "./destination-view.ts";
import { jsonBody } from "./json-body.ts";
import { invalid, noSuch, type ProblemResponse, problem, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer, optionalJson } from "./route-parts.ts";
import { strict } from "./strict.ts";

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
