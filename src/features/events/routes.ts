/**
 * Events: posted one at a time or in batches, and shown with their deliveries.
 *
 * A request is accepted as a whole or not at all. With an `Idempotency-Key` it is stored at most once: the key names
 * the request, and is kept as long as the events that were posted under it.
 */

import { createRoute, z } from "@hono/zod-openapi";
import { capsOf } from "../../config.ts";
import { notYourTenant, type Principal, tenantFor } from "../../core/principal.ts";
import { type FieldError, invalidFields, type Refused } from "../../core/result.ts";
import { maskedHeaders } from "../../delivery/authorization.ts";
import { textOf } from "../../delivery/http.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody, parseExactly } from "../../http/json-body.ts";
import { refusesOwnAttempts } from "../../http/loops.ts";
import { eventLines, NDJSON, withLines } from "../../http/ndjson.ts";
import {
  alsoAs,
  eventType,
  idempotencyKey,
  idParam,
  jsonAnswer,
  jsonRequest,
  strict,
  tenantName,
} from "../../http/parameters.ts";
import { answerOf, errorsOf, invalid, notFound, problemResponses } from "../../http/problems.ts";
import { withinIngestLimit } from "../../http/rate-limit.ts";
import { deliveryId, eventId, eventNumber } from "../../ids.ts";
import { accept, type PostedEvent } from "../../ingest/accept.ts";
import type { AcceptedEvent, CommitResult } from "../../ingest/bundle.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import { findEvent, type StoredEvent } from "../../store/planned-deliveries.ts";
import { isoTime } from "../../time.ts";
import { deliverySchema, showDeliveries } from "../deliveries/routes.ts";
import { eventContent } from "./content.ts";
import { optionErrors, optionFields, optionsOf } from "./options.ts";

export function registerEvents(api: Api): void {
  api.openapi(postEvent, async (c) => {
    const { "idempotency-key": key } = c.req.valid("header");
    const posted = { events: [c.req.valid("json")], key, fieldOf: fieldOfOne, keyField: KEY_HEADER };
    const result = await acceptEvents(c.get("services"), c.get("principal"), posted);
    if (result.kind === "refused") return answerOf(result.refusal);
    if (result.isReplayed) c.header(REPLAYED, "true");
    const [event] = result.events;
    if (event === undefined) throw new Error("An accepted event must have an id");
    return c.json(event, 202);
  });

  api.openapi(getEvent, async (c) => {
    const { id } = c.req.valid("param");
    const shown = await showEvent(c.get("services"), id, c.get("principal"), parseExactly);
    return shown ? c.json(shown, 200) : notFound("event", id);
  });
}

/** Registered before `registerEvents`, whose `/v1/events/{id}` would match `batch`. */
export function registerEventBatch(api: Api): void {
  api.use(postEvents.path, async (c, next) => (c.req.method === "POST" ? next() : c.notFound()));
  api.openapi(
    postEvents,
    async (c) => {
      const { events } = c.req.valid("json");
      const tooLarge = oversized(events, c.get("bodyBytes"));
      if (tooLarge) return answerOf(tooLarge);
      const { "idempotency-key": key } = c.req.valid("header");
      const posted = { events, key, fieldOf: fieldOfMany, keyField: KEY_HEADER, lines: c.get("lines") };
      const result = await acceptEvents(c.get("services"), c.get("principal"), posted);
      if (result.kind === "refused") return answerOf(result.refusal);
      if (result.isReplayed) c.header(REPLAYED, "true");
      return c.json({ events: result.events }, 202);
    },
    (result, c) => (result.success ? undefined : invalid(withLines(c.get("lines"), errorsOf(result)))),
  );
}

/** How an error names a field of a single event, and of one in a batch. */
export const fieldOfOne = (_: number, field: string) => field;
export const fieldOfMany = (i: number, field: string) => `events[${i}].${field}`;
const KEY_HEADER = "idempotency-key";

