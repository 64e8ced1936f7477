/**
 * Trouble at destinations with a notice channel: a row for each, from the first report until nothing is left to report.
 * Every change raises the revision; a step changes only rows that are unchanged since it read them, so that two steps
 * never send the same hour's notice. Raw SQL, because reports merge in the statement that stores them.
 */
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { EndpointTrouble, NoticeMemory, NoticeState } from "../../core/notices.ts";
import { repeatable } from "../../store/databases.ts";
import { notices } from "../../store/schema.ts";

type Row = typeof notices.$inferSelect;

/** The memory of a destination's trouble. */
export type NoticeRow = NoticeState &
  Pick<Row, "failures" | "fault" | "revision" | "nextStepAt"> &
  Readonly<{ id: string }>;

export async function findNotice(db: D1Database, id: string): Promise<NoticeRow | undefined> {
  const row = await drizzle(db).select().from(notices).where(eq(notices.destinationId, id)).get();
  return (
    row && { ...row, id, notified: Array.isArray(row.notified) ? (row.notified as EndpointTrouble[]) : [] }
  );
}

/** Destinations whose next step was due by then, epoch ms. */
export async function lateNotices(db: D1Database, dueBy: number, limit: number): Promise<readonly string[]> {
  const sql =
    "SELECT destination_id AS id FROM notices WHERE next_step_at <= ?1 ORDER BY next_step_at LIMIT ?2";
  const { results } = await db.prepare(sql).bind(dueBy, limit).all<{ id: string }>();
  return results.map(({ id }) => id);
}

const REPORT = repeatable(`
  INSERT INTO notices (destination_id, opened_at, dead_at, next_step_at) VALUES (?1, ?2, ?3, ?4)
  ON CONFLICT (destination_id) DO UPDATE SET
    opened_at = CASE WHEN excluded.opened_at IS NULL THEN opened_at
      ELSE max(coalesce(opened_at, 0), excluded.opened_at) END,
    dead_at = CASE WHEN excluded.dead_at IS NULL THEN dead_at ELSE max(coalesce(dead_at, 0), excluded.dead_at) END,
    revision = revision + 1, next_step_at = min(next_step_at, excluded.next_step_at)
  RETURNING next_step_at AS at`);

const CLOSED = repeatable(`
  UPDATE notices SET opened_at = NULL, revision = revision + 1, next_step_at = min(next_step_at, ?2)
  WHERE destination_id = ?1 AND coalesce(opened_at, 0) <= ?2 RETURNING next_step_at AS at`);

/** A report: its circuit has opened, or deliveries have ended dead, at that time. The next step is due then at the latest. */
type TroubleReport = Readonly<{ openedAt?: number; deadAt?: number; dueAt: number }>;

/** Stores a report; returns when the next step is due. Safe to repeat. */
export async function reportTrouble(db: D1Database, id: string, { openedAt, deadAt, dueAt }: TroubleReport) {
  const bound = db.prepare(REPORT).bind(id, openedAt ?? null, deadAt ?? null, dueAt);
  return (await bound.first<{ at: number }>())?.at;
}

/** Its circuit has closed at that time, epoch ms; returns when the next step is due, if there is trouble to end. */
export async function reportClosed(db: D1Database, id: string, closedAt: number) {
  return (await db.prepare(CLOSED).bind(id, closedAt).first<{ at: number }>())?.at;
}

type Seen = Pick<NoticeRow, "id" | "revision">;

/** Whether the row was as it has been read. */
async function wasChanged(statement: D1PreparedStatement): Promise<boolean> {
  return ((await statement.run()).meta.changes ?? 0) > 0;
}

export function forgetNotice(db: D1Database, { id, revision }: Seen): Promise<boolean> {
  return wasChanged(
    db.prepare("DELETE FROM notices WHERE destination_id = ?1 AND revision = ?2").bind(id, revision),
  );
}

const SAVE = `
  UPDATE notices SET notified = ?3, opened_at = ?4, dead_at = ?5, next_step_at = ?6, revision = revision + 1
  WHERE destination_id = ?1 AND revision = ?2`;

/** Stores where the next step continues. */
export function postponeNotice(
  db: D1Database,
  { id, revision }: Seen,
  { notified, openedAt, deadAt }: NoticeMemory,
  nextStepAt: number,
): Promise<boolean> {
  return wasChanged(
    db.prepare(SAVE).bind(id, revision, JSON.stringify(notified), openedAt, deadAt, nextStepAt),
  );
}

/**
 * Claims the right to send a notice now: false when another has claimed it, or something was reported meanwhile. If this
 * invocation dies, the next step comes when the next notice is allowed.
 */
export function claimNotice(db: D1Database, { id, revision }: Seen, now: number, nextStepAt: number) {
  const sql = `
    UPDATE notices SET sent_at = ?3, next_step_at = ?4, revision = revision + 1
    WHERE destination_id = ?1 AND revision = ?2`;
  return wasChanged(db.prepare(sql).bind(id, revision, now, nextStepAt));
}

/** The claimed notice has been sent. Reports since the claim stay. */
export async function markNoticeSent(
  db: D1Database,
  id: string,
  claimedAt: number,
  { notified, openedAt, deadAt }: NoticeMemory,
): Promise<void> {
  const sql = `
    UPDATE notices SET notified = ?3, dead_at = CASE WHEN dead_at > ?2 THEN dead_at ELSE ?4 END,
      opened_at = CASE WHEN opened_at > ?2 THEN opened_at ELSE ?5 END, failures = 0, fault = NULL, revision = revision + 1 WHERE destination_id = ?1 AND sent_at = ?2`;
  await db.prepare(sql).bind(id, claimedAt, JSON.stringify(notified), deadAt, openedAt).run();
}

/**
 * The claimed notice has failed.
 * @param before the time of the last notice, where the channel has certainly not taken this one
 */
export async function markNoticeFailed(
  db: D1Database,
  id: string,
  claimedAt: number,
  { fault, before, nextStepAt }: Readonly<{ fault: string; before: number; nextStepAt: number }>,
): Promise<void> {
  const sql = `
    UPDATE notices SET sent_at = ?3, fault = ?4, next_step_at = ?5, failures = failures + 1, revision = revision + 1
    WHERE destination_id = ?1 AND sent_at = ?2`;
  await db.prepare(sql).bind(id, claimedAt, before, fault, nextStepAt).run();
}
