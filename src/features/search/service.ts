/**
 * Search: finds the record of an id, and events and deliveries by words and conditions.
 *
 * Ids and the caller's names are looked up. A search with conditions that only deliveries have is a list of deliveries.
 * Everything else is searched for in events, the newest first: see store/events.ts.
 */
import type { z } from "zod";
import { checked } from "../../core/field-errors.ts";
import { type Principal, refuseTenant } from "../../core/principal.ts";
import { deliveryReasons } from "../../core/reasons.ts";
import {
  type FieldError,
  invalidField,
  invalidFields,
  ok,
  type Refused,
  type Result,
} from "../../core/result.ts";
import { parseSearch, type SearchQuery } from "../../core/search-query.ts";
import { eventId, eventNumber, idPatterns } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { Destination } from "../../store/destination.ts";
import { destinationByUid, findDestination } from "../../store/destinations.ts";
import { EVENT_ID, eventOfKey, type FoundEvent, searchEvents } from "../../store/events.ts";
import { deliveriesOfEvents, findEventAlone } from "../../store/planned-deliveries.ts";
import { findReplay } from "../../store/replays.ts";
import { isoTime } from "../../time.ts";
import { attemptIn } from "../deliveries/attempts.ts";
import { type DeliveryJson, deliveryStates } from "../deliveries/schema.ts";
import {
  getDeliveriesNamed,
  getDeliveryNamed,
  type LoggedDelivery,
  placesOf,
} from "../deliveries/service.ts";
import { storedDelivery } from "../deliveries/view.ts";
import { type ListedEventJson, placesIn } from "../events/schema.ts";
import { eventView } from "../events/service.ts";
import { findKey } from "../keys/sql.ts";
import { cursorAfter, rangeErrors } from "../parameters.ts";
import { type Call, service } from "../service.ts";
import {
  conditionFields,
  MOST_DELIVERIES,
  type SearchCursor,
  type SearchResultJson,
  type searchQuery,
} from "./schema.ts";

/** A page of what was found. `looked_back_to`: events accepted later have been found; null on the last page. */
type SearchPage = Readonly<{
  data: SearchResultJson[];
  next_cursor: string | null;
  looked_back_to: string | null;
}>;

export const search = service({ scope: "read" }, async (call, input: z.infer<typeof searchQuery>) => {
  const { q, cursor } = input;
  const query = parseSearch(q, { isReason, isState });
  const read = checked(conditionFields, fieldsOf(query));
  if (!("data" in read)) return invalidFields(asGiven(read));
  const refused = refusalOf(query, read.data, call.principal, cursor);
  if (refused) return refused;
  const parsed = { ...input, query, fields: read.data };
  const direct = cursor === undefined ? await directHits(call, parsed) : [];
  if (direct.some(({ matched }) => matched === "id"))
    return ok<SearchPage>({ data: direct, next_cursor: null, looked_back_to: null });
  return isAboutDeliveries(query)
    ? deliveriesFound(call, parsed)
    : ok(await eventsFound(call, parsed, direct));
});

type ParsedSearch = z.infer<typeof searchQuery> & Readonly<{ query: SearchQuery; fields: SearchFields }>;

type SearchFields = z.infer<typeof conditionFields>;

async function deliveriesFound(
  call: Call,
  { fields, limit, cursor }: ParsedSearch,
): Promise<Result<SearchPage, "forbidden" | "invalid">> {
  const listed = await getDeliveriesNamed(call, { ...fields, limit, cursor: cursor?.deliveries });
  if (listed.kind !== "ok") return listed;
  const { entries, next } = listed.value;
  return ok({
    data: entries.map((entry) => ({ ...deliveryResult(entry), matched: "conditions" })),
    next_cursor: cursorAfter(next && { deliveries: placesOf(next) }),
    looked_back_to: null,
  });
}

