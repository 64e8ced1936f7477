/** Three kills under load; `npm run test:kill` is the long version. */
import { expect, test } from "vitest";
import { IN_FLIGHT } from "./kill-report.ts";
import { surviveKills } from "./survive-kills.ts";

test("three kills under load lose no accepted event, and repeat none without cause", async () => {
  const { accepted, failed, lost, unexplained, repeatsAfterKill } = await surviveKills({ kills: 3, seed: 7 });
  expect(accepted).toBeGreaterThan(0);
  expect(failed).toBeGreaterThan(0);
  expect({ lost, unexplained }).toEqual({ lost: 0, unexplained: 0 });
  expect(Math.max(...repeatsAfterKill)).toBeLessThanOrEqual(IN_FLIGHT);
});
