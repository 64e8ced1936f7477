/** Figures for operators are those of all databases together. */
import { beforeEach, expect, test } from "vitest";
import { beforeFirstBundleOf, beforeFirstOf } from "../../src/core/placement.ts";
import {
  addToCount,
  countKeyed,
  countOutcomes,
  readAppliedMigrations,
  readCounts,
  readSystemHealth,
  retriesByDestination,
  retryingForADay,
} from "../../src/store/stats.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase, testDatabases } from "../support/databases.ts";
import { insertDeliveries, insertRows } from "../support/stored-deliveries.ts";

const [first, ...further] = testDatabases;
if (first === undefined) throw new Error("The tests have a database");
const databases = { db: first, further };
const DAY = 86_400_000;
const NOW = 1_800_000_000_000;

beforeEach(async () => {
  await emptyDatabase();
  for (const [number, db] of testDatabases.entries()) {
    const bundle = beforeFirstBundleOf(number) + 1;
    await insertBundles(db, [{ id: bundle, keys: [["acme", `${number}`]], events: [{}, {}] }], number);
    const row = { destination: "dst_a", nextAttemptAt: 70 - number, firstAttemptAt: NOW - DAY - 1 };
    await insertDeliveries(db, [
      { ...row, event: beforeFirstOf(number) + 128, state: "retrying" },
      { ...row, event: beforeFirstOf(number) + 129, state: "waiting" },
    ]);
  }
});

test("the health of the system combines all databases, with the heartbeat and the repeats of the first", async () => {
  await insertRows(first, "sweeps", [{ id: 1, heartbeat_at: 40 }]);
  await addToCount(first, "deduplicated", 4);
  await countKeyed(databases);
  expect(await readCounts(databases)).toEqual({ deduplicated: 4, keyed: 3 });
  expect(await readSystemHealth(databases)).toMatchObject({
    ...{ heartbeatAt: 40, oldestDueAt: 68, deduplicated: 4, keyed: 3, unreadable: 0 },
    databases: [{ name: "DB" }, { name: "DB_1" }, { name: "DB_2" }],
  });
});

test("retries and outcomes are counted in all databases", async () => {
  expect(await retriesByDestination(databases)).toEqual(new Map([["dst_a", 3]]));
  expect(await retryingForADay(databases, {}, NOW)).toBe(6);
  expect(await countOutcomes(databases, "dst_a", {})).toMatchObject({ retrying: 3, waiting: 3, dead: 0 });
});

test("the applied migrations of each database are reported by its name", async () => {
  const found = await readAppliedMigrations(databases);
  expect(found.map((one) => one?.name)).toEqual(["DB", "DB_1", "DB_2"]);
});
