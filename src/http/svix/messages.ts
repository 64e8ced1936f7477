/** Messages: events of the application's tenant. An `eventId` is the idempotency key of the event. */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { Content } from "../../core/content.ts";
import { UID, UID_WORDS } from "../../core/destination-fields.ts";
import { checked } from "../../core/field-errors.ts";
import { atField, type FieldError, withFieldNames } from "../../core/result.ts";
import { DAY_MS } from "../../core/retention.ts";
import { channelShape, channelsInEffect, refusalOf } from "../../core/routing.ts";
import { zodOf } from "../../core/zod-of.ts";
import type { Application } from "../../features/applications/sql.ts";
import { erasing } from "../../features/erasures/job.ts";
import { beginErasure } from "../../features/erasures/service.ts";
import { exampleIn } from "../../features/event-types/service.ts";
import {
  type EventInput,
  eventPositions,
  MAX_EVENT_BYTES,
  newEvent,
  ofOne,
  placesIn,
} from "../../features/events/schema.ts";
import {
  findEvents,
  findOneEvent,
  type PostedData,
  postEvents,
  postedData,
  readEventData,
  refuseEvents,
} from "../../features/events/service.ts";
import { cursorParam, timeParam } from "../../features/parameters.ts";
import type { Caller } from "../../features/service.ts";
import { eventNumber, eventId as idOfEvent, shortKeyFor } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { FoundDelivery } from "../../store/delivery-list.ts";
import type { ListedEvent } from "../../store/event-list.ts";
import { findEventType } from "../../store/event-types.ts";
import { EVENT_ID, eventNames, eventOfKey, keysOfEvents } from "../../store/events.ts";
import { findEvent, type StoredEvent } from "../../store/planned-deliveries.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { isMediaType } from "../event-content.ts";
import { decoded, jsonBody } from "../json-body.ts";
import { refusesOwnAttempts } from "../loops.ts";
import { answerOf, invalid, problem } from "../problems.ts";
import { withinIngestLimit } from "../rate-limit.ts";
import { applicationFor, applicationInput } from "./applications.ts";
import { endpointOf } from "./endpoints.ts";
import {
  applicationOf,
  bodyOf,
  callerWithin,
  flag,
  granted,
  idempotencyKeyOf,
  inNames,
  notFoundProblem,
  pageBefore,
  pageQuery,
  queryOf,
  refuse,
  refuseFields,
  refuseUnknown,
  unsupported,
} from "./shapes.ts";

const LIST = "/api/v1/app/:app/msg";

export function registerMessages(app: Hono<ApiEnv>): void {
  const body = jsonBody({ maxBytes: MAX_EVENT_BYTES, exactNumbers: true });

  app.post(LIST, requires("events:write"), withinIngestLimit, refusesOwnAttempts, body, async (c) => {
    const query = queryOf(c, z.object({ with_content: flag }));
    const input = await bodyOf(c, messageInput);
    refuseUnsupported(c.get("services"), input);
    const message = messageIn({ ...input, payload: payloadOf(input) });
    const application = await applicationFor(c, input, async () => {
      const refused = await refuseEvents(callerIn(c), [message.event]);
      if (refused) refuse(answerOf(withFieldNames(refused, inMessage)));
    });
    return createMessage(c, application, message, callerWithin(c, application), query.with_content);
  });

  app.get(LIST, requires("read"), async (c) => {
    const query = queryOf(c, listQuery);
    return listMessages(c, await applicationOf(c), query);
  });

  app.get(`${LIST}/:msg`, requires("read"), async (c) => {
    const query = queryOf(c, z.object({ with_content: flag }));
    const application = await applicationOf(c);
    const { event } = await messageOf(c, application);
    return c.json(await storedMessage(c, application, event, query.with_content));
  });

  app.delete(`${LIST}/:msg/content`, requires("admin"), async (c) => {
    const application = await applicationOf(c);
    const number = await messageNumberOf(c, application);
    const asked = { tenant: application.id, event_id: idOfEvent(number ?? 0) };
    const begun = await beginErasure(callerIn(c), asked);
    if (begun.kind === "not_found") return notFoundProblem("message", c.req.param("msg"));
    // At once, so that it is gone when this is answered; the queue would do it a moment later.
    await erasing.step(c.get("services"), granted(begun).id);
    return c.body(null, 204);
  });

  app.post("/api/v1/app/:app/endpoint/:endpoint/send-example", requires("admin"), jsonBody(), async (c) => {
    const { eventType, exampleIndex } = await bodyOf(c, exampleInput);
    const { application, row } = await endpointOf(c);
    const type = await findEventType(c.get("services").db, eventType);
    if (type === undefined) return notFoundProblem("event type", eventType);
    const payload = exampleIn(type, exampleIndex ?? 0);
    const fault = (what: string, expected: string) =>
      atField("eventType", `is ${eventType}, ${what}`, expected);
    refuseFields([payload === undefined && fault("which has no such example", "one that has")]);
    const { id, eventTypes: types, filter } = row;
    const own = channelsInEffect(row.channels);
    const channels = own?.slice(0, 1);
    const example = { type: eventType, channels, data: () => payload };
    const isRefused = refusalOf({ types, channels: own, filter }, example) !== undefined;
    refuseFields([
      isRefused && fault("which the endpoint does not take", "one of the endpoint's event types"),
    ]);
    const message = messageIn({ eventType, payload, channels, destinations: [id] });
    const { services, principal } = callerWithin(c, application);
    // A caller that changes endpoints may send them the catalogue's examples, and no other events.
    const sender = {
      services,
      principal: { ...principal, scopes: [...principal.scopes, "events:write"] },
    } as const;
    return createMessage(c, application, message, sender);
  });
}

