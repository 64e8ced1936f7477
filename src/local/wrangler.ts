/**
 * Wrangler as a child process: the one in node_modules, run by this very Node, in a process group of its
 * own, because workerd is a grandchild and a signal meant for the stack must reach all of it.
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { endGroupWithUs, signalGroup, watchOver } from "./lifetime.ts";

export const projectRoot = fileURLToPath(new URL("../..", import.meta.url).href);

const home = join(createRequire(import.meta.url).resolve("wrangler/package.json"), "..");

/** No banner, no update check, no telemetry, no look-up of where this machine is: nothing needs a network. */
const quiet = {
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
};

/** Starts `wrangler …` in the project. It leads its own process group, which ends with this process. */
export function spawnWrangler(
  args: readonly string[],
  stdio: StdioOptions,
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  watchOver();
  const child = spawn(process.execPath, [join(home, "bin/wrangler.js"), ...args], {
    cwd: projectRoot,
    stdio,
    detached: true,
    env: { ...process.env, ...quiet, ...env },
  });
  endGroupWithUs(child);
  return child;
}

/** Resolves with the exit code, or with 128 when a signal ended it; rejects when it could not be started. */
export function exitOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 128));
  });
}

// §§ A wrangler command that does its work and ends. It says nothing unless it fails.

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

// §§ The Worker as one file that nobody edits. `wrangler dev` watches the sources and restarts the Worker, its
// queues and all, whenever one of them is saved; what runs from a bundle runs as it was when it began.

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
