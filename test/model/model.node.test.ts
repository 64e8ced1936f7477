/** The smaller bounds of the model checker; figures.md has their results. */
import { describe, expect, test } from "vitest";
import { groups } from "./groups.ts";
import { figuresText, lineOf } from "./report.ts";

const small = groups.flatMap((group) => group.small.map((one) => [one.name, one] as const));

describe("in every state of a small world", () => {
  test.each(small)("every promise is kept: %s", async (_, one) => {
    const result = await one.check();
    expect(result.counterExample).toBeUndefined();
    expect(figuresText()).toContain(lineOf(one, result));
  });
});
