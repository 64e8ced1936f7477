/**
 * Drafts: entries in the bundles that they are to be committed in. An entry is what one request posted, and is stored
 * as a whole or not at all; single events share bundles with those that came at the same time.
 */
import { bundled, planOf, storedHeader } from "../core/bundle.ts";
import { routed } from "../core/routing.ts";
import { type EventPlace, type NewBundle, type NewKey, storeBodies, type Unit } from "../db/bundles.ts";
import type { Routes } from "./routing-cache.ts";

export type PreparedEvent = Readonly<{
  tenant: string;
  type: string;
  /** What filters are applied to; asked for only where there is one. */
  data: () => unknown;
  /** The exact bytes that every attempt sends. */
  body: Uint8Array;
  /** Not to be delivered before this, epoch ms; at once without it. */
  deliverAt?: number | undefined;
}>;

/** What one request posts. */
export type Entry = Readonly<{
  /** Random: a repeat of the same entry carries the same. */
  token: string;
  events: readonly PreparedEvent[];
  /** The sender's name for it, of its last event's tenant, and the digest of its content. */
  key?: Readonly<{ key: string; fingerprint: string }> | undefined;
  /** Whoever posted it waits no longer than this, epoch ms: no commit is begun for it afterwards. */
  deadlineAt: number;
  /** The highest bundle that was known when it came in: its tokens are in none before. Absent: whatever is known now. */
  floor?: number | undefined;
  /** It has been handed in before, at this time, epoch ms, and nobody knows whether it was committed then. */
  triedAt?: number | undefined;
}>;

/** What has become of an entry. */
export type AcceptedEvent = Readonly<{
  /** Its number. */
  id: number;
  /** The destinations that are to get it. */
  plan: readonly string[];
  /** When it is to be delivered, epoch ms, unless at once. */
  deliverAt?: number;
  /** It was stored once and is there no more: who was to get it is not known any more. */
  isRemoved?: true;
}>;

export type CommitResult =
  /** `replayed`: stored before, by another request under the same key. */
  | Readonly<{ kind: "accepted" | "replayed"; events: readonly AcceptedEvent[] }>
  /** The key stands for something else. */
  | Readonly<{ kind: "conflict" }>
  /** It would make more deliveries than a request may: nothing was stored. */
  | Readonly<{ kind: "too_many"; planned: number }>
  /** Nobody knows, or nothing was stored. */
  | Readonly<{ kind: "unavailable" }>;

export const INTAKE_VERSION = 1;

export type IntakeRequest = Readonly<{
  version: typeof INTAKE_VERSION;
  database: number;
  tenant: string;
  type: string;
  body: Uint8Array;
  deliverAt?: number | undefined;
}> &
  Pick<Entry, "token" | "key" | "deadlineAt" | "triedAt">;

/** What the Worker may call of the object that commits single events for everybody. */
export type IntakeRpc = Rpc.DurableObjectBranded & {
  accept(request: IntakeRequest): Promise<IntakeAnswer>;
};

export type IntakeAnswer =
  | Readonly<{ kind: "done"; outcome: CommitResult }>
  /** Not taken, for there is too much already. */
  | Readonly<{ kind: "full" }>
  /** Not taken: of a version that this object does not know. */
  | Readonly<{ kind: "unknown" }>;

/** Entries that are committed all or none, their events in bundles: one entry of several events, or some of one each. */
export type Draft = Readonly<{ entries: readonly Entry[]; bundles: readonly DraftBundle[] }>;

export type DraftBundle = Readonly<{
  /** Of each event in order, or one for all of them where an entry of several events has made the bundle. */
  tokens: readonly string[];
  items: readonly Item[];
}>;

/** An event, and its place among those of its entry. */
type Item = Readonly<{ entry: Entry; place: number; event: PreparedEvent }>;

/** A request with several events, and each with a key after a miss, is a draft of its own; single events share. */
export function draftsOf(entries: readonly Entry[]): Draft[] {
  const single = entries.filter(({ events }) => events.length === 1);
  const shared = [single.filter(({ key }) => !key), single.filter(({ key }) => key)];
  const own = entries.filter(({ events }) => events.length > 1).map((entry) => [entry]);
  return [...shared, ...own].filter((some) => some.length > 0).map(draftOf);
}

/** As before, but those with keys apart: one whose key is taken keeps no other waiting. */
export function apart(entries: readonly Entry[]): Draft[] {
  const keyed = entries.filter(({ key }) => key).map((entry) => draftOf([entry]));
  return [...draftsOf(entries.filter(({ key }) => !key)), ...keyed];
}

/** The drafts with no other entries than these. */
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

/** The draft as it is stored, routed by these routes. */
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
  const headers = events.map(({ tenant, type, body }) => ({ tenant, type, bytes: body.byteLength }));
  // A key goes with the bundle of its first event.
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

/** The keys of the entries that have one, and where their events are. */
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

/** Where an event goes. */
export function routeOf(
  { tenant, type, data }: PreparedEvent,
  routes: ReadonlyMap<string, Routes>,
): string[] {
  return routed(routes.get(tenant)?.routes ?? [], type, data);
}

/** Whose the key of a request is: the last event's tenant. */
export function ownerOf({ events }: Entry): string {
  return events.at(-1)?.tenant ?? "";
}

export function tenantsOf(entries: readonly Entry[]): string[] {
  return [...new Set(entries.flatMap(({ events }) => events.map(({ tenant }) => tenant)))];
}
