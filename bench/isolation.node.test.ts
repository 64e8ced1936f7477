import { describe, expect, it } from "vitest";
import { type Delay, median, quantilesOf, ratio } from "./isolation/figures.ts";

/** A hundred delays, 1 ms to 100 ms; those from `lost` on never arrive. */
function delays(lost = 100): Delay[] {
  return Array.from({ length: 100 }, (_, i) => ({ ms: i + 1, arrived: i < lost }));
}

describe("the figures of a phase", () => {
  it("are its median and its 99th percentile", () => {
    expect(quantilesOf(delays())).toEqual({
      p50: { value: 51, more: false },
      p99: { value: 100, more: false },
    });
  });

  it("count missing events as the slowest, and are lower bounds if they are among these", () => {
    const [first, ...others] = delays(40).toReversed();
    const { p50, p99 } = quantilesOf(first ? [{ ...first, ms: 0 }, ...others] : []);
    expect(p50).toMatchObject({ more: true });
    expect(p99).toMatchObject({ more: true });
    expect(quantilesOf(delays(60)).p50).toEqual({ value: 51, more: false });
  });
});

describe("a comparison of phases", () => {
  it("is a lower bound if the compared figure is one", () => {
    const base = { value: 20, more: false };
    expect(ratio({ value: 50, more: true }, base)).toEqual({ value: 2.5, more: true });
    expect(ratio({ value: 50, more: false }, base)).toEqual({ value: 2.5, more: false });
  });

  it("is the median of its rounds, whatever their order", () => {
    const rounds = [3, 1, 2].map((value) => ({ value, more: value === 3 }));
    expect(median(rounds)).toEqual({ value: 2, more: false });
  });
});
