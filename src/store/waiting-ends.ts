/**
 * The ends of what waits, without an attempt: its age limit is over, its destination is deleted, or its event
 * is gone. Looked for first, then ended together with the count of the replays that set it to wait.
 */
import { tallyFailed } from "./replay-tally.ts";
import { type Databases, sharesOf } from "./shards.ts";

type End = Readonly<{
  state: "dead" | "cancelled";
  because: string;
  /** Ends only what may not be delivered after this, epoch ms. */
  dueBy?: number;
}>;

const END = `
  UPDATE deliveries SET state = ?3, because = ?4, next_attempt_at = NULL, ended_at = ?5
  WHERE destination_id = ?1 AND event_id IN (SELECT value FROM json_each(?2))
    AND state = 'waiting' AND give_up_at <= ?6`;

/** Ends what still waits of these; returns how many. */
async function endWaiting(
  db: D1Database,
  destination: string,
  events: readonly number[],
  { state, because, dueBy = Number.MAX_SAFE_INTEGER }: End,
  now: number,
): Promise<number> {
  if (events.length === 0) return 0;
  const [, ended] = await db.batch([
    tallyFailed(db, destination, events, dueBy),
    db.prepare(END).bind(destination, JSON.stringify(events), state, because, now, dueBy),
  ]);
  return ended?.meta.changes ?? 0;
}

const SOME = "SELECT event_id FROM deliveries WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2";

/** Cancels up to `limit` waiting deliveries of a deleted destination; returns how many. */
export async function cancelWaiting(
  db: D1Database,
  destination: string,
  now: number,
  limit: number,
): Promise<number> {
  const events = await eventsOf(db.prepare(SOME).bind(destination, limit));
  return endWaiting(db, destination, events, { state: "cancelled", because: "destination_deleted" }, now);
}

const ORPHANS = `
  SELECT value AS event_id FROM json_each(?1)
  WHERE NOT EXISTS (SELECT 1 FROM events WHERE events.id = value)`;

/** Ends those of the waiting deliveries whose event somebody has removed, for which nothing is left to send; how many. */
export async function buryOrphans(
  databases: Databases,
  destination: string,
  events: readonly number[],
  now: number,
): Promise<number> {
  const shares = sharesOf(databases, events, (event) => event);
  const buried = [...shares].map(async ([db, share]) => {
    const orphans = await eventsOf(db.prepare(ORPHANS).bind(JSON.stringify(share)));
    return endWaiting(db, destination, orphans, { state: "dead", because: "event_removed" }, now);
  });
  return (await Promise.all(buried)).reduce((sum, count) => sum + count, 0);
}

/** The index is named, because the planner would rather walk all that the destination ever had. */
const OVERDUE = `
  SELECT event_id FROM (
    SELECT event_id, give_up_at FROM deliveries INDEXED BY deliveries_waiting
    WHERE destination_id = ?1 AND state = 'waiting' ORDER BY event_id LIMIT ?3
  ) WHERE give_up_at <= ?2`;

/** Ends those of the `limit` oldest waiting deliveries whose age limit is over; returns how many. */
export async function expireWaiting(
  db: D1Database,
  destination: string,
  now: number,
  limit: number,
): Promise<number> {
  const events = await eventsOf(db.prepare(OVERDUE).bind(destination, now, limit));
  return endWaiting(db, destination, events, { state: "dead", because: "expired", dueBy: now }, now);
}

async function eventsOf(statement: D1PreparedStatement): Promise<number[]> {
  const { results } = await statement.all<{ event_id: number }>();
  return results.map(({ event_id }) => event_id);
}
