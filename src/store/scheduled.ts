/**
 * Scheduled bundles in the order of their times, by an index that holds nothing else. Many may share one
 * instant: so a position is a time and a number, and what follows it is the rest of its instant, then later ones.
 */
import type { Plan } from "../core/bundle.ts";
import { findPlans } from "./bundles.ts";
import type { Position } from "./cursors.ts";
import { fitting, LOST_PARTS, type LostDelivery, type LostPart, lostOf, type Most } from "./sweep.ts";

type Row = Readonly<{ id: number; deliverAt: number; planned: number }>;

/** The rest of the instant, and what comes after it; in order, because to have them sorted costs rows read. */
const NEXT_SCHEDULED = `
  SELECT * FROM (SELECT id, deliver_at AS deliverAt, planned FROM bundles INDEXED BY bundles_scheduled
    WHERE deliver_at = ?1 AND id > ?2 AND deliver_at <= ?3 ORDER BY id LIMIT ?4)
  UNION ALL
  SELECT * FROM (SELECT id, deliver_at, planned FROM bundles INDEXED BY bundles_scheduled
    WHERE deliver_at > ?1 AND deliver_at <= ?3 ORDER BY deliver_at, id LIMIT ?4)`;

async function nextRows(db: D1Database, after: Position, until: number, limit: number): Promise<Row[]> {
  const { results } = await db.prepare(NEXT_SCHEDULED).bind(after.at, after.event, until, limit).all<Row>();
  return results.toSorted((a, b) => a.deliverAt - b.deliverAt || a.id - b.id).slice(0, limit);
}

export type ScheduledPage = Readonly<{
  bundles: readonly Readonly<{ id: number; plan: Plan; deliverAt: number }>[];
  /** The last one looked at; `after` when there was none. */
  upto: Position;
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
  const { looked, ...page } = await nextPage(db, after, until, most);
  const plans = await findPlans(
    db,
    looked.map(({ id }) => id),
  );
  const byId = new Map(plans.map(({ id, plan }) => [id, plan]));
  return {
    ...page,
    bundles: looked.map(({ id, deliverAt }) => ({ id, deliverAt, plan: byId.get(id) ?? {} })),
  };
}

async function nextPage(db: D1Database, after: Position, until: number, most: Most) {
  const found = await nextRows(db, after, until, most.bundles);
  const looked = fitting(found, most.deliveries);
  const last = looked.at(-1);
  const upto = last ? { at: last.deliverAt, event: last.id } : after;
  return { looked, upto, more: looked.length < found.length || found.length === most.bundles };
}

/** The next `limit` bundles after `after`, whenever they are due, in the order of their times. */
export async function scheduledAfter(db: D1Database, after: Position, limit: number): Promise<number[]> {
  return (await nextRows(db, after, Number.MAX_SAFE_INTEGER, limit)).map(({ id }) => id);
}

const LOST_SCHEDULED = `${LOST_PARTS} AND b.id IN (SELECT value FROM json_each(?1))`;

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
  const { looked, ...page } = await nextPage(db, after, horizon, most);
  if (looked.every(({ planned }) => planned === 0)) return { ...page, lost: [] };
  const ids = JSON.stringify(looked.map(({ id }) => id));
  const { results } = await db.prepare(LOST_SCHEDULED).bind(ids).all<LostPart>();
  return { ...page, lost: await lostOf(db, results) };
}
