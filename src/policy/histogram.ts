/**
 * Distributions as counts between fixed bounds: a few numbers however much is counted, and two of them add
 * up exactly, which quantiles do not. What is read back is right to within its slot.
 */

/** One count for each bound, of the values up to it and above the one before, and one for all beyond. */
export type Histogram = readonly number[];

/** How long an attempt takes: a timeout is at most 25 s. */
export const LATENCY_BOUNDS_MS: readonly number[] = [
  1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 20_000, 25_000,
];

/** How long after its time an attempt starts: from the queue's own milliseconds to days behind a shut door. */
export const DELAY_BOUNDS_MS: readonly number[] = [
  10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000,
  86_400_000,
];

export function emptyHistogram(bounds: readonly number[]): Histogram {
  return Array<number>(bounds.length + 1).fill(0);
}

/** The place of `value` among the counts. */
export function slotOf(bounds: readonly number[], value: number): number {
  const slot = bounds.findIndex((bound) => value <= bound);
  return slot === -1 ? bounds.length : slot;
}

export function added(a: Histogram, b: Histogram): Histogram {
  return a.map((count, i) => count + (b[i] ?? 0));
}

export function totalOf(histogram: Histogram): number {
  return histogram.reduce((sum, count) => sum + count, 0);
}

/**
 * The value that a share `q` in [0, 1] of all lies below, taken to be spread evenly within its slot; null
 * when nothing has been counted.
 * @param greatest the greatest value that was counted: no quantile lies above it. Without it, what is beyond the
 * last bound counts as the last bound.
 */
export function quantile(
  histogram: Histogram,
  bounds: readonly number[],
  q: number,
  greatest = bounds.at(-1) ?? 0,
): number | null {
  const total = totalOf(histogram);
  if (total === 0) return null;
  let below = 0;
  for (const [slot, count] of histogram.entries()) {
    if (count > 0 && below + count >= q * total) {
      const lower = bounds[slot - 1] ?? 0;
      const upper = Math.max(lower, Math.min(bounds[slot] ?? greatest, greatest));
      return lower + (upper - lower) * Math.max(0, (q * total - below) / count);
    }
    below += count;
  }
  return greatest;
}
