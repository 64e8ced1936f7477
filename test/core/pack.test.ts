/** Masks and the text of ends: what is put in comes out. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { endsIn, endsText, HALF, indexesIn, maskOf, type PackedEnd } from "../../src/core/pack.ts";

const indexes = fc.uniqueArray(fc.integer({ min: 0, max: 2 * HALF - 1 }));

describe("a mask", () => {
  test("has a bit for each index, and no other", () => {
    fc.assert(
      fc.property(indexes, (some) => {
        expect(indexesIn(maskOf(some))).toEqual(some.toSorted((a, b) => a - b));
      }),
    );
  });

  test.each([
    [[], [0, 0]],
    [[0], [1, 0]],
    [[HALF - 1], [2 ** (HALF - 1), 0]],
    [[HALF], [0, 1]],
    [Array.from({ length: 2 * HALF }, (_, i) => i), [2 ** HALF - 1, 2 ** HALF - 1]],
  ])("of %j is %j: two numbers that JavaScript counts exactly", (some, mask) => {
    expect(maskOf(some)).toEqual(mask);
  });
});

const end = fc.record({
  index: fc.integer({ min: 0, max: 99 }),
  at: fc.integer({ min: 0, max: 4_102_444_800_000 }),
  latencyMs: fc.integer({ min: 0, max: 60_000 }),
  status: fc.option(fc.integer({ min: 200, max: 299 }), { nil: undefined }),
});

describe("the text of ends", () => {
  test("contains each of them, however many texts are joined", () => {
    fc.assert(
      fc.property(fc.array(fc.array(end, { maxLength: 20 }), { maxLength: 5 }), (writes) => {
        expect(endsIn(writes.map((some) => endsText(some)).join(""))).toEqual(writes.flat());
      }),
    );
  });

  test("takes about seven characters for each of a bundle that is delivered within seconds", () => {
    const ends = Array.from({ length: 100 }, (_, index): PackedEnd => {
      return { index, at: 1_800_000_000_000 + 20 * index, latencyMs: 80 + (index % 40), status: 200 };
    });
    expect(endsText(ends).length / 100).toBeLessThan(8);
  });

  test("with a cut-off last number contains the others", () => {
    const ends = [1, 2].map((index) => ({ index, at: 1_000, latencyMs: 1, status: 200 }));
    expect(endsIn(endsText(ends).slice(0, -1))).toEqual(ends.slice(0, 1));
  });

  test.each(["", "!", "ABC", "zzzzzzzzzzzzz", "Cw"])("that is none of ours (%j) breaks nothing", (text) => {
    expect(Array.isArray(endsIn(text))).toBe(true);
  });
});
