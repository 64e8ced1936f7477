/**
 * Deliveries as they are shown. One with a row is what the row says; one without is so far only promised by
 * its event's plan. Lists walk an index by key, newest first; the partial indexes are named, because the
 * planner would rather walk the whole table in order.
 */
import { and, desc, eq, getTableColumns, lte, type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { type DeliveryFilter, type DeliveryKey, isFound, isWanted } from "./delivery-filter.ts";
import { type MergedPage, mergedPage, type Positions } from "./delivery-pages.ts";
import type { Destination } from "./destination-settings.ts";
import { type EventRange, eventRangeOf } from "./moments.ts";
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

/** How many deliveries one page looks at in a database, at most, for those that are wanted. */
const LOOKED_AT = 1000;

/** The table by the index that holds nothing but the state asked for, where there is one. */
const sources: Readonly<Record<StoredState | "any", SQL>> = {
  waiting: sql`deliveries INDEXED BY deliveries_waiting`,
  dead: sql`deliveries INDEXED BY deliveries_dead`,
  retrying: sql`deliveries INDEXED BY deliveries_retrying`,
  delivered: sql`deliveries`,
  cancelled: sql`deliveries`,
  any: sql`deliveries`,
};

/** The columns of a delivery, spelled out because drizzle does not know the table behind `sources`. */
const delivery = Object.fromEntries(
  Object.entries(getTableColumns(deliveries)).map(([name, column]) => [name, sql`${column}`.mapWith(column)]),
) as { [K in keyof DeliveryRow]: SQL<DeliveryRow[K]> };

const newestFirst = sql`${deliveries.destinationId} DESC, ${deliveries.eventId} DESC`;

/**
 * Deliveries with a row: of one destination the newest event first, else by destination and event,
 * descending. A page that is narrowed may be short, or empty, and still have a next one.
 */
export function storedDeliveries(
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

async function storedIn(
  db: D1Database,
  { db: first }: Databases,
  state: StoredState | undefined,
  filter: DeliveryFilter,
): Promise<DeliveryPage> {
  const range = filter.accepted && (await eventRangeOf(db, filter.accepted));
  const rows = await storedQuery(db, state, { ...filter, limit: filter.limit + 1 }, range);
  const found = rows.slice(0, filter.limit).map(foundOf);
  if (rows.length > filter.limit) return { found, next: found.at(-1) };
  const last = isWanted(filter) && (await lastLookedAt(db, state, filter, range));
  if (!last || filter.tenant === undefined) return { found, next: last };
  return { found, next: await ownKey(first, filter.tenant, filter.destinationId, last) };
}

/** The statement of `storedDeliveries`, for a test that looks at its plan. */
export function storedQuery(
  db: D1Database,
  state: StoredState | undefined,
  filter: DeliveryFilter,
  range?: EventRange,
) {
  const wanted = isWanted(filter);
  return drizzle(db)
    .select({ row: delivery, destination: getTableColumns(destinations) })
    .from(wanted ? lookedAt(state, filter, range) : sources[state ?? "any"])
    .leftJoin(destinations, eq(destinations.id, deliveries.destinationId))
    .where(wanted ?? isFound(state, filter, range))
    .orderBy(desc(deliveries.destinationId), desc(deliveries.eventId))
    .limit(filter.limit);
}

/** The next so many deliveries and no more: whatever is tried on them, a page costs a bounded number of rows. */
function lookedAt(state: StoredState | undefined, filter: DeliveryFilter, range: EventRange | undefined) {
  const where = isFound(state, filter, range) ?? sql`true`;
  return sql`(SELECT * FROM ${sources[state ?? "any"]} WHERE ${where}
    ORDER BY ${newestFirst} LIMIT ${LOOKED_AT}) AS deliveries`;
}

/** Where to go on looking; undefined when there is nothing left to look at. */
async function lastLookedAt(
  d1: D1Database,
  state: StoredState | undefined,
  filter: DeliveryFilter,
  range: EventRange | undefined,
): Promise<DeliveryKey | undefined> {
  return drizzle(d1)
    .select({ destinationId: delivery.destinationId, eventId: delivery.eventId })
    .from(sources[state ?? "any"])
    .where(isFound(state, filter, range))
    .orderBy(newestFirst)
    .limit(1)
    .offset(LOOKED_AT - 1)
    .get();
}

/**
 * A tenant's next page starts at a destination of its own: so those of others are passed over at once, and
 * a cursor, or that there is one, tells nothing of them.
 */
async function ownKey(
  first: D1Database,
  tenant: string,
  only: string | undefined,
  last: DeliveryKey,
): Promise<DeliveryKey | undefined> {
  const own = await drizzle(first)
    .select({ id: destinations.id })
    .from(destinations)
    .where(and(eq(destinations.tenant, tenant), lte(destinations.id, last.destinationId)))
    .orderBy(desc(destinations.id))
    .limit(1)
    .get();
  if (own?.id === last.destinationId) return last;
  return own && only === undefined ? { destinationId: own.id, eventId: Number.MAX_SAFE_INTEGER } : undefined;
}

function foundOf({ row, destination }: { row: DeliveryRow; destination: Destination | null }): FoundDelivery {
  return { kind: "stored", eventId: row.eventId, destinationId: row.destinationId, row, destination };
}
