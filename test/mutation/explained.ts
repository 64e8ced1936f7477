/**
 * Mutants that no test has to kill, each with the reason: those that behave like the original, and those that only change a
 * cost. A list entry that matches no mutant fails the test of this folder.
 */
import { readFileSync } from "node:fs";
import type { Mutant } from "./plan.ts";

export type Explanation = Readonly<{
  file: string;
  /** The text that is replaced, and by what; where there are several alike, all of them. */
  original: string;
  replacement: string;
  reason: string;
}>;

export const explanations: readonly Explanation[] = JSON.parse(
  readFileSync(new URL("explained.json", import.meta.url).pathname, "utf8"),
);

const keyOf = ({ file, original, replacement }: Omit<Explanation, "reason">) =>
  JSON.stringify([file, original, replacement]);

/** The explained ones among the mutants, by number. */
export function explainedIn(mutants: readonly Mutant[]): ReadonlyMap<number, Explanation> {
  const byKey = new Map(explanations.map((one) => [keyOf(one), one]));
  return new Map(
    mutants.flatMap((mutant) => {
      const found = byKey.get(keyOf(mutant));
      return found ? [[mutant.id, found] as const] : [];
    }),
  );
}

/** Explanations that match no mutant: the code has changed. */
export function unmatched(mutants: readonly Mutant[]): Explanation[] {
  const keys = new Set(mutants.map(keyOf));
  return explanations.filter((one) => !keys.has(keyOf(one)));
}
