/**
 * A line of time on which places are logarithms of ages: a schedule that grows by a factor comes out evenly
 * spaced, and the first second is as easy to read as the last day. Pure.
 */

export type Tick = Readonly<{ x: number; label: string }>;

export type TimeScale = Readonly<{
  /** Along the line, 0 to 100, of an age in ms. */
  place: (ageMs: number) => number;
  ticks: readonly Tick[];
}>;

const SECOND = 1000;

const ages: readonly (readonly [number, string])[] = [
  [1, "1 s"],
  [10, "10 s"],
  [60, "1 min"],
  [600, "10 min"],
  [3600, "1 h"],
  [6 * 3600, "6 h"],
  [24 * 3600, "1 d"],
  [72 * 3600, "3 d"],
  [10 * 24 * 3600, "10 d"],
  [30 * 24 * 3600, "30 d"],
];

/** Room at the right for the last mark. */
const WIDTH = 98;

/** A place as SVG has it; a little in from the left, so that the first mark is whole. */
export function percent(x: number): string {
  return `${(1 + x).toFixed(2)}%`;
}

export function timeScale(longestMs: number): TimeScale {
  const longest = Math.max(10 * SECOND, longestMs);
  const place = (ageMs: number) =>
    (WIDTH * Math.log1p(Math.max(0, ageMs) / SECOND)) / Math.log1p(longest / SECOND);
  const ticks = ages
    .filter(([age]) => age * SECOND <= longest)
    .map(([age, label]) => ({ x: place(age * SECOND), label }));
  return { place, ticks };
}
