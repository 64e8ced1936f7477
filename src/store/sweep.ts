/**
 * The sweep's reads and writes: its lease and progress, lost and overdue deliveries, scheduled bundles, cursors.
 *
 * Raw SQL, because each search is one bounded statement: a page of bundles is compared with its packs and rows inside of
 * SQLite, which saves a query for each bundle and returns only the deliveries that are lost.
 */

import { type DeliveryKey, deliveryName, eventAt, indexesOf, type Plan, ttlAt } from "../core/bundle.ts";
import { standsBehind } from "../core/order.ts";
import { type BundleFault, ttlsIn, type UnreadableBundle } from "../core/stored-bundle.ts";
import { parsedOr } from "./columns.ts";
import { findPlans } from "./commit.ts";
import { repeatable, select } from "./databases.ts";
import type { DeliveryRecord } from "./delivery.ts";
import { linePlaces, placesFrom } from "./lines.ts";
import { knownOf, packedStateOf, settingBits } from "./packs.ts";
import { recording } from "./record.ts";
import type { SweepPart } from "./schema.ts";
import { anyOf, countIn, countInRuns, faultOfBundle, inFlightOf, isInBundle } from "./sql.ts";
import { untilHorizon } from "./time-ranges.ts";
import { nextWaiting } from "./waiting.ts";

/** The id of the only row of `sweeps`. */
const ID = 1;

// ── Progress and lease ──

export const WATERMARK = `SELECT watermark FROM sweeps WHERE id = ${ID}`;

/** The id of the bundle up to which every plan has been checked. */
export async function readWatermark(db: D1Database): Promise<number> {
  return (await db.prepare(WATERMARK).first<number>("watermark")) ?? 0;
}

const MOVE_WATERMARK = repeatable(`
  INSERT INTO sweeps (id, watermark, heartbeat_at) VALUES (${ID}, ?1, 0)
  ON CONFLICT (id) DO UPDATE SET watermark = max(watermark, excluded.watermark)`);

/** Records that every plan up to this bundle has been checked, and that lost deliveries of it wait. */
export async function moveWatermark(db: D1Database, watermark: number): Promise<void> {
  await db.prepare(MOVE_WATERMARK).bind(watermark).run();
}

export type SweepParts = Readonly<Record<string, SweepPart>>;

/** A sweep's claim to be the only one. `page` counts its invocations; that of the cron is 0. */
export type SweepLease = Readonly<{ lease: string; page: number }>;

const BEGIN = `
  INSERT INTO sweeps (id, heartbeat_at, lease, leased_until) VALUES (${ID}, 0, ?1, ?2)
  ON CONFLICT (id) DO UPDATE SET lease = excluded.lease, leased_until = excluded.leased_until, page = 0
  WHERE leased_until <= ?3 RETURNING parts`;

/** Begins a sweep with a lease until `until` (epoch ms); undefined while another one has a lease. */
export async function beginSweep(
  db: D1Database,
  lease: string,
  until: number,
  now: number,
): Promise<SweepParts | undefined> {
  return partsFrom(await db.prepare(BEGIN).bind(lease, until, now).first<string>("parts"));
}

const BEGIN_PAGE = `
  UPDATE sweeps SET page = ?2, leased_until = ?3 WHERE id = ${ID} AND lease = ?1 AND page = ?2 - 1 RETURNING parts`;

/** Begins a page of a sweep; undefined when that page, or another sweep, has begun already. */
export async function beginSweepPage(
  db: D1Database,
  { lease, page }: SweepLease,
  until: number,
): Promise<SweepParts | undefined> {
  return partsFrom(await db.prepare(BEGIN_PAGE).bind(lease, page, until).first<string>("parts"));
}

const SAVE = repeatable(`
  UPDATE sweeps SET parts = ?3, heartbeat_at = max(heartbeat_at, ?4), leased_until = ?5
  WHERE id = ${ID} AND lease = ?1 AND page = ?2`);

