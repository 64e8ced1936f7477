/** How deep backlogs were when the watch looked: what growth is told by. A row for each look of the last hour. */

import { HOUR_MS } from "../policy/tallies.ts";
import type { BacklogSnapshot } from "../policy/thresholds.ts";

const SAVE = `
  INSERT INTO backlog_snapshots (at, backlogs) VALUES (?1, ?2) ON CONFLICT (at) DO UPDATE SET backlogs = excluded.backlogs`;

/** Looks of the last hour, without the one that is saved with this; safe to repeat. One round trip. */
export async function saveBacklogSnapshot(
  db: D1Database,
  { at, backlogs }: BacklogSnapshot,
): Promise<readonly BacklogSnapshot[]> {
  const [, found] = await db.batch<{ at: number; backlogs: string }>([
    db.prepare("DELETE FROM backlog_snapshots WHERE at <= ?1 OR at > ?2").bind(at - HOUR_MS, at),
    db.prepare("SELECT at, backlogs FROM backlog_snapshots WHERE at < ?1").bind(at),
    db.prepare(SAVE).bind(at, JSON.stringify(backlogs)),
  ]);
  return (found?.results ?? []).map((look) => ({ at: look.at, backlogs: JSON.parse(look.backlogs) }));
}
