/**
 * Figures for operators: the state of the sweep and of the databases, retries, backlogs, and requests with idempotency
 * keys. Raw SQL, because each figure is one statement over partial indexes with a bound: counting costs a row read for
 * each row counted.
 */

import type { BacklogSnapshot } from "../core/alerts.ts";
import { OPERATOR } from "../core/principal.ts";
import { HOUR_MS } from "../core/rollups.ts";
import { parsedOr } from "./columns.ts";
import { addedUp, allOf, type Databases, repeatable, selectInAll } from "./databases.ts";
import type { StoredState } from "./delivery.ts";
import {
  bundleIdOf,
  cancelledOf,
  countIn,
  countUpTo,
  DEAD_ROWS,
  deliveredOf,
  inFlightOf,
  listInHeaderSql,
  tenantOf,
  waitingOf,
} from "./sql.ts";
import { HEARTBEAT } from "./sweep.ts";
import { idRangeOf, type TimeRange } from "./time-ranges.ts";
import { COUNT_UNREADABLE } from "./unreadable.ts";
import { waitingCount } from "./waiting.ts";

/** The size limit of a D1 database. */
const DATABASE_BYTES = 10_000_000_000;

const SYSTEM_HEALTH = `
  SELECT (${HEARTBEAT}) AS heartbeatAt,
    (SELECT min(at) FROM (
      SELECT min(next_attempt_at) AS at FROM deliveries WHERE state = 'retrying'
      UNION ALL SELECT min(recover_at) FROM packs WHERE recover_at IS NOT NULL)) AS oldestDueAt,
    coalesce((SELECT count FROM counts WHERE name = 'deduplicated'), 0) AS deduplicated,
    coalesce((SELECT count FROM counts WHERE name = 'keyed'), 0) AS keyed,
    ${COUNT_UNREADABLE} AS unreadable`;

type DatabaseSize = Readonly<{
  /** The name of its binding: `DB`, `DB_1` and so on. */
  name: string;
  bytes: number;
  /** Bytes that it may still grow by. */
  headroomBytes: number;
}>;

export type SystemHealth = Readonly<{
  /** When the part of the sweep that has been stuck for longest last made progress, epoch ms; null before the first. */
  heartbeatAt: number | null;
  /** When the next retry is due, or was if it is late, epoch ms. */
  oldestDueAt: number | null;
  /** Requests that repeated an idempotency key and were answered from what it had stored. */
  deduplicated: number;
  /** Requests that were stored under an idempotency key. */
  keyed: number;
  /** Bundles that jobs cannot read, `UNREADABLE_COUNTED` at most. */
  unreadable: number;
  databases: readonly DatabaseSize[];
}>;

/** One round trip to each database, and a few rows. */
export async function readSystemHealth(databases: Databases): Promise<SystemHealth> {
  const answers = await Promise.all(
    allOf(databases).map((db) => db.prepare(SYSTEM_HEALTH).all<Omit<SystemHealth, "databases">>()),
  );
  const rows = answers.flatMap(({ results }) => results);
  const due = rows.flatMap(({ oldestDueAt }) => oldestDueAt ?? []);
  return {
    heartbeatAt: rows[0]?.heartbeatAt ?? null,
    oldestDueAt: due.length > 0 ? Math.min(...due) : null,
    deduplicated: rows[0]?.deduplicated ?? 0,
    keyed: rows.reduce((sum, { keyed }) => sum + keyed, 0),
    unreadable: rows[0]?.unreadable ?? 0,
    databases: answers.map(({ meta }, number) => sizeOf(number, meta.size_after)),
  };
}

function sizeOf(number: number, bytes: number): DatabaseSize {
  return { name: bindingOf(number), bytes, headroomBytes: Math.max(0, DATABASE_BYTES - bytes) };
}

function bindingOf(number: number): string {
  return number === 0 ? "DB" : `DB_${number}`;
}

