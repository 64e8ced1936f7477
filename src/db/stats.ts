/** How the machinery itself is doing, as far as D1 knows: one round trip to each database, and a few rows. */

import type { BacklogSnapshot } from "../core/alerts.ts";
import { HOUR_MS } from "../core/rollups.ts";
import { bundleIdOf, tenantOf } from "./bundles.ts";
import { OPERATOR } from "./notifications.ts";
import { countIn, inFlightOf } from "./packs.ts";
import { addedUp, allOf, type Databases, sumOver } from "./shards.ts";
import { waitingCount } from "./waiting.ts";

/** What one D1 database may hold. */
const DATABASE_BYTES = 10_000_000_000;

const VITALS = `
  SELECT (SELECT heartbeat_at FROM sweeps WHERE id = 1 AND heartbeat_at > 0) AS heartbeatAt,
    (SELECT min(at) FROM (
      SELECT min(next_attempt_at) AS at FROM deliveries WHERE state = 'retrying'
      UNION ALL SELECT min(recover_at) FROM packs WHERE recover_at IS NOT NULL)) AS oldestDueAt,
    coalesce((SELECT count FROM counts WHERE name = 'deduplicated'), 0) AS deduplicated,
    coalesce((SELECT count FROM counts WHERE name = 'keyed'), 0) AS keyed`;

/** How full a database is. */
export type Fullness = Readonly<{
  /** As it is bound: `DB`, `DB_1` and so on. */
  name: string;
  bytes: number;
  /** What it may still grow by. */
  headroomBytes: number;
}>;

export type SystemHealth = Readonly<{
  /** When a sweep last got through, epoch ms; null before the first. */
  heartbeatAt: number | null;
  /** When the retry that is due first was or is due, epoch ms. */
  oldestDueAt: number | null;
  /** Requests that were answered from what had been stored before. */
  deduplicated: number;
  /** Requests that were stored under a key. */
  keyed: number;
  databases: readonly Fullness[];
}>;

export async function readSystemHealth(databases: Databases): Promise<SystemHealth> {
  const answers = await Promise.all(
    allOf(databases).map((db) => db.prepare(VITALS).all<Omit<SystemHealth, "databases">>()),
  );
  const rows = answers.flatMap(({ results }) => results);
  const due = rows.flatMap(({ oldestDueAt }) => oldestDueAt ?? []);
  return {
    heartbeatAt: rows[0]?.heartbeatAt ?? null,
    oldestDueAt: due.length > 0 ? Math.min(...due) : null,
    deduplicated: rows[0]?.deduplicated ?? 0,
    keyed: rows.reduce((sum, { keyed }) => sum + keyed, 0),
    databases: answers.map(({ meta }, number) => fullnessOf(number, meta.size_after)),
  };
}

function fullnessOf(number: number, bytes: number): Fullness {
  const name = number === 0 ? "DB" : `DB_${number}`;
  return { name, bytes, headroomBytes: Math.max(0, DATABASE_BYTES - bytes) };
}

// §§ What is to be tried again, and for how long already, read off the partial indexes, which hold nothing
// else. Every count is bounded, because counting costs a row read for each.

/** Retries counted in each database, and retrying and waiting ones looked at for their age. */
export const RETRIES_COUNTED = 10_000;
export const AGES_COUNTED = 5_000;

/** A delivery that is not over a day after it was first attempted is too old. */
const OLD_MS = 24 * 3_600_000;

const RETRYING = `
  SELECT destination_id AS id, sum(count) AS count FROM (
    SELECT * FROM (SELECT destination_id, 1 AS count FROM deliveries WHERE state = 'retrying'
      ORDER BY next_attempt_at LIMIT ${RETRIES_COUNTED})
    UNION ALL
    SELECT * FROM (SELECT destination_id, ${countIn(inFlightOf())} FROM packs WHERE recover_at IS NOT NULL
      ORDER BY recover_at LIMIT ${RETRIES_COUNTED}))
  GROUP BY destination_id`;

/** How many of the retries that are due first, and of the first attempts under way, are for which destination. */
export async function retriesByDestination(databases: Databases): Promise<ReadonlyMap<string, number>> {
  const counted = await Promise.all(
    allOf(databases).map((db) => db.prepare(RETRYING).all<{ id: string; count: number }>()),
  );
  return addedUp(counted.flatMap(({ results }) => results.map(({ id, count }) => [id, count])));
}

const TENANT = tenantOf("b.header", "d.event_id");

const IS_OLD = `d.first_attempt_at < ?1 AND (?2 IS NULL OR ${TENANT} = ?2)
  AND (?3 IS NULL OR d.destination_id = ?3) AND (?4 IS NULL OR ${TENANT} <> ?4)`;

const OLD = `
  SELECT count(*) AS count FROM (
    SELECT event_id, destination_id, first_attempt_at FROM deliveries
    WHERE state = 'retrying' ORDER BY next_attempt_at LIMIT ${AGES_COUNTED}
  ) d CROSS JOIN bundles b ON b.id = ${bundleIdOf("d.event_id")}
  WHERE ${IS_OLD}
  UNION ALL
  SELECT count(*) FROM (
    SELECT event_id, destination_id, first_attempt_at FROM deliveries WHERE state = 'waiting' LIMIT ${AGES_COUNTED}
  ) d CROSS JOIN bundles b ON b.id = ${bundleIdOf("d.event_id")}
  WHERE ${IS_OLD}`;

export type Scope = Readonly<{ tenant?: string | undefined; destination?: string | undefined }>;

/**
 * Deliveries that were first attempted more than a day ago and are not over. One that was scheduled, was held back, or
 * was made to wait again after its end counts from the first attempt after that.
 * @param scope `without` leaves out what is of that tenant
 */
