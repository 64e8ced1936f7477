/** How many deliveries are in which state for which reason: of all, of listed destinations, and up to a bound. */
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { reasonCounts } from "../../src/store/reason-counts.ts";
import { insertDeliveries, insertPacks } from "../support/stored-deliveries.ts";

const [A, B] = ["dst_a", "dst_b"] as const;
const ALL = ["waiting", "dead", "retrying"];

let databases: { db: D1Database; further: D1Database[] };
beforeEach(async () => {
  const [db, far] = [0, 1].map(() => memoryD1().bindingFor(async (_, work) => work())) as [
    D1Database,
    D1Database,
  ];
  databases = { db, further: [far] };
  await insertDeliveries(db, [
    { destination: A, event: 1, state: "waiting", reason: "paused" },
    { destination: A, event: 2, state: "waiting", reason: null },
    { destination: B, event: 1, state: "waiting", reason: "hold" },
    { destination: A, event: 3, state: "dead", reason: "gone" },
    { destination: A, event: 4, state: "retrying", reason: "http_500", nextAttemptAt: 5 },
    { destination: B, event: 5, state: "retrying", reason: "http_500", nextAttemptAt: 5 },
    { destination: B, event: 6, state: "delivered" },
  ]);
  await insertPacks(db, [
    { destination: A, bundle: 9, waiting: [0, 3, 70], reason: "paused" },
    { destination: B, bundle: 9, inFlight: [1, 2], recoverAt: 7 },
  ]);
  await insertDeliveries(far, [{ destination: A, event: 2 ** 40 + 128, state: "dead", reason: "gone" }]);
  await insertPacks(far, [{ destination: A, bundle: 2 ** 33 + 2, inFlight: [60], recoverAt: 7 }]);
});

async function counted(destinations: readonly string[] | undefined, limit = 100) {
  const { counts, exact } = await reasonCounts(databases, destinations, limit);
  const found = Object.fromEntries(counts.map(({ state, reason, count }) => [`${state} ${reason}`, count]));
  return { found, exact };
}

describe("deliveries that are open or dead", () => {
  test("are counted by state and reason, in all databases", async () => {
    expect(await counted(undefined)).toEqual({
      found: {
        ...{ "waiting paused": 4, "waiting hold": 1, "dead gone": 2 },
        ...{ "retrying http_500": 2, "retrying in_flight": 3 },
      },
      exact: ALL,
    });
  });

  test("are counted of the destinations that are listed", async () => {
    expect(await counted([A])).toEqual({
      found: { "waiting paused": 4, "dead gone": 2, "retrying http_500": 1, "retrying in_flight": 1 },
      exact: ALL,
    });
    expect((await counted([B])).found).toEqual({
      ...{ "waiting hold": 1, "retrying http_500": 1, "retrying in_flight": 2 },
    });
    expect((await counted([A, B])).found).toEqual((await counted(undefined)).found);
  });

  test("are none of no destinations", async () => {
    expect(await counted([], 1)).toEqual({ found: {}, exact: ALL });
  });

  test("are counted as far as the bound, and what has reached it is not exact", async () => {
    expect((await counted(undefined, 4)).exact).toEqual(ALL);
    // Three rows wait, and one pack: it is the rows that are too many.
    expect((await counted(undefined, 3)).exact).toEqual(["dead", "retrying"]);
    expect((await counted(undefined, 2)).exact).toEqual(["dead"]);
    expect(await counted(undefined, 1)).toMatchObject({ found: { "dead gone": 2 }, exact: [] });
    expect((await counted([B], 2)).exact).toEqual(["waiting", "dead"]);
  });
});
