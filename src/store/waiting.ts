/** What waits in D1: found for a drain, for the sweep and for people. How it ends: waiting-ends.ts. */
import type { Destination } from "./destination-settings.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { destinations } from "./schema.ts";
import { addedUp, allOf, type Databases, sumOver } from "./shards.ts";

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
 * using up the attempts, and lengthening the backoff, of the oldest. Databases take turns too.
 */
export async function waitingFor(
  databases: Databases,
  destination: string,
  perEnd: number,
): Promise<Waiting> {
  const { db: first, further = [] } = databases;
  const ends = (db: D1Database) => db.prepare(BOTH_ENDS).bind(destination, perEnd);
  const [[places, ends0], ...others] = await Promise.all([
    first.batch<RawRow>([first.prepare(DESTINATION).bind(destination), ends(first)]),
    ...further.map((db) => ends(db).all<RawRow>()),
  ]);
  const found = [ends0, ...others].map((ids) => inTurn((ids?.results ?? []) as unknown as readonly End[]));
  const events = interleaved(found).slice(0, 2 * perEnd);
  const leastFirst = events.toSorted((a, b) => a.attempts - b.attempts);
  const row = places?.results[0];
  return { destination: row && modelOf(destinations, row), events: leastFirst.map((end) => end.event_id) };
}

type End = Readonly<{ event_id: number; attempts: number }>;

function inTurn<T>(ascending: readonly T[]): T[] {
  const half = Math.ceil(ascending.length / 2);
  return interleaved([ascending.slice(0, half), ascending.slice(half).reverse()]);
}

/** The first of each list, then the second of each, and so on. */
function interleaved<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat();
}

/** One index step for each destination that has something waiting, however much it is. */
const FOUND = `
  WITH RECURSIVE found (id) AS (
    SELECT min(destination_id) FROM deliveries WHERE state = 'waiting' AND destination_id > ?1
    UNION ALL
    SELECT (SELECT min(destination_id) FROM deliveries WHERE state = 'waiting' AND destination_id > found.id)
    FROM found WHERE found.id IS NOT NULL LIMIT ?2
  )`;

const DESTINATION_IDS = `${FOUND} SELECT id FROM found WHERE id IS NOT NULL`;

/** Together with those that were found in other databases. */
const DESTINATIONS = `${FOUND}
  SELECT d.id, d.tenant, d.status, d.deleted_at FROM (SELECT id FROM found UNION SELECT value FROM json_each(?3)) f
  JOIN destinations d ON d.id = f.id ORDER BY d.id LIMIT ?2`;

export type WaitingDestination = Readonly<{ id: string; tenant: string; paused: boolean; deleted: boolean }>;

/** Up to `limit` destinations for which something waits, from the id `after` on. */
export async function waitingDestinations(
  { db, further = [] }: Databases,
  after: string,
  limit: number,
): Promise<WaitingDestination[]> {
  const others = await Promise.all(
    further.map((one) => one.prepare(DESTINATION_IDS).bind(after, limit).all<{ id: string }>()),
  );
  const ids = [...new Set(others.flatMap(({ results }) => results.map(({ id }) => id)))];
  const { results } = await db.prepare(DESTINATIONS).bind(after, limit, JSON.stringify(ids)).all<RawRow>();
  return results.map((row) => ({
    id: row.id as string,
    tenant: row.tenant as string,
    paused: row.status === "paused",
    deleted: row.deleted_at !== null,
  }));
}

const BY_REASON = `
  SELECT because, count(*) AS count FROM (
    SELECT because FROM deliveries WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2)
  GROUP BY because ORDER BY because`;

/** How many of the first `limit` waiting deliveries of each database were turned away for which reason. */
export async function waitingByReason(
  databases: Databases,
  destination: string,
  limit: number,
): Promise<Record<string, number>> {
  const counted = await Promise.all(
    allOf(databases).map((db) =>
      db.prepare(BY_REASON).bind(destination, limit).all<{ because: string; count: number }>(),
    ),
  );
  const counts = counted.flatMap(({ results }) => results);
  return Object.fromEntries(addedUp(counts.map(({ because, count }) => [because, count])));
}

const COUNT = `
  SELECT count(*) AS n FROM (
    SELECT 1 FROM deliveries WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2)`;

/** How many deliveries wait for the destination; `limit` stands for more. */
export async function countWaiting(
  databases: Databases,
  destination: string,
  limit: number,
): Promise<number> {
  const count = (db: D1Database) => db.prepare(COUNT).bind(destination, limit).first<number>("n");
  return Math.min(limit, await sumOver(databases, async (db) => (await count(db)) ?? 0));
}
