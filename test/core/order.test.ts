/** Order by key: the line of an event, whose turn it is in a line, and what is recorded while a lease is live. */
import { describe, expect, test } from "vitest";
import {
  endedBeforeLast,
  lineOf,
  type OrderRule,
  pinsTenant,
  predecessors,
  whoseTurn,
} from "../../src/core/order.ts";

const rule = (by: OrderRule["by"], path: string | null = null): OrderRule => ({
  ...{ by, path, holds: false, expireAfterMs: 1 },
});
const lineBy = (order: OrderRule, event: Partial<Parameters<typeof lineOf>[1]>) =>
  lineOf(order, { isScheduled: false, data: () => undefined, ...event });

/** A number with its digits as they were written. */
const raw = (digits: string) => (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(digits);

describe("the line of an event", () => {
  test.each([
    ["order-1", "44d96be208ecd607"],
    ["", "1aee8d83488bdcb8"],
    ["ü🦆", "c0d3a0a76d55d188"],
    ["k9", "69e88f2e0900c308"],
  ])("with the key %j is stored as %s, in every version", (orderingKey, line) => {
    expect(lineBy(rule("key"), { orderingKey })).toBe(line);
  });

  test.each([
    ["a text", { id: "order-1" }, "order-1"],
    ["a number", { id: 1.5 }, "1.5"],
    ["true", { id: true }, "true"],
    ["the digits of a number that a double has", { id: raw("100.00") }, "100"],
  ])("is that of %s if the path leads to it", (_, data, orderingKey) => {
    expect(lineBy(rule("key", "data.id"), { data: () => data })).toBe(lineBy(rule("key"), { orderingKey }));
  });

  test.each([[null], [undefined], [{ a: 1 }], [[1]]])("does not exist if the path leads to %j", (id) => {
    expect(lineBy(rule("key", "data.id"), { data: () => ({ id }), orderingKey: "a" })).toBeUndefined();
  });

  test("is the destination's only one, and does not exist for an event without a key or with a delivery time", () => {
    expect(lineBy(rule("destination"), {})).toBe("*");
    expect(lineBy(rule("key"), {})).toBeUndefined();
    for (const by of ["destination", "key"] as const)
      expect(lineBy(rule(by), { orderingKey: "a", isScheduled: true })).toBeUndefined();
  });
});

test("a tenant's events are numbered by one database if events without a key are ordered", () => {
  expect([rule("destination"), rule("key", "data.id"), rule("key")].map(pinsTenant)).toEqual([
    true,
    true,
    false,
  ]);
});

const placed = (id: number, line?: string, before: number | null = null, destination = "dst_a") => ({
  event: { id },
  destination: { id: destination },
  ...(line !== undefined && { place: { line, before, holds: false } }),
});

describe("the deliveries whose turn it is", () => {
  const head = placed(1, "a");
  const next = placed(2, "a", 1);
  const third = placed(3, "a", 2);

  test("are unordered ones, heads, and those right behind them, in any order of the input", () => {
    const unordered = placed(9);
    expect(whoseTurn([third, next, unordered, head])).toEqual({
      ready: [third, next, unordered, head],
      parked: [],
    });
    expect([...predecessors([third, next, head])]).toEqual([
      [third, next],
      [next, head],
    ]);
  });

  test("are not those behind a missing one, nor any after them", () => {
    expect(whoseTurn([third, next])).toEqual({ ready: [], parked: [next, third] });
    expect(whoseTurn([head, third])).toEqual({ ready: [head], parked: [third] });
  });

  test("are judged by destination: the same event is another delivery at another destination", () => {
    const elsewhere = placed(1, "a", null, "dst_b");
    expect(whoseTurn([elsewhere, next])).toEqual({ ready: [elsewhere], parked: [next] });
    expect(predecessors([elsewhere, head]).size).toBe(0);
  });
});

describe("recorded while a lease continues", () => {
  const [one, two, other, unordered] = [placed(1, "a"), placed(2, "a", 1), placed(5, "b"), placed(9)];

  test("is everything that has ended, except the last of each line with open ones", () => {
    const { ended, followed } = endedBeforeLast([one, unordered, two, other], [placed(3, "a", 2)]);
    expect([ended, [...followed]]).toEqual([[one, unordered, other], [one]]);
  });

  test("is everything if no line continues", () => {
    const { ended, followed } = endedBeforeLast([one, unordered, two], [placed(8)]);
    expect([ended, [...followed]]).toEqual([[one, unordered, two], []]);
  });
});
