/**
 * Entries and bundle drafts. An entry is what one request posts, and is stored as a whole or not at all. A draft
 * arranges entries in the bundles that they are committed in: single events share bundles with those that were posted
 * at the same time.
 */
import { bundled, planOf, storedHeader } from "../core/bundle.ts";
import { routed } from "../core/routing.ts";
import { type EventPlace, type NewBundle, type NewKey, storeBodies, type Unit } from "../db/bundles.ts";
import type { Routes } from "./routing-cache.ts";

export type PreparedEvent = Readonly<{
  tenant: string;
  type: string;
  /** The value that filters are applied to; evaluated only where there is one. */
  data: () => unknown;
  /** The exact bytes that every attempt sends. */
  body: Uint8Array;
  /** Of content that is sent as it was posted; absent: the body is an envelope. */
  contentType?: string | undefined;
  /** Not to be delivered before this, epoch ms; at once without it. */
  deliverAt?: number | undefined;
}>;

/** What one request posts. */
export type Entry = Readonly<{
  /** Random: a repeat of the same entry has the same. */
  token: string;
  events: readonly PreparedEvent[];
  /** Its idempotency key, which belongs to the tenant of its last event, and the digest of its content. */
  key?: Readonly<{ key: string; fingerprint: string }> | undefined;
  /** Until when its sender waits, epoch ms: no commit is begun for it afterwards. */
  deadlineAt: number;
  /** The highest bundle id known when it arrived: its tokens are in no earlier bundle. Absent: the highest known now. */
  floor?: number | undefined;
  /** When it was tried before, epoch ms, with an uncertain result; absent at the first try. */
  triedAt?: number | undefined;
}>;

export type AcceptedEvent = Readonly<{
  /** The event's number. */
  id: number;
  /** The destinations that it is delivered to. */
  plan: readonly string[];
  /** Not to be delivered before this, epoch ms; at once without it. */
  deliverAt?: number;
  /** It was stored and has been removed since: its plan is not known any more. */
  isRemoved?: true;
}>;

/** The result of an entry. */
export type CommitResult =
  /** `replayed`: stored before, by another request under the same key. */
  | Readonly<{ kind: "accepted" | "replayed"; events: readonly AcceptedEvent[] }>
  /** The key was used with other content. */
  | Readonly<{ kind: "conflict" }>
  /** It would plan more deliveries than a request may: nothing was stored. */
  | Readonly<{ kind: "too_many"; planned: number }>
  /** Content of its own type, for which there are only destinations that take envelopes: nothing was stored. */
  | Readonly<{ kind: "needs_envelope"; destinations: readonly string[] }>
  /** Nothing was stored, or the result is uncertain. */
  | Readonly<{ kind: "unavailable" }>;

/** Entries that are committed all or none: one entry of several events, or some of one event each. */
export type Draft = Readonly<{ entries: readonly Entry[]; bundles: readonly DraftBundle[] }>;

export type DraftBundle = Readonly<{
  /** One for each event in order, or one for all of them where the bundle is of one entry of several events. */
  tokens: readonly string[];
  items: readonly Item[];
}>;

/** An event, and its place in its entry. */
type Item = Readonly<{ entry: Entry; place: number; event: PreparedEvent }>;

/** A request with several events, and each with a key after a miss, is a draft of its own; single events share. */
export function draftsOf(entries: readonly Entry[]): Draft[] {
  const single = entries.filter(({ events }) => events.length === 1);
  const shared = [single.filter(({ key }) => !key), single.filter(({ key }) => key)];
  const own = entries.filter(({ events }) => events.length > 1).map((entry) => [entry]);
  return [...shared, ...own].filter((some) => some.length > 0).map(draftOf);
}

/** As `draftsOf`, but each entry with a key is a draft of its own: one whose key is taken delays no other. */
export function apart(entries: readonly Entry[]): Draft[] {
  const keyed = entries.filter(({ key }) => key).map((entry) => draftOf([entry]));
  return [...draftsOf(entries.filter(({ key }) => !key)), ...keyed];
}

