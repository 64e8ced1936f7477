/**
 * Events, entries and bundle drafts. An entry is what one request posts, and is stored as a whole or not at all. A draft
 * arranges entries in the bundles that they are committed in: single events share bundles with those that were posted
 * at the same time.
 */

import {
  bundled,
  headersText,
  indexesOf,
  type Lines,
  type Plan,
  planOf,
  type RequestHeaders,
  storedHeader,
} from "../core/bundle.ts";
import { Content, envelopeOf, stamp } from "../core/content.ts";
import type { JsonSchema } from "../core/json-schema.ts";
import { dataFaults, REQUEST_STEPS, type StepBudget } from "../core/json-schema-check.ts";
import { lineOf, pinsTenant } from "../core/order.ts";
import { endsText, maskOf } from "../core/pack.ts";
import { routed } from "../core/routing.ts";
import {
  type EventPlace,
  type NewBundle,
  type NewIdempotencyKey,
  type NumberSpan,
  type PlacedPack,
  storeBodies,
  type Unit,
} from "../store/commit.ts";
import { isoTime } from "../time.ts";
import { CATALOGUE, type Routes } from "./routing-cache.ts";

/** Options of an event beside its content. Absent from most, which then cost nothing more. */
export type EventOptions = Readonly<{
  /** Only these of the destinations that take the event get it. */
  destinationIds?: readonly string[] | undefined;
  tags?: readonly string[] | undefined;
  /** Destinations with channels take the event only when it has one of theirs. */
  channels?: readonly string[] | undefined;
  /** How long its deliveries may take from when it is due. */
  ttlSeconds?: number | undefined;
  /** To be sent with its deliveries. */
  headers?: RequestHeaders | undefined;
  /** The media type of content that is sent as it was posted; absent: the body is an envelope. */
  contentType?: string | undefined;
  /** The deliveries of events with the same one are made in order, if a destination requires that. */
  orderingKey?: string | undefined;
  /** Its data has to fit the schema of its type, also where the type is not validated otherwise. */
  validate?: true | undefined;
  /** The version of its type that its data has: it has to be the newest. */
  version?: number | undefined;
}>;

export type PostedEvent = Readonly<{
  tenant: string;
  type: string;
  /** The exact bytes that every attempt sends. The commit writes its time into an envelope. */
  body: Uint8Array;
  /** Not to be delivered before this, epoch ms; at once without it. */
  deliverAt?: number | undefined;
  options?: EventOptions | undefined;
}>;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * The data of envelopes that this isolate has written, or has parsed for a filter: no filter parses them again. It never
 * becomes old, because only the time in an envelope changes, and it is forgotten with the envelope.
 */
const written = new WeakMap<Uint8Array, unknown>();

/** @param data any JSON value; numbers may be kept to the digit with `JSON.rawJSON`. Or `Content`, which is sent as it is. */
export function postedEvent({
  data,
  options,
  ...event
}: Omit<PostedEvent, "body"> & Readonly<{ data: unknown }>): PostedEvent {
  if (data instanceof Content)
    return { ...event, body: data.bytes, options: { ...options, contentType: data.type } };
  const body = encoder.encode(envelopeOf(event.type, isoTime(0), data));
  written.set(body, data);
  return { ...event, body, ...(options && { options }) };
}

/** The data of an envelope as plain JSON. */
function envelopeData(body: Uint8Array): unknown {
  return (JSON.parse(decoder.decode(body)) as { data: unknown }).data;
}

/** The events that one request posts. */
export type Entry = Readonly<{
  /** Random, and the same in a repeat of the entry. */
  token: string;
  events: readonly PostedEvent[];
  /** Its idempotency key, which belongs to the tenant of its last event, and the digest of its content. */
  key?: Readonly<{ key: string; fingerprint: string }> | undefined;
  /** Until when its sender waits, epoch ms: no commit is begun for it afterwards. */
  deadlineAt: number;
  /** The highest bundle id known when it arrived: its tokens are in no earlier bundle. Absent: the highest known now. */
  floor?: number | undefined;
  /** When it arrived at an object, epoch ms: some time later another may try it too. Absent: no other does. */
  arrivedAt?: number | undefined;
  /** When it was tried before, epoch ms, with an uncertain result; absent at the first try. */
  triedAt?: number | undefined;
  /** When it was accepted if an earlier try has stored it without a key, epoch ms. Looked up before it is committed. */
  triedWithin?: NumberSpan | undefined;
  /** Only for messages: when they were sent, epoch ms; whether an earlier try may have stored them; whether the key is the sender's. */
  handed?: Readonly<{ sentAt: number; isRepeated: boolean; isKeyed: boolean }> | undefined;
  /** An event of Breakwater, which the catalogue of event types is not about. */
  isOwn?: true | undefined;
}>;