type Saved = Readonly<{
  parts: SweepParts;
  /** When the part that has been stuck for longest last made progress, epoch ms. */
  heartbeatAt: number;
  /** Epoch ms; a time in the past ends the lease. */
  leasedUntil: number;
}>;

/** Saves a sweep's progress; false when its lease has gone to another one. */
export async function saveSweep(
  db: D1Database,
  { lease, page }: SweepLease,
  { parts, heartbeatAt, leasedUntil }: Saved,
): Promise<boolean> {
  const save = db.prepare(SAVE).bind(lease, page, JSON.stringify(parts), heartbeatAt, leasedUntil);
  return (await save.run()).meta.changes > 0;
}

/** An operator may have edited them: malformed parts are left out. */
function partsFrom(stored: string | null): SweepParts | undefined {
  if (stored === null) return undefined;
  const parts = Object.entries(parsedOr<Record<string, SweepPart>>(stored, {}));
  return Object.fromEntries(parts.filter(([, part]) => isPart(part)));
}

function isPart(part: Partial<SweepPart> | null): part is SweepPart {
  return Number.isFinite(part?.at) && Number.isFinite(part?.failures) && Array.isArray(part?.cursor);
}

export const HEARTBEAT = `SELECT heartbeat_at FROM sweeps WHERE id = ${ID} AND heartbeat_at > 0`;

/** When the part that has been stuck for longest last made progress, epoch ms; null before the first sweep. */
export async function readHeartbeat(db: D1Database): Promise<number | null> {
  return db.prepare(HEARTBEAT).first<number>("heartbeat_at");
}

// ── Lost deliveries ──

/** A planned delivery with neither a bit nor a row, and what its age limit follows from. */
export type LostDelivery = DeliveryKey &
  Readonly<{ acceptedAt: number; deliverAt: number | null; ttlSeconds?: number | undefined }>;

/** The most bundles that one statement reads, and planned deliveries of all of them. */
type Most = Readonly<{ bundles: number; deliveries: number }>;

/**
 * As many of the bundles as have no more planned deliveries than that together, but at least the first. Counted here,
 * because a window function would make three rows read of one.
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

const FAULT = faultOfBundle("plan", "header");

const NEXT = `
  SELECT id, accepted_at AS acceptedAt, planned, ${FAULT} AS fault FROM bundles WHERE id > ?1 ORDER BY id LIMIT ?2`;

/**
 * SQL: pairs of bundle and destination with more planned deliveries than bits and rows: counted, not looked up. None of
 * bundles that cannot be read.
 */
const LOST_PARTS = `
  SELECT b.id AS bundle, p.key AS destination, p.value AS runs,
    b.accepted_at AS acceptedAt, b.deliver_at AS deliverAt, b.header -> '$.ttls' AS ttls, ${linePlaces("b", "json_array(p.key)")} AS places
  FROM bundles b JOIN json_each(iif(${faultOfBundle("b.plan", "b.header")} IS NULL, b.plan, '{}')) p
  WHERE ${countInRuns("iif(p.type = 'array', p.value, '[]')")} >
    coalesce((SELECT ${countIn(anyOf())} FROM packs WHERE destination_id = p.key AND bundle_id = b.id), 0)
    + (SELECT count(*) FROM deliveries d WHERE d.destination_id = p.key AND ${isInBundle("d.event_id", "b.id")})`;

/** Scheduled bundles are passed over, unless the walk in order of their times has passed them already. */
const LOST = `
  ${LOST_PARTS} AND b.id > ?1 AND b.id <= ?2 AND (b.deliver_at IS NULL OR (b.deliver_at, b.id) <= (?3, ?4))`;

type LostPage = Readonly<{
  /** Every plan up to this bundle has been checked. */
  upto: number;
  /** Whether more bundles can already be checked. */
  more: boolean;
  lost: readonly LostDelivery[];
  /** Bundles that were passed over. */
  unreadable: readonly UnreadableBundle[];
}>;

