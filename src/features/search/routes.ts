/**
 * `GET /v1/search`: from an id to the thing that has it, and from words and conditions to events and deliveries.
 *
 * Ids and the caller's own names are looked up. Conditions that only deliveries have are left to the list of deliveries.
 * Everything else is searched for in events, the newest first: see store/event-search.ts.
 */

import { createRoute, z } from "@hono/zod-openapi";
import { type Principal, refuseTenant } from "../../core/principal.ts";
import { deliveryReasons } from "../../core/reasons.ts";
import { type FieldError, invalidFields, type Refused } from "../../core/result.ts";
import { parseSearch, type SearchQuery } from "../../core/search-query.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import {
  cursorParam,
  encodeCursor,
  eventTypePattern,
  jsonAnswer,
  limitParam,
  pageOf,
  rangeErrors,
  strict,
  tenantName,
  timeParam,
} from "../../http/parameters.ts";
import { answerOf, checked, problemResponses } from "../../http/problems.ts";
import { deliveryKey, eventId, eventNumber, idPatterns } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import { destinationByUid, findDestination } from "../../store/destinations.ts";
import { EVENT_ID, eventOfKey, type FoundEvent, searchEvents } from "../../store/events.ts";
import { findDelivery, findEventAlone } from "../../store/planned-deliveries.ts";
import { findReplay } from "../../store/replays.ts";
import {
  deliveryCursor,
  deliveryQuery,
  deliverySchema,
  deliveryStates,
  listDeliveries,
  placesOf,
  showDeliveries,
} from "../deliveries/routes.ts";
import {
  eventPositions,
  eventView,
  listedEvent,
  lookedBack,
  lookedBackView,
  placesIn,
} from "../events/list.ts";
import { eventTag } from "../events/options.ts";
import { findKey } from "../keys/sql.ts";

export function registerSearch(api: Api): void {
  api.openapi(getSearch, async (c) => {
    const [services, principal] = [c.get("services"), c.get("principal")];
    const { q, limit, cursor } = c.req.valid("query");
    const query = parseSearch(q, { isReason, isState });
    const read = checked(conditionFields, inFields(query));
    if (!("data" in read)) return answerOf(invalidFields(asGiven(read)));
    const refused = refusalOf(query, read.data, principal, cursor);
    if (refused) return answerOf(refused);
    const search = { services, principal, query, fields: read.data, limit, cursor };
    const direct = cursor === undefined ? await directHits(search, q.trim()) : [];
    if (direct.some(({ matched }) => matched === "id"))
      return c.json({ data: direct, next_cursor: null, looked_back_to: null }, 200);
    if (!isAboutDeliveries(query)) return c.json(await eventsFound(search, direct), 200);
    const found = await deliveriesFound(search);
    return "kind" in found ? answerOf(found) : c.json(found, 200);
  });
}

type Search = Readonly<{
  services: Services;
  principal: Principal;
  query: SearchQuery;
  fields: Fields;
  limit: number;
  cursor: Cursor | undefined;
}>;

type Answer = Readonly<{ data: Result[]; next_cursor: string | null; looked_back_to: string | null }>;

async function deliveriesFound(search: Search): Promise<Answer | Refused<"forbidden" | "invalid">> {
  const { services, principal, fields, limit, cursor } = search;
  const listed = await listDeliveries(services, principal, { ...fields, limit, cursor: cursor?.deliveries });
  if (listed.kind === "refused") return listed.refusal;
  const { found, next } = listed.page;
  const shown = await showDeliveries(services, found);
  return {
    data: shown.map((delivery) => ({ kind: "delivery", id: delivery.id, matched: "conditions", delivery })),
    next_cursor: next ? encodeCursor({ deliveries: placesOf(next) }) : null,
    looked_back_to: null,
  };
}

/** @param direct what has been found already, and comes first */
async function eventsFound(search: Search, direct: readonly Result[]): Promise<Answer> {
  const { services, principal, query, fields, limit, cursor } = search;
  const { tenant = principal.tenant, type, tag, since, until } = fields;
  const types = type === undefined ? undefined : [type];
  const accepted = { since, until };
  const filter = { tenant, types, tag, accepted, over: overBy(services), from: cursor?.events, limit };
  const { found, page } = await searchEvents(services, filter, query.words);
  const known = new Set(direct.map(({ id }) => id));
  const { next, lookedBackTo } = page;
  return {
    data: [...direct, ...found.map(eventResult).filter(({ id }) => !known.has(id))],
    next_cursor: next ? encodeCursor({ events: placesIn(next) }) : null,
    looked_back_to: lookedBackView(lookedBackTo),
  };
}

