/**
 * Events: posted one at a time or in batches, and shown with their deliveries.
 *
 * A request is accepted as a whole or not at all. With an `Idempotency-Key` it is stored at most once: the key names
 * the request, and is kept as long as the events that were posted under it.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { capsOf } from "../config.ts";
import { overBy } from "../db/delivery-filter.ts";
import { findEvent } from "../db/planned-deliveries.ts";
import { deliveryId, eventId, eventNumber } from "../ids.ts";
import { accept, type PostedEvent } from "../ingest/accept.ts";
import type { AcceptedEvent } from "../ingest/bundle.ts";
import { isoTime } from "../time.ts";
import { NOT_YOUR_TENANT, requires, tenantFor } from "./auth.ts";
import type { Api, ApiContext, Principal } from "./context.ts";
import { deliverySchema, showDeliveries } from "./deliveries.ts";
import { jsonBody, parseExactly } from "./json-body.ts";
import { eventLines, NDJSON, withLines } from "./ndjson.ts";
import {
  alsoAs,
  eventType,
  idempotencyKey,
  idParam,
  jsonAnswer,
  jsonRequest,
  strict,
  tenantName,
} from "./parameters.ts";
import {
  errorsOf,
  type FieldError,
  invalid,
  notFound,
  type ProblemResponse,
  problem,
  problemResponses,
} from "./problems.ts";
import { withinIngestLimit } from "./rate-limit.ts";

export function registerEvents(api: Api): void {
  api.openapi(postEvent, async (c) => {
    const { "idempotency-key": key } = c.req.valid("header");
    const posted = { events: [c.req.valid("json")], key, fieldOf: (_: number, field: string) => field };
    const result = await acceptEvents(c, posted);
    if (result.kind === "refused") return result.answer;
    const [event] = result.events;
    if (event === undefined) throw new Error("An accepted event must have an id");
    return c.json(event, 202);
  });

  api.openapi(getEvent, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const row = eventNumber(id);
    const found = row && (await findEvent(services, row, c.get("principal").tenant, overBy(services)));
    if (!found) return notFound("event", id);
    const { tenant, type, body, deliverAt } = found.event;
    const { timestamp, data } = parseExactly(body) as { timestamp: string; data: unknown };
    const deliveries = await showDeliveries(services, found.deliveries);
    const scheduled = deliverAt !== null && { deliver_at: isoTime(deliverAt) };
    return c.json({ id, tenant, type, timestamp, ...scheduled, data, deliveries }, 200);
  });
}

/** Registered before `registerEvents`, whose `/v1/events/{id}` would match `batch`. */
export function registerEventBatch(api: Api): void {
  api.use(postEvents.path, async (c, next) => (c.req.method === "POST" ? next() : c.notFound()));
  api.openapi(
    postEvents,
    async (c) => {
      const { events } = c.req.valid("json");
      const tooLarge = c.get("bodyBytes") > MAX_EVENT_BYTES ? oversized(events) : [];
      if (tooLarge.length > 0) return problem(413, "An event of the batch is too large", tooLarge);
      const { "idempotency-key": key } = c.req.valid("header");
      const fieldOf = (i: number, field: string) => `events[${i}].${field}`;
      const result = await acceptEvents(c, { events, key, fieldOf });
      return result.kind === "refused" ? result.answer : c.json({ events: result.events }, 202);
    },
    (result, c) => (result.success ? undefined : invalid(withLines(c.get("lines"), errorsOf(result)))),
  );
}

/** Bytes of one event as JSON, alone or in a batch. */
const MAX_EVENT_BYTES = 256 * 1024;
/** Events in one batch. */
const MAX_BATCH = 1000;
const MAX_BATCH_BYTES = 1024 * 1024;
/** How far ahead an event may be scheduled. */
const MAX_DAYS_AHEAD = 30;

const TIME_EXPECTED = "expected a time in ISO 8601 with Z or an offset";
const EVENTS_EXPECTED = `expected a list of 1 to ${MAX_BATCH} events`;

