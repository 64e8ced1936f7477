/**
 * Removing what is old: an event and its deliveries together, in one transaction, once all of them have ended.
 *
 * A row of a delivery without its event cannot arise. Whoever writes one has loaded the event before, a few
 * minutes ago at the most; and an event is removed only when the last of its deliveries ended longer ago than
 * that. The newest event always stays, so that SQLite gives no number twice.
 */
import type { Position } from "./cursors.ts";
import { allOf, type Databases } from "./shards.ts";

/** Longer than an invocation lives: whoever saw a delivery before its end is gone by then. */
const QUIET_MS = 60 * 60_000;

/** An event that has been kept for long enough, and the destinations that it was planned for. */
export type OldEvent = Readonly<{ event: number; plan: readonly string[] }>;

export type OldPage = Readonly<{
  events: readonly OldEvent[];
  /** The last event that was looked at; `after` when there was none. */
  upto: number;
  /** Whether everything after it is younger, or there is nothing. */
  isLast: boolean;
}>;

type Row = Readonly<{ event: number; acceptedAt: number; dueAt: number; plan: string }>;

/** Nothing but the first row is read while that is too young. */
const PAGE = `
  SELECT id AS event, accepted_at AS acceptedAt, coalesce(deliver_at, accepted_at) AS dueAt, plan
  FROM events WHERE id > ?1 ORDER BY id LIMIT coalesce(
    (SELECT iif(accepted_at <= ?2, ?3, 0) FROM events WHERE id > ?1 ORDER BY id LIMIT 1), 0)`;

type Bounds = Readonly<{
  /** Accepted by this, and due by this if they were scheduled: epoch ms. */
  horizon: number;
  events: number;
  /** Planned deliveries of them together, unless the first alone has more. */
  deliveries: number;
}>;

/** The next old events after a number. Those that were accepted before, and are due only after, the horizon are passed. */
export async function oldEvents(db: D1Database, after: number, bounds: Bounds): Promise<OldPage> {
  const { results } = await db.prepare(PAGE).bind(after, bounds.horizon, bounds.events).all<Row>();
  const young = results.findIndex(({ acceptedAt }) => acceptedAt > bounds.horizon);
  const old = young < 0 ? results : results.slice(0, young);
  const fitting = within(old, bounds.deliveries);
  return {
    events: fitting
      .filter(({ dueAt }) => dueAt <= bounds.horizon)
      .map(({ event, plan }) => ({ event, plan })),
    upto: fitting.at(-1)?.event ?? after,
    isLast: fitting.length === old.length && old.length < bounds.events,
  };
}

/** As many of them, the first at least, as have no more deliveries together. */
function within(rows: readonly Row[], deliveries: number) {
  const fitting: (OldEvent & { dueAt: number })[] = [];
  let room = deliveries;
  for (const { event, dueAt, plan: text } of rows) {
    const plan: string[] = JSON.parse(text);
    room -= plan.length;
    if (room < 0 && fitting.length > 0) break;
    fitting.push({ event, dueAt, plan });
  }
  return fitting;
}

/** What is known of destinations where they are stored: in the first database. */
export type Standings = Readonly<{
  /** Their rows are gone: nothing can be delivered to them, and nothing end there. */
  gone: readonly string[];
  /**
   * Replays under way, and the times that they are about: they keep what they may yet come to. Those of deleted
   * destinations come to nothing.
   */
  replays: readonly Readonly<{ destination: string; since: number; until: number }>[];
}>;

const STANDINGS = `
  SELECT p.value AS destination, d.id IS NULL AS gone, r.since, r.until
  FROM json_each(?1) p LEFT JOIN destinations d ON d.id = p.value
    LEFT JOIN replays r ON r.destination_id = d.id AND d.deleted_at IS NULL AND r.state IN ('running', 'paused')
  WHERE d.id IS NULL OR r.id IS NOT NULL`;

export async function standingsOf(first: D1Database, events: readonly OldEvent[]): Promise<Standings> {
  const ids = [...new Set(events.flatMap(({ plan }) => plan))];
  type Row = { destination: string; gone: number; since: number | null; until: number | null };
  const { results } = await first.prepare(STANDINGS).bind(JSON.stringify(ids)).all<Row>();
  return {
    gone: results.flatMap(({ destination, gone }) => (gone ? [destination] : [])),
    replays: results.flatMap(({ destination, since, until }) =>
      since === null || until === null ? [] : [{ destination, since, until }],
    ),
  };
}

