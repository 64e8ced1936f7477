/**
 * Deliveries as they are shown. One with a row is what the row says; one without is so far only promised by
 * its event's plan. Lists walk an index by key, newest first; the partial indexes are named, because the
 * planner would rather walk the whole table in order.
 */
import { and, desc, eq, getTableColumns, lt, type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { Destination } from "./destination-settings.ts";
import { deliveries, destinations, type StoredState } from "./schema.ts";
import type { DeliveryRow } from "./work.ts";

/** `destination` is null only when somebody removed its row by hand. */
export type FoundDelivery = Readonly<{
  eventId: number;
  destinationId: string;
  destination: Destination | null;
}> &
  (Readonly<{ kind: "stored"; row: DeliveryRow }> | Readonly<{ kind: "planned"; acceptedAt: number }>);

/** The key of a delivery: every list is in its order, descending. */
export type DeliveryKey = Readonly<{ destinationId: string; eventId: number }>;

export type DeliveryFilter = Readonly<{
  destinationId: string | undefined;
  tenant: string | undefined;
  before: DeliveryKey | undefined;
  limit: number;
}>;

/** `next` is where the following page starts; absent on the last one. */
export type DeliveryPage = Readonly<{ found: readonly FoundDelivery[]; next: DeliveryKey | undefined }>;

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

/** Deliveries with a row: of one destination the newest event first, else by destination and event, descending. */
export async function storedDeliveries(
  db: D1Database,
  state: StoredState | undefined,
  filter: DeliveryFilter,
): Promise<DeliveryPage> {
  const rows = await storedQuery(db, state, { ...filter, limit: filter.limit + 1 });
  const found = rows.slice(0, filter.limit).map(foundOf);
  return { found, next: rows.length > filter.limit ? found.at(-1) : undefined };
}

/** The statement of `storedDeliveries`, for a test that looks at its plan. */
export function storedQuery(db: D1Database, state: StoredState | undefined, filter: DeliveryFilter) {
  return drizzle(db)
    .select({ row: delivery, destination: getTableColumns(destinations) })
    .from(sources[state ?? "any"])
    .leftJoin(destinations, eq(destinations.id, deliveries.destinationId))
    .where(and(inState(state), isOf(filter), isBefore(filter)))
    .orderBy(desc(deliveries.destinationId), desc(deliveries.eventId))
    .limit(filter.limit);
}

function foundOf({ row, destination }: { row: DeliveryRow; destination: Destination | null }): FoundDelivery {
  return { kind: "stored", eventId: row.eventId, destinationId: row.destinationId, row, destination };
}

/** A literal, never a parameter: else no partial index could be used. */
function inState(state: StoredState | undefined): SQL | undefined {
  return state && sql.raw(`"deliveries"."state" = '${state}'`);
}

function isOf({ destinationId, tenant }: DeliveryFilter): SQL | undefined {
  return and(
    destinationId === undefined ? undefined : eq(deliveries.destinationId, destinationId),
    tenant === undefined ? undefined : eq(destinations.tenant, tenant),
  );
}

/** Within one destination the event alone decides, so that a page starts where the last one ended. */
function isBefore({ destinationId, before }: DeliveryFilter): SQL | undefined {
  if (before === undefined) return undefined;
  if (destinationId !== undefined) return lt(deliveries.eventId, before.eventId);
  return sql`(${deliveries.destinationId}, ${deliveries.eventId}) < (${before.destinationId}, ${before.eventId})`;
}
