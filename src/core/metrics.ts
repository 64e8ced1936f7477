/**
 * What is counted of the attempts within one stretch of time. Tallies only add up, so minutes make hours
 * and destinations make a whole without a loss.
 */
import type { Exchange } from "./retry/classify.ts";

// §§ Distributions as counts between fixed bounds: a few numbers however much is counted, and two of them add
// up exactly, which quantiles do not. What is read back is right to within its slot.

/** One count for each bound, of the values up to it and above the one before, and one for all beyond. */
type Histogram = readonly number[];

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

// §§ What is counted of one attempt: a few small values, which travel to the gate with its sign.

/** The classes that results are counted in: few and fixed, so that a receiver cannot invent more. */
export const results = ["2xx", "3xx", "4xx", "429", "5xx", "other", "timeout", "network"] as const;

export type Result = (typeof results)[number];

export type AttemptMetric = Readonly<{
  /** Which attempt of its delivery it was, from 1. */
  attempt: number;
  result: Result;
  /** What became of the delivery by it. */
  end: "delivered" | "again" | "dead";
  tookMs: number;
  /** How long after its time it started: after acceptance at first, later after the time it was given. */
  lateMs: number;
}>;

/** `network` is whatever kept an answer from coming, the timeout apart; `other` a status of no known class. */
export function resultOf(exchange: Exchange): Result {
  if (exchange.kind === "timeout") return "timeout";
  if (exchange.kind !== "response") return "network";
  if (exchange.status === 429) return "429";
  const ofClass = `${Math.floor(exchange.status / 100)}xx`;
  return results.find((result) => result === ofClass) ?? "other";
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
  /** First attempts after which the delivery was to be tried again. */
  firstsAgain: number;
  /** Second attempts that delivered. */
  secondsDelivered: number;
  /** Attempts that the delivered had needed, summed. */
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

/** The tally with the attempts counted into it. */
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

/** Both together, from `a.from` on. */
export function sumOfCounters(a: Counters, b: Omit<Counters, "from">): Counters {
  return {
    from: a.from,
    attempts: added(a.attempts, b.attempts),
    results: added(a.results, b.results),
    delivered: a.delivered + b.delivered,
    dead: a.dead + b.dead,
    firstsAgain: a.firstsAgain + b.firstsAgain,
    secondsDelivered: a.secondsDelivered + b.secondsDelivered,
    attemptsToSuccess: a.attemptsToSuccess + b.attemptsToSuccess,
    latency: added(a.latency, b.latency),
    latencyMs: a.latencyMs + b.latencyMs,
    latencyMaxMs: Math.max(a.latencyMaxMs, b.latencyMaxMs),
    delay: added(a.delay, b.delay),
    delayMs: a.delayMs + b.delayMs,
    delayMaxMs: Math.max(a.delayMaxMs, b.delayMaxMs),
  };
}

/** Whether a stored value is a tally of today's shape: one with other bounds would be added up wrongly. */
export function isCounters(value: unknown): value is Counters {
  if (typeof value !== "object" || value === null) return false;
  const given = value as Readonly<Record<string, unknown>>;
  return Object.entries(SHAPE).every(([name, part]) => {
    const own = given[name];
    return Array.isArray(part) ? Array.isArray(own) && own.length === part.length : typeof own === "number";
  });
}

const SHAPE = emptyCounters(0);

/** How many samples fall into each place of a histogram that looks like `like`. */
function spread(
  like: Histogram,
  metrics: readonly AttemptMetric[],
  placeOf: (metric: AttemptMetric) => number,
): Histogram {
  const counts = like.map(() => 0);
  for (const metric of metrics) {
    const place = placeOf(metric);
    counts[place] = (counts[place] ?? 0) + 1;
  }
  return counts;
}

// §§ What a tally says in the figures that people watch. A share of nothing is null, not zero: no traffic is
// neither good nor bad.

export type Rates = Readonly<{
  /** Of the first attempts, those after which the delivery had to be tried again. */
  retryRate: number | null;
  /** Of the deliveries that ended, those that ended dead. */
  deadRate: number | null;
  /** Of the second attempts, those that delivered. */
  secondAttemptSuccess: number | null;
  meanAttemptsToSuccess: number | null;
  /** Of all attempts, those that were answered, but not with a 2xx. */
  non2xxRate: number | null;
  /** Of all attempts, those that were not answered in time. */
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
  const came = (result: (typeof results)[number]) => counters.results[results.indexOf(result)] ?? 0;
  return {
    retryRate: share(counters.firstsAgain, first),
    deadRate: share(counters.dead, counters.delivered + counters.dead),
    secondAttemptSuccess: share(counters.secondsDelivered, second),
    meanAttemptsToSuccess: share(counters.attemptsToSuccess, counters.delivered),
    non2xxRate: share(attempts - came("2xx") - came("timeout") - came("network"), attempts),
    timeoutRate: share(came("timeout"), attempts),
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
