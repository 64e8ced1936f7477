/** Posts a few seconds of steady traffic, and measures how long each event of the healthy customers takes. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Running } from "../throughput/contender.ts";
import type { Customers } from "./customers.ts";
import { HEALTHY } from "./faults.ts";
import type { Delay } from "./figures.ts";
import type { Post, Posted } from "./post-events.ts";

const PHASE_MS = 9_000;
const TICK_MS = 200;
/** Events a second for all healthy customers together. */
export const HEALTHY_PER_SECOND = 50;
/** How long to wait for the last events. */
const LATEST_MS = 3_000;
const POLL_MS = 50;

/** @param troubled the customer that may be in trouble, and its events a second */
export async function phase(
  running: Running,
  { arrivals }: Customers,
  post: Post,
  troubled: Readonly<{ customer: number; perSecond: number }>,
): Promise<Delay[]> {
  const startedAt = performance.now();
  const posted: Posted[] = [];
  const perTick = (perSecond: number) => (perSecond * TICK_MS) / 1000;
  for (let tick = 0; tick * TICK_MS < PHASE_MS; tick++) {
    await sleep(Math.max(0, startedAt + tick * TICK_MS - performance.now()));
    const count = perTick(HEALTHY_PER_SECOND);
    const well = Array.from({ length: count }, (_, i) => (tick * count + i) % HEALTHY);
    const others = Array<number>(perTick(troubled.perSecond)).fill(troubled.customer);
    posted.push(...(await post(running, [...well, ...others])));
  }
  const watched = posted.filter(({ customer }) => customer < HEALTHY);
  await arrived(watched, arrivals, LATEST_MS);
  const now = performance.now();
  return watched.map(({ number, at }) => ({
    ms: (arrivals.get(number) ?? now) - at,
    arrived: arrivals.has(number),
  }));
}

/** Waits until all have arrived or time is up, and returns whether all have. */
export async function arrived(
  posted: readonly Posted[],
  arrivals: Customers["arrivals"],
  patienceMs: number,
): Promise<boolean> {
  const deadline = performance.now() + patienceMs;
  const missing = () => posted.some(({ number }) => !arrivals.has(number));
  while (missing() && performance.now() < deadline) await sleep(POLL_MS);
  return !missing();
}
