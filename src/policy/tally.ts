/**
 * What is counted of the attempts within one stretch of time. Tallies only add up, so minutes make hours
 * and destinations make a whole without a loss.
 */
import {
  added,
  DELAY_BOUNDS_MS,
  emptyHistogram,
  type Histogram,
  LATENCY_BOUNDS_MS,
  slotOf,
} from "./histogram.ts";
import { results, type AttemptMetric } from "./sample.ts";

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
  const most = (value: (metric: AttemptMetric) => number) => metrics.reduce((top, s) => Math.max(top, value(s)), 0);
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
function spread(like: Histogram, metrics: readonly AttemptMetric[], placeOf: (metric: AttemptMetric) => number): Histogram {
  const counts = like.map(() => 0);
  for (const metric of metrics) {
    const place = placeOf(metric);
    counts[place] = (counts[place] ?? 0) + 1;
  }
  return counts;
}
