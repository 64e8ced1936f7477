import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  beforeFirstOf,
  databaseNumberOf,
  isEventNumber,
  MOST_DATABASES,
  placeByKey,
  placeByTime,
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

  test("goes to one that there is", () => {
    fc.assert(
      fc.property(names, counts, fc.nat(), (tenant, count, now) => {
        const place = placeByTime(tenant, count, now);
        return Number.isInteger(place) && place >= 0 && place < count;
      }),
    );
  });

  test("stays with its tenant's others of the minute", () => {
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

  test("moves with the number of databases to the new one alone, which gets its share", () => {
    const moved = many.filter((i) => placeByKey("acme", `${i}`, 4) !== placeByKey("acme", `${i}`, 3));
    expect(moved.every((i) => placeByKey("acme", `${i}`, 4) === 3)).toBe(true);
    expect(Math.abs(moved.length - 9_000 / 4)).toBeLessThan(200);
  });
});

describe("an event's number", () => {
  test("tells its database", () => {
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

  test("in the first database is its row", () => {
    expect(beforeFirstOf(0)).toBe(0);
    expect(databaseNumberOf(4711)).toBe(0);
  });

  test.each([
    0,
    -1,
    1.5,
    beforeFirstOf(1),
    2 ** 53,
    Number.NaN,
    Number.POSITIVE_INFINITY,
  ])("is never %d", (number) => {
    expect(isEventNumber(number)).toBe(false);
  });
});
