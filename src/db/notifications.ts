/**
 * Changes of a destination's status: pausing it for what it answers, and the changes that nobody has been told of.
 *
 * Every change is also kept in `status_changes`, by a trigger and so in the transaction that makes it, whoever makes
 * it and whatever becomes of D1's answer. It is removed in the transaction that stores the event which tells of it.
 */
import { HOUR_MS } from "../core/rollups.ts";

/** Only those that are active: a person may have decided since. */
const PAUSE = `
  UPDATE destinations SET status = 'paused', status_reason = ?2, status_changed_at = ?3, updated_at = ?3
  WHERE status = 'active' AND deleted_at IS NULL AND id IN (SELECT value FROM json_each(?1))`;

/** The statement that pauses those of the destinations that are active. Repeat it with the same `now`. */
export function pauseStatements(
  db: D1Database,
  destinations: readonly string[],
  reason: string,
  now: number,
): D1PreparedStatement {
  return db.prepare(PAUSE).bind(JSON.stringify(destinations), reason, now);
}

/** A destination's new status, as it was when that changed. */
export type StatusChange = Readonly<{
  id: string;
  tenant: string;
  url: string;
  status: "active" | "paused";
  reason: string | null;
  /** Epoch ms. */
  changedAt: number;
}>;

/** The changes of some destinations at one time (epoch ms), or all that are at least as old as a time. */
export type UnpublishedChanges = Readonly<{ ids: readonly string[]; at: number } | { until: number }>;

/** Changes told at once. */
const MOST = 50;

const COLUMNS = "destination_id AS id, tenant, url, status, reason, changed_at AS changedAt";
const OF_SOME = `
  SELECT ${COLUMNS} FROM status_changes
  WHERE changed_at = ?1 AND destination_id IN (SELECT value FROM json_each(?2))`;
const UNTIL = `
  SELECT ${COLUMNS} FROM status_changes WHERE changed_at <= ?1 ORDER BY changed_at LIMIT ${MOST}`;
const TOLD = `
  DELETE FROM status_changes WHERE EXISTS (
    SELECT 1 FROM json_each(?1) t WHERE t.value ->> 'changedAt' = status_changes.changed_at
      AND t.value ->> 'id' = status_changes.destination_id AND t.value ->> 'status' = status_changes.status)
    AND changed_at BETWEEN ?2 AND ?3`;

/** The statement that finds changes that have not been told, the oldest first. */
export function unpublishedChanges(db: D1Database, untold: UnpublishedChanges): D1PreparedStatement {
  return "until" in untold
    ? db.prepare(UNTIL).bind(untold.until)
    : db.prepare(OF_SOME).bind(untold.at, JSON.stringify(untold.ids));
}

/** The statements that forget changes, because they are told. Safe to repeat. */
export function forgetStatements(db: D1Database, changes: readonly StatusChange[]): D1PreparedStatement[] {
  if (changes.length === 0) return [];
  const times = changes.map(({ changedAt }) => changedAt);
  const told = JSON.stringify(changes.map(({ id, status, changedAt }) => ({ id, status, changedAt })));
  return [db.prepare(TOLD).bind(told, Math.min(...times), Math.max(...times))];
}

// §§ Which mails went out within the hour, so that whatever happens there are few. The table is as small as that.

/** Mails an hour, about everything together. */
export const MAILS_AN_HOUR = 20;

const FORGET = "DELETE FROM mails WHERE sent_at <= ?1";
const CLAIM = `
  INSERT INTO mails (about, sent_at) SELECT ?1, ?2 WHERE (SELECT count(*) FROM mails) < ?3
  ON CONFLICT (about) DO NOTHING`;

/** Whether a mail about this may go out now; if so, none about the same may within the hour. */
export async function claimMail(db: D1Database, about: string, now: number): Promise<boolean> {
  const [, claimed] = await db.batch([
    db.prepare(FORGET).bind(now - HOUR_MS),
    db.prepare(CLAIM).bind(about, now, MAILS_AN_HOUR),
  ]);
  return (claimed?.meta.changes ?? 0) > 0;
}

// §§ Events of Breakwater's own, for the operator: ordinary events of a tenant that is reserved for them.

/** The reserved tenant. */
export const OPERATOR = "operator";

/** Whether the operator has a destination for them. */
export async function isOperatorListening(db: D1Database): Promise<boolean> {
  const listening = "SELECT 1 FROM destinations d WHERE d.tenant = ?1 AND d.deleted_at IS NULL";
  return (await db.prepare(listening).bind(OPERATOR).first()) !== null;
}
