/**
 * Deliveries as they are shown. One with a row is what the row says; one without is so far only promised by
 * its event's plan.
 */
import { and, desc, eq, getTableColumns, lte, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { type DeliveryFilter, type DeliveryKey, isWanted } from "./delivery-filter.ts";
import { type MergedPage, mergedPage, type Positions } from "./delivery-pages.ts";
import { leadsTo, RETRIES_SORTED, STEPS, type Walk, walkOf, walkOfRetries } from "./delivery-walk.ts";
import type { Destination } from "./destination-settings.ts";
import { eventRangeOf } from "./moments.ts";
import { deliveries, destinations, type StoredState } from "./schema.ts";
import type { Databases } from "./shards.ts";
import type { DeliveryRow } from "./work.ts";

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

/** The columns of a delivery, which may be read from any table that is called `deliveries`. */
const delivery = getTableColumns(deliveries);

/**
 * Deliveries with a row: of one destination the newest event first, else by destination and event,
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

async function storedIn(
  db: D1Database,
  databases: Databases,
  state: StoredState | undefined,
  filter: DeliveryFilter,
): Promise<DeliveryPage> {
  const { limit, before, accepted } = filter;
  const destinations = await ownDestinations(databases, filter);
  if (destinations?.length === 0) return { found: [], next: undefined };
  const range = accepted && (await eventRangeOf(db, accepted));
  const walk = { state, destinations, before, range };
  const rows = await storedQuery(db, walk, filter, state === "retrying" && (await areFewRetries(db)));
  const found = rows.filter(({ isWanted }) => isWanted).map(foundOf);
  if (found.length > limit) return { found: found.slice(0, limit), next: found[limit - 1] };
  const last = rows.at(-1);
  if (last?.n !== STEPS) return { found, next: undefined };
  // Of a destination that has no more, nothing is left before its first event.
  return { found, next: { destinationId: last.destinationId, eventId: last.eventId ?? 1 } };
}

/** What is wanted of the walk, one more than asked for, and in any case its last step, wanted or not. */
function storedQuery(db: D1Database, walk: Walk, filter: DeliveryFilter, byIndex: boolean) {
  const isOfState = byIndex || leadsTo(walk.state) ? sql`true` : sql`${deliveries.state} = ${walk.state}`;
  const wanted = sql<number>`(${deliveries.eventId} IS NOT NULL AND ${isOfState} AND ${isWanted(filter) ?? sql`true`})`;
  const walked = { destinationId: sql<string>`walk.destination`, eventId: sql<number | null>`walk.event` };
  return drizzle(db)
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
}

const destinationColumns = getTableColumns(destinations);

async function areFewRetries(db: D1Database): Promise<boolean> {
  const counted = await db
    .prepare(
      `SELECT count(*) AS count FROM (
         SELECT 1 FROM deliveries INDEXED BY deliveries_retrying WHERE state = 'retrying' LIMIT ?1)`,
    )
    .bind(RETRIES_SORTED + 1)
    .first<number>("count");
  return (counted ?? 0) <= RETRIES_SORTED;
}

function foundOf({
  row,
  destination,
}: {
  row: DeliveryRow | null;
  destination: Destination | null;
}): FoundDelivery {
  if (row === null) throw new Error("A delivery that is wanted has a row");
  return { kind: "stored", eventId: row.eventId, destinationId: row.destinationId, row, destination };
}
