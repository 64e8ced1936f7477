/**
 * Reading the inbox of a polled destination (core/inbox.ts). An event that is due when it is accepted is in a pack with its delivered bits set
 * by the commit, so the packs of a destination are the log of a database: in the order of bundles, of which none becomes
 * visible after a later one. Packs of scheduled bundles are left out: their events come as late ones.
 *
 * A page reads as many packs as it may have events, and at most `STORED_BYTES` of bodies, whatever else is stored.
 */
import { type BundlePart, bundleOf, eventAt, indexOf, partsOf } from "../core/bundle.ts";
import { type InboxPosition, PAGE_BYTES, withNext } from "../core/inbox.ts";
import { HALF, indexesIn, type Mask } from "../core/pack.ts";
import { portionsOf } from "../core/portions.ts";
import type { BundleFault } from "../core/stored-bundle.ts";
import { allOf, type Databases, select } from "./databases.ts";
import { type LoadedDelivery, liveUntilOf, loadDeliveries } from "./deliveries.ts";
import { type Cutoffs, oldAmong } from "./delivery-filter.ts";
import { mergedByTime } from "./merge.ts";

/** Stored bytes of the bodies of the bundles that one page reads from a database: more than one row may have. */
const STORED_BYTES = 4 * 1024 * 1024;
/** The least packs that a page reads from a database, if it has as many: those of scheduled bundles are skipped. */
const LEAST_PACKS = 50;

/** An event of a bundle that was edited or damaged: nothing of it can be read until somebody mends it. */
export type UnreadableEvent = Readonly<{ event: number; bundle: number; fault: BundleFault }>;

/** The part of an inbox to read: at most `limit` events behind `start`, or all up to `end`. */
type InboxRange = Readonly<{
  start: InboxPosition;
  end?: InboxPosition;
  limit: number;
  /** The late events behind `start`, up to `end`. */
  late: readonly Readonly<{ position: number; event: number; placedAt: number }>[];
}>;

export type InboxRead = Readonly<{
  deliveries: readonly LoadedDelivery[];
  /** Events that are skipped because their stored bytes are damaged. */
  damaged: readonly number[];
  /** Events that are skipped because their bundles cannot be read. */
  unreadable: readonly UnreadableEvent[];
  /** Where the next page begins. */
  end: InboxPosition;
  /** Whether nothing was stored after it. */
  isLast: boolean;
}>;

type PackRow = Readonly<{
  bundle: number;
  delivered0: number;
  delivered1: number;
  size: number;
  acceptedAt: number;
  deliverAt: number | null;
}>;

/** A step through a log: an event, or none if only the position moves. `at`: since when it can be read, epoch ms. */
type Step = Readonly<{ event?: number; at: number; move: (position: InboxPosition) => InboxPosition }>;

const LOG = `
  SELECT p.bundle_id AS bundle, p.delivered0, p.delivered1, length(b.body) AS size, b.accepted_at AS acceptedAt,
    b.deliver_at AS deliverAt
  FROM (SELECT bundle_id, delivered0, delivered1 FROM packs
    WHERE destination_id = ?1 AND bundle_id >= ?2 AND bundle_id <= ?3 ORDER BY bundle_id LIMIT ?4) p
  CROSS JOIN bundles b ON b.id = p.bundle_id`;

/**
 * Reads on in the inbox of a destination. Events that are gone, erased or too old are passed. One that only later code can
 * read ends the page: that code is deployed again.
 */
export async function readInbox(
  databases: Databases,
  destination: string,
  range: InboxRange,
  over: Cutoffs,
): Promise<InboxRead> {
  const { start, end, limit, late } = range;
  const logs = await Promise.all(
    allOf(databases).map((db, database) => readLog(db, database, destination, range)),
  );
  const placed = late.map(({ position, event, placedAt }) => ({
    event,
    at: placedAt,
    move: (before: InboxPosition) => ({ ...before, late: position }),
  }));
  const steps = mergedByTime<Step>([placed, ...logs.map((log) => log.steps)], ({ at }) => at);
  const events = steps.flatMap(({ event }) => (event === undefined ? [] : [event]));
  const loaded = await loadEvents(
    databases,
    destination,
    end ? events : events.slice(0, limit),
    end !== undefined,
  );
  const isToBeRead = await toBeRead(over, loaded.deliveries.values());
  const taken: LoadedDelivery[] = [];
  const damaged: number[] = [];
  const unreadable: UnreadableEvent[] = [];
  let position = start;
  let bytes = 0;
  for (const { event, move } of steps) {
    if (event !== undefined) {
      const delivery = loaded.deliveries.get(event);
      const size = delivery?.event.body?.byteLength ?? 0;
      const isFull = !end && taken.length > 0 && bytes + size > PAGE_BYTES;
      if (isFull || !loaded.read.has(event))
        return { deliveries: taken, damaged, unreadable, end: position, isLast: false };
      const unread = loaded.unreadable.get(event);
      if (unread) unreadable.push(unread);
      else if (delivery?.event.body === null) damaged.push(event);
      else if (delivery && isToBeRead(delivery)) {
        taken.push(delivery);
        bytes += size;
      }
    }
    position = move(position);
  }
  const isLast = late.length < limit && logs.every((log) => log.isLast);
  return { deliveries: taken, damaged, unreadable, end: end ?? position, isLast };
}

