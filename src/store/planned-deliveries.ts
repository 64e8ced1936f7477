/**
 * Deliveries as their event's plan promises them, with the row of each that has one. The plan is the only
 * trace of a delivery before its first outcome.
 */
import {
  and,
  desc,
  eq,
  getTableColumns,
  gt,
  isNotNull,
  isNull,
  lt,
  lte,
  ne,
  or,
  type SQL,
  sql,
} from "drizzle-orm";
import { type DrizzleD1Database, drizzle } from "drizzle-orm/d1";
import { beforeFirstOf, databaseNumberOf } from "../policy/placement.ts";
import { type Position, readCursor } from "./cursors.ts";
import type { DeliveryPage, FoundDelivery, ListFilter } from "./deliveries-read.ts";
import { type DeliveryFilter, type DeliveryKey, isOfEvent } from "./delivery-filter.ts";
import { type MergedPage, mergedPage } from "./delivery-pages.ts";
import type { Destination } from "./destination-settings.ts";
import { withDestinations } from "./found-destinations.ts";
import { eventRangeOf } from "./moments.ts";
import { scheduledAfter } from "./scheduled.ts";
import { deliveries, destinations, events, sweeps } from "./schema.ts";
import { type Databases, homeOf } from "./shards.ts";
import type { DeliveryRow } from "./work.ts";

export type StoredEvent = typeof events.$inferSelect;

type Planned = Readonly<{
  eventId: number;
  acceptedAt: number;
  deliverAt: number | null;
  destinationId: string;
  row: DeliveryRow | null;
  destination: Destination | null;
}>;

/** How many events one look for queued deliveries goes through, at most. */
const SCANNED = 5000;
/** How many of those that are scheduled. */
const SCHEDULED = 1000;

const destinationId = sql<string>`planned.value`;

/** An event and all its deliveries, in the order of its plan; undefined when there is no such event. */
export async function findEvent(
  databases: Databases,
  eventId: number,
  tenant: string | undefined,
): Promise<{ event: StoredEvent; deliveries: readonly FoundDelivery[] } | undefined> {
  const home = homeOf(databases, eventId);
  if (home === undefined) return undefined;
  const db = drizzle(home);
  const wanted = and(eq(events.id, eventId), tenant === undefined ? undefined : eq(events.tenant, tenant));
  // Not a batch: D1 answers one with rows by column name, and the names of joined tables are not unique.
  const [event, planned] = await Promise.all([
    db.select().from(events).where(wanted).get(),
    plans(db).where(wanted).orderBy(sql`planned.key`),
  ]);
  return event && { event, deliveries: await withDestinations(databases, planned.map(foundOf)) };
}

/** One delivery; undefined when no event has planned it. */
export async function findDelivery(
  databases: Databases,
  key: DeliveryKey,
  tenant: string | undefined,
): Promise<FoundDelivery | undefined> {
  const home = homeOf(databases, key.eventId);
  if (home === undefined) return undefined;
  const isWanted = and(
    eq(events.id, key.eventId),
    eq(destinationId, key.destinationId),
    tenant === undefined ? undefined : eq(events.tenant, tenant),
  );
  const planned = await plans(drizzle(home)).where(isWanted).get();
  const [found] = await withDestinations(databases, planned ? [foundOf(planned)] : []);
  return found;
}

/**
 * Deliveries without a row: first those of events to be delivered at once that the sweep has not passed yet, the
 * newest event first; then the scheduled ones whose time it has not looked after yet, the first due first. Which of
 * the two an event belongs to never changes, so no page shows again, or leaves out, what moves meanwhile. A page may be short,
 * or empty, and still have a next one: so many events and no more are looked at for each.
 */
export async function queuedDeliveries(
  databases: Databases,
  { before, ...filter }: ListFilter,
): Promise<MergedPage> {
  const { found, next } = await mergedPage(databases, {
    before,
    limit: filter.limit,
    order: (delivery, acceptedAt) => {
      const { destinationId, eventId } = delivery;
      const deliverAt = delivery.kind === "planned" ? delivery.deliverAt : null;
      return deliverAt === null
        ? [1, acceptedAt, eventId, destinationId]
        : [0, -deliverAt, -eventId, destinationId];
    },
    pageOf: (db, before) => queuedIn(db, { ...filter, before }),
  });
  return { found: found.filter(({ destination }) => destination?.deletedAt === null), next };
}

async function queuedIn(d1: D1Database, filter: DeliveryFilter): Promise<DeliveryPage> {
  const after = filter.before && (await scheduledPosition(d1, filter.before));
  if (after) return scheduledIn(d1, filter, after);
  const { found, next } = await unscheduledIn(d1, filter);
  if (next) return { found, next };
  const limit = filter.limit - found.length;
  const scheduled = await scheduledIn(d1, { ...filter, before: undefined, limit: Math.max(1, limit) });
  if (limit > 0) return { found: [...found, ...scheduled.found], next: scheduled.next };
  // The next page finds by the last delivery of this one that only scheduled ones are left.
  const isMore = scheduled.found.length > 0 || scheduled.next !== undefined;
  return { found, next: isMore ? found.at(-1) : undefined };
}

