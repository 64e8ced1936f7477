/**
 * Chooses which calls of which scenarios fail, and how. Each call that a handler makes fails in every way, at different
 * places of different scenarios; of calls that are made often, a sample fails.
 */
import { seededRandom } from "../../../src/core/seeded-random.ts";
import { type Fault, faults } from "../faulty-runtime.ts";

/** In one scenario, the nth call of that name fails, counted from 1. */
export type ChosenFault = Readonly<{ scenario: number; call: string; nth: number; fault: Fault }>;

/** At most so many calls of one name are chosen: twice for each fault. */
const MAX_PER_NAME = 2 * faults.length;

/** @param callsByScenario the calls of each scenario, in order */
export function chooseFaults(callsByScenario: readonly (readonly string[])[]): ChosenFault[] {
  const random = seededRandom(callsByScenario.length);
  const sites = callsByScenario.flatMap((calls, scenario) =>
    numbered(calls).map((site) => ({ scenario, ...site })),
  );
  return [...Map.groupBy(sites, ({ call }) => call).values()].flatMap((same, turn) => {
    const sample = sampled(same, random);
    return Array.from({ length: Math.max(sample.length, faults.length) }, (_, i) => {
      const site = sample[i % sample.length];
      const fault = faults[(i + turn) % faults.length];
      if (!site || !fault) throw new Error("A call that was made is there");
      return { ...site, fault };
    });
  });
}

/** The first of each scenario, so that none is left out, then random ones. */
function sampled<T extends Readonly<{ scenario: number }>>(same: readonly T[], random: () => number): T[] {
  const firsts = [...Map.groupBy(same, ({ scenario }) => scenario).values()].flatMap((own) =>
    own.slice(0, 1),
  );
  const others = same
    .filter((site) => !firsts.includes(site))
    .map((site) => ({ site, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ site }) => site);
  return [...firsts, ...others].slice(0, MAX_PER_NAME);
}

function numbered(calls: readonly string[]): Readonly<{ call: string; nth: number }>[] {
  const made = new Map<string, number>();
  return calls.map((call) => {
    const nth = (made.get(call) ?? 0) + 1;
    made.set(call, nth);
    return { call, nth };
  });
}
