import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { beforeFirstOf, databaseNumberOf, MOST_DATABASES } from "../src/core/placement.ts";
import { deliveryId, deliveryKey, eventId, eventNumber, newDestinationId } from "../src/ids.ts";

/** A bundle has 128 places, and bundles are counted from 1. */
const FIRST = 128;
const rows = fc.oneof(fc.integer({ min: FIRST, max: 10_000 }), fc.integer({ min: FIRST, max: 2 ** 40 - 1 }));
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

describe("an event's id", () => {
  test("names its row, whatever row it is", () => {
    fc.assert(fc.property(rows, (row) => eventNumber(eventId(row)) === row));
    for (const row of [FIRST, FIRST + 1, 2 ** 31, 2 ** 32, 2 ** 40 - 1])
      expect(eventNumber(eventId(row))).toBe(row);
  });

  test("always has the same shape", () => {
    fc.assert(fc.property(rows, (row) => /^evt_[0-9a-hjkmnp-tv-z]{13}$/.test(eventId(row))));
  });

  test("is stable: a published id names the same row for ever", () => {
    expect([1, 2, 3, 1_000_000].map((row) => eventId(row))).toMatchInlineSnapshot(`
      [
        "evt_4t2hbqswbjanh",
        "evt_9m52qfkrq4nb2",
        "evt_ee7m37930f00q",
        "evt_73xrywb9h0fs2",
      ]
    `);
  });

  test("reveals nothing about its neighbours: most of their characters differ", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 40 }), (row) => {
        const [a, b] = [eventId(row), eventId(row + 1)];
        return [...a].filter((char, i) => char !== b[i]).length >= 7;
      }),
    );
  });

  test("also names its database, of more than eight thousand", () => {
    const shards = fc.integer({ min: 0, max: MOST_DATABASES - 1 });
    fc.assert(
      fc.property(shards, fc.integer({ min: FIRST, max: 2 ** 40 - 1 }), (shard, row) => {
        const number = beforeFirstOf(shard) + row;
        return eventNumber(eventId(number)) === number && databaseNumberOf(number) === shard;
      }),
    );
  });

  test("begins in each database with its first bundle: numbers before that name nothing", () => {
    expect(eventNumber(eventId(beforeFirstOf(3) + FIRST - 1))).toBeUndefined();
    expect(eventNumber(eventId(beforeFirstOf(3) + FIRST))).toBe(beforeFirstOf(3) + FIRST);
  });

  test("with one wrong character almost never names anything", () => {
    let misread = 0;
    const runs = 2_000;
    fc.assert(
      fc.property(rows, fc.nat(12), fc.nat(31), (row, place, letter) => {
        const id = eventId(row);
        const wrong = `${id.slice(0, 4 + place)}${alphabet[letter]}${id.slice(5 + place)}`;
        if (wrong !== id && eventNumber(wrong) !== undefined) misread += 1;
      }),
      { numRuns: runs, seed: 1 },
    );
    // The first 2^53 of 2^64 numbers can be events'.
    expect(misread).toBeLessThan(runs / 200);
  });

  test.each([
    "",
    "evt_",
    "1",
    "evt_1",
    "dst_0000000000000",
    eventId(FIRST).toUpperCase(),
    `${eventId(FIRST)}0`,
    ` ${eventId(FIRST)}`,
    `${eventId(FIRST)}\n`,
    "evt_ilouilouilou1",
    "evt_zzzzzzzzzzzzz",
    eventId(0),
    eventId(FIRST - 1),
  ])("is not %j", (text) => {
    expect(eventNumber(text)).toBeUndefined();
  });
});

describe("a delivery's id", () => {
  const destinations = fc.string({ unit: fc.constantFrom(...alphabet), minLength: 20, maxLength: 20 });

  test("names its event and its destination", () => {
    fc.assert(
      fc.property(rows, destinations, (row, letters) => {
        const destinationId = `dst_${letters}`;
        expect(deliveryKey(deliveryId(row, destinationId))).toEqual({ eventId: row, destinationId });
      }),
    );
  });

  test("with a typo in its event names nothing", () => {
    const id = deliveryId(FIRST, newDestinationId());
    const wrong = id.replace(/^dlv_./, (start) => (start.endsWith("0") ? "dlv_1" : "dlv_0"));
    expect(deliveryKey(wrong)).toBeUndefined();
  });

  test.each([
    "",
    "dlv_",
    eventId(1),
    "dlv_a_b",
    `${deliveryId(FIRST, newDestinationId())}x`,
  ])("is not %j", (text) => {
    expect(deliveryKey(text)).toBeUndefined();
  });
});

test("a destination's id is new each time", () => {
  const ids = new Set(Array.from({ length: 1_000 }, newDestinationId));
  expect(ids.size).toBe(1_000);
  for (const id of ids) expect(id).toMatch(/^dst_[0-9a-hjkmnp-tv-z]{20}$/);
});
