/** Trying a dead delivery again, because a person says so. */
import { createRoute } from "@hono/zod-openapi";
import { scheduleDrainAtGate } from "../gate/gate-client.ts";
import { deliveryId, deliveryKey } from "../id.ts";
import { ageLimitOf } from "../policy/retry-policy.ts";
import type { Services } from "../services.ts";
import type { FoundDelivery } from "../store/deliveries-read.ts";
import { retryPolicyOf } from "../store/destination-settings.ts";
import { overBy } from "../store/over.ts";
import { findDelivery } from "../store/planned-deliveries.ts";
import { requeueDead } from "../store/reopen.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { showDeliveries } from "./deliveries-shown.ts";
import { deliverySchema } from "./delivery-schema.ts";
import { noSuch, problem, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer } from "./route-parts.ts";

const retryDelivery = createRoute({
  method: "post",
  path: "/v1/deliveries/{id}/retry",
  summary: "Try a dead delivery again",
  tags: ["Deliveries"],
  description:
    "A dead delivery waits again, with as many attempts and as much time as at first. Its log stays.",
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(deliverySchema, "The delivery: it waits for its gate."),
    ...problemResponses(401, 403, 404, 409),
  },
});

export function registerDeliveryRetry(api: Api): void {
  api.openapi(retryDelivery, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const key = deliveryKey(id);
    const found = key && (await findDelivery(services, key, c.get("principal").tenant, overBy(services)));
    if (!found) return noSuch("delivery", id);
    const retried = refusalOf(found) === undefined ? await retry(services, found) : undefined;
    const [shown] = await showDeliveries(services, retried ? [retried] : []);
    // Dead when it was looked up, and not any more: somebody else has let it wait.
    return shown ? c.json(shown, 200) : problem(409, refusalOf(found) ?? UNDER_WAY);
  });
}

const UNDER_WAY = "The delivery is under way: it is tried again without being told to";

/** Why this delivery cannot be retried; undefined when it can. */
function refusalOf(found: FoundDelivery): string | undefined {
  if (!found.destination || found.destination.deletedAt !== null) {
    return "The delivery's destination is deleted: there is nowhere to send it";
  }
  switch (found.kind === "stored" ? found.row.state : "queued") {
    case "dead":
      return undefined;
    case "delivered":
      return 'The delivery has been delivered; a replay with include "delivered" sends it once more';
    case "cancelled":
      return "The delivery has been cancelled";
    default:
      return UNDER_WAY;
  }
}

/** The delivery as it waits now; undefined when it was not dead any more. */
async function retry(services: Services, found: FoundDelivery): Promise<FoundDelivery | undefined> {
  const { now, log } = services;
  const policy = retryPolicyOf(found.destination ?? { retry: null });
  const row = await requeueDead(services, found, ageLimitOf(policy, null, now()));
  if (row === undefined) return undefined;
  const { eventId, destinationId } = found;
  log({ what: "delivery_retried", delivery: deliveryId(eventId, destinationId), destination: destinationId });
  // Should the bell not be heard: the sweep rings for whatever waits.
  services.background(scheduleDrainAtGate(services, found.destinationId));
  return { ...found, kind: "stored", row };
}