type EventsBehind = Readonly<{
  events: number;
  /** Whether there are more than were counted. */
  isMore: boolean;
}>;

/** The newest packs of a destination in a database. */
const NEWEST = `
  SELECT p.bundle_id AS bundle, p.delivered0, p.delivered1, b.deliver_at AS deliverAt
  FROM (SELECT bundle_id, delivered0, delivered1 FROM packs
    WHERE destination_id = ?1 ORDER BY bundle_id DESC LIMIT ?2) p
  CROSS JOIN bundles b ON b.id = p.bundle_id`;

/**
 * How many events are behind each of the positions, without late ones.
 * @param packs the newest packs of each database that are read, for all of the positions
 */
export async function countBehind(
  databases: Databases,
  destination: string,
  positions: readonly InboxPosition[],
  packs: number,
): Promise<readonly EventsBehind[]> {
  if (positions.length === 0) return [];
  type Row = Omit<PackRow, "size" | "acceptedAt">;
  const read = await Promise.all(allOf(databases).map((db) => select<Row>(db, NEWEST, destination, packs)));
  return positions.map(({ next }) => {
    let events = 0;
    let isMore = false;
    for (const [database, results] of read.entries()) {
      const from = next[database] ?? 0;
      const oldest = results.at(-1);
      isMore ||= results.length === packs && oldest !== undefined && eventAt(oldest.bundle, 0) > from;
      for (const { bundle, deliverAt, delivered0, delivered1 } of results) {
        if (deliverAt !== null || bundle < bundleOf(from)) continue;
        const indexes = indexesIn([delivered0, delivered1]);
        events += indexes.filter((index) => eventAt(bundle, index) >= from).length;
      }
    }
    return { events, isMore };
  });
}

/** Packs of scheduled bundles that are skipped to find an unread event. */
const PASSED_PACKS = 1_000;
/** Places in one statement. */
const PLACES = 5_000;

/**
 * When the first unread event behind each place was accepted, in its turn. Two rows for most places, because the statement ends
 * with the first event.
 */
const OLDEST_UNREAD = `
  SELECT (
    SELECT b.accepted_at FROM (
      SELECT bundle_id, delivered0, delivered1 FROM packs
      WHERE destination_id = s.value ->> 0 AND bundle_id >= s.value ->> 1
      ORDER BY bundle_id LIMIT ${PASSED_PACKS}) p
    CROSS JOIN bundles b ON b.id = p.bundle_id
    WHERE b.deliver_at IS NULL AND CASE
      WHEN p.bundle_id > s.value ->> 1 THEN p.delivered0 | p.delivered1
      WHEN s.value ->> 2 < ${HALF} THEN (p.delivered0 >> (s.value ->> 2)) | p.delivered1
      ELSE p.delivered1 >> (s.value ->> 2) - ${HALF} END <> 0
    LIMIT 1) AS since
  FROM json_each(?1) s ORDER BY s.key`;

/** When the oldest unread event of each place was accepted, epoch ms, without late ones; null where there is none. */
export async function oldestUnread(
  databases: Databases,
  places: readonly Readonly<{ destination: string; position: InboxPosition }>[],
): Promise<readonly (number | null)[]> {
  const oldest: (number | null)[] = [];
  for (const some of portionsOf(places, PLACES)) {
    const read = await Promise.all(
      allOf(databases).map((db, database) => {
        const starts = some.map(({ destination, position: { next } }) => {
          const event = next[database] ?? 0;
          return [destination, bundleOf(event), indexOf(event)];
        });
        return select<{ since: number | null }>(db, OLDEST_UNREAD, starts);
      }),
    );
    for (const i of some.keys()) {
      const found = read.flatMap((rows) => rows[i]?.since ?? []);
      oldest.push(found.length === 0 ? null : Math.min(...found));
    }
  }
  return oldest;
}