export const newEvent = strict({
  type: eventType,
  data: z.unknown().openapi({ description: "Any JSON value; it is delivered unchanged." }),
  tenant: tenantName.optional(),
  deliver_at: z.iso
    .datetime({ offset: true, error: TIME_EXPECTED })
    .transform((text) => Date.parse(text))
    .optional()
    .openapi({
      type: "string",
      format: "date-time",
      description:
        `The event is not delivered before this time, at most ${MAX_DAYS_AHEAD} days ahead; a past time means at ` +
        "once. Its destinations are chosen when it is accepted. (The example is an hour after the event of the other " +
        "examples.)",
      example: "2026-11-21T10:00:00Z",
    }),
}).openapi("NewEvent", { required: ["type", "data"] });

const newEvents = strict({
  events: z
    .array(newEvent, { error: EVENTS_EXPECTED })
    .min(1, { error: EVENTS_EXPECTED })
    .max(MAX_BATCH, { error: EVENTS_EXPECTED, abort: true }),
}).openapi("NewEvents");

/** For the document only: lines are validated as the `NewEvents` that they amount to. */
const newEventLines = {
  type: "string" as const,
  description: `One NewEvent as JSON on each line, 1 to ${MAX_BATCH} of them; blank lines are ignored.`,
  example:
    '{"type":"invoice.paid","data":{"invoice":"inv_42"}}\n{"type":"invoice.paid","data":{"invoice":"inv_43"}}\n',
};

const acceptedEvent = z
  .object({
    id: z.string(),
    deliver_at: z.iso
      .datetime()
      .optional()
      .openapi({ description: "Present when the event is scheduled for later." }),
    hint: z.string().optional().openapi({
      description: "Present when no destination takes the event: it is stored, but not delivered to anyone.",
    }),
    deliveries: z.array(z.object({ id: z.string(), destination_id: z.string(), state: z.literal("queued") })),
  })
  .openapi("AcceptedEvent");

const acceptedEvents = z.object({ events: z.array(acceptedEvent) }).openapi("AcceptedEvents");

const eventSchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    type: z.string(),
    timestamp: z.iso.datetime().openapi({ description: "When the event was accepted." }),
    deliver_at: z.iso
      .datetime()
      .optional()
      .openapi({ description: "Present when the event was scheduled for later." }),
    data: z.unknown(),
    deliveries: z.array(deliverySchema),
  })
  .openapi("Event");

const idempotencyHeaders = z.object({
  "idempotency-key": idempotencyKey.openapi({
    description:
      "Repeated with the same content, the request gets its first answer again; with other content, 409. " +
      "A key belongs to a tenant: the key of a batch to the tenant of its last event.",
    example: "order-4711-paid",
  }),
});

const REPLAYED = "idempotent-replayed";

const replayedHeader = z.object({
  [REPLAYED]: z
    .literal("true")
    .optional()
    .openapi({ description: "Present when an earlier request with the same key stored the events." }),
});

const tags = ["Events"];