export type AcceptedEvent = Readonly<{
  /** The event's number. */
  id: number;
  /** The destinations that it is delivered to. */
  plan: readonly string[];
  /** Not to be delivered before this, epoch ms; at once without it. */
  deliverAt?: number;
  /** Epoch ms; absent where it has been removed, or an object of a former version has answered. */
  acceptedAt?: number;
  /** The event was stored and has been removed since: its plan is not known any more. */
  isRemoved?: true;
}>;

/** A fault of an event, in view of what is stored. */
type EventFault = Readonly<{
  /** The event's place in its entry. */
  place: number;
  /** The path of the field in the event. */
  field: string;
  /** Follows the field in a sentence. */
  fault: string;
  /** Follows "expected" in a sentence. */
  expected: string;
}>;

/** The result of an entry. */
export type CommitResult =
  /** `replayed`: stored before, by another request under the same key. */
  | Readonly<{ kind: "accepted" | "replayed"; events: readonly AcceptedEvent[] }>
  /** The key was used with other content. */
  | Readonly<{ kind: "conflict" }>
  /** Some events cannot be accepted as they are: nothing was stored. */
  | Readonly<{ kind: "invalid"; faults: readonly EventFault[] }>
  /** It would plan more deliveries than a request may: nothing was stored. */
  | Readonly<{ kind: "too_many"; planned: number }>
  /** Nothing was stored, or the result is uncertain. */
  | Readonly<{ kind: "unavailable" }>;

export const UNAVAILABLE: CommitResult = { kind: "unavailable" };

/**
 * The result of an entry in one of the databases. `misplaced`: nothing was stored, because these tenants' events go to
 * the first database.
 */
export type CommitOutcome = CommitResult | Readonly<{ kind: "misplaced"; tenants: readonly string[] }>;

/** Entries that are committed all or none: one entry of several events, or some of one event each. */
export type Draft = Readonly<{ entries: readonly Entry[]; bundles: readonly DraftBundle[] }>;

export type DraftBundle = Readonly<{
  /** One for each event in order, or one for all of them where the bundle is of one entry of several events. */
  tokens: readonly string[];
  items: readonly Item[];
}>;

/** An event, and its place in its entry. */
type Item = Readonly<{ entry: Entry; place: number; event: PostedEvent }>;

/** A request with several events, and each with a key after a miss, is a draft of its own; single events share. */
export function draftsOf(entries: readonly Entry[]): Draft[] {
  const single = entries.filter(({ events }) => events.length === 1);
  const shared = [single.filter(({ key }) => !key), single.filter(({ key }) => key)];
  const own = entries.filter(({ events }) => events.length > 1).map((entry) => [entry]);
  return [...shared, ...own].filter((some) => some.length > 0).map(draftOf);
}

/** As `draftsOf`, but each entry with a key is a draft of its own: one whose key is taken delays no other. */
export function draftsApart(entries: readonly Entry[]): Draft[] {
  const keyed = entries.filter(({ key }) => key).map((entry) => draftOf([entry]));
  return [...draftsOf(entries.filter(({ key }) => !key)), ...keyed];
}

/** The drafts with only those entries, without drafts that have none of them. */
export function filterEntries(drafts: readonly Draft[], isKept: (entry: Entry) => boolean): readonly Draft[] {
  return drafts.flatMap((draft) => {
    const rest = draft.entries.filter(isKept);
    return rest.length === draft.entries.length ? [draft] : rest.length > 0 ? [draftOf(rest)] : [];
  });
}

