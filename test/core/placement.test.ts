import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  beforeFirstBundleOf,
  beforeFirstOf,
  countAt,
  countsBetween,
  databaseNamesFault,
  databaseNumberOf,
  databaseNumberOfBundle,
  furtherDatabaseNames,
  isEventNumber,
  MOST_DATABASES,
  placeByKey,
  placeByTime,
  shardsOf,
} from "../../src/core/placement.ts";

const MINUTE = 60_000;
const names = fc.string({ maxLength: 40 });
const counts = fc.integer({ min: 1, max: 12 });

/** How many of so many things are in each database. */
function spread(places: readonly number[], count: number): number[] {
  return Array.from({ length: count }, (_, database) => places.filter((place) => place === database).length);
}

const many = Array.from({ length: 9_000 }, (_, i) => i);

describe("a new event", () => {
  test("goes to the first database when there is one", () => {
    fc.assert(fc.property(names, fc.nat(), (tenant, now) => placeByTime(tenant, 1, now) === 0));
  });

  test("goes to an existing database", () => {
    fc.assert(
      fc.property(names, counts, fc.nat(), (tenant, count, now) => {
        const place = placeByTime(tenant, count, now);
        return Number.isInteger(place) && place >= 0 && place < count;
      }),
    );
  });

  test("goes to the same database as its tenant's other events of the minute", () => {
    fc.assert(
      fc.property(names, counts, fc.nat(), fc.nat(MINUTE - 1), (tenant, count, minute, ms) => {
        const start = minute * MINUTE;
        return placeByTime(tenant, count, start + ms) === placeByTime(tenant, count, start);
      }),
    );
  });

  test.each([
    ["of one tenant over time", (i: number) => placeByTime("acme", 3, i * MINUTE)],
    ["of many tenants at one time", (i: number) => placeByTime(`tenant-${i}`, 3, 0)],
    ["of many keys", (i: number) => placeByKey("acme", `order-${i}`, 3)],
  ])("%s is in each database as likely as in another", (_, placeOf) => {
    for (const share of spread(many.map(placeOf), 3)) expect(Math.abs(share - 3_000)).toBeLessThan(200);
  });

  test("moves, when a database is added, only to the new one, which gets its share", () => {
    const moved = many.filter((i) => placeByKey("acme", `${i}`, 4) !== placeByKey("acme", `${i}`, 3));
    expect(moved.every((i) => placeByKey("acme", `${i}`, 4) === 3)).toBe(true);
    expect(Math.abs(moved.length - 9_000 / 4)).toBeLessThan(200);
  });
});

test("an idempotency key stays where it was placed, or its event would not be found there", () => {
  const places = Array.from({ length: 24 }, (_, i) => placeByKey("acme", `order-${i}`, 8));
  expect(places.join("")).toBe("572153145570704421171205");
});

describe("the databases beyond the first", () => {
  const named = (count: number) => Array.from({ length: count }, (_, i) => `DB_${i + 1}`);

  test("are the bindings with a number, in the order of their numbers", () => {
    const env = { DB_10: 1, DB_2: 1, DB: 1, DB_1: 1, DB_x: 1, MY_DB_3: 1, DB_4_OLD: 1, QUEUE: 1 };
    expect(furtherDatabaseNames(env)).toEqual(["DB_1", "DB_2", "DB_10"]);
  });

  test.each([
    ["none", []],
    ["twelve", named(12)],
    ["twelve in another order", named(12).toReversed()],
    ["as many as event numbers can name", named(MOST_DATABASES - 1)],
  ])("may be %s", (_, names) => {
    expect(databaseNamesFault(names)).toBeUndefined();
  });

  test.each([
    ["without a gap", ["DB_1", "DB_3"], "DB_3 is bound out of order"],
    ["with the first of them", ["DB_3", "DB_2"], "DB_2 is bound out of order"],
    ["without leading zeros", ["DB_01"], "DB_01 is bound out of order"],
    ["no more than event numbers can name", named(MOST_DATABASES), "8193 databases are bound"],
  ])("have to be %s", (_, names, fault) => {
    expect(databaseNamesFault(names)).toBe(`${fault}; expected DB, DB_1, DB_2 and so on, 8192 at most`);
  });
});

test("a bundle is in the database of its events", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: MOST_DATABASES - 1 }),
      fc.integer({ min: 1, max: 2 ** 33 - 1 }),
      fc.nat(127),
      (database, row, event) => {
        const bundle = beforeFirstBundleOf(database) + row;
        expect(databaseNumberOfBundle(bundle)).toBe(database);
        expect(databaseNumberOf(bundle * 128 + event)).toBe(database);
      },
    ),
  );
});

