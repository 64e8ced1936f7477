/** Pausing destinations because of what they answer. Only those that are active: a person may have decided since. */

const PAUSE = `
  UPDATE destinations SET status = 'paused', status_reason = ?2, status_changed_at = ?3, updated_at = ?3
  WHERE status = 'active' AND deleted_at IS NULL AND id IN (SELECT value FROM json_each(?1))
  RETURNING id`;

/** The statement; it returns the ids of those that it has paused. */
export function pausing(
  db: D1Database,
  destinations: readonly string[],
  because: string,
  now: number,
): D1PreparedStatement {
  return db.prepare(PAUSE).bind(JSON.stringify(destinations), because, now);
}
