/** The ledger: every run on a stack of its own, and what a month of nothing costs. */
import type { Entry } from "./budget.ts";
import { type Run, runsOf, type Size } from "./runs.ts";
import { openStage, type Stage } from "./stage.ts";
import type { Units } from "./units.ts";

/** What one minute costs in which nothing happens. */
export type Idle = Readonly<{ units: Units; cpuMs: number; minutes: number }>;

export type Ledger = Readonly<{ entries: readonly Entry[]; idle: Idle }>;

const IDLE_MINUTES = 30;
/** A delivery's path is metered in full; of the clock's duties some queries are built by Drizzle. */
const UNMETERED = 0.01;

/** @param tell hears of each entry as it is made */
export async function keepLedger(size: Size, tell: (entry: Entry) => void): Promise<Ledger> {
  return { entries: await entriesOf(runsOf(size), tell), idle: await staged(idle) };
}

/** Plays the runs one after the other. */
export async function entriesOf(
  runs: readonly Run[],
  tell: (entry: Entry) => void = () => {},
): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const run of runs) {
    const entry = await staged((stage) => entryOf(stage, run));
    entries.push(entry);
    tell(entry);
  }
  return entries;
}

async function staged<T>(play: (stage: Stage) => Promise<T>): Promise<T> {
  const stage = await openStage();
  try {
    return await play(stage);
  } finally {
    await stage.close();
  }
}

async function entryOf(stage: Stage, { name, budget, prepare, play }: Run): Promise<Entry> {
  await prepare(stage);
  const used = await stage.metered();
  const delivered = await play(stage);
  const { units, cpuMs } = await used();
  const unmetered = units.d1Unmetered / units.d1RoundTrips;
  if (unmetered > UNMETERED) throw new Error(`${name}: ${units.d1Unmetered} round trips to D1 not metered`);
  return { name, delivered, units, cpuMs, ...(budget && { budget }) };
}

async function idle(stage: Stage): Promise<Idle> {
  await stage.destinations(1);
  await stage.tick();
  const used = await stage.metered();
  for (let minute = 0; minute < IDLE_MINUTES; minute++) await stage.tick();
  return { ...(await used()), minutes: IDLE_MINUTES };
}
