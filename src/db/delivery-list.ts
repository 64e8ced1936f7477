/**
 * Deliveries as they are shown. One with a row of its own, or a bit in a pack, is what that says; one without is so
 * far only promised by its event's plan.
 */

import { and, desc, eq, getTableColumns, lte, type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { bundleOf, eventAt, headerAt, indexOf } from "../core/bundle.ts";
import { eventNames, type IdRange, idRangeOf } from "./bundles.ts";
import {
  type DeliveryFilter,
  type DeliveryKey,
  eventsOver,
  isEventWanted,
  isRowWanted,
  isWanted,
} from "./delivery-filter.ts";
import type { Destination } from "./destinations.ts";
import { packedRows, WAITS } from "./packs.ts";
import { bundles, type DeliveryRow, deliveries, destinations, packs, type StoredState } from "./schema.ts";
import { allOf, type Databases } from "./shards.ts";
import { destinationsByIds } from "./watched-destinations.ts";

// §§ The destinations of deliveries that were found without them, or beyond the first database, which alone has them.

/** The same deliveries with their destinations; not one call when all have theirs. */
export async function withDestinations(
  { db }: Databases,
  found: readonly FoundDelivery[],
): Promise<readonly FoundDelivery[]> {
  const bare = found.filter(({ destination }) => destination === null);
  if (bare.length === 0) return found;
  const rows = await destinationsByIds(db, [...new Set(bare.map(({ destinationId }) => destinationId))]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return found.map((delivery) => ({
    ...delivery,
    destination: delivery.destination ?? byId.get(delivery.destinationId) ?? null,
  }));
}

// §§ A page of deliveries from several databases. Each gives a page of its own, in its order; they are merged by
// the times of the events, and every database is gone on with where its part of the page ended. With one
// database its page is the page.

/** Where the next page starts in each database, in their order. */
export type Positions = readonly DeliveryKey[];

export type MergedPage = Readonly<{ found: readonly FoundDelivery[]; next: Positions | undefined }>;

/** Before everything, and behind it, in lists that descend. */
export const START: DeliveryKey = { destinationId: "~", eventId: Number.MAX_SAFE_INTEGER };
export const END: DeliveryKey = { destinationId: "", eventId: 0 };

export const isEnd = ({ eventId }: DeliveryKey): boolean => eventId === END.eventId;

/** What a list is in descending order of; the first difference decides. */
export type Order = (delivery: FoundDelivery, acceptedAt: number) => readonly (string | number)[];

type Asked = Readonly<{
  before: Positions | undefined;
  limit: number;
  order: Order;
  pageOf: (db: D1Database, before: DeliveryKey | undefined) => Promise<DeliveryPage>;
}>;

export async function mergedPage(databases: Databases, asked: Asked): Promise<MergedPage> {
  const { before, pageOf } = asked;
  const pages = await Promise.all(
    allOf(databases).map((db, i): Promise<DeliveryPage> | DeliveryPage =>
      before?.[i] && isEnd(before[i]) ? nothing : pageOf(db, before?.[i]),
    ),
  );
  const [only, ...others] = pages;
  if (only && others.length === 0) return { found: only.found, next: only.next && [only.next] };
  const ids = pages.flatMap(({ found }) => found.map(({ eventId }) => eventId));
  const names = await eventNames(databases, ids);
  const { found, next } = merged(pages, asked, ({ eventId }) => names.get(eventId)?.acceptedAt ?? 0);
  return { found: await withDestinations(databases, found), next };
}

const nothing: DeliveryPage = { found: [], next: undefined };

/** It ends early where a database has more than it has shown: what comes next in order, nobody knows then. */
function merged(
  pages: readonly DeliveryPage[],
  { before, limit, order }: Asked,
  acceptedAt: (delivery: FoundDelivery) => number,
): MergedPage {
  const lists = pages.map(({ found, next }) => ({ rest: [...found], next }));
  const positions = pages.map((_, i) => before?.[i] ?? START);
  const found: FoundDelivery[] = [];
  const isUsedUp = () => lists.some(({ rest, next }) => rest.length === 0 && next !== undefined);
  while (found.length < limit && !isUsedUp()) {
    const heads = lists.flatMap(({ rest: [head] }, i) =>
      head ? [{ i, head, rank: order(head, acceptedAt(head)) }] : [],
    );
    const [first] = heads.toSorted((a, b) => descendingPositions(a.rank, b.rank));
    if (!first) break;
    found.push(first.head);
    positions[first.i] = first.head;
    lists[first.i]?.rest.shift();
  }
  const next = lists.map(({ rest, next }, i) => (rest.length > 0 ? positions[i] : next) ?? END);
  return { found, next: next.every(isEnd) ? undefined : next };
}

function descendingPositions(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  const i = a.findIndex((value, i) => value !== b[i]);
  const [left = 0, right = 0] = [a[i], b[i]];
  return i < 0 ? 0 : left < right ? 1 : -1;
}

// §§ Walks deliveries in the order of lists, newest first, destination by destination, and no further than a
// budget allows: whatever else is stored, and whatever is tried on them, a page costs a bounded number of
// rows. Every step is one seek: to the next delivery of the destination, or to the end of what it has. Deliveries with
// rows of their own and packs are walked through apart, in the same order: see delivery-list.ts.
//
// A list of one destination, or of a tenant, steps through its own destinations alone; the operator's through
// all that have deliveries. So what others have costs nothing, and a cursor tells nothing of them.

/** Steps of one page in a database, at most: so many through rows, and as many through packs. */
const STEPS = 700;
/** While there are no more retries than this, in all, they are found by their index and sorted. */
export const RETRIES_SORTED = 5_000;

type Walk = Readonly<{
  state: StoredState | undefined;
  /** Those to walk through, in descending order; all that have deliveries when undefined. */
  destinations: readonly string[] | undefined;
  before: DeliveryKey | undefined;
  range: IdRange | undefined;
}>;

/** What is walked through: the rows of deliveries by their events, or packs by their bundles. */
type Table = "deliveries" | "packs";

/** The table by the index that holds nothing but the state asked for, where there is one in the order of the walk. */
const sources: Readonly<Record<Table, Readonly<Partial<Record<StoredState, SQL>>>>> = {
  deliveries: {
    // The state is a literal, never a parameter: else no partial index could be used.
    waiting: sql`deliveries INDEXED BY deliveries_waiting WHERE state = 'waiting' AND`,
    dead: sql`deliveries INDEXED BY deliveries_dead WHERE state = 'dead' AND`,
  },
  packs: { waiting: sql`packs INDEXED BY packs_waiting WHERE ${sql.raw(WAITS)} AND` },
};
const anyState = { deliveries: sql`deliveries WHERE`, packs: sql`packs WHERE` };
const keys = { deliveries: sql`event_id`, packs: sql`bundle_id` };

/** Whether the walk through rows leads to that state alone; else each delivery's state has to be looked at. */
function leadsTo(state: StoredState | undefined): boolean {
  return state === undefined || sources.deliveries[state] !== undefined;
}

/** A table of `n` (the step), `destination` and `event`, which is null where the destination has no more. */
function walkOf(walk: Walk): SQL {
  const { before, range } = walk;
  return steps("deliveries", walk, {
    first: range?.first ?? 1,
    end: Math.min(range?.last ?? Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER - 1) + 1,
    before: before?.eventId,
  });
}

/** The same through packs: `event` is the number of a bundle, the one that the page before has ended in again. */
function walkOfPacks(walk: Walk): SQL {
  const { before, range } = walk;
  return steps("packs", walk, {
    first: bundleOf(range?.first ?? 0),
    end: bundleOf(range?.last ?? Number.MAX_SAFE_INTEGER) + 1,
    before: before && bundleOf(before.eventId) + 1,
  });
}

/** Numbers from `first` on, below `end`, and below `before` of the destination that the page before has ended at. */
type Range = Readonly<{ first: number; end: number; before: number | undefined }>;

function steps(table: Table, { state, destinations, before }: Walk, range: Range): SQL {
  const source = (state && sources[table][state]) ?? anyState[table];
  const key = keys[table];
  const { first, end } = range;
  const ids = destinations && JSON.stringify(destinations);
  const start = destinations?.[0] ?? before?.destinationId ?? BEHIND_ALL;
  const from = before?.destinationId === start ? Math.min(range.before ?? end, end) : end;
  const next = ids
    ? sql`(${ids} ->> (walk.place + 1))`
    : sql`(SELECT max(destination_id) FROM ${source} destination_id < walk.destination)`;
  const here = sql`iif(walk.event IS NULL, ${next}, walk.destination)`;
  // The first row is where the walk starts from, and no step of it.
  return sql`(WITH RECURSIVE walk (n, place, destination, event) AS (
    SELECT 0, 0, ${start}, ${from}
    UNION ALL
    SELECT walk.n + 1, walk.place + (walk.event IS NULL), ${here},
      (SELECT max(${key}) FROM ${source} destination_id = ${here}
        AND ${key} < coalesce(walk.event, ${end}) AND ${key} >= ${first})
    FROM walk WHERE walk.destination IS NOT NULL LIMIT ${STEPS + 1}
  ) SELECT n, destination, event FROM walk WHERE n > 0 AND destination IS NOT NULL) AS walk`;
}

/** Behind every id of a destination, in order. */
const BEHIND_ALL = "~";

/**
 * The same table for what is retried, by the index of what is due: to be used while that holds few enough. It
 * has no order of destinations, so all of it is read, from the index alone, and what has come since it was
 * counted too.
 */
function walkOfRetries({ destinations, before, range }: Walk): SQL {
  const { first = 1, last = Number.MAX_SAFE_INTEGER } = range ?? {};
  const source = sql`deliveries INDEXED BY deliveries_retrying WHERE state = 'retrying'`;
  const isBefore = before
    ? sql`(destination_id, event_id) < (${before.destinationId}, ${before.eventId})`
    : sql`true`;
  return sorted(
    source,
    keys.deliveries,
    destinations,
    sql`${isBefore} AND event_id BETWEEN ${first} AND ${last}`,
  );
}

/** The same through packs of which some are in flight. */
function walkOfPacksInFlight({ destinations, before, range }: Walk): SQL {
  const { first = 1, last = Number.MAX_SAFE_INTEGER } = range ?? {};
  const source = sql`packs INDEXED BY packs_in_flight WHERE recover_at IS NOT NULL`;
  const isBefore = before
    ? sql`(destination_id, bundle_id) <= (${before.destinationId}, ${bundleOf(before.eventId)})`
    : sql`true`;
  const isInRange = sql`bundle_id BETWEEN ${bundleOf(first)} AND ${bundleOf(last)}`;
  return sorted(source, keys.packs, destinations, sql`${isBefore} AND ${isInRange}`);
}

function sorted(source: SQL, key: SQL, destinations: readonly string[] | undefined, isWanted: SQL): SQL {
  const isOwn = destinations
    ? sql`destination_id IN (SELECT value FROM json_each(${JSON.stringify(destinations)}))`
    : sql`true`;
  return sql`(SELECT row_number() OVER () AS n, destination_id AS destination, ${key} AS event FROM (
    SELECT destination_id, ${key} FROM (
      SELECT destination_id, ${key} FROM ${source} LIMIT ${2 * RETRIES_SORTED})
    WHERE ${isOwn} AND ${isWanted}
    ORDER BY destination_id DESC, ${key} DESC LIMIT ${STEPS})) AS walk`;
}

/** `destination` is null only when somebody removed its row by hand, or in a database that has none. */
export type FoundDelivery = Readonly<{
  eventId: number;
  destinationId: string;
  destination: Destination | null;
}> &
  (
    | Readonly<{ kind: "stored"; row: DeliveryRow }>
    | Readonly<{ kind: "planned"; acceptedAt: number; deliverAt: number | null }>
  );

/** `next` is where the following page starts; absent on the last one. */
export type DeliveryPage = Readonly<{ found: readonly FoundDelivery[]; next: DeliveryKey | undefined }>;

/** What a list is narrowed to, and where its page starts in each database. */
export type ListFilter = Omit<DeliveryFilter, "before"> & Readonly<{ before?: Positions | undefined }>;

/**
 * Deliveries of which something is known: of one destination the newest event first, else by destination and event,
 * descending. A page looks at `STEPS` deliveries and destinations in each database: it may be short, or
 * empty, and still have a next one.
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

/**
 * The destinations that the page is about, in its order; undefined when it is about all. Deleted ones are among
 * them. A page never gets past more of them than it has steps.
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

/** What one of the two walks has found. */
type Found = Readonly<{
  found: readonly Stored[];
  /** Everything up to this place has been looked at; undefined when that is all. */
  upto: DeliveryKey | undefined;
}>;

/**
 * Rows and packs are walked through apart. As far as both have been looked at their deliveries are one list, and the
 * next page goes on where that ends: so what moves from a pack to a row meanwhile is neither shown twice nor left out.
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
  const gone = over
    ? await eventsOver(
        db,
        shown.map(({ row }) => row),
        over,
      )
    : new Set();
  return {
    found: shown.filter(({ eventId }) => !gone.has(eventId)),
    next: all.length > limit ? shown.at(-1) : upto,
  };
}

function descending(a: DeliveryKey, b: DeliveryKey): number {
  if (a.destinationId !== b.destinationId) return a.destinationId < b.destinationId ? 1 : -1;
  return b.eventId - a.eventId;
}

/** The columns of a delivery, which may be read from any table that is called `deliveries`. */
const delivery = getTableColumns(deliveries);
const destinationColumns = getTableColumns(destinations);

/** What is wanted of the walk through rows, one more than asked for, and in any case its last step, wanted or not. */
async function rowsIn(db: D1Database, walk: Walk, filter: DeliveryFilter, byIndex: boolean): Promise<Found> {
  const isOfState = byIndex || leadsTo(walk.state) ? sql`true` : sql`${deliveries.state} = ${walk.state}`;
  const wanted = sql<number>`(${deliveries.eventId} IS NOT NULL AND ${isOfState} AND ${isWanted(filter) ?? sql`true`})`;
  const walked = { destinationId: sql<string>`walk.destination`, eventId: sql<number | null>`walk.event` };
  const steps = await drizzle(db)
    .select({
      n: sql<number>`walk.n`,
      ...walked,
      isWanted: wanted,
      row: delivery,
      destination: destinationColumns,
    })
    .from(byIndex ? walkOfRetries(walk) : walkOf(walk))
    .leftJoin(
      deliveries,
      and(eq(deliveries.destinationId, walked.destinationId), eq(deliveries.eventId, walked.eventId)),
    )
    .leftJoin(destinations, eq(destinations.id, deliveries.destinationId))
    .where(sql`${wanted} OR walk.n = ${STEPS}`)
    .limit(filter.limit + 1);
  const found = steps.flatMap(({ isWanted, row, destination }): Stored[] =>
    isWanted && row ? [foundOf(row, destination)] : [],
  );
  if (found.length > filter.limit) return { found, upto: found.at(-1) };
  const last = steps.at(-1);
  // Of a destination that has no more, nothing is left before its first event.
  const upto =
    last?.n === STEPS ? { destinationId: last.destinationId, eventId: last.eventId ?? 1 } : undefined;
  return { found, upto };
}

/** Packs read for one page: those of batches hold a hundred deliveries each. */
const PACKS = 100;

/** What is wanted of the packs that the walk leads to. What is dead has a row of its own. */
async function packedIn(
  db: D1Database,
  walk: Walk,
  filter: DeliveryFilter,
  byIndex: boolean,
): Promise<Found> {
  const { state, before } = walk;
  if (state === "dead") return { found: [], upto: undefined };
  const isHeaderAsked = filter.type !== undefined || filter.tenant !== undefined;
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
    .from(byIndex ? walkOfPacksInFlight(walk) : walkOfPacks(walk))
    .leftJoin(packs, and(eq(packs.destinationId, walked.destinationId), eq(packs.bundleId, walked.bundleId)))
    .leftJoin(bundles, eq(bundles.id, walked.bundleId))
    .leftJoin(destinations, eq(destinations.id, walked.destinationId))
    .where(sql`${walked.bundleId} IS NOT NULL OR walk.n = ${STEPS}`)
    .limit(PACKS);
  const found = read.flatMap(({ pack, destination, acceptedAt, header }) => {
    if (!pack) return [];
    const isOfEvent = (event: number) =>
      isEventWanted(filter, {
        acceptedAt,
        owner: destination?.tenant,
        about: header ? headerAt(header, indexOf(event)) : undefined,
      });
    return packedRows(pack, destination)
      .filter((row) => (state === undefined || row.state === state) && isRowWanted(filter, row))
      .filter((row) => before === undefined || descending(row, before) > 0)
      .filter(({ eventId }) => isOfEvent(eventId))
      .map((row) => foundOf(row, destination));
  });
  const last = read.at(-1);
  const isEnd = read.length < PACKS && last?.n !== STEPS;
  const first = (bundle: number | null) => (bundle === null ? 1 : eventAt(bundle, 0));
  const upto =
    last && !isEnd ? { destinationId: last.destinationId, eventId: first(last.bundleId) } : undefined;
  return { found, upto };
}

async function areFewRetries(db: D1Database): Promise<boolean> {
  const counted = await db
    .prepare(
      `SELECT (SELECT count(*) FROM (
         SELECT 1 FROM deliveries INDEXED BY deliveries_retrying WHERE state = 'retrying' LIMIT ?1))
       + (SELECT count(*) FROM (
         SELECT 1 FROM packs INDEXED BY packs_in_flight WHERE recover_at IS NOT NULL LIMIT ?1)) AS count`,
    )
    .bind(RETRIES_SORTED + 1)
    .first<number>("count");
  return (counted ?? 0) <= RETRIES_SORTED;
}

function foundOf(row: DeliveryRow, destination: Destination | null): Stored {
  return { kind: "stored", eventId: row.eventId, destinationId: row.destinationId, row, destination };
}
