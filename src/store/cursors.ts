/** How far a walk over the events has got, from one sweep to the next. */

/** The last event looked at: its time, where the walk is in order of times, and its row. */
export type Position = Readonly<{ at: number; event: number }>;

/**
 * Which walk: `scheduled` sends for what falls due, `scheduled_checked` looks whether it arrived, `retention`
 * removes what is old, and `tombstones` deleted destinations in the order in which they were deleted.
 */
export type Walk = "scheduled" | "scheduled_checked" | "retention" | "tombstones";

const READ = "SELECT at, event_id AS event FROM cursors WHERE name = ?1";

/** Where the walk goes on: after this. */
export async function readCursor(db: D1Database, walk: Walk): Promise<Position> {
  return (await db.prepare(READ).bind(walk).first<Position>()) ?? { at: 0, event: 0 };
}

const MOVE_CURSOR = `
  INSERT INTO cursors (name, at, event_id) VALUES (?1, ?2, ?3)
  ON CONFLICT (name) DO UPDATE SET at = excluded.at, event_id = excluded.event_id`;

export async function moveCursor(db: D1Database, walk: Walk, { at, event }: Position): Promise<void> {
  await db.prepare(MOVE_CURSOR).bind(walk, at, event).run();
}
