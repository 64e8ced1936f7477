/**
 * A soak: a steady load for customers whose endpoints get into every kind of trouble, on a stack with production's
 * quotas and latencies that is killed, and deployed to the version before and back. The promises are checked all the
 * time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { seededRandom } from "../../../src/core/seeded-random.ts";
import type { Finding } from "./checks.ts";
import type { Ledger } from "./ledger.ts";
import type { Load } from "./load.ts";
import { timeline } from "./timeline.ts";
import { judgeTrends, memoryTrend, type Sample, type Trend, tableTrends } from "./vitals.ts";
import { type Progress, type Size, World } from "./world.ts";

const CRON_MS = 8_000;
const SAMPLE_MS = 10_000;
const LIMITS_MS = 15_000;
/** The time after acceptance at which missing deliveries are looked up. */
const LOOK_UP_MS = 45_000;
const LOOK_UP_EVERY_MS = 4_000;
/** Shorter runs have too few samples to say whether something grows. */
const MEMORY_MINUTES = 10;
const TABLES_MINUTES = 20;

export type Options = Readonly<{
  minutes: number;
  seed: number;
  /** Events a second. */
  rate: number;
  size: Size;
  /** Called every second or so. */
  onProgress?: (progress: Progress) => void;
  /** Called with each violation when it is found, up to twenty of each check. */
  onViolation?: (check: string, text: string) => void;
}>;

export type SoakFigures = Readonly<{
  minutes: number;
  seed: number;
  rate: number;
  size: Size;
  startedAt: number;
  loadMs: number;
  /** From the end of the load until everything had ended, ms. */
  drainMs: number;
  /** After so long events are made a day older, so that retention removes them. */
  ageMs: number;
  counts: Ledger["counts"];
  made: Load["made"] & Readonly<{ repeats: number }>;
  skipped: number;
  kills: number;
  deploys: number;
  limitChanges: number;
  delays: Readonly<Record<string, readonly number[]>>;
  findings: readonly Finding[];
  trends: readonly Trend[];
  memory: Trend | undefined;
  samples: readonly Sample[];
  marks: readonly Readonly<{ at: number; what: "kill" | "deploy" | "back" }>[];
  logged: Readonly<Record<string, number>>;
}>;

export async function soak(options: Options): Promise<SoakFigures> {
  const { minutes, seed, rate, size, onProgress = () => {}, onViolation = () => {} } = options;
  const totalMs = minutes * 60_000;
  const ageMs = Math.max(150_000, Math.min(360_000, totalMs / 10));
  const steps = timeline(totalMs, seed);
  const world = await World.prepare({ seed, totalMs, size, steps });
  const { ledger, load } = world;
  ledger.findings.onViolation = onViolation;
  try {
    await world.start();
    const startedAt = Date.now();
    const elapsed = () => Date.now() - startedAt;
    const running = load.run(rate);
    const random = seededRandom(seed + 1);
    const whileLoaded = [
      every(LIMITS_MS, () => world.changeLimit(random)),
      every(Math.min(ageMs, totalMs) / 3, () => load.replay(ageMs / 3)),
    ];
    const toTheEnd = [
      every(CRON_MS, () => world.cron()),
      every(SAMPLE_MS, () => world.sample(elapsed())),
      every(ageMs / 4, () => world.age(ageMs)),
      every(LOOK_UP_EVERY_MS, () => world.lookUp(LOOK_UP_MS)),
      every(1_000, async () => onProgress(world.progress(elapsed()))),
    ];
    for (const step of steps) {
      await sleep(Math.max(0, step.at - elapsed()));
      await world.perform(step, elapsed());
    }
    await sleep(Math.max(0, totalMs - elapsed()));
    const loadMs = elapsed();
    for (const stop of whileLoaded) stop();
    world.doing = "waiting for the rest";
    await load.stop();
    await running;
    await world.untilAllEnded();
    for (const stop of toTheEnd) stop();
    const drainMs = elapsed() - loadMs;
    return await figuresOf(world, { minutes, seed, rate, size, startedAt, loadMs, drainMs, ageMs });
  } finally {
    await world.leave();
  }
}

type Run = Pick<
  SoakFigures,
  "minutes" | "seed" | "rate" | "size" | "startedAt" | "loadMs" | "drainMs" | "ageMs"
>;

async function figuresOf(world: World, run: Run): Promise<SoakFigures> {
  const { ledger, load, samples, marks, kills, deploys, limitChanges } = world;
  const loaded = samples.filter(({ at }) => at <= run.loadMs);
  const trends = run.minutes < TABLES_MINUTES ? [] : tableTrends(loaded, 2 * run.ageMs);
  const memory = run.minutes < MEMORY_MINUTES ? undefined : memoryTrend(loaded);
  judgeTrends(ledger.findings, trends, memory);
  await ledger.close();
  return {
    ...run,
    counts: { ...ledger.counts, underWay: ledger.underWay() },
    made: { ...load.made, repeats: load.client.repeats },
    skipped: load.skipped,
    ...{ kills, deploys, limitChanges, trends, memory, samples, marks },
    delays: Object.fromEntries(ledger.delays),
    findings: ledger.findings.all(),
    logged: Object.fromEntries(world.logged),
  };
}

/** Repeats the work, one run after the other. Failures while the stack is down are tried again. */
function every(ms: number, work: () => Promise<unknown>): () => void {
  let stopped = false;
  void (async () => {
    while (!stopped) {
      await sleep(ms);
      if (!stopped) await work().catch(() => {});
    }
  })();
  return () => {
    stopped = true;
  };
}
