/** What the sweep looks for in D1, each in one bounded statement, and what it remembers. */
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { type DeliveryName, eventAt, indexesOf, type Plan } from "../core/bundle.ts";
import { countOf, findPlans, isInBundle } from "./bundles.ts";
import type { Destination } from "./destinations.ts";
import { anyOf, countIn, inFlightOf, knownOf, settingBits } from "./packs.ts";
import { type DeliveryRow, destinations, type SweepPart } from "./schema.ts";

/** The sweep's own row. */
const ID = 1;

const WATERMARK = `SELECT watermark FROM sweeps WHERE id = ${ID}`;

/** The bundle up to which every plan has been checked. */
export async function readWatermark(db: D1Database): Promise<number> {
  return (await db.prepare(WATERMARK).first<number>("watermark")) ?? 0;
}

const MOVE = `
  INSERT INTO sweeps (id, watermark, heartbeat_at) VALUES (${ID}, ?1, 0)
  ON CONFLICT (id) DO UPDATE SET watermark = max(watermark, excluded.watermark)`;

/** Everything up to this bundle has been checked, and what was lost of it is waiting. */
export async function moveWatermark(db: D1Database, watermark: number): Promise<void> {
  await db.prepare(MOVE).bind(watermark).run();
}

/** By the names of the parts. */
export type SweepParts = Readonly<Record<string, SweepPart>>;

/** The sweep at work: `page` counts the invocations of one sweep, the tick is 0. */
export type SweepLease = Readonly<{ lease: string; page: number }>;

const TAKE = `
  INSERT INTO sweeps (id, heartbeat_at, lease, leased_until) VALUES (${ID}, 0, ?1, ?2)
  ON CONFLICT (id) DO UPDATE SET lease = excluded.lease, leased_until = excluded.leased_until, page = 0
  WHERE leased_until <= ?3 RETURNING parts`;

/** Begins a sweep that nobody else begins until `until` (epoch ms); undefined while another one is at work. */
export async function beginSweep(
  db: D1Database,
  lease: string,
  until: number,
  now: number,
): Promise<SweepParts | undefined> {
  return partsFrom(await db.prepare(TAKE).bind(lease, until, now).first<string>("parts"));
}

const TURN = `
  UPDATE sweeps SET page = ?2, leased_until = ?3 WHERE id = ${ID} AND lease = ?1 AND page = ?2 - 1 RETURNING parts`;

/** Begins that page of a sweep; undefined when it has begun before, or another sweep has. */
export async function beginSweepPage(
  db: D1Database,
  { lease, page }: SweepLease,
  until: number,
): Promise<SweepParts | undefined> {
  return partsFrom(await db.prepare(TURN).bind(lease, page, until).first<string>("parts"));
}

const SAVE = `
  UPDATE sweeps SET parts = ?3, heartbeat_at = max(heartbeat_at, ?4), leased_until = ?5
  WHERE id = ${ID} AND lease = ?1 AND page = ?2`;

type Saved = Readonly<{
  parts: SweepParts;
  /** When that part last got on that has been without progress for longest, epoch ms. */
  heartbeatAt: number;
  /** Epoch ms; the past lets the sweep go. */
  leasedUntil: number;
}>;

/** Keeps how far the sweep has got; whether it is still the one at work. */
export async function saveSweep(
  db: D1Database,
  { lease, page }: SweepLease,
  { parts, heartbeatAt, leasedUntil }: Saved,
): Promise<boolean> {
  const save = db.prepare(SAVE).bind(lease, page, JSON.stringify(parts), heartbeatAt, leasedUntil);
  return (await save.run()).meta.changes > 0;
}

/** A person may have edited them: what is no part of a sweep is left out. */
export function partsFrom(stored: string | null): SweepParts | undefined {
  if (stored === null) return undefined;
  try {
    const parts = Object.entries(JSON.parse(stored) as Record<string, SweepPart>);
    return Object.fromEntries(parts.filter(([, part]) => isPart(part)));
  } catch {
    return {};
  }
}

function isPart(part: Partial<SweepPart> | null): part is SweepPart {
  return Number.isFinite(part?.at) && Number.isFinite(part?.failures) && Array.isArray(part?.cursor);
}

