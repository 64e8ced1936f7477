/** Waiting deliveries of several databases: counted together, and walked over as if they were in one. */
import { beforeAll, describe, expect, test } from "vitest";
import { beforeFirstOf } from "../../src/core/placement.ts";
import { backlogOf } from "../../src/store/stats.ts";
import {
  countWaiting,
  endRemoved,
  lookAtWaiting,
  waitingByReason,
  waitingDestinations,
} from "../../src/store/waiting.ts";
import { emptyDatabase, testDatabases } from "../support/databases.ts";
import { insertDeliveries, insertDestinations } from "../support/stored-deliveries.ts";
import { walkedDestinations } from "../support/waiting-walk.ts";

const [first, ...further] = testDatabases;
if (first === undefined) throw new Error("The tests have a database");
const databases = { db: first, further };

/** The destinations with waiting deliveries in each database. */
const PLACES = [
  ["dst_a", "dst_c", "dst_e", "dst_g", "dst_h"],
  ["dst_d", "dst_e"],
  ["dst_b", "dst_f", "dst_a"],
];
const all = ["dst_a", "dst_b", "dst_c", "dst_d", "dst_e", "dst_f", "dst_g", "dst_h"];

/** An event of the database of that number. */
const eventIn = (number: number, event: number) => beforeFirstOf(number) + event;

beforeAll(async () => {
  await emptyDatabase();
  await insertDestinations(
    first,
    all.map((id) => ({ id })),
  );
  for (const [number, db] of testDatabases.entries()) {
    const waiting = { state: "waiting", reason: `r${number}` } as const;
    const places = PLACES[number] ?? [];
    await insertDeliveries(db, [
      ...places.map((destination) => ({ destination, event: eventIn(number, 128), ...waiting })),
      { destination: "dst_a", event: eventIn(number, 129), ...waiting, reason: "rate" },
    ]);
  }
});

test.each([
  1, 2, 3, 4, 5, 6, 7, 8, 9,
])("destinations with waiting deliveries come in order of their ids, each once, in pages of %d", async (limit) => {
  expect(await walkedDestinations(databases, limit)).toEqual(all);
});

test("no further page is read if the page is full and no database has more", async () => {
  expect(await waitingDestinations(testDatabases, "dst_e", 3)).toEqual({
    ids: ["dst_f", "dst_g", "dst_h"],
    isLast: true,
  });
});

describe("the waiting deliveries of a destination", () => {
  test("are counted in all databases together, up to a limit in all", async () => {
    expect(await waitingByReason(databases, "dst_a", 10)).toEqual({ r0: 1, r2: 1, rate: 3 });
    expect(await countWaiting(databases, "dst_a", 10)).toBe(5);
    expect(await countWaiting(databases, "dst_a", 4)).toBe(4);
    expect(await backlogOf(databases, ["dst_a", "dst_e"], 4)).toEqual(
      new Map([
        ["dst_a", { waiting: 4, dead: 0 }],
        ["dst_e", { waiting: 2, dead: 0 }],
      ]),
    );
  });

  test("are complete only if no database has more", async () => {
    const isAll = async (perEnd: number) => {
      const range = { perEnd, between: 0, isFurthest: true };
      return (await lookAtWaiting(databases, "dst_a", range, () => 0)).isAll;
    };
    expect([await isAll(1), await isAll(2), await isAll(3)]).toEqual([false, false, true]);
    const onlyFirst = { perEnd: 1, between: 0, isFurthest: true };
    expect(await lookAtWaiting(databases, "dst_g", onlyFirst, () => 0)).toMatchObject({ isAll: false });
  });

  test("end in the database of their events when these are removed", async () => {
    for (const [number, db] of testDatabases.entries()) {
      await db.prepare("DELETE FROM deliveries WHERE destination_id = 'dst_z'").run();
      const rows = [200, 201].map((event) => ({ destination: "dst_z", event: eventIn(number, event) }));
      await insertDeliveries(
        db,
        rows.map((row) => ({ ...row, state: "waiting", reason: `r${number}` })),
      );
    }
    const events = [0, 1, 1, 2].map((number, i) => eventIn(number, 200 + (i % 2)));
    expect(await endRemoved(databases, "dst_z", events, 1)).toBe(4);
    expect(await waitingByReason(databases, "dst_z", 10)).toEqual({ r0: 1, r2: 1 });
    await endRemoved(databases, "dst_z", [eventIn(0, 201), eventIn(2, 201)], 1);
  });
});
