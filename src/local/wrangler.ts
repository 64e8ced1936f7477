/**
 * Wrangler as a child process: the one in node_modules, run by this very Node, in a process group of its
 * own, because workerd is a grandchild and a signal meant for the stack must reach all of it.
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const projectRoot = fileURLToPath(new URL("../..", import.meta.url).href);

const home = join(createRequire(import.meta.url).resolve("wrangler/package.json"), "..");

/** No banner, no update check, no telemetry, no look-up of where this machine is: nothing needs a network. */
const quiet = {
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
};

/** Starts `wrangler …` in the project. It leads its own process group, and reads nothing from the terminal. */
export function spawnWrangler(
  args: readonly string[],
  stdio: StdioOptions,
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  const child = spawn(process.execPath, [join(home, "bin/wrangler.js"), ...args], {
    cwd: projectRoot,
    stdio,
    detached: true,
    env: { ...process.env, ...quiet, ...env },
  });
  endWithUs(child);
  return child;
}

/** A group of its own outlives its parent unless somebody sees to it. */
function endWithUs(child: ChildProcess): void {
  const end = () => signalGroup(child, "SIGKILL");
  process.prependOnceListener("exit", end);
  child.once("exit", () => process.off("exit", end));
}

/** Signals the whole group of a child; one that has ended already is left alone. */
export function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Resolves with the exit code, or with 128 when a signal ended it; rejects when it could not be started. */
export function exitOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 128));
  });
}
