/** Plays one sender in one scenario to the end, and returns everything that was measured. */
import type { Simulated } from "../../src/simulator/figures.ts";
import { prepareScenario } from "../../src/simulator/simulate-outage.ts";
import { createEngine } from "./engine.ts";
import type { Scenario } from "./scenarios.ts";
import type { Contender } from "./sender.ts";

export async function simulate(scenario: Scenario, contender: Contender, seed: number): Promise<Simulated> {
  const engine = createEngine(seed);
  const { context, postTo, isOver, horizonAt, result } = prepareScenario(engine, scenario);
  const { settings, receivers, isBatched = false } = scenario;
  postTo(contender.start({ ...context, receivers, settings, isBatched }));
  await engine.run(isOver, horizonAt);
  return result();
}
