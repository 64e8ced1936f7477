/**
 * Runs functions in development: a runtime (workerd) for each, in a process that is killed when a call takes too long
 * or this process ends, because the runtime itself stops no endless loop. The Worker calls it over HTTP
 * (dev/functions.ts).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { CALL_MS } from "../src/core/transform/code.ts";
import { endGroupOnExit, signalGroup, startWatchdog } from "./process-groups.ts";

/** By then the Worker has given up a call, and reports itself that it takes too long. */
const KILLED_AFTER_MS = CALL_MS + 200;
/** The most functions that have a process; the least recently used are ended. */
const MOST_RUNTIMES = 8;
/** The Worker takes this for a fault of the platform: the event waits, and no attempt counts. */
const LOST = "Network connection lost.";

/** Loads the function that a call names, and passes the event on. */
const SERVICE = `export default {
  async fetch(request, { LOADER }) {
    const { name, worker, event } = await request.json();
    try {
      const entrypoint = LOADER.get(name, () => worker).getEntrypoint();
      const answer = await entrypoint.fetch("https://function.invalid/", { method: "POST", body: event });
      return new Response(await answer.text());
    } catch (error) {
      return new Response(error.message, { status: 500 });
    }
  },
};`;

const CONFIG = (date: string) => `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  v8Flags = ["--max-old-space-size=128"],
  services = [
    (name = "none", network = (allow = [])),
    (name = "main", worker = (
      compatibilityDate = ${JSON.stringify(date)},
      globalOutbound = "none",
      modules = [(name = "main.js", esModule = ${JSON.stringify(SERVICE)})],
      bindings = [(name = "LOADER", workerLoader = ())],
    )),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);`;

type FunctionsRuntime = Readonly<{
  /** Variables by which the Worker finds this runtime. */
  vars: Readonly<Record<string, string>>;
  /** Ends all processes, as the end of this process does too. */
  close: () => void;
}>;

type Runtime = Readonly<{
  url: Promise<string>;
  /** `ended` by itself, or `killed`. */
  state: () => "starting" | "ready" | "killed" | "ended";
  kill: () => void;
}>;

type RuntimeCall = Readonly<{ name: string; worker?: object; event?: string }>;

/** Listens on this machine, under a path that only the Worker knows. */
export async function startFunctionsRuntime(): Promise<FunctionsRuntime> {
  const directory = mkdtempSync(join(tmpdir(), "breakwater-functions-"));
  const remove = () => rmSync(directory, { recursive: true, force: true });
  process.once("exit", remove);
  const { default: command, compatibilityDate } = workerd();
  const config = join(directory, "config.capnp");
  writeFileSync(config, CONFIG(compatibilityDate));
  const runtimes = new Map<string, Runtime>();
  const runtimeOf = (name: string): Runtime => {
    const known = runtimes.get(name);
    runtimes.delete(name);
    const isAlive = known?.state() === "starting" || known?.state() === "ready";
    const runtime = known && isAlive ? known : startRuntime(command, config);
    runtimes.set(name, runtime);
    for (const [other, { kill }] of [...runtimes].slice(0, -MOST_RUNTIMES)) {
      runtimes.delete(other);
      kill();
    }
    return runtime;
  };
  const path = `/${randomBytes(16).toString("hex")}`;
  const server = createServer(async (request, response) => {
    const failed = (error: Error) => ({ status: 500, answer: error.message });
    const { status, answer } =
      request.url === path
        ? await answerTo(request, runtimeOf).catch(failed)
        : { status: 404, answer: "Not found" };
    response.writeHead(status, { "content-type": "text/plain; charset=utf-8" }).end(answer);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    vars: { FUNCTIONS_RUNTIME: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}` },
    close: () => {
      server.close();
      for (const { kill } of runtimes.values()) kill();
      process.off("exit", remove);
      remove();
    },
  };
}

async function answerTo(request: IncomingMessage, runtimeOf: (name: string) => Runtime) {
  const call: RuntimeCall = JSON.parse(await text(request));
  const runtime = runtimeOf(call.name);
  if (call.worker === undefined) {
    await runtime.url;
    return { status: 200, answer: "" };
  }
  // A runtime that is starting again would not be ready within the call's time.
  if (runtime.state() === "starting") return { status: 503, answer: LOST };
  const timer = setTimeout(runtime.kill, KILLED_AFTER_MS);
  try {
    const body = JSON.stringify(call);
    const response = await fetch(await runtime.url, { method: "POST", body });
    return { status: response.status, answer: await response.text() };
  } catch {
    const answer =
      runtime.state() === "killed" ? LOST : "its process has ended, most likely for lack of memory";
    runtime.kill();
    return { status: 500, answer };
  } finally {
    clearTimeout(timer);
  }
}

function startRuntime(command: string, config: string): Runtime {
  startWatchdog();
  const args = ["serve", "--experimental", "--control-fd=3", config];
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "ignore", "pipe"], detached: true });
  endGroupOnExit(child);
  let state: ReturnType<Runtime["state"]> = "starting";
  child.once("exit", () => {
    if (state !== "killed") state = "ended";
  });
  const url = addressOf(child).then((address) => {
    if (state === "starting") state = "ready";
    return address;
  });
  url.catch(() => {});
  const kill = () => {
    state = "killed";
    signalGroup(child, "SIGKILL");
  };
  return { url, state: () => state, kill };
}

/** The runtime writes a line of JSON for its socket. */
async function addressOf(child: ChildProcess): Promise<string> {
  for await (const line of createInterface(child.stdio[3] as Readable)) {
    const { port } = JSON.parse(line) as { port?: number };
    if (port !== undefined) return `http://127.0.0.1:${port}`;
  }
  throw new Error("The runtime of a function could not be started");
}

/** The workerd that wrangler has installed. */
function workerd(): Readonly<{ default: string; compatibilityDate: string }> {
  const wrangler = createRequire(import.meta.url).resolve("wrangler/package.json");
  return createRequire(wrangler)("workerd");
}
