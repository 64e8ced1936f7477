/**
 * Which calls of which stories go wrong, and how. Not listed by hand: what some handler calls by some name
 * fails in every way, at different places of different stories; of what is called often, a sample does.
 */
import { seededRandom } from "../../src/simulator/scenario.ts";
import { type Fault, faults } from "./wire.ts";

/** Of the calls so named in one story, the one so numbered from 1 goes wrong. */
export type Strike = Readonly<{ story: number; call: string; nth: number; fault: Fault }>;

/** Calls of one name beyond so many, that is twice for each fault, are sampled. */
const MOST = 2 * faults.length;

/** @param told the calls of each story, in their order */
export function strikesAgainst(told: readonly (readonly string[])[]): Strike[] {
  const random = seededRandom(told.length);
  const sites = told.flatMap((calls, story) => numbered(calls).map((site) => ({ story, ...site })));
  return [...Map.groupBy(sites, ({ call }) => call).values()].flatMap((same, turn) => {
    const chosen = sampled(same, random);
    return Array.from({ length: Math.max(chosen.length, faults.length) }, (_, i) => {
      const site = chosen[i % chosen.length];
      const fault = faults[(i + turn) % faults.length];
      if (!site || !fault) throw new Error("A call that was made is there");
      return { ...site, fault };
    });
  });
}

/** The first of each story, so that none is left out, and then any. */
function sampled<T extends Readonly<{ story: number }>>(same: readonly T[], random: () => number): T[] {
  const firsts = [...Map.groupBy(same, ({ story }) => story).values()].flatMap((own) => own.slice(0, 1));
  const others = same
    .filter((site) => !firsts.includes(site))
    .map((site) => ({ site, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ site }) => site);
  return [...firsts, ...others].slice(0, MOST);
}

function numbered(calls: readonly string[]): Readonly<{ call: string; nth: number }>[] {
  const made = new Map<string, number>();
  return calls.map((call) => {
    const nth = (made.get(call) ?? 0) + 1;
    made.set(call, nth);
    return { call, nth };
  });
}
