/** The smaller bounds of the model checker, and that it finds what is broken; figures.md and counter-examples.txt have its results. */
import { describe, expect, test } from "vitest";
import { groups } from "./groups.ts";
import { counterExamples, counterExampleText, figuresText, lineOf } from "./report.ts";

const small = groups.flatMap((group) => group.small.map((one) => [one.name, one] as const));
const broken = groups.flatMap((group) => group.broken.map((one) => [one.name, one] as const));

describe("in every state of a small world", () => {
  test.each(small)("every promise is kept: %s", async (_, one) => {
    const result = await one.check();
    expect(result.counterExample).toBeUndefined();
    expect(figuresText()).toContain(lineOf(one, result));
  });
});

describe("the checker finds a counter-example, which counter-examples.txt has", () => {
  test.each(broken)("%s", async (_, one) => {
    const text = counterExampleText(one, await one.check());
    expect(counterExamples()).toContain(`\n${text}\n`);
  });
});
