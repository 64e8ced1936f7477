/** The larger bounds of the model checker; its figures are those that figures.md shows. */
import { expect, test } from "vitest";
import { groups } from "./groups.ts";
import { figuresText, lineOf } from "./report.ts";

const deep = groups.flatMap((group) => group.deep.map((one) => [one.name, one] as const));

test.each(deep)("every promise is kept in every state: %s", async (_, one) => {
  const result = await one.check();
  expect(result.counterExample).toBeUndefined();
  expect(figuresText()).toContain(lineOf(one, result));
});
