import { describe, expect, it } from "vitest";
import { stretchesOf } from "../../src/dashboard/components/circuit-history.tsx";

const NOW = 1_000_000;
const active = { status: "active", statusChangedAt: null } as const;
const strip = (history: Parameters<typeof stretchesOf>[0]["history"], row: object = active) =>
  stretchesOf({ history, row: row as typeof active }, NOW - 1000, NOW).map(({ kind, from, to }) => [
    kind,
    NOW - from,
    NOW - to,
  ]);

describe("when a door was not open", () => {
  it("is from each pause to its end, those of the past too", () => {
    const history = [
      { at: NOW - 900, what: "paused", reason: "gone" },
      { at: NOW - 600, what: "resumed" },
      { at: NOW - 100, what: "paused", reason: "manual" },
    ] as const;
    expect(strip(history, { status: "paused", statusChangedAt: NOW - 100 })).toEqual([
      ["paused", 900, 600],
      ["paused", 100, 0],
    ]);
  });

  it("is from the opening of its circuit to the closing, and until now when it is not closed", () => {
    const history = [
      { at: NOW - 800, what: "circuit_opened", times: 3 },
      { at: NOW - 500, what: "circuit_closed" },
      { at: NOW - 200, what: "circuit_opened" },
    ] as const;
    expect(strip(history)).toEqual([
      ["circuit", 800, 500],
      ["circuit", 200, 0],
    ]);
  });

  it("is counted once, however often the circuit opens before it closes, and whatever happens between", () => {
    const history = [
      { at: NOW - 900, what: "circuit_opened" },
      { at: NOW - 850, what: "held", until: NOW - 700 },
      { at: NOW - 800, what: "circuit_opened" },
      { at: NOW - 750, what: "held", until: NOW - 600 },
    ] as const;
    expect(strip(history)).toEqual([
      ["held", 850, 600],
      ["circuit", 900, 0],
    ]);
  });

  it("is as long as a hold, of which the future is not shown", () => {
    const past = { at: NOW - 900, what: "held", until: NOW - 700 } as const;
    const present = { at: NOW - 100, what: "held", until: NOW + 5000 } as const;
    expect(strip([past, present])).toEqual([
      ["held", 900, 700],
      ["held", 100, 0],
    ]);
  });

  it("is since it was paused", () => {
    expect(strip([], { status: "paused", statusChangedAt: NOW - 300 })).toEqual([["paused", 300, 0]]);
  });

  it("begins where the line of time begins, and leaves out what was over by then", () => {
    const history = [
      { at: NOW - 9000, what: "circuit_opened" },
      { at: NOW - 8000, what: "circuit_closed" },
      { at: NOW - 5000, what: "circuit_opened" },
      { at: NOW - 400, what: "circuit_closed" },
      { at: NOW - 300, what: "resumed" },
    ] as const;
    expect(strip(history)).toEqual([["circuit", 1000, 400]]);
  });
});