/** Reads events that a consumer has returned. Undefined if only later code can read some of them. */
export async function readReturned(
  databases: Databases,
  destination: string,
  events: readonly number[],
  over: Cutoffs,
): Promise<Pick<InboxRead, "deliveries" | "unreadable"> | undefined> {
  const { deliveries, unreadable, read } = await loadEvents(databases, destination, events, true);
  if (!events.every((event) => read.has(event))) return undefined;
  const isToBeRead = await toBeRead(over, deliveries.values());
  const found = events.flatMap((event) => {
    const delivery = deliveries.get(event);
    return delivery && isToBeRead(delivery) ? [delivery] : [];
  });
  return { deliveries: found, unreadable: [...unreadable.values()] };
}

/** An old event is hidden at once, whatever keeps its row. */
async function toBeRead(over: Cutoffs, deliveries: Iterable<LoadedDelivery>) {
  const isOld = await oldAmong(
    over,
    Array.from(deliveries, ({ event }) => event),
  );
  return ({ event, row }: LoadedDelivery): boolean => {
    const isAlive = (liveUntilOf(event) ?? Number.POSITIVE_INFINITY) > over.now && !isOld(event);
    return isAlive && event.body !== undefined && event.body !== null && row?.state !== "cancelled";
  };
}

type Log = Readonly<{ steps: readonly Step[]; isLast: boolean }>;

/** The next steps in a database's log. */
async function readLog(
  db: D1Database,
  database: number,
  destination: string,
  { start, end, limit }: InboxRange,
): Promise<Log> {
  const from = start.next[database] ?? 0;
  const until = end ? (end.next[database] ?? 0) : Number.MAX_SAFE_INTEGER;
  if (until <= from) return { steps: [], isLast: true };
  const packs = Math.max(limit, LEAST_PACKS);
  const steps: Step[] = [];
  let bytes = 0;
  for (let first = bundleOf(from); ; ) {
    const results = await select<PackRow>(db, LOG, destination, first, bundleOf(until - 1), packs);
    for (const { bundle, size, acceptedAt, deliverAt, ...masks } of results) {
      bytes += size;
      if (!end && bytes > STORED_BYTES) return { steps, isLast: false };
      const mask: Mask = [masks.delivered0, masks.delivered1];
      const events = deliverAt === null ? indexesIn(mask).map((index) => eventAt(bundle, index)) : [];
      for (const event of events) {
        if (event < from || event >= until) continue;
        steps.push({ event, at: acceptedAt, move: (before) => withNext(before, database, event + 1) });
      }
      steps.push({ at: acceptedAt, move: (before) => withNext(before, database, eventAt(bundle + 1, 0)) });
      first = bundle + 1;
    }
    const isLast = results.length < packs;
    // Packs of scheduled bundles may have come into a range since it was handed out.
    if (!end || isLast) return { steps, isLast };
  }
}

/**
 * `read`: the events without those that are left to later code or to the next page.
 * @param all whether everything is loaded, however much it is: it has been handed out as one page before
 */
async function loadEvents(
  databases: Databases,
  destination: string,
  events: readonly number[],
  all: boolean,
) {
  const deliveries = new Map<number, LoadedDelivery>();
  const left = new Set<number>();
  const faults = new Map<number, BundleFault>();
  let parts: readonly BundlePart[] = partsOf(
    events.map((eventId) => ({ eventId, destinationId: destination })),
  );
  do {
    const loaded = await loadDeliveries(databases, parts, { withEnded: true });
    for (const delivery of loaded.deliveries) deliveries.set(delivery.event.id, delivery);
    for (const { bundle, fault } of loaded.unknown) {
      if (fault === "version") left.add(bundle);
      else faults.set(bundle, fault);
    }
    if (!all) for (const { bundle } of loaded.rest) left.add(bundle);
    parts = loaded.rest;
  } while (all && parts.length > 0);
  const unreadable = events.flatMap((event): [number, UnreadableEvent][] => {
    const bundle = bundleOf(event);
    const fault = faults.get(bundle);
    return fault ? [[event, { event, bundle, fault }]] : [];
  });
  const read = new Set(events.filter((event) => !left.has(bundleOf(event))));
  return { deliveries, unreadable: new Map(unreadable), read };
}