describe("an event's number", () => {
  test("contains its database", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: MOST_DATABASES - 1 }),
        fc.integer({ min: 128, max: 2 ** 40 - 1 }),
        (database, row) => {
          const number = beforeFirstOf(database) + row;
          return isEventNumber(number) && databaseNumberOf(number) === database;
        },
      ),
    );
  });

  test("is exact up to the last of the last database", () => {
    expect(beforeFirstOf(MOST_DATABASES) - 1).toBe(Number.MAX_SAFE_INTEGER);
    expect(isEventNumber(Number.MAX_SAFE_INTEGER)).toBe(true);
  });

  test("in the first database is its row", () => {
    expect(beforeFirstOf(0)).toBe(0);
    expect(databaseNumberOf(4711)).toBe(0);
  });

  test.each([
    0,
    -1,
    1.5,
    128.5,
    127,
    beforeFirstOf(1),
    beforeFirstOf(1) + 127,
    -128,
    2 ** 53,
    2 ** 53 + 128,
    Number.NaN,
    Number.POSITIVE_INFINITY,
  ])("is never %d", (number) => {
    expect(isEventNumber(number)).toBe(false);
  });
});

describe("the number of databases that take new events", () => {
  const DAY = 86_400_000;
  const NOW = 100 * DAY;
  const history = [
    { count: 1, since: 0 },
    { count: 2, since: NOW - 10 * DAY },
    { count: 4, since: NOW - 5 * DAY },
    { count: 3, since: NOW + 10 * 60_000 },
  ];

  test.each([
    ["that of the last change", history, NOW, 4],
    ["another from the moment of a change on", history, NOW + 10 * 60_000, 3],
    ["still the former before that", history, NOW + 10 * 60_000 - 1, 4],
    ["the configured one while nothing is stored", [], NOW, 5],
    ["the configured one before the first change", [{ count: 2, since: NOW + 1 }], NOW, 5],
    ["no more than there are", [{ count: 9, since: 0 }], NOW, 6],
  ])("is %s", (_what, stored, at, count) => {
    expect(countAt(stored, at, { bound: 6, configured: 5 })).toBe(count);
  });

  test.each([
    ["those in effect since then", history, NOW - 7 * DAY, [2, 4]],
    ["also one that ended a moment before, by another clock", history, NOW - 5 * DAY + 59_999, [2, 4]],
    ["also one that begins in a moment, by another clock", history, NOW, [4]],
    ["each one once", [...history.slice(0, 3), { count: 2, since: NOW - DAY }], NOW - 7 * DAY, [2, 4]],
    ["all from the beginning", history, 60_000, [1, 2, 4]],
    ["any where nothing is stored", [], NOW, [1, 2, 3, 4, 5, 6]],
    [
      "any where the history begins later",
      [{ count: 2, since: NOW - DAY }],
      NOW - 2 * DAY,
      [1, 2, 3, 4, 5, 6],
    ],
    ["no more than there are", [{ count: 9, since: 0 }], NOW - DAY, [6]],
  ])("was, for a past event, %s", (_what, stored, from, counts) => {
    expect(countsBetween(stored, from, NOW, 6)).toEqual(counts);
  });

  test("is known a minute before a change takes effect, because clocks differ", () => {
    expect(countsBetween(history, NOW, NOW + 9 * 60_000, 6)).toEqual([4, 3]);
    expect(countsBetween(history, NOW, NOW + 9 * 60_000 - 1, 6)).toEqual([4]);
  });

  test("leads to few databases for a key, even if all are possible", () => {
    const asked = Array.from({ length: 200 }, (_, i) => {
      const counts = countsBetween([], NOW, NOW, 100);
      return new Set(counts.map((count) => placeByKey("acme", `key ${i}`, count))).size;
    });
    // The hundredth harmonic number: each further database is the place with a chance of one in so many.
    expect(asked.reduce((sum, one) => sum + one, 0) / asked.length).toBeLessThan(6);
  });
});

describe("a tenant's two shards", () => {
  test("are different ones, and always the same", () => {
    fc.assert(
      fc.property(names, fc.integer({ min: 2, max: 20 }), (tenant, shards) => {
        const [first = -1, second = -1, ...others] = shardsOf(tenant, shards);
        expect(others).toEqual([]);
        expect(second).not.toBe(first);
        for (const shard of [first, second]) {
          expect(Number.isInteger(shard)).toBe(true);
          expect(shard).toBeGreaterThanOrEqual(0);
          expect(shard).toBeLessThan(shards);
        }
        expect(shardsOf(tenant, shards)).toEqual([first, second]);
      }),
    );
  });

  test("spread tenants over all pairs", () => {
    const pairs = many.map((i) => shardsOf(`tenant ${i}`, 4).join());
    const counts = [...Map.groupBy(pairs, (pair) => pair).values()].map(({ length }) => length);
    expect(counts).toHaveLength(12);
    for (const count of counts) expect(Math.abs(count - 750)).toBeLessThan(150);
  });

  test("are one where there is only one", () => {
    expect([0, 1].map((shards) => shardsOf("acme", shards))).toEqual([[0], [0]]);
    expect(shardsOf("acme", 2).toSorted()).toEqual([0, 1]);
  });
});
