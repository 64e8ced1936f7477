/** A wrangler command that does its work and ends. It says nothing unless it fails. */
import { signalGroup } from "./lifetime.ts";
import { exitOf, spawnWrangler } from "./wrangler.ts";

const PATIENCE_MS = 60_000;

/** Rejects with all that wrangler said when it fails, or when it has not ended after a minute. */
export async function runWrangler(args: readonly string[]): Promise<void> {
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
  if (code !== 0) throw new Error(`wrangler ${args.join(" ")} failed (${code}):\n${output}`);
}