export function draftOf(entries: readonly Entry[]): Draft {
  const items = entries.flatMap((entry) => entry.events.map((event, place) => ({ entry, place, event })));
  const sizes = items.map(({ event }) => ({ bytes: sizeOf(event), deliverAt: event.deliverAt }));
  const several = entries.find(({ events }) => events.length > 1);
  const bundles = bundled(sizes).map((places, i) => {
    const own = places.flatMap((place) => items[place] ?? []);
    return { tokens: several ? [`${several.token}.${i}`] : own.map(({ entry }) => entry.token), items: own };
  });
  return { entries, bundles };
}

/** Bytes of the entry's events in bundles. */
export function entryBytes({ events }: Entry): number {
  return events.reduce((sum, event) => sum + sizeOf(event), 0);
}

/** Bytes of the event in a bundle: its body, and its headers, which are ASCII. */
function sizeOf({ body, options }: Pick<PostedEvent, "body" | "options">): number {
  return body.byteLength + (options?.headers ? JSON.stringify(options.headers).length : 0);
}

/** The draft as it is stored, routed by `routes`. Its envelopes say that they were accepted at the time, epoch ms. */
export async function unitOf(
  draft: Draft,
  database: number,
  routes: ReadonlyMap<string, Routes>,
  acceptedAt: number,
): Promise<Unit> {
  const timestamp = isoTime(acceptedAt);
  for (const { items } of draft.bundles)
    for (const { event } of items)
      if (event.options?.contentType === undefined) stamp(event.body, event.type, timestamp);
  const bundles = await Promise.all(draft.bundles.map((bundle) => newBundle(bundle, routes, acceptedAt)));
  // In a further database a tenant has a row only when it is pinned to the first one. That matters to what others may repeat.
  const repeatable = draft.entries.filter(({ key, handed }) => key !== undefined || handed !== undefined);
  const revisions =
    database === 0
      ? routedBy(draft.entries).map((tenant) => [tenant, routes.get(tenant)?.revision ?? 0] as const)
      : tenantsOf(repeatable).map((tenant) => [tenant, 0] as const);
  // If no type has ever been validated or versioned, there is nothing to name.
  const compared = revisions.filter(([tenant, revision]) => tenant !== CATALOGUE || revision > 0);
  return { bundles, revisions: Object.fromEntries(compared), keys: keysOf(draft.bundles) };
}

async function newBundle(
  { tokens, items }: DraftBundle,
  routes: ReadonlyMap<string, Routes>,
  acceptedAt: number,
): Promise<NewBundle> {
  const events = items.map(({ event }) => event);
  const own = headersText(events.map(({ options }) => options?.headers));
  const behind = own === undefined ? undefined : encoder.encode(own);
  const bodies = events.map(({ body }) => body);
  const { hex, ...stored } = await storeBodies(behind ? [...bodies, behind] : bodies);
  const { versions } = routes.get(CATALOGUE) ?? {};
  const headers = events.map(({ tenant, type, body, options = {} }) => {
    const { tags, channels, ttlSeconds, contentType, destinationIds } = options;
    const isAddressed = destinationIds !== undefined;
    const known = {
      tenant,
      type,
      bytes: body.byteLength,
      tags,
      channels,
      ttlSeconds,
      contentType,
      isAddressed,
    };
    const version = contentType === undefined ? versions?.get(type) : undefined;
    return version ? { ...known, version } : known;
  });
  // Retention removes a key together with the bundle of its entry's first event.
  const keys = items.flatMap(({ entry, place }): [string, string][] =>
    entry.key && place === 0 ? [[keyTenantOf(entry), entry.key.key]] : [],
  );
  const destinations = events.map((event) => routeOf(event, routes, acceptedAt));
  const lines = linesOf(events, destinations, routes, acceptedAt);
  const plan = planOf(destinations);
  const deliverAt = events[0]?.deliverAt;
  const polled = new Set(events.flatMap(({ tenant }) => [...(routes.get(tenant)?.polled ?? [])]));
  return {
    tokens,
    deliverAt,
    count: events.length,
    plan,
    ...(deliverAt === undefined && polled.size > 0 && { placed: placedIn(plan, polled, acceptedAt) }),
    header: storedHeader(headers, {
      ...stored,
      ...(keys.length > 0 && { keys }),
      ...(behind && { headerBytes: behind.byteLength }),
      ...(lines && { lines }),
    }),
    hex,
  };
}

