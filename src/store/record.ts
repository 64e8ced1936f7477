/**
 * Writing outcomes: one transaction for everything a batch has to say of a database. A plain fate is a bit of a pack
 * (packs.ts), all else a row. Safe to repeat and safe against stragglers: a delivery that has ended never changes
 * again, and what knows of fewer attempts than the row already counts is too late to say anything. So is what knows of
 * an earlier life: the delivery has ended since and was made to wait again.
 */
import { bundleOf } from "../core/bundle.ts";
import { fateOf, ownNames, settingBits, unset } from "./packs.ts";
import { isNewEnd, replayCountersOf } from "./replay-tally.ts";
import type { RawRow } from "./row-model.ts";
import type { DeliveryRow } from "./schema.ts";
import { type Databases, sharesOf } from "./shards.ts";
import { pauseStatements, type StatusChange, unpublishedChanges } from "./status-changes.ts";

const RECORD = `
  INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, next_attempt_at, life,
    first_attempt_at, give_up_at, ended_at, last_status, last_error, log)
  SELECT value ->> 'destinationId', value ->> 'eventId', value ->> 'state', value ->> 'reason',
    value ->> 'attempts', value ->> 'nextAttemptAt', value ->> 'life', value ->> 'firstAttemptAt', value ->> 'giveUpAt',
    value ->> 'endedAt', value ->> 'lastStatus', value ->> 'lastError', value -> 'log'
  FROM json_each(?1) WHERE true
  ON CONFLICT (destination_id, event_id) DO UPDATE SET
    state = excluded.state, reason = excluded.reason, attempts = excluded.attempts,
    next_attempt_at = excluded.next_attempt_at, first_attempt_at = excluded.first_attempt_at,
    give_up_at = excluded.give_up_at, ended_at = excluded.ended_at,
    last_status = excluded.last_status, last_error = excluded.last_error, log = excluded.log
  WHERE ${isNewEnd("excluded.attempts", "excluded.life")}`;

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
  const shares = new Map(sharesOf(databases, rows, ({ eventId }) => eventId));
  if (gone.length > 0 && !shares.has(first)) shares.set(first, []);
  const pauses = gone.length === 0 ? [] : pausesOf(first, gone, now);
  const written = await Promise.all(
    [...shares].map(([db, share]) => recordIn(db, share, db === first ? pauses : [])),
  );
  return written.flat() as StatusChange[];
}

function pausesOf(first: D1Database, gone: readonly string[], now: number): D1PreparedStatement[] {
  return [pauseStatements(first, gone, "gone", now), unpublishedChanges(first, { ids: gone, at: now })];
}

/** Returns what the last of the statements `also` has brought. */
async function recordIn(
  db: D1Database,
  rows: readonly DeliveryRow[],
  also: readonly D1PreparedStatement[],
): Promise<readonly unknown[]> {
  const { plain = [], own = [] } = Object.groupBy(rows, (row) => (fateOf(row) ? "plain" : "own"));
  const results = await db.batch<RawRow>([
    ...(plain.length > 0 ? [settingBits(db, plain)] : []),
    ...(own.length > 0 ? recording(db, own) : []),
    ...also,
  ]);
  if (plain.length > 0) await recordOwned(db, unset(plain, results[0]?.results ?? []));
  return also.length > 0 ? (results.at(-1)?.results ?? []) : [];
}

/** Another worker, or a person, has given rows to some of what has a plain fate: then these have to tell of it. */
async function recordOwned(db: D1Database, rows: readonly DeliveryRow[]): Promise<void> {
  if (rows.length === 0) return;
  const owned = await ownNames(
    db,
    rows.map(({ eventId, destinationId }) => [bundleOf(eventId), destinationId]),
  );
  const late = rows.filter(({ eventId, destinationId }) => owned.has(`${eventId} ${destinationId}`));
  if (late.length > 0) await db.batch(recording(db, late));
}

function recording(db: D1Database, rows: readonly DeliveryRow[]): D1PreparedStatement[] {
  return [...replayCountersOf(db, rows), db.prepare(RECORD).bind(JSON.stringify(rows))];
}
