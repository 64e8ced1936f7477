/** Billed units within the budget, counted on a whole stack; `npm run bench:cost` counts more. */
import { expect, test } from "vitest";
import { excesses } from "../../bench/cost/budget.ts";
import { entriesOf } from "../../bench/cost/ledger.ts";
import { runsOf } from "../../bench/cost/runs.ts";

test("deliveries stay within the budget, in batches, one by one and alone", async () => {
  const entries = await entriesOf(runsOf("short").filter(({ budget }) => budget));
  expect(entries.map(({ delivered }) => delivered)).toEqual([3_000, 3_000, 1_000, 1_000, 10]);
  expect(entries.flatMap(excesses)).toEqual([]);
});