/** The latest migration, which this code was written for. A test holds it together with the files in migrations/. */
export const LATEST_MIGRATION = "0016_mcp_events.sql";

/** Wrangler's record of what it has applied, under its default name, which `migrations_table` can change. */
const APPLIED_MIGRATION = "SELECT name FROM d1_migrations ORDER BY id DESC LIMIT 1";

/** A database by the name of its binding, and the migration that was applied to it last; null without a record. */
export type AppliedMigration = Readonly<{ name: string; migration: string | null }>;

/**
 * The migration that was applied last to each database; undefined where no record can be read. Not part of
 * `readSystemHealth`, which would fail as a whole where the record has another name.
 */
export function readAppliedMigrations(
  databases: Databases,
): Promise<readonly (AppliedMigration | undefined)[]> {
  return Promise.all(
    allOf(databases).map((db, number) =>
      db
        .prepare(APPLIED_MIGRATION)
        .all<{ name: string }>()
        .then(
          ({ results }) => ({ name: bindingOf(number), migration: results[0]?.name ?? null }),
          () => undefined,
        ),
    ),
  );
}

/** Most retries counted in each database. */
export const RETRIES_COUNTED = 10_000;
/** The most retrying, and the most waiting, deliveries whose age is checked. */
export const AGES_COUNTED = 5_000;

/** A delivery counts as old this long after its first attempt. */
const OLD_MS = 24 * 3_600_000;

const RETRYING = `
  SELECT destination_id AS id, sum(count) AS count FROM (
    SELECT * FROM (SELECT destination_id, 1 AS count FROM deliveries WHERE state = 'retrying'
      ORDER BY next_attempt_at LIMIT ${RETRIES_COUNTED})
    UNION ALL
    SELECT * FROM (SELECT destination_id, ${countIn(inFlightOf())} FROM packs WHERE recover_at IS NOT NULL
      ORDER BY recover_at LIMIT ${RETRIES_COUNTED}))
  GROUP BY destination_id`;

/** By destination: how many retries and first attempts in flight, of those that are due next. */
export async function retriesByDestination(databases: Databases): Promise<ReadonlyMap<string, number>> {
  const counted = await selectInAll<{ id: string; count: number }>(databases, RETRYING);
  return addedUp(counted.map(({ id, count }) => [id, count]));
}

const TENANT = tenantOf("b.header", "d.event_id");

const IS_OLD = `d.first_attempt_at < ?1 AND (?2 IS NULL OR ${TENANT} = ?2)
  AND (?3 IS NULL OR d.destination_id = ?3) AND (?4 IS NULL OR ${TENANT} <> ?4)`;

const oldOf = (rows: string) => `
  SELECT count(*) AS count FROM (
    SELECT event_id, destination_id, first_attempt_at FROM deliveries WHERE ${rows} LIMIT ${AGES_COUNTED}
  ) d CROSS JOIN bundles b ON b.id = ${bundleIdOf("d.event_id")}
  WHERE ${IS_OLD}`;

const OLD = `
  ${oldOf("state = 'retrying' ORDER BY next_attempt_at")} UNION ALL ${oldOf("state = 'waiting'")}`;

export type StatsScope = Readonly<{ tenant?: string | undefined; destination?: string | undefined }>;

/**
 * How many deliveries were first attempted more than a day ago and have not ended. A requeued one counts from its first
 * attempt after that.
 * @param scope `without` leaves out the deliveries of that tenant
 */
export async function retryingForADay(
  databases: Databases,
  { tenant, destination, without }: StatsScope & Readonly<{ without?: string }>,
  now: number,
): Promise<number> {
  const values = [now - OLD_MS, tenant ?? null, destination ?? null, without ?? null];
  const counted = await selectInAll<{ count: number }>(databases, OLD, ...values);
  return counted.reduce((sum, { count }) => sum + count, 0);
}

/** Most rows, and most packs, counted of one destination in each database. */
export const OUTCOMES_COUNTED = 10_000;

