/** Figures that the gates have counted: within a window of time, and as metrics for Prometheus. */

import type { FiguresQuery } from "../../core/gate-view.ts";
import { type Counters, ratesOf, totalOf } from "../../core/metrics.ts";
import { missing, ok } from "../../core/result.ts";
import { results } from "../../core/retry/classify.ts";
import type { StatsWindow } from "../../core/rollups.ts";
import { readCounts, retryingForADay } from "../../store/stats.ts";
import { isoTime } from "../../time.ts";
import { service, tenantService } from "../service.ts";
import { expose } from "./exposition.ts";
import { ATTEMPT_NUMBERS, scrape } from "./families.ts";
import { type Depth, type Fleet, type FleetMember, fleetSeries, fleetSum, readFleet } from "./fleet.ts";

type Scope = Readonly<{ window: StatsWindow; destination: string | undefined; tenant: string | undefined }>;

/** The statistics of a destination, of a tenant, or of everything that the principal may see. */
export const getStats = tenantService(
  { scope: "read" },
  async ({ services }, { window, destination, tenant }: Scope) => {
    const scope = { tenant, destination };
    const isEverything = tenant === undefined && destination === undefined;
    const [fleet, old, counts] = await Promise.all([
      readFleet(services, scope, { windows: [window], series: true }),
      retryingForADay(services, scope, services.now()),
      isEverything ? readCounts(services) : undefined,
    ]);
    if (destination !== undefined && fleet.total === 0) return missing("destination", destination);
    const deduplicated = counts ? (counts.deduplicated ?? 0) : null;
    const keyed = counts ? (counts.keyed ?? 0) + (counts.deduplicated ?? 0) : null;
    const counted = { retrying_for_a_day: old, deduplicated, keyed_requests: keyed };
    return ok({ ...statsView(fleet, window), ...counted });
  },
);

type FleetScope = Readonly<{ tenant: string | undefined; query: FiguresQuery }>;

/** The figures of the destinations of a tenant, or of all: of a hundred at most, the active ones first. */
export const getFleet = tenantService(
  { scope: "read" },
  async ({ services }, { tenant, query }: FleetScope) => ok(await readFleet(services, { tenant }, query)),
);

/** The metrics of all tenants, in Prometheus's text format. */
export const getMetrics = service(
  { scope: "read", operators: "these are the figures of all. Use /v1/stats" },
  async ({ services }, _: undefined) => ok(expose(await scrape(services))),
);

function statsView(fleet: Fleet, window: StatsWindow) {
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
      queried: fleet.seen.length,
      sampled: fleet.sampled === fleet.seen ? null : fleet.sampled.length,
      unreachable: fleet.unreachable,
    },
  };
}

function destinationView({ row, depth, figures }: FleetMember, window: StatsWindow) {
  const sum = figures?.windows[window]?.sum;
  if (!figures || !sum) return [];
  const { circuit, traffic } = figures.view;
  return [{ destination_id: row.id, ...figuresView(sum, depth), circuit, storm: traffic.storm }];
}

function figuresView(sum: Counters, { waiting, retrying, dead: dead_letters }: Omit<Depth, "held">) {
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