/** When that part last got on that has been without progress for longest, epoch ms; null before the first sweep. */
export async function readHeartbeat(db: D1Database): Promise<number | null> {
  const beaten = `SELECT heartbeat_at FROM sweeps WHERE id = ${ID} AND heartbeat_at > 0`;
  return db.prepare(beaten).first<number>("heartbeat_at");
}

/** A planned delivery without an outcome, and the times that its age limit counts from. */
export type LostDelivery = DeliveryName & Readonly<{ acceptedAt: number; deliverAt: number | null }>;

/** What one statement looks at: so many bundles, and planned deliveries of them together. */
type Most = Readonly<{ bundles: number; deliveries: number }>;

/**
 * As many of the bundles, the first at least, as have no more planned deliveries together. Counted here, because a
 * window function makes three rows read of one.
 */
export function fitting<T extends Readonly<{ planned: number }>>(
  bundles: readonly T[],
  deliveries: number,
): readonly T[] {
  let together = 0;
  const beyond = bundles.findIndex(({ planned }, i) => {
    together += planned;
    return i > 0 && together > deliveries;
  });
  return beyond < 0 ? bundles : bundles.slice(0, beyond);
}

const NEXT = `
  SELECT id, accepted_at AS acceptedAt, planned FROM bundles WHERE id > ?1 ORDER BY id LIMIT ?2`;

/** SQL: what a bundle `b` has planned for a destination and has neither bits nor rows of. */
const LOST_PARTS = `
  SELECT b.id AS bundle, p.key AS destination, p.value AS runs,
    b.accepted_at AS acceptedAt, b.deliver_at AS deliverAt
  FROM bundles b JOIN json_each(b.plan) p
  WHERE ${countOf("p.value")} >
    coalesce((SELECT ${countIn(anyOf())} FROM packs WHERE destination_id = p.key AND bundle_id = b.id), 0)
    + (SELECT count(*) FROM deliveries d WHERE d.destination_id = p.key AND ${isInBundle("d.event_id", "b.id")})`;

/** Those that are scheduled are passed, unless the walk in order of time has been where they are. */
const LOST = `
  ${LOST_PARTS} AND b.id > ?1 AND b.id <= ?2 AND (b.deliver_at IS NULL OR (b.deliver_at, b.id) <= (?3, ?4))`;

export type LostPage = Readonly<{
  /** Every plan up to this bundle has been checked. */
  upto: number;
  /** Whether there is something to check after it already. */
  more: boolean;
  lost: readonly LostDelivery[];
}>;

type Reach = Readonly<{
  /** Accepted by this, epoch ms. */
  horizon: number;
  /** How far scheduled events have been checked in order of their times. */
  scheduledUpto: Position;
}>;

/** Checks some bundles after `after`, up to the first that was accepted too recently to be lost. */
export async function findLost(
  db: D1Database,
  after: number,
  { horizon, scheduledUpto: { at, event } }: Reach,
  most: Most,
): Promise<LostPage> {
  type Row = { id: number; acceptedAt: number; planned: number };
  const { results } = await db.prepare(NEXT).bind(after, most.bundles).all<Row>();
  const young = results.findIndex(({ acceptedAt }) => acceptedAt > horizon);
  const old = young < 0 ? results : results.slice(0, young);
  const looked = fitting(old, most.deliveries);
  const upto = looked.at(-1)?.id ?? after;
  const more = looked.length < old.length || old.length === most.bundles;
  if (looked.every(({ planned }) => planned === 0)) return { upto, more, lost: [] };
  const parts = await db.prepare(LOST).bind(after, upto, at, event).all<LostPart>();
  return { upto, more, lost: await lostOf(db, parts.results) };
}

/** What a bundle has planned for a destination, of which something is missing. */
type LostPart = Readonly<{
  bundle: number;
  destination: string;
  runs: string;
  acceptedAt: number;
  deliverAt: number | null;
}>;

