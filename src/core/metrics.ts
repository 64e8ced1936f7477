/**
 * Counters of attempts within a period, and the rates that people watch. Counters only add up, so minutes make hours, and destinations make a total, without loss.
 *
 * Distributions are histograms with fixed bounds: a few numbers however much is counted, and two of them add up
 * exactly, which quantiles do not. A quantile read from one is exact to within its bucket.
 */
import { type MetricResult, results } from "./retry/classify.ts";

/** The counted figures of one attempt: it is part of the signal that the gate gets. */
export type AttemptMetric = Readonly<{
  /** Which attempt of its delivery it was, from 1. */
  attempt: number;
  result: MetricResult;
  /** The delivery's state after it. */
  end: "delivered" | "again" | "dead";
  tookMs: number;
  /** How long after it was due it started: a first attempt is due at acceptance, a retry at its time. */
  lateMs: number;
}>;

/** One count for each bound, of the values up to it and above the one before; and one for all beyond. */
type Histogram = readonly number[];

/** Bounds of an attempt's duration: a timeout is at most 25 s. */
export const LATENCY_BOUNDS_MS: readonly number[] = [
  1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 20_000, 25_000,
];

/** Bounds of an attempt's delay, from the queue's milliseconds to days behind an open circuit or a pause. */
export const DELAY_BOUNDS_MS: readonly number[] = [
  10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000,
  86_400_000,
];

export function emptyHistogram(bounds: readonly number[]): Histogram {
  return Array<number>(bounds.length + 1).fill(0);
}

/** The index of the count for `value`. */
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
 * The value that a share `q` in [0, 1] of all values lies below, by linear interpolation within its bucket; null when
 * nothing was counted.
 * @param greatest the greatest value that was counted: no quantile lies above it. Without it, values beyond the last
 * bound count as the last bound.
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

/** Attempts are counted by their number: each of the first five, then up to ten, then all beyond. */
export const ATTEMPT_BOUNDS: readonly number[] = [1, 2, 3, 4, 5, 10];

export type Counters = Readonly<{
  /** Epoch ms: the start of its minute or hour. */
  from: number;
  /** By the attempt's number, between `ATTEMPT_BOUNDS`. */
  attempts: Histogram;
  /** In the order of `results`. */
  results: readonly number[];
  delivered: number;
  /** Deliveries that ended dead, by an attempt or without one. */
  dead: number;
  /** First attempts that were followed by a retry. */
  firstsAgain: number;
  /** Second attempts that delivered. */
  secondsDelivered: number;
  /** Attempts of the deliveries that were delivered, summed. */
  attemptsToSuccess: number;
  latency: Histogram;
  latencyMs: number;
  /** The longest of them. */
  latencyMaxMs: number;
  delay: Histogram;
  delayMs: number;
  delayMaxMs: number;
}>;

export function emptyCounters(from: number): Counters {
  return {
    from,
    attempts: emptyHistogram(ATTEMPT_BOUNDS),
    results: results.map(() => 0),
    delivered: 0,
    dead: 0,
    firstsAgain: 0,
    secondsDelivered: 0,
    attemptsToSuccess: 0,
    latency: emptyHistogram(LATENCY_BOUNDS_MS),
    latencyMs: 0,
    latencyMaxMs: 0,
    delay: emptyHistogram(DELAY_BOUNDS_MS),
    delayMs: 0,
    delayMaxMs: 0,
  };
}

export function countersAfter(counters: Counters, metrics: readonly AttemptMetric[]): Counters {
  const count = (fits: (metric: AttemptMetric) => boolean) => metrics.filter(fits).length;
  const sum = (value: (metric: AttemptMetric) => number) => metrics.reduce((total, s) => total + value(s), 0);
  const most = (value: (metric: AttemptMetric) => number) =>
    metrics.reduce((top, s) => Math.max(top, value(s)), 0);
  const delivered = metrics.filter(({ end }) => end === "delivered");
  return sumOfCounters(counters, {
    attempts: spread(counters.attempts, metrics, ({ attempt }) => slotOf(ATTEMPT_BOUNDS, attempt)),
    results: spread(counters.results, metrics, ({ result }) => results.indexOf(result)),
    delivered: delivered.length,
    dead: count(({ end }) => end === "dead"),
    firstsAgain: count(({ attempt, end }) => attempt === 1 && end === "again"),
    secondsDelivered: delivered.filter(({ attempt }) => attempt === 2).length,
    attemptsToSuccess: delivered.reduce((total, { attempt }) => total + attempt, 0),
    latency: spread(counters.latency, metrics, ({ tookMs }) => slotOf(LATENCY_BOUNDS_MS, tookMs)),
    latencyMs: sum(({ tookMs }) => tookMs),
    latencyMaxMs: most(({ tookMs }) => tookMs),
    delay: spread(counters.delay, metrics, ({ lateMs }) => slotOf(DELAY_BOUNDS_MS, lateMs)),
    delayMs: sum(({ lateMs }) => lateMs),
    delayMaxMs: most(({ lateMs }) => lateMs),
  });
}

