/**
 * Recording outcomes of deliveries: one transaction for all outcomes of a batch in a database. Plain ones are bits of packs
 * (packs.ts), all others rows. A write may be repeated and may come late: a delivery that has ended does not change again,
 * a write that knows of fewer attempts than the row counts is ignored, and so is one that belongs to an earlier generation.
 *
 * The progress of replays is counted in the same transaction and under the same condition, so that a repeat is not counted
 * twice and a crash leaves none out. One statement writes one row for each replay in a batch of ends, and none for
 * deliveries that no replay has requeued.
 */
import { bundleOf, type DeliveryKey, deliveryName } from "../core/bundle.ts";
import { sharesOf } from "./bundles.ts";
import type { RawRow } from "./columns.ts";
import type { Databases } from "./databases.ts";
import { type DeliveryRecord, type DeliveryRow, storedRow } from "./delivery.ts";
import { nextInLines } from "./lines.ts";
import { ownNames, packedStateOf, settingBits, unset } from "./packs.ts";
import { inPortions } from "./sql.ts";
import { pauseStatements, type StatusChange, unpublishedChanges } from "./status-changes.ts";

/** SQL: whether a write still applies to a stored delivery, given the attempts and the generation that the write knows of. */
function isNewEnd(attempts: string, generation: string): string {
  return `deliveries.state IN ('waiting', 'retrying') AND deliveries.attempts <= ${attempts}
    AND deliveries.generation <= ${generation}`;
}

/** One upsert for any number of rows; its condition saves a read before the write, and a repeat writes nothing. */
const RECORD = `
  INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, next_attempt_at, generation,
    first_attempt_at, give_up_at, ended_at, last_status, last_error, log)
  SELECT value ->> 'destinationId', value ->> 'eventId', value ->> 'state', value ->> 'reason',
    value ->> 'attempts', value ->> 'nextAttemptAt', value ->> 'generation', value ->> 'firstAttemptAt', value ->> 'giveUpAt',
    value ->> 'endedAt', value ->> 'lastStatus', value ->> 'lastError', value -> 'log'
  FROM json_each(?1) WHERE true
  ON CONFLICT (destination_id, event_id) DO UPDATE SET
    state = excluded.state, reason = excluded.reason, attempts = excluded.attempts,
    next_attempt_at = excluded.next_attempt_at, first_attempt_at = excluded.first_attempt_at,
    give_up_at = excluded.give_up_at, ended_at = excluded.ended_at,
    last_status = excluded.last_status, last_error = excluded.last_error, log = excluded.log
  WHERE ${isNewEnd("excluded.attempts", "excluded.generation")}`;

type RecordedOutcomes = Readonly<{
  /** The pauses that this call, or an earlier try of it, has made. */
  paused: readonly StatusChange[];
  /** The first deliveries of the lines that have moved up. */
  next: readonly DeliveryKey[];
}>;

/**
 * Records outcomes in one transaction for each database, all at once. If one of them fails, each of the others is
 * harmless by itself: a pause without its delivery makes the delivery wait, and a delivery without its pause is
 * followed by another 410.
 * @param gone destinations that answered 410 and are to be paused
 * @param now epoch ms; the same at every repeat
 */
export async function recordOutcomes(
  databases: Databases,
  rows: readonly DeliveryRecord[],
  gone: readonly string[],
  now: number,
): Promise<RecordedOutcomes> {
  const written = await Promise.all(
    [...recordsByDatabase(databases, rows, gone)].map(([db, share]) =>
      recordIn(db, share.rows, share.gone.length === 0 ? [] : pausesOf(db, share.gone, now)),
    ),
  );
  return {
    paused: written.flatMap(({ paused }) => paused),
    next: written.flatMap(({ next }) => next),
  };
}

/** The rows by the databases that they are recorded in, and in the first of all the destinations to be paused. */
export function recordsByDatabase(
  databases: Databases,
  rows: readonly DeliveryRecord[],
  gone: readonly string[],
): ReadonlyMap<D1Database, Readonly<{ rows: readonly DeliveryRecord[]; gone: readonly string[] }>> {
  const { db: first } = databases;
  const shares = new Map(sharesOf(databases, rows, ({ eventId }) => eventId));
  if (gone.length > 0 && !shares.has(first)) shares.set(first, []);
  return new Map([...shares].map(([db, share]) => [db, { rows: share, gone: db === first ? gone : [] }]));
}

function pausesOf(first: D1Database, gone: readonly string[], now: number): D1PreparedStatement[] {
  return [pauseStatements(first, gone, "gone", now), unpublishedChanges(first, { ids: gone, at: now })];
}

/** @param pauses statements of which the last returns what they have changed */
async function recordIn(
  db: D1Database,
  rows: readonly DeliveryRecord[],
  pauses: readonly D1PreparedStatement[],
): Promise<RecordedOutcomes> {
  const { plain = [], own = [] } = Object.groupBy(rows, (row) => (packedStateOf(row) ? "plain" : "own"));
  const bits = settingBits(db, plain);
  const next = nextInLines(db, rows);
  const results = await db.batch<unknown>([...bits, ...recording(db, own), ...next, ...pauses]);
  const changed = results.slice(0, bits.length).flatMap(({ results }) => results as RawRow[]);
  await recordInRows(db, unset(plain, changed));
  const resultOf = (statements: readonly unknown[], at: number) =>
    statements.length > 0 ? (results.at(at)?.results ?? []) : [];
  return {
    paused: resultOf(pauses, -1) as StatusChange[],
    next: resultOf(next, -1 - pauses.length) as DeliveryKey[],
  };
}

/** Records in rows what could not be recorded in bits, because another worker or an operator has inserted the rows. */
async function recordInRows(db: D1Database, rows: readonly DeliveryRow[]): Promise<void> {
  if (rows.length === 0) return;
  const owned = await ownNames(
    db,
    rows.map(({ eventId, destinationId }) => [bundleOf(eventId), destinationId]),
  );
  const late = rows.filter((row) => owned.has(deliveryName(row)));
  if (late.length > 0) await db.batch(recording(db, late));
}

/**
 * Records rows, unless the stored state of a delivery is later.
 * @param after the statement after each one that records: `changes()` returns how many rows that has written
 */
export function recording(
  db: D1Database,
  rows: readonly DeliveryRow[],
  after: readonly D1PreparedStatement[] = [],
): D1PreparedStatement[] {
  const record = db.prepare(RECORD);
  const recorded = inPortions(rows.map(storedRow)).flatMap((json) => [record.bind(json), ...after]);
  return [...replayCountersOf(db, rows), ...recorded];
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

/** The state that a delivery must still have to end without an attempt: no sender holds it. */
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
export function countFailed(db: D1Database, state: StillState, keys: string, dueBy: number) {
  return db.prepare(COUNT_FAILED[state]).bind(keys, dueBy);
}