/** The packs of polled destinations: events that are due are in their inboxes when they are stored. */
function placedIn(plan: Plan, polled: ReadonlySet<string>, acceptedAt: number): PlacedPack[] {
  return Object.entries(plan).flatMap(([destination, runs]) => {
    if (!polled.has(destination)) return [];
    const indexes = indexesOf(runs);
    const ends = indexes.map((index) => ({ index, at: acceptedAt, latencyMs: 0, status: 202 }));
    return [{ destination, mask: maskOf(indexes), ends: endsText(ends) }];
  });
}

/** The lines of the events at their destinations; undefined: there are none. */
function linesOf(
  events: readonly PostedEvent[],
  destinations: readonly (readonly string[])[],
  routes: ReadonlyMap<string, Routes>,
  acceptedAt: number,
): Lines | undefined {
  const lines: Record<string, Map<string, [string, number, 0 | 1, ...number[]]>> = {};
  for (const [index, event] of events.entries()) {
    const { orders } = routes.get(event.tenant) ?? {};
    if (!orders) continue;
    const { orderingKey, ttlSeconds } = event.options ?? {};
    const about = { orderingKey, isScheduled: event.deliverAt !== undefined, data: () => dataOf(event) };
    for (const id of destinations[index] ?? []) {
      const rule = orders.get(id);
      const line = rule && lineOf(rule, about);
      if (!rule || line === undefined) continue;
      const liveMs = ttlSeconds === undefined ? Number.POSITIVE_INFINITY : ttlSeconds * 1000;
      const giveUpAt = acceptedAt + Math.min(rule.expireAfterMs, liveMs);
      lines[id] ??= new Map();
      const own = lines[id];
      const known = own.get(`${line} ${giveUpAt}`);
      if (known) known.push(index);
      else own.set(`${line} ${giveUpAt}`, [line, giveUpAt, rule.holds ? 1 : 0, index]);
    }
  }
  const all = Object.entries(lines).map(([id, own]) => [id, [...own.values()]] as const);
  return all.length > 0 ? Object.fromEntries(all) : undefined;
}

/** The keys of the entries that have one, and where their events are stored. */
function keysOf(bundles: readonly DraftBundle[]): NewIdempotencyKey[] {
  const keys = new Map<Entry, NewIdempotencyKey & { tokens: string[]; places: EventPlace[] }>();
  for (const { tokens, items } of bundles) {
    for (const [index, { entry, place }] of items.entries()) {
      if (!entry.key) continue;
      const own = keys.get(entry) ?? { tenant: keyTenantOf(entry), ...entry.key, tokens: [], places: [] };
      keys.set(entry, own);
      const token = tokens[index] ?? tokens[0] ?? "";
      if (own.tokens.at(-1) !== token) own.tokens.push(token);
      own.places[place] = [own.tokens.length - 1, index];
    }
  }
  return [...keys.values()];
}

/** The destinations of an event. @param at when it is accepted, epoch ms; 0 includes those that have expired */
export function routeOf(event: PostedEvent, routes: ReadonlyMap<string, Routes>, at = 0): string[] {
  const { type, options } = event;
  const isContent = options?.contentType !== undefined;
  const data = () => dataOf(event);
  return routed(candidatesFor(event, routes), { type, channels: options?.channels, data, isContent }, at);
}

/** The data of the event; undefined of content. Read only where a destination has a filter or a path, and parsed once. */
function dataOf({ body, options }: PostedEvent): unknown {
  const isContent = options?.contentType !== undefined;
  if (!isContent && !written.has(body)) written.set(body, envelopeData(body));
  return written.get(body);
}

/** The routes of the tenant, or of those destinations that the event names. */
function candidatesFor({ tenant, options }: PostedEvent, routes: ReadonlyMap<string, Routes>) {
  const all = routes.get(tenant)?.routes ?? [];
  const only = options?.destinationIds;
  return only ? all.filter(({ destination }) => only.includes(destination)) : all;
}

/**
 * Faults of an entry's events: destinations that are not there, content which is not JSON and for which there are only
 * destinations that take envelopes, data that does not fit its type's schema.
 */
