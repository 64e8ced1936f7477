import fc from "fast-check";
import { expect, it } from "vitest";
import { newGateState, withHistory } from "../../src/core/gate-state.ts";
import { historyArbitrary, momentsOf } from "../support/gate-arbitraries.ts";

const NOW = 1_000_000_000_000;
type Events = Parameters<typeof withHistory>[1];

/** The history after these, a second apart. */
function historyOf(all: readonly Events[], heldUntil = NOW) {
  return all.reduce(
    (state, events, i) => withHistory(state, events, NOW + 1000 * i, heldUntil),
    newGateState(NOW),
  ).history;
}

it("a circuit that opens again and again is one thing that goes on, from its first time", () => {
  expect(
    historyOf([["circuit_opened"], ["circuit_opened"], [], ["circuit_opened"], ["circuit_closed"]]),
  ).toEqual([
    { at: NOW, what: "circuit_opened", times: 3 },
    { at: NOW + 4000, what: "circuit_closed" },
  ]);
});

it("a hold that is prolonged is one hold, and one after its end is another", () => {
  const first = withHistory(newGateState(NOW), ["held"], NOW, NOW + 5000);
  const prolonged = withHistory(first, ["held"], NOW + 5000, NOW + 9000);
  const another = withHistory(prolonged, ["held"], NOW + 9001, NOW + 9500);
  expect(another.history).toEqual([
    { at: NOW, what: "held", until: NOW + 9000, times: 2 },
    { at: NOW + 9001, what: "held", until: NOW + 9500 },
  ]);
});

it("the last twenty things are remembered", () => {
  const turns = Array.from({ length: 30 }, (_, i): Events => [i % 2 ? "circuit_closed" : "circuit_opened"]);
  expect(historyOf(turns)).toHaveLength(20);
});

it("every state that a gate can come into is the same after JSON, in which it is stored", () => {
  fc.assert(
    fc.property(historyArbitrary, (history) => {
      for (const { after } of momentsOf(history))
        expect(JSON.parse(JSON.stringify(after))).toStrictEqual(after);
    }),
  );
});
