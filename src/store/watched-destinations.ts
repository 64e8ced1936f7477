/**
 * Selects destinations to watch when there are too many to watch all of them.
 *
 * Overviews and alerts watch the active ones: those with waiting deliveries first, then those whose retries are due
 * next, then those that the newest events are for. Rates of the whole fleet are estimated from a random sample instead:
 * active ones would make it look worse than it is.
 */

import { BUNDLE_BITS } from "../core/placement.ts";
import { modelOf, type RawRow } from "./columns.ts";
import { type Databases, select, selectInAll } from "./databases.ts";
import { type Destination, destinations } from "./destination.ts";
import { destinationsById, listDestinations } from "./destinations.ts";
import { bundleIdOf, countUpTo, OWN_DESTINATIONS, WAITING_PACKS, WAITING_ROWS } from "./sql.ts";
import { nextWaiting } from "./waiting.ts";

/** How many retries are looked at, how many of the newest bundles, and how many destinations of these. */
const LOOKED_AT = 1_000;
/** Destinations counted at most. */
const COUNTED = 10_000;

/** Active destinations with their ranks, in one statement whose rows read are bounded whatever is stored. */
const ACTIVE_CTE = `
  WITH RECURSIVE waiting (id) AS (
    SELECT ${nextWaiting("''")}
    UNION ALL SELECT ${nextWaiting("waiting.id")} FROM waiting WHERE waiting.id IS NOT NULL LIMIT ?2
  ), active (id, rank) AS (
    SELECT id, 1 FROM waiting WHERE id IS NOT NULL
    UNION ALL SELECT destination_id, 2 FROM (
      SELECT destination_id FROM deliveries WHERE state = 'retrying' ORDER BY next_attempt_at LIMIT ${LOOKED_AT})
    UNION ALL SELECT id, 3 FROM (
      SELECT p.key AS id FROM (SELECT plan FROM bundles ORDER BY id DESC LIMIT ${LOOKED_AT}) b
      JOIN json_each(iif(json_valid(b.plan), b.plan, '{}')) p LIMIT ${LOOKED_AT})
  )`;

const ACTIVE_IDS = `${ACTIVE_CTE}
  SELECT id, min(rank) AS rank FROM active GROUP BY id ORDER BY min(rank) LIMIT ?2`;

/** Together with those that were found in other databases, with their ranks. */
const ACTIVE = `${ACTIVE_CTE}
  SELECT d.* FROM (
    SELECT id, min(rank) AS rank FROM (
      SELECT id, rank FROM active UNION ALL SELECT value ->> 'id', value ->> 'rank' FROM json_each(?3))
    GROUP BY id) a JOIN destinations d ON d.id = a.id
  WHERE d.deleted_at IS NULL ORDER BY a.rank, d.id LIMIT ?2`;

const COUNT = `SELECT ${countUpTo(COUNTED, "destinations WHERE deleted_at IS NULL")} AS count`;

const OWN_IDS = `SELECT id FROM ${OWN_DESTINATIONS} AND tenant = ?1 LIMIT ?2`;

/** Four seeks for each: whether something waits, and the newest bundle with a delivery on record. */
const ACTIVITY = `
  SELECT value AS id,
    EXISTS (SELECT 1 FROM ${WAITING_ROWS} AND destination_id = value)
    OR EXISTS (SELECT 1 FROM ${WAITING_PACKS} AND destination_id = value) AS waits,
    max(coalesce(${bundleIdOf("(SELECT max(event_id) FROM deliveries WHERE destination_id = value)")}, 0),
      coalesce((SELECT max(bundle_id) FROM packs WHERE destination_id = value), 0)) AS newest
  FROM json_each(?1)`;

export type Watched = Readonly<{
  destinations: readonly Destination[];
  /** How many there are in all; of more than 10,000, an estimate. */
  total: number;
}>;

/**
 * All destinations of the tenant, or of all tenants; if there are more than `limit`, the most active ones.
 * @param random uniform in [0, 1)
 */
export async function watchedDestinations(
  databases: Databases,
  tenant: string | undefined,
  limit: number,
  random: () => number,
): Promise<Watched> {
  const all = await listDestinations(databases.db, { tenant, after: undefined, limit: limit + 1 });
  if (all.length <= limit) return { destinations: all, total: all.length };
  return tenant === undefined
    ? mostActiveOfAll(databases, limit, random)
    : mostActiveOf(databases, tenant, limit);
}

async function mostActiveOfAll({ db, further = [] }: Databases, limit: number, random: () => number) {
  const elsewhere = await Promise.all(further.map((one) => select(one, ACTIVE_IDS, null, limit)));
  const [rows, total] = await Promise.all([
    select<RawRow>(db, ACTIVE, null, limit, elsewhere.flat()),
    fleetSize({ db }, random),
  ]);
  return { destinations: rows.map((raw) => modelOf(destinations, raw)), total };
}

type Activity = Readonly<{ id: string; waits: number; newest: number }>;

