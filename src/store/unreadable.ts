/**
 * Bundles that jobs could not read, in one table of the first database for all of them: so whether there is any costs one
 * query, and a bundle that every job meets again every minute is reported once.
 */

import { type BundleFault, readBundle, type UnreadableBundle } from "../core/stored-bundle.ts";
import { homeOfBundle, LISTED_BUNDLES } from "./bundles.ts";
import { type Databases, repeatable, select } from "./databases.ts";
import { countUpTo } from "./sql.ts";

const RECORD = `
  INSERT INTO unreadable_bundles (bundle_id, fault, found_at, checked_at)
  SELECT value ->> 'bundle', value ->> 'fault', ?2, ?2 FROM json_each(?1) WHERE true
  ON CONFLICT DO NOTHING RETURNING bundle_id AS bundle, fault`;

/** Records the bundles; returns those that were not recorded before. */
export async function recordUnreadable(
  first: D1Database,
  found: readonly UnreadableBundle[],
  now: number,
): Promise<readonly UnreadableBundle[]> {
  return select(first, RECORD, found, now);
}

const NEXT = `
  SELECT bundle_id AS bundle, fault FROM unreadable_bundles WHERE checked_at <= ?1 ORDER BY checked_at LIMIT ?2`;

/** The next `limit` recorded bundles that were last tried by then, epoch ms. */
export async function recordedBefore(
  first: D1Database,
  triedBy: number,
  limit: number,
): Promise<readonly UnreadableBundle[]> {
  return select(first, NEXT, triedBy, limit);
}

const FORGET = repeatable(
  "DELETE FROM unreadable_bundles WHERE bundle_id IN (SELECT value FROM json_each(?1))",
);

const TRIED = repeatable(
  "UPDATE unreadable_bundles SET checked_at = ?2 WHERE bundle_id IN (SELECT value FROM json_each(?1))",
);

/** Forgets bundles that can be read again, or are gone. */
export async function forgetUnreadable(first: D1Database, bundles: readonly number[]): Promise<void> {
  if (bundles.length > 0) await first.prepare(FORGET).bind(JSON.stringify(bundles)).run();
}

export async function markTried(first: D1Database, bundles: readonly number[], now: number): Promise<void> {
  if (bundles.length > 0) await first.prepare(TRIED).bind(JSON.stringify(bundles), now).run();
}

const STORED = `SELECT id, plan, header FROM ${LISTED_BUNDLES}`;

type Checked = Readonly<{
  /** The database of the bundle. */
  db: D1Database;
  /** The present fault of the bundle; undefined: nothing, or it is gone. */
  fault: BundleFault | undefined;
}>;

/** The present faults of the bundles. Bundles of databases that are not bound are left out. */
export async function unreadableFaultsOf(
  databases: Databases,
  bundles: readonly number[],
): Promise<ReadonlyMap<number, Checked>> {
  const faults = new Map<number, Checked>();
  for (const [db, ids] of Map.groupBy(bundles, (bundle) => homeOfBundle(databases, bundle))) {
    if (db === undefined) continue;
    type Row = { id: number; plan: string; header: string };
    const rows = new Map((await select<Row>(db, STORED, ids)).map((row) => [row.id, row]));
    for (const id of ids) {
      const row = rows.get(id);
      const read = row && readBundle(row);
      faults.set(id, { db, fault: read?.kind === "unreadable" ? read.fault : undefined });
    }
  }
  return faults;
}

/** Bundles counted at most. */
export const UNREADABLE_COUNTED = 1_000;

/** SQL: how many are recorded. */
export const COUNT_UNREADABLE = countUpTo(UNREADABLE_COUNTED, "unreadable_bundles");
