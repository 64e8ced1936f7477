/**
 * Which destinations figures are made of: all of them while they are few, and otherwise those in which
 * something goes on: what waits first, then what is due next, then what the newest events are for.
 */
import type { Destination } from "./destination-settings.ts";
import { listDestinations } from "./destinations.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { destinations } from "./schema.ts";
import type { Databases } from "./shards.ts";

/** Retries and events looked at for their destinations. */
const LOOKED_AT = 1_000;
/** Destinations counted at most. */
const COUNTED = 10_000;

const ACTIVE_CTE = `
  WITH RECURSIVE waiting (id) AS (
    SELECT min(destination_id) FROM deliveries WHERE state = 'waiting'
    UNION ALL
    SELECT (SELECT min(destination_id) FROM deliveries WHERE state = 'waiting' AND destination_id > waiting.id)
    FROM waiting WHERE waiting.id IS NOT NULL LIMIT ?2
  ), active (id, rank) AS (
    SELECT id, 1 FROM waiting WHERE id IS NOT NULL
    UNION ALL SELECT destination_id, 2 FROM (
      SELECT destination_id FROM deliveries WHERE state = 'retrying' ORDER BY next_attempt_at LIMIT ${LOOKED_AT})
    UNION ALL SELECT p.value, 3 FROM (SELECT plan FROM events ORDER BY id DESC LIMIT ${LOOKED_AT}) e
      JOIN json_each(e.plan) p
  )`;

const ACTIVE_IDS = `${ACTIVE_CTE}
  SELECT id, min(rank) AS rank FROM active GROUP BY id ORDER BY min(rank) LIMIT ?2`;

/** Together with those that were found in other databases, with their ranks. */
const ACTIVE = `${ACTIVE_CTE}
  SELECT d.* FROM (
    SELECT id, min(rank) AS rank FROM (
      SELECT id, rank FROM active UNION ALL SELECT value ->> 'id', value ->> 'rank' FROM json_each(?3))
    GROUP BY id) a JOIN destinations d ON d.id = a.id
  WHERE d.deleted_at IS NULL AND (?1 IS NULL OR d.tenant = ?1) ORDER BY a.rank, d.id LIMIT ?2`;

const COUNT = `
  SELECT count(*) AS count FROM (
    SELECT 1 FROM destinations WHERE deleted_at IS NULL AND (?1 IS NULL OR tenant = ?1) LIMIT ${COUNTED})`;

export type Watched = Readonly<{
  destinations: readonly Destination[];
  /** How many there are in all, 10,000 at most. */
  total: number;
}>;

/** Up to `limit` destinations of the tenant, or of all. */
export async function watchedDestinations(
  { db, further = [] }: Databases,
  tenant: string | undefined,
  limit: number,
): Promise<Watched> {
  const all = await listDestinations(db, { tenant, after: undefined, limit: limit + 1 });
  if (all.length <= limit) return { destinations: all, total: all.length };
  // Whose they are, the first database knows: of each of the others comes as much as might be asked for.
  const others = await Promise.all(further.map((one) => one.prepare(ACTIVE_IDS).bind(null, COUNTED).all()));
  const elsewhere = JSON.stringify(others.flatMap(({ results }) => results));
  const [active, count] = await db.batch<RawRow>([
    db.prepare(ACTIVE).bind(tenant ?? null, limit, elsewhere),
    db.prepare(COUNT).bind(tenant ?? null),
  ]);
  const found = (active?.results ?? []).map((raw) => modelOf(destinations, raw));
  return { destinations: found, total: Number(count?.results[0]?.count ?? 0) };
}