export function eventFaultsOf({ events, isOwn }: Entry, routes: ReadonlyMap<string, Routes>): EventFault[] {
  const { schemas, asked, versions } = routes.get(CATALOGUE) ?? {};
  const schemaFor = ({ type, options }: PostedEvent) =>
    schemas?.get(type) ?? (options?.validate ? asked?.get(type) : undefined);
  const budget = { left: REQUEST_STEPS };
  return events.flatMap((event, place) =>
    [
      ...unknownDestinations(event, routes),
      ...envelopesOnly(event, routes),
      ...(isOwn ? [] : unfitData(event, schemaFor(event), budget)),
      ...otherVersion(event, versions?.get(event.type)?.version ?? 1),
    ].map((fault) => ({ place, ...fault })),
  );
}

type Fault = Omit<EventFault, "place">;

function unknownDestinations({ tenant, options }: PostedEvent, routes: ReadonlyMap<string, Routes>): Fault[] {
  if (!options?.destinationIds) return [];
  const known = new Set(routes.get(tenant)?.routes.map(({ destination }) => destination));
  const expected = `the id of a destination of the tenant ${tenant}`;
  return options.destinationIds.flatMap((id, i) =>
    known.has(id) ? [] : [{ field: `destination_ids[${i}]`, fault: `is ${JSON.stringify(id)}`, expected }],
  );
}

/** Destinations that a fault names. */
const MOST_NAMED = 10;

function envelopesOnly(event: PostedEvent, routes: ReadonlyMap<string, Routes>): Fault[] {
  const { type, options } = event;
  if (options?.contentType === undefined || routeOf(event, routes).length > 0) return [];
  const posted = { type, channels: options.channels, data: () => undefined };
  const refusing = routed(candidatesFor(event, routes), posted);
  if (refusing.length === 0) return [];
  const named = refusing.slice(0, MOST_NAMED).join(", ");
  const fault = `is not JSON, and is taken only by destinations that get envelopes: ${named}`;
  return [{ field: "body", fault, expected: 'JSON, or a destination with `body: "data"`' }];
}

/** Data is converted only to older versions, so only the newest version reaches everybody. */
function otherVersion({ type, options }: PostedEvent, newest: number): Fault[] {
  const { version = newest } = options ?? {};
  if (version === newest) return [];
  return [{ field: "version", fault: `is ${version}`, expected: `${newest}, the newest version of ${type}` }];
}

function unfitData(
  { type, body, options }: PostedEvent,
  schema: JsonSchema | undefined,
  budget: StepBudget,
): Fault[] {
  if (schema === undefined) {
    if (!options?.validate) return [];
    const fault = `is ${type}, which has no schema in the catalogue`;
    return [{ field: "type", fault, expected: "a type with a schema: see /v1/event-types" }];
  }
  if (options?.contentType !== undefined) {
    const fault = `is ${options.contentType}, and the type ${type} has a schema that data must fit`;
    return [{ field: "body", fault, expected: "an event with `data`" }];
  }
  // As plain JSON: the posted value may keep the digits of its numbers as they were written.
  return dataFaults(schema, envelopeData(body), budget).map(({ pointer, ...rest }) => ({
    field: `data#${pointer}`,
    ...rest,
  }));
}

/** The tenant that an entry's key belongs to: that of its last event. */
export function keyTenantOf({ events }: Pick<Entry, "events">): string {
  return events.at(-1)?.tenant ?? "";
}

/** The tenants whose revisions decide about the entries: those of their events, and that of the validated event types. */
export function routedBy(entries: readonly Entry[]): string[] {
  return [...tenantsOf(entries), CATALOGUE];
}

/** The tenants of the entry whose destinations order events without an `ordering_key`. */
export function pinnedBy(entry: Entry, routes: ReadonlyMap<string, Routes>): string[] {
  return tenantsOf([entry]).filter((tenant) =>
    [...(routes.get(tenant)?.orders?.values() ?? [])].some(pinsTenant),
  );
}

export function tenantsOf(entries: readonly Entry[]): string[] {
  return [...new Set(entries.flatMap(({ events }) => events.map(({ tenant }) => tenant)))];
}
