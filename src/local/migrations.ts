/** Brings the local D1 up to date before anything reads it. Says nothing unless it fails. */
import { exitOf, signalGroup, spawnWrangler } from "./wrangler.ts";

const PATIENCE_MS = 60_000;

/** @param persistTo where wrangler keeps the local state; its own place when absent */
export async function applyMigrations(persistTo?: string): Promise<void> {
  const place = persistTo === undefined ? [] : ["--persist-to", persistTo];
  const args = ["d1", "migrations", "apply", "DB", "--local", ...place];
  const child = spawnWrangler(args, ["ignore", "pipe", "pipe"], { CI: "1" });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk) => {
      output += chunk;
    });
  }
  const impatience = setTimeout(() => signalGroup(child, "SIGKILL"), PATIENCE_MS);
  const code = await exitOf(child);
  clearTimeout(impatience);
  if (code !== 0) throw new Error(`The migrations of the local D1 failed (${code}):\n${output}`);
}