/** @param direct what has been found already, and comes first */
async function eventsFound(
  { services, principal }: Call,
  { query, fields, limit, cursor }: ParsedSearch,
  direct: readonly SearchResultJson[],
): Promise<SearchPage> {
  const { tenant = principal.tenant, type, tag, since, until } = fields;
  const types = type === undefined ? undefined : [type];
  const accepted = { since, until };
  const filter = { tenant, types, tag, accepted, over: overBy(services), from: cursor?.events, limit };
  const { found, page } = await searchEvents(services, filter, query.words);
  const known = new Set(direct.map(({ id }) => id));
  const { next, lookedBackTo } = page;
  const others = found.filter(({ event }) => !known.has(eventId(event.id)));
  const ids = others.map(({ event }) => event.id);
  const deliveries = await deliveriesShown(services, ids);
  return {
    data: [...direct, ...others.map((one) => ({ ...eventResult(one), ...deliveries.get(one.event.id) }))],
    next_cursor: cursorAfter(next && { events: placesIn(next) }),
    looked_back_to: isoTime(lookedBackTo ?? null),
  };
}

/** `order` is a word in many events: alone it does not mean the reason. */
const isReason = (word: string) =>
  deliveryReasons.some((one) => one === word && one !== "order") || /^http_[1-9]\d\d$/.test(word);
const isState = (word: string) => deliveryStates.some((one) => one === word);

// ── Conditions ──

/** A day means its beginning, in UTC. */
const DAY = /^\d{4}-\d\d-\d\d$/;

/** The conditions with the names that lists have for them. */
function fieldsOf({ conditions }: SearchQuery): Record<string, string> {
  const { destination, ...others } = conditions;
  const given = destination === undefined ? others : { ...others, destination_id: destination };
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, DAY.test(value) ? `${value}T00:00:00Z` : value]),
  );
}

/** Faults of conditions are faults of `q`. */
function asGiven(errors: readonly FieldError[]): FieldError[] {
  return errors.map(({ field, fault, expected }) => ({
    field: "q",
    fault: `has a ${field.replace("_id", "")} that ${fault}`,
    expected,
  }));
}

/** Whether it has a condition that only deliveries have. */
function isAboutDeliveries({ conditions }: SearchQuery): boolean {
  return ["status", "reason", "state", "destination"].some((name) => name in conditions);
}

function refusalOf(
  query: SearchQuery,
  { tenant, since, until }: SearchFields,
  principal: Principal,
  cursor: SearchCursor | undefined,
): Refused<"forbidden" | "invalid"> | undefined {
  const refusal = refuseTenant(principal, tenant);
  if (refusal) return refusal;
  const range = rangeErrors(since, until);
  if (range.length > 0) return invalidFields(asGiven(range));
  const isOfDeliveries = isAboutDeliveries(query);
  if (isOfDeliveries && query.words.length > 0) {
    const fault = "has words beside a condition that only deliveries have";
    return invalidField("q", fault, "either: words are searched for in events");
  }
  if (cursor !== undefined && isOfDeliveries !== (cursor.deliveries !== undefined))
    return invalidField("cursor", "is that of another search", "the next_cursor of a page of this one");
  return undefined;
}

// ── Lookups ──

/** Finds the record with this id, or with this name of the caller's own. */
async function directHits(
  call: Call,
  { q, query: { words, conditions }, fields: { tenant = call.principal.tenant } }: ParsedSearch,
): Promise<SearchResultJson[]> {
  const name = q.trim();
  const isWord = words.length === 1 && words[0] === name && Object.keys(conditions).length === 0;
  const found = isWord ? await byId(call, name) : undefined;
  if (found) return [{ ...found, matched: "id" }];
  const [word, ...others] = words;
  if (word === undefined || others.length > 0 || tenant === undefined) return [];
  return byOwnName(call.services, tenant, word);
}

type FoundById = Omit<SearchResultJson, "matched">;

