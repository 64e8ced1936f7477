/** What waits in D1: found for a drain, for the sweep and for people. How it ends: waiting-ends.ts. */
import type { Destination } from "./destination-settings.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { destinations } from "./schema.ts";

const DESTINATION = "SELECT * FROM destinations WHERE id = ?1";

const BOTH_ENDS = `
  SELECT event_id, attempts FROM (SELECT event_id, attempts FROM deliveries
    WHERE destination_id = ?1 AND state = 'waiting' ORDER BY event_id LIMIT ?2)
  UNION
  SELECT event_id, attempts FROM (SELECT event_id, attempts FROM deliveries
    WHERE destination_id = ?1 AND state = 'waiting' ORDER BY event_id DESC LIMIT ?2)
  ORDER BY event_id`;

export type Waiting = Readonly<{ destination: Destination | undefined; events: readonly number[] }>;

/**
 * The destination, and the events that wait for it from both ends, the oldest and the newest in turn: so
 * the oldest cannot starve, and what has just been turned away does not queue behind a million others. Of
 * these, what has been attempted least goes first: an outage's probes are spread over many deliveries instead of
 * using up the attempts, and lengthening the backoff, of the oldest.
 */
export async function waitingFor(db: D1Database, destination: string, perEnd: number): Promise<Waiting> {
  const [places, ids] = await db.batch<RawRow>([
    db.prepare(DESTINATION).bind(destination),
    db.prepare(BOTH_ENDS).bind(destination, perEnd),
  ]);
  const row = places?.results[0];
  const found = (ids?.results ?? []) as unknown as readonly { event_id: number; attempts: number }[];
  const events = inTurn(found).toSorted((a, b) => a.attempts - b.attempts);
  return { destination: row && modelOf(destinations, row), events: events.map((raw) => raw.event_id) };
}

function inTurn<T>(ascending: readonly T[]): T[] {
  const half = Math.ceil(ascending.length / 2);
  const newest = ascending.slice(half).reverse();
  return ascending.slice(0, half).flatMap((oldest, i) => [oldest, ...newest.slice(i, i + 1)]);
}

/** One index step for each destination that has something waiting, however much it is. */
const DESTINATIONS = `
  WITH RECURSIVE found (id) AS (
    SELECT min(destination_id) FROM deliveries WHERE state = 'waiting' AND destination_id > ?1
    UNION ALL
    SELECT (SELECT min(destination_id) FROM deliveries WHERE state = 'waiting' AND destination_id > found.id)
    FROM found WHERE found.id IS NOT NULL
  )
  SELECT d.id, d.status, d.deleted_at FROM found JOIN destinations d ON d.id = found.id LIMIT ?2`;

export type WaitingDestination = Readonly<{ id: string; paused: boolean; deleted: boolean }>;

/** Up to `limit` destinations for which something waits, from the id `after` on. */
export async function waitingDestinations(
  db: D1Database,
  after: string,
  limit: number,
): Promise<WaitingDestination[]> {
  const { results } = await db.prepare(DESTINATIONS).bind(after, limit).all<RawRow>();
  return results.map((row) => ({
    id: row.id as string,
    paused: row.status === "paused",
    deleted: row.deleted_at !== null,
  }));
}

const BY_REASON = `
  SELECT because, count(*) AS count FROM (
    SELECT because FROM deliveries WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2)
  GROUP BY because ORDER BY because`;

/** How many of the first `limit` waiting deliveries were turned away for which reason. */
export async function waitingByReason(
  db: D1Database,
  destination: string,
  limit: number,
): Promise<Record<string, number>> {
  const { results } = await db
    .prepare(BY_REASON)
    .bind(destination, limit)
    .all<{ because: string; count: number }>();
  return Object.fromEntries(results.map(({ because, count }) => [because, count]));
}

/** How many deliveries wait for the destination; `limit` stands for more. */
export async function countWaiting(db: D1Database, destination: string, limit: number): Promise<number> {
  const count = `SELECT count(*) AS n FROM (
    SELECT 1 FROM deliveries WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2)`;
  return (await db.prepare(count).bind(destination, limit).first<number>("n")) ?? 0;
}
