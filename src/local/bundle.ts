/**
 * The Worker as one file that nobody edits. `wrangler dev` watches the sources and restarts the Worker, its
 * queues and all, whenever one of them is saved; what runs from a bundle runs as it was when it began.
 */
import { basename, join } from "node:path";
import { runWrangler } from "./run-wrangler.ts";

/**
 * Bundles the Worker into a directory; answers the path of the file.
 * @param main its first file; that of wrangler.toml unless given
 * @param flags wrangler's own, besides
 */
export async function bundleWorker(
  directory: string,
  main = "src/worker.ts",
  flags: readonly string[] = [],
): Promise<string> {
  await runWrangler(["deploy", main, "--dry-run", "--outdir", directory, ...flags]);
  return join(directory, `${basename(main, ".ts")}.js`);
}
