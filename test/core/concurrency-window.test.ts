import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  eased,
  grown,
  halved,
  newWindow,
  reopened,
  type Window,
  widthOf,
} from "../../src/core/concurrency-window.ts";

function grownBy(window: Window, successes: number, maxConcurrency = 1000): Window {
  return Array.from({ length: successes }).reduce<Window>((w) => grown(w, maxConcurrency), window);
}

describe("the window", () => {
  it("begins with one", () => {
    expect(widthOf(newWindow, 1000)).toBe(1);
  });

  it("doubles with each round of successes while no trouble is known", () => {
    let window = newWindow;
    const widths = [1, 2, 3, 4, 5].map(() => {
      window = grownBy(window, widthOf(window, 1000));
      return widthOf(window, 1000);
    });
    expect(widths).toEqual([2, 4, 8, 16, 32]);
  });

  it("grows by one a round above its threshold", () => {
    const taught = { size: 8, threshold: 8 };
    expect(widthOf(grownBy(taught, 8), 1000)).toBe(8);
    expect(widthOf(grownBy(taught, 9), 1000)).toBe(9);
    expect(widthOf(grownBy(taught, 18), 1000)).toBe(10);
  });

  it("is halved by trouble, and remembers the threshold", () => {
    expect(halved({ size: 16, threshold: 100 })).toMatchObject({ size: 8, threshold: 8 });
    expect(halved({ size: 3, threshold: 100 })).toMatchObject({ size: 1.5, threshold: 2 });
  });

  it("is never below one", () => {
    expect(halved({ size: 1, threshold: 100 })).toMatchObject({ size: 1 });
    expect(widthOf({ size: 1, threshold: 2 }, 1)).toBe(1);
  });

  it("learns one threshold from one trouble, however many were under way", () => {
    const outage = Array.from({ length: 16 }).reduce<Window>(halved, { size: 16, threshold: 100 });
    expect(outage).toMatchObject({ size: 1, threshold: 8 });
    expect(reopened(outage)).toMatchObject({ size: 1, threshold: 8 });
  });

  it("learns again from trouble that comes after a success", () => {
    const again = halved(grown(halved({ size: 16, threshold: 100 }), 1000));
    expect(again.threshold).toBeCloseTo(8.125 / 2);
  });

  it("learns nothing from trouble with one attempt at a time, which the width did not cause", () => {
    expect(halved(newWindow).threshold).toBe(newWindow.threshold);
    expect(halved({ size: 1.9, threshold: 100 }).threshold).toBe(100);
    expect(halved({ size: 2, threshold: 100 }).threshold).toBe(2);
  });

  it("keeps the learned threshold when the circuit reopens meanwhile", () => {
    expect(reopened({ size: 3, threshold: 8, troubled: true })).toEqual({ size: 1, threshold: 8 });
  });

  it("begins with one after a reopening, and grows fast up to the size that worked", () => {
    const again = reopened({ size: 16.5, threshold: 4 });
    expect(again).toEqual({ size: 1, threshold: 16.5 });
    expect(widthOf(grownBy(again, 15), 1000)).toBe(16);
  });

  it("keeps that size through a second reopening", () => {
    expect(reopened(reopened({ size: 16, threshold: 4 }))).toEqual({ size: 1, threshold: 16 });
  });

  it("allows no more than max_concurrency, immediately after that is lowered", () => {
    expect(widthOf({ size: 50, threshold: 100 }, 3)).toBe(3);
    expect(widthOf(grownBy(newWindow, 100, 10), 1000)).toBe(10);
  });

  it.each([
    ["nothing is said", undefined, 16],
    ["plenty is left", 32, 16],
    ["more is left than it uses", 100, 16],
    ["little is left", 20, 10],
    ["nothing is left", 0, 1],
  ])("takes half of what the receiver will still take at most: %s", (_, remaining, size) => {
    expect(eased({ size: 16, threshold: 8 }, remaining)).toEqual({ size, threshold: 8 });
  });

  it("stays finite and between one and max_concurrency through any outcomes, and through JSON", () => {
    const luck = fc.array(fc.oneof(fc.constantFrom("up", "up", "down", "blocked", "saved"), fc.nat(100)), {
      maxLength: 300,
      size: "max",
    });
    fc.assert(
      fc.property(luck, fc.integer({ min: 1, max: 1000 }), (events, maxConcurrency) => {
        let window = newWindow;
        for (const event of events) {
          if (event === "up") window = grown(window, maxConcurrency);
          if (event === "down") window = halved(window);
          if (event === "blocked") window = reopened(window);
          if (event === "saved") window = JSON.parse(JSON.stringify(window));
          if (typeof event === "number") window = eased(window, event);
          expect(window.size).toBeGreaterThanOrEqual(1);
          expect(window.size).toBeLessThanOrEqual(maxConcurrency);
          expect(window.threshold).toBeGreaterThanOrEqual(2);
          expect(Number.isFinite(window.threshold)).toBe(true);
        }
      }),
    );
  });

  it("never more than doubles in one round", () => {
    const size = fc.integer({ min: 10, max: 10_000 }).map((n) => n / 10);
    fc.assert(
      fc.property(size, size, (from, threshold) => {
        const window = { size: from, threshold };
        const round = widthOf(window, 1000);
        expect(grownBy(window, round, 2000).size).toBeLessThanOrEqual(2 * from);
      }),
    );
  });
});
