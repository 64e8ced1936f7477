/**
 * The figures of a simulation, each with the exact quantity that it counts.
 *
 * How long a backlog takes to drain is compared with the optimum: the same deliveries, and those that are posted
 * meanwhile, served from the moment of the recovery without a pause at the best possible rate.
 */
import { type Ledger, type SimulatedDelivery, secondOf } from "./ledger.ts";
import { capacityOf } from "./receiver.ts";
import { recoveryOf, type Scenario } from "./scenario.ts";
import { WIRE_MS } from "./sender.ts";

/** A delivery is overdue if it has not ended this long after acceptance: the time through an idle sender. */
const OVERDUE_MS = 3_000;
/** A backlog that the best possible rate delivers in less than this is ignored. */
const BACKLOG_MS = 5_000;

export type Simulated = Readonly<{ scenario: Scenario; ledger: Ledger; breakdowns: number }>;

export type Figures = Readonly<{
  /** Arrivals in the fullest second after the first trouble has ended (and outside of trouble) ÷ capacity. */
  peak: number;
  /** How often a receiver broke down under load. */
  secondOutages: number;
  /** Attempts that did not succeed, in the whole run. */
  wasted: number;
  /** Seconds from the recovery to the first request that arrives; undefined when there was no trouble. */
  noticedS: number | undefined;
  /** Time from the recovery until nothing is overdue ÷ the optimum; undefined if there is nothing to compare. */
  drain: number | undefined;
  /** Seconds that the backlog takes at the best possible rate. */
  optimumS: number;
  p50S: number;
  p99S: number;
  /** Given up. */
  lost: number;
  /** Neither delivered nor given up two days after the recovery. */
  pending: number;
}>;

export function simulationFiguresOf(simulated: Simulated): Figures {
  const { scenario, ledger, breakdowns } = simulated;
  const watched = ledger.deliveries.filter(({ receiver }) => scenario.watched(receiver));
  const delays = watched
    .filter((d) => d.endedAt > 0 && !d.dead)
    .map((d) => (d.endedAt - d.acceptedAt) / 1000);
  delays.sort((a, b) => a - b);
  return {
    peak: peakOf(simulated),
    secondOutages: breakdowns,
    wasted: ledger.failures.reduce((sum, bins) => sum + total(bins), 0),
    noticedS: scenario.troubles.length > 0 ? noticed(simulated) : undefined,
    drain: drainOf(scenario, watched),
    optimumS: optimumMs(scenario, watched) / 1000,
    p50S: quantile(delays, 0.5),
    p99S: quantile(delays, 0.99),
    lost: ledger.deliveries.filter(({ dead }) => dead).length,
    pending: ledger.deliveries.filter(({ endedAt }) => endedAt === 0).length,
  };
}

function total(bins: readonly number[]): number {
  return bins.reduce((sum, count) => sum + (count ?? 0), 0);
}

/** The quantile of sorted values; 0 when there are none. */
function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0;
}

function peakOf({ scenario, ledger }: Simulated): number {
  const first = scenario.troubles[0];
  const from = first ? Math.ceil(first.to / 1000) : 0;
  const isTroubled = (second: number) =>
    scenario.troubles.some((span) => second * 1000 >= span.from && second * 1000 < span.to);
  const counts = ledger.arrivals.map((bins, receiver) =>
    scenario.watched(receiver)
      ? bins.reduce((most, n, second) => (second >= from && !isTroubled(second) && n > most ? n : most), 0)
      : 0,
  );
  return Math.max(...counts) / capacityOf(scenario.server);
}

function noticed({ scenario, ledger }: Simulated): number {
  const from = secondOf(recoveryOf(scenario));
  const firsts = ledger.arrivals.map((bins) => bins.findIndex((n, second) => second >= from && n > 0) - from);
  return Math.max(0, Math.max(...firsts));
}

/** Drain time ÷ optimum. Undefined when some were lost or are still open, when hardly any waited, and for several receivers. */
function drainOf(scenario: Scenario, deliveries: readonly SimulatedDelivery[]): number | undefined {
  if (scenario.receivers > 1 || deliveries.some(({ dead }) => dead)) return undefined;
  const optimum = optimumMs(scenario, deliveries);
  const until = drainedAt(scenario, deliveries);
  return optimum < BACKLOG_MS || until === undefined ? undefined : (until - recoveryOf(scenario)) / optimum;
}

/** The first moment after the recovery at which nothing is overdue. */
function drainedAt(scenario: Scenario, deliveries: readonly SimulatedDelivery[]): number | undefined {
  const recovery = recoveryOf(scenario);
  let until = recovery;
  for (const { acceptedAt, endedAt } of deliveries) {
    if (acceptedAt > recovery && acceptedAt + OVERDUE_MS > until) break;
    if (endedAt === 0) return undefined;
    until = Math.max(until, endedAt - acceptedAt > OVERDUE_MS ? endedAt : 0);
  }
  return until;
}

/** How long the deliveries that are open at the recovery, and those that come meanwhile, take at the best possible rate. */
function optimumMs(scenario: Scenario, deliveries: readonly SimulatedDelivery[]): number {
  const recovery = recoveryOf(scenario);
  const eachMs = 1000 / bestRateOf(scenario);
  const open = deliveries.filter(
    (d) => d.acceptedAt <= recovery && (d.endedAt === 0 || d.endedAt > recovery),
  );
  let lastMs = open.length * eachMs;
  for (const { acceptedAt } of deliveries) {
    if (acceptedAt > recovery && acceptedAt <= recovery + lastMs) lastMs += eachMs;
  }
  return lastMs;
}

/** The least of what the receiver can serve and what the destination's limits allow. */
function bestRateOf({ server, settings }: Scenario): number {
  const { maxConcurrency = 10, ratePerSecond = 100 } = settings;
  const inFlight = (maxConcurrency * 1000) / (server.serviceMs + 2 * WIRE_MS);
  return Math.min(capacityOf(server), ratePerSecond, inFlight);
}
