/**
 * The newest events of a tenant: to try a destination's settings on, and to list.
 *
 * A bundle has the events of many tenants, and no index leads from a tenant to its events. So the newest bundles of each
 * database are looked at, by their headers: a bounded number of rows, whatever is stored and however rarely the tenant
 * posts. Bodies are read only of the bundles that are asked for, in portions, and up to a bound.
 */
import {
  bundleOf,
  channelsAt,
  eventAt,
  headersOf,
  indexOf,
  isIn,
  type Runs,
  type StoredHeader,
  tagsAt,
} from "../core/bundle.ts";
import { bodyFormOf } from "../core/content.ts";
import { channelsInEffect, type Route, refusalOf, type refusals } from "../core/routing.ts";
import { LISTED_BUNDLES, readContents } from "./bundles.ts";
import type { Destination } from "./destinations.ts";
import { allOf, type Databases, sharesOf } from "./shards.ts";

/** Events found at most; and bundles that are looked at for them in each database. */
export const MOST_EVENTS = 100;
export const BUNDLES_LOOKED_AT = 500;
/** Bytes of bodies read at once and in all, those of other events in the same bundles included. */
const PORTION_BYTES = 2 * 1024 * 1024;
const MOST_BYTES = 8 * 1024 * 1024;

/** What a destination's route is compared with. */
export type StoredEvent = Readonly<{
  id: number;
  type: string;
  channels: readonly string[];
  /** Whether it is content of its own type, without `data`. */
  isContent: boolean;
  /** The bytes of all bodies of its bundle. */
  bundleBytes: number;
}>;

export type RecentEvent = StoredEvent &
  Readonly<{
    acceptedAt: number;
    deliverAt: number | null;
    tags: readonly string[];
    /** Whether the destination that was named gets it. */
    isPlanned: boolean;
  }>;

/** The names of tenants need no escape in JSON. The plan is read for one destination: it may name a thousand. */
const NEWEST = `
  SELECT id, accepted_at AS acceptedAt, deliver_at AS deliverAt, header, plan -> ('$.' || ?3) AS runs FROM (
    SELECT id, accepted_at, deliver_at, header, plan FROM bundles ORDER BY id DESC LIMIT ${BUNDLES_LOOKED_AT})
  WHERE instr(header -> '$.tenants', '"' || ?1 || '"') > 0 AND coalesce(deliver_at, accepted_at) > ?2
  ORDER BY id DESC LIMIT ${MOST_EVENTS}`;

type Row = Readonly<{
  id: number;
  acceptedAt: number;
  deliverAt: number | null;
  header: string;
  runs: string | null;
}>;

/**
 * The newest first.
 * @param destination whose plan is looked up, if any
 * @param dueBy events that were due by then are left out, epoch ms
 */
export async function recentEvents(
  databases: Databases,
  tenant: string,
  destination: string | undefined,
  dueBy: number,
): Promise<readonly RecentEvent[]> {
  const found = await Promise.all(
    allOf(databases).map(async (db) => {
      const { results } = await db
        .prepare(NEWEST)
        .bind(tenant, dueBy, destination ?? "none")
        .all<Row>();
      return results.flatMap((row) => eventsIn(row, tenant));
    }),
  );
  return found
    .flat()
    .sort((a, b) => b.acceptedAt - a.acceptedAt || b.id - a.id)
    .slice(0, MOST_EVENTS);
}

const LISTED = `
  SELECT id, accepted_at AS acceptedAt, deliver_at AS deliverAt, header, NULL AS runs FROM ${LISTED_BUNDLES}`;

/** Those of the events that are stored and the tenant's, by their ids. */
export async function eventsById(
  databases: Databases,
  tenant: string,
  ids: readonly number[],
): Promise<ReadonlyMap<number, RecentEvent>> {
  const wanted = new Set(ids);
  const found = await Promise.all(
    [...sharesOf(databases, ids, (id) => id)].map(async ([db, share]) => {
      const listed = JSON.stringify([...new Set(share.map(bundleOf))]);
      const { results } = await db.prepare(LISTED).bind(listed).all<Row>();
      return results.flatMap((row) => eventsIn(row, tenant)).filter(({ id }) => wanted.has(id));
    }),
  );
  return new Map(found.flat().map((event) => [event.id, event]));
}