type Reach = Readonly<{
  /** Checks only bundles that were accepted by then, epoch ms. */
  horizon: number;
  /** How far scheduled bundles have been checked in order of their times. */
  scheduledUpto: Position;
}>;

/** Checks the next bundles after `after`, up to the first that was accepted too recently for its deliveries to be lost. */
export async function findLost(
  db: D1Database,
  after: number,
  { horizon, scheduledUpto: { at, row } }: Reach,
  most: Most,
): Promise<LostPage> {
  type Row = { id: number; acceptedAt: number; planned: number; fault: BundleFault | null };
  const old = untilHorizon(await select<Row>(db, NEXT, after, most.bundles), horizon);
  const looked = fitting(old, most.deliveries);
  const upto = looked.at(-1)?.id ?? after;
  const more = looked.length < old.length || old.length === most.bundles;
  const found = await lostAmong(db, looked, () => select(db, LOST, after, upto, at, row));
  return { upto, more, ...found };
}

type LostAmong = Pick<LostPage, "lost" | "unreadable">;

/** The lost deliveries of the bundles that were read. @param read the parts of those that have planned some */
async function lostAmong(
  db: D1Database,
  looked: readonly Readonly<{ id: number; planned: number; fault: BundleFault | null }>[],
  read: () => Promise<readonly LostPart[]>,
): Promise<LostAmong> {
  const unreadable = faultsIn(looked);
  if (looked.every(({ planned }) => planned === 0)) return { lost: [], unreadable };
  const found = await lostOf(db, await read());
  return { lost: found.lost, unreadable: [...unreadable, ...found.unreadable] };
}

function faultsIn(
  rows: readonly Readonly<{ id: number; fault: BundleFault | null }>[],
): readonly UnreadableBundle[] {
  return rows.flatMap(({ id, fault }) => (fault === null ? [] : [{ bundle: id, fault }]));
}

/** A bundle's planned deliveries to a destination, some of which are lost. */
type LostPart = Readonly<{
  bundle: number;
  destination: string;
  runs: string;
  acceptedAt: number;
  deliverAt: number | null;
  /** As JSON; null when no event of the bundle has a time to live. */
  ttls: string | null;
  /** See `linePlaces`. */
  places: string | null;
}>;

/** The deliveries of the parts that have neither a bit nor a row, and stand behind none; none of bundles whose times to live cannot be read. */
async function lostOf(db: D1Database, parts: readonly LostPart[]): Promise<LostAmong> {
  if (parts.length === 0) return { lost: [], unreadable: [] };
  const known = await knownOf(
    db,
    parts.map(({ bundle, destination }) => [bundle, destination]),
  );
  const places = placesFrom(parts.map((part) => part.places));
  const unreadable = new Set<number>();
  const lost = parts.flatMap(({ bundle, destination, runs, acceptedAt, deliverAt, ...part }) => {
    const ttls = ttlsIn(part.ttls ?? "[]");
    if (ttls === undefined) {
      unreadable.add(bundle);
      return [];
    }
    return indexesOf(JSON.parse(runs)).flatMap((index) => {
      const key = { eventId: eventAt(bundle, index), destinationId: destination };
      const name = deliveryName(key);
      if (known.has(name) || standsBehind({ place: places.get(name) })) return [];
      return [{ ...key, acceptedAt, deliverAt, ttlSeconds: ttlAt({ ttls }, index) }];
    });
  });
  return { lost, unreadable: [...unreadable].map((bundle) => ({ bundle, fault: "header" })) };
}

/**
 * Sets the waiting bits of lost deliveries in the database of their events, or inserts the rows of those that fit no pack.
 * One that has a bit or a row by now keeps it.
 */
export async function markWaiting(db: D1Database, rows: readonly DeliveryRecord[]): Promise<void> {
  const { plain = [], own = [] } = Object.groupBy(rows, (row) => (packedStateOf(row) ? "plain" : "own"));
  for (const statement of settingBits(db, plain)) await statement.run();
  if (own.length > 0) await db.batch(recording(db, own));
}

// ── What there is to do ──

