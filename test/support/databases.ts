/** The databases of this test run: the first, and further ones in runs with several. */

import { env } from "cloudflare:workers";
import { getTableName } from "drizzle-orm";
import { furtherDatabases } from "../../src/store/databases.ts";
import { destinations } from "../../src/store/destination.ts";
import { groups, sharedHosts } from "../../src/store/group.ts";
import * as settings from "../../src/store/schema.ts";
import * as events from "../../src/store/tables.ts";

export const testDatabases: readonly D1Database[] = [env.DB, ...furtherDatabases(env)];

/** The rows that the statement finds in all databases. */
export async function rowsOfAll<T>(sql: string, ...values: readonly unknown[]): Promise<T[]> {
  const answers = await Promise.all(
    testDatabases.map((db) =>
      db
        .prepare(sql)
        .bind(...values)
        .all<T>(),
    ),
  );
  return answers.flatMap(({ results }) => results);
}

/**
 * Caches a reading of the databases until rows have been written, by SQLite's own count: it rises with each row that is
 * inserted, updated or deleted, even if the transaction is rolled back.
 */
export function unlessWritten<T>(read: () => Promise<T>): () => Promise<T> {
  let last: Readonly<{ written: string; value: T }> | undefined;
  return async () => {
    const counts = await rowsOfAll<{ rows: number }>("SELECT total_changes() AS rows");
    const written = counts.map(({ rows }) => rows).join();
    if (last?.written !== written) last = { written, value: await read() };
    return last.value;
  };
}

/** Destinations come first: removing one writes to `tenants` by a trigger. */
const tables = [destinations, groups, sharedHosts, ...Object.values({ ...settings, ...events })].map(
  (table) => getTableName(table),
);

/** One statement, because in the simulator separate ones cost more than deleting the few rows that a test has left. */
const EMPTYING = tables.map((table) => `DELETE FROM ${table}`).join(";");

/** Empties every table of a database. */
export async function emptied(db: D1Database): Promise<void> {
  await db.prepare(EMPTYING).run();
}

/** Empties every table in all databases. */
export async function emptyDatabase(): Promise<void> {
  await Promise.all(testDatabases.map(emptied));
}

const SCHEMA = `
  SELECT json_group_array(json_array(type, name, sql)) AS schema
  FROM (SELECT type, name, sql FROM sqlite_schema WHERE name NOT GLOB '_cf_*' ORDER BY type, name)`;

/** The schemas of the databases after the migrations: test files share a Worker, and this module. */
const migrated = new Map<D1Database, string>();

async function schemaOf(db: D1Database): Promise<string> {
  return (await db.prepare(SCHEMA).first<string>("schema")) ?? "";
}

/** Whether the schema is still as it was after the migrations. */
export async function isMigrated(db: D1Database): Promise<boolean> {
  return migrated.get(db) === (await schemaOf(db));
}

/** Records that all migrations have been applied. */
export async function noteMigrated(db: D1Database): Promise<void> {
  migrated.set(db, await schemaOf(db));
}
