/**
 * The larger bounds of the model checker, and that it finds what is broken; figures.md and counter-examples.txt have its
 * results.
 */
import { expect, test } from "vitest";
import { groups } from "./groups.ts";
import { counterExamples, counterExampleText, figuresText, lineOf } from "./report.ts";

const deep = groups.flatMap((group) => group.deep.map((one) => [one.name, one] as const));
const broken = groups.flatMap((group) => group.broken.map((one) => [one.name, one] as const));

test.each(deep)("every promise is kept in every state: %s", async (_, one) => {
  const result = await one.check();
  expect(result.counterExample).toBeUndefined();
  expect(figuresText()).toContain(lineOf(one, result));
});

test.each(
  broken,
)("the checker finds a counter-example, which counter-examples.txt has: %s", async (_, one) => {
  const text = counterExampleText(one, await one.check());
  expect(counterExamples()).toContain(`\n${text}\n`);
});
