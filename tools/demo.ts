/**
 * `npm run demo`: Breakwater at work for a minute and a half. A stack of its own, five customers whose endpoints
 * behave differently, a few hundred events, a live table. Exits 1 when a promise was broken or a quota exceeded.
 */

import { runScenario } from "./demo/run.ts";
import { startEndpoints } from "./demo/scenario.ts";
import { openScreen } from "./demo/screen.ts";
import { printFaults, printSummary, tryItLines } from "./demo/summary.ts";
import { type Flags, runScript } from "./flags.ts";
import { whenOrphaned } from "./process-groups.ts";
import { apiClient, keepFiring } from "./stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "./throwaway.ts";

const HELP = `npm run demo -- [flags]    Breakwater at work for a minute and a half, on a stack of its own.

  --keep          leave the stack up at the end, and print what to try; Ctrl-C ends it
  --no-strict     do not enforce the quotas that Cloudflare enforces
  --latency SEED  calls to D1, gates and queues take as long as they do in production
  -h, --help      show this help`;

async function demo({ values }: Flags): Promise<number> {
  console.log("Starting Breakwater: an empty D1, the Worker, five customers' endpoints …");
  const receiver = await startEndpoints();
  const latency = values.latency === undefined ? undefined : Number(values.latency);
  const throwaway = await prepareThrowaway({}, values.strict === false ? undefined : { latency });
  try {
    const { url } = await throwaway.start();
    keepFiring(url);
    const screen = openScreen(process.stdout);
    const result = await runScenario(apiClient(url, THROWAWAY_KEY), receiver, screen);
    screen.leave();
    const faults = printSummary(result, receiver);
    const breaches = throwaway.output().match(/QUOTA BREACH: .*/g) ?? [];
    printFaults(breaches);
    if (values.keep) {
      console.log(tryItLines(url, THROWAWAY_KEY, result).join("\n"));
      await new Promise(() => {});
    }
    return faults.length + breaches.length > 0 ? 1 : 0;
  } catch (error) {
    console.error(`\nThe demo failed. The end of wrangler's output:\n${throwaway.lastLines()}`);
    throw error;
  }
}

// Children and files go with this process: see process-groups.ts and throwaway.ts.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));
whenOrphaned(() => process.exit(130));
process.exit(await runScript(HELP, demo));
