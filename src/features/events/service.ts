/**
 * Events: posted, listed and shown.
 *
 * Events that are posted together are accepted as a whole or not at all. With an idempotency key they are stored at most once:
 * the key names the request, and is kept as long as the events that were posted under it.
 *
 * Errors name the fields of the i-th event `events[i].type` and so on, and the key `idempotency_key`. Adapters that have other
 * names for them rename them (`withFieldNames`).
 */
import { capsOf } from "../../config.ts";
import { parseExactly } from "../../core/json-value.ts";
import { notYourTenant, type Principal, refuseTenant, tenantFor } from "../../core/principal.ts";
import {
  conflictAt,
  errorIf,
  type FieldError,
  invalidField,
  invalidFields,
  missing,
  ok,
  type Refused,
  type Result,
  unavailable,
} from "../../core/result.ts";
import { maskedHeaders } from "../../delivery/authorization.ts";
import { textOf } from "../../delivery/http.ts";
import { deliveryId, eventId, eventNumber } from "../../ids.ts";
import { accept, acceptEach, entryOfMessage, type Handover } from "../../ingest/accept.ts";
import {
  type AcceptedEvent,
  type CommitResult,
  type EventOptions,
  eventFaultsOf,
  type PostedEvent,
  postedEvent,
  UNAVAILABLE,
} from "../../ingest/bundle.ts";
import { CATALOGUE } from "../../ingest/routing-cache.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { FoundDelivery } from "../../store/delivery-list.ts";
import {
  type EventPosition,
  eachBody,
  eventsById,
  type ListedEvent,
  listEvents,
  withinBytes,
} from "../../store/event-list.ts";
import { findEvent, type StoredEvent } from "../../store/planned-deliveries.ts";
import type { TimeRange } from "../../store/time-ranges.ts";
import { isoTime } from "../../time.ts";
import type { DeliveryJson } from "../deliveries/schema.ts";
import { FAULTS_SHOWN, shownDeliveries, withFault } from "../deliveries/view.ts";
import { rangeErrors } from "../parameters.ts";
import { type Caller, service, servicesAbout } from "../service.ts";
import { curlCommands } from "./curl.ts";
import {
  type AcceptedEventJson,
  type EventInput,
  type EventJson,
  type ListedEventJson,
  MAX_DAYS_AHEAD,
  MAX_EVENT_BYTES,
} from "./schema.ts";

const posting = { scope: "events:write" } as const;
const reading = { scope: "read" } as const;

// ── Posting ──

type EventsInput = Readonly<{
  events: readonly EventInput[];
  /** The idempotency key. */
  key?: string | undefined;
  /** Where they came as one JSON text: its bytes, from which the sizes of the events are checked. */
  bytes?: number | undefined;
}>;

/** Stores the events, all or none; with a key, at most once. */
export const postEvents = service(
  posting,
  async ({ services, principal }, { events: given, key, bytes = 0 }: EventsInput) => {
    const tooLarge = oversized(given, bytes);
    if (tooLarge) return tooLarge;
    const posted = postedEvents(services, principal, given);
    if (posted.kind !== "ok") return posted;
    const result = await accept(services, posted.value, key);
    if (!("events" in result)) return notAccepted(services, result, given.length);
    return ok({
      events: result.events.map((event, i) => acceptedView(event, posted.value[i])),
      /** When the first of them was accepted, epoch ms; undefined where it has to be looked up. */
      acceptedAt: result.events[0]?.acceptedAt,
      isReplayed: result.kind === "replayed",
    });
  },
);

/** Why the events would be refused for a tenant without destinations; undefined if they would not be. */
export async function refuseEvents(
  { services, principal }: Caller,
  given: readonly EventInput[],
): Promise<Refused<"forbidden" | "invalid"> | undefined> {
  const posted = postedEvents(services, principal, given);
  if (posted.kind !== "ok") return posted;
  const catalogue = await services.routing.fresh(services.db, [CATALOGUE]);
  const faults = eventFaultsOf({ token: "", deadlineAt: 0, events: posted.value }, catalogue);
  return faults.length > 0 ? invalidFields(faults.map(inEvents)) : undefined;
}