const postEvent = createRoute({
  method: "post",
  path: "/v1/events",
  summary: "Post an event",
  description:
    "Once this is answered with 202, the event is stored, and is delivered at least once to every destination of its " +
    "tenant that takes it.",
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

const postEvents = createRoute({
  method: "post",
  path: "/v1/events/batch",
  summary: "Post a batch of events",
  tags,
  description:
    "All of the events are accepted, or none. One request makes at most 100,000 deliveries, unless the deployment " +
    "sets another limit (`MAX_DELIVERIES_PER_REQUEST`).",
  middleware: [
    requires("events:write"),
    withinIngestLimit,
    eventLines(
      { maxBytes: MAX_BATCH_BYTES, maxLineBytes: MAX_EVENT_BYTES, maxEvents: MAX_BATCH },
      jsonBody({ maxBytes: MAX_BATCH_BYTES, exactNumbers: true, types: `application/json or ${NDJSON}` }),
    ),
  ],
  request: { headers: idempotencyHeaders, body: alsoAs(NDJSON, newEventLines, jsonRequest(newEvents)) },
  responses: {
    202: jsonAnswer(
      acceptedEvents,
      "The events are stored; the answer lists them in the order of the request.",
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

type NewEvent = z.infer<typeof newEvent>;

type Posted = Readonly<{
  events: readonly NewEvent[];
  /** The Idempotency-Key. */
  key: string | undefined;
  /** How an error names a field of the i-th event. */
  fieldOf: (i: number, field: string) => string;
}>;

type Result =
  | Readonly<{ kind: "accepted"; events: z.infer<typeof acceptedEvent>[] }>
  | Readonly<{ kind: "refused"; answer: ProblemResponse<403 | 409 | 422 | 503> }>;

/** Stores the events, all or none; with a key, at most once. */
async function acceptEvents(c: ApiContext, { events: given, key, fieldOf }: Posted): Promise<Result> {
  const services = c.get("services");
  const events = withTenants(c.get("principal"), given);
  if (events === undefined) return refused(problem(403, NOT_YOUR_TENANT));
  const tooFar = tooFarAhead(given, services.now(), fieldOf);
  if (tooFar.length > 0) return refused(invalid(withLines(c.get("lines"), tooFar)));
  const result = await accept(services, events, key);
  switch (result.kind) {
    case "conflict":
      return refused(keyTaken());
    case "unavailable":
      return refused(notStored());
    case "too_many": {
      const field = given.length === 1 ? fieldOf(0, "type") : "events";
      return refused(invalid([tooManyDeliveries(field, result.planned, capsOf(services.config).deliveries)]));
    }
    case "replayed":
      c.header(REPLAYED, "true");
      return accepted(result.events, events);
    case "accepted":
      return accepted(result.events, events);
  }
}

/** The events with their tenants; undefined when the key may not post for one of them. */
function withTenants(principal: Principal, events: readonly NewEvent[]): PostedEvent[] | undefined {
  const found = events.flatMap(({ type, data, tenant: named, deliver_at: deliverAt }) => {
    const tenant = tenantFor(principal, named);
    return tenant === undefined ? [] : [{ tenant, type, data, deliverAt }];
  });
  return found.length === events.length ? found : undefined;
}

/** @param posted the same events as they were posted, in the same order */
function accepted(events: readonly AcceptedEvent[], posted: readonly PostedEvent[]): Result {
  return { kind: "accepted", events: events.map((event, i) => acceptedView(event, posted[i]?.tenant)) };
}

function acceptedView(
  { id, plan, deliverAt, isRemoved }: AcceptedEvent,
  tenant: string | undefined,
): z.infer<typeof acceptedEvent> {
  const deliveries = plan.map((destination) => ({
    id: deliveryId(id, destination),
    destination_id: destination,
    state: "queued" as const,
  }));
  const scheduled = deliverAt !== undefined && { deliver_at: isoTime(deliverAt) };
  const hasNoTaker = plan.length === 0 && isRemoved !== true;
  return { id: eventId(id), ...scheduled, ...(hasNoTaker && { hint: hintFor(tenant) }), deliveries };
}

function hintFor(tenant: string | undefined): string {
  return `No destination of the tenant ${tenant} takes this event: check their event_types and filter, and the tenant`;
}

function refused(answer: ProblemResponse<403 | 409 | 422 | 503>): Result {
  return { kind: "refused", answer };
}

/** Whether the events were stored is unknown: with a key, a repeat stores nothing twice. */
function notStored() {
  const detail = "The events could not be stored now; send them again, preferably with an Idempotency-Key";
  return problem(503, detail);
}

function keyTaken() {
  const fault = "was used before, with other content";
  const expected = "a new key for new content";
  const detail = `The Idempotency-Key ${fault}; expected ${expected}`;
  return problem(409, detail, [{ field: "idempotency-key", fault, expected }]);
}

function tooManyDeliveries(field: string, planned: number, max: number): FieldError {
  const expected = `at most ${max} in one request: fewer events, or events that fewer destinations take`;
  return { field, fault: `would make ${planned} deliveries`, expected };
}

function tooFarAhead(given: readonly NewEvent[], now: number, fieldOf: Posted["fieldOf"]): FieldError[] {
  const latest = now + MAX_DAYS_AHEAD * 86_400_000;
  const expected = `at most ${MAX_DAYS_AHEAD} days from now, ${isoTime(latest)}`;
  return given.flatMap(({ deliver_at: at = now }, i) =>
    at <= latest ? [] : [{ field: fieldOf(i, "deliver_at"), fault: "is too far ahead", expected }],
  );
}

/** Called only for a body that is larger than one event may be. */
function oversized(events: readonly NewEvent[]): FieldError[] {
  const sizes = events.map((event) => new TextEncoder().encode(JSON.stringify(event)).byteLength);
  return sizes.flatMap((bytes, i) =>
    bytes > MAX_EVENT_BYTES
      ? [{ field: `events[${i}]`, fault: `is ${bytes} bytes`, expected: `at most ${MAX_EVENT_BYTES}` }]
      : [],
  );
}
