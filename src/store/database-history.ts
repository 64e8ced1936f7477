/**
 * The history of how many databases take new events, in the first database. Where a key or a repeated message was stored
 * follows from it, so no other database is asked. The cron writes it; a change comes into effect some time after it was
 * stored, in all isolates at the same moment, whatever their configuration says.
 */
import { CHANGE_MARGIN_MS, type DatabaseCount } from "../core/placement.ts";
import { allOf, type Databases } from "./shards.ts";

const HISTORY = "SELECT count, since FROM database_history ORDER BY since";

/** In order of time; empty until it is first written. */
export async function databaseHistory(db: D1Database): Promise<readonly DatabaseCount[]> {
  const { results } = await db.prepare(HISTORY).all<DatabaseCount>();
  return results;
}

/** Only where another number was stored last, and that is in effect: so two versions that run side by side add few rows. */
const CHANGE = `
  INSERT INTO database_history (since, count) SELECT ?2 + ${CHANGE_MARGIN_MS}, ?1 FROM database_history
  WHERE since = (SELECT max(since) FROM database_history) AND since <= ?2 AND count <> ?1 ON CONFLICT DO NOTHING`;

const BEGIN = `
  INSERT INTO database_history (since, count) SELECT ?2, ?1
  WHERE NOT EXISTS (SELECT 1 FROM database_history) ON CONFLICT DO NOTHING`;

/** Those that were followed by another before the time. */
const FORGET = `
  DELETE FROM database_history WHERE since < (SELECT max(since) FROM database_history WHERE since <= ?1)`;

/**
 * Stores that so many databases are to take new events. Costs a row where that has changed.
 * @param forgottenAt what was in effect only before is removed, epoch ms
 */
export async function storeDatabaseCount(
  databases: Databases,
  count: number,
  now: number,
  forgottenAt: number,
): Promise<void> {
  const { db } = databases;
  const [last] = await db.batch<DatabaseCount>([
    db.prepare("SELECT count, since FROM database_history ORDER BY since DESC LIMIT 1"),
    db.prepare(CHANGE).bind(count, now),
    db.prepare(FORGET).bind(forgottenAt),
  ]);
  if (last?.results.length) return;
  await db
    .prepare(BEGIN)
    .bind(count, (await isEmpty(databases)) ? 0 : now)
    .run();
}

/** Whether nothing has ever been stored: then the history is known from its beginning. */
async function isEmpty(databases: Databases): Promise<boolean> {
  const found = await Promise.all(
    allOf(databases).map((db) => db.prepare("SELECT max(id) AS id FROM bundles").first<number>("id")),
  );
  return found.every((id) => id === null);
}