/** The deliveries of the parts that have neither a bit nor a row. */
async function lostOf(db: D1Database, parts: readonly LostPart[]): Promise<readonly LostDelivery[]> {
  if (parts.length === 0) return [];
  const known = await knownOf(
    db,
    parts.map(({ bundle, destination }) => [bundle, destination]),
  );
  return parts.flatMap(({ bundle, destination, runs, acceptedAt, deliverAt }) =>
    indexesOf(JSON.parse(runs))
      .map((index) => eventAt(bundle, index))
      .filter((event) => !known.has(`${event} ${destination}`))
      .map((event) => ({ event, destination, acceptedAt, deliverAt })),
  );
}

/** Those of the destinations that have a row, deleted ones too. */
export async function destinationsNamed(
  first: D1Database,
  ids: Iterable<string>,
): Promise<readonly Destination[]> {
  const list = JSON.stringify([...ids]);
  return drizzle(first)
    .select()
    .from(destinations)
    .where(sql`${destinations.id} IN (SELECT value FROM json_each(${list}))`);
}

/** Deliveries that one statement writes: a parameter may have 2 MB. */
const WRITTEN = 10_000;

/** Lets wait what has neither a bit nor a row, in the database of its events; what has got one meanwhile keeps it. */
export async function letWait(db: D1Database, rows: readonly DeliveryRow[]): Promise<void> {
  for (let from = 0; from < rows.length; from += WRITTEN)
    await settingBits(db, rows.slice(from, from + WRITTEN)).run();
}

const OVERDUE = `
  UPDATE deliveries SET state = 'waiting', reason = 'recovered', next_attempt_at = ?2
  WHERE (destination_id, event_id) IN (
    SELECT destination_id, event_id FROM deliveries
    WHERE state = 'retrying' AND next_attempt_at <= ?1 ORDER BY next_attempt_at LIMIT ?3)
  RETURNING destination_id AS destination, 1 AS count`;

const COUNT_OVERDUE = `
  SELECT destination_id AS destination, ${countIn(inFlightOf())} AS count FROM packs
  WHERE recover_at <= ?1 ORDER BY recover_at LIMIT ?2`;

const OVERDUE_PACKS = `
  UPDATE packs SET ${overdueSet(0)}, ${overdueSet(1)}, reason = 'recovered', next_attempt_at = ?2, recover_at = NULL
  WHERE (destination_id, bundle_id) IN (
    SELECT destination_id, bundle_id FROM packs WHERE recover_at <= ?1 ORDER BY recover_at LIMIT ?3)`;

function overdueSet(half: 0 | 1): string {
  return `waiting${half} = waiting${half} | in_flight${half}, in_flight${half} = 0`;
}

/**
 * Lets wait up to `limit` rows, and as many packs, of what was due by `horizon` and was not brought, or was in flight
 * under leases that have ended by then; returns their destinations, and whether there may be more.
 */
export async function recoverOverdue(
  db: D1Database,
  horizon: number,
  now: number,
  limit: number,
): Promise<Readonly<{ destinations: readonly string[]; recovered: number; more: boolean }>> {
  type Recovered = { destination: string; count: number };
  const results = await db.batch<Recovered>([
    db.prepare(OVERDUE).bind(horizon, now, limit),
    db.prepare(COUNT_OVERDUE).bind(horizon, limit),
    db.prepare(OVERDUE_PACKS).bind(horizon, now, limit),
  ]);
  const recovered = results.flatMap(({ results }) => results);
  return {
    destinations: recovered.map(({ destination }) => destination),
    recovered: recovered.reduce((sum, { count }) => sum + count, 0),
    more: results.some(({ results }) => results.length === limit),
  };
}

// §§ How far a walk over the events has got, from one sweep to the next.

/** The last event looked at: its time, where the walk is in order of times, and its row. */
export type Position = Readonly<{ at: number; event: number }>;

/**
 * Which walk: `scheduled` sends for what falls due, `scheduled_checked` looks whether it arrived, `retention`
 * removes what is old, and `tombstones` deleted destinations in the order in which they were deleted.
 */
export type Walk = "scheduled" | "scheduled_checked" | "retention" | "tombstones";

const READ = "SELECT at, event_id AS event FROM cursors WHERE name = ?1";

/** Where the walk goes on: after this. */
export async function readCursor(db: D1Database, walk: Walk): Promise<Position> {
  return (await db.prepare(READ).bind(walk).first<Position>()) ?? { at: 0, event: 0 };
}

