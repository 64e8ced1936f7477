/**
 * Scheduled bundles in the order of their times, by an index that holds nothing else. Many may share one
 * instant: so a position is a time and a number, and what follows it is the rest of its instant, then later ones.
 */
import type { Plan } from "../core/bundle.ts";
import type { Position } from "./cursors.ts";
import { LOST_PARTS, type LostDelivery, type LostPart, lostOf, type Most } from "./sweep.ts";

const NEXT = `
  SELECT * FROM (SELECT id, accepted_at, deliver_at, planned, plan FROM bundles INDEXED BY bundles_scheduled
    WHERE deliver_at = ?1 AND id > ?2 AND deliver_at <= ?3 ORDER BY id LIMIT ?4)
  UNION ALL
  SELECT * FROM (SELECT id, accepted_at, deliver_at, planned, plan FROM bundles INDEXED BY bundles_scheduled
    WHERE deliver_at > ?1 AND deliver_at <= ?3 ORDER BY deliver_at, id LIMIT ?4)
  ORDER BY deliver_at, id LIMIT ?4`;

/** As many of the next as have no more than ?5 planned deliveries together, or one that has more by itself. */
const PAGE = `
  SELECT id, accepted_at, deliver_at, planned, plan, bundles FROM (
    SELECT *, sum(planned) OVER (ORDER BY deliver_at, id) AS together, count(*) OVER () AS bundles FROM (${NEXT}))
  WHERE together <= ?5 OR together = planned`;

export type ScheduledPage = Readonly<{
  bundles: readonly Readonly<{ id: number; plan: Plan; deliverAt: number }>[];
  /** Whether there are more after them. */
  more: boolean;
}>;

/** The next bundles after `after` that are due by `until` (epoch ms). */
export async function nextScheduled(
  db: D1Database,
  after: Position,
  until: number,
  most: Most,
): Promise<ScheduledPage> {
  const { results } = await db
    .prepare(`${PAGE} ORDER BY deliver_at, id`)
    .bind(after.at, after.event, until, most.bundles, most.deliveries)
    .all<{ id: number; deliver_at: number; plan: string; bundles: number }>();
  const bundles = results.map(({ id, deliver_at: deliverAt, plan }) => ({
    id,
    plan: JSON.parse(plan),
    deliverAt,
  }));
  const [found = 0] = results.map((row) => row.bundles);
  return { bundles, more: found === most.bundles || found > bundles.length };
}

/** The next `limit` bundles after `after`, whenever they are due, in the order of their times. */
export async function scheduledAfter(db: D1Database, after: Position, limit: number): Promise<number[]> {
  const { results } = await db
    .prepare(`SELECT id FROM (${NEXT}) ORDER BY deliver_at, id`)
    .bind(after.at, after.event, Number.MAX_SAFE_INTEGER, limit)
    .all<{ id: number }>();
  return results.map(({ id }) => id);
}

const LOST = `
  WITH page AS MATERIALIZED (${PAGE}),
    last AS (SELECT deliver_at AS at, id AS upto FROM page ORDER BY deliver_at DESC, id DESC LIMIT 1)
  SELECT last.*, (SELECT count(*) FROM page) AS looked, (SELECT max(bundles) FROM page) AS bundles, lost.*
  FROM last LEFT JOIN (${LOST_PARTS}) lost ON true`;

export type LostScheduled = Readonly<{
  /** Every plan up to this position has been checked; `after` when there was none. */
  upto: Position;
  /** Whether there is something to check after it already. */
  more: boolean;
  lost: readonly LostDelivery[];
}>;

/** Checks some bundles after `after` that were due by `horizon` (epoch ms). */
export async function findLostScheduled(
  db: D1Database,
  after: Position,
  horizon: number,
  most: Most,
): Promise<LostScheduled> {
  type Row = LostPart & { at: number; upto: number; looked: number; bundles: number };
  const find = db.prepare(LOST).bind(after.at, after.event, horizon, most.bundles, most.deliveries);
  const { results } = await find.all<Row>();
  const [first] = results;
  if (!first) return { upto: after, more: false, lost: [] };
  const { at, upto, looked, bundles } = first;
  return {
    upto: { at, event: upto },
    more: bundles === most.bundles || bundles > looked,
    lost: await lostOf(db, results),
  };
}
