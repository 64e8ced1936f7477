/**
 * How long a call to the platform takes, there and back. As in production, D1 is in another city, a gate in yet
 * another, and now and then a call takes a second, because something is being moved or restarted.
 */

import type { Random } from "../../../src/core/seeded-random.ts";

/** Draws the milliseconds of one call. */
export type Latency = (random: Random) => number;

export type CallKind = "d1" | "gate" | "queue";

export type Latencies = Readonly<Record<CallKind, Latency>>;

/** One of this many calls takes a second. */
const RARELY = 200;
const LONG_MS = 1_000;

/** A constant latency. */
function fixed(ms: number): Latency {
  return () => ms;
}

/** A latency between the two, and now and then a second. */
function between(leastMs: number, mostMs: number): Latency {
  return (random) => (random() * RARELY < 1 ? LONG_MS : leastMs + random() * (mostMs - leastMs));
}

export const usualLatencies: Latencies = {
  d1: between(5, 80),
  gate: between(5, 60),
  queue: between(5, 60),
};

/** Completes latencies by the usual ones. A number is a constant latency. */
export function latenciesOf(given: Partial<Record<CallKind, Latency | number>> = {}): Latencies {
  const of = (kind: CallKind) => {
    const one = given[kind] ?? usualLatencies[kind];
    return typeof one === "number" ? fixed(one) : one;
  };
  return { d1: of("d1"), gate: of("gate"), queue: of("queue") };
}
