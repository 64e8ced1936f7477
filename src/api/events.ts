/** Events: accepted one by one, and shown with all that became of them. Batches: event-batch.ts. */

import { createRoute, z } from "@hono/zod-openapi";
import { capsOf } from "../config.ts";
import { overBy } from "../db/delivery-filter.ts";
import { findEvent } from "../db/planned-deliveries.ts";
import { deliveryId, eventId, eventNumber } from "../ids.ts";
import { accept, type PostedEvent } from "../ingest/accept.ts";
import type { AcceptedEvent } from "../ingest/bundle.ts";
import { isoTime } from "../time.ts";
import { NOT_YOUR_TENANT, type Principal, requires, tenantFor } from "./auth.ts";
import type { Api, ApiContext } from "./context.ts";
import { deliverySchema, showDeliveries } from "./deliveries.ts";
import { jsonBody, parseExactly } from "./json-body.ts";
import { byLine, eventLines, NDJSON } from "./ndjson.ts";
import { alsoAs, eventType, idParam, jsonAnswer, jsonRequest, strict, tenantName } from "./parameters.ts";
import {
  errorsOf,
  type FieldError,
  invalid,
  noSuch,
  type ProblemResponse,
  problem,
  problemResponses,
} from "./problems.ts";
import { withinIngestLimit } from "./rate-limit.ts";

// §§ The header `Idempotency-Key`: a sender's name for a request, so that sending it again does nothing twice.
// A key is kept as long as the event that was posted under it.

const KEY_EXPECTED = "expected 1 to 255 printable ASCII characters";

const REPLAYED = "idempotent-replayed";

const key = z
  .string()
  .regex(/^[\x20-\x7e]{1,255}$/, { error: KEY_EXPECTED })
  .optional();

/** Of a request that creates one thing. */
export const creationHeaders = z.object({
  "idempotency-key": key.openapi({
    description: "Sent again, by whoever creates for the same tenant, it creates nothing more: 409.",
    example: "signup-4711",
  }),
});

const idempotencyHeaders = z.object({
  "idempotency-key": key.openapi({
    description:
      "Sent again with the same content, the request gets its first answer; with other content, 409. " +
      "Keys belong to a tenant: a batch's to that of its last event.",
    example: "order-4711-paid",
  }),
});

/** For the description of an answer. */
const replayedHeader = z.object({
  [REPLAYED]: z
    .literal("true")
    .optional()
    .openapi({ description: "Present when the events were stored before, by a request with the same key." }),
});

// §§ From the events of a request to the answer: whose they are, whether they came before, and what is planned.

type GivenEvent = z.infer<typeof newEvent>;

/** How far ahead an event may be scheduled. */
const FARTHEST_DAYS = 30;

type Refused = ProblemResponse<403 | 409 | 422 | 503>;
export type Acceptance =
  | Readonly<{ kind: "accepted"; events: z.infer<typeof acceptedEvent>[] }>
  | Readonly<{ kind: "refused"; answer: Refused }>;

type Posting = Readonly<{
  events: readonly GivenEvent[];
  /** The Idempotency-Key. */
  key: string | undefined;
  /** What a field of the i-th event is called in a fault. */
  fieldOf: (i: number, field: string) => string;
}>;

/** Stores the events, all or none; with a key, at most once. */
async function acceptEvents(c: ApiContext, { events: given, key, fieldOf }: Posting): Promise<Acceptance> {
  const posted = ownedBy(c.get("principal"), given);
  if (posted === undefined) return refused(problem(403, NOT_YOUR_TENANT));
  const tooFar = farAhead(given, c.get("services").now(), fieldOf);
  if (tooFar.length > 0) return refused(invalid(byLine(c.get("lines"), tooFar)));
  const result = await accept(c.get("services"), posted, key);
  switch (result.kind) {
    case "conflict":
      return refused(keyTaken());
    case "unavailable":
      return refused(unavailable());
    case "too_many": {
      const field = given.length === 1 ? fieldOf(0, "type") : "events";
      return refused(invalid([tooMany(field, result.planned, capsOf(c.get("services").config).deliveries)]));
    }
    case "replayed":
      c.header(REPLAYED, "true");
      return accepted(result.events, posted);
    case "accepted":
      return accepted(result.events, posted);
  }
}

function tooMany(field: string, planned: number, most: number): FieldError {
  const expected = `at most ${most} in one request: fewer events, or events that fewer destinations want`;
  return { field, fault: `would make ${planned} deliveries`, expected };
}

/** @param posted the same events as they were posted, in the same order */
function accepted(events: readonly AcceptedEvent[], posted: readonly PostedEvent[]): Acceptance {
  return { kind: "accepted", events: events.map((event, i) => acceptedView(event, posted[i]?.tenant)) };
}

function refused(answer: Refused): Acceptance {
  return { kind: "refused", answer };
}

/** Perhaps it was stored and perhaps not: under a key the repeat does nothing twice. */
function unavailable() {
  const detail =
    "The events could not be stored now; expected to be sent again, best under an Idempotency-Key";
  return problem(503, detail, undefined, { "retry-after": "5" });
}

function keyTaken() {
  const fault = "was used before, with other content";
  const expected = "a new key for new content";
  const detail = `The Idempotency-Key ${fault}; expected ${expected}`;
  return problem(409, detail, [{ field: "idempotency-key", fault, expected }]);
}

/** The events with their tenants; undefined when one of them belongs to a tenant that the key does not. */
function ownedBy(principal: Principal, events: readonly GivenEvent[]): PostedEvent[] | undefined {
  const owned = events.flatMap(({ type, data, tenant: named, deliver_at: deliverAt }) => {
    const tenant = tenantFor(principal, named);
    return tenant === undefined ? [] : [{ tenant, type, data, deliverAt }];
  });
  return owned.length === events.length ? owned : undefined;
}

