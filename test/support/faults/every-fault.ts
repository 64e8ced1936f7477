/**
 * Lets every call of the delivery path fail in every way: before it does anything, after it has done its work, and with
 * the Worker dying right after it. The calls are not listed anywhere: each scenario runs once to record them, and then
 * once for each fault. After the fault everything works again, and every message is delivered three more times.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { Fault } from "../faulty-runtime.ts";
import { type ChosenFault, chooseFaults } from "./choose-faults.ts";
import { type Run, runWithFault } from "./run-with-fault.ts";
import type { Scenario } from "./scenario.ts";

/**
 * Declares the tests. The scenarios share the faults of a call that several of them make: it fails in each way in one of them, at
 * night in several.
 */
export function failEveryCall(scenarios: readonly Scenario[], faults: readonly Fault[]): void {
  let runs: Run[] = [];
  let chosen: ChosenFault[] = [];
  beforeAll(async () => {
    runs = [];
    for (const scenario of scenarios) runs.push(await runWithFault(scenario));
    chosen = chooseFaults(runs.map(({ calls }) => calls));
  });

  describe.each(scenarios.map((scenario, i) => ({ ...scenario, i })))("$name", ({ i, ...scenario }) => {
    test("ends well when nothing fails", () => {
      expect(runs[i]?.wrong).toEqual([]);
      expect(runs[i]?.calls.length).toBeGreaterThan(3);
      expect(chosen.filter((each) => each.scenario === i)).not.toEqual([]);
    });

    test.each(faults)("loses and miscounts nothing with any one call failing (%s)", async (fault) => {
      const faulty: string[] = [];
      const mine = chosen.filter((each) => each.scenario === i && each.fault === fault);
      for (const one of mine) {
        const { failedCall, wrong } = await runWithFault(scenario, one);
        const what = `${one.call} (${one.nth})`;
        if (failedCall === undefined) faulty.push(`${what} was never made`);
        faulty.push(...wrong.map((line) => `${what}: ${line}`));
      }
      console.log(`${mine.length} calls failing (${fault})`);
      expect(faulty).toEqual([]);
    });
  });
}
