/** The databases that the tests of this run have: the first, and those beyond it where the run is about several. */

import { env } from "cloudflare:workers";
import { getTableName } from "drizzle-orm";
import * as schema from "../../src/db/schema.ts";
import { furtherDatabases } from "../../src/db/shards.ts";

export const testDatabases: readonly D1Database[] = [env.DB, ...furtherDatabases(env).further];

/** What the statement finds in all of them. */
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

const { destinations, ...others } = schema;
/** Destinations first: a trigger writes to `tenants` when one is removed. */
const tables = [destinations, ...Object.values(others)].map((table) => getTableName(table));

/** Empties every table in all of them. */
export async function emptyDatabase(): Promise<void> {
  await Promise.all(
    testDatabases.map((db) => db.batch(tables.map((table) => db.prepare(`DELETE FROM ${table}`)))),
  );
}