function farAhead(given: readonly GivenEvent[], now: number, fieldOf: Posting["fieldOf"]): FieldError[] {
  const latest = now + FARTHEST_DAYS * 86_400_000;
  return given.flatMap(({ deliver_at: at = now }, i) =>
    at <= latest
      ? []
      : [
          {
            field: fieldOf(i, "deliver_at"),
            fault: "is too far ahead",
            expected: `at most ${FARTHEST_DAYS} days from now, ${isoTime(latest)}`,
          },
        ],
  );
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
  const isForNobody = plan.length === 0 && isRemoved !== true;
  return { id: eventId(id), ...scheduled, ...(isForNobody && { hint: hintFor(tenant) }), deliveries };
}

/** An event that nobody takes is stored all the same; whoever meant it for somebody learns of it here. */
function hintFor(tenant: string | undefined): string {
  return `No destination of the tenant ${tenant} takes this event: look at their event_types and filter, and at the tenant`;
}

// §§ An event in JSON: as it is posted, as it is accepted, as it is shown.

/** Of one event as JSON, alone or in a batch. */
const MAX_EVENT_BYTES = 256 * 1024;
/** Events in one batch. */
export const MAX_BATCH = 1000;
const TIME_EXPECTED = "expected a time in ISO 8601 with Z or an offset";

const EVENTS_EXPECTED = `expected a list of 1 to ${MAX_BATCH} events`;

export const newEvent = strict({
  type: eventType,
  data: z.unknown().openapi({ description: "Any JSON value, delivered as it is." }),
  tenant: tenantName.optional(),
  deliver_at: z.iso
    .datetime({ offset: true, error: TIME_EXPECTED })
    .transform((text) => Date.parse(text))
    .optional()
    .openapi({
      type: "string",
      format: "date-time",
      description:
        "Not to be delivered before this, at most 30 days ahead; at once when it is over. Who gets the event is " +
        "decided when it is accepted. (The example is an hour after the event of the other examples.)",
      example: "2026-11-21T10:00:00Z",
    }),
}).openapi("NewEvent", { required: ["type", "data"] });

const events = z
  .array(newEvent, { error: EVENTS_EXPECTED })
  .min(1, { error: EVENTS_EXPECTED })
  .max(MAX_BATCH, { error: EVENTS_EXPECTED, abort: true });

const newEvents = strict({ events }).openapi("NewEvents");

/** For the description alone: lines are judged as the `NewEvents` that they stand for. */
const newEventLines = {
  type: "string" as const,
  description: `One NewEvent as JSON on each line, 1 to ${MAX_BATCH} of them; blank lines are passed over.`,
  example:
    '{"type":"invoice.paid","data":{"invoice":"inv_42"}}\n{"type":"invoice.paid","data":{"invoice":"inv_43"}}\n',
};

const acceptedEvent = z
  .object({
    id: z.string(),
    deliver_at: z.iso.datetime().optional().openapi({ description: "Present when it is not at once." }),
    hint: z.string().optional().openapi({
      description: "Present when no destination takes the event: it is stored, and nobody will get it.",
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
    timestamp: z.iso.datetime(),
    deliver_at: z.iso.datetime().optional(),
    data: z.unknown(),
    deliveries: z.array(deliverySchema),
  })
  .openapi("Event");

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

// §§ Events accepted in batches, as JSON or as lines: all of a batch or none.

const MAX_BATCH_BYTES = 1024 * 1024;

const asJson = jsonBody({
  maxBytes: MAX_BATCH_BYTES,
  exactNumbers: true,
  types: `application/json or ${NDJSON}`,
});

const postEvents = createRoute({
  method: "post",
  path: "/v1/events/batch",
  summary: "Post many events at once",
  tags: ["Events"],
  description:
    "All of the events are accepted, or none. One request makes at most 100,000 deliveries, unless the deployment " +
    "says otherwise (`MAX_DELIVERIES_PER_REQUEST`).",
  middleware: [
    requires("events:write"),
    withinIngestLimit,
    eventLines({ maxBytes: MAX_BATCH_BYTES, maxLineBytes: MAX_EVENT_BYTES }, asJson),
  ],
  request: { headers: idempotencyHeaders, body: alsoAs(NDJSON, newEventLines, jsonRequest(newEvents)) },
  responses: {
    202: jsonAnswer(acceptedEvents, "The events are stored; the answer is in their order.", replayedHeader),
    ...problemResponses(400, 401, 403, 409, 413, 415, 422, 429, 503),
  },
});

/** Registered before the events, among whose ids `batch` would be looked for. */
export function registerEventBatch(api: Api): void {
  api.use(postEvents.path, async (c, next) => (c.req.method === "POST" ? next() : c.notFound()));
  api.openapi(
    postEvents,
    async (c) => {
      const { events: given } = c.req.valid("json");
      const tooLarge = c.get("bodyBytes") > MAX_EVENT_BYTES ? oversized(given) : [];
      if (tooLarge.length > 0) return problem(413, "An event of the batch is too large", tooLarge);
      const { "idempotency-key": key } = c.req.valid("header");
      const fieldOf = (i: number, field: string) => `events[${i}].${field}`;
      const acceptance = await acceptEvents(c, { events: given, key, fieldOf });
      return acceptance.kind === "refused" ? acceptance.answer : c.json({ events: acceptance.events }, 202);
    },
    (result, c) => (result.success ? undefined : invalid(byLine(c.get("lines"), errorsOf(result)))),
  );
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
