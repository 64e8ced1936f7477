/**
 * Which destinations are looked at when there are many. Shown are those in which something goes on: what waits
 * first, then what is due next, then what the newest events are for. Rates are made of some that chance chose:
 * of those in trouble they would be worse than they are.
 */
import { BUNDLE_BITS } from "../core/placement.ts";
import { bundleIdOf } from "./bundles.ts";
import { modelOf, type RawRow } from "./columns.ts";
import { type Destination, listDestinations } from "./destinations.ts";
import { WAITS } from "./packs.ts";
import { destinations } from "./schema.ts";
import { allOf, type Databases } from "./shards.ts";
import { nextWaiting } from "./waiting.ts";

/** Retries, the newest bundles, and destinations of these looked at. */
const LOOKED_AT = 1_000;
/** Destinations counted at most. */
const COUNTED = 10_000;

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
      JOIN json_each(b.plan) p LIMIT ${LOOKED_AT})
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

const COUNT = `SELECT count(*) AS count FROM (SELECT 1 FROM destinations WHERE deleted_at IS NULL LIMIT ${COUNTED})`;

const OWN_IDS = `SELECT id FROM destinations INDEXED BY destinations_by_tenant
  WHERE tenant = ?1 AND deleted_at IS NULL LIMIT ${COUNTED}`;

/** Four seeks for each: whether something waits, and the last event that came of it anything, as its bundle tells. */
const LIVELINESS = `
  SELECT value AS id,
    EXISTS (SELECT 1 FROM deliveries INDEXED BY deliveries_waiting
      WHERE destination_id = value AND state = 'waiting')
    OR EXISTS (SELECT 1 FROM packs INDEXED BY packs_waiting WHERE destination_id = value AND ${WAITS}) AS waits,
    max(coalesce(${bundleIdOf("(SELECT max(event_id) FROM deliveries WHERE destination_id = value)")}, 0),
      coalesce((SELECT max(bundle_id) FROM packs WHERE destination_id = value), 0)) AS newest
  FROM json_each(?1)`;

const BY_IDS = "SELECT d.* FROM json_each(?1) j CROSS JOIN destinations d ON d.id = j.value ORDER BY j.key";

export type Watched = Readonly<{
  destinations: readonly Destination[];
  /** How many there are in all, 10,000 at most. */
  total: number;
}>;

/** Up to `limit` destinations of the tenant, or of all: all of them, or those in which something goes on. */
export async function watchedDestinations(
  databases: Databases,
  tenant: string | undefined,
  limit: number,
): Promise<Watched> {
  const all = await listDestinations(databases.db, { tenant, after: undefined, limit: limit + 1 });
  if (all.length <= limit) return { destinations: all, total: all.length };
  return tenant === undefined ? liveliestOfAll(databases, limit) : liveliestOf(databases, tenant, limit);
}

async function liveliestOfAll({ db, further = [] }: Databases, limit: number): Promise<Watched> {
  const others = await Promise.all(further.map((one) => one.prepare(ACTIVE_IDS).bind(null, limit).all()));
  const elsewhere = JSON.stringify(others.flatMap(({ results }) => results));
  const [active, count] = await db.batch<RawRow>([
    db.prepare(ACTIVE).bind(null, limit, elsewhere),
    db.prepare(COUNT),
  ]);
  const found = (active?.results ?? []).map((raw) => modelOf(destinations, raw));
  return { destinations: found, total: Number(count?.results[0]?.count ?? 0) };
}

type Liveliness = Readonly<{ id: string; waits: number; newest: number }>;

/** The tenant's own are judged one by one, so that nothing that others have crowds any of them out. */
async function liveliestOf(databases: Databases, tenant: string, limit: number): Promise<Watched> {
  const ids = await ownIds(databases.db, tenant);
  const json = JSON.stringify(ids);
  const answers = await Promise.all(
    allOf(databases).map((db) => db.prepare(LIVELINESS).bind(json).all<Liveliness>()),
  );
  const known = Map.groupBy(
    answers.flatMap(({ results }) => results),
    ({ id }) => id,
  );
  const ranked = ids
    .map((id) => ({ id, ...livelinessOf(known.get(id) ?? []) }))
    .toSorted((a, b) => b.waits - a.waits || b.newest - a.newest);
  const chosen = ranked.slice(0, limit).map(({ id }) => id);
  return { destinations: await destinationsByIds(databases.db, chosen), total: ids.length };
}

/** Over all databases, whose events are numbered apart, at about the same pace. */
function livelinessOf(found: readonly Liveliness[]) {
  return {
    waits: Math.max(0, ...found.map(({ waits }) => waits)),
    newest: Math.max(0, ...found.map(({ newest }) => newest % 2 ** BUNDLE_BITS)),
  };
}

async function ownIds(db: D1Database, tenant: string): Promise<readonly string[]> {
  const { results } = await db.prepare(OWN_IDS).bind(tenant).all<{ id: string }>();
  return results.map(({ id }) => id);
}

/** In the order given; those that are not there are left out. */
export async function destinationsByIds(db: D1Database, ids: readonly string[]): Promise<Destination[]> {
  const { results } = await db.prepare(BY_IDS).bind(JSON.stringify(ids)).all<RawRow>();
  return results.map((raw) => modelOf(destinations, raw));
}

/** Rows of deleted destinations are drawn too, and passed over: so more are drawn than wanted. */
const DRAWN = 4;

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
  if (tenant !== undefined) return destinationsByIds(db, drawn(await ownIds(db, tenant), size, random));
  const newest = await db.prepare("SELECT max(rowid) AS newest FROM destinations").first<number>("newest");
  const rows = Array.from({ length: DRAWN * size }, () => 1 + Math.floor(random() * (newest ?? 0)));
  const { results } = await db
    .prepare(DRAW)
    .bind(JSON.stringify([...new Set(rows)]), size)
    .all<RawRow>();
  return results.map((raw) => modelOf(destinations, raw));
}

/** So many of them, chosen by chance: the beginning of a shuffle. */
function drawn<T>(all: readonly T[], size: number, random: () => number): T[] {
  const rest = [...all];
  return Array.from({ length: Math.min(size, all.length) }, () => {
    const [one] = rest.splice(Math.floor(random() * rest.length), 1);
    return one as T;
  });
}