/** A tenant's destinations are checked one by one, so that other tenants' activity does not crowd them out. */
async function mostActiveOf(databases: Databases, tenant: string, limit: number): Promise<Watched> {
  const ids = await ownIds(databases.db, tenant);
  const known = Map.groupBy(await selectInAll<Activity>(databases, ACTIVITY, ids), ({ id }) => id);
  const ranked = ids
    .map((id) => ({ id, ...activityOf(known.get(id) ?? []) }))
    .toSorted((a, b) => b.waits - a.waits || b.newest - a.newest);
  const chosen = ranked.slice(0, limit).map(({ id }) => id);
  const found = await destinationsById(databases.db, chosen);
  return { destinations: [...found.values()], total: ids.length };
}

/** Over all databases. Each numbers its bundles from its own start, at about the same pace. */
function activityOf(found: readonly Activity[]) {
  return {
    waits: Math.max(0, ...found.map(({ waits }) => waits)),
    newest: Math.max(0, ...found.map(({ newest }) => newest % 2 ** BUNDLE_BITS)),
  };
}

/** The ids of a tenant's destinations, up to a maximum. */
export async function ownIds(db: D1Database, tenant: string, limit = COUNTED): Promise<readonly string[]> {
  return (await select<{ id: string }>(db, OWN_IDS, tenant, limit)).map(({ id }) => id);
}

const NEXT_ROWS = `SELECT rowid AS row, * FROM destinations WHERE rowid > ?1 ORDER BY rowid LIMIT ?2`;

/**
 * The destinations among the next `limit` rows, without deleted ones, and the last of these rows; absent at the end.
 * However many are deleted, no more rows are read.
 */
export async function destinationsBehind(
  { db }: Databases,
  row: number,
  limit: number,
): Promise<Readonly<{ destinations: readonly Destination[]; upto: number | undefined }>> {
  const rows = await select<RawRow>(db, NEXT_ROWS, row, limit);
  const standing = rows.filter(({ deleted_at }) => deleted_at === null);
  return {
    destinations: standing.map((raw) => modelOf(destinations, raw)),
    upto: rows.length < limit ? undefined : Number(rows.at(-1)?.row),
  };
}

/** Deleted destinations are drawn too, and skipped: so this many times the wanted number is drawn. */
const DRAWN = 4;

const STANDING = `SELECT count(*) AS count FROM json_each(?1) j CROSS JOIN destinations d ON d.rowid = j.value
  WHERE d.deleted_at IS NULL`;

/** Rows drawn to estimate how many destinations there are: to within a few percent, if half of the rows exist. */
const ESTIMATED_FROM = 1_000;

/**
 * How many destinations there are: counted up to 10,000, and estimated beyond, from how many of random rows are there.
 * @param random uniform in [0, 1)
 */
export async function fleetSize({ db }: Databases, random: () => number): Promise<number> {
  const counted = (await db.prepare(COUNT).first<number>("count")) ?? 0;
  if (counted < COUNTED) return counted;
  const newest = (await db.prepare(NEWEST_ROW).first<number>("newest")) ?? 0;
  const drawn = JSON.stringify([...new Set(drawnRows(newest, ESTIMATED_FROM, random))]);
  const standing = (await db.prepare(STANDING).bind(drawn).first<number>("count")) ?? 0;
  const estimated = (newest * standing) / (JSON.parse(drawn) as number[]).length;
  return Math.max(counted, Math.round(estimated));
}

const NEWEST_ROW = "SELECT max(rowid) AS newest FROM destinations";

function drawnRows(newest: number, size: number, random: () => number): number[] {
  return Array.from({ length: size }, () => 1 + Math.floor(random() * newest));
}

const DRAW = `SELECT d.* FROM json_each(?1) j CROSS JOIN destinations d ON d.rowid = j.value
  WHERE d.deleted_at IS NULL ORDER BY j.key LIMIT ?2`;

/**
 * Up to `size` destinations of the tenant, or of all, each as likely as any other. It costs the rows that are
 * drawn, however many there are.
 * @param random uniform in [0, 1)
 */
export async function drawnDestinations(
  { db }: Databases,
  tenant: string | undefined,
  size: number,
  random: () => number,
): Promise<readonly Destination[]> {
  if (tenant !== undefined) {
    const sample = sampleOf(await ownIds(db, tenant), size, random);
    return [...(await destinationsById(db, sample)).values()];
  }
  const newest = (await db.prepare(NEWEST_ROW).first<number>("newest")) ?? 0;
  const drawn = new Set(drawnRows(newest, DRAWN * size, random));
  return (await select<RawRow>(db, DRAW, [...drawn], size)).map((raw) => modelOf(destinations, raw));
}

/** A random sample: the beginning of a shuffle. */
function sampleOf<T>(all: readonly T[], size: number, random: () => number): T[] {
  const rest = [...all];
  return Array.from({ length: Math.min(size, all.length) }, () => {
    const [one] = rest.splice(Math.floor(random() * rest.length), 1);
    return one as T;
  });
}
