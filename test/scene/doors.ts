/** What the gates of the scene say: each state that a door can be in, with traffic that fits to it. */

import type { HistoryEntry, HistoryKind } from "../../src/core/gate-state.ts";
import type { GateView } from "../../src/core/gate-view.ts";
import type { AttemptMetric } from "../../src/core/metrics.ts";
import { newRollups, type Rollups, recentTraffic, rollupsAfter, trafficSum } from "../../src/core/rollups.ts";
import { seededRandom } from "../../src/local/seeded-random.ts";
import { idleGateView } from "../support/idle-gate-view.ts";

/** When it is, in the scene: always. */
export const NOW = Date.parse("2026-11-20T14:03:22.000Z");

const MINUTE_MS = 60_000;
/** As far back as gates remember minutes. */
const MINUTES = 60;

/** Attempts of a minute, which is so many minutes ago. */
type Shape = (ago: number) => Readonly<{ first: number; retries?: number; failures?: number }>;

export type Door = Readonly<{ view: GateView; rollups: Rollups }>;

export function door(shape: Shape, view: Partial<GateView> = {}): Door {
  const rollups = Array.from({ length: MINUTES }, (_, i) => MINUTES - 1 - i).reduce(
    (before, ago) => rollupsAfter(before, samplesOf(shape(ago), view.tookMs), NOW - ago * MINUTE_MS),
    newRollups(NOW - MINUTES * MINUTE_MS),
  );
  const minutes = recentTraffic(rollups, NOW);
  return { view: { ...idleGateView, minutes, traffic: trafficSum(minutes), ...view }, rollups };
}

/** The newest attempts are those that failed. */
function samplesOf({ first, retries = 0, failures = 0 }: ReturnType<Shape>, tookMs = 100): AttemptMetric[] {
  return Array.from({ length: first + retries }, (_, i) => ({
    attempt: i < first ? 1 : 2,
    ...(i < first + retries - failures
      ? { result: "2xx" as const, end: "delivered" as const }
      : { result: "5xx" as const, end: "again" as const }),
    tookMs: Math.round(tookMs * (0.6 + (0.9 * i) / (first + retries))),
    lateMs: 700,
  }));
}

/** About so many a minute, as traffic is: never quite the same. */
export function about(perMinute: number, seed: number): (ago: number) => number {
  const random = seededRandom(seed);
  const factors = Array.from({ length: MINUTES }, () => 0.7 + 0.6 * random());
  return (ago) => Math.round(perMinute * (factors[ago] ?? 1));
}

export const quiet: Shape = () => ({ first: 0 });

type Turn = readonly [
  secondsAgo: number,
  what: HistoryKind,
  more?: Readonly<{ times?: number; until?: number }>,
];

/** What happened to a door, so many seconds ago each, the newest last. */
export function turns(...happened: readonly Turn[]): readonly HistoryEntry[] {
  return happened.map(([secondsAgo, what, more]) => ({ at: NOW - secondsAgo * 1000, what, ...more }));
}
