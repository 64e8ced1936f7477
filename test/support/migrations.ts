/**
 * Every test file begins with empty databases. The first file of a Worker applies the migrations, and records them as
 * wrangler does; so does a file that follows one that has changed the schema. All other files empty the tables.
 * `applyD1Migrations` is not used, because `cloudflare:test` loads the whole Worker, which takes most of a file's
 * set-up time and few files need.
 */
// Imported before all schemas, as in the Worker: it extends schemas that are made afterwards.
import "@hono/zod-openapi";
import type { D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { emptied, isMigrated, noteMigrated, testDatabases } from "./databases.ts";

const NOTES = "CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE)";

/**
 * Everything to drop: views before the tables that they show. Triggers and indexes go with their tables, and `_cf_`
 * tables are D1's own.
 */
const LEFT = `
  SELECT type, name FROM sqlite_master
  WHERE type IN ('view', 'table') AND name NOT GLOB 'sqlite_*' AND name NOT GLOB '_cf_*' ORDER BY type DESC`;

const { MIGRATIONS } = env as unknown as { MIGRATIONS: D1Migration[] };

function migrating(db: D1Database): D1PreparedStatement[] {
  const note = db.prepare("INSERT INTO d1_migrations (name) VALUES (?1)");
  const steps = MIGRATIONS.flatMap(({ name, queries }) => [
    ...queries.map((sql) => db.prepare(sql)),
    note.bind(name),
  ]);
  return [db.prepare(NOTES), ...steps];
}

/** Makes the numbers of rows begin at one again. */
const NUMBERS = "DELETE FROM sqlite_sequence WHERE name <> 'd1_migrations'";

async function begin(db: D1Database): Promise<void> {
  if (await isMigrated(db)) {
    await emptied(db);
    await db.prepare(NUMBERS).run();
    return;
  }
  const { results: left } = await db.prepare(LEFT).all<{ type: string; name: string }>();
  const dropping = left.map(({ type, name }) => db.prepare(`DROP ${type} ${name}`));
  await db.batch([...dropping, ...migrating(db)]);
  await noteMigrated(db);
}

await Promise.all(testDatabases.map(begin));
