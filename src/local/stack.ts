/**
 * Breakwater on this machine: `wrangler dev` as a child that is ready when this says so, and that can be
 * ended politely, or at once and completely, as a power cut would.
 */
import type { ChildProcess } from "node:child_process";
import { signalGroup } from "./lifetime.ts";
import { exitOf, spawnWrangler } from "./wrangler.ts";

export type StackOptions = Readonly<{
  /** Handed on to `wrangler dev`. */
  args?: readonly string[];
  /** Variables and secrets that override those of wrangler.toml and .dev.vars. */
  vars?: Readonly<Record<string, string>>;
  /** Of wrangler's own process. */
  env?: Readonly<Record<string, string>>;
  /** A file descriptor for what wrangler says; this process's own output when absent. */
  output?: number | "ignore";
}>;

export type Stack = Readonly<{
  url: string;
  /** Resolves with wrangler's exit code. */
  exited: Promise<number>;
  /** Sends a signal to wrangler and everything it has started. */
  signal: (signal: NodeJS.Signals) => void;
}>;

const READY_MS = 60_000;
/** What is asked to end is killed when it has not done so for so long. */
export const POLITE_MS = 5_000;

/** Starts a stack; resolves when it answers. Rejects, and leaves nothing running, when it never does. */
export async function startStack({
  args = [],
  vars = {},
  env = {},
  output,
}: StackOptions = {}): Promise<Stack> {
  const given = Object.entries(vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]);
  const fixed = ["--show-interactive-dev-session=false", "--inspector-port=0"];
  const stdio = output ?? "inherit";
  const child = spawnWrangler(["dev", ...args, ...fixed, ...given], ["ignore", stdio, stdio, "ipc"], env);
  const exited = exitOf(child);
  try {
    const url = await Promise.race([readyUrl(child), failed(exited)]);
    return { url, exited, signal: (signal) => signalGroup(child, signal) };
  } catch (error) {
    signalGroup(child, "SIGKILL");
    throw error;
  }
}

/** Ends a stack: politely, and after a while not. Resolves when it is gone. */
export async function stopStack(stack: Stack): Promise<void> {
  const impatience = setTimeout(() => stack.signal("SIGKILL"), POLITE_MS);
  stack.signal("SIGTERM");
  await stack.exited;
  clearTimeout(impatience);
  stack.signal("SIGKILL");
}

/** The power cut: everything dies at once, with whatever it had in memory. */
export async function killStack(stack: Stack): Promise<void> {
  stack.signal("SIGKILL");
  await stack.exited;
}

/** Wrangler tells its parent the address once the Worker answers. */
function readyUrl(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`wrangler dev was not ready after ${READY_MS / 1000} s`));
    const timer = setTimeout(late, READY_MS);
    child.once("exit", () => clearTimeout(timer));
    child.on("message", (message) => {
      const { event, ip, port } = JSON.parse(String(message));
      if (event !== "DEV_SERVER_READY") return;
      clearTimeout(timer);
      resolve(`http://${reachable(ip)}:${port}`);
    });
  });
}

/** An address that means "every interface" is listened on, but not called. */
function reachable(ip: string): string {
  if (ip === "0.0.0.0" || ip === "*") return "127.0.0.1";
  return ip.includes(":") && !ip.startsWith("[") ? `[${ip}]` : ip;
}

async function failed(exited: Promise<number>): Promise<never> {
  throw new Error(`wrangler dev ended with code ${await exited} before it was ready`);
}