const isReason = (word: string) =>
  deliveryReasons.some((one) => one === word) || /^http_[1-9]\d\d$/.test(word);
const isState = (word: string) => deliveryStates.some((one) => one === word);

// ── Conditions ──

const { status, reason, state, destination_id } = deliveryQuery.shape;

/** The conditions, as the lists of events and of deliveries take them. */
const conditionFields = strict({
  ...{ status, reason, state, destination_id },
  type: eventTypePattern.optional(),
  tag: eventTag.optional(),
  tenant: tenantName.optional(),
  since: timeParam.optional(),
  until: timeParam.optional(),
});

type Fields = z.infer<typeof conditionFields>;

/** A day stands for its beginning, in UTC. */
const DAY = /^\d{4}-\d\d-\d\d$/;

function inFields({ conditions }: SearchQuery): Record<string, string> {
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
  { tenant, since, until }: Fields,
  principal: Principal,
  cursor: Cursor | undefined,
): Refused<"forbidden" | "invalid"> | undefined {
  const refusal = refuseTenant(principal, tenant);
  if (refusal) return refusal;
  const range = rangeErrors(since, until);
  if (range.length > 0) return invalidFields(asGiven(range));
  const isOfDeliveries = isAboutDeliveries(query);
  if (isOfDeliveries && query.words.length > 0) {
    const fault = "has words beside a condition that only deliveries have";
    const expected = "either: words are searched for in events";
    return invalidFields([{ field: "q", fault, expected }]);
  }
  if (cursor !== undefined && isOfDeliveries !== (cursor.deliveries !== undefined)) {
    const fault = "is that of another search";
    return invalidFields([{ field: "cursor", fault, expected: "the next_cursor of a page of this one" }]);
  }
  return undefined;
}

// ── What is looked up ──

type Result = z.infer<typeof searchResult>;

/** What has this id, or this name of the caller's own. */
async function directHits(
  { services, principal, query: { words, conditions }, fields: { tenant = principal.tenant } }: Search,
  name: string,
): Promise<Result[]> {
  const isWord = words.length === 1 && words[0] === name && Object.keys(conditions).length === 0;
  const found = isWord ? await byId(services, principal, name) : undefined;
  if (found) return [{ ...found, matched: "id" }];
  const [word, ...others] = words;
  if (word === undefined || others.length > 0 || tenant === undefined) return [];
  return byOwnName(services, tenant, word);
}

const ATTEMPT = /^atmpt_([0-9a-z]{13}_[0-9a-z]{20})_[0-9a-z]+$/;

async function byId(
  services: Services,
  { tenant, scopes }: Principal,
  id: string,
): Promise<Omit<Result, "matched"> | undefined> {
  const { db } = services;
  if (idPatterns.destination.test(id)) {
    const row = await findDestination(db, id, tenant);
    return row && { kind: "destination", id, tenant: row.tenant, name: row.description ?? row.url };
  }
  if (idPatterns.replay.test(id)) {
    const row = await findReplay(services, id, tenant);
    return row && { kind: "replay", id, tenant: row.tenant, destination_id: row.destinationId };
  }
  if (idPatterns.key.test(id)) {
    const row = scopes.includes("admin") ? await findKey(db, id, tenant) : undefined;
    return (
      row && {
        kind: "key",
        id,
        ...(row.tenant && { tenant: row.tenant }),
        ...(row.name && { name: row.name }),
      }
    );
  }
  const attempt = ATTEMPT.exec(id)?.[1];
  const key = deliveryKey(attempt === undefined ? id : `dlv_${attempt}`);
  if (key) {
    const found = await findDelivery(services, key, tenant, overBy(services));
    const [delivery] = await showDeliveries(services, found ? [found] : []);
    return delivery && { kind: "delivery", id: delivery.id, delivery };
  }
  const number = eventNumber(id);
  return number === undefined ? undefined : eventWith(services, number, tenant);
}

