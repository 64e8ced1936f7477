/**
 * What a tally says in the figures that people watch. A share of nothing is null, not zero: no traffic is
 * neither good nor bad.
 */
import { DELAY_BOUNDS_MS, LATENCY_BOUNDS_MS, quantile, totalOf } from "./histogram.ts";
import { results } from "./sample.ts";
import type { Counters } from "./tally.ts";

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