/** Bytes of one event as JSON, alone or in a batch. */
export const MAX_EVENT_BYTES = 256 * 1024;
/** Events in one batch. */
const MAX_BATCH = 1000;
export const MAX_BATCH_BYTES = 1024 * 1024;
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
  ...optionFields,
}).openapi("NewEvent", { required: ["type", "data"] });

const repeated = { type: "array", items: { type: "string" } } as const;

/** The fields of an event whose body is its content. For the document: they are read as those of a NewEvent. */
const contentQuery = z.object({
  type: eventType.optional().openapi({ description: "With it, the body is the event's content as it is." }),
  tenant: tenantName.optional().openapi({ description: "As in a NewEvent." }),
  deliver_at: newEvent.shape.deliver_at,
  ttl: z.string().optional().openapi({ description: "As in a NewEvent.", type: "integer" }),
  tags: z
    .unknown()
    .optional()
    .openapi({ description: "As in a NewEvent; once for each.", ...repeated }),
  channels: z
    .unknown()
    .optional()
    .openapi({ description: "As in a NewEvent; once for each.", ...repeated }),
  destination_ids: z
    .unknown()
    .optional()
    .openapi({ description: "As in a NewEvent; once for each.", ...repeated }),
});

/** For the document only: content is read as it is. */
const anyContent = {
  type: "string" as const,
  description: "With `type` in the query: content of any type, 1 to 262,144 bytes.",
  example: "<invoice>inv_42</invoice>",
};

export const newEvents = strict({
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

export type AcceptedEventJson = z.infer<typeof acceptedEvent>;

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
    tags: z.array(z.string()).optional().openapi({ description: "Present when it was posted with tags." }),
    channels: z.array(z.string()).optional().openapi({
      description: "Present when it was posted with channels; each once, in alphabetical order.",
    }),
    ttl: z.int().optional().openapi({ description: "Present when it was posted with a time to live." }),
    headers: z.record(z.string(), z.string()).optional().openapi({
      description:
        "Present when it was posted with headers. Their values are shown only to keys of the scope admin.",
    }),
    content_type: z
      .string()
      .optional()
      .openapi({ description: "Present when the event was posted as content of its own type." }),
    content: z.literal("erased").optional().openapi({
      description: "Present when the content has been erased: `data` is null, and nothing can be sent again.",
    }),
    data: z.unknown().optional().openapi({
      description:
        "As it was posted; of content the text. Null when it is erased, or the stored bytes are damaged.",
    }),
    data_base64: z
      .string()
      .optional()
      .openapi({ description: "In place of `data`, for content that is not UTF-8." }),
    deliveries: z.array(deliverySchema),
  })
  .openapi("Event");

export type EventJson = z.infer<typeof eventSchema>;

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
    "tenant that takes it. With `type` in the query the body is not JSON but the event's content, of any content type: it " +
    'is stored and sent to the byte, to destinations with `body: "data"`.',
  tags,
  middleware: [
    requires("events:write"),
    withinIngestLimit,
    refusesOwnAttempts,
    eventContent(
      MAX_EVENT_BYTES,
      jsonBody({
        maxBytes: MAX_EVENT_BYTES,
        exactNumbers: true,
        types: "application/json, or any type of content with the event's `type` in the query",
      }),
    ),
  ],
  request: {
    headers: idempotencyHeaders,
    query: contentQuery,
    body: alsoAs("application/octet-stream", anyContent, jsonRequest(newEvent)),
  },
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
    refusesOwnAttempts,
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

export type NewEvent = z.infer<typeof newEvent>;

type Posted = Readonly<{
  events: readonly NewEvent[];
  /** The idempotency key. */
  key: string | undefined;
  /** How an error names a field of the i-th event, and the key. */
  fieldOf: (i: number, field: string) => string;
  keyField: string;
  /** The line number of each event, where the body is NDJSON. */
  lines?: readonly number[] | undefined;
}>;

type Result =
  | Readonly<{
      kind: "accepted";
      events: AcceptedEventJson[];
      /** When the first of them was accepted, epoch ms; undefined where it has to be looked up. */
      acceptedAt: number | undefined;
      isReplayed: boolean;
    }>
  | Readonly<{ kind: "refused"; refusal: Refused<"forbidden" | "conflict" | "invalid" | "unavailable"> }>;