const OUTCOMES_OF_ROWS = `
  SELECT iif(reason = 'in_flight', 'in_flight', state) AS outcome, count(*) AS count FROM (
    SELECT state, reason FROM deliveries WHERE destination_id = ?1 AND event_id BETWEEN ?2 AND ?3
    ORDER BY event_id DESC LIMIT ${OUTCOMES_COUNTED})
  GROUP BY outcome`;

const OUTCOMES_OF_PACKS = `
  SELECT sum(${countIn(waitingOf())}) AS waiting, sum(${countIn(inFlightOf())}) AS in_flight,
    sum(${countIn(deliveredOf())}) AS delivered, sum(${countIn(cancelledOf())}) AS cancelled
  FROM (SELECT * FROM packs WHERE destination_id = ?1 AND bundle_id BETWEEN ${bundleIdOf("?2")} AND ${bundleIdOf("?3")}
    ORDER BY bundle_id DESC LIMIT ${OUTCOMES_COUNTED}) packs`;

type CountedState = StoredState | "in_flight";

/**
 * How many deliveries of a destination are in which state, of events accepted within the range: the newest rows and packs
 * up to the bound. Queued deliveries have neither and are not counted. A range may be up to a minute wider than requested.
 */
export async function countOutcomes(
  databases: Databases,
  destination: string,
  accepted: TimeRange,
): Promise<Readonly<Record<CountedState, number>>> {
  const counts = { waiting: 0, in_flight: 0, retrying: 0, delivered: 0, dead: 0, cancelled: 0 };
  const add = (outcome: string, count: number | null) => {
    counts[outcome as CountedState] += count ?? 0;
  };
  for (const [rows, packed] of await Promise.all(
    allOf(databases).map(async (db) => {
      const { first, last } = await idRangeOf(db, accepted);
      return db.batch<Record<string, number>>(
        [OUTCOMES_OF_ROWS, OUTCOMES_OF_PACKS].map((sql) => db.prepare(sql).bind(destination, first, last)),
      );
    }),
  )) {
    for (const { outcome, count = 0 } of rows?.results ?? []) add(String(outcome), count);
    for (const [outcome, count] of Object.entries(packed?.results[0] ?? {})) add(outcome, count);
  }
  return counts;
}

const ADDED = "ON CONFLICT (name) DO UPDATE SET count = count + excluded.count";

const ADD = `INSERT INTO counts (name, count) VALUES (?1, ?2) ${ADDED}`;

/**
 * Counters of requests with idempotency keys: `deduplicated` ones were answered from what was stored, `keyed` ones were
 * stored. They leave no other lasting record, and are in D1 because isolates come and go.
 */
type CountName = "deduplicated" | "keyed";

/** Writes a row, so only for rare events. */
export async function addToCount(db: D1Database, name: CountName, by: number): Promise<void> {
  await db.prepare(ADD).bind(name, by).run();
}

/** The counters that are not zero, added up over all databases. */
export async function readCounts(
  databases: Databases,
): Promise<Readonly<Partial<Record<CountName, number>>>> {
  type Row = { name: CountName; count: number };
  const counted = await selectInAll<Row>(databases, "SELECT name, count FROM counts");
  return Object.fromEntries(addedUp(counted.map(({ name, count }) => [name, count])));
}

/** Bundles read in one call, in each database: more than a database can commit in a minute. */
const LOOKED_AT = 60_000;

/** The range of bundles to count next: after `since`, up to `until`. */
const NEXT = `
  WITH begin (since) AS (
    SELECT coalesce((SELECT row_id FROM cursors WHERE name = 'keyed'), (SELECT min(id) - 1 FROM bundles))
  ), next (since, until) AS (
    SELECT since, min(since + ${LOOKED_AT}, (SELECT max(id) FROM bundles)) FROM begin
  )`;

