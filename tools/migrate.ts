/** Applies the migrations to the local copies of the D1 databases that wrangler.toml binds. */
import { join } from "node:path";
import { projectRoot, readWranglerConfig, runWrangler } from "./wrangler.ts";

/** @param persistTo where wrangler keeps the local state; its default place when absent */
export async function applyMigrations(persistTo?: string): Promise<void> {
  const flags = ["--local", ...(persistTo === undefined ? [] : ["--persist-to", persistTo])];
  for (const binding of await databasesIn()) {
    await runWrangler(["d1", "migrations", "apply", binding, ...flags]);
  }
}

/** The bindings of the databases, in the order of the file. */
export async function databasesIn(config = join(projectRoot, "wrangler.toml")): Promise<string[]> {
  const { d1_databases } = await readWranglerConfig(config);
  return d1_databases.map(({ binding }) => binding);
}
