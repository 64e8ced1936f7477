/** Figures as the API shows them. */
import { isoTime } from "../iso-time.ts";
import { ATTEMPT_NUMBERS } from "../metrics/destination-families.ts";
import { type Depth, type Fleet, fleetSeries, fleetSum, type Seen } from "../metrics/fleet.ts";
import { totalOf } from "../policy/histogram.ts";
import { ratesOf } from "../policy/rates.ts";
import { results } from "../policy/sample.ts";
import type { StatsWindow } from "../policy/stats-window.ts";
import type { Counters } from "../policy/tally.ts";

export function statsView(fleet: Fleet, window: StatsWindow) {
  const sum = fleetSum(fleet, window);
  const total = (pick: (depth: Depth) => number) => fleet.seen.reduce((n, { depth }) => n + pick(depth), 0);
  const depth = {
    waiting: total(({ waiting }) => waiting),
    retrying: total(({ retrying }) => retrying),
    dead: total(({ dead }) => dead),
  };
  return {
    window,
    ...figuresView(sum, depth),
    results: named(results, sum.results),
    attempt_distribution: named(ATTEMPT_NUMBERS, sum.attempts),
    series: fleetSeries(fleet, window).map((point) => ({ ...point, at: isoTime(point.at) })),
    destinations: fleet.seen.flatMap((seen) => destinationView(seen, window)),
    coverage: {
      total: fleet.total,
      asked: fleet.seen.length,
      sampled: fleet.sampled === fleet.seen ? null : fleet.sampled.length,
      unreachable: fleet.unreachable,
    },
  };
}

function destinationView({ row, depth, figures }: Seen, window: StatsWindow) {
  const sum = figures?.windows[window]?.sum;
  if (!figures || !sum) return [];
  const { circuit, traffic } = figures.view;
  return [{ destination_id: row.id, ...figuresView(sum, depth), circuit, storm: traffic.storm }];
}

function figuresView(sum: Counters, { waiting, retrying, dead: dead_letters }: Depth) {
  const rates = ratesOf(sum);
  return {
    attempts: totalOf(sum.attempts),
    first_attempts: sum.attempts[0] ?? 0,
    delivered: sum.delivered,
    dead: sum.dead,
    retry_rate: rounded(rates.retryRate),
    dead_letter_rate: rounded(rates.deadRate),
    second_attempt_success_rate: rounded(rates.secondAttemptSuccess),
    mean_attempts_to_success: rounded(rates.meanAttemptsToSuccess),
    non_2xx_rate: rounded(rates.non2xxRate),
    timeout_rate: rounded(rates.timeoutRate),
    storm_ratio: rounded(rates.retryRatio) ?? 0,
    latency_ms: { p50: whole(rates.latencyP50Ms), p95: whole(rates.latencyP95Ms) },
    queue_delay_ms: { p50: whole(rates.queueDelayP50Ms), p95: whole(rates.queueDelayP95Ms) },
    waiting,
    retrying,
    dead_letters,
  };
}

function named(names: readonly string[], counts: readonly number[]): Record<string, number> {
  return Object.fromEntries(names.map((name, i) => [name, counts[i] ?? 0]));
}

function rounded(value: number | null): number | null {
  return value === null ? null : Math.round(value * 10_000) / 10_000;
}

function whole(value: number | null): number | null {
  return value === null ? null : Math.round(value);
}
