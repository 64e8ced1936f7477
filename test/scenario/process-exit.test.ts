/**
 * Nothing outlives its parent: however `npm run dev` or the demo is ended, every process that it has started
 * ends with it, and its port is free. Processes are found in Linux's /proc.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../tools/wrangler.ts";
import { until } from "./until.ts";

type Way = (npm: number, node: number) => void;

/** A terminal signals the whole group in front of it; `npm` leads the group here. */
const ways: Readonly<Record<string, Way>> = {
  "Ctrl+C in the terminal": (npm) => process.kill(-npm, "SIGINT"),
  "the terminal being closed": (npm) => process.kill(-npm, "SIGHUP"),
  "SIGTERM to npm": (npm) => process.kill(npm, "SIGTERM"),
  "SIGKILL of npm": (npm) => process.kill(npm, "SIGKILL"),
  "SIGTERM to the script": (_npm, node) => process.kill(node, "SIGTERM"),
  "SIGKILL of the script": (_npm, node) => process.kill(node, "SIGKILL"),
};

let place: string;
beforeAll(() => {
  place = mkdtempSync(join(tmpdir(), "breakwater-ending-"));
});
afterAll(() => rmSync(place, { recursive: true, force: true, maxRetries: 5 }));

let npm: ChildProcess | undefined;
let started: number[] = [];
/** Processes that a failed test left behind. */
afterEach(() => {
  for (const pid of started.filter(isAlive)) process.kill(pid, "SIGKILL");
  started = [];
});

describe.each(Object.entries(ways))("after %s", (_way, end) => {
  test("npm run dev leaves no process, and its port is free", async () => {
    const port = await freePort();
    npm = run(["dev", "--", "--port", String(port), "--persist-to", place]);
    await endsCompletely(port, end);
  });
});

test("a port that is taken while npm run dev applies migrations is refused, and nothing runs", async () => {
  const port = await freePort();
  const args = ["tools/dev.ts", "--port", String(port), "--persist-to", join(place, "taken")];
  const dev = spawn(process.execPath, args, { cwd: projectRoot, stdio: ["ignore", "ignore", "pipe"] });
  const [stderr, exit] = [text(dev.stderr), once(dev, "exit")];
  npm = dev;
  await until(() => commands().includes("migrations apply"), { otherwise: commands });
  started = descendants();
  const other = createServer().listen(port, "127.0.0.1");
  await once(other, "listening");
  expect((await exit)[0]).toBe(1);
  expect(await stderr).toContain(`Breakwater cannot listen on port ${port} of localhost: it is in use`);
  other.close();
});

describe.each(["Ctrl+C in the terminal", "SIGKILL of npm", "SIGKILL of the script"])("after %s", (way) => {
  test("the demo leaves no process, and its port is free", async () => {
    npm = run(["demo"]);
    await endsCompletely(undefined, ways[way] as Way);
  });
});

/** @param port where the Worker answers; an unknown one is free when its process is gone */
async function endsCompletely(port: number | undefined, end: Way): Promise<void> {
  const isUp = () => (port === undefined ? commands().includes("/workerd serve") : answers(port));
  await until(isUp, { otherwise: () => `the Worker has not come up:\n${commands()}` });
  started = descendants();
  const script = started.find((pid) => /^\S*node tools\/(dev|demo)\.ts/.test(commandOf(pid)));
  expect(script).toBeDefined();
  end(npm?.pid ?? 0, script ?? 0);
  await until(async () => !started.some(isAlive) && (port === undefined || !(await answers(port))), {
    otherwise: () => `still there:\n${started.filter(isAlive).map(commandOf).join("\n")}`,
  });
}

function run(args: readonly string[]): ChildProcess {
  return spawn("npm", ["run", ...args], { cwd: projectRoot, stdio: "ignore", detached: true });
}

/** npm and everything that it has started, directly or not. */
function descendants(): number[] {
  const parents = new Map(processes().map((pid) => [pid, statOf(pid)?.parent]));
  const found = new Set([npm?.pid ?? 0]);
  for (let size = 0; size < found.size; ) {
    size = found.size;
    for (const [pid, parent] of parents) if (parent !== undefined && found.has(parent)) found.add(pid);
  }
  return [...found];
}

function processes(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function statOf(pid: number): { state: string; parent: number } | undefined {
  try {
    const [state = "", parent = ""] =
      readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return { state, parent: Number(parent) };
  } catch {
    return undefined;
  }
}

/** A zombie is not alive. */
function isAlive(pid: number): boolean {
  const state = statOf(pid)?.state;
  return state !== undefined && state !== "Z";
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}

function commands(): string {
  return descendants().map(commandOf).join("\n");
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    return await Promise.race([
      once(socket, "connect").then(() => true),
      once(socket, "error").then(() => false),
    ]);
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}