/** The events that were posted with this idempotency key, and the endpoint with this `uid`. */
async function byOwnName(services: Services, tenant: string, name: string): Promise<Result[]> {
  const [posted, message, destination] = await Promise.all([
    eventOfKey(services, tenant, name),
    eventOfKey(services, tenant, EVENT_ID + name),
    destinationByUid(services.db, tenant, name),
  ]);
  const numbers = [...new Set([posted, message])].filter((one) => one !== undefined);
  const events = await Promise.all(numbers.map((number) => eventWith(services, number, tenant)));
  return [
    ...events.flatMap((one): Result[] => (one ? [{ ...one, matched: "idempotency_key" }] : [])),
    ...(destination
      ? [
          {
            ...{ kind: "destination" as const, id: destination.id, tenant, matched: "uid" as const },
            name: destination.description ?? destination.url,
          },
        ]
      : []),
  ];
}

async function eventWith(
  services: Services,
  number: number,
  tenant: string | undefined,
): Promise<Omit<Result, "matched"> | undefined> {
  const event = await findEventAlone(services, number, tenant, overBy(services));
  return event && { kind: "event", id: eventId(number), tenant: event.tenant, event: eventView(event) };
}

function eventResult({ event, excerpt }: FoundEvent): Result {
  return {
    kind: "event",
    id: eventId(event.id),
    tenant: event.tenant,
    matched: excerpt === undefined ? "name" : "content",
    event: eventView(event),
    ...(excerpt !== undefined && { excerpt }),
  };
}

// ── The route ──

const MATCHES = ["id", "idempotency_key", "uid", "name", "content", "conditions"] as const;

const searchResult = z
  .object({
    kind: z.enum(["event", "delivery", "destination", "replay", "key"]),
    id: z.string(),
    matched: z.enum(MATCHES).openapi({
      description:
        "What the search has met: its `id`, the `idempotency_key` or the `uid` that it was given, a `name` (of its type, " +
        "its tags or its tenant), its `content`, or `conditions` alone.",
    }),
    tenant: z.string().optional(),
    name: z.string().optional().openapi({ description: "Of a destination its description, else its URL." }),
    destination_id: z.string().optional().openapi({ description: "Of a replay." }),
    event: listedEvent.optional(),
    delivery: deliverySchema.optional(),
    excerpt: z.string().optional().openapi({
      description: "Present when a word was found in the content alone: the text around it.",
    }),
  })
  .openapi("SearchResult");

export type SearchResultJson = Result;

const cursorOfSearch = z.union([
  z.strictObject({ deliveries: deliveryCursor, events: z.undefined().optional() }),
  z.strictObject({ events: eventPositions, deliveries: z.undefined().optional() }),
]);

type Cursor = z.infer<typeof cursorOfSearch>;

/** Characters of a search. */
const MOST_CHARACTERS = 256;
const Q_EXPECTED = `expected at most ${MOST_CHARACTERS} characters`;

const searchQuery = strict({
  q: z
    .string({ error: Q_EXPECTED })
    .max(MOST_CHARACTERS, { error: Q_EXPECTED })
    .default("")
    .openapi({
      description:
        "An id of anything, or words and conditions: `type:`, `tag:`, `tenant:`, `since:` and `until:`, and for deliveries " +
        "`status:`, `reason:`, `state:` and `destination:`. Without any, the newest events.",
      example: "inv_42 type:invoice.*",
    }),
  limit: limitParam,
  cursor: cursorParam(cursorOfSearch),
});

const getSearch = createRoute({
  method: "get",
  path: "/v1/search",
  summary: "Search",
  description:
    "Finds what has an id (of an event, a delivery, an attempt, a destination, a replay or an API key), an idempotency " +
    "key, a Svix `eventId` or a `uid`. Words are found in the types, tags, tenants and contents of events, the newest " +
    "first; quotation marks keep words together. A page reads at most 8 MB of contents: it may be short, or empty, and " +
    "still have a `next_cursor`; `looked_back_to` tells how far it has come. A word that is a status code, a reason or " +
    "a state finds deliveries, as do the conditions that only deliveries have.",
  tags: ["Search"],
  middleware: [requires("read")],
  request: { query: searchQuery },
  responses: {
    200: jsonAnswer(pageOf(searchResult).extend({ looked_back_to: lookedBack }), "What has been found."),
    ...problemResponses(401, 403, 422, 429),
  },
});
