/**
 * What is to be tried again, and for how long already, read off the partial indexes, which hold nothing
 * else. Every count is bounded, because counting costs a row read for each.
 */
import { bundleIdOf, tenantOf } from "./event-columns.ts";
import { countIn, inFlightOf } from "./packs.ts";
import { addedUp, allOf, type Databases, sumOver } from "./shards.ts";

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
