/**
 * `npm run dev`: the whole of Breakwater on this machine. Secrets, tables, Worker, and the minute's cron.
 * Whatever flags it is given are wrangler's: `npm run dev -- --port 8899 --persist-to DIR`.
 */
import { parseArgs } from "node:util";
import { keepFiring } from "./cron.ts";
import { ensureDevVars } from "./dev-vars.ts";
import { whenOrphaned } from "./lifetime.ts";
import { applyMigrations } from "./migrations.ts";
import { POLITE_MS, type Stack, startStack } from "./stack.ts";

const args = process.argv.slice(2);

async function dev(): Promise<number> {
  const started = endBySignals();
  if (ensureDevVars()) console.log("Made .dev.vars from .dev.vars.example: development secrets.");
  await applyMigrations(persistPlace());
  const stack = await startStack({ args });
  started(stack);
  void announce(stack.url);
  const stopFiring = keepFiring(stack.url, {
    onFailure: (error) => console.error("The cron failed:", error),
  });
  const code = await stack.exited;
  stopFiring();
  return code;
}

/**
 * Ends the stack by whatever signal this process gets, and when its parent is gone. One that does not end
 * is killed after a while, or by a second signal. Until there is a stack, this process ends at once, and its children
 * with it.
 */
function endBySignals(): (stack: Stack) => void {
  let end = (_signal: NodeJS.Signals): void => process.exit(1);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => end(signal));
  whenOrphaned(() => end("SIGTERM"));
  return (stack) => {
    end = (signal) => {
      stack.signal(signal);
      end = () => stack.signal("SIGKILL");
      setTimeout(() => end("SIGKILL"), POLITE_MS).unref();
    };
  };
}

/** Once the Worker answers, so that it is the last thing said. */
async function announce(url: string): Promise<void> {
  await fetch(`${url}/v1/health`);
  console.log(`\nBreakwater is at ${url}; its sweep runs every minute.`);
}

/** Wrangler's own flag, read here too: the tables must be made where the Worker will look for them. */
function persistPlace(): string | undefined {
  const { values } = parseArgs({ args, strict: false, options: { "persist-to": { type: "string" } } });
  const place = values["persist-to"];
  return typeof place === "string" ? place : undefined;
}

try {
  process.exitCode = await dev();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