function inEvents({ place, field, ...rest }: ReturnType<typeof eventFaultsOf>[number]): FieldError {
  return { field: `events[${place}].${field}`, ...rest };
}

type NotPosted = Refused<"forbidden" | "conflict" | "invalid" | "unavailable">;

/** Stores the event of each message, once however often it is handed over. The results are in their order. */
export const postEach = service(
  posting,
  async ({ services, principal }, messages: readonly (Handover & Readonly<{ event: EventInput }>)[]) => {
    const read = await Promise.all(
      messages.map(async ({ event, ...handover }) => {
        const posted = postedEvents(services, principal, [event]);
        const [only] = posted.kind === "ok" ? posted.value : [];
        return { posted, entry: only && (await entryOfMessage(services, only, handover)) };
      }),
    );
    const entries = read.flatMap(({ entry }) => entry ?? []);
    const results = await acceptEach(services, entries);
    return ok(
      read.map(({ posted, entry }): Result<undefined, NotPosted["kind"]> => {
        if (posted.kind !== "ok") return posted;
        const result = (entry && results[entries.indexOf(entry)]) ?? UNAVAILABLE;
        return "events" in result ? ok(undefined) : notAccepted(services, result, 1);
      }),
    );
  },
);

/** The events with their tenants, or why the principal, or everyone, may not post them. */
function postedEvents(
  { now }: Services,
  principal: Principal,
  given: readonly EventInput[],
): Result<readonly PostedEvent[], "forbidden" | "invalid"> {
  const events = given.flatMap(({ type, data, tenant: named, deliver_at: deliverAt, ...rest }) => {
    const tenant = tenantFor(principal, named);
    const options = optionsOf(rest);
    return tenant === undefined ? [] : [postedEvent({ tenant, type, data, deliverAt, options })];
  });
  if (events.length < given.length) return notYourTenant(principal);
  const faults = [...tooFarAhead(given, now()), ...scheduledWithKey(given)];
  return faults.length > 0 ? invalidFields(faults) : ok(events);
}

/** Undefined when there are none, so that nothing is stored or sent of them. */
function optionsOf(
  given: Omit<EventInput, "type" | "data" | "tenant" | "deliver_at">,
): EventOptions | undefined {
  const { destination_ids, tags, channels, ttl, headers, ordering_key, validate, version } = given;
  const options = {
    ...(destination_ids && { destinationIds: destination_ids }),
    ...(tags && { tags }),
    ...(channels && { channels }),
    ...(ttl !== undefined && { ttlSeconds: ttl }),
    ...(headers && Object.keys(headers).length > 0 && { headers }),
    ...(ordering_key !== undefined && { orderingKey: ordering_key }),
    ...(validate && { validate }),
    ...(version !== undefined && { version }),
  };
  return Object.keys(options).length > 0 ? options : undefined;
}

/** Events are ordered by when they were accepted: a scheduled one has no place in a line. */
function scheduledWithKey(given: readonly EventInput[]): FieldError[] {
  return given.flatMap(({ deliver_at, ordering_key }, i) => {
    const areBoth = deliver_at !== undefined && ordering_key !== undefined;
    return errorIf(areBoth, `events[${i}].deliver_at`, "is given with ordering_key", "one of them");
  });
}

function tooFarAhead(given: readonly EventInput[], now: number): FieldError[] {
  const latest = now + MAX_DAYS_AHEAD * 86_400_000;
  const expected = `at most ${MAX_DAYS_AHEAD} days from now, ${isoTime(latest)}`;
  return given.flatMap(({ deliver_at: at = now }, i) =>
    errorIf(at > latest, `events[${i}].deliver_at`, "is too far ahead", expected),
  );
}

/** Why events are too large; undefined when none is. The reader of the body has measured an event that came alone. */
function oversized(events: readonly EventInput[], bytes: number): Refused<"too_large"> | undefined {
  if (bytes <= MAX_EVENT_BYTES) return undefined;
  const sizes = events.map((event) => new TextEncoder().encode(JSON.stringify(event)).byteLength);
  const errors = sizes.flatMap((size, i) =>
    errorIf(size > MAX_EVENT_BYTES, `events[${i}]`, `is ${size} bytes`, `at most ${MAX_EVENT_BYTES}`),
  );
  return errors.length > 0
    ? { kind: "too_large", detail: "An event of the batch is too large", errors }
    : undefined;
}

