/** The text about a filter on a destination's page. */
import { expect, it } from "vitest";
import { filterTexts } from "../../../src/pages/ui/filter-text.ts";

it.each<[unknown, readonly string[] | undefined]>([
  [{ status: "paid" }, ["status is “paid”"]],
  [{ "order.status": ["paid", "shipped", null] }, ["order.status is “paid”, “shipped” or null"]],
  [
    { total: { gte: 100, lt: 200 }, test: { not: true } },
    ["total is at least 100 and is less than 200", "test is not true"],
  ],
  [{ a: { exists: true }, b: { exists: false } }, ["a is there", "b is missing"]],
  [
    { mail: { suffix: "@x.example", ignore_case: true } },
    ["mail ends with “@x.example”, in upper or lower case"],
  ],
  [{ tags: { in: ["a", "b"] } }, ["tags is, or has, “a” or “b”"]],
  [{ n: { not: { gt: 5 } } }, ["n is not one that is more than 5"]],
  [{ n: { not: [1, 2] } }, ["n is not 1 or 2"]],
  [{ or: [{ a: 1, b: 2 }, { c: { prefix: "x" } }] }, ["either (a is 1, and b is 2), or c begins with “x”"]],
  [{ or: ["a", "b"] }, ["or is “a” or “b”"]],
  [null, undefined],
  ["x", undefined],
  [{}, undefined],
  [{ a: {} }, undefined],
  [{ a: { nonsense: 1 } }, undefined],
  [{ or: [{ or: [{ or: [{ a: 1 }] }] }] }, undefined],
])("the filter %j reads %j", (filter, texts) => {
  expect(filterTexts(filter)).toEqual(texts);
});
