/**
 * Which calls of which stories go wrong, and how. Not listed by hand: every call that any story makes fails
 * at least once, each time in another way, and what some handler calls by some name fails in all of them.
 */
import { type Fault, faults } from "./wire.ts";

/** Of the calls so named in one story, the one so numbered from 1 goes wrong. */
export type Strike = Readonly<{ story: number; call: string; nth: number; fault: Fault }>;

/** @param told the calls of each story, in their order */
export function strikesAgainst(told: readonly (readonly string[])[]): Strike[] {
  const sites = told.flatMap((calls, story) => numbered(calls).map((site) => ({ story, ...site })));
  return [...Map.groupBy(sites, ({ call }) => call).values()].flatMap((same) =>
    Array.from({ length: Math.max(same.length, faults.length) }, (_, i) => {
      const site = same[i % same.length];
      const fault = faults[i % faults.length];
      if (!site || !fault) throw new Error("A call that was made is there");
      return { ...site, fault };
    }),
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
