/**
 * Rotating a destination's secret: a new one signs from the next batch on, and the one before signs beside
 * it until the overlap ends, so that no delivery fails while the receiver changes over.
 */
import { createRoute, z } from "@hono/zod-openapi";
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
import { invalid, noSuch, problem, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer, jsonRequest } from "./route-parts.ts";
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
      description: "How long the secret before signs as well; 86400 by default, 0 ends it at once.",
    }),
}).openapi("SecretRotation");

const rotate = createRoute({
  method: "post",
  path: "/v1/destinations/{id}/rotate-secret",
  summary: "Rotate a destination's secret",
  tags: ["Destinations"],
  description:
    "Only the current and the one before ever sign: rotating again during an overlap ends the older one. With a secret of your own the request may be repeated.",
  middleware: [requires("admin"), jsonBody()],
  request: { params: idParam, body: jsonRequest(rotationSchema) },
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
    const overlapMs = (input.overlap_seconds ?? DAY_S) * 1000;
    const row = await rotated(services, stored, chosen.secret, overlapMs);
    if (row === undefined) return problem(409, "The destination was changed at the same moment");
    return c.json({ ...destinationView(row, principal), ...(await showSecret(chosen.secret)) }, 200);
  });
}

/** One write, while the secret that is to sign beside the new one is still the current one. */
async function rotated(
  services: Services,
  stored: Destination,
  secret: string,
  overlapMs: number,
): Promise<Destination | undefined> {
  const { db, vault, now } = services;
  if (await isCurrent(services, stored, secret)) return stored;
  const previous =
    overlapMs > 0
      ? { previousSecret: stored.secret, previousSecretExpiresAt: now() + overlapMs }
      : { previousSecret: null, previousSecretExpiresAt: null };
  const change = { secret: await vault.seal(stored.id, secret), ...previous, updatedAt: now() };
  return changeDestination(db, stored.id, change, stored.tenant, { secret: stored.secret });
}

/** A secret that cannot be opened is nobody's current one: rotating is the way out of that. */
async function isCurrent({ vault }: Services, stored: Destination, secret: string): Promise<boolean> {
  return vault.unseal(stored.id, stored.secret).then(
    (current) => current === secret,
    () => false,
  );
}