const COUNT_KEYED = repeatable(`
  INSERT INTO counts (name, count) ${NEXT}
  SELECT 'keyed', keyed.n FROM (
    SELECT count(*) AS n FROM next JOIN bundles b ON b.id > next.since AND b.id <= next.until
    JOIN json_each(${listInHeaderSql("b.header", "keys")}) k WHERE k.type = 'array' AND k.value ->> 0 <> '${OPERATOR}') keyed
  WHERE keyed.n > 0
  ${ADDED}`);

const MOVE = repeatable(`
  INSERT INTO cursors (name, at, row_id) ${NEXT}
  SELECT 'keyed', 0, until FROM next WHERE until > since
  ON CONFLICT (name) DO UPDATE SET row_id = excluded.row_id`);

/** Databases that one call counts in: with more, each has its turn within as many minutes as there are such groups. */
const COUNTED_IN = 25;

/**
 * For the cron: counts the requests that were stored under a key since the last call. They are counted from the headers
 * of bundles, so that a request writes no row for it. Exact: the count and the cursor are written in one transaction.
 * @param minute selects the group of databases
 */
export async function countKeyed(databases: Databases, minute = 0): Promise<void> {
  const all = allOf(databases);
  const first = COUNTED_IN * (minute % Math.ceil(all.length / COUNTED_IN));
  const some = all.slice(first, first + COUNTED_IN);
  await Promise.all(some.map((db) => db.batch([db.prepare(COUNT_KEYED), db.prepare(MOVE)])));
}

/** Walks at most `?2` entries of each partial index: a backlog of a million costs no more than that. */
const BACKLOG = `
  SELECT d.value AS id,
    ${waitingCount("d.value", "?2")} AS waiting,
    ${countUpTo("?2", `${DEAD_ROWS} AND destination_id = d.value`)} AS dead
  FROM json_each(?1) d`;

export type Backlog = Readonly<{ waiting: number; dead: number }>;

/** How many deliveries of each destination wait and are dead, each counted up to `limit`. */
export async function backlogOf(
  databases: Databases,
  destinations: readonly string[],
  limit: number,
): Promise<ReadonlyMap<string, Backlog>> {
  type Row = { id: string } & Backlog;
  const rows = await selectInAll<Row>(databases, BACKLOG, destinations, limit);
  const waiting = addedUp(rows.map((row) => [row.id, row.waiting]));
  const dead = addedUp(rows.map((row) => [row.id, row.dead]));
  const upTo = (count = 0) => Math.min(limit, count);
  return new Map(rows.map(({ id }) => [id, { waiting: upTo(waiting.get(id)), dead: upTo(dead.get(id)) }]));
}

const FORGET_SNAPSHOTS = repeatable("DELETE FROM backlog_snapshots WHERE at <= ?1 OR at > ?2");

const SAVE_SNAPSHOT = repeatable(`
  INSERT INTO backlog_snapshots (at, backlogs) VALUES (?1, ?2) ON CONFLICT (at) DO UPDATE SET backlogs = excluded.backlogs`);

/**
 * Saves a snapshot of the backlogs, from which alerts compute how fast they grow, and returns the others of the last hour.
 * Safe to repeat.
 */
export async function saveBacklogSnapshot(
  db: D1Database,
  { at, backlogs }: BacklogSnapshot,
): Promise<readonly BacklogSnapshot[]> {
  const [, found] = await db.batch<{ at: number; backlogs: string }>([
    db.prepare(FORGET_SNAPSHOTS).bind(at - HOUR_MS, at),
    db.prepare("SELECT at, backlogs FROM backlog_snapshots WHERE at < ?1").bind(at),
    db.prepare(SAVE_SNAPSHOT).bind(at, JSON.stringify(backlogs)),
  ]);
  return (found?.results ?? []).map(({ at, backlogs }) => ({
    at,
    backlogs: parsedOr<BacklogSnapshot["backlogs"]>(backlogs, {}),
  }));
}
