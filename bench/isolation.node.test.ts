import { describe, expect, it } from "vitest";
import { CONTACT_MS, type Delay, figuresOf, median, ratio } from "./isolation/figures.ts";

/** A hundred delays, 1 ms to 100 ms, posted one after the other; those from `lost` on never arrive. */
function delays(lost = 100): Delay[] {
  return Array.from({ length: 100 }, (_, i) => ({
    ms: i + 1,
    arrived: i < lost,
    sinceStartMs: (i * 2 * CONTACT_MS) / 100,
  }));
}

describe("the figures of a phase", () => {
  it("are its median and its 99th percentile, in all and after the first contact", () => {
    const { whole, after } = figuresOf(delays());
    expect(whole).toEqual({ p50: { value: 51, more: false }, p99: { value: 100, more: false } });
    expect(after).toEqual({ p50: { value: 76, more: false }, p99: { value: 100, more: false } });
  });

  it("count what has not arrived as the slowest, and say that it is slower still", () => {
    const [first, ...others] = delays(40).toReversed();
    const { whole } = figuresOf(first ? [{ ...first, ms: 0 }, ...others] : []);
    expect(whole.p50).toMatchObject({ more: true });
    expect(whole.p99).toMatchObject({ more: true });
    expect(figuresOf(delays(60)).whole.p50).toEqual({ value: 51, more: false });
  });
});

describe("a comparison", () => {
  it("is at least so much when what is compared had not ended", () => {
    const base = { value: 20, more: false };
    expect(ratio({ value: 50, more: true }, base)).toEqual({ value: 2.5, more: true });
    expect(ratio({ value: 50, more: false }, base)).toEqual({ value: 2.5, more: false });
  });

  it("is the middle one of its rounds, whatever their order", () => {
    const rounds = [3, 1, 2].map((value) => ({ value, more: value === 3 }));
    expect(median(rounds)).toEqual({ value: 2, more: false });
  });
});
