/** Compares senders in one scenario. Each gets the same seed and so the same traffic. */
import { type Figures, type Simulated, simulationFiguresOf } from "../../src/simulator/figures.ts";
import { recoveryOf } from "../../src/simulator/scenario.ts";
import type { Played, Run, Section } from "./runs.ts";
import type { Scenario } from "./scenarios.ts";
import type { Contender } from "./sender.ts";
import { simulate } from "./simulate.ts";

/** All figures of one sender in one scenario that are shown anywhere. */
export type Outcome = Readonly<{
  figures: Figures;
  /** Arrivals at the first receiver by the second, for as long as pictures show. */
  arrivals: readonly number[];
  deliveries: number;
  /** Seconds from the recovery to the delivery, for deliveries that were waiting when the receiver recovered. */
  recoveredP50S: number;
  recoveredMostS: number;
}>;

export type Result = Outcome & Readonly<{ name: string; model: boolean }>;

export type Comparison = Readonly<{ scenario: Scenario; results: readonly Result[] }>;

/** Pictures show the first two hours at most. */
const DRAWN_S = 7200;

export function outcomeRun(scenario: Scenario, contender: Contender, seed: number): Run<Outcome> {
  return {
    name: `${scenario.title}: ${contender.id ?? contender.name}`,
    play: async () => outcomeOf(await simulate(scenario, contender, seed)),
  };
}

export function comparisonOf(
  scenario: Scenario,
  contenders: readonly Contender[],
  seed: number,
): Section<Comparison> {
  const runs = contenders.map((contender) => outcomeRun(scenario, contender, seed));
  const resultsBy = (played: Played) =>
    contenders.flatMap(({ name, model }, i) => {
      const run = runs[i];
      return run ? [{ name, model, ...played(run) }] : [];
    });
  return { runs, read: (played) => ({ scenario, results: resultsBy(played) }) };
}

function outcomeOf(simulated: Simulated): Outcome {
  const { deliveries, arrivals } = simulated.ledger;
  return {
    figures: simulationFiguresOf(simulated),
    arrivals: Array.from((arrivals[0] ?? []).slice(0, DRAWN_S), (count) => count ?? 0),
    deliveries: deliveries.length,
    ...recoveredIn(simulated),
  };
}

function recoveredIn({ scenario, ledger }: Simulated) {
  const at = recoveryOf(scenario);
  const waited = ledger.deliveries
    .filter(({ acceptedAt, endedAt, dead }) => acceptedAt < at && endedAt >= at && !dead)
    .map(({ endedAt }) => (endedAt - at) / 1000)
    .sort((a, b) => a - b);
  const middle = waited[Math.floor(waited.length / 2)] ?? 0;
  return { recoveredP50S: middle, recoveredMostS: waited.at(-1) ?? 0 };
}

export function resultOf({ results }: Comparison, name: string): Result {
  const found = results.find((result) => result.name === name);
  if (!found) throw new Error(`There is no result of ${name}`);
  return found;
}