async function unscheduledIn(d1: D1Database, filter: DeliveryFilter): Promise<DeliveryPage> {
  const db = drizzle(d1);
  const [{ watermark, newest }, { first, last }] = await Promise.all([
    bounds(db),
    eventRangeOf(d1, filter.accepted ?? {}),
  ]);
  const lowest = Math.max(watermark, first - 1, beforeFirstOf(databaseNumberOf(newest)));
  const top = Math.min(newest, last, filter.before?.eventId ?? newest);
  const floor = Math.max(lowest, top - SCANNED);
  const isHere = and(gt(events.id, floor), lte(events.id, top), isNull(events.deliverAt));
  const planned = await plans(db)
    .where(and(isHere, isBefore(filter.before), isOf(filter), isQueued))
    .orderBy(desc(events.id), desc(destinationId))
    .limit(filter.limit + 1);
  const found = planned.slice(0, filter.limit).map(foundOf);
  const rest = floor > lowest ? { eventId: floor + 1, destinationId: "" } : undefined;
  return { found, next: planned.length > filter.limit ? found.at(-1) : rest };
}

/**
 * Where the list of scheduled ones goes on after this delivery; undefined when it is none of them. A place without a
 * destination is where the look among the others has stopped.
 */
async function scheduledPosition(
  d1: D1Database,
  { destinationId, eventId }: DeliveryKey,
): Promise<Position | undefined> {
  if (destinationId === "") return undefined;
  const deliverAt = "SELECT deliver_at AS at FROM events WHERE id = ?1 AND deliver_at IS NOT NULL";
  const at = await d1.prepare(deliverAt).bind(eventId).first<number>("at");
  // Its event once more: there may be destinations of it left.
  return at === null ? undefined : { at, event: eventId - 1 };
}

async function scheduledIn(d1: D1Database, filter: DeliveryFilter, from?: Position): Promise<DeliveryPage> {
  const after = from ?? (await readCursor(d1, "scheduled_checked"));
  const looked = await scheduledAfter(d1, after, SCHEDULED);
  const ids = JSON.stringify(looked);
  const { before } = filter;
  const isAfter = before && or(ne(events.id, before.eventId), lt(destinationId, before.destinationId));
  const planned = await plans(drizzle(d1))
    .where(and(sql`${events.id} IN (SELECT value FROM json_each(${ids}))`, isAfter, isOf(filter), isQueued))
    .orderBy(events.deliverAt, events.id, desc(destinationId))
    .limit(filter.limit + 1);
  const found = planned.slice(0, filter.limit).map(foundOf);
  const last = looked.length < SCHEDULED ? undefined : looked.at(-1);
  // Below any destination: all of that event has been looked at.
  const rest = last === undefined ? undefined : { eventId: last, destinationId: " " };
  return { found, next: planned.length > filter.limit ? found.at(-1) : rest };
}

/** Beyond the first database no destinations are: what has become of them is looked up afterwards. */
const isQueued = and(
  isNull(deliveries.eventId),
  or(gt(events.id, beforeFirstOf(1)), and(isNotNull(destinations.id), isNull(destinations.deletedAt))),
);

function isOf(filter: DeliveryFilter): SQL | undefined {
  return and(
    filter.destinationId === undefined ? undefined : eq(destinationId, filter.destinationId),
    filter.tenant === undefined ? undefined : eq(events.tenant, filter.tenant),
    isOfEvent(filter),
  );
}

function isBefore(key: DeliveryKey | undefined): SQL | undefined {
  return key && sql`(${events.id}, planned.value) < (${key.eventId}, ${key.destinationId})`;
}

/** Every planned delivery of the events that a `where` selects. */
function plans(db: DrizzleD1Database) {
  return db
    .select({
      eventId: events.id,
      acceptedAt: events.acceptedAt,
      deliverAt: events.deliverAt,
      destinationId,
      row: getTableColumns(deliveries),
      destination: getTableColumns(destinations),
    })
    .from(events)
    .innerJoin(sql`json_each(${events.plan}) AS planned`, sql`true`)
    .leftJoin(deliveries, and(eq(deliveries.destinationId, destinationId), eq(deliveries.eventId, events.id)))
    .leftJoin(destinations, eq(destinations.id, destinationId))
    .$dynamic();
}

function foundOf({ eventId, destinationId: id, row, destination, ...times }: Planned): FoundDelivery {
  const key = { eventId, destinationId: id, destination };
  return row ? { ...key, kind: "stored", row } : { ...key, kind: "planned", ...times };
}

async function bounds(db: DrizzleD1Database): Promise<{ watermark: number; newest: number }> {
  const [[swept], [last]] = await db.batch([
    db.select({ watermark: sweeps.watermark }).from(sweeps).where(eq(sweeps.id, 1)),
    db.select({ newest: sql<number | null>`max(${events.id})` }).from(events),
  ]);
  return { watermark: swept?.watermark ?? 0, newest: last?.newest ?? 0 };
}
