/**
 * Lists of the deliveries that have a row or a bit. Deliveries that so far exist only in a plan are listed by
 * planned-deliveries.ts.
 *
 * A list walks deliveries newest first, destination by destination, in steps that are one index seek each: to the next
 * delivery of the destination, or to the next destination. A page takes a bounded number of steps, so it reads a
 * bounded number of rows with any data and any filter; it may be short, or empty, and still have a next page. A list of
 * one destination or tenant steps through its own destinations only, so other tenants' deliveries cost nothing and a
 * cursor reveals nothing about them.
 *
 * Each database gives a separate page. Pages are merged by the times of the events, and the next page continues in each
 * database where its part ended.
 *
 * The walks are SQL inside of Drizzle's queries: recursion saves a round trip for each step.
 */

import { and, desc, eq, getTableColumns, lte, type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import {
  bundleOf,
  type DeliveryKey,
  detailsAt,
  eventAt,
  indexOf,
  type StoredHeader,
} from "../core/bundle.ts";
import { allOf, type Databases } from "./databases.ts";
import { type DeliveryRow, loadedRow, type StoredState, storedStatus } from "./delivery.ts";
import {
  type Cutoffs,
  type DeliveryFilter,
  eventConditionsOf,
  eventsOver,
  isEventWanted,
  isRowWanted,
  isWanted,
} from "./delivery-filter.ts";
import { type Destination, destinations } from "./destination.ts";
import { destinationsFor } from "./destinations.ts";
import { eventNames } from "./events.ts";
import { mergedParts, type Rank } from "./merge.ts";
import { packedRows } from "./packs.ts";
import { countUpTo, DEAD_ROWS, IN_FLIGHT_PACKS, RETRYING_ROWS, WAITING_PACKS, WAITING_ROWS } from "./sql.ts";
import { bundles, deliveries, type PackRow, packs } from "./tables.ts";
import { type IdRange, idRangeOf } from "./time-ranges.ts";

/** `destination` is null when an operator removed its row, and in further databases until `withDestinations` has run. */
export type FoundDelivery = Readonly<{
  eventId: number;
  destinationId: string;
  destination: Destination | null;
  /** Whether its event's content has been erased, where one delivery was looked up. */
  isErased?: boolean;
}> &
  (
    | Readonly<{ kind: "stored"; row: DeliveryRow }>
    | Readonly<{
        kind: "planned";
        acceptedAt: number;
        deliverAt: number | null;
        /** The time to live of its event. */
        ttlSeconds: number | undefined;
      }>
  );

/** `next` is where the next page starts; undefined on the last one. */
export type DeliveryPage = Readonly<{ found: readonly FoundDelivery[]; next: DeliveryKey | undefined }>;

/** The filter of a list, and where its page starts in each database. */
export type ListFilter = Omit<DeliveryFilter, "before"> & Readonly<{ before?: Positions | undefined }>;

/**
 * Deliveries that have a row or a bit: of one destination the newest event first, else by destination and event,
 * descending. A page may be short, or empty, and still have a next one: see the top.
 */
export async function storedDeliveries(
  databases: Databases,
  state: StoredState | undefined,
  { before, ...filter }: ListFilter,
): Promise<MergedPage> {
  return mergedPage(databases, {
    before,
    limit: filter.limit,
    order: ({ destinationId, eventId }, acceptedAt) => [destinationId, acceptedAt, eventId],
    pageOf: (db, before) => storedIn(db, databases, state, { ...filter, before }),
  });
}

// ── Merging the pages of all databases ──

/** Where the next page starts in each database, in their order. */
export type Positions = readonly DeliveryKey[];

export type MergedPage = Readonly<{ found: readonly FoundDelivery[]; next: Positions | undefined }>;

/** Sort before and behind every delivery in descending lists. */
export const START: DeliveryKey = { destinationId: "~", eventId: Number.MAX_SAFE_INTEGER };
export const END: DeliveryKey = { destinationId: "", eventId: 0 };

export const isEnd = ({ eventId }: DeliveryKey): boolean => eventId === END.eventId;

/** The values that a list descends by, the most significant first. */
export type Order = (delivery: FoundDelivery, acceptedAt: number) => Rank;

type PageRequest = Readonly<{
  before: Positions | undefined;
  limit: number;
  order: Order;
  pageOf: (db: D1Database, before: DeliveryKey | undefined) => Promise<DeliveryPage>;
}>;

export async function mergedPage(databases: Databases, request: PageRequest): Promise<MergedPage> {
  const { before, limit, order, pageOf } = request;
  const pages = await Promise.all(
    allOf(databases).map((db, i): Promise<DeliveryPage> | DeliveryPage =>
      before?.[i] && isEnd(before[i]) ? EMPTY : pageOf(db, before?.[i]),
    ),
  );
  const [only, ...others] = pages;
  if (only && others.length === 0) return { found: only.found, next: only.next && [only.next] };
  const ids = pages.flatMap(({ found }) => found.map(({ eventId }) => eventId));
  const names = await eventNames(databases, ids);
  const { found, next } = mergedParts<FoundDelivery, DeliveryKey>(pages, {
    from: pages.map((_, i) => before?.[i] ?? START),
    end: END,
    limit,
    rankOf: (delivery) => order(delivery, names.get(delivery.eventId)?.acceptedAt ?? 0),
    positionOf: (delivery) => delivery,
  });
  return { found: await withDestinations(databases, found), next };
}

const EMPTY: DeliveryPage = { found: [], next: undefined };

/**
 * The same deliveries with their destinations: only the first database stores those. Makes no call when none is missing.
 */
export async function withDestinations(
  { db }: Databases,
  found: readonly FoundDelivery[],
): Promise<readonly FoundDelivery[]> {
  const bare = found.filter(({ destination }) => destination === null);
  if (bare.length === 0) return found;
  const byId = await destinationsFor(db, bare);
  return found.map((delivery) => ({
    ...delivery,
    destination: delivery.destination ?? byId.get(delivery.destinationId) ?? null,
  }));
}

// ── A page of one database ──

/**
 * The destinations of the filter in the order of the list, deleted ones too; undefined for all. A page never passes
 * more of them than it has steps.
 */
async function ownDestinations(
  { db: first }: Databases,
  { tenant, destinationId: only, before }: DeliveryFilter,
): Promise<readonly string[] | undefined> {
  const db = drizzle(first);
  const { id, tenant: owner } = destinations;
  if (only !== undefined) {
    const row = tenant && (await db.select({ owner }).from(destinations).where(eq(id, only)).get());
    return row && row.owner !== tenant ? [] : [only];
  }
  if (tenant === undefined) return undefined;
  const rows = await db
    .select({ id })
    .from(destinations)
    .where(and(eq(owner, tenant), before && lte(id, before.destinationId)))
    .orderBy(desc(id))
    .limit(STEPS);
  return rows.map(({ id }) => id);
}

type Stored = Extract<FoundDelivery, { kind: "stored" }>;

/** The finds of the walk through rows, or through packs. */
type Found = Readonly<{
  found: readonly Stored[];
  /** How far the walk has got; undefined when it has reached the end. */
  upto: DeliveryKey | undefined;
}>;

/**
 * Rows and packs are walked separately. The page has what was found up to the place that both walks have reached, and the
 * next page continues there: so a delivery that moves from a pack to a row meanwhile is neither shown twice nor left out.
 */
async function storedIn(
  db: D1Database,
  databases: Databases,
  state: StoredState | undefined,
  filter: DeliveryFilter,
): Promise<DeliveryPage> {
  const { limit, accepted, over } = filter;
  const destinations = await ownDestinations(databases, filter);
  if (destinations?.length === 0) return { found: [], next: undefined };
  const range = accepted && (await idRangeOf(db, accepted));
  const walk = { state, destinations, before: filter.before, range };
  const byIndex = state === "retrying" && (await areFewRetries(db));
  const [rows, packed] = await Promise.all([
    rowsIn(db, walk, filter, byIndex),
    packedIn(db, walk, filter, byIndex),
  ]);
  const upto = [rows.upto, packed.upto].filter((one) => one !== undefined).sort(descending)[0];
  const all = [...rows.found, ...packed.found]
    .filter((one) => upto === undefined || descending(one, upto) <= 0)
    .sort(descending);
  const shown = all.slice(0, limit);
  return { found: await withoutOver(db, shown, over), next: all.length > limit ? shown.at(-1) : upto };
}

/** The deliveries without those of events that are over. */
export async function withoutOver(
  db: D1Database,
  shown: readonly FoundDelivery[],
  over: Cutoffs | undefined,
) {
  if (!over) return shown;
  const rows = shown.flatMap((one) => (one.kind === "stored" ? [one.row] : []));
  const gone = await eventsOver(db, rows, over);
  return shown.filter(({ eventId }) => !gone.has(eventId));
}

function descending(a: DeliveryKey, b: DeliveryKey): number {
  if (a.destinationId !== b.destinationId) return a.destinationId < b.destinationId ? 1 : -1;
  return b.eventId - a.eventId;
}

const deliveryColumns = getTableColumns(deliveries);
const destinationColumns = getTableColumns(destinations);

/** The rows that pass the filter, one more than the limit; the last step is selected in any case, to see how far it got. */
async function rowsIn(db: D1Database, walk: Walk, filter: DeliveryFilter, byIndex: boolean): Promise<Found> {
  const isOfState = byIndex || leadsTo(walk.state) ? sql`true` : sql`${deliveries.state} = ${walk.state}`;
  const wanted = sql<number>`(${deliveries.eventId} IS NOT NULL AND ${isOfState} AND ${isWanted(filter) ?? sql`true`})`;
  const walked = { destinationId: sql<string>`walk.destination`, eventId: sql<number | null>`walk.event` };
  const steps = await drizzle(db)
    .select({
      n: sql<number>`walk.n`,
      ...walked,
      isWanted: wanted,
      row: deliveryColumns,
      destination: destinationColumns,
    })
    .from((byIndex ? walkOfFew : walkOf)("deliveries", walk))
    .leftJoin(
      deliveries,
      and(eq(deliveries.destinationId, walked.destinationId), eq(deliveries.eventId, walked.eventId)),
    )
    .leftJoin(destinations, eq(destinations.id, deliveries.destinationId))
    .where(sql`${wanted} OR walk.n = ${STEPS}`)
    .limit(filter.limit + 1);
  const found = steps.flatMap(({ isWanted, row, destination }): Stored[] =>
    isWanted && row ? [foundOf(loadedRow(row), destination)] : [],
  );
  if (found.length > filter.limit) return { found, upto: found.at(-1) };
  const last = steps.at(-1);
  // A step without an event has reached the end of the destination.
  const upto =
    last?.n === STEPS ? { destinationId: last.destinationId, eventId: last.eventId ?? 1 } : undefined;
  return { found, upto };
}

/** Packs read for one page: those of full bundles hold a hundred deliveries each. */
const PACKS = 100;

/** The deliveries of packs that pass the filter. Dead deliveries are never in packs. */
async function packedIn(
  db: D1Database,
  walk: Walk,
  filter: DeliveryFilter,
  byIndex: boolean,
): Promise<Found> {
  const { state } = walk;
  if (state === "dead") return { found: [], upto: undefined };
  const { type, tenant, channel } = filter;
  const isHeaderAsked = [type, tenant, channel].some((one) => one !== undefined);
  const walked = { destinationId: sql<string>`walk.destination`, bundleId: sql<number | null>`walk.event` };
  const read = await drizzle(db)
    .select({
      n: sql<number>`walk.n`,
      ...walked,
      pack: getTableColumns(packs),
      acceptedAt: bundles.acceptedAt,
      header: isHeaderAsked ? bundles.header : sql<null>`NULL`,
      destination: destinationColumns,
    })
    .from((byIndex ? walkOfFew : walkOf)("packs", walk))
    .leftJoin(packs, and(eq(packs.destinationId, walked.destinationId), eq(packs.bundleId, walked.bundleId)))
    .leftJoin(bundles, eq(bundles.id, walked.bundleId))
    .leftJoin(destinations, eq(destinations.id, walked.destinationId))
    .where(sql`${walked.bundleId} IS NOT NULL OR walk.n = ${STEPS}`)
    .limit(PACKS);
  const found = read.flatMap((one) => wantedIn(one, state, filter));
  const last = read.at(-1);
  const isEnd = read.length < PACKS && last?.n !== STEPS;
  const first = (bundle: number | null) => (bundle === null ? 1 : eventAt(bundle, 0));
  const upto =
    last && !isEnd ? { destinationId: last.destinationId, eventId: first(last.bundleId) } : undefined;
  return { found, upto };
}

type ReadPack = Readonly<{
  pack: PackRow | null;
  destination: Destination | null;
  acceptedAt: number | null;
  header: StoredHeader | null;
}>;

/** The deliveries of a pack that pass the filter, and come after where the page starts. */
function wantedIn(
  { pack, destination, acceptedAt, header }: ReadPack,
  state: StoredState | undefined,
  filter: DeliveryFilter,
): Stored[] {
  if (!pack) return [];
  const { before } = filter;
  const asked = eventConditionsOf({ ...filter, tag: undefined });
  const isOfWantedEvent = ({ eventId }: DeliveryRow) =>
    isEventWanted(asked, {
      ...(header && detailsAt(header, indexOf(eventId))),
      acceptedAt,
      owner: destination?.tenant,
    });
  return packedRows(pack, destination)
    .filter((row) => (state === undefined || storedStatus(row).state === state) && isRowWanted(filter, row))
    .filter((row) => before === undefined || descending(row, before) > 0)
    .filter(isOfWantedEvent)
    .map((row) => foundOf(row, destination));
}

/** Whether retries are few enough to be found by their index and sorted. */
async function areFewRetries(db: D1Database): Promise<boolean> {
  const counted = await db
    .prepare(`SELECT ${countUpTo("?1", RETRYING_ROWS)} + ${countUpTo("?1", IN_FLIGHT_PACKS)} AS count`)
    .bind(RETRIES_SORTED + 1)
    .first<number>("count");
  return (counted ?? 0) <= RETRIES_SORTED;
}

function foundOf(row: DeliveryRow, destination: Destination | null): Stored {
  return { kind: "stored", eventId: row.eventId, destinationId: row.destinationId, row, destination };
}

// ── Walks ──

/** Most steps of one page in a database: this many through rows, and as many through packs. */
const STEPS = 700;
/** While a database has no more retries than this, they are found by their index and sorted. */
export const RETRIES_SORTED = 5_000;

type Walk = Readonly<{
  state: StoredState | undefined;
  /** The destinations to walk through, in descending order; undefined: all that have deliveries. */
  destinations: readonly string[] | undefined;
  before: DeliveryKey | undefined;
  range: IdRange | undefined;
}>;

/** The table that is walked through: rows by their events, or packs by their bundles. */
type Table = "deliveries" | "packs";

/** The partial index that contains only the requested state, if one has the order of the walk. */
const sources: Readonly<Record<Table, Readonly<Partial<Record<StoredState, SQL>>>>> = {
  deliveries: {
    waiting: sql.raw(`${WAITING_ROWS} AND`),
    dead: sql.raw(`${DEAD_ROWS} AND`),
  },
  packs: { waiting: sql.raw(`${WAITING_PACKS} AND`) },
};
/** The parts of the walks through each table: its ids by those of events, and the index that has few entries. */
const walks = {
  deliveries: {
    any: sql`deliveries WHERE`,
    key: sql`event_id`,
    idOf: (event: number) => event,
    few: RETRYING_ROWS,
  },
  packs: { any: sql`packs WHERE`, key: sql`bundle_id`, idOf: bundleOf, few: IN_FLIGHT_PACKS },
};

/** Whether the walk through rows finds only that state; else the state of each delivery has to be compared. */
function leadsTo(state: StoredState | undefined): boolean {
  return state === undefined || sources.deliveries[state] !== undefined;
}

/**
 * Ids from `first` to below `end`, and below `before` for the destination that the page before ended in. The bundle that it
 * ended in comes again.
 */
function idsOf(table: Table, { before, range }: Walk) {
  const { idOf } = walks[table];
  return {
    first: idOf(range?.first ?? 1),
    end: Math.min(idOf(range?.last ?? Number.MAX_SAFE_INTEGER), Number.MAX_SAFE_INTEGER - 1) + 1,
    before: before && idOf(before.eventId) + (table === "packs" ? 1 : 0),
  };
}

/**
 * A table of `n` (the step), `destination` and `event`, which is null when the destination has no more. Through packs, `event`
 * is the id of a bundle.
 */
function walkOf(table: Table, walk: Walk): SQL {
  const { state, destinations, before } = walk;
  const { any, key } = walks[table];
  const source = (state && sources[table][state]) ?? any;
  const { first, end, before: below = end } = idsOf(table, walk);
  const ids = destinations && JSON.stringify(destinations);
  const start = destinations?.[0] ?? before?.destinationId ?? AFTER_ALL;
  const from = before?.destinationId === start ? Math.min(below, end) : end;
  const next = ids
    ? sql`(${ids} ->> (walk.place + 1))`
    : sql`(SELECT max(destination_id) FROM ${source} destination_id < walk.destination)`;
  const here = sql`iif(walk.event IS NULL, ${next}, walk.destination)`;
  // The first row is where the walk starts: it is no step.
  return sql`(WITH RECURSIVE walk (n, place, destination, event) AS (
    SELECT 0, 0, ${start}, ${from}
    UNION ALL
    SELECT walk.n + 1, walk.place + (walk.event IS NULL), ${here},
      (SELECT max(${key}) FROM ${source} destination_id = ${here}
        AND ${key} < coalesce(walk.event, ${end}) AND ${key} >= ${first})
    FROM walk WHERE walk.destination IS NOT NULL LIMIT ${STEPS + 1}
  ) SELECT n, destination, event FROM walk WHERE n > 0 AND destination IS NOT NULL) AS walk`;
}

/** Sorts behind every id of a destination. */
const AFTER_ALL = "~";

/**
 * The same table for retries, or packs with deliveries in flight, by the index on their times, while that has few entries. It
 * is not in the order of destinations, so all of it is read and sorted; the limit has room for entries that came since they
 * were counted.
 */
function walkOfFew(table: Table, walk: Walk): SQL {
  const { destinations, before } = walk;
  const { key, few } = walks[table];
  const ids = idsOf(table, walk);
  const isBefore = before
    ? sql`(destination_id, ${key}) < (${before.destinationId}, ${ids.before})`
    : sql`true`;
  const isOwn = destinations
    ? sql`destination_id IN (SELECT value FROM json_each(${JSON.stringify(destinations)}))`
    : sql`true`;
  return sql`(SELECT row_number() OVER () AS n, destination_id AS destination, ${key} AS event FROM (
    SELECT destination_id, ${key} FROM (
      SELECT destination_id, ${key} FROM ${sql.raw(few)} LIMIT ${2 * RETRIES_SORTED})
    WHERE ${isOwn} AND ${isBefore} AND ${key} >= ${ids.first} AND ${key} < ${ids.end}
    ORDER BY destination_id DESC, ${key} DESC LIMIT ${STEPS})) AS walk`;
}
