/** Quantiles of a phase's delays, ratios of phases within a round, and medians over rounds. */

import type { AtLeast } from "../results.ts";

/** The time from post to arrival or, if `arrived` is false, to the end of the wait. */
export type Delay = Readonly<{ ms: number; arrived: boolean }>;

/** In ms. */
export type Quantiles = Readonly<{ p50: AtLeast; p99: AtLeast }>;

export function quantilesOf(delays: readonly Delay[]): Quantiles {
  // Missing events count as the slowest, however recently they were posted.
  const sorted = delays.toSorted((a, b) => Number(b.arrived) - Number(a.arrived) || a.ms - b.ms);
  const at = (q: number): AtLeast => {
    const { ms, arrived } = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? nothing;
    return { value: ms, more: !arrived };
  };
  return { p50: at(0.5), p99: at(0.99) };
}

const nothing = { ms: Number.NaN, arrived: true };

export function ratio(against: AtLeast, base: AtLeast): AtLeast {
  return { value: against.value / base.value, more: against.more };
}

/** The median. It is a lower bound if the figure in the middle is one. */
export function median(figures: readonly AtLeast[]): AtLeast {
  const sorted = figures.toSorted((a, b) => a.value - b.value);
  return sorted[Math.floor(sorted.length / 2)] ?? { value: Number.NaN, more: false };
}
