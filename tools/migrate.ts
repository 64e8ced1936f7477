/** Applies the migrations to the local copies of the D1 databases that wrangler.toml binds. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { copyCached } from "./cached-folders.ts";
import { projectRoot, readWranglerConfig, runWrangler } from "./wrangler.ts";

/** @param persistTo where wrangler keeps the local state; its default place when absent */
export async function applyMigrations(persistTo?: string): Promise<void> {
  const flags = ["--local", ...(persistTo === undefined ? [] : ["--persist-to", persistTo])];
  for (const binding of await databasesIn()) {
    await runWrangler(["d1", "migrations", "apply", binding, ...flags]);
  }
}

/**
 * Puts empty databases with all migrations into a directory that has none. They are copied from a cache, which is made again
 * when the migrations change.
 */
export async function copyMigrated(persistTo: string): Promise<void> {
  await copyCached(persistTo, "migrated", async (directory) => {
    await applyMigrations(directory);
    const migrations = join(projectRoot, "migrations");
    const files = readdirSync(migrations).map((name) => join(migrations, name));
    return ["wrangler.toml", "package-lock.json"]
      .map((name) => join(projectRoot, name))
      .concat(migrations, files);
  });
}

/** The bindings of the databases, in the order of the file. */
export async function databasesIn(config = join(projectRoot, "wrangler.toml")): Promise<string[]> {
  const { d1_databases } = await readWranglerConfig(config);
  return d1_databases.map(({ binding }) => binding);
}
