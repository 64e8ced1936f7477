/**
 * `npm run demo`: Breakwater's whole job in a minute and a half. A stack of its own, five customers with
 * different fates, a few hundred events, a live table. Exits 1 when anything shown was not so.
 */

import { startEndpoints } from "./demo/scenario.ts";
import { openScreen, paint } from "./demo/screen.ts";
import { faultsOf } from "./demo/state.ts";
import { type Told, tellStory, tryItLines } from "./demo/story.ts";
import { summaryHead, summaryLines } from "./demo/table.ts";
import { type Flags, readFlags, runScript } from "./flags.ts";
import { whenOrphaned } from "./lifetime.ts";
import type { Receiver } from "./receiver.ts";
import { apiClient, keepFiring } from "./stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "./throwaway.ts";

const HELP = `npm run demo -- [flags]    Breakwater's whole job in a minute and a half, on a stack of its own.

  --keep          leave the stack up at the end, and print what to try; Ctrl-C ends it
  --no-strict     do not enforce the quotas that Cloudflare enforces
  --latency SEED  calls to D1, gates and queues take as long as they do in production
  -h, --help      this`;

function read(): Flags {
  return readFlags(process.argv.slice(2), {
    keep: { type: "boolean" },
    strict: { type: "boolean" },
    latency: { type: "string" },
  });
}

async function demo({ values }: Flags): Promise<number> {
  console.log("Starting Breakwater: an empty D1, the Worker, five customers' endpoints …");
  const receiver = await startEndpoints();
  const latency = values.latency === undefined ? undefined : Number(values.latency);
  const throwaway = await prepareThrowaway({}, values.strict === false ? undefined : { latency });
  try {
    const { url } = await throwaway.start();
    keepFiring(url);
    const screen = openScreen(process.stdout);
    const told = await tellStory(apiClient(url, THROWAWAY_KEY), receiver, screen);
    screen.leave();
    const faults = [...conclude(told, receiver), ...breachesIn(throwaway.said())];
    if (values.keep) await stayUp(url, told);
    return faults.length > 0 ? 1 : 0;
  } catch (error) {
    console.error(`\nThe demo broke off. Wrangler's last words:\n${throwaway.lastWords()}`);
    throw error;
  }
}

/** Prints the summary and the verdict; returns what was not as it should have been. */
function conclude({ standings, posted }: Told, { hits }: Receiver): string[] {
  const hitsOf = (path: string) => hits.filter((hit) => hit.path === path);
  console.log(`\n${summaryHead}`);
  for (const standing of standings) {
    console.log(summaryLines(standing, posted, hitsOf(standing.customer.path)).join("\n"));
  }
  const faults = standings.flatMap((s) => faultsOf(s, posted, hitsOf(s.customer.path)));
  const signed = `all ${hits.length} signatures verified`;
  if (faults.length === 0) console.log(paint(`\n  ✓ Nothing was lost, ${signed}.`, "green"));
  for (const fault of faults) console.error(paint(`\n  ✗ ${fault}`, "red"));
  return faults;
}

/** The quotas of Cloudflare that the Worker went beyond, each of them said aloud. */
function breachesIn(said: string): string[] {
  const breaches = said.match(/QUOTA BREACH: .*/g) ?? [];
  for (const breach of breaches) console.error(paint(`\n  ✗ ${breach}`, "red"));
  return breaches;
}

/** Never returns: Ctrl-C ends it. */
function stayUp(url: string, { standings, posted }: Told): Promise<never> {
  console.log(tryItLines(url, THROWAWAY_KEY, standings, posted[0]?.id ?? "").join("\n"));
  return new Promise(() => {});
}

// Children and files go with this process: see lifetime.ts and throwaway.ts.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));
whenOrphaned(() => process.exit(130));
process.exit(await runScript(HELP, read, demo));
