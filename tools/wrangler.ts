/**
 * Wrangler: its configuration file, and its commands as child processes. Each command runs in a process group of its
 * own, because workerd is a grandchild and a signal to the stack must reach all of it.
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Unstable_Config } from "wrangler";
import type { Environment } from "./deploy/config-faults.ts";
import { endGroupOnExit, signalGroup, startWatchdog } from "./process-groups.ts";

export const projectRoot = fileURLToPath(new URL("..", import.meta.url).href);

const wranglerRoot = join(createRequire(import.meta.url).resolve("wrangler/package.json"), "..");

/** Without banner, telemetry or look-up of the location, nothing needs a network. */
const quiet = {
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
};

/** The configuration as wrangler reads it, with its defaults, of the top level of the file. */
export async function readWranglerConfig(
  config = join(projectRoot, "wrangler.toml"),
): Promise<Unstable_Config> {
  // Loaded when needed: it takes most of a second.
  const { unstable_readConfig } = await import("wrangler");
  return unstable_readConfig({ config }, { hideWarnings: true });
}

/**
 * The configurations of all environments, that of the top level first.
 * @throws an error that names what wrangler cannot read
 */
export async function readEnvironments(config: string): Promise<Environment[]> {
  const { experimental_readRawConfig, unstable_readConfig } = await import("wrangler");
  const { rawConfig } = experimental_readRawConfig({ config });
  const names = [undefined, ...Object.keys(rawConfig.env ?? {})];
  return names.map((name) => {
    // An empty name is the top level, even if CLOUDFLARE_ENV names an environment.
    return { name, config: unstable_readConfig({ config, env: name ?? "" }, { hideWarnings: true }) };
  });
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

/**
 * Resolves with the exit code, or with 128 when a signal ended it; rejects when it could not be started.
 * @param event `close` comes once all output has been read
 */
export function exitOf(child: ChildProcess, event: "exit" | "close" = "exit"): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once(event, (code: number | null) => resolve(code ?? 128));
  });
}

/** A command that takes longer hangs; on a busy machine, the start of wrangler alone can take a minute. */
const TIMEOUT_MS = 600_000;

/** Runs a wrangler command. Prints nothing; rejects with the output when it fails or takes more than ten minutes. */
export async function runWrangler(args: readonly string[]): Promise<void> {
  const child = spawnWrangler(args, ["ignore", "pipe", "pipe"], { CI: "1" });
  const output = outputOf(child);
  const timer = setTimeout(() => signalGroup(child, "SIGKILL"), TIMEOUT_MS);
  const code = await exitOf(child);
  clearTimeout(timer);
  if (code !== 0) throw new Error(`wrangler ${args.join(" ")} failed (${code}):\n${output.all}`);
}

/** The output of a command so far, and its standard output alone. */
function outputOf(child: ChildProcess): Readonly<{ all: string; stdout: string }> {
  const output = { all: "", stdout: "" };
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    output.all += chunk;
    output.stdout += chunk;
  });
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    output.all += chunk;
  });
  return output;
}

/** A command's exit code, its output including standard error, and its notes for other programs. */
type CommandResult = Readonly<{ code: number; output: string; stdout: string; entries: readonly unknown[] }>;

/**
 * Runs the `wrangler` on the PATH, which is npm's in its scripts, until it ends by itself: a migration must not be cut
 * off. It gets no input and prints nothing.
 */
export async function wranglerResult(args: readonly string[]): Promise<CommandResult> {
  let output = { all: "", stdout: "" };
  const result = await withEntries((env) => {
    const child = startFromPath(args, ["ignore", "pipe", "pipe"], { CI: "1", ...env });
    output = outputOf(child);
    return exitOf(child, "close");
  });
  return { ...result, output: output.all, stdout: output.stdout };
}

/**
 * Runs the `wrangler` on the PATH in this terminal, where it may prompt.
 * @returns its exit code, and the entries of the file in which it notes for other programs what it has done
 */
export function wranglerInTerminal(args: readonly string[]) {
  return withEntries((env) => exitOf(startFromPath(args, "inherit", env), "close"));
}

async function withEntries(run: (env: Readonly<Record<string, string>>) => Promise<number>) {
  const directory = mkdtempSync(join(tmpdir(), "breakwater-wrangler-"));
  try {
    const file = join(directory, "output.ndjson");
    const code = await run({ WRANGLER_OUTPUT_FILE_PATH: file });
    return { code, entries: entriesOf(file) };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * The address of a deployment: the first target at whose root the Worker answers, on workers.dev, on a custom domain, or
 * on all paths of a host. Undefined when there is none.
 */
export function addressIn(entries: readonly unknown[]): string | undefined {
  return targetsIn(entries).flatMap((target) => {
    if (/^https?:\/\//.test(target)) return new URL(target).origin;
    const host = /^([a-z0-9.-]+\.[a-z]+)(?:\/\*?)?(?: \(.*\))?$/i.exec(target)?.[1];
    return host === undefined ? [] : `https://${host}`;
  })[0];
}

/** The targets of a deployment: addresses, and patterns of routes. */
export function targetsIn(entries: readonly unknown[]): readonly string[] {
  const deployed = entries.find((entry) => (entry as { type?: unknown }).type === "deploy");
  const { targets = [] } = (deployed ?? {}) as { targets?: readonly string[] };
  return targets;
}

function entriesOf(file: string): unknown[] {
  try {
    const lines = readFileSync(file, "utf8").split("\n");
    return lines.filter((line) => line.trim() !== "").map((line) => JSON.parse(line));
  } catch {
    return [];
  }
}

/** Starts wrangler in this process's group: only that group may read from the terminal. */
function startFromPath(args: readonly string[], stdio: StdioOptions, env: Readonly<Record<string, string>>) {
  // On Windows, the wrangler on the PATH is a batch file, which cannot be started without a shell.
  const [command, first] =
    process.platform === "win32"
      ? [process.execPath, [join(wranglerRoot, "bin/wrangler.js")]]
      : ["wrangler", []];
  return spawn(command, [...first, ...args], {
    cwd: projectRoot,
    stdio,
    env: { ...process.env, ...quiet, ...env },
  });
}