async function byId(call: Call, id: string): Promise<FoundById | undefined> {
  const { services, principal } = call;
  const { tenant, scopes } = principal;
  const { db } = services;
  if (idPatterns.destination.test(id)) {
    const row = await findDestination(db, id, tenant);
    return row && destinationResult(row);
  }
  if (idPatterns.replay.test(id)) {
    const row = await findReplay(services, id, tenant);
    if (row === undefined) return undefined;
    const { state, destinationId: destination_id, createdAt } = row;
    return { kind: "replay", id, tenant: row.tenant, destination_id, state, at: isoTime(createdAt) };
  }
  if (idPatterns.key.test(id)) {
    const row = scopes.includes("admin") ? await findKey(db, id, tenant) : undefined;
    const named = row && { ...(row.tenant && { tenant: row.tenant }), ...(row.name && { name: row.name }) };
    return named && { kind: "key", id, ...named, at: isoTime(row.createdAt) };
  }
  const found = await getDeliveryNamed(call, attemptIn(id)?.delivery ?? id);
  if (found.kind === "ok") return deliveryResult(found.value);
  const number = eventNumber(id);
  return number === undefined ? undefined : eventWith(services, number, tenant);
}

/** The events that were posted with this idempotency key, and the endpoint with this `uid`. */
async function byOwnName(services: Services, tenant: string, name: string): Promise<SearchResultJson[]> {
  const [posted, message, destination] = await Promise.all([
    eventOfKey(services, tenant, name),
    eventOfKey(services, tenant, EVENT_ID + name),
    destinationByUid(services.db, tenant, name),
  ]);
  const numbers = [...new Set([posted, message])].filter((one) => one !== undefined);
  const [deliveries, ...events] = await Promise.all([
    deliveriesShown(services, numbers),
    ...numbers.map((number) => eventWith(services, number, tenant)),
  ]);
  return [
    ...events.flatMap((one, i): SearchResultJson[] =>
      one ? [{ ...one, ...deliveries.get(numbers[i] ?? 0), matched: "idempotency_key" }] : [],
    ),
    ...(destination ? [{ ...destinationResult(destination), matched: "uid" as const }] : []),
  ];
}

async function eventWith(services: Services, number: number, tenant: string | undefined) {
  const event = await findEventAlone(services, number, tenant, overBy(services));
  return event && resultOf(eventView(event));
}

// ── Results ──

function destinationResult({ id, tenant, status, createdAt, ...row }: Destination): FoundById {
  const name = row.description ?? row.url;
  return { kind: "destination", id, tenant, name, state: status, at: isoTime(createdAt) };
}

function eventResult({ event, excerpt }: FoundEvent): SearchResultJson {
  const matched = excerpt === undefined ? "name" : "content";
  return { ...resultOf(eventView(event)), matched, ...(excerpt !== undefined && { excerpt }) };
}

function resultOf(event: ListedEventJson): FoundById {
  const { id, tenant, type, timestamp: at } = event;
  return { kind: "event", id, tenant, type, at, event };
}

function deliveryResult({ delivery, event, destination }: LoggedDelivery): FoundById {
  return {
    ...{ kind: "delivery", id: delivery.id, delivery },
    ...(event && { tenant: event.tenant, type: event.type, at: isoTime(event.acceptedAt) }),
    deliveries: [stateShown(delivery, destination)],
  };
}

type DeliveriesShown = Pick<SearchResultJson, "deliveries" | "delivery_count">;

/** The destinations of each event, and its progress. As they are stored: no gate is called. */
async function deliveriesShown(
  services: Services,
  events: readonly number[],
): Promise<ReadonlyMap<number, DeliveriesShown>> {
  if (events.length === 0) return new Map();
  const some = await deliveriesOfEvents(services, events, MOST_DELIVERIES);
  const now = services.now();
  return new Map(
    [...some].map(([event, { found, count }]) => {
      const deliveries = found.map((one) => stateShown(storedDelivery(one, now), one.destination));
      return [event, { deliveries, delivery_count: count }];
    }),
  );
}

function stateShown({ id, destination_id, state, reason }: DeliveryJson, destination: Destination | null) {
  const name = destination ? (destination.description ?? destination.url) : destination_id;
  return { id, destination_id, destination: name, state, ...(reason !== undefined && { reason }) };
}
