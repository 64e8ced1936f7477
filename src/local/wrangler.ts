/**
 * Wrangler as a child process: the one in node_modules, run by this very Node, in a process group of its
 * own, because workerd is a grandchild and a signal meant for the stack must reach all of it.
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { endGroupWithUs, watchOver } from "./lifetime.ts";

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
