/**
 * Writing outcomes: one statement for everything a batch has to say of a database. Safe to repeat and safe against
 * stragglers: a delivery that has ended never changes again, and what knows of fewer attempts than the
 * row already counts is too late to say anything. So is what knows of an earlier life: the delivery has ended
 * since and was made to wait again.
 */
import { isNews, tallyOf } from "./replay-tally.ts";
import { type Databases, sharesOf } from "./shards.ts";
import { pausing, type StatusChange, untoldChanges } from "./status-changes.ts";
import type { DeliveryRow } from "./work.ts";

const RECORD = `
  INSERT INTO deliveries (destination_id, event_id, state, because, attempts, next_attempt_at, life,
    first_attempt_at, give_up_at, ended_at, last_status, last_error, log)
  SELECT value ->> 'destinationId', value ->> 'eventId', value ->> 'state', value ->> 'because',
    value ->> 'attempts', value ->> 'nextAttemptAt', value ->> 'life', value ->> 'firstAttemptAt', value ->> 'giveUpAt',
    value ->> 'endedAt', value ->> 'lastStatus', value ->> 'lastError', value -> 'log'
  FROM json_each(?1) WHERE true
  ON CONFLICT (destination_id, event_id) DO UPDATE SET
    state = excluded.state, because = excluded.because, attempts = excluded.attempts,
    next_attempt_at = excluded.next_attempt_at, first_attempt_at = excluded.first_attempt_at,
    give_up_at = excluded.give_up_at, ended_at = excluded.ended_at,
    last_status = excluded.last_status, last_error = excluded.last_error, log = excluded.log
  WHERE ${isNews("excluded.attempts", "excluded.life")}`;

/**
 * One transaction in each database, all at once. What is lost when one of them fails is harmless by itself: a
 * pause without its delivery makes that wait, and a delivery without its pause is followed by another 410.
 * Returns the pauses that this write, or an earlier try of it, has made.
 * @param gone destinations that answered 410 and are to be paused
 * @param now epoch ms; the same at every repeat
 */
export async function recordOutcomes(
  databases: Databases,
  rows: readonly DeliveryRow[],
  gone: readonly string[],
  now: number,
): Promise<readonly StatusChange[]> {
  const { db: first } = databases;
  const shares = sharesOf(databases, rows, ({ eventId }) => eventId);
  const writes = new Map([...shares].map(([db, share]) => [db, recording(db, share)]));
  if (gone.length > 0) {
    const paused = untoldChanges(first, { ids: gone, at: now });
    writes.set(first, [...(writes.get(first) ?? []), pausing(first, gone, "gone", now), paused]);
  }
  const written = [...writes].map(async ([db, statements]) => ({ db, results: await db.batch(statements) }));
  const inFirst = (await Promise.all(written)).find(({ db }) => db === first);
  return gone.length > 0 ? ((inFirst?.results.at(-1)?.results ?? []) as StatusChange[]) : [];
}

function recording(db: D1Database, rows: readonly DeliveryRow[]): D1PreparedStatement[] {
  return [...tallyOf(db, rows), db.prepare(RECORD).bind(JSON.stringify(rows))];
}
