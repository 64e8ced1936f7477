/** Events: accepted one by one or in batches, and shown with all that became of them. */

import { createRoute } from "@hono/zod-openapi";
import { eventNumber } from "../id.ts";
import { findEvent } from "../store/planned-deliveries.ts";
import { acceptEvents, type GivenEvent } from "./accept-events.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { showDeliveries } from "./deliveries-shown.ts";
import { acceptedEvent, acceptedEvents, eventSchema, newEvent, newEvents } from "./event-schema.ts";
import { parseExactly } from "./exact-json.ts";
import type { FieldError } from "./field-errors.ts";
import { idempotencyHeaders, replayedHeader } from "./idempotency.ts";
import { withinIngestLimit } from "./ingest-limit.ts";
import { jsonBody, KIB } from "./json-body.ts";
import { noSuch, problem, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer, jsonRequest } from "./route-parts.ts";

const tags = ["Events"];
const MAX_EVENT_BYTES = 256 * KIB;
const MAX_BATCH_BYTES = 1024 * KIB;

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
    ...problemResponses(400, 401, 403, 409, 413, 415, 422, 429),
  },
});

const postEvents = createRoute({
  method: "post",
  path: "/v1/events/batch",
  summary: "Post many events at once",
  tags,
  description: "All of the events are accepted, or none.",
  middleware: [
    requires("events:write"),
    withinIngestLimit,
    jsonBody({ maxBytes: MAX_BATCH_BYTES, exactNumbers: true }),
  ],
  request: { headers: idempotencyHeaders, body: jsonRequest(newEvents) },
  responses: {
    202: jsonAnswer(acceptedEvents, "The events are stored; the answer is in their order.", replayedHeader),
    ...problemResponses(400, 401, 403, 409, 413, 415, 422, 429),
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
    ...problemResponses(401, 403, 404),
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

  api.openapi(postEvents, async (c) => {
    const { events: given } = c.req.valid("json");
    const tooLarge = c.get("bodyBytes") > MAX_EVENT_BYTES ? oversized(given) : [];
    if (tooLarge.length > 0) return problem(413, "An event of the batch is too large", tooLarge);
    const { "idempotency-key": key } = c.req.valid("header");
    const fieldOf = (i: number, field: string) => `events[${i}].${field}`;
    const acceptance = await acceptEvents(c, { events: given, key, fieldOf });
    return acceptance.kind === "refused" ? acceptance.answer : c.json({ events: acceptance.events }, 202);
  });

  api.openapi(getEvent, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const row = eventNumber(id);
    const found = row && (await findEvent(services.db, row, c.get("principal").tenant));
    if (!found) return noSuch("event", id);
    const { tenant, type, body, deliverAt } = found.event;
    const { timestamp, data } = parseExactly(body) as { timestamp: string; data: unknown };
    const deliveries = await showDeliveries(services, found.deliveries);
    const scheduled = deliverAt !== null && { deliver_at: new Date(deliverAt).toISOString() };
    return c.json({ id, tenant, type, timestamp, ...scheduled, data, deliveries }, 200);
  });
}

/** Looked for only in a body that is larger than one event may be. */
function oversized(events: readonly GivenEvent[]): FieldError[] {
  const sizes = events.map((event) => new TextEncoder().encode(JSON.stringify(event)).byteLength);
  return sizes.flatMap((bytes, i) =>
    bytes > MAX_EVENT_BYTES
      ? [{ field: `events[${i}]`, fault: `is ${bytes} bytes`, expected: `at most ${MAX_EVENT_BYTES}` }]
      : [],
  );
}