/** Bundles behind a walk in order of time that are due by then. */
const isBehind = (walk: Walk, until: string) => {
  const at = `coalesce((SELECT at FROM cursors WHERE name = '${walk}'), 0)`;
  const row = `coalesce((SELECT row_id FROM cursors WHERE name = '${walk}'), 0)`;
  const behind = "SELECT 1 FROM bundles INDEXED BY bundles_scheduled WHERE";
  return `(EXISTS (${behind} deliver_at = ${at} AND id > ${row} AND deliver_at <= ${until})
    OR EXISTS (${behind} deliver_at > ${at} AND deliver_at <= ${until}))`;
};

const WORK = `
  SELECT ${isBehind("scheduled", "?1")} AS scheduled,
    (${isBehind("scheduled_checked", "?2")} OR coalesce((SELECT accepted_at <= ?2 FROM bundles
      WHERE id > coalesce((${WATERMARK}), 0) ORDER BY id LIMIT 1), 0)) AS lost,
    (EXISTS (SELECT 1 FROM deliveries WHERE state = 'retrying' AND next_attempt_at <= ?2)
      OR EXISTS (SELECT 1 FROM packs WHERE recover_at <= ?2)) AS overdue,
    ${nextWaiting("''")} IS NOT NULL AS expired, EXISTS (SELECT 1 FROM lines) AS lined`;

/** Which parts of the sweep have something to do in a database; `lined`: deliveries stand in lines there. */
export type SweepWork = Readonly<Record<(typeof WORKS)[number], boolean>>;

const WORKS = ["scheduled", "lost", "overdue", "expired", "lined"] as const;

/**
 * Finds out in one statement of a few seeks whether there is work: most databases have none in most minutes.
 * @param until scheduled bundles due by then are to be enqueued, epoch ms
 * @param horizon deliveries without an outcome that were due by then are lost
 */
export async function sweepWork(db: D1Database, until: number, horizon: number): Promise<SweepWork> {
  const found = await db.prepare(WORK).bind(until, horizon).first<Record<keyof SweepWork, number>>();
  return Object.fromEntries(WORKS.map((work) => [work, Boolean(found?.[work])])) as SweepWork;
}

// ── Overdue deliveries ──

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
 * Sets up to `limit` rows, and the deliveries in flight of as many packs, to wait: retries that were due by `horizon` and
 * came with no message, and attempts whose leases had ended by then. Returns their destinations, and whether there may
 * be more.
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

// ── Cursors ──

/** The last row looked at: its time, for walks in order of time, and its rowid. */
export type Position = Readonly<{ at: number; row: number }>;

/**
 * Walks that continue from one sweep to the next: `scheduled` enqueues bundles that fall due, `scheduled_checked`
 * checks that they were delivered, `retention` removes old bundles, `tombstones` deleted destinations in order of
 * deletion, and `alerts` looks at the gates of destinations, and `archive` looks for exchanges of events that are gone.
 */
export type Walk =
  | "scheduled"
  | "scheduled_checked"
  | "retention"
  | "tombstones"
  | "archive"
  | "alerts"
  | KeptWalk;

/** The walks that erase content (features/retention/content-job.ts): one for each number of days that is set for a tenant or a type. */
export type KeptWalk = "payload_free" | `kept_${number}` | "kept_again" | "kept_logs";

const READ_CURSOR = "SELECT at, row_id AS row FROM cursors WHERE name = ?1";

/** The walk continues after this position. */
export async function readCursor(db: D1Database, walk: Walk): Promise<Position> {
  return (await db.prepare(READ_CURSOR).bind(walk).first<Position>()) ?? { at: 0, row: 0 };
}

const READ_CURSORS = `
  SELECT name, at, row_id AS row FROM cursors WHERE name IN (SELECT value FROM json_each(?1))`;

/** Where each of the walks continues, in one query. */
export async function readCursors<W extends Walk>(
  db: D1Database,
  walks: readonly W[],
): Promise<ReadonlyMap<W, Position>> {
  type Row = Position & Readonly<{ name: W }>;
  const rows = await select<Row>(db, READ_CURSORS, walks);
  return new Map(rows.map(({ name, at, row }) => [name, { at, row }]));
}

