/** Events: accepted one by one, and shown with all that became of them. Batches: event-batch.ts. */
import { createRoute } from "@hono/zod-openapi";
import { eventNumber } from "../id.ts";
import { isoTime } from "../iso-time.ts";
import { overBy } from "../store/over.ts";
import { findEvent } from "../store/planned-deliveries.ts";
import { acceptEvents } from "./accept-events.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { showDeliveries } from "./deliveries-shown.ts";
import { acceptedEvent, eventSchema, MAX_EVENT_BYTES, newEvent } from "./event-schema.ts";
import { parseExactly } from "./exact-json.ts";
import { idempotencyHeaders, replayedHeader } from "./idempotency.ts";
import { withinIngestLimit } from "./ingest-limit.ts";
import { jsonBody } from "./json-body.ts";
import { noSuch, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer, jsonRequest } from "./route-parts.ts";

const tags = ["Events"];
const postEvent = createRoute({
  method: "post",
  path: "/v1/events",
  summary: "Post an event",
  description:
    "Once it is answered the event is stored, and every destination of its tenant that takes its type gets it, " +
    "at least once.",
  tags,
  middleware: [
    requires("events:write"),
    withinIngestLimit,
    jsonBody({ maxBytes: MAX_EVENT_BYTES, exactNumbers: true }),
  ],
  request: { headers: idempotencyHeaders, body: jsonRequest(newEvent) },
  responses: {
    202: jsonAnswer(
      acceptedEvent,
      "The event is stored, and will be delivered to these destinations.",
      replayedHeader,
    ),
    ...problemResponses(400, 401, 403, 409, 413, 415, 422, 429, 503),
  },
});

const getEvent = createRoute({
  method: "get",
  path: "/v1/events/{id}",
  summary: "Show an event and its deliveries",
  description: "Each delivery with its state, its attempts, why it waits and until when.",
  tags,
  middleware: [requires("read")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(eventSchema, "The event and its deliveries."),
    ...problemResponses(401, 403, 404, 429),
  },
});

export function registerEvents(api: Api): void {
  api.openapi(postEvent, async (c) => {
    const { "idempotency-key": key } = c.req.valid("header");
    const posting = { events: [c.req.valid("json")], key, fieldOf: (_: number, field: string) => field };
    const acceptance = await acceptEvents(c, posting);
    if (acceptance.kind === "refused") return acceptance.answer;
    const [event] = acceptance.events;
    if (event === undefined) throw new Error("An accepted event must have an id");
    return c.json(event, 202);
  });

  api.openapi(getEvent, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const row = eventNumber(id);
    const found = row && (await findEvent(services, row, c.get("principal").tenant, overBy(services)));
    if (!found) return noSuch("event", id);
    const { tenant, type, body, deliverAt } = found.event;
    const { timestamp, data } = parseExactly(body) as { timestamp: string; data: unknown };
    const deliveries = await showDeliveries(services, found.deliveries);
    const scheduled = deliverAt !== null && { deliver_at: isoTime(deliverAt) };
    return c.json({ id, tenant, type, timestamp, ...scheduled, data, deliveries }, 200);
  });
}
