/**
 * Scheduled events in the order of their times, by an index that holds nothing else. Many may share one
 * instant: so a position is a time and a row, and what follows it is the rest of its instant, then later ones.
 */
import type { Position } from "./cursors.ts";
import type { AcceptedEvent } from "./events.ts";
import { type LostDelivery, lostOf, type Most } from "./sweep.ts";

const NEXT = `
  SELECT * FROM (SELECT id, accepted_at, deliver_at, plan FROM events INDEXED BY events_scheduled
    WHERE deliver_at = ?1 AND id > ?2 AND deliver_at <= ?3 ORDER BY id LIMIT ?4)
  UNION ALL
  SELECT * FROM (SELECT id, accepted_at, deliver_at, plan FROM events INDEXED BY events_scheduled
    WHERE deliver_at > ?1 AND deliver_at <= ?3 ORDER BY deliver_at, id LIMIT ?4)
  ORDER BY deliver_at, id LIMIT ?4`;

export type ScheduledPage = Readonly<{
  events: readonly (AcceptedEvent & { deliverAt: number })[];
  /** Whether there are more after them. */
  more: boolean;
}>;

/** The next events after `after` that are due by `until` (epoch ms): as many as `most` has room for, one at least. */
export async function nextScheduled(
  db: D1Database,
  after: Position,
  until: number,
  most: Most,
): Promise<ScheduledPage> {
  const { results } = await db
    .prepare(NEXT)
    .bind(after.at, after.event, until, most.events)
    .all<{ id: number; deliver_at: number; plan: string }>();
  const events: (AcceptedEvent & { deliverAt: number })[] = [];
  let room = most.deliveries;
  for (const { id, deliver_at: deliverAt, plan: text } of results) {
    const plan: string[] = JSON.parse(text);
    room -= plan.length;
    if (room < 0 && events.length > 0) return { events, more: true };
    events.push({ id, plan, deliverAt });
  }
  return { events, more: events.length === most.events };
}

/** The rows of the next `limit` events after `after`, whenever they are due, in the order of their times. */
export async function scheduledAfter(db: D1Database, after: Position, limit: number): Promise<number[]> {
  const { results } = await db
    .prepare(`SELECT id FROM (${NEXT}) ORDER BY deliver_at, id`)
    .bind(after.at, after.event, Number.MAX_SAFE_INTEGER, limit)
    .all<{ id: number }>();
  return results.map(({ id }) => id);
}

/** As many of the next as have no more than ?5 planned deliveries together, or one that has more by itself. */
const PAGE = `
  SELECT id, accepted_at, deliver_at, plan, events FROM (
    SELECT *, sum(json_array_length(plan)) OVER (ORDER BY deliver_at, id) AS planned, count(*) OVER () AS events
    FROM (${NEXT}))
  WHERE planned <= ?5 OR planned = json_array_length(plan)`;

const LOST = `
  WITH page AS MATERIALIZED (${PAGE}),
    last AS (SELECT deliver_at AS at, id AS upto FROM page ORDER BY deliver_at DESC, id DESC LIMIT 1)
  SELECT last.*, (SELECT count(*) FROM page) AS looked, (SELECT max(events) FROM page) AS events, lost.*
  FROM last LEFT JOIN (
    SELECT page.id AS event, p.value AS destination, accepted_at AS acceptedAt, deliver_at AS deliverAt
    FROM page JOIN json_each(page.plan) p
    WHERE NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.destination_id = p.value AND d.event_id = page.id)
  ) lost ON true`;

export type LostScheduled = Readonly<{
  /** Every plan up to this position has been checked; `after` when there was none. */
  upto: Position;
  /** Whether there is something to check after it already. */
  more: boolean;
  lost: readonly LostDelivery[];
}>;

/** Checks some events after `after` that were due by `horizon` (epoch ms). */
export async function findLostScheduled(
  db: D1Database,
  after: Position,
  horizon: number,
  most: Most,
): Promise<LostScheduled> {
  type Found = Omit<LostDelivery, "event"> & { event: number | null };
  type Row = Found & { at: number; upto: number; looked: number; events: number };
  const find = db.prepare(LOST).bind(after.at, after.event, horizon, most.events, most.deliveries);
  const { results } = await find.all<Row>();
  const [first] = results;
  if (!first) return { upto: after, more: false, lost: [] };
  const { at, upto, looked, events } = first;
  return {
    upto: { at, event: upto },
    more: events === most.events || events > looked,
    lost: lostOf(results),
  };
}
