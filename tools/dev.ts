/** `npm run dev`: all of Breakwater on this machine: secrets, tables, the Worker, and a cron every minute. */

import { heldOutput } from "./dev-output.ts";
import { devVar, ensureDevVars } from "./dev-vars.ts";
import { addressLines, type Flags, flagsIn, readFlags, runScript } from "./flags.ts";
import { startFunctionsRuntime } from "./functions-runtime.ts";
import { applyMigrations } from "./migrate.ts";
import { listenFault, portIn } from "./ports.ts";
import { whenOrphaned } from "./process-groups.ts";
import { getFromStack, keepFiring, READY_MS, STOP_TIMEOUT_MS, type Stack, startStack } from "./stack.ts";
import { STRICT_WORKER, strictFlags, strictVars } from "./strict-flags.ts";

const HELP = `npm run dev -- [flags]    Breakwater on this machine, from its sources; Ctrl-C ends it.

  --port N          listen on this port (8787)
  --ip ADDRESS      listen on this address (localhost)
  --persist-to DIR  store the database there (.wrangler/state)
  --strict          enforce the quotas that Cloudflare enforces; each breach is printed here
  --latency SEED    with --strict: calls to D1, gates and queues take as long as they do in production
  --var NAME:VALUE  override a variable of wrangler.toml or .dev.vars
  -h, --help        show this help

Other flags of wrangler dev that work here: --log-level, --local-protocol, --https-key-path, --https-cert-path,
--host, --local-upstream, --upstream-protocol, --env, --env-file.`;

const DEV_WORKER = "tools/dev/worker.ts";

const text = { type: "string" } as const;
const ownFlags = { strict: { type: "boolean" }, latency: text } as const;
const others =
  "log-level local-protocol https-key-path https-cert-path host local-upstream upstream-protocol env env-file";
const wranglerFlags = {
  ...flagsIn(HELP),
  ...Object.fromEntries(others.split(" ").map((name) => [name, text])),
};

const PORT = 8787;

function read(): Flags {
  const flags = readFlags(process.argv.slice(2), ownFlags, wranglerFlags);
  portIn(flags.values.port, PORT);
  return flags;
}

/**
 * Refuses a port that is in use: wrangler would silently take another one, and use the same database as the process
 * that has this one.
 */
async function checkPort({ ip = "localhost", port }: Flags["values"]): Promise<void> {
  const number = portIn(port, PORT);
  const fault = await listenFault(String(ip).replace(/^\*$/, "0.0.0.0"), number);
  if (fault === undefined) return;
  const remedy =
    fault === "EADDRINUSE"
      ? "it is in use, perhaps by another npm run dev. End that, or start this one with another --port and --persist-to"
      : fault;
  throw new Error(`Breakwater cannot listen on port ${number} of ${ip}: ${remedy}`);
}

async function dev({ values, others }: Flags): Promise<number> {
  const endOnSignals = handleSignals();
  await checkPort(values);
  if (ensureDevVars()) console.log("Made .dev.vars: secrets and settings for development.");
  const directory = values["persist-to"];
  await applyMigrations(typeof directory === "string" ? directory : undefined);
  const isStrict = values.strict === true || values.latency !== undefined;
  const latency = values.latency === undefined ? undefined : Number(values.latency);
  // Another process may have taken the port meanwhile.
  await checkPort(values);
  const functions = await startFunctionsRuntime();
  let release = () => {};
  let stopFiring = () => {};
  try {
    const stack = await startStack({
      onOutput: (stdout, stderr) => {
        const held = [heldOutput(stdout, process.stdout), heldOutput(stderr, process.stderr)];
        release = () => {
          for (const one of held) one();
        };
      },
      env: process.stdout.isTTY ? { FORCE_COLOR: "1" } : {},
      args: [
        ...(isStrict ? [STRICT_WORKER, ...(await strictFlags())] : [DEV_WORKER]),
        ...(values.port === undefined ? ["--port", String(PORT)] : []),
        ...others,
      ],
      vars: { ...functions.vars, ...(isStrict && strictVars({ latency })) },
    });
    endOnSignals(stack);
    void announce(stack.url, others).finally(release);
    stopFiring = keepFiring(stack.url, {
      onFailure: (error) => console.error("The cron failed:", error),
    });
    return await stack.exited;
  } finally {
    release();
    stopFiring();
    functions.close();
  }
}

/**
 * Passes signals on to the stack, and ends it when this process's parent is gone. A stack that does not end is killed
 * after a while, or by a second signal. Before there is a stack, this process ends at once, and its children with it.
 */
function handleSignals(): (stack: Stack) => void {
  let end = (_signal: NodeJS.Signals): void => process.exit(1);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => end(signal));
  whenOrphaned(() => end("SIGTERM"));
  return (stack) => {
    end = (signal) => {
      stack.signal(signal);
      end = () => stack.signal("SIGKILL");
      setTimeout(() => end("SIGKILL"), STOP_TIMEOUT_MS).unref();
    };
  };
}

/** Waits until the Worker answers, and prints its address. The output of wrangler so far is printed after that. */
async function announce(url: string, args: readonly string[]): Promise<void> {
  await getFromStack(`${url}/v1/health`, READY_MS);
  const key = args.findLast((arg) => arg.startsWith("ADMIN_KEY:"))?.slice("ADMIN_KEY:".length);
  console.log(`\nBreakwater is at ${url}; its sweep runs every minute.`);
  console.log(`${addressLines(url, key ?? devVar("ADMIN_KEY"))}\n`);
}

process.exitCode = await runScript(HELP, dev, read);
