/**
 * Chooses which calls of which scenarios fail, and how. Each call that a handler makes fails in every way, at different
 * places of different scenarios; of calls that are made often, a sample fails. In CI that covers each call with each fault, once, and
 * each scenario with some faults; at night nearly each call of each scenario with each fault.
 */
import { seededRandom } from "../../../src/core/seeded-random.ts";
import { runs } from "../effort.ts";
import { type Fault, faults } from "../faulty-runtime.ts";

/** Lets the nth call of a name fail in one scenario, counted from 1. */
export type ChosenFault = Readonly<{ scenario: number; call: string; nth: number; fault: Fault }>;

/** The most calls of one name that are chosen for each fault. */
const MAX_PER_FAULT = runs(1, 4);

/** @param callsByScenario the calls of each scenario, in order */
export function chooseFaults(callsByScenario: readonly (readonly string[])[]): ChosenFault[] {
  const random = seededRandom(callsByScenario.length);
  const sites = callsByScenario.flatMap((calls, scenario) =>
    numbered(calls).map((site) => ({ scenario, ...site })),
  );
  return [...Map.groupBy(sites, ({ call }) => call).values()].flatMap((same, turn) => {
    const sample = sampled(same, turn, random);
    return Array.from({ length: Math.max(sample.length, faults.length) }, (_, i) => {
      const site = sample[i % sample.length];
      const fault = faults[(i + turn) % faults.length];
      if (!site || !fault) throw new Error("A call that was made is there");
      return { ...site, fault };
    });
  });
}

/**
 * Samples the first call of each scenario, beginning with another scenario each time so that none is left out, and then
 * random calls.
 */
function sampled<T extends Readonly<{ scenario: number }>>(
  same: readonly T[],
  turn: number,
  random: () => number,
): T[] {
  const firsts = [...Map.groupBy(same, ({ scenario }) => scenario).values()].flatMap((own) =>
    own.slice(0, 1),
  );
  const others = same
    .filter((site) => !firsts.includes(site))
    .map((site) => ({ site, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ site }) => site);
  const begin = turn % firsts.length;
  return [...firsts.slice(begin), ...firsts.slice(0, begin), ...others].slice(
    0,
    MAX_PER_FAULT * faults.length,
  );
}

function numbered(calls: readonly string[]): Readonly<{ call: string; nth: number }>[] {
  const made = new Map<string, number>();
  return calls.map((call) => {
    const nth = (made.get(call) ?? 0) + 1;
    made.set(call, nth);
    return { call, nth };
  });
}
