/** The history of how many databases take new events: what the cron stores of it, and when. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { CHANGE_MARGIN_MS } from "../../src/core/placement.ts";
import { databaseHistory, storeDatabaseCount } from "../../src/store/databases.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";

const NOW = 100 * 86_400_000;
beforeEach(emptyDatabase);

const store = (count: number, now: number, forgottenAt = 0) =>
  storeDatabaseCount({ db: env.DB }, count, now, forgottenAt);
const history = async () => (await databaseHistory(env.DB)).map(({ since, count }) => [since, count]);

describe("the history", () => {
  test("begins with the deployment if nothing has been stored yet", async () => {
    await store(2, NOW);
    expect(await history()).toEqual([[0, 2]]);
  });

  test("begins now if events were stored before, without knowledge of the past", async () => {
    await insertBundles(env.DB, [{ events: [{}] }]);
    await store(2, NOW);
    expect(await history()).toEqual([[NOW, 2]]);
  });

  test("costs no row while nothing changes", async () => {
    await store(2, NOW);
    const { db: metered, used } = meteredD1(env.DB);
    await storeDatabaseCount({ db: metered }, 2, NOW + 60_000, 0);
    expect(used()).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
  });

  test("has a change some time before it takes effect", async () => {
    await store(2, NOW);
    await store(3, NOW + 1_000);
    await store(3, NOW + 61_000);
    expect(await history()).toEqual([
      [0, 2],
      [NOW + 1_000 + CHANGE_MARGIN_MS, 3],
    ]);
  });

  test("has no more changes than can take effect, while two versions differ", async () => {
    await store(2, NOW);
    for (let minute = 0; minute < 60; minute++) await store(2 + (minute % 2), NOW + minute * 60_000);
    expect((await history()).length).toBeLessThanOrEqual(6);
  });

  test("drops entries that were only in effect before a time", async () => {
    for (const [i, count] of [1, 2, 3].entries()) await store(count, NOW + i * 86_400_000);
    await store(3, NOW + 3 * 86_400_000, NOW + 2 * 86_400_000);
    expect((await history()).map(([, count]) => count)).toEqual([2, 3]);
  });
});
