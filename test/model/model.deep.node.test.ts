/** The larger bounds of the model checker; its figures are those that docs/model.md shows. */
import { expect, test } from "vitest";
import { groups } from "./groups.ts";
import { lineOf, pageText } from "./report.ts";

const deep = groups.flatMap((group) => group.deep.map((one) => [one.name, one] as const));

test.each(deep)("every promise is kept in every state: %s", async (_, one) => {
  const result = await one.check();
  expect(result.counterExample).toBeUndefined();
  expect(pageText()).toContain(lineOf(one, result));
});
