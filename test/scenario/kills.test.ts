/** Three kills under load; `node test/scenario/kills.ts --kills 20 --seed 1` is the long version. */
import { expect, test } from "vitest";
import { surviveKills } from "./survive-kills.ts";

test("loses no accepted event, and repeats none without cause, over three kills under load", async () => {
  const { accepted, lost, unexplained } = await surviveKills({ kills: 3, seed: 7 });
  expect(accepted).toBeGreaterThan(0);
  expect({ lost, unexplained }).toEqual({ lost: 0, unexplained: 0 });
});