/** Looked at again here, whatever was seen before: a delivery may have been made to wait again. */
const REMOVE = `
  DELETE FROM events WHERE id IN (SELECT value ->> 'event' FROM json_each(?1))
    AND id < (SELECT max(id) FROM events)
    AND NOT EXISTS (
      SELECT 1 FROM json_each(events.plan) p
      WHERE p.value NOT IN (SELECT value FROM json_each(?2)) AND NOT EXISTS (
        SELECT 1 FROM deliveries d WHERE d.destination_id = p.value AND d.event_id = events.id
          AND d.state IN ('delivered', 'dead', 'cancelled') AND coalesce(d.ended_at, 0) <= ?3))
    AND NOT EXISTS (
      SELECT 1 FROM json_each(?4) r JOIN json_each(events.plan) p ON p.value = r.value ->> 'destination'
      WHERE events.accepted_at >= r.value ->> 'since' AND events.accepted_at < r.value ->> 'until')`;

const REMOVE_DELIVERIES = `
  DELETE FROM deliveries WHERE (destination_id, event_id) IN (
    SELECT p.value, e.value ->> 'event' FROM json_each(?1) e JOIN json_each(e.value -> 'plan') p
    WHERE NOT EXISTS (SELECT 1 FROM events WHERE id = e.value ->> 'event'))`;

export type Removed = Readonly<{ events: number; deliveries: number }>;

/** Removes those of the events whose deliveries have all ended, and with them the deliveries. */
export async function removeEnded(
  db: D1Database,
  events: readonly OldEvent[],
  { gone, replays }: Standings,
  now: number,
): Promise<Removed> {
  const list = JSON.stringify(events);
  const [removed, swept] = await db.batch([
    db.prepare(REMOVE).bind(list, JSON.stringify(gone), now - QUIET_MS, JSON.stringify(replays)),
    db.prepare(REMOVE_DELIVERIES).bind(list),
  ]);
  return { events: removed?.meta.changes ?? 0, deliveries: swept?.meta.changes ?? 0 };
}

/** A deleted destination, and its place in the order in which they were deleted. */
export type Tombstone = Readonly<{ id: string; at: number; row: number }>;

const TOMBSTONES = `
  SELECT id, deleted_at AS at, rowid AS row FROM destinations INDEXED BY destinations_deleted
  WHERE deleted_at IS NOT NULL AND (deleted_at, rowid) > (?1, ?2) AND deleted_at <= ?3
  ORDER BY deleted_at, rowid LIMIT ?4`;

/** The next `limit` destinations after that place that were deleted by then (epoch ms). */
export async function oldTombstones(
  first: D1Database,
  { at, event: row }: Position,
  deletedBy: number,
  limit: number,
): Promise<readonly Tombstone[]> {
  return (await first.prepare(TOMBSTONES).bind(at, row, deletedBy, limit).all<Tombstone>()).results;
}

const REFERRED = `
  SELECT value AS id FROM json_each(?1)
  WHERE EXISTS (SELECT 1 FROM deliveries WHERE destination_id = value)`;

/** Those of the destinations that have no delivery left in any database. */
export async function withoutDeliveries(
  databases: Databases,
  ids: readonly string[],
): Promise<readonly string[]> {
  const list = JSON.stringify(ids);
  const answers = await Promise.all(
    allOf(databases).map((db) => db.prepare(REFERRED).bind(list).all<{ id: string }>()),
  );
  const referred = new Set(answers.flatMap(({ results }) => results.map(({ id }) => id)));
  return ids.filter((id) => !referred.has(id));
}

const REMOVE_TOMBSTONES = `
  DELETE FROM destinations WHERE id IN (SELECT value FROM json_each(?1)) AND deleted_at IS NOT NULL`;

export async function removeTombstones(first: D1Database, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await first.prepare(REMOVE_TOMBSTONES).bind(JSON.stringify(ids)).run();
}
