/** What the gates of the scene say: each state that a door can be in, with traffic that fits to it. */
import { seededRandom } from "../../src/local/seeded-random.ts";
import type { GateView } from "../../src/policy/gate-view.ts";
import { trafficSum } from "../../src/policy/traffic.ts";

/** When it is, in the scene: always. */
export const NOW = Date.parse("2026-11-20T14:03:22.000Z");

const MINUTE_MS = 60_000;
const MINUTES = 15;

/** Attempts of a minute, which is so many minutes ago. */
type Shape = (ago: number) => Readonly<{ first: number; retries?: number; failures?: number }>;

export function door(shape: Shape, view: Partial<GateView> = {}): GateView {
  const minutes = Array.from({ length: MINUTES }, (_, i) => {
    const ago = MINUTES - 1 - i;
    return { from: NOW - ago * MINUTE_MS - 20_000, retries: 0, failures: 0, ...shape(ago) };
  });
  return {
    circuit: "closed",
    circuitUntil: null,
    trips: 0,
    heldUntil: null,
    window: 10,
    inFlight: 0,
    ratePerSecond: 100,
    rateTokens: 200,
    tookMs: 0,
    refusal: null,
    traffic: trafficSum(minutes, NOW),
    minutes,
    history: [],
    ...view,
  };
}

/** About so many a minute, as traffic is: never quite the same. */
export function about(perMinute: number, seed: number): (ago: number) => number {
  const random = seededRandom(seed);
  const factors = Array.from({ length: MINUTES }, () => 0.7 + 0.6 * random());
  return (ago) => Math.round(perMinute * (factors[ago] ?? 1));
}

export const quiet: Shape = () => ({ first: 0 });

/** What happened to a door, so many seconds ago each, the newest last. */
export function turns(
  ...happened: readonly (readonly [secondsAgo: number, what: GateView["history"][number]["what"]])[]
): GateView["history"] {
  return happened.map(([secondsAgo, what]) => ({ at: NOW - secondsAgo * 1000, what }));
}