const EVENT_ID_EXPECTED = `expected ${UID_WORDS}`;

const messageInput = z.object({
  eventType: z.unknown(),
  payload: z.unknown(),
  eventId: z.string(EVENT_ID_EXPECTED).regex(UID, EVENT_ID_EXPECTED).nullish(),
  tags: z.unknown().optional(),
  deliverAt: z.unknown().optional(),
  channels: z.unknown().optional(),
  payloadRetentionPeriod: z.number("expected a number of days").nullish(),
  payloadRetentionHours: z.number("expected a number of hours").nullish(),
  transformationsParams: z.record(z.string(), z.unknown(), "expected an object").nullish(),
  application: applicationInput.nullish(),
});

type MessageInput = z.infer<typeof messageInput>;

const exampleInput = z.object({
  eventType: z.string("expected the name of an event type"),
  exampleIndex: z.int("expected a whole number").nullish(),
  payload: z.null("expected none: a payload of your own is a message").optional(),
});

function refuseUnsupported({ config }: Services, input: MessageInput): void {
  const { payloadRetentionPeriod: days, payloadRetentionHours: hours, transformationsParams } = input;
  const kept = config.retentionMs;
  const least = `at least the ${kept / DAY_MS} days for which this deployment stores events, or nothing`;
  const { rawPayload, headers: _, ...others } = transformationsParams ?? {};
  const isUnknown =
    Object.keys(others).length > 0 || (transformationsParams && typeof rawPayload !== "string");
  refuseFields([
    days != null && days * DAY_MS < kept && unsupported("payloadRetentionPeriod", least),
    hours != null && hours * 3_600_000 < kept && unsupported("payloadRetentionHours", least),
    isUnknown && unsupported("transformationsParams", "none but rawPayload and its content-type"),
    !isMediaType(rawTypeOf(input)) && unsupported("transformationsParams.headers", "a media type"),
  ]);
}

function rawTypeOf({ transformationsParams }: MessageInput): string {
  const { headers } = transformationsParams ?? {};
  const given = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === "content-type")?.[1];
  return given === undefined ? "application/json" : typeof given === "string" ? given : "";
}

/** The payload, or the raw content that SDKs send beside it. */
function payloadOf(input: MessageInput): unknown {
  const { rawPayload } = input.transformationsParams ?? {};
  if (typeof rawPayload !== "string") return input.payload;
  return new Content(rawTypeOf(input), new TextEncoder().encode(rawPayload));
}

const renamed = inNames({
  type: "eventType",
  data: "payload",
  deliver_at: "deliverAt",
  idempotency_key: "header.idempotency-key",
});

function inMessage(error: FieldError): FieldError {
  return { ...error, field: renamed(ofOne(error)).field };
}

type NewMessage = Pick<MessageInput, "eventType" | "payload"> &
  Partial<Pick<MessageInput, "eventId" | "tags" | "channels" | "deliverAt">> &
  Readonly<{ destinations?: readonly string[] }>;

