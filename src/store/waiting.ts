/** What waits in D1: found for the sweep and for people. For a drain: waiting-look.ts. How it ends: waiting-ends.ts. */
import type { RawRow } from "./row-model.ts";
import { addedUp, allOf, type Databases, sumOver } from "./shards.ts";

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
  CROSS JOIN destinations d ON d.id = f.id ORDER BY d.id LIMIT ?2`;

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

/** The index is named, because the planner would rather walk all that the destination ever had. */
const BY_REASON = `
  SELECT because, count(*) AS count FROM (
    SELECT because FROM deliveries INDEXED BY deliveries_waiting
    WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2)
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
