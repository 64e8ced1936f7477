/**
 * A stack: `wrangler dev` as a child process that can be stopped, or killed as a power cut would; its cron, and a
 * client for its API.
 */
import type { ChildProcess } from "node:child_process";
import http from "node:http";
import https from "node:https";
import type { Readable } from "node:stream";
import { signalGroup } from "./process-groups.ts";
import { exitOf, spawnWrangler } from "./wrangler.ts";

type StackOptions = Readonly<{
  args?: readonly string[];
  /** Variables and secrets that override those of wrangler.toml and .dev.vars. */
  vars?: Readonly<Record<string, string>>;
  env?: Readonly<Record<string, string>>;
  /** Takes wrangler's standard output and errors from the beginning. */
  onOutput?: (stdout: Readable, stderr: Readable) => void;
  /** A file descriptor for wrangler's output; this process's own output when absent. */
  output?: number | "ignore";
}>;

export type Stack = Readonly<{
  url: string;
  /** Resolves with wrangler's exit code. */
  exited: Promise<number>;
  /** Sends a signal to wrangler and everything it has started. */
  signal: (signal: NodeJS.Signals) => void;
}>;

/** How long a stack may take until it answers. */
export const READY_MS = 300_000;
/** A stack that has not ended this long after a signal is killed. */
export const STOP_TIMEOUT_MS = 5_000;

/** Starts a stack; resolves when it answers. Rejects, and leaves nothing running, when it never does. */
export async function startStack({
  args = [],
  vars = {},
  env = {},
  onOutput,
  output,
}: StackOptions = {}): Promise<Stack> {
  // The simulator has no jurisdictions: a deployment's own would make every call to a gate fail.
  const given = Object.entries({ JURISDICTION: "", ...vars }).flatMap(([name, value]) => [
    "--var",
    `${name}:${value}`,
  ]);
  const fixed = ["--show-interactive-dev-session=false", "--inspector-port=0"];
  const stdio = onOutput ? "pipe" : (output ?? "inherit");
  const child = spawnWrangler(["dev", ...args, ...fixed, ...given], ["ignore", stdio, stdio, "ipc"], env);
  if (child.stdout && child.stderr) onOutput?.(child.stdout, child.stderr);
  const exited = exitOf(child);
  try {
    const protocol = isSecure(args) ? "https" : "http";
    const url = await Promise.race([readyUrl(child, protocol), failed(exited)]);
    return { url, exited, signal: (signal) => signalGroup(child, signal) };
  } catch (error) {
    signalGroup(child, "SIGKILL");
    throw error;
  }
}

/** Ends a stack with SIGTERM, or after a while with SIGKILL. Resolves when it is gone. */
export async function stopStack(stack: Stack): Promise<void> {
  const timer = setTimeout(() => stack.signal("SIGKILL"), STOP_TIMEOUT_MS);
  stack.signal("SIGTERM");
  await stack.exited;
  clearTimeout(timer);
  stack.signal("SIGKILL");
}

/** Kills everything at once, with whatever it had in memory, as a power cut would. */
export async function killStack(stack: Stack): Promise<void> {
  stack.signal("SIGKILL");
  await stack.exited;
}

/** Wrangler sends its parent the address once the Worker answers. */
function readyUrl(child: ChildProcess, protocol: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`wrangler dev was not ready after ${READY_MS / 1000} s`));
    const timer = setTimeout(late, READY_MS);
    child.once("exit", () => clearTimeout(timer));
    child.on("message", (message) => {
      const { event, ip, port } = JSON.parse(String(message));
      if (event !== "DEV_SERVER_READY") return;
      clearTimeout(timer);
      resolve(`${protocol}://${reachable(ip)}:${port}`);
    });
  });
}

function isSecure(args: readonly string[]): boolean {
  return args.some(
    (arg, i) => arg === "--local-protocol=https" || (arg === "https" && args[i - 1] === "--local-protocol"),
  );
}

/**
 * Sends a GET to a stack on this machine. Over https, its self-signed certificate is accepted.
 * @param timeoutMs the time after which it rejects
 */
export function getFromStack(url: string, timeoutMs: number) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const options = { rejectUnauthorized: false, signal: AbortSignal.timeout(timeoutMs) };
  const request = (url.startsWith("https:") ? https : http).get(url, options, async (response) => {
    try {
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      resolve({ status: response.statusCode ?? 0, text });
    } catch (error) {
      reject(error);
    }
  });
  request.on("error", reject);
  return promise;
}

/** An address that means "every interface" can be listened on, but not called. */
function reachable(ip: string): string {
  if (ip === "0.0.0.0" || ip === "*") return "127.0.0.1";
  return ip.includes(":") && !ip.startsWith("[") ? `[${ip}]` : ip;
}

async function failed(exited: Promise<number>): Promise<never> {
  throw new Error(`wrangler dev ended with code ${await exited} before it was ready`);
}

const CRON_MS = 60_000;
const CRON_TIMEOUT_MS = 30_000;

/** Fires the scheduled handler once; rejects when it failed or nothing answers. */
async function fireCron(url: string): Promise<void> {
  const { status, text } = await getFromStack(`${url}/cdn-cgi/local/scheduled`, CRON_TIMEOUT_MS);
  if (status !== 200) throw new Error(`The scheduled handler answered ${status}: ${text.slice(0, 200)}`);
}

type CronOptions = Readonly<{ everyMs?: number; onFailure?: (error: unknown) => void }>;

/**
 * Fires the cron at once and then every minute, until the returned function is called. `wrangler dev` never fires it, and
 * without the sweep a lost message would stay lost.
 */
export function keepFiring(url: string, { everyMs = CRON_MS, onFailure = () => {} }: CronOptions = {}) {
  const fire = () => void fireCron(url).catch(onFailure);
  const timer = setInterval(fire, everyMs);
  fire();
  return () => clearInterval(timer);
}

const API_TIMEOUT_MS = 20_000;

/** Breakwater's public HTTP API. An unsuccessful answer throws an error with the beginning of its body. */
export type ApiClient = Readonly<{
  get: <T>(path: string) => Promise<T>;
  post: <T>(path: string, body: unknown) => Promise<T>;
  put: (path: string, body: unknown) => Promise<void>;
  remove: (path: string) => Promise<void>;
}>;

export function apiClient(url: string, key: string): ApiClient {
  async function call(method: string, path: string, body?: unknown): Promise<string> {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      signal: AbortSignal.timeout(API_TIMEOUT_MS),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text.slice(0, 300)}`);
    return text;
  }
  return {
    get: async (path) => JSON.parse(await call("GET", path)),
    post: async (path, body) => JSON.parse(await call("POST", path, body)),
    put: async (path, body) => void (await call("PUT", path, body)),
    remove: async (path) => void (await call("DELETE", path)),
  };
}
