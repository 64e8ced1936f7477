/** The ledger: plays every run on its own stack, and counts what a month without traffic costs. */

import type { Entry, Used } from "./budget.ts";
import { type MeteredStack, startMeteredStack } from "./metered-stack.ts";
import { passTime, tick } from "./retention.ts";
import type { Run } from "./runs.ts";
import { mapped, type Units } from "./units.ts";

/** The usage of some minutes without traffic. */
export type Idle = Readonly<{ units: Units; cpuMs: number; minutes: number }>;

export type Ledger = Readonly<{ entries: readonly Entry[]; idle: Idle }>;

const IDLE_MINUTES = 30;
const SAMPLED_MINUTES = 3;
/**
 * The greatest share of unmetered round trips. A delivery's path is metered in full, but some queries of the cron are
 * built by Drizzle, and D1 does not say what those read and write.
 */
const UNMETERED = 0.01;

/** @param onEntry receives each entry as soon as its run is over */
export async function keepLedger(runs: readonly Run[], onEntry: (entry: Entry) => void): Promise<Ledger> {
  return { entries: await entriesOf(runs, onEntry), idle: await staged(idle) };
}

/** Plays the runs one after the other. */
export async function entriesOf(
  runs: readonly Run[],
  onEntry: (entry: Entry) => void = () => {},
): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const run of runs) {
    const entry = await staged((stack) => entryOf(stack, run), run);
    entries.push(entry);
    onEntry(entry);
  }
  return entries;
}

async function staged<T>(
  play: (stack: MeteredStack) => Promise<T>,
  { latency = false }: Pick<Run, "latency"> = {},
): Promise<T> {
  const stack = await startMeteredStack({ latency });
  try {
    return await play(stack);
  } finally {
    await stack.close();
  }
}

async function entryOf(stack: MeteredStack, { id, name, budget, goal, prepare, play }: Run): Promise<Entry> {
  await prepare(stack);
  const before = await stack.bytes();
  const used = await stack.metered();
  const delivered = await play(stack);
  const delivering = await used();
  const { d1Unmetered, d1RoundTrips } = delivering.units;
  if (d1Unmetered / d1RoundTrips > UNMETERED)
    throw new Error(`${name}: ${d1Unmetered} round trips to D1 not metered`);
  const bytes = (await stack.bytes()) - before;
  const usedAfterwards = await stack.metered();
  const minutes = await passTime(stack);
  const afterwards = withoutIdle(await usedAfterwards(), minutes, await idleMinute(stack));
  return {
    id,
    name,
    delivered,
    delivering,
    afterwards,
    bytes,
    ...(budget && { budget }),
    ...(goal && { goal }),
  };
}

/** Subtracts the cron's own work, which is counted separately and would weigh much on the few deliveries of a run. */
function withoutIdle(used: Used, minutes: number, idle: Used): Used {
  return {
    units: mapped(used.units, (unit, name) => Math.max(0, unit - minutes * idle.units[name])),
    cpuMs: Math.max(0, used.cpuMs - minutes * idle.cpuMs),
  };
}

async function idleMinute(stack: MeteredStack): Promise<Used> {
  const used = await stack.metered();
  for (let minute = 0; minute < SAMPLED_MINUTES; minute++) await tick(stack);
  const { units, cpuMs } = await used();
  return { units: mapped(units, (unit) => unit / SAMPLED_MINUTES), cpuMs: cpuMs / SAMPLED_MINUTES };
}

async function idle(stack: MeteredStack): Promise<Idle> {
  await stack.destinations(1);
  await stack.tick();
  const used = await stack.metered();
  for (let minute = 0; minute < IDLE_MINUTES; minute++) await stack.tick();
  return { ...(await used()), minutes: IDLE_MINUTES };
}
