/** Many senders in one scenario, side by side. Each gets the same seed and so the same traffic. */
import { type Figures, simulationFiguresOf } from "../../src/simulator/figures.ts";
import type { Scenario } from "./scenarios.ts";
import type { Contender } from "./sender.ts";
import { simulate } from "./simulate.ts";

export type Result = Readonly<{
  name: string;
  model: boolean;
  figures: Figures;
  /** At the first receiver, by the second. */
  arrivals: readonly number[];
}>;

export type Comparison = Readonly<{ scenario: Scenario; results: readonly Result[] }>;

export async function compare(
  scenario: Scenario,
  contenders: readonly Contender[],
  seed: number,
  progress: (name: string) => void = () => undefined,
): Promise<Comparison> {
  const results: Result[] = [];
  for (const contender of contenders) {
    progress(`${scenario.name}: ${contender.name}`);
    const simulated = await simulate(scenario, contender, seed);
    const arrivals = simulated.ledger.arrivals[0] ?? [];
    results.push({
      name: contender.name,
      model: contender.model,
      figures: simulationFiguresOf(simulated),
      arrivals,
    });
  }
  return { scenario, results };
}

export function resultOf({ results }: Comparison, name: string): Result {
  const found = results.find((result) => result.name === name);
  if (!found) throw new Error(`Nothing is known of ${name}`);
  return found;
}