/** The drafts without the entries that are not kept. */
export function kept(drafts: readonly Draft[], isKept: (entry: Entry) => boolean): readonly Draft[] {
  return drafts.flatMap((draft) => {
    const rest = draft.entries.filter(isKept);
    return rest.length === draft.entries.length ? [draft] : rest.length > 0 ? [draftOf(rest)] : [];
  });
}

export function draftOf(entries: readonly Entry[]): Draft {
  const items = entries.flatMap((entry) => entry.events.map((event, place) => ({ entry, place, event })));
  const sizes = items.map(({ event: { body, deliverAt } }) => ({ bytes: body.byteLength, deliverAt }));
  const several = entries.find(({ events }) => events.length > 1);
  const bundles = bundled(sizes).map((places, i) => {
    const own = places.flatMap((place) => items[place] ?? []);
    return { tokens: several ? [`${several.token}.${i}`] : own.map(({ entry }) => entry.token), items: own };
  });
  return { entries, bundles };
}

/** The draft as it is stored, routed by `routes`. */
export async function unitOf(
  draft: Draft,
  database: number,
  routes: ReadonlyMap<string, Routes>,
): Promise<Unit> {
  const bundles = await Promise.all(draft.bundles.map((bundle) => newBundle(bundle, routes)));
  const tenants = database === 0 ? tenantsOf(draft.entries) : [];
  const revisions = Object.fromEntries(tenants.map((tenant) => [tenant, routes.get(tenant)?.revision ?? 0]));
  return { bundles, revisions, keys: keysOf(draft.bundles) };
}

async function newBundle(
  { tokens, items }: DraftBundle,
  routes: ReadonlyMap<string, Routes>,
): Promise<NewBundle> {
  const events = items.map(({ event }) => event);
  const { hex, ...stored } = await storeBodies(events.map(({ body }) => body));
  const headers = events.map(({ tenant, type, body, contentType }) => ({
    tenant,
    type,
    bytes: body.byteLength,
    contentType,
  }));
  // Retention removes a key together with the bundle of its entry's first event.
  const keys = items.flatMap(({ entry, place }): [string, string][] =>
    entry.key && place === 0 ? [[ownerOf(entry), entry.key.key]] : [],
  );
  return {
    tokens,
    deliverAt: events[0]?.deliverAt,
    count: events.length,
    plan: planOf(events.map((event) => routeOf(event, routes))),
    header: storedHeader(headers, { ...stored, ...(keys.length > 0 && { keys }) }),
    hex,
  };
}

/** The keys of the entries that have one, and where their events are stored. */
function keysOf(bundles: readonly DraftBundle[]): NewKey[] {
  const keys = new Map<Entry, NewKey & { tokens: string[]; places: EventPlace[] }>();
  for (const { tokens, items } of bundles) {
    for (const [index, { entry, place }] of items.entries()) {
      if (!entry.key) continue;
      const own = keys.get(entry) ?? { tenant: ownerOf(entry), ...entry.key, tokens: [], places: [] };
      keys.set(entry, own);
      const token = tokens[index] ?? tokens[0] ?? "";
      if (own.tokens.at(-1) !== token) own.tokens.push(token);
      own.places[place] = [own.tokens.length - 1, index];
    }
  }
  return [...keys.values()];
}

/** The destinations of an event. */
export function routeOf(
  { tenant, type, data, contentType }: PreparedEvent,
  routes: ReadonlyMap<string, Routes>,
): string[] {
  return routed(routes.get(tenant)?.routes ?? [], type, data, contentType !== undefined);
}

/** Of content that no destination gets: those that would, if they did not take envelopes only. */
export function envelopeOnly(event: PreparedEvent, routes: ReadonlyMap<string, Routes>): string[] {
  const { tenant, type, data, contentType } = event;
  if (contentType === undefined || routeOf(event, routes).length > 0) return [];
  return routed(routes.get(tenant)?.routes ?? [], type, data);
}

/** The tenant that an entry's key belongs to: that of its last event. */
export function ownerOf({ events }: Entry): string {
  return events.at(-1)?.tenant ?? "";
}

export function tenantsOf(entries: readonly Entry[]): string[] {
  return [...new Set(entries.flatMap(({ events }) => events.map(({ tenant }) => tenant)))];
}
