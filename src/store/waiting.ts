/** What waits in D1: found for the sweep and for people. For a drain: waiting-look.ts. How it ends: waiting-ends.ts. */
import { countIn, WAITS, waitingOf } from "./packs.ts";
import type { RawRow } from "./row-model.ts";
import { addedUp, allOf, type Databases, sumOver } from "./shards.ts";

/** Behind every id of a destination, in order. */
const BEHIND_ALL = "'~'";

/** SQL of the first destination after an id for which something waits: two index steps, however much it is. */
export function nextWaiting(after: string): string {
  return `nullif(min(
    coalesce((SELECT min(destination_id) FROM deliveries WHERE state = 'waiting' AND destination_id > ${after}), ${BEHIND_ALL}),
    coalesce((SELECT min(destination_id) FROM packs WHERE ${WAITS} AND destination_id > ${after}), ${BEHIND_ALL})
  ), ${BEHIND_ALL})`;
}

const FOUND = `
  WITH RECURSIVE found (id) AS (
    SELECT ${nextWaiting("?1")}
    UNION ALL SELECT ${nextWaiting("found.id")} FROM found WHERE found.id IS NOT NULL LIMIT ?2
  )`;

const DESTINATION_IDS = `${FOUND} SELECT id FROM found WHERE id IS NOT NULL`;

export type WaitingDestination = Readonly<{ id: string; tenant: string; paused: boolean; deleted: boolean }>;

export type WaitingPage = Readonly<{
  /** In order of their ids. One whose row somebody has removed counts as deleted. */
  destinations: readonly WaitingDestination[];
  /** Whether there is none after them. */
  isLast: boolean;
}>;

/** Up to `limit` destinations for which something waits in any database, from the id `after` on. */
export async function waitingDestinations(
  databases: Databases,
  after: string,
  limit: number,
): Promise<WaitingPage> {
  const found = await Promise.all(
    allOf(databases).map((db) => db.prepare(DESTINATION_IDS).bind(after, limit).all<{ id: string }>()),
  );
  const ids = [...new Set(found.flatMap(({ results }) => results.map(({ id }) => id)))].sort();
  return {
    destinations: await standingDestinations(databases, ids.slice(0, limit)),
    isLast: ids.length <= limit && found.every(({ results }) => results.length < limit),
  };
}

const STANDING = `
  SELECT d.id, d.tenant, d.status, d.deleted_at FROM json_each(?1) wanted CROSS JOIN destinations d ON d.id = wanted.value`;

/** How these destinations stand, in the order given. One whose row somebody has removed counts as deleted. */
export async function standingDestinations({ db }: Databases, ids: readonly string[]): Promise<WaitingDestination[]> {
  if (ids.length === 0) return [];
  const { results } = await db.prepare(STANDING).bind(JSON.stringify(ids)).all<RawRow>();
  const rows = new Map(results.map((row) => [row.id, row]));
  return ids.map((id) => {
    const row = rows.get(id);
    const deleted = row === undefined || row.deleted_at !== null;
    return { id, tenant: String(row?.tenant ?? ""), paused: row?.status === "paused", deleted };
  });
}

/** The indexes are named, because the planner would rather walk all that the destination ever had. */
const BY_REASON = `
  SELECT reason, sum(count) AS count FROM (
    SELECT * FROM (SELECT reason, 1 AS count FROM deliveries INDEXED BY deliveries_waiting
      WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT reason, ${countIn(waitingOf())} FROM packs INDEXED BY packs_waiting
      WHERE destination_id = ?1 AND ${WAITS} LIMIT ?2))
  GROUP BY reason ORDER BY reason`;

/** How many waiting deliveries of the first `limit` rows and packs of each database were turned away for which reason. */
export async function waitingByReason(
  databases: Databases,
  destination: string,
  limit: number,
): Promise<Record<string, number>> {
  const counted = await Promise.all(
    allOf(databases).map((db) =>
      db.prepare(BY_REASON).bind(destination, limit).all<{ reason: string; count: number }>(),
    ),
  );
  const counts = counted.flatMap(({ results }) => results);
  return Object.fromEntries(addedUp(counts.map(({ reason, count }) => [reason, count])));
}

const COUNT = `SELECT ${waitingCount("?1", "?2")} AS n`;

/** SQL of how many deliveries wait for a destination, in rows and packs of which so many are looked at. */
export function waitingCount(destination: string, limit: string): string {
  return `(SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY deliveries_waiting
      WHERE destination_id = ${destination} AND state = 'waiting' LIMIT ${limit}))
    + (SELECT coalesce(sum(count), 0) FROM (SELECT ${countIn(waitingOf())} AS count FROM packs INDEXED BY packs_waiting
      WHERE destination_id = ${destination} AND ${WAITS} LIMIT ${limit}))`;
}

/** How many deliveries wait for the destination; `limit` stands for more. */
export async function countWaiting(
  databases: Databases,
  destination: string,
  limit: number,
): Promise<number> {
  const count = (db: D1Database) => db.prepare(COUNT).bind(destination, limit).first<number>("n");
  return Math.min(limit, await sumOver(databases, async (db) => (await count(db)) ?? 0));
}
