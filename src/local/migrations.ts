/** Brings the local D1 up to date before anything reads it. */
import { runWrangler } from "./run-wrangler.ts";

/** @param persistTo where wrangler keeps the local state; its own place when absent */
export async function applyMigrations(persistTo?: string): Promise<void> {
  const place = persistTo === undefined ? [] : ["--persist-to", persistTo];
  await runWrangler(["d1", "migrations", "apply", "DB", "--local", ...place]);
}