const MOVE_CURSOR = `
  INSERT INTO cursors (name, at, event_id) VALUES (?1, ?2, ?3)
  ON CONFLICT (name) DO UPDATE SET at = excluded.at, event_id = excluded.event_id`;

export async function moveCursor(db: D1Database, walk: Walk, { at, event }: Position): Promise<void> {
  await db.prepare(MOVE_CURSOR).bind(walk, at, event).run();
}

// §§ Scheduled bundles in the order of their times, by an index that holds nothing else. Many may share one
// instant: so a position is a time and a number, and what follows it is the rest of its instant, then later ones.

type Row = Readonly<{ id: number; deliverAt: number; planned: number }>;

/** The rest of the instant, and what comes after it; in order, because to have them sorted costs rows read. */
const NEXT_SCHEDULED = `
  SELECT * FROM (SELECT id, deliver_at AS deliverAt, planned FROM bundles INDEXED BY bundles_scheduled
    WHERE deliver_at = ?1 AND id > ?2 AND deliver_at <= ?3 ORDER BY id LIMIT ?4)
  UNION ALL
  SELECT * FROM (SELECT id, deliver_at, planned FROM bundles INDEXED BY bundles_scheduled
    WHERE deliver_at > ?1 AND deliver_at <= ?3 ORDER BY deliver_at, id LIMIT ?4)`;

async function nextRows(db: D1Database, after: Position, until: number, limit: number): Promise<Row[]> {
  const { results } = await db.prepare(NEXT_SCHEDULED).bind(after.at, after.event, until, limit).all<Row>();
  return results.toSorted((a, b) => a.deliverAt - b.deliverAt || a.id - b.id).slice(0, limit);
}

export type ScheduledPage = Readonly<{
  bundles: readonly Readonly<{ id: number; plan: Plan; deliverAt: number }>[];
  /** The last one looked at; `after` when there was none. */
  upto: Position;
  /** Whether there are more after them. */
  more: boolean;
}>;

/** The next bundles after `after` that are due by `until` (epoch ms). */
export async function nextScheduled(
  db: D1Database,
  after: Position,
  until: number,
  most: Most,
): Promise<ScheduledPage> {
  const { looked, ...page } = await nextPage(db, after, until, most);
  const plans = await findPlans(
    db,
    looked.map(({ id }) => id),
  );
  const byId = new Map(plans.map(({ id, plan }) => [id, plan]));
  return {
    ...page,
    bundles: looked.map(({ id, deliverAt }) => ({ id, deliverAt, plan: byId.get(id) ?? {} })),
  };
}

async function nextPage(db: D1Database, after: Position, until: number, most: Most) {
  const found = await nextRows(db, after, until, most.bundles);
  const looked = fitting(found, most.deliveries);
  const last = looked.at(-1);
  const upto = last ? { at: last.deliverAt, event: last.id } : after;
  return { looked, upto, more: looked.length < found.length || found.length === most.bundles };
}

/** The next `limit` bundles after `after`, whenever they are due, in the order of their times. */
export async function scheduledAfter(db: D1Database, after: Position, limit: number): Promise<number[]> {
  return (await nextRows(db, after, Number.MAX_SAFE_INTEGER, limit)).map(({ id }) => id);
}

const LOST_SCHEDULED = `${LOST_PARTS} AND b.id IN (SELECT value FROM json_each(?1))`;

export type LostScheduled = Readonly<{
  /** Every plan up to this position has been checked; `after` when there was none. */
  upto: Position;
  /** Whether there is something to check after it already. */
  more: boolean;
  lost: readonly LostDelivery[];
}>;

/** Checks some bundles after `after` that were due by `horizon` (epoch ms). */
export async function findLostScheduled(
  db: D1Database,
  after: Position,
  horizon: number,
  most: Most,
): Promise<LostScheduled> {
  const { looked, ...page } = await nextPage(db, after, horizon, most);
  if (looked.every(({ planned }) => planned === 0)) return { ...page, lost: [] };
  const ids = JSON.stringify(looked.map(({ id }) => id));
  const { results } = await db.prepare(LOST_SCHEDULED).bind(ids).all<LostPart>();
  return { ...page, lost: await lostOf(db, results) };
}