const MOVE_CURSOR = repeatable(`
  INSERT INTO cursors (name, at, row_id) VALUES (?1, ?2, ?3)
  ON CONFLICT (name) DO UPDATE SET at = excluded.at, row_id = excluded.row_id`);

export async function moveCursor(db: D1Database, walk: Walk, { at, row }: Position): Promise<void> {
  await db.prepare(MOVE_CURSOR).bind(walk, at, row).run();
}

// ── Scheduled bundles, in order of their times ──

type Row = Readonly<{ id: number; deliverAt: number; planned: number; fault: BundleFault | null }>;

/**
 * Many bundles may be due at the same millisecond, so a position is a time and an id: first the rest of that millisecond,
 * then later ones. Two indexed queries in order, because sorting in SQLite would cost rows read.
 */
const NEXT_SCHEDULED = `
  SELECT * FROM (SELECT id, deliver_at AS deliverAt, planned, ${FAULT} AS fault FROM bundles INDEXED BY bundles_scheduled
    WHERE deliver_at = ?1 AND id > ?2 AND deliver_at <= ?3 ORDER BY id LIMIT ?4)
  UNION ALL
  SELECT * FROM (SELECT id, deliver_at, planned, ${FAULT} FROM bundles INDEXED BY bundles_scheduled
    WHERE deliver_at > ?1 AND deliver_at <= ?3 ORDER BY deliver_at, id LIMIT ?4)`;

async function nextRows(db: D1Database, after: Position, until: number, limit: number): Promise<Row[]> {
  const rows = await select<Row>(db, NEXT_SCHEDULED, after.at, after.row, until, limit);
  return rows.toSorted((a, b) => a.deliverAt - b.deliverAt || a.id - b.id).slice(0, limit);
}

type ScheduledPage = Readonly<{
  bundles: readonly Readonly<{ id: number; plan: Plan; deliverAt: number }>[];
  /** Bundles that were passed over. */
  unreadable: readonly UnreadableBundle[];
  /** The last one looked at; `after` when there was none. */
  upto: Position;
  /** Whether more are due. */
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
  const readable = looked.filter(({ fault }) => fault === null);
  const plans = await findPlans(
    db,
    readable.map(({ id }) => id),
  );
  const byId = new Map(plans.map(({ id, plan }) => [id, plan]));
  return {
    ...page,
    bundles: readable.map(({ id, deliverAt }) => ({ id, deliverAt, plan: byId.get(id) ?? {} })),
    unreadable: faultsIn(looked),
  };
}

async function nextPage(db: D1Database, after: Position, until: number, most: Most) {
  const found = await nextRows(db, after, until, most.bundles);
  const looked = fitting(found, most.deliveries);
  const last = looked.at(-1);
  const upto = last ? { at: last.deliverAt, row: last.id } : after;
  return { looked, upto, more: looked.length < found.length || found.length === most.bundles };
}

/** The next `limit` bundles after `after`, whenever they are due, in the order of their times. */
export async function scheduledAfter(db: D1Database, after: Position, limit: number): Promise<number[]> {
  return (await nextRows(db, after, Number.MAX_SAFE_INTEGER, limit)).map(({ id }) => id);
}

const LOST_SCHEDULED = `${LOST_PARTS} AND b.id IN (SELECT value FROM json_each(?1))`;

/** Checks the next bundles after `after` that were due by `horizon` (epoch ms). */
export async function findLostScheduled(
  db: D1Database,
  after: Position,
  horizon: number,
  most: Most,
): Promise<Omit<LostPage, "upto"> & Readonly<{ upto: Position }>> {
  const { looked, ...page } = await nextPage(db, after, horizon, most);
  const ids = looked.map(({ id }) => id);
  return { ...page, ...(await lostAmong(db, looked, () => select(db, LOST_SCHEDULED, ids))) };
}
