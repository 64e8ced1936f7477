/**
 * Wrangler: its configuration file, and its commands as child processes. Each command runs in a process group of its
 * own, because workerd is a grandchild and a signal to the stack must reach all of it.
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { endGroupOnExit, signalGroup, startWatchdog } from "./process-groups.ts";

export const projectRoot = fileURLToPath(new URL("../..", import.meta.url).href);

const wranglerRoot = join(createRequire(import.meta.url).resolve("wrangler/package.json"), "..");

/** No banner, telemetry or look-up of the location: nothing needs a network. */
const quiet = {
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
};

type WranglerConfig = Readonly<{
  d1_databases: readonly Readonly<{ binding: string }>[];
  compatibility_flags: readonly string[];
}>;

/** The configuration as wrangler reads it, with its defaults. */
export async function readWranglerConfig(
  config = join(projectRoot, "wrangler.toml"),
): Promise<WranglerConfig> {
  // Loaded when needed: it takes most of a second.
  const { unstable_readConfig } = await import("wrangler");
  return unstable_readConfig({ config }, { hideWarnings: true });
}

/** Starts `wrangler …` in the project. It leads its own process group, which ends with this process. */
export function spawnWrangler(
  args: readonly string[],
  stdio: StdioOptions,
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  startWatchdog();
  const child = spawn(process.execPath, [join(wranglerRoot, "bin/wrangler.js"), ...args], {
    cwd: projectRoot,
    stdio,
    detached: true,
    env: { ...process.env, ...quiet, ...env },
  });
  endGroupOnExit(child);
  return child;
}

/** Resolves with the exit code, or with 128 when a signal ended it; rejects when it could not be started. */
export function exitOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 128));
  });
}

const TIMEOUT_MS = 60_000;

/** Runs a wrangler command. Prints nothing; rejects with the output when it fails or takes more than a minute. */
export async function runWrangler(args: readonly string[]): Promise<void> {
  const child = spawnWrangler(args, ["ignore", "pipe", "pipe"], { CI: "1" });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk) => {
      output += chunk;
    });
  }
  const timer = setTimeout(() => signalGroup(child, "SIGKILL"), TIMEOUT_MS);
  const code = await exitOf(child);
  clearTimeout(timer);
  if (code !== 0) throw new Error(`wrangler ${args.join(" ")} failed (${code}):\n${output}`);
}

/**
 * Bundles the Worker into a directory and returns the path of the file. `wrangler dev` watches the sources and
 * restarts the Worker and its queues whenever one is saved; a bundle stays as it was.
 * @param main the entry point
 * @param flags further flags for wrangler
 */
export async function bundleWorker(
  directory: string,
  main = "src/worker.ts",
  flags: readonly string[] = [],
): Promise<string> {
  await runWrangler(["deploy", main, "--dry-run", "--outdir", directory, ...flags]);
  return join(directory, `${basename(main, ".ts")}.js`);
}
