/**
 * A replay's progress, counted where its deliveries end: in the same transaction as the write that ends them, by the
 * same guard, so that no repeat is counted twice and no crash leaves one out. A row is written for each batch of
 * ends, and none for deliveries that no replay has requeued.
 */
import type { DeliveryRow } from "./schema.ts";

/** Whether what is said of a stored delivery is not too late, given what it says itself. */
export function isNewEnd(attempts: string, life: string): string {
  return `deliveries.state IN ('waiting', 'retrying') AND deliveries.attempts <= ${attempts}
    AND deliveries.life <= ${life}`;
}

const TALLY = `
  UPDATE replays SET delivered = delivered + ends.good, failed = failed + ends.bad
  FROM (
    SELECT deliveries.replay AS id, sum(v.value ->> 'state' = 'delivered') AS good,
      sum(v.value ->> 'state' <> 'delivered') AS bad
    FROM json_each(?1) v CROSS JOIN deliveries ON deliveries.destination_id = v.value ->> 'destinationId'
      AND deliveries.event_id = v.value ->> 'eventId'
    WHERE deliveries.replay IS NOT NULL AND ${isNewEnd("v.value ->> 'attempts'", "v.value ->> 'life'")}
    GROUP BY deliveries.replay
  ) ends WHERE replays.id = ends.id`;

/** To be run right before the rows are recorded; nothing when no replayed delivery ends among them. */
export function replayCountersOf(db: D1Database, rows: readonly DeliveryRow[]): D1PreparedStatement[] {
  const ends = rows
    .filter(({ replay, endedAt }) => replay !== null && endedAt !== null)
    .map(({ destinationId, eventId, state, attempts, life }) => ({
      destinationId,
      eventId,
      state,
      attempts,
      life,
    }));
  return ends.length > 0 ? [db.prepare(TALLY).bind(JSON.stringify(ends))] : [];
}

/**
 * To be run right before waiting deliveries are ended without an attempt: counts them as failed.
 * @param keys a JSON array of `[destination, event]`
 * @param dueBy only what may not be delivered after this, epoch ms
 */
export function countFailed(db: D1Database, keys: string, dueBy: number): D1PreparedStatement {
  return db.prepare(TALLY_FAILED).bind(keys, dueBy);
}

const TALLY_FAILED = `
  UPDATE replays SET failed = failed + ends.count
  FROM (
    SELECT replay AS id, count(*) AS count FROM deliveries
    WHERE (destination_id, event_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
      AND state = 'waiting' AND give_up_at <= ?2 AND replay IS NOT NULL
    GROUP BY replay
  ) ends WHERE replays.id = ends.id`;
