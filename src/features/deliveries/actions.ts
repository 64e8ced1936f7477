/** What may be done to deliveries: sending them again. */

import { createRoute, z } from "@hono/zod-openapi";
import { missing, type Refused } from "../../core/result.ts";
import { ageLimitOf } from "../../core/retry/policy.ts";
import { scheduleDrainAtGate } from "../../gate/client.ts";
import { requires } from "../../http/auth.ts";
import type { Api, ApiContext } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { idParam, jsonAnswer, jsonRequest, strict } from "../../http/parameters.ts";
import { answerOf, problemOf, problemResponses, problemSchema } from "../../http/problems.ts";
import { deliveryId, deliveryKey } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { requeueEnded } from "../../store/deliveries.ts";
import type { DeliveryKey } from "../../store/delivery.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { FoundDelivery } from "../../store/delivery-list.ts";
import { retryPolicyOf } from "../../store/destinations.ts";
import { findDelivery } from "../../store/planned-deliveries.ts";
import { changed } from "../audit/routes.ts";
import { deliverySchema, showDeliveries } from "./routes.ts";

export function registerDeliveryActions(api: Api): void {
  api.openapi(retryDelivery, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const [result] = await sendAgain(services, [id], c.get("principal").tenant);
    if (result?.requeued === undefined) return answerOf(result?.refusal ?? missing("delivery", id));
    retried(c, [result]);
    const [shown] = await showDeliveries(services, [result.requeued]);
    return shown ? c.json(shown, 200) : answerOf(missing("delivery", id));
  });

  api.use(retryDeliveries.path, async (c, next) => (c.req.method === "POST" ? next() : c.notFound()));
  api.openapi(retryDeliveries, async (c) => {
    const services = c.get("services");
    const ids = [...new Set(c.req.valid("json").delivery_ids)];
    const results = await sendAgain(services, ids, c.get("principal").tenant);
    retried(c, results);
    const shown = await showDeliveries(
      services,
      results.flatMap(({ requeued }) => requeued ?? []),
    );
    const byId = new Map(shown.map((one) => [one.id, one]));
    const data = results.map(({ id, refusal }) => {
      const delivery = byId.get(id);
      return { id, ...(delivery && { delivery }), ...(refusal && { problem: problemOf(refusal) }) };
    });
    return c.json({ data }, 200);
  });
}

const tags = ["Deliveries"];

const retryDelivery = createRoute({
  method: "post",
  path: "/v1/deliveries/{id}/retry",
  summary: "Send a delivery again",
  tags,
  description:
    "Requeues a delivery that has ended, however it ended, with as many attempts and as much time as a new one. The " +
    "receiver gets the same id and the same bytes with a fresh signature, and `webhook-attempt` begins at 1 again. Its " +
    "log is kept. A delivery that has not ended is refused with 409.",
  middleware: [requires("admin", "resend")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(deliverySchema, "The delivery: it waits for its turn."),
    ...problemResponses(401, 403, 404, 409),
  },
});

/** Deliveries of one request: as many as a page of a list has. */
const MOST = 100;
const IDS_EXPECTED = `expected a list of 1 to ${MOST} ids of deliveries`;

const idList = strict({
  delivery_ids: z
    .array(z.string({ error: "expected the id of a delivery" }), { error: IDS_EXPECTED })
    .min(1, { error: IDS_EXPECTED })
    .max(MOST, { error: IDS_EXPECTED })
    .openapi({ description: "An id that is given twice counts once." }),
}).openapi("DeliveryIds");

const retryResults = z
  .object({
    data: z
      .array(
        z.object({
          id: z.string(),
          delivery: deliverySchema
            .optional()
            .openapi({ description: "The delivery: it waits for its turn." }),
          problem: problemSchema
            .optional()
            .openapi({ description: "Why it is not sent again, as the answer about it alone would say." }),
        }),
      )
      .openapi({ description: "For each delivery, in the order given, either `delivery` or `problem`." }),
  })
  .openapi("DeliveryRetries");

const retryDeliveries = createRoute({
  method: "post",
  path: "/v1/deliveries/retry",
  summary: "Send several deliveries again",
  tags,
  description: `The same for up to ${MOST} deliveries. Each is requeued or refused by itself.`,
  middleware: [requires("admin", "resend"), jsonBody()],
  request: { body: jsonRequest(idList) },
  responses: {
    200: jsonAnswer(retryResults, "What became of each."),
    ...problemResponses(400, 401, 403, 413, 415, 422),
  },
});

/** What became of the request to send one delivery again: one of the two. */
type SentAgain = Readonly<{
  id: string;
  requeued?: FoundDelivery;
  refusal?: Refused<"not_found" | "conflict">;
}>;

/** Says in the audit trail which have been requeued. */
function retried(c: ApiContext, results: readonly SentAgain[]): void {
  for (const { id, requeued } of results)
    if (requeued) changed(c, "delivery.retried", { id, tenant: requeued.destination?.tenant ?? null });
}

const UNDER_WAY = "The delivery has not ended: it is attempted again without a request";

/** Requeues those of the deliveries that have ended and that the tenant may see. In the order of the ids. */
async function sendAgain(
  services: Services,
  ids: readonly string[],
  tenant: string | undefined,
): Promise<readonly SentAgain[]> {
  const over = overBy(services);
  const found = await Promise.all(
    ids.map(async (id) => {
      const key = deliveryKey(id);
      return key && (await findDelivery(services, key, tenant, over));
    }),
  );
  const refusals = found.map((one) => one && refusalOf(one));
  const requeued = await requeue(
    services,
    found.flatMap((one, i) => (one && refusals[i] === undefined ? [one] : [])),
  );
  return ids.map((id, i) => {
    const one = found[i];
    if (one === undefined) return { id, refusal: missing("delivery", id) };
    const row = requeued.get(nameOf(one));
    if (row) return { id, requeued: { ...one, kind: "stored", row } };
    // It had ended when it was looked up, and no longer has: another request has requeued it.
    return { id, refusal: { kind: "conflict", detail: refusals[i] ?? UNDER_WAY } };
  });
}

/** Why this delivery cannot be sent again; undefined when it can. */
function refusalOf(found: FoundDelivery): string | undefined {
  if (found.isErased) return "The event's content has been erased: there is nothing to send";
  if (!found.destination || found.destination.deletedAt !== null)
    return "The delivery's destination is deleted: there is nowhere to send it";
  if (found.kind !== "stored" || found.row.state === "waiting" || found.row.state === "retrying")
    return UNDER_WAY;
  return found.row.reason === "event_removed" ? "The delivery's event was removed by hand" : undefined;
}

const nameOf = ({ eventId, destinationId }: DeliveryKey) => `${eventId} ${destinationId}`;

/** Requeues the deliveries that have still ended; returns their rows by name. */
async function requeue(services: Services, found: readonly FoundDelivery[]) {
  const { now, log } = services;
  const ended = found.flatMap((one) => {
    if (one.kind !== "stored") return [];
    const policy = retryPolicyOf(one.destination ?? { retry: null });
    return [{ ...one.row, giveUpAt: ageLimitOf(policy, null, now()) }];
  });
  const rows = ended.length === 0 ? [] : await requeueEnded(services, ended);
  for (const { eventId, destinationId } of rows)
    log({
      what: "delivery_retried",
      delivery: deliveryId(eventId, destinationId),
      destination: destinationId,
    });
  // Should this fail: the sweep schedules a drain for whatever waits.
  for (const destination of new Set(rows.map(({ destinationId }) => destinationId)))
    services.background(scheduleDrainAtGate(services, destination));
  return new Map(rows.map((row) => [nameOf(row), row]));
}
