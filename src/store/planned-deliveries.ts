/**
 * Events and deliveries found by the plans of bundles. Before its first outcome a delivery has neither a bit nor a row: its
 * bundle's plan is the only trace of it, and it is listed as queued.
 */

import { and, eq, getTableColumns, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import {
  bundleOf,
  type DeliveryKey,
  deliveryName,
  destinationsOf,
  detailsAt,
  type EventDetails,
  eventAt,
  indexesOf,
  indexOf,
  type RequestHeaders,
  runsInclude,
  type StoredHeader,
  ttlAt,
} from "../core/bundle.ts";
import { portionsOf } from "../core/portions.ts";
import { headerToShow, planIn } from "../core/stored-bundle.ts";
import { bundlesOf, homeOf, LISTED_BUNDLES, readContents, sharesOf } from "./bundles.ts";
import { type Databases, select } from "./databases.ts";
import { type DeliveryRow, loadedRow, type StoredRow } from "./delivery.ts";
import {
  type Cutoffs,
  type DeliveryFilter,
  eventConditionsOf,
  hasEnded,
  isEventWanted,
  oldAmong,
} from "./delivery-filter.ts";
import type { FoundDelivery } from "./delivery-list.ts";
import { type Destination, destinations } from "./destination.ts";
import { destinationsFor } from "./destinations.ts";
import { packedRows } from "./packs.ts";
import { bundles, deliveries, type PackRow, packs } from "./tables.ts";

export type StoredEvent = EventDetails &
  Readonly<{
    id: number;
    acceptedAt: number;
    deliverAt: number | null;
    /** The request headers that it was posted with. */
    headers: RequestHeaders | undefined;
    /** An envelope, or content as it was posted; null when it has been erased, or the stored bytes are damaged. */
    body: Uint8Array<ArrayBuffer> | null;
  }>;

type Times = Readonly<{ acceptedAt: number; deliverAt: number | null }>;

export type BundleRow = Times & Readonly<{ id: number; plan: string; header: string }>;

/** SQL: the columns of a `BundleRow`. */
export const BUNDLE_COLUMNS = "id, accepted_at AS acceptedAt, deliver_at AS deliverAt, plan, header";

/** An event with all its deliveries in the order of its plan; undefined if it does not exist or has expired. */
export async function findEvent(
  databases: Databases,
  eventId: number,
  tenant: string | undefined,
  over: Cutoffs,
): Promise<{ event: StoredEvent; deliveries: readonly FoundDelivery[] } | undefined> {
  const read = await readEvent(databases, eventId, tenant);
  if (!read) return undefined;
  const { home, row, header, event } = read;
  const ids = plannedDestinations(row, eventId);
  const found = await foundAt(databases, home, { ...row, header }, eventId, ids);
  return (await isOverWith(event, found, over)) ? undefined : { event, deliveries: found };
}

/** The destinations that the event is planned for; none if the plan cannot be read. */
function plannedDestinations({ plan }: Pick<BundleRow, "plan">, eventId: number): string[] {
  return destinationsOf(planIn(plan) ?? {}, indexOf(eventId));
}

/** Deliveries of an old event that are looked up at once. */
const LOOKED_UP = 100;

/**
 * An event without its deliveries; undefined if it does not exist or has expired. Deliveries of an old event are read until one is
 * found that has not ended.
 */
export async function findEventAlone(
  databases: Databases,
  eventId: number,
  tenant: string | undefined,
  over: Cutoffs,
): Promise<StoredEvent | undefined> {
  const read = await readEvent(databases, eventId, tenant);
  if (!read) return undefined;
  const { home, row, header, event } = read;
  if (!(await oldAmong(over, [event]))(event)) return event;
  const ids = plannedDestinations(row, eventId);
  for (const some of portionsOf(ids, LOOKED_UP)) {
    const found = await foundAt(databases, home, { ...row, header }, eventId, some);
    if (!haveEnded(found, over)) return event;
  }
  return undefined;
}

/**
 * An event with its bundle; undefined if it does not exist, or its bundle cannot be read. It may have expired, because callers
 * have already found one of its deliveries.
 */
export async function readEvent(databases: Databases, eventId: number, tenant: string | undefined) {
  const home = homeOf(databases, eventId);
  const row = await home
    ?.prepare(`SELECT ${BUNDLE_COLUMNS}, hex(body) AS body FROM bundles WHERE id = ?1`)
    .bind(bundleOf(eventId))
    .first<BundleRow & { body: string }>();
  if (!home || !row) return undefined;
  const header = headerToShow(row.header);
  const about = header && detailsAt(header, indexOf(eventId));
  if (!about || (tenant !== undefined && about.tenant !== tenant)) return undefined;
  const contents = about.isErased ? undefined : await readContents(row.body, header);
  const { body = null, headers } = contents?.[indexOf(eventId)] ?? {};
  const { acceptedAt, deliverAt } = row;
  const event: StoredEvent = { ...about, id: eventId, acceptedAt, deliverAt, headers, body };
  return { home, row, header, event };
}

async function isOverWith(
  event: Times & Readonly<{ tenant: string; type: string }>,
  found: readonly FoundDelivery[],
  over: Cutoffs,
): Promise<boolean> {
  return haveEnded(found, over) && (await oldAmong(over, [event]))(event);
}

function haveEnded(found: readonly FoundDelivery[], over: Cutoffs): boolean {
  return found.every((one) => one.kind === "stored" && hasEnded(one.row, over));
}

/** One delivery; undefined if no event has planned it, or its event has expired. */
export async function findDelivery(
  databases: Databases,
  { eventId, destinationId }: DeliveryKey,
  tenant: string | undefined,
  over: Cutoffs,
): Promise<FoundDelivery | undefined> {
  const home = homeOf(databases, eventId);
  const stored = home && (await bundleAndRow(home, eventId, destinationId));
  if (!stored) return undefined;
  const { acceptedAt, deliverAt, plan, header } = stored.bundle;
  const index = indexOf(eventId);
  const about = detailsAt(header, index);
  const isPlanned = runsInclude(plan[destinationId] ?? [], index);
  if (!about || !isPlanned || (tenant !== undefined && about.tenant !== tenant)) return undefined;
  const destination =
    stored.destination ??
    (await destinationsFor(databases.db, [{ destinationId }])).get(destinationId) ??
    null;
  const { ttlSeconds, isErased } = about;
  const key = { eventId, destinationId, acceptedAt, deliverAt, ttlSeconds };
  const found = { ...foundOf(key, deliveryIn(stored, eventId, destination), destination), isErased };
  const event = { ...about, acceptedAt, deliverAt };
  if (!(await isOverWith(event, [found], over))) return found;
  const all = destinationsOf(plan, index);
  const others = await foundAt(databases, home, { acceptedAt, deliverAt, header }, eventId, all);
  return (await isOverWith(event, others, over)) ? undefined : found;
}

/** All that is known of a delivery, in one statement: looking up one delivery is the most frequent read of the API. */
function bundleAndRow(home: D1Database, eventId: number, destinationId: string) {
  const { acceptedAt, deliverAt, plan, header } = bundles;
  return drizzle(home)
    .select({
      bundle: { acceptedAt, deliverAt, plan, header },
      row: getTableColumns(deliveries),
      pack: getTableColumns(packs),
      destination: getTableColumns(destinations),
    })
    .from(bundles)
    .leftJoin(deliveries, and(eq(deliveries.destinationId, destinationId), eq(deliveries.eventId, eventId)))
    .leftJoin(packs, and(eq(packs.destinationId, destinationId), eq(packs.bundleId, bundleOf(eventId))))
    .leftJoin(destinations, eq(destinations.id, destinationId))
    .where(eq(bundles.id, bundleOf(eventId)))
    .get();
}

/** The deliveries of one event to these destinations, in their order. */
async function foundAt(
  { db: first }: Databases,
  home: D1Database,
  bundle: Times & Readonly<{ header: StoredHeader }>,
  eventId: number,
  ids: readonly string[],
): Promise<readonly FoundDelivery[]> {
  const planned = ids.map((destinationId) => plannedAt(bundle, { eventId, destinationId }));
  const [targets, states] = await Promise.all([
    destinationsFor(first, planned),
    storedStatesOf(home, planned),
  ]);
  return planned.map((one) => foundWith(one, states, targets.get(one.destinationId)));
}

function plannedAt(
  { acceptedAt, deliverAt, header }: Times & Readonly<{ header: StoredHeader }>,
  { eventId, destinationId }: DeliveryKey,
): Planned {
  return { eventId, destinationId, acceptedAt, deliverAt, ttlSeconds: ttlAt(header, indexOf(eventId)) };
}

/** @param states results of `storedStatesOf` */
export function foundWith(
  planned: Planned,
  states: Awaited<ReturnType<typeof storedStatesOf>>,
  destination: Destination | null = null,
): FoundDelivery {
  const row = deliveryIn(states.get(deliveryName(planned)), planned.eventId, destination);
  return foundOf(planned, row, destination);
}

/**
 * One row and one pack for each delivery: whole packs of rows would be read by their bundles. Joined to the list, because
 * `IN (list)` would read three rows for each two.
 */
export async function storedStatesOf(db: D1Database, keys: readonly DeliveryKey[]) {
  const list = keys.map(({ eventId, destinationId }) => [eventId, destinationId, bundleOf(eventId)]);
  const named = sql`json_each(${JSON.stringify(list)}) AS named`;
  const eventId = sql<number>`named.value ->> 0`;
  const destinationId = sql<string>`named.value ->> 1`;
  const found = await drizzle(db)
    .select({ eventId, destinationId, row: getTableColumns(deliveries), pack: getTableColumns(packs) })
    .from(named)
    .leftJoin(deliveries, and(eq(deliveries.destinationId, destinationId), eq(deliveries.eventId, eventId)))
    .leftJoin(packs, and(eq(packs.destinationId, destinationId), eq(packs.bundleId, sql`named.value ->> 2`)));
  return new Map(found.map((one) => [deliveryName(one), one]));
}

/** Deliveries of an event: the first of its plan, and how many it has. */
type SomeDeliveries = Readonly<{ found: readonly FoundDelivery[]; count: number }>;

/** The first `most` deliveries of each event. Events that are over are not left out. */
export async function deliveriesOfEvents(
  databases: Databases,
  events: readonly number[],
  most: number,
): Promise<ReadonlyMap<number, SomeDeliveries>> {
  const parts = await Promise.all(
    [...sharesOf(databases, events, (event) => event)].map(async ([db, share]) => {
      const rows = new Map((await bundlesById(db, bundlesOf(share))).map((row) => [row.id, row]));
      const planned = share.flatMap((eventId) => {
        const row = rows.get(bundleOf(eventId));
        const header = row && headerToShow(row.header);
        if (row === undefined || header === undefined) return [];
        const ids = plannedDestinations(row, eventId);
        const first = ids
          .slice(0, most)
          .map((id) => plannedAt({ ...row, header }, { eventId, destinationId: id }));
        return [{ eventId, first, count: ids.length }];
      });
      return {
        planned,
        states: await storedStatesOf(
          db,
          planned.flatMap(({ first }) => first),
        ),
      };
    }),
  );
  const all = parts.flatMap(({ planned }) => planned.flatMap(({ first }) => first));
  const targets = await destinationsFor(databases.db, all);
  return new Map(
    parts.flatMap(({ planned, states }) =>
      planned.map(({ eventId, first, count }): [number, SomeDeliveries] => [
        eventId,
        { found: first.map((one) => foundWith(one, states, targets.get(one.destinationId))), count },
      ]),
    ),
  );
}

/** The delivery of its row, or of its bit in the pack; undefined when it has neither. */
function deliveryIn(
  { row, pack }: Readonly<{ row?: StoredRow | null; pack?: PackRow | null }> = {},
  eventId: number,
  destination: Destination | null,
): DeliveryRow | undefined {
  if (row) return loadedRow(row);
  return pack ? packedRows(pack, destination).find((one) => one.eventId === eventId) : undefined;
}

export function foundOf(
  { eventId, destinationId, ...times }: Planned,
  row: DeliveryRow | undefined,
  destination: Destination | null,
): FoundDelivery {
  const key = { eventId, destinationId, destination };
  return row ? { ...key, kind: "stored", row } : { ...key, kind: "planned", ...times };
}

export async function bundlesById(d1: D1Database, ids: readonly number[]): Promise<readonly BundleRow[]> {
  if (ids.length === 0) return [];
  const statement = `SELECT ${BUNDLE_COLUMNS} FROM ${LISTED_BUNDLES}`;
  return select(d1, statement, ids);
}

export type Planned = DeliveryKey & Times & Readonly<{ ttlSeconds: number | undefined }>;

/**
 * The planned deliveries of a bundle that pass the filter, by event and destination ascending; none of one that cannot be
 * read.
 */
export function plannedIn(row: BundleRow, { destinationId: only, ...filter }: DeliveryFilter): Planned[] {
  const { id, acceptedAt, deliverAt } = row;
  const header = headerToShow(row.header);
  if (header === undefined) return [];
  const asked = eventConditionsOf(filter);
  const all = Object.entries(planIn(row.plan) ?? {}).filter(
    ([destination]) => only === undefined || destination === only,
  );
  const wanted = new Set(
    [...new Set(all.flatMap(([, runs]) => indexesOf(runs)))].filter((index) =>
      isEventWanted(asked, { ...detailsAt(header, index), acceptedAt }),
    ),
  );
  return all
    .flatMap(([destinationId, runs]) =>
      indexesOf(runs)
        .filter((index) => wanted.has(index))
        .map((index) =>
          plannedAt({ acceptedAt, deliverAt, header }, { eventId: eventAt(id, index), destinationId }),
        ),
    )
    .sort((a, b) => a.eventId - b.eventId || (a.destinationId < b.destinationId ? -1 : 1));
}
