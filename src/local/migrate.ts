/**
 * Applies the migrations to every D1 database that wrangler.toml binds. Run as a script, it does so in the account
 * that wrangler is signed in to: `npm run deploy` ends with this.
 */
import { join } from "node:path";
import { reportFailure } from "./flags.ts";
import { projectRoot, readWranglerConfig, runWrangler } from "./wrangler.ts";

/** @param persistTo where wrangler keeps the local state; its default place when absent */
export function applyMigrations(persistTo?: string): Promise<void> {
  return apply(["--local", ...(persistTo === undefined ? [] : ["--persist-to", persistTo])]);
}

async function apply(flags: readonly string[]): Promise<void> {
  for (const binding of await databasesIn()) {
    await runWrangler(["d1", "migrations", "apply", binding, ...flags]);
  }
}

/** The bindings of the databases, in the order of the file. */
export async function databasesIn(config = join(projectRoot, "wrangler.toml")): Promise<string[]> {
  const { d1_databases } = await readWranglerConfig(config);
  return d1_databases.map(({ binding }) => binding);
}

if (import.meta.main) process.exitCode = await reportFailure(() => apply(["--remote"]));
