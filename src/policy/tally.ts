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
import { results, type Sample } from "./sample.ts";

/** Attempts are counted by their number: each of the first five, then up to ten, then all beyond. */
export const ATTEMPT_BOUNDS: readonly number[] = [1, 2, 3, 4, 5, 10];

export type Tally = Readonly<{
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

export function emptyTally(from: number): Tally {
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
export function tallied(tally: Tally, samples: readonly Sample[]): Tally {
  const count = (fits: (sample: Sample) => boolean) => samples.filter(fits).length;
  const sum = (value: (sample: Sample) => number) => samples.reduce((total, s) => total + value(s), 0);
  const most = (value: (sample: Sample) => number) => samples.reduce((top, s) => Math.max(top, value(s)), 0);
  const delivered = samples.filter(({ end }) => end === "delivered");
  return plus(tally, {
    attempts: spread(tally.attempts, samples, ({ attempt }) => slotOf(ATTEMPT_BOUNDS, attempt)),
    results: spread(tally.results, samples, ({ result }) => results.indexOf(result)),
    delivered: delivered.length,
    dead: count(({ end }) => end === "dead"),
    firstsAgain: count(({ attempt, end }) => attempt === 1 && end === "again"),
    secondsDelivered: delivered.filter(({ attempt }) => attempt === 2).length,
    attemptsToSuccess: delivered.reduce((total, { attempt }) => total + attempt, 0),
    latency: spread(tally.latency, samples, ({ tookMs }) => slotOf(LATENCY_BOUNDS_MS, tookMs)),
    latencyMs: sum(({ tookMs }) => tookMs),
    latencyMaxMs: most(({ tookMs }) => tookMs),
    delay: spread(tally.delay, samples, ({ lateMs }) => slotOf(DELAY_BOUNDS_MS, lateMs)),
    delayMs: sum(({ lateMs }) => lateMs),
    delayMaxMs: most(({ lateMs }) => lateMs),
  });
}

/** Both together, from `a.from` on. */
export function plus(a: Tally, b: Omit<Tally, "from">): Tally {
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
export function isTally(value: unknown): value is Tally {
  if (typeof value !== "object" || value === null) return false;
  const given = value as Readonly<Record<string, unknown>>;
  return Object.entries(SHAPE).every(([name, part]) => {
    const own = given[name];
    return Array.isArray(part) ? Array.isArray(own) && own.length === part.length : typeof own === "number";
  });
}

const SHAPE = emptyTally(0);

/** How many samples fall into each place of a histogram that looks like `like`. */
function spread(like: Histogram, samples: readonly Sample[], placeOf: (sample: Sample) => number): Histogram {
  const counts = like.map(() => 0);
  for (const sample of samples) {
    const place = placeOf(sample);
    counts[place] = (counts[place] ?? 0) + 1;
  }
  return counts;
}
