/**
 * Deliveries as they are shown. One with a row of its own, or a bit in a pack, is what that says; one without is so
 * far only promised by its event's plan.
 */
import { and, desc, eq, getTableColumns, lte, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { eventAt, headerAt, indexOf } from "../core/bundle.ts";
import {
  type DeliveryFilter,
  type DeliveryKey,
  isEventWanted,
  isRowWanted,
  isWanted,
} from "./delivery-filter.ts";
import { type MergedPage, mergedPage, type Positions } from "./delivery-pages.ts";
import {
  leadsTo,
  RETRIES_SORTED,
  STEPS,
  type Walk,
  walkOf,
  walkOfPacks,
  walkOfPacksInFlight,
  walkOfRetries,
} from "./delivery-walk.ts";
import type { Destination } from "./destination-settings.ts";
import { idRangeOf } from "./moments.ts";
import { eventsOver } from "./over.ts";
import { packedRows } from "./packs.ts";
import { bundles, type DeliveryRow, deliveries, destinations, packs, type StoredState } from "./schema.ts";
import type { Databases } from "./shards.ts";

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
