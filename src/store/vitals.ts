/** How the machinery itself is doing, as far as D1 knows: one round trip to each database, and a few rows. */
import { allOf, type Databases } from "./shards.ts";

/** What one D1 database may hold. */
const DATABASE_BYTES = 10_000_000_000;

const VITALS = `
  SELECT (SELECT heartbeat_at FROM sweeps WHERE id = 1 AND heartbeat_at > 0) AS heartbeatAt,
    (SELECT min(at) FROM (
      SELECT min(next_attempt_at) AS at FROM deliveries WHERE state = 'retrying'
      UNION ALL SELECT min(recover_at) FROM packs WHERE recover_at IS NOT NULL)) AS oldestDueAt,
    coalesce((SELECT count FROM counts WHERE name = 'deduplicated'), 0) AS deduplicated,
    coalesce((SELECT count FROM counts WHERE name = 'keyed'), 0) AS keyed`;

/** How full a database is. */
export type Fullness = Readonly<{
  /** As it is bound: `DB`, `DB_1` and so on. */
  name: string;
  bytes: number;
  /** What it may still grow by. */
  headroomBytes: number;
}>;

export type SystemHealth = Readonly<{
  /** When a sweep last got through, epoch ms; null before the first. */
  heartbeatAt: number | null;
  /** When the retry that is due first was or is due, epoch ms. */
  oldestDueAt: number | null;
  /** Requests that were answered from what had been stored before. */
  deduplicated: number;
  /** Requests that were stored under a key. */
  keyed: number;
  databases: readonly Fullness[];
}>;

export async function readSystemHealth(databases: Databases): Promise<SystemHealth> {
  const answers = await Promise.all(
    allOf(databases).map((db) => db.prepare(VITALS).all<Omit<SystemHealth, "databases">>()),
  );
  const rows = answers.flatMap(({ results }) => results);
  const due = rows.flatMap(({ oldestDueAt }) => oldestDueAt ?? []);
  return {
    heartbeatAt: rows[0]?.heartbeatAt ?? null,
    oldestDueAt: due.length > 0 ? Math.min(...due) : null,
    deduplicated: rows[0]?.deduplicated ?? 0,
    keyed: rows.reduce((sum, { keyed }) => sum + keyed, 0),
    databases: answers.map(({ meta }, number) => fullnessOf(number, meta.size_after)),
  };
}

function fullnessOf(number: number, bytes: number): Fullness {
  const name = number === 0 ? "DB" : `DB_${number}`;
  return { name, bytes, headroomBytes: Math.max(0, DATABASE_BYTES - bytes) };
}
