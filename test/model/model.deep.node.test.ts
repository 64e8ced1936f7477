/**
 * The larger bounds of the model checker, and its proof that it finds broken variants; figures.md and counter-examples.txt
 * have its results. CI leaves the largest worlds, a third of the time, to the night: no world that is broken on purpose is
 * among them.
 */
import { expect, test } from "vitest";
import { isNightly } from "../support/effort.ts";
import { groups } from "./groups.ts";
import { type Checked, counterExamples, counterExampleText, figuresText, lineOf } from "./report.ts";

const MOST_STATES_IN_CI = 100_000;

/** As figures.md has them. */
function statesOf({ name }: Checked): number {
  const [, states = ""] =
    figuresText()
      .split(`\n| ${name} | `)[1]
      ?.match(/^([\d,]+) \|/) ?? [];
  return Number(states.replaceAll(",", ""));
}

const all = groups.flatMap((group) => group.deep);
const deep = all.filter((one) => isNightly || statesOf(one) <= MOST_STATES_IN_CI);
const broken = groups.flatMap((group) => group.broken);
const named = (checked: readonly Checked[]) => checked.map((one) => [one.name, one] as const);

test.each(named(deep))("every promise is kept in every state: %s", async (_, one) => {
  const result = await one.check();
  expect(result.counterExample).toBeUndefined();
  expect(figuresText()).toContain(lineOf(one, result));
});

test.each(
  named(broken),
)("the checker finds a counter-example, which counter-examples.txt has: %s", async (_, one) => {
  const text = counterExampleText(one, await one.check());
  expect(counterExamples()).toContain(`\n${text}\n`);
});
