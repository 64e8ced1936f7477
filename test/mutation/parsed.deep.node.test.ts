/** Every file with all of its mutants in it. */
import { expect, test } from "vitest";
import { mutationPlugin, planned, ROOT } from "./plan.ts";
import { parse } from "./syntax.ts";

test("every file with its mutants in it can be parsed", () => {
  const plan = planned();
  const { transform } = mutationPlugin(plan);
  expect(plan.mutants.length).toBeGreaterThan(5_000);
  for (const file of plan.files.keys()) expect(() => parse(transform("", ROOT + file) ?? "")).not.toThrow();
});
