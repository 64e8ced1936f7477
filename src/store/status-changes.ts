/**
 * Changes of destinations' statuses that have not been published.
 *
 * Every change of a status is also written to `status_changes`, by a trigger and so in the transaction that makes it,
 * independently of the caller and of whether the result arrives. It is removed in the transaction that stores the event
 * about it. Raw SQL, because these statements are put into other modules' batches.
 */

import type { PauseReason } from "../core/reasons.ts";
import { faultOf, type Log } from "../log.ts";
import { repeatable } from "./databases.ts";

/** Only destinations that are active: an operator may have paused or resumed them since. */
const PAUSE = `
  UPDATE destinations SET status = 'paused', status_reason = ?2, status_changed_at = ?3, updated_at = ?3
  WHERE status = 'active' AND deleted_at IS NULL AND id IN (SELECT value FROM json_each(?1))`;

/** The statement that pauses the destinations that are active. Repeat it with the same `now`. */
export function pauseStatements(
  db: D1Database,
  destinations: readonly string[],
  reason: PauseReason,
  now: number,
): D1PreparedStatement {
  return db.prepare(PAUSE).bind(JSON.stringify(destinations), reason, now);
}

/** A destination's new status, and the destination as it was then. */
export type StatusChange = Readonly<{
  id: string;
  tenant: string;
  url: string;
  status: "active" | "paused";
  /** A pause reason, unless an operator wrote the status by hand. */
  reason: string | null;
  /** Epoch ms. */
  changedAt: number;
  /** 1: its tenant gets a notice, if its notice channel includes pauses. */
  isNoticed?: 0 | 1;
}>;

/** The unpublished changes of some destinations at one time, or of all until a time; epoch ms. */
export type UnpublishedChanges = Readonly<{ ids: readonly string[]; at: number } | { until: number }>;

/** Changes published at once. */
const MOST = 50;

const COLUMNS = `destination_id AS id, tenant, url, status, reason, changed_at AS changedAt, EXISTS (
  SELECT 1 FROM notices n WHERE n.destination_id = status_changes.destination_id
    AND n.disabled_at = status_changes.changed_at) AS isNoticed`;
const OF_SOME = `
  SELECT ${COLUMNS} FROM status_changes
  WHERE changed_at = ?1 AND destination_id IN (SELECT value FROM json_each(?2))`;
const UNTIL = `
  SELECT ${COLUMNS} FROM status_changes WHERE changed_at <= ?1 ORDER BY changed_at LIMIT ${MOST}`;
const FORGET_CHANGES = repeatable(`
  DELETE FROM status_changes WHERE EXISTS (
    SELECT 1 FROM json_each(?1) t WHERE t.value ->> 'changedAt' = status_changes.changed_at
      AND t.value ->> 'id' = status_changes.destination_id AND t.value ->> 'status' = status_changes.status)
    AND changed_at BETWEEN ?2 AND ?3`);

/** The statement that finds unpublished changes, the oldest first. */
export function unpublishedChanges(db: D1Database, which: UnpublishedChanges): D1PreparedStatement {
  return "until" in which
    ? db.prepare(UNTIL).bind(which.until)
    : db.prepare(OF_SOME).bind(which.at, JSON.stringify(which.ids));
}

/** Recorded changes that have not been published. A failure is logged: the next cron publishes them. */
export async function findUnpublished(
  { db, log }: Readonly<{ db: D1Database; log: Log }>,
  wanted: UnpublishedChanges,
): Promise<readonly StatusChange[]> {
  try {
    return (await unpublishedChanges(db, wanted).all<StatusChange>()).results;
  } catch (error) {
    log({ what: "status_changes_unavailable", error: faultOf(error) });
    return [];
  }
}

/** The statements that remove changes, for the transaction that publishes them. Safe to repeat. */
export function forgetStatements(db: D1Database, changes: readonly StatusChange[]): D1PreparedStatement[] {
  if (changes.length === 0) return [];
  const times = changes.map(({ changedAt }) => changedAt);
  const published = JSON.stringify(changes.map(({ id, status, changedAt }) => ({ id, status, changedAt })));
  return [db.prepare(FORGET_CHANGES).bind(published, Math.min(...times), Math.max(...times))];
}
