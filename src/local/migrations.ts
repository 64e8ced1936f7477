/** Brings every D1 database that wrangler.toml binds up to date before anything reads it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot, runWrangler } from "./wrangler.ts";

/** @param persistTo where wrangler keeps the local state; its own place when absent */
export function applyMigrations(persistTo?: string): Promise<void> {
  return applyTo(["--local", ...(persistTo === undefined ? [] : ["--persist-to", persistTo])]);
}

/** The same in the account that wrangler is signed in to. */
export function applyRemoteMigrations(): Promise<void> {
  return applyTo(["--remote"]);
}

async function applyTo(place: readonly string[]): Promise<void> {
  const bound = databasesIn(readFileSync(join(projectRoot, "wrangler.toml"), "utf8"));
  for (const binding of bound) await runWrangler(["d1", "migrations", "apply", binding, ...place]);
}

/** The bindings of the databases, in the order of the file. */
export function databasesIn(toml: string): string[] {
  return [...toml.matchAll(/^binding\s*=\s*"(DB(?:_\d+)?)"/gm)].flatMap(([, name]) => name ?? []);
}
