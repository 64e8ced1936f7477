/** What the sweep looks for in D1, each in one bounded statement, and what it remembers. */

import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { DeliveryMessage } from "../delivery/message.ts";
import type { Position } from "./cursors.ts";
import type { Destination } from "./destination-settings.ts";
import { destinations, type SweepPart } from "./schema.ts";
import type { DeliveryRow } from "./work.ts";

/** The sweep's own row. */
const ID = 1;

const WATERMARK = `SELECT watermark FROM sweeps WHERE id = ${ID}`;

/** The event row up to which every plan has been checked. */
export async function readWatermark(db: D1Database): Promise<number> {
  return (await db.prepare(WATERMARK).first<number>("watermark")) ?? 0;
}

const MOVE = `
  INSERT INTO sweeps (id, watermark, heartbeat_at) VALUES (${ID}, ?1, 0)
  ON CONFLICT (id) DO UPDATE SET watermark = max(watermark, excluded.watermark)`;

/** Everything up to this event row has been checked, and what was lost of it is waiting. */
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
export type LostDelivery = DeliveryMessage & Readonly<{ acceptedAt: number; deliverAt: number | null }>;

/**
 * The next events after the watermark, up to the first that was accepted too recently to be lost, and as many as
 * have no more than ?6 planned deliveries together, or one that has more by itself. Those that are scheduled are
 * passed, unless the walk in order of time has been where they are.
 */
const LOST = `
  WITH page AS (
      SELECT *, sum(json_array_length(plan)) OVER (ORDER BY id) AS planned
      FROM (SELECT id, accepted_at, deliver_at, plan FROM events WHERE id > ?1 ORDER BY id LIMIT ?3)),
    ends AS (SELECT count(*) AS events, max(id) AS last,
      min(iif(accepted_at > ?2, id, NULL)) AS young,
      min(iif(planned > ?6 AND planned > json_array_length(plan), id, NULL)) AS heavy FROM page),
    upto AS (SELECT coalesce(min(coalesce(young, heavy), coalesce(heavy, young)) - 1, last, ?1) AS id,
      coalesce(heavy < young, heavy IS NOT NULL OR (young IS NULL AND events = ?3)) AS more FROM ends)
  SELECT upto.id AS upto, upto.more, lost.* FROM upto LEFT JOIN (
    SELECT page.id AS event, p.value AS destination, accepted_at AS acceptedAt, deliver_at AS deliverAt
    FROM page JOIN json_each(page.plan) p
    WHERE (page.deliver_at IS NULL OR (page.deliver_at, page.id) <= (?4, ?5))
      AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.destination_id = p.value AND d.event_id = page.id)
  ) lost ON lost.event <= upto.id`;

export type LostPage = Readonly<{
  /** Every plan up to this event row has been checked. */
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

/** What one statement looks at: so many events, and planned deliveries of them together. */
export type Most = Readonly<{ events: number; deliveries: number }>;

/** Checks some events after the row `after`, as far as the reach goes. */
export async function findLost(
  db: D1Database,
  after: number,
  { horizon, scheduledUpto: { at, event } }: Reach,
  most: Most,
): Promise<LostPage> {
  type Row = Omit<LostDelivery, "event"> & { upto: number; more: number; event: number | null };
  const find = db.prepare(LOST).bind(after, horizon, most.events, at, event, most.deliveries);
  const { results } = await find.all<Row>();
  const [first] = results;
  return { upto: first?.upto ?? after, more: Boolean(first?.more), lost: lostOf(results) };
}

/** The lost deliveries of rows that may be without any. */
export function lostOf(
  rows: readonly (Omit<LostDelivery, "event"> & { event: number | null })[],
): readonly LostDelivery[] {
  return rows.flatMap(({ event, destination, acceptedAt, deliverAt }) =>
    event === null ? [] : [{ event, destination, acceptedAt, deliverAt }],
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

/** What has got a row meanwhile is not lost, and keeps it. */
const RECOVER = `
  INSERT INTO deliveries (destination_id, event_id, state, because, next_attempt_at, give_up_at)
  SELECT value ->> 'destinationId', value ->> 'eventId', value ->> 'state', value ->> 'because',
    value ->> 'nextAttemptAt', value ->> 'giveUpAt'
  FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING`;

/** Rows that one statement writes: a parameter may have 2 MB. */
const WRITTEN = 2_000;

/** Stores rows of deliveries that have none, in the database of their events. */
export async function insertRecovered(db: D1Database, rows: readonly DeliveryRow[]): Promise<void> {
  for (let from = 0; from < rows.length; from += WRITTEN) {
    const some = rows.slice(from, from + WRITTEN);
    const values = some.map(({ destinationId, eventId, state, because, nextAttemptAt, giveUpAt }) => ({
      destinationId,
      eventId,
      state,
      because,
      nextAttemptAt,
      giveUpAt,
    }));
    await db.prepare(RECOVER).bind(JSON.stringify(values)).run();
  }
}

const OVERDUE = `
  UPDATE deliveries SET state = 'waiting', because = 'recovered', next_attempt_at = ?2
  WHERE (destination_id, event_id) IN (
    SELECT destination_id, event_id FROM deliveries
    WHERE state = 'retrying' AND next_attempt_at <= ?1 ORDER BY next_attempt_at LIMIT ?3)
  RETURNING destination_id AS destination`;

/** Lets up to `limit` retries wait that were due by `horizon` and were not brought; returns the destination of each. */
export async function recoverOverdue(
  db: D1Database,
  horizon: number,
  now: number,
  limit: number,
): Promise<readonly string[]> {
  const { results } = await db.prepare(OVERDUE).bind(horizon, now, limit).all<{ destination: string }>();
  return results.map(({ destination }) => destination);
}