/** The sum, from `a.from` on. */
export function sumOfCounters(a: Counters, b: Omit<Counters, "from">): Counters {
  const sums = Object.entries(b).map(([name, other]) => {
    const own = a[name as keyof Counters];
    if (typeof own !== "number" || typeof other !== "number")
      return [name, added(own as Histogram, other as Histogram)];
    return [name, name.endsWith("MaxMs") ? Math.max(own, other) : own + other];
  });
  return { ...Object.fromEntries(sums), from: a.from };
}

/** Whether a stored value has this version's shape: counters with other bounds would add up wrongly. */
export function isCounters(value: unknown): value is Counters {
  if (typeof value !== "object" || value === null) return false;
  const given = value as Readonly<Record<string, unknown>>;
  return Object.entries(SHAPE).every(([name, part]) => {
    const own = given[name];
    return Array.isArray(part) ? Array.isArray(own) && own.length === part.length : typeof own === "number";
  });
}

const SHAPE = emptyCounters(0);

/** How many attempts fall into each bucket of a histogram of the shape of `like`. */
function spread(
  like: Histogram,
  metrics: readonly AttemptMetric[],
  bucketOf: (metric: AttemptMetric) => number,
): Histogram {
  const counts = like.map(() => 0);
  for (const metric of metrics) {
    const bucket = bucketOf(metric);
    counts[bucket] = (counts[bucket] ?? 0) + 1;
  }
  return counts;
}

/** Shares of the counters. A share of nothing is null, not zero: no traffic is neither good nor bad. */
export type Rates = Readonly<{
  /** Share of the first attempts that were followed by a retry. */
  retryRate: number | null;
  /** Share of the ended deliveries that ended dead. */
  deadRate: number | null;
  /** Share of the second attempts that delivered. */
  secondAttemptSuccess: number | null;
  meanAttemptsToSuccess: number | null;
  /** Share of all attempts that got a response other than 2xx. */
  non2xxRate: number | null;
  /** Share of all attempts that timed out. */
  timeoutRate: number | null;
  /** Retries for each first attempt; a first attempt is assumed where there was none. */
  retryRatio: number;
  latencyP50Ms: number | null;
  latencyP95Ms: number | null;
  queueDelayP50Ms: number | null;
  queueDelayP95Ms: number | null;
}>;

export function ratesOf(counters: Counters): Rates {
  const [first = 0, second = 0] = counters.attempts;
  const attempts = totalOf(counters.attempts);
  const countOf = (result: MetricResult) => counters.results[results.indexOf(result)] ?? 0;
  return {
    retryRate: share(counters.firstsAgain, first),
    deadRate: share(counters.dead, counters.delivered + counters.dead),
    secondAttemptSuccess: share(counters.secondsDelivered, second),
    meanAttemptsToSuccess: share(counters.attemptsToSuccess, counters.delivered),
    non2xxRate: share(attempts - countOf("2xx") - countOf("timeout") - countOf("network"), attempts),
    timeoutRate: share(countOf("timeout"), attempts),
    retryRatio: (attempts - first) / Math.max(1, first),
    latencyP50Ms: quantile(counters.latency, LATENCY_BOUNDS_MS, 0.5, counters.latencyMaxMs),
    latencyP95Ms: quantile(counters.latency, LATENCY_BOUNDS_MS, 0.95, counters.latencyMaxMs),
    queueDelayP50Ms: quantile(counters.delay, DELAY_BOUNDS_MS, 0.5, counters.delayMaxMs),
    queueDelayP95Ms: quantile(counters.delay, DELAY_BOUNDS_MS, 0.95, counters.delayMaxMs),
  };
}

function share(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}