/** Stores the events, all or none; with a key, at most once. */
export async function acceptEvents(
  services: Services,
  principal: Principal,
  posted: Posted,
): Promise<Result> {
  const read = eventsToStore(services, principal, posted);
  if (read.kind === "refused") return read;
  const result = await accept(services, read.events, posted.key);
  if (!("events" in result)) {
    const field = posted.events.length === 1 ? posted.fieldOf(0, "type") : "events";
    return refused(notAccepted(services, result, field, posted));
  }
  const events = result.events.map((event, i) => acceptedView(event, read.events[i]));
  const acceptedAt = result.events[0]?.acceptedAt;
  return { kind: "accepted", events, acceptedAt, isReplayed: result.kind === "replayed" };
}

/** The events with their tenants, or why the principal may not post them or nobody may. */
export function eventsToStore(
  { now }: Services,
  principal: Principal,
  { events: given, fieldOf, lines }: Pick<Posted, "events" | "fieldOf" | "lines">,
):
  | Readonly<{ kind: "events"; events: PostedEvent[] }>
  | Readonly<{ kind: "refused"; refusal: Refused<"forbidden" | "invalid"> }> {
  const events = withTenants(principal, given);
  if (events === undefined) return refused(notYourTenant(principal));
  const tooFar = tooFarAhead(given, now(), fieldOf);
  if (tooFar.length > 0) return refused(invalidFields(withLines(lines, tooFar)));
  return { kind: "events", events };
}

export type NotAccepted = Exclude<CommitResult, { events: unknown }>;

/**
 * Why events were not accepted.
 * @param field what made too many deliveries
 * @param named how the caller knows the fields of the events, and how it gave the idempotency key
 */
export function notAccepted(
  { config }: Services,
  result: NotAccepted,
  field: string,
  { fieldOf, keyField, lines }: Pick<Posted, "fieldOf" | "keyField" | "lines">,
): Refused<"conflict" | "invalid" | "unavailable"> {
  switch (result.kind) {
    case "conflict":
      return keyTaken(keyField);
    case "invalid":
      return invalidFields(withLines(lines, optionErrors(result.faults, fieldOf)));
    case "unavailable":
      return notStored();
    case "too_many":
      return invalidFields([tooManyDeliveries(field, result.planned, capsOf(config).deliveries)]);
  }
}

/** The events with their tenants; undefined when the principal may not post for one of them. */
function withTenants(principal: Principal, events: readonly NewEvent[]): PostedEvent[] | undefined {
  const found = events.flatMap(({ type, data, tenant: named, deliver_at: deliverAt, ...given }) => {
    const tenant = tenantFor(principal, named);
    const options = optionsOf(given);
    return tenant === undefined ? [] : [{ tenant, type, data, deliverAt, ...(options && { options }) }];
  });
  return found.length === events.length ? found : undefined;
}

/**
 * The event of the id with its deliveries, as it is shown; undefined when there is none that the principal may see.
 * @param parse reads the JSON of the event's body
 */
export async function showEvent(
  services: Services,
  id: string,
  { tenant, scopes }: Pick<Principal, "tenant" | "scopes">,
  parse: (text: string) => unknown,
): Promise<EventJson | undefined> {
  const row = eventNumber(id);
  const found = row && (await findEvent(services, row, tenant, overBy(services)));
  if (!found) return undefined;
  const { event } = found;
  const deliveries = await showDeliveries(services, found.deliveries);
  return {
    id,
    tenant: event.tenant,
    type: event.type,
    ...(event.deliverAt !== null && { deliver_at: isoTime(event.deliverAt) }),
    ...optionsView(event, scopes.includes("admin")),
    ...contentView(event, parse),
    deliveries,
  };
}

