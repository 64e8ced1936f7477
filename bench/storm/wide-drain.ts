/**
 * The wide drain: a destination that takes 100 at once, answered in 100 ms, has a backlog. An invocation has six
 * connections, so this needs many concurrent drains. Ideal: 1,000 a second.
 */

import type { Simulated } from "../../src/simulator/figures.ts";
import { secondOf } from "../../src/simulator/ledger.ts";
import { FINE, isWithin, recoveryOf, steady } from "../../src/simulator/scenario.ts";
import { ourselves } from "./contenders.ts";
import type { Section } from "./runs.ts";
import type { Scenario } from "./scenarios.ts";
import { simulate } from "./simulate.ts";

export type WideDrain = Readonly<{
  deliveries: number;
  /** Deliveries a second over the middle half of the backlog. */
  sustained: number;
  /** From the first request after the recovery to the last delivery. */
  seconds: number;
  /** From the first request to the first second with 80 % of the ideal. */
  rampS: number;
}>;

const IDEAL = 1_000;
const OUTAGE = { from: 0, to: 120_000 };

function wide(deliveries: number): Scenario {
  return {
    name: "wide",
    title: "100 at once, 100 ms each",
    server: { slots: 1_000, serviceMs: 80, strain: 10_000, bound: 10_000, restartMs: 60_000 },
    receivers: 1,
    watched: () => true,
    troubles: [OUTAGE],
    troubleAt: (_, now) => (isWithin([OUTAGE], now) ? { kind: "down" } : FINE),
    posts: (random) => steady(deliveries / 115, { from: 0, to: 115_000 }, 0, random),
    settings: { maxConcurrency: 100, ratePerSecond: 10_000, rateBurst: 10_000 },
  };
}

export function wideDrainOf(deliveries: number, seed: number): Section<WideDrain> {
  const run = { name: "a wide drain", play: () => wideDrain(deliveries, seed) };
  return { runs: [run], read: (played) => played(run) };
}

export async function wideDrain(deliveries: number, seed: number): Promise<WideDrain> {
  const simulated = await simulate(wide(deliveries), ourselves, seed);
  const bins = arrivalsAfterRecovery(simulated);
  const total = bins.reduce((sum, n) => sum + n, 0);
  return {
    deliveries: total,
    sustained: middleHalf(bins, total),
    seconds: bins.length,
    rampS: bins.findIndex((n) => n >= 0.8 * IDEAL),
  };
}

/** Arrivals by the second, from the first second that is not empty. */
function arrivalsAfterRecovery({ scenario, ledger }: Simulated): number[] {
  const all = Array.from(ledger.arrivals[0] ?? [], (n) => n ?? 0).slice(secondOf(recoveryOf(scenario)));
  return all.slice(
    Math.max(
      0,
      all.findIndex((n) => n > 0),
    ),
  );
}

/** Requests a second between the first quarter and the last. */
function middleHalf(bins: readonly number[], total: number): number {
  let sum = 0;
  const middle = bins.filter((n) => {
    sum += n;
    return sum - n >= total / 4 && sum <= (3 * total) / 4;
  });
  return middle.reduce((all, n) => all + n, 0) / Math.max(1, middle.length);
}
