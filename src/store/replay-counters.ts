import type { DeliveryRow } from "./delivery.ts";
/**
 * The progress of replays, counted where their deliveries end: in the same transaction as the write that ends them and
 * under the same condition, so that a repeat is not counted twice and a crash leaves none out. One statement writes one
 * row for each replay in a batch of ends, and none for deliveries that no replay has requeued.
 */

/** SQL: whether a write still applies to a stored delivery, given the attempts and the generation that the write knows of. */
export function isNewEnd(attempts: string, generation: string): string {
  return `deliveries.state IN ('waiting', 'retrying') AND deliveries.attempts <= ${attempts}
    AND deliveries.generation <= ${generation}`;
}

const COUNT_ENDS = `
  UPDATE replays SET delivered = delivered + ends.good, failed = failed + ends.bad
  FROM (
    SELECT deliveries.replay AS id, sum(v.value ->> 'state' = 'delivered') AS good,
      sum(v.value ->> 'state' <> 'delivered') AS bad
    FROM json_each(?1) v CROSS JOIN deliveries ON deliveries.destination_id = v.value ->> 'destinationId'
      AND deliveries.event_id = v.value ->> 'eventId'
    WHERE deliveries.replay IS NOT NULL AND ${isNewEnd("v.value ->> 'attempts'", "v.value ->> 'generation'")}
    GROUP BY deliveries.replay
  ) ends WHERE replays.id = ends.id`;

/** The statement to run right before the rows are recorded; none when no replayed delivery ends among them. */
export function replayCountersOf(db: D1Database, rows: readonly DeliveryRow[]): D1PreparedStatement[] {
  const ends = rows
    .filter(({ replay, endedAt }) => replay !== null && endedAt !== null)
    .map(({ destinationId, eventId, state, attempts, generation }) => ({
      destinationId,
      eventId,
      state,
      attempts,
      generation,
    }));
  return ends.length > 0 ? [db.prepare(COUNT_ENDS).bind(JSON.stringify(ends))] : [];
}

/** The state that a delivery must still have to end without an attempt: nobody holds it. */
export type StillState = "waiting" | "retrying";

/**
 * SQL: which deliveries of a list of `[destination, event]` wait, or are to be retried and not in flight, with an age limit
 * that is over by a time.
 */
export function isStill(state: StillState, list: string, dueBy: string): string {
  const unheld = state === "retrying" ? "AND reason IS NOT 'in_flight'" : "";
  return `(destination_id, event_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(${list}))
    AND state = '${state}' ${unheld} AND give_up_at <= ${dueBy}`;
}

const countFailedIn = (state: StillState) => `
  UPDATE replays SET failed = failed + ends.count
  FROM (
    SELECT replay AS id, count(*) AS count FROM deliveries
    WHERE ${isStill(state, "?1", "?2")} AND replay IS NOT NULL
    GROUP BY replay
  ) ends WHERE replays.id = ends.id`;

const COUNT_FAILED = { waiting: countFailedIn("waiting"), retrying: countFailedIn("retrying") };

/**
 * The statement to run right before deliveries are ended without an attempt: counts them as failed.
 * @param keys a JSON array of `[destination, event]`
 * @param dueBy epoch ms: counts only deliveries whose age limit is at or before it
 */
export function countFailed(
  db: D1Database,
  state: StillState,
  keys: string,
  dueBy: number,
): D1PreparedStatement {
  return db.prepare(COUNT_FAILED[state]).bind(keys, dueBy);
}