/** Whether the events were stored is unknown: with a key, a repeat stores nothing twice. */
const NOT_STORED = unavailable(
  "The events could not be stored now; send them again, preferably with an Idempotency-Key",
);

/** @param events how many were posted */
function notAccepted(
  { config }: Services,
  result: Exclude<CommitResult, { events: unknown }>,
  events: number,
): Exclude<NotPosted, { kind: "forbidden" }> {
  switch (result.kind) {
    case "conflict":
      return KEY_TAKEN;
    case "invalid":
      return invalidFields(result.faults.map(inEvents));
    case "unavailable":
      return NOT_STORED;
    case "too_many": {
      const max = capsOf(config).deliveries;
      const fault = `would make ${result.planned} deliveries`;
      const expected = `at most ${max} in one request: fewer events, or events that fewer destinations take`;
      return invalidField(events === 1 ? "events[0].type" : "events", fault, expected);
    }
  }
}

const KEY_TAKEN = conflictAt("The Idempotency-Key", {
  field: "idempotency_key",
  fault: "was used before, with other content",
  expected: "a new key for new content",
});

function acceptedView(
  { id, plan, deliverAt, isRemoved }: AcceptedEvent,
  posted: PostedEvent | undefined,
): AcceptedEventJson {
  const deliveries = plan.map((destination) => ({
    id: deliveryId(id, destination),
    destination_id: destination,
    state: "queued" as const,
  }));
  const scheduled = deliverAt !== undefined && { deliver_at: isoTime(deliverAt) };
  const hasNoTaker = plan.length === 0 && isRemoved !== true;
  return { id: eventId(id), ...scheduled, ...(hasNoTaker && { hint: hintFor(posted) }), deliveries };
}

function hintFor(posted: PostedEvent | undefined): string {
  const { tenant, options } = posted ?? {};
  const which = options?.destinationIds ? "of destination_ids" : `of the tenant ${tenant}`;
  return `No destination ${which} takes this event: check their event_types, channels and filter, and the tenant`;
}

// ── One event ──

/** An event and its deliveries as they are stored: calls no gate. */
export const findOneEvent = service(reading, async (call, id: number) => {
  const found = await eventOf(call, id);
  return found ? ok(found) : missing("event", eventId(id));
});

async function eventOf({ services, principal }: Caller, number: number | undefined) {
  return number === undefined ? undefined : findEvent(services, number, principal.tenant, overBy(services));
}

/** `parse` reads the JSON of the event's body. */
type ShowEvent = Readonly<{ id: string; parse: (text: string) => unknown }>;

const eventService = servicesAbout("event", (caller, id) => eventOf(caller, eventNumber(id)));

/** An event with its deliveries, as they are shown. */
export const getEvent = eventService(reading, async (call, found, { parse }: ShowEvent) => {
  const { event } = found;
  const { headers, isErased, body, contentType } = event;
  const isAdmin = call.principal.scopes.includes("admin");
  return ok<EventJson>({
    ...eventView(event),
    ...(headers && { headers: isAdmin ? headers : maskedHeaders(headers, headers) }),
    ...(isErased ? { data: null } : postedData(body, contentType, parse)),
    deliveries: await shownDeliveries(call, found.deliveries),
  });
});

/** An event with everything that operators can see of it. */
export type EventInFull = Readonly<{
  event: StoredEvent;
  deliveries: readonly Readonly<{ delivery: DeliveryJson; destination: FoundDelivery["destination"] }>[];
  /** By destination: a command that sends the event now. Without the scope admin there are none: they are signed. */
  commands: ReadonlyMap<string, string>;
}>;