/** An idempotency key of the tenant like `EVENT_ID`: the prefix distinguishes them. */
const REQUEST = "svix-request:";

/** The key under which the event of a request is stored. */
async function requestKeyOf(c: ApiContext): Promise<string | undefined> {
  const given = idempotencyKeyOf(c);
  if (given === undefined) return undefined;
  return REQUEST + (/^[\x20-\x7e]{1,200}$/.test(given) ? given : await shortKeyFor(given));
}

/** A message as an event, which has no tenant yet. */
type ReadMessage = Readonly<{ event: EventInput; eventId: string | null; payload: unknown }>;

function messageIn(given: NewMessage): ReadMessage {
  const { eventType, payload, eventId = null, tags, channels, deliverAt, destinations } = given;
  const read = checked(newEvent, {
    type: eventType,
    ...(payload !== undefined && { data: payload }),
    ...(deliverAt != null && { deliver_at: deliverAt }),
    ...(Array.isArray(tags) && tags.length === 0 ? {} : tags != null && { tags }),
    ...(channels != null && { channels }),
    ...(destinations && { destination_ids: destinations }),
  });
  return "data" in read ? { event: read.data, eventId, payload } : refuse(invalid(read.map(inMessage)));
}

async function createMessage(
  c: ApiContext,
  application: Application,
  { event: given, eventId, payload }: ReadMessage,
  sender: Caller,
  withContent = true,
): Promise<Response> {
  const { services } = sender;
  const key = eventId === null ? await requestKeyOf(c) : EVENT_ID + eventId;
  const posted = await postEvents(sender, { events: [{ ...given, tenant: application.id }], key });
  // The SDKs count their own repeats of a request: a repeat gets the answer that was lost.
  const isOwnRepeat = c.req.header("svix-retry-count") !== undefined;
  const isTaken = posted.kind === "ok" ? posted.value.isReplayed && !isOwnRepeat : posted.kind === "conflict";
  if (eventId !== null && isTaken)
    return problem(409, `There is a message with the eventId ${eventId} already`);
  if (posted.kind !== "ok") return answerOf(withFieldNames(posted, inMessage));
  const { events, acceptedAt: at, isReplayed } = posted.value;
  const number = eventNumber(events[0]?.id ?? "");
  if (number === undefined) throw new Error("An accepted event must have an id");
  const { type, deliver_at: dueFrom = null, tags = [], channels = [] } = given;
  const stored =
    isReplayed || at === undefined
      ? await findEvent(services, number, application.id, overBy(services))
      : undefined;
  const times = stored?.event ?? { acceptedAt: at ?? services.now(), deliverAt: dueFrom };
  const { acceptedAt, deliverAt: dueAt } = times;
  const event = { id: number, type, acceptedAt, deliverAt: dueAt, tags, channels };
  const shown = payload instanceof Content ? (decoded(payload.bytes) ?? null) : payload;
  return c.json(view(event, eventId, withContent ? shown : {}), 202);
}

const typeList = z
  .string()
  .transform((given) => given.split(","))
  .optional();

/** The parameters of lists of messages and of attempts. */
export const messageQuery = {
  ...pageQuery,
  channel: zodOf(channelShape).optional(),
  tag: z.string().optional(),
  before: timeParam.optional(),
  after: timeParam.optional(),
  event_types: typeList,
  with_content: flag,
};

const listQuery = z.object({ ...messageQuery, iterator: cursorParam(eventPositions) });

/** The newest first. A page may be short, or empty, and not the last one: see store/event-list.ts. */
async function listMessages(c: ApiContext, application: Application, query: z.infer<typeof listQuery>) {
  const { limit, iterator: cursor, tag, channel, before: until, after, event_types: types } = query;
  const { with_content: withData = true } = query;
  const since = after === undefined ? undefined : after + 1;
  const filter = { types, tag, channel, since, until, cursor, limit, withData };
  const { events, next, data: contents } = granted(await findEvents(callerWithin(c, application), filter));
  const names = await eventIdsOf(c.get("services"), application, events);
  const data = events.map((event) => messageView(event, names, contents?.get(event.id), withData));
  return c.json(pageBefore(data, next && placesIn(next)));
}

