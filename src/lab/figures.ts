/** What is read off a simulation. Each figure says what exactly it counts. */
import { drainOf, optimumMs } from "./drain-time.ts";
import { type Ledger, secondOf } from "./ledger.ts";
import { capacityOf } from "./receiver.ts";
import { recoveryOf, type Scenario } from "./scenario.ts";

/** A scenario that has been played to its end. */
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
  /** Time from the recovery until nothing is overdue ÷ the optimum; undefined: see drain-time.ts. */
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

export function figuresOf(simulated: Simulated): Figures {
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

/** Of sorted values; 0 when there are none. */
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
