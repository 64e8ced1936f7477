/** How the machinery itself is doing, as far as D1 knows: one round trip and a few rows. */

/** What one D1 database may hold. */
export const DATABASE_BYTES = 10_000_000_000;

const VITALS = `
  SELECT (SELECT heartbeat_at FROM sweeps WHERE id = 1) AS heartbeatAt,
    (SELECT min(next_attempt_at) FROM deliveries WHERE state = 'retrying') AS oldestDueAt,
    (SELECT count FROM counts WHERE name = 'deduplicated') AS deduplicated`;

export type Vitals = Readonly<{
  /** When a sweep last got through, epoch ms; null before the first. */
  heartbeatAt: number | null;
  /** When the retry that is due first was or is due, epoch ms. */
  oldestDueAt: number | null;
  /** Requests that were answered from what had been stored before. */
  deduplicated: number;
  databaseBytes: number;
}>;

export async function readVitals(db: D1Database): Promise<Vitals> {
  const { results, meta } = await db.prepare(VITALS).all<Omit<Vitals, "databaseBytes">>();
  const [row] = results;
  return {
    heartbeatAt: row?.heartbeatAt ?? null,
    oldestDueAt: row?.oldestDueAt ?? null,
    deduplicated: row?.deduplicated ?? 0,
    databaseBytes: meta.size_after,
  };
}
