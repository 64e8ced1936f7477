/** What the sweep looks for in D1, each in one bounded statement, and what it remembers. */
import type { DeliveryMessage } from "../delivery/message.ts";
import type { Position } from "./cursors.ts";

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

/** When a sweep last got through, epoch ms; null before the first. */
export async function readHeartbeat(db: D1Database): Promise<number | null> {
  const beaten = `SELECT heartbeat_at FROM sweeps WHERE id = ${ID} AND heartbeat_at > 0`;
  return db.prepare(beaten).first<number>("heartbeat_at");
}

const BEAT = `
  INSERT INTO sweeps (id, watermark, heartbeat_at) VALUES (${ID}, 0, ?1)
  ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at`;

/** A sweep that began at `now` has got through. */
export async function beat(db: D1Database, now: number): Promise<void> {
  await db.prepare(BEAT).bind(now).run();
}

/**
 * The next events after the watermark, up to the first that was accepted too recently to be lost. Those that
 * are scheduled are passed, unless the walk in order of time has been where they are.
 */
const LOST = `
  WITH page AS (SELECT id, accepted_at, deliver_at, plan FROM events WHERE id > ?1 ORDER BY id LIMIT ?3),
    upto AS (SELECT coalesce(
      (SELECT min(id) - 1 FROM page WHERE accepted_at > ?2), (SELECT max(id) FROM page), ?1) AS id)
  SELECT upto.id AS upto, lost.event, lost.destination FROM upto LEFT JOIN (
    SELECT page.id AS event, p.value AS destination FROM page JOIN json_each(page.plan) p
    WHERE (page.deliver_at IS NULL OR (page.deliver_at, page.id) <= (?4, ?5))
      AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.destination_id = p.value AND d.event_id = page.id)
  ) lost ON lost.event <= upto.id`;

export type LostPage = Readonly<{
  /** Every plan up to this event row has been checked. */
  upto: number;
  /** Planned deliveries without an outcome. */
  lost: readonly DeliveryMessage[];
}>;

type Reach = Readonly<{
  /** Accepted by this, epoch ms. */
  horizon: number;
  /** How far scheduled events have been checked in order of their times. */
  scheduledUpto: Position;
}>;

/** Checks up to `limit` events after the row `after`, as far as the reach goes. */
export async function findLost(
  db: D1Database,
  after: number,
  { horizon, scheduledUpto: { at, event } }: Reach,
  limit: number,
): Promise<LostPage> {
  type Row = { upto: number; event: number | null; destination: string };
  const { results } = await db.prepare(LOST).bind(after, horizon, limit, at, event).all<Row>();
  const lost = results.flatMap(({ event, destination }) => (event === null ? [] : [{ event, destination }]));
  return { upto: results[0]?.upto ?? after, lost };
}

const OVERDUE = `
  UPDATE deliveries SET state = 'waiting', because = 'recovered', next_attempt_at = ?2
  WHERE (destination_id, event_id) IN (
    SELECT destination_id, event_id FROM deliveries
    WHERE state = 'retrying' AND next_attempt_at <= ?1 ORDER BY next_attempt_at LIMIT ?3)`;

/** Lets up to `limit` retries wait that were due by `horizon` and were not brought; returns how many. */
export async function recoverOverdue(
  db: D1Database,
  horizon: number,
  now: number,
  limit: number,
): Promise<number> {
  const { meta } = await db.prepare(OVERDUE).bind(horizon, now, limit).run();
  return meta.changes;
}