export function retryingForADay(
  databases: Databases,
  { tenant, destination, without }: Scope & Readonly<{ without?: string }>,
  now: number,
): Promise<number> {
  return sumOver(databases, async (db) => {
    const { results } = await db
      .prepare(OLD)
      .bind(now - OLD_MS, tenant ?? null, destination ?? null, without ?? null)
      .all<{ count: number }>();
    return results.reduce((sum, { count }) => sum + count, 0);
  });
}

// §§ Counts of what leaves no other trace, kept in D1 because isolates come and go. Written only when it happens.

const ADD = `
  INSERT INTO counts (name, count) VALUES (?1, ?2)
  ON CONFLICT (name) DO UPDATE SET count = count + excluded.count`;

/**
 * What is counted: `deduplicated` requests were answered from what is stored, `keyed` ones were stored under a key.
 * All requests with a key that were answered are both together.
 */
export type CountName = "deduplicated" | "keyed";

export async function addToCount(db: D1Database, name: CountName, by: number): Promise<void> {
  await db.prepare(ADD).bind(name, by).run();
}

/** Every count that is not zero, by its name, over all databases. */
export async function readCounts(
  databases: Databases,
): Promise<Readonly<Partial<Record<CountName, number>>>> {
  const answers = await Promise.all(
    allOf(databases).map((db) =>
      db.prepare("SELECT name, count FROM counts").all<{ name: CountName; count: number }>(),
    ),
  );
  const counts: Partial<Record<CountName, number>> = {};
  for (const { name, count } of answers.flatMap(({ results }) => results))
    counts[name] = (counts[name] ?? 0) + count;
  return counts;
}

/** Bundles looked at in one call, in each database: more than one can take in a minute. */
const LOOKED_AT = 60_000;

/** The bundles that come next: after `since`, up to `until`. Ids have no gaps but where bundles were removed. */
const NEXT = `
  WITH begin (since) AS (
    SELECT coalesce((SELECT event_id FROM cursors WHERE name = 'keyed'), (SELECT min(id) - 1 FROM bundles))
  ), next (since, until) AS (
    SELECT since, min(since + ${LOOKED_AT}, (SELECT max(id) FROM bundles)) FROM begin
  )`;

const COUNT_KEYED = `
  INSERT INTO counts (name, count) ${NEXT}
  SELECT 'keyed', keyed.n FROM (
    SELECT count(*) AS n FROM next JOIN bundles b ON b.id > next.since AND b.id <= next.until
    JOIN json_each(b.header, '$.keys') k WHERE k.value ->> 0 <> '${OPERATOR}') keyed
  WHERE keyed.n > 0
  ON CONFLICT (name) DO UPDATE SET count = count + excluded.count`;

const MOVE = `
  INSERT INTO cursors (name, at, event_id) ${NEXT}
  SELECT 'keyed', 0, until FROM next WHERE until > since
  ON CONFLICT (name) DO UPDATE SET event_id = excluded.event_id`;

/**
 * Counts the requests that were stored under a key since the last time: from what is stored, so that a request costs
 * no row for it. Exact, as of the call: the count and the place where the next call begins are one transaction.
 */
export async function countKeyed(databases: Databases): Promise<void> {
  await Promise.all(allOf(databases).map((db) => db.batch([db.prepare(COUNT_KEYED), db.prepare(MOVE)])));
}

// §§ What is not done, for many destinations at once.

/** Walks the partial indexes, `?2` entries of each at most: a million waiting cost no more than a page. */
const BACKLOG = `
  SELECT d.value AS id,
    ${waitingCount("d.value", "?2")} AS waiting,
    (SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY deliveries_dead
      WHERE destination_id = d.value AND state = 'dead' LIMIT ?2)) AS dead
  FROM json_each(?1) d`;

export type Backlog = Readonly<{ waiting: number; dead: number }>;

/** Waiting and dead deliveries of each of the destinations, each counted up to `limit`. */
export async function backlogOf(
  databases: Databases,
  destinations: readonly string[],
  limit: number,
): Promise<ReadonlyMap<string, Backlog>> {
  const ids = JSON.stringify(destinations);
  const counted = await Promise.all(
    allOf(databases).map((db) => db.prepare(BACKLOG).bind(ids, limit).all<{ id: string } & Backlog>()),
  );
  const rows = counted.flatMap(({ results }) => results);
  const waiting = addedUp(rows.map((row) => [row.id, row.waiting]));
  const dead = addedUp(rows.map((row) => [row.id, row.dead]));
  const upTo = (count = 0) => Math.min(limit, count);
  return new Map(rows.map(({ id }) => [id, { waiting: upTo(waiting.get(id)), dead: upTo(dead.get(id)) }]));
}

// §§ How deep backlogs were when the watch looked: what growth is told by. A row for each look of the last hour.

const SAVE = `
  INSERT INTO backlog_snapshots (at, backlogs) VALUES (?1, ?2) ON CONFLICT (at) DO UPDATE SET backlogs = excluded.backlogs`;

/** Looks of the last hour, without the one that is saved with this; safe to repeat. One round trip. */
export async function saveBacklogSnapshot(
  db: D1Database,
  { at, backlogs }: BacklogSnapshot,
): Promise<readonly BacklogSnapshot[]> {
  const [, found] = await db.batch<{ at: number; backlogs: string }>([
    db.prepare("DELETE FROM backlog_snapshots WHERE at <= ?1 OR at > ?2").bind(at - HOUR_MS, at),
    db.prepare("SELECT at, backlogs FROM backlog_snapshots WHERE at < ?1").bind(at),
    db.prepare(SAVE).bind(at, JSON.stringify(backlogs)),
  ]);
  return (found?.results ?? []).map((look) => ({ at: look.at, backlogs: JSON.parse(look.backlogs) }));
}
