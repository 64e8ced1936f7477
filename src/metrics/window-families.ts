/**
 * The figures that have thresholds, over all destinations and three windows. They are made here, from
 * counts, and not left to a query, so that an alert needs no history of its own.
 */
import { type Rates, ratesOf } from "../policy/rates.ts";
import type { StatsWindow } from "../policy/stats-window.ts";
import type { Family, Sample } from "./exposition.ts";
import { gauge } from "./family.ts";
import { type Fleet, fleetSum } from "./fleet.ts";

export const EXPOSED_WINDOWS: readonly StatsWindow[] = ["15m", "1h", "24h"];

export function windowFamilies(fleet: Fleet): Family[] {
  const sums = EXPOSED_WINDOWS.map((window) => ({ window, sum: fleetSum(fleet, window) }));
  const rates = sums.map(({ window, sum }) => ({ window, rates: ratesOf(sum) }));
  const of = (pick: (rates: Rates) => number | null) =>
    rates.map(({ window, rates }) => ({ labels: { window }, value: pick(rates) }));
  const quantiles = (p50: (rates: Rates) => number | null, p95: (rates: Rates) => number | null): Sample[] =>
    rates.flatMap(({ window, rates }) => [
      { labels: { window, quantile: "0.5" }, value: seconds(p50(rates)) },
      { labels: { window, quantile: "0.95" }, value: seconds(p95(rates)) },
    ]);
  return [
    gauge(
      "first_attempts",
      "First attempts within the window.",
      sums.map(({ window, sum }) => ({ labels: { window }, value: sum.attempts[0] ?? 0 })),
    ),
    gauge(
      "retry_rate",
      "Of the first attempts, the share that had to be tried again.",
      of((r) => r.retryRate),
    ),
    gauge(
      "dead_letter_rate",
      "Of the deliveries that ended, the share that ended dead.",
      of((r) => r.deadRate),
    ),
    gauge(
      "mean_attempts_to_success",
      "Attempts that a delivered delivery had needed.",
      of((r) => r.meanAttemptsToSuccess),
    ),
    gauge(
      "second_attempt_success_rate",
      "Of the second attempts, the share that delivered.",
      of((r) => r.secondAttemptSuccess),
    ),
    gauge(
      "non_2xx_rate",
      "Of all attempts, the share that was answered, but not with a 2xx.",
      of((r) => r.non2xxRate),
    ),
    gauge(
      "timeout_rate",
      "Of all attempts, the share that was not answered in time.",
      of((r) => r.timeoutRate),
    ),
    gauge(
      "latency_seconds",
      "How long attempts took: median and 95th percentile.",
      quantiles(
        (r) => r.latencyP50Ms,
        (r) => r.latencyP95Ms,
      ),
    ),
    gauge(
      "start_delay_seconds",
      "How long after their time attempts started: median and 95th percentile.",
      quantiles(
        (r) => r.queueDelayP50Ms,
        (r) => r.queueDelayP95Ms,
      ),
    ),
  ];
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000;
}