function eventsIn({ id, acceptedAt, deliverAt, header, runs }: Row, tenant: string): RecentEvent[] {
  const stored = JSON.parse(header) as StoredHeader;
  const about = headersOf(stored);
  const planned: Runs = runs === null ? [] : JSON.parse(runs);
  const bundleBytes = about.reduce((sum, { bytes }) => sum + bytes, 0);
  return about.flatMap((one, index) => {
    if (one.tenant !== tenant) return [];
    const { type, contentType } = one;
    const named = { tags: tagsAt(stored, index), channels: channelsAt(stored, index) };
    const event = { id: eventAt(id, index), type, acceptedAt, deliverAt, ...named, bundleBytes };
    return [{ ...event, isPlanned: isIn(planned, index), isContent: contentType !== undefined }];
  });
}

/**
 * As many of the events, from the first on, as have bundles within the bound of bytes; one in any case.
 * @param isAsked whose body is asked for: the others cost nothing
 */
export function withinBytes<T extends StoredEvent>(
  events: readonly T[],
  isAsked: (event: T) => boolean,
): readonly T[] {
  const bundles = new Set<number>();
  let bytes = 0;
  const end = events.findIndex((event) => {
    if (!isAsked(event) || bundles.has(bundleOf(event.id))) return false;
    bundles.add(bundleOf(event.id));
    bytes += event.bundleBytes;
    return bytes > MOST_BYTES && bundles.size > 1;
  });
  return end < 0 ? events : events.slice(0, end);
}

const BODIES = `SELECT id, header, hex(body) AS body FROM ${LISTED_BUNDLES}`;

/** Calls back with the body of each event; undefined where the stored bytes are damaged. Keeps one portion in memory. */
export async function eachBody<T extends StoredEvent>(
  databases: Databases,
  events: readonly T[],
  use: (event: T, body: Uint8Array | undefined) => void,
): Promise<void> {
  for (const [db, share] of sharesOf(databases, events, ({ id }) => id)) {
    for (const portion of portionsOf(share)) {
      const ids = JSON.stringify([...new Set(portion.map(({ id }) => bundleOf(id)))]);
      const { results } = await db
        .prepare(BODIES)
        .bind(ids)
        .all<{ id: number; header: string; body: string }>();
      for (const { id, header, body } of results) {
        const contents = await readContents(body, JSON.parse(header) as StoredHeader);
        for (const event of portion)
          if (bundleOf(event.id) === id) use(event, contents?.[indexOf(event.id)]?.body);
      }
    }
  }
}

/** Whether only an event's `data` tells whether a route takes it. */
export function isDataAsked(route: Criteria, event: StoredEvent): boolean {
  if (route.filter === null || event.isContent) return false;
  return refusalOf({ ...route, filter: null }, { ...event, data: () => undefined }) === undefined;
}

/** What decides whether a destination takes an event. */
export type Criteria = Omit<Route, "destination">;

export function criteriaOf({ eventTypes, channels, filter, body }: Destination): Criteria {
  const takesContent = bodyFormOf(body) === "data";
  return { types: eventTypes, channels: channelsInEffect(channels), filter, takesContent };
}

/** Why a route does not take the events, by their ids; null where it does. Reads the bodies that it needs. */
export async function refusalsOf(
  databases: Databases,
  route: Criteria,
  events: readonly StoredEvent[],
): Promise<ReadonlyMap<number, (typeof refusals)[number] | "corrupt" | null>> {
  const asked = events.filter((event) => isDataAsked(route, event));
  const refused = new Map<number, (typeof refusals)[number] | "corrupt" | null>();
  for (const event of events) {
    // In content a filter finds nothing; of the others the filter is asked below.
    const filter = event.isContent ? route.filter : null;
    refused.set(event.id, refusalOf({ ...route, filter }, { ...event, data: () => undefined }) ?? null);
  }
  // What is missing has been removed meanwhile.
  for (const { id } of asked) refused.set(id, "corrupt");
  await eachBody(databases, asked, ({ id, type, channels }, body) => {
    const data = body && parsedData(body);
    const refusal = data && refusalOf(route, { type, channels, data: () => data.value });
    refused.set(id, data ? (refusal ?? null) : "corrupt");
  });
  return refused;
}

/** The event's data; undefined when the body is not what an event's is. */
function parsedData(body: Uint8Array): Readonly<{ value: unknown }> | undefined {
  try {
    const { data } = JSON.parse(new TextDecoder().decode(body)) as { data?: unknown };
    return { value: data };
  } catch {
    return undefined;
  }
}

/** The events by their bundles, in portions of so many bytes. */
function portionsOf<T extends StoredEvent>(events: readonly T[]): T[][] {
  const portions: T[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const group of Map.groupBy(events, ({ id }) => bundleOf(id)).values()) {
    bytes += group[0]?.bundleBytes ?? 0;
    if (bytes > PORTION_BYTES) {
      portions.push([]);
      bytes = group[0]?.bundleBytes ?? 0;
    }
    portions.at(-1)?.push(...group);
  }
  return portions;
}
