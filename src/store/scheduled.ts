/**
 * Scheduled events in the order of their times, by an index that holds nothing else. Many may share one
 * instant: so a position is a time and a row, and what follows it is the rest of its instant, then later ones.
 */
import type { DeliveryMessage } from "../delivery/message.ts";
import type { Position } from "./cursors.ts";
import type { AcceptedEvent } from "./events.ts";

const PAGE = `
  SELECT * FROM (SELECT id, deliver_at, plan FROM events INDEXED BY events_scheduled
    WHERE deliver_at = ?1 AND id > ?2 AND deliver_at <= ?3 ORDER BY id LIMIT ?4)
  UNION ALL
  SELECT * FROM (SELECT id, deliver_at, plan FROM events INDEXED BY events_scheduled
    WHERE deliver_at > ?1 AND deliver_at <= ?3 ORDER BY deliver_at, id LIMIT ?4)
  ORDER BY deliver_at, id LIMIT ?4`;

/** The next `limit` events after `after` that are due by `until` (epoch ms). */
export async function nextScheduled(
  db: D1Database,
  after: Position,
  until: number,
  limit: number,
): Promise<(AcceptedEvent & { deliverAt: number })[]> {
  const { results } = await db
    .prepare(PAGE)
    .bind(after.at, after.event, until, limit)
    .all<{ id: number; deliver_at: number; plan: string }>();
  return results.map(({ id, deliver_at: deliverAt, plan }) => ({ id, plan: JSON.parse(plan), deliverAt }));
}

const LOST = `
  WITH page AS (${PAGE}),
    last AS (SELECT deliver_at AS at, id AS event FROM page ORDER BY deliver_at DESC, id DESC LIMIT 1)
  SELECT last.*, (SELECT count(*) FROM page) AS looked, lost.event_id, lost.destination FROM last LEFT JOIN (
    SELECT page.id AS event_id, p.value AS destination FROM page JOIN json_each(page.plan) p
    WHERE NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.destination_id = p.value AND d.event_id = page.id)
  ) lost ON true`;

export type LostScheduled = Readonly<{
  /** Every plan up to this position has been checked. */
  upto: Position;
  /** How many events that was. */
  looked: number;
  /** Planned deliveries without an outcome. */
  lost: readonly DeliveryMessage[];
}>;

/** Checks up to `limit` events after `after` that were due by `horizon` (epoch ms). */
export async function findLostScheduled(
  db: D1Database,
  after: Position,
  horizon: number,
  limit: number,
): Promise<LostScheduled> {
  type Row = Position & { looked: number; event_id: number | null; destination: string };
  const { results } = await db.prepare(LOST).bind(after.at, after.event, horizon, limit).all<Row>();
  const [first] = results;
  if (!first) return { upto: after, looked: 0, lost: [] };
  const lost = results.flatMap(({ event_id: event, destination }) =>
    event === null ? [] : [{ event, destination }],
  );
  return { upto: { at: first.at, event: first.event }, looked: first.looked, lost };
}
