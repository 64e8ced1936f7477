/** The databases of this test run: the first, and further ones in runs with several. */

import { env } from "cloudflare:workers";
import { getTableName } from "drizzle-orm";
import { furtherDatabases } from "../../src/store/databases.ts";
import { destinations } from "../../src/store/destination.ts";
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

/** Destinations first: removing one writes to `tenants` by a trigger. */
const tables = [destinations, ...Object.values({ ...settings, ...events })].map((table) =>
  getTableName(table),
);

/** Empties every table in all databases. */
export async function emptyDatabase(): Promise<void> {
  await Promise.all(
    testDatabases.map((db) => db.batch(tables.map((table) => db.prepare(`DELETE FROM ${table}`)))),
  );
}
