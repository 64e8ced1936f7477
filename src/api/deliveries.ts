/** Deliveries: listed and read. */
import { createRoute, z } from "@hono/zod-openapi";
import { deliveryKey } from "../id.ts";
import { type ListFilter, storedDeliveries } from "../store/deliveries-read.ts";
import type { MergedPage, Positions } from "../store/delivery-pages.ts";
import { overBy } from "../store/over.ts";
import { findDelivery, queuedDeliveries } from "../store/planned-deliveries.ts";
import type { StoredState } from "../store/schema.ts";
import type { Databases } from "../store/shards.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { showDeliveries } from "./deliveries-shown.ts";
import { deliverySchema, deliveryStates } from "./delivery-schema.ts";
import { eventType } from "./names.ts";
import { cursorParam, encodeCursor, limitParam, pageOf } from "./paging.ts";
import { invalid, noSuch, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer } from "./route-parts.ts";
import { strict } from "./strict.ts";
import { rangeErrors, timeParam } from "./time-range.ts";

const tags = ["Deliveries"];
const place = z
  .tuple([z.string(), z.int().nonnegative()])
  .transform(([destinationId, eventId]) => ({ destinationId, eventId }));
/** A place in each database; alone, without a list around it. */
const deliveryCursor = z.union([place.transform((key) => [key]), z.array(place).min(2)]);

const STATUS_EXPECTED = "expected an HTTP status code, 100 to 999";
const statusParam = z
  .string()
  .regex(/^[1-9][0-9]{2}$/, { error: STATUS_EXPECTED })
  .transform(Number)
  .openapi({ description: "The status code of the last attempt." });

const BECAUSE_EXPECTED = "expected one of the words that `reason` shows";
const becauseParam = z
  .string()
  .regex(/^[a-z0-9_]{1,40}$/, { error: BECAUSE_EXPECTED })
  .openapi({ description: "Why it is where it is, as its row says.", example: "exhausted" });

const getDeliveries = createRoute({
  method: "get",
  path: "/v1/deliveries",
  summary: "List deliveries",
  tags,
  description:
    "By destination and event, descending; of one destination, the newest event first. A page looks at a " +
    "few hundred deliveries and destinations at most for those that are asked for: it may be short, or empty, and " +
    "still have a next_cursor. Deliveries that no attempt has been made of are listed by state=queued alone: the newest " +
    "event first, then those that are scheduled for later, the first due first.",
  middleware: [requires("read")],
  request: {
    query: strict({
      destination_id: z.string().optional().openapi({ description: "Those to this destination." }),
      state: z.enum(deliveryStates).optional().openapi({ description: "Those that are in this state." }),
      type: eventType.optional().openapi({ description: "The event's type." }),
      status: statusParam.optional(),
      reason: becauseParam.optional(),
      since: timeParam.optional().openapi({ description: "The event was accepted then or later." }),
      until: timeParam
        .optional()
        .openapi({ description: "The event was accepted before that; a time after `since`." }),
      limit: limitParam,
      cursor: cursorParam(deliveryCursor),
    }),
  },
  responses: {
    200: jsonAnswer(pageOf(deliverySchema), "A page of deliveries."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const getDelivery = createRoute({
  method: "get",
  path: "/v1/deliveries/{id}",
  summary: "Show a delivery and its attempts",
  tags,
  middleware: [requires("read")],
  request: { params: idParam },
  responses: { 200: jsonAnswer(deliverySchema, "The delivery."), ...problemResponses(401, 403, 404, 429) },
});

export function registerDeliveries(api: Api): void {
  api.openapi(getDeliveries, async (c) => {
    const services = c.get("services");
    const { destination_id: destinationId, cursor: before, since, until, ...query } = c.req.valid("query");
    const backwards = rangeErrors(since, until);
    if (backwards.length > 0) return invalid(backwards);
    const { tenant } = c.get("principal");
    const accepted = since === undefined && until === undefined ? undefined : { since, until };
    const filter = { ...query, destinationId, tenant, accepted, before, over: overBy(services) };
    const { found, next } = await pageOfState(services, query.state, filter);
    const data = await showDeliveries(services, found);
    return c.json({ data, next_cursor: next ? cursorOf(next) : null }, 200);
  });

  api.openapi(getDelivery, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const key = deliveryKey(id);
    const found = key && (await findDelivery(services, key, c.get("principal").tenant, overBy(services)));
    const [shown] = await showDeliveries(services, found ? [found] : []);
    return shown ? c.json(shown, 200) : noSuch("delivery", id);
  });
}

function cursorOf(positions: Positions): string {
  const places = positions.map(({ destinationId, eventId }) => [destinationId, eventId]);
  return encodeCursor(places.length === 1 ? places[0] : places);
}

async function pageOfState(
  databases: Databases,
  state: StoredState | "queued" | undefined,
  filter: ListFilter,
): Promise<MergedPage> {
  if (state !== "queued") return storedDeliveries(databases, state, filter);
  // Nothing has been attempted yet, and nothing keeps it waiting.
  const isAskedMore = filter.status !== undefined || filter.reason !== undefined;
  return isAskedMore ? { found: [], next: undefined } : queuedDeliveries(databases, filter);
}
