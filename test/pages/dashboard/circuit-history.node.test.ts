import { describe, expect, it } from "vitest";
import { interruptionsOf } from "../../../src/pages/dashboard/components/circuit-history.tsx";

const NOW = 1_000_000;
const active = { status: "active", statusChangedAt: null } as const;
const interruptions = (history: Parameters<typeof interruptionsOf>[0]["history"], row: object = active) =>
  interruptionsOf({ history, row: row as typeof active }, NOW - 1000, NOW).map(({ kind, from, to }) => [
    kind,
    NOW - from,
    NOW - to,
  ]);

describe("interruptions", () => {
  it("last from each pause to its end, past ones included", () => {
    const history = [
      { at: NOW - 900, what: "paused", reason: "gone" },
      { at: NOW - 600, what: "resumed" },
      { at: NOW - 100, what: "paused", reason: "manual" },
    ] as const;
    expect(interruptions(history, { status: "paused", statusChangedAt: NOW - 100 })).toEqual([
      ["paused", 900, 600],
      ["paused", 100, 0],
    ]);
  });

  it("last from the opening of a circuit to its closing, or until now while it is open", () => {
    const history = [
      { at: NOW - 800, what: "circuit_opened", times: 3 },
      { at: NOW - 500, what: "circuit_closed" },
      { at: NOW - 200, what: "circuit_opened" },
    ] as const;
    expect(interruptions(history)).toEqual([
      ["circuit", 800, 500],
      ["circuit", 200, 0],
    ]);
  });

  it("are counted once, however often the circuit opens before it closes, and whatever happens in between", () => {
    const history = [
      { at: NOW - 900, what: "circuit_opened" },
      { at: NOW - 850, what: "held", until: NOW - 700 },
      { at: NOW - 800, what: "circuit_opened" },
      { at: NOW - 750, what: "held", until: NOW - 600 },
    ] as const;
    expect(interruptions(history)).toEqual([
      ["held", 850, 600],
      ["circuit", 900, 0],
    ]);
  });

  it("last as long as a hold, without its future", () => {
    const past = { at: NOW - 900, what: "held", until: NOW - 700 } as const;
    const present = { at: NOW - 100, what: "held", until: NOW + 5000 } as const;
    expect(interruptions([past, present])).toEqual([
      ["held", 900, 700],
      ["held", 100, 0],
    ]);
  });

  it("last since a pause that has not ended", () => {
    expect(interruptions([], { status: "paused", statusChangedAt: NOW - 300 })).toEqual([["paused", 300, 0]]);
  });

  it("are cut at the start of the timeline, without those that ended before", () => {
    const history = [
      { at: NOW - 9000, what: "circuit_opened" },
      { at: NOW - 8000, what: "circuit_closed" },
      { at: NOW - 5000, what: "circuit_opened" },
      { at: NOW - 400, what: "circuit_closed" },
      { at: NOW - 300, what: "resumed" },
    ] as const;
    expect(interruptions(history)).toEqual([["circuit", 1000, 400]]);
  });
});
