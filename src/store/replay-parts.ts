/**
 * A replay over several databases. The job is its row in the first, and is also its part there. In each of
 * the others a row of the same id is the part: what it means there, how far it has come, how much has ended,
 * each in one transaction with the deliveries. The parts are worked off one after the other, that of the
 * first database last: when that is over, the replay is.
 */

import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { idRangeOf } from "./moments.ts";
import { beginReplay, LARGEST } from "./replay-steps.ts";
import type { Replay } from "./replays.ts";
import { replays } from "./schema.ts";
import type { Databases } from "./shards.ts";

/** `replay` is the row in `db`. */
export type Part = Readonly<{ db: D1Database; replay: Replay }>;

/** The parts in the order in which they are worked off. One that has not been begun, or was lost, begins. */
export async function partsOf(
  { db: first, further = [] }: Databases,
  job: Replay,
  keptMs: number,
): Promise<readonly Part[]> {
  const others = further.map(async (db) => {
    const [known] = await partsIn(db, [job.id]);
    const replay = known ?? (await beginPart(db, job, keptMs));
    return replay ? [{ db, replay }] : [];
  });
  return [...(await Promise.all(others)).flat(), { db: first, replay: job }];
}

/** The job with the counts of all its parts, its own among them. */
export function summedUp(job: Replay, parts: readonly Replay[]): Replay {
  const sum = (count: (part: Replay) => number) => parts.reduce((all, part) => all + count(part), 0);
  return {
    ...job,
    total: sum(({ total }) => total),
    moved: sum(({ moved }) => moved),
    delivered: sum(({ delivered }) => delivered),
    failed: sum(({ failed }) => failed),
  };
}

/** The jobs with the counts of all their parts. */
export async function withParts({ further = [] }: Databases, jobs: readonly Replay[]): Promise<Replay[]> {
  const ids = jobs.map(({ id }) => id);
  const others = (await Promise.all(further.map((db) => partsIn(db, ids)))).flat();
  const parts = Map.groupBy([...jobs, ...others], ({ id }) => id);
  return jobs.map((job) => summedUp(job, parts.get(job.id) ?? []));
}

async function partsIn(db: D1Database, ids: readonly string[]): Promise<Replay[]> {
  if (ids.length === 0) return [];
  return drizzle(db)
    .select()
    .from(replays)
    .where(sql`${replays.id} IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`);
}

/** The first database lets a destination have one replay at a time: what an earlier one has left here is over. */
const CLOSE = `
  UPDATE replays SET state = 'cancelled' WHERE destination_id = ?1 AND id <> ?2 AND state IN ('running', 'paused')`;

async function beginPart(db: D1Database, job: Replay, keptMs: number): Promise<Replay | undefined> {
  const range = await idRangeOf(db, job);
  await db.prepare(CLOSE).bind(job.destinationId, job.id).run();
  return beginReplay(db, { ...job, cursor: range.first - 1 }, range, LARGEST, keptMs);
}