export const getEventInFull = eventService(reading, async (call, found) => {
  const { event } = found;
  const shown = await shownDeliveries(call, found.deliveries);
  const destinations = found.deliveries.map(({ destination }) => destination);
  const faulty = shown.filter(({ reason }) => reason === "transform_failed").slice(0, FAULTS_SHOWN);
  const deliveries = await Promise.all(
    shown.map(async (one, i) => {
      const destination = destinations[i] ?? null;
      const delivery = faulty.includes(one) ? await withFault(call.services, event, destination, one) : one;
      return { delivery, destination };
    }),
  );
  const isAdmin = call.principal.scopes.includes("admin");
  const commands = isAdmin ? await curlCommands(call.services, event, destinations) : new Map();
  return ok<EventInFull>({ event, deliveries, commands });
});

type Viewed = Pick<
  ListedEvent,
  "id" | "tenant" | "type" | "acceptedAt" | "deliverAt" | "tags" | "channels" | "ttlSeconds"
> &
  Readonly<{ contentType?: string | undefined; isErased: boolean }>;

/** An event without its data. */
export function eventView(event: Viewed): ListedEventJson {
  const { id, tenant, type, acceptedAt, deliverAt, tags, channels, ttlSeconds, contentType, isErased } =
    event;
  return {
    id: eventId(id),
    tenant,
    type,
    timestamp: isoTime(acceptedAt),
    ...(deliverAt !== null && { deliver_at: isoTime(deliverAt) }),
    ...(tags.length > 0 && { tags: [...tags] }),
    ...(channels.length > 0 && { channels: [...channels] }),
    ...(ttlSeconds !== undefined && { ttl: ttlSeconds }),
    ...(contentType !== undefined && { content_type: contentType }),
    ...(isErased && { content: "erased" as const }),
  };
}

/** The posted content: `data` is null if the stored bytes are damaged. */
export type PostedData = Pick<EventJson, "data" | "data_base64">;

export function postedData(
  body: Uint8Array | null | undefined,
  contentType: string | undefined,
  parse: (text: string) => unknown = parseExactly,
): PostedData {
  const text = body ? textOf(body) : undefined;
  if (contentType === undefined)
    return { data: text === undefined ? null : (parse(text) as { data: unknown }).data };
  return body && text === undefined ? { data_base64: body.toBase64() } : { data: text ?? null };
}

// ── Lists ──

type EventQuery = TimeRange &
  Readonly<{
    tenant?: string | undefined;
    /** Patterns of types, one of which has to match. */
    types?: readonly string[] | undefined;
    tag?: string | undefined;
    channel?: string | undefined;
    cursor?: readonly EventPosition[] | undefined;
    limit: number;
    /** Whether the data of the events is read: a page then has a bounded number of bytes. */
    withData: boolean;
  }>;

/** A page of events, the newest first. It may be short, or empty, and not the last one: see store/event-list.ts. */
export const findEvents = service(
  reading,
  async ({ services, principal }, { since, until, cursor: from, withData, ...query }: EventQuery) => {
    const errors = rangeErrors(since, until);
    if (errors.length > 0) return invalidFields(errors);
    const refusal = refuseTenant(principal, query.tenant);
    if (refusal) return refusal;
    const { tenant = query.tenant } = principal;
    const filter = { ...query, tenant, accepted: { since, until }, over: overBy(services), from };
    const { found, next, lookedBackTo } = withinBytes(await listEvents(services, filter), () => withData);
    const data = withData ? await dataOf(services, found) : undefined;
    return ok({ events: found, data, next, lookedBackTo });
  },
);

/** The events that are stored, by their numbers. The principal is bound to a tenant. */
export const findEventsById = service(reading, async ({ services, principal }, ids: readonly number[]) => {
  if (principal.tenant === undefined) return notYourTenant(principal);
  return ok(await eventsById(services, principal.tenant, ids));
});

/** The data of events of a list, by their numbers. */
export const readEventData = service(
  reading,
  async ({ services, principal: { tenant } }, events: readonly ListedEvent[]) =>
    ok(await dataOf(services, tenant === undefined ? events : events.filter((one) => one.tenant === tenant))),
);

/** Without that of events whose content has been erased. */
async function dataOf(services: Services, events: readonly ListedEvent[]) {
  const data = new Map<number, PostedData>();
  const stored = events.filter(({ isErased }) => !isErased);
  await eachBody(services, stored, ({ id, contentType }, body) =>
    data.set(id, postedData(body, contentType)),
  );
  return data;
}
