/** One sender in one scenario: set up, run to the end, and handed on with everything that was measured. */
import type { Simulated } from "../../../src/simulator/figures.ts";
import { stageFor } from "../../../src/simulator/simulate-outage.ts";
import { createEngine } from "./engine.ts";
import type { Scenario } from "./scenarios.ts";
import type { Contender } from "./sender.ts";

export async function simulate(scenario: Scenario, contender: Contender, seed: number): Promise<Simulated> {
  const engine = createEngine(seed);
  const { scene, enter, isOver, horizonAt, end } = stageFor(engine, scenario);
  const { settings, receivers } = scenario;
  enter(contender.start({ ...scene, receivers, settings }));
  await engine.run(isOver, horizonAt);
  return end();
}
