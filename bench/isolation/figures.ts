/** What the delays of a phase come to, and how phases compare: ratios within a round, medians over rounds. */

import type { AtLeast } from "../results.ts";

/** From post to arrival; `arrived` is false when it had not come when the waiting ended. */
export type Delay = Readonly<{ ms: number; arrived: boolean; sinceStartMs: number }>;

/** Milliseconds. */
type Figure = AtLeast;

export type Quantiles = Readonly<{ p50: Figure; p99: Figure }>;

/** All of a phase, and the part of it in which the trouble is known. */
export type PhaseFigures = Readonly<{ whole: Quantiles; after: Quantiles }>;

/** What belongs to the first contact at the longest: later than that, the trouble is known. */
export const CONTACT_MS = 5_000;

export function figuresOf(delays: readonly Delay[]): PhaseFigures {
  const after = delays.filter(({ sinceStartMs }) => sinceStartMs >= CONTACT_MS);
  return { whole: quantilesOf(delays), after: quantilesOf(after) };
}

function quantilesOf(delays: readonly Delay[]): Quantiles {
  // What has not arrived takes longest, however short it has been under way.
  const sorted = delays.toSorted((a, b) => Number(b.arrived) - Number(a.arrived) || a.ms - b.ms);
  const at = (q: number): Figure => {
    const { ms, arrived } = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? nothing;
    return { value: ms, more: !arrived };
  };
  return { p50: at(0.5), p99: at(0.99) };
}

const nothing = { ms: Number.NaN, arrived: true };

export function ratio(against: Figure, base: Figure): Figure {
  return { value: against.value / base.value, more: against.more };
}

/** The middle one. Of what is "so much at least" it is so much at least. */
export function median(figures: readonly Figure[]): Figure {
  const sorted = figures.toSorted((a, b) => a.value - b.value);
  return sorted[Math.floor(sorted.length / 2)] ?? { value: Number.NaN, more: false };
}