export async function messageViews(
  c: ApiContext,
  application: Application,
  events: readonly ListedEvent[],
  withContent = true,
) {
  const read = granted(await readEventData(callerWithin(c, application), withContent ? events : []));
  const names = await eventIdsOf(c.get("services"), application, events);
  return events.map((event) => messageView(event, names, read.get(event.id), withContent));
}

type LoadedEvent = Omit<Shown, "tags" | "channels"> &
  Readonly<{ body: Uint8Array | null | undefined; contentType?: string | undefined }>;

/** Messages of events that have been loaded with their bodies. */
export async function loadedMessageViews(
  { services }: Pick<Caller, "services">,
  application: Application,
  events: readonly LoadedEvent[],
) {
  const ids = events.map(({ id }) => id);
  const [names, keys] = await Promise.all([
    eventNames(services, ids),
    eventIdsOf(services, application, events),
  ]);
  return events.map((event) => {
    const { tags = [], channels = [] } = names.get(event.id) ?? {};
    const { data } = postedData(event.body, event.contentType);
    return view({ ...event, tags, channels }, keys.get(event.id) ?? null, data);
  });
}

type FoundMessage = Readonly<{ event: StoredEvent; deliveries: readonly FoundDelivery[] }>;

/** The message that the path names by id or `eventId`, with its deliveries, or the 404. */
export async function messageOf(c: ApiContext, application: Application): Promise<FoundMessage> {
  const number = await messageNumberOf(c, application);
  const found = number === undefined ? undefined : await findOneEvent(callerWithin(c, application), number);
  return found?.kind === "ok" ? found.value : refuseUnknown("message", c.req.param("msg"));
}

/** The event's number for the path's id or `eventId`, whether or not there is such a message. */
export async function messageNumberOf(c: ApiContext, application: Application): Promise<number | undefined> {
  return messageNumber(c.get("services"), application, c.req.param("msg") ?? "");
}

/** The event's number for an id or `eventId`, whether or not there is such a message. */
export async function messageNumber(services: Services, { id: tenant }: Application, name: string) {
  return eventNumber(name) ?? eventOfKey(services, tenant, EVENT_ID + name);
}

/** The `eventId` of each of the messages that has one. */
async function eventIdsOf(
  services: Services,
  { id: tenant }: Application,
  events: readonly Pick<ListedEvent, "id">[],
): Promise<ReadonlyMap<number, string>> {
  const keys = await keysOfEvents(
    services,
    tenant,
    events.map(({ id }) => id),
  );
  return new Map(
    [...keys].flatMap(([event, key]) =>
      key.startsWith(EVENT_ID) ? [[event, key.slice(EVENT_ID.length)] as const] : [],
    ),
  );
}

/** A message that was read alone. */
export async function storedMessage(
  c: ApiContext,
  application: Application,
  event: StoredEvent,
  withContent = true,
) {
  const names = await eventIdsOf(c.get("services"), application, [event]);
  return messageView(event, names, postedData(event.body, event.contentType), withContent);
}

type MessageEvent = Parameters<typeof view>[0] & Readonly<{ isErased: boolean }>;

/** @param data the posted data; undefined if it is erased */
function messageView(
  event: MessageEvent,
  names: ReadonlyMap<number, string>,
  data: PostedData | undefined,
  withContent = true,
) {
  const payload = event.isErased ? ERASED : data?.data;
  return view(event, names.get(event.id) ?? null, withContent ? payload : {});
}

/** The form in which the Svix API shows an erased payload. */
const ERASED = { expired: true };

type Shown = Pick<StoredEvent, "id" | "type" | "acceptedAt" | "deliverAt" | "tags" | "channels">;

function view(
  { id, type, acceptedAt, deliverAt, tags, channels }: Shown,
  eventId: string | null,
  payload: unknown,
) {
  return {
    id: idOfEvent(id),
    eventId,
    eventType: type,
    payload: objectOf(payload),
    channels: channels.length > 0 ? [...new Set(channels)].sort() : null,
    tags: tags.length > 0 ? tags : null,
    timestamp: isoTime(acceptedAt),
    deliverAt: isoTime(deliverAt),
  };
}

/** The payload, where it is an object. Typed SDKs read nothing else, and one other payload would fail a whole list. */
function objectOf(payload: unknown): object {
  const isObject = typeof payload === "object" && payload !== null;
  return isObject && !Array.isArray(payload) && !JSON.isRawJSON(payload) ? payload : {};
}
