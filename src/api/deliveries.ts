/** Deliveries: listed and read. */
import { createRoute, z } from "@hono/zod-openapi";
import { deliveryKey } from "../id.ts";
import { type DeliveryFilter, type DeliveryPage, storedDeliveries } from "../store/deliveries-read.ts";
import { findDelivery, queuedDeliveries } from "../store/planned-deliveries.ts";
import type { StoredState } from "../store/schema.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { showDeliveries } from "./deliveries-shown.ts";
import { deliverySchema, deliveryStates } from "./delivery-schema.ts";
import { cursorParam, encodeCursor, limitParam, pageOf } from "./paging.ts";
import { noSuch, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer } from "./route-parts.ts";
import { strict } from "./strict.ts";

const tags = ["Deliveries"];
const deliveryCursor = z
  .tuple([z.string(), z.int().positive()])
  .transform(([destinationId, eventId]) => ({ destinationId, eventId }));

const getDeliveries = createRoute({
  method: "get",
  path: "/v1/deliveries",
  tags,
  description:
    "By destination and event, descending; of one destination, the newest event first. Deliveries that no " +
    "attempt has been made of are listed by state=queued alone: the newest event first, and pages may be short.",
  middleware: [requires("read")],
  request: {
    query: strict({
      destination_id: z.string().optional(),
      state: z.enum(deliveryStates).optional(),
      limit: limitParam,
      cursor: cursorParam(deliveryCursor),
    }),
  },
  responses: {
    200: jsonAnswer(pageOf(deliverySchema), "A page of deliveries."),
    ...problemResponses(401, 403, 422),
  },
});

const getDelivery = createRoute({
  method: "get",
  path: "/v1/deliveries/{id}",
  tags,
  middleware: [requires("read")],
  request: { params: idParam },
  responses: { 200: jsonAnswer(deliverySchema, "The delivery."), ...problemResponses(401, 403, 404) },
});

export function registerDeliveries(api: Api): void {
  api.openapi(getDeliveries, async (c) => {
    const services = c.get("services");
    const { destination_id: destinationId, state, limit, cursor: before } = c.req.valid("query");
    const { tenant } = c.get("principal");
    const { found, next } = await pageOfState(services.db, state, { destinationId, tenant, before, limit });
    const data = await showDeliveries(services, found);
    return c.json({ data, next_cursor: next ? encodeCursor([next.destinationId, next.eventId]) : null }, 200);
  });

  api.openapi(getDelivery, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const key = deliveryKey(id);
    const found = key && (await findDelivery(services.db, key, c.get("principal").tenant));
    const [shown] = await showDeliveries(services, found ? [found] : []);
    return shown ? c.json(shown, 200) : noSuch("delivery", id);
  });
}

function pageOfState(
  db: D1Database,
  state: StoredState | "queued" | undefined,
  filter: DeliveryFilter,
): Promise<DeliveryPage> {
  return state === "queued" ? queuedDeliveries(db, filter) : storedDeliveries(db, state, filter);
}
