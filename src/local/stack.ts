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

/**
 * The cron that `wrangler dev` does not have: it only offers an address at which a person may fire it.
 * Without this the sweep would be dead locally, and whatever was lost would stay lost.
 */
const MINUTE_MS = 60_000;
const PATIENCE_MS = 30_000;

/** Fires the scheduled handler once; rejects when it failed or nobody answers. */
export async function fireCron(url: string): Promise<void> {
  const response = await fetch(`${url}/cdn-cgi/local/scheduled`, {
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const said = await response.text();
  if (!response.ok)
    throw new Error(`The scheduled handler answered ${response.status}: ${said.slice(0, 200)}`);
}

type Options = Readonly<{ everyMs?: number; onFailure?: (error: unknown) => void }>;

/** Fires now and then every minute, until the returned function is called. */
export function keepFiring(
  url: string,
  { everyMs = MINUTE_MS, onFailure = () => {} }: Options = {},
): () => void {
  const fire = () => void fireCron(url).catch(onFailure);
  const timer = setInterval(fire, everyMs);
  fire();
  return () => clearInterval(timer);
}

// §§ Breakwater's public HTTP API, as its users call it. Whatever is not a success is an error that says why.

const API_PATIENCE_MS = 20_000;

export type ApiClient = Readonly<{
  get: <T>(path: string) => Promise<T>;
  post: <T>(path: string, body: unknown) => Promise<T>;
  remove: (path: string) => Promise<void>;
}>;

export function apiClient(url: string, key: string): ApiClient {
  async function call(method: string, path: string, body?: unknown): Promise<string> {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      signal: AbortSignal.timeout(API_PATIENCE_MS),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text.slice(0, 300)}`);
    return text;
  }
  return {
    get: async (path) => JSON.parse(await call("GET", path)),
    post: async (path, body) => JSON.parse(await call("POST", path, body)),
    remove: async (path) => void (await call("DELETE", path)),
  };
}