function optionsView({ tags, channels, ttlSeconds, headers }: StoredEvent, isAdmin: boolean) {
  return {
    ...(tags.length > 0 && { tags: [...tags] }),
    ...(channels.length > 0 && { channels: [...channels] }),
    ...(ttlSeconds !== undefined && { ttl: ttlSeconds }),
    ...(headers && { headers: isAdmin ? headers : maskedHeaders(headers, headers) }),
  };
}

function acceptedView(
  { id, plan, deliverAt, isRemoved }: AcceptedEvent,
  posted: PostedEvent | undefined,
): z.infer<typeof acceptedEvent> {
  const deliveries = plan.map((destination) => ({
    id: deliveryId(id, destination),
    destination_id: destination,
    state: "queued" as const,
  }));
  const scheduled = deliverAt !== undefined && { deliver_at: isoTime(deliverAt) };
  const hasNoTaker = plan.length === 0 && isRemoved !== true;
  return { id: eventId(id), ...scheduled, ...(hasNoTaker && { hint: hintFor(posted) }), deliveries };
}

/** When it was accepted, which is what receivers see as the timestamp of an envelope, and what was posted. */
function contentView(event: StoredEvent, parse: (text: string) => unknown) {
  const { body, contentType, acceptedAt } = event;
  const timestamp = isoTime(acceptedAt);
  const type = contentType !== undefined && { content_type: contentType };
  if (event.isErased) return { timestamp, ...type, content: "erased" as const, data: null };
  if (contentType !== undefined) return { timestamp, ...type, ...dataOfContent(body) };
  const envelope = envelopeIn(body, parse);
  return { timestamp, data: envelope ? envelope.data : null };
}

function dataOfContent(body: Uint8Array | null) {
  const text = body ? textOf(body) : undefined;
  return body && text === undefined ? { data_base64: body.toBase64() } : { data: text ?? null };
}

function envelopeIn(body: Uint8Array | null, parse: (text: string) => unknown) {
  const text = body ? textOf(body) : undefined;
  return text === undefined ? undefined : (parse(text) as { data: unknown });
}

/** The fields that show what was posted: `data` is null where the stored bytes are damaged. */
export function dataView(
  body: Uint8Array | null,
  contentType: string | undefined,
): Pick<EventJson, "data" | "data_base64"> {
  if (contentType !== undefined) return dataOfContent(body);
  const envelope = envelopeIn(body, parseExactly);
  return { data: envelope ? envelope.data : null };
}

function hintFor(posted: PostedEvent | undefined): string {
  const which = posted?.options?.destinationIds ? "of destination_ids" : `of the tenant ${posted?.tenant}`;
  return `No destination ${which} takes this event: check their event_types, channels and filter, and the tenant`;
}

function refused<K extends "forbidden" | "conflict" | "invalid" | "unavailable">(refusal: Refused<K>) {
  return { kind: "refused", refusal } as const;
}

/** Whether the events were stored is unknown: with a key, a repeat stores nothing twice. */
function notStored(): Refused<"unavailable"> {
  const detail = "The events could not be stored now; send them again, preferably with an Idempotency-Key";
  return { kind: "unavailable", detail };
}

function keyTaken(field: string): Refused<"conflict"> {
  const fault = "was used before, with other content";
  const expected = "a new key for new content";
  const detail = `The Idempotency-Key ${fault}; expected ${expected}`;
  return { kind: "conflict", detail, errors: [{ field, fault, expected }] };
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

/**
 * 413 with the events that are larger than one may be; undefined when none is.
 * @param bytes of all of them together
 */
export function oversized(events: readonly NewEvent[], bytes: number): Refused<"too_large"> | undefined {
  if (bytes <= MAX_EVENT_BYTES) return undefined;
  const sizes = events.map((event) => new TextEncoder().encode(JSON.stringify(event)).byteLength);
  const errors = sizes.flatMap((size, i) =>
    size > MAX_EVENT_BYTES
      ? [{ field: `events[${i}]`, fault: `is ${size} bytes`, expected: `at most ${MAX_EVENT_BYTES}` }]
      : [],
  );
  return errors.length > 0
    ? { kind: "too_large", detail: "An event of the batch is too large", errors }
    : undefined;
}
