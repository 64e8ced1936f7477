import fc from "fast-check";
import { expect, it } from "vitest";
import {
  type GateState,
  newGateState,
  withHistory,
  withoutExpired,
  withPause,
  withSettled,
} from "../../src/core/gate-state.ts";
import type { Lease } from "../../src/core/lease.ts";
import { historyArbitrary, momentsOf, steady } from "../support/gate-arbitraries.ts";

const NOW = 1_000_000_000_000;
type Events = Parameters<typeof withHistory>[1];

/** The history after these, a second apart. */
function historyOf(all: readonly Events[], heldUntil = NOW) {
  return all.reduce(
    (state, events, i) => withHistory(state, events, NOW + 1000 * i, heldUntil),
    newGateState(NOW),
  ).history;
}

it("a circuit that opens again and again is one entry of the history, from its first time", () => {
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

it("the history has the last twenty entries", () => {
  const turns = Array.from({ length: 30 }, (_, i): Events => [i % 2 ? "circuit_closed" : "circuit_opened"]);
  expect(historyOf(turns)).toHaveLength(20);
});

it("settled deliveries are remembered up to eight thousand characters, and the time of the others is known", () => {
  /** As many settled leases, a millisecond apart, of so many characters each in JSON. */
  const settledAfter = (count: number, characters: number) => {
    let state = { ...newGateState(NOW), settled: [] as GateState["settled"] };
    for (let i = 0; i < count; i++)
      state = { ...state, ...withSettled(state, "x".repeat(characters - 20), NOW + i) };
    return { ...state, times: state.settled.map(([at]) => at - NOW) };
  };
  expect(settledAfter(8, 1_000)).toMatchObject({ times: [0, 1, 2, 3, 4, 5, 6, 7], forgottenAt: 0 });
  expect(settledAfter(8, 1_001)).toMatchObject({ times: [1, 2, 3, 4, 5, 6, 7], forgottenAt: NOW });
  expect(settledAfter(50, 1_000)).toMatchObject({
    times: [42, 43, 44, 45, 46, 47, 48, 49],
    forgottenAt: NOW + 41,
  });
  const { settled } = withSettled({ ...newGateState(NOW), forgottenAt: NOW + 9 }, "x".repeat(9_000), NOW + 5);
  expect(settled).toEqual([]);
  const late = withSettled({ ...newGateState(NOW), forgottenAt: NOW + 9 }, "x".repeat(9_000), NOW + 5);
  expect(late.forgottenAt).toBe(NOW + 9);
});

it("deliveries of expired leases count as settled when the leases ended, in the order of the ends", () => {
  const lease = (id: string, expiresAt: number, deliveries: string, lost = false): Lease => ({
    ...{ id, lane: "fresh", slots: 1, width: 1, tat: 0, expiresAt, deliveries },
    ...(lost && { lost: true }),
  });
  const state = {
    ...newGateState(NOW),
    settled: [[NOW + 5, "b"]] as const,
    leases: [
      lease("c", NOW + 7, "c"),
      lease("a", NOW + 3, "a"),
      lease("none", NOW + 4, ""),
      lease("d", NOW + 99, "d"),
    ],
  };
  const after = withoutExpired(state, steady, NOW + 10);
  expect(after.settled).toEqual([
    [NOW + 3, "a"],
    [NOW + 5, "b"],
    [NOW + 7, "c"],
  ]);
  expect(after.leases.map(({ id }) => id)).toEqual(["d"]);
  expect(after.crashLoop.level).toBe(1);
  const known = [lease("a", NOW + 3, "a", true), lease("c", NOW + 7, "c", true)];
  expect(withoutExpired({ ...state, leases: known }, steady, NOW + 10).crashLoop.level).toBe(0);
  expect(
    withoutExpired({ ...state, leases: [...known, lease("d", NOW + 8, "d")] }, steady, NOW + 10).crashLoop
      .level,
  ).toBe(1);
  expect(withoutExpired(state, steady, NOW)).toBe(state);
});

it("a pause stays at its place in the history, before later entries", () => {
  const reason = "manual";
  const entry = (at: number) => ({ at: NOW + at, what: "circuit_opened" }) as const;
  const pause = { at: NOW + 5, what: "paused", reason } as const;
  const paused = (...times: number[]) => withPause(times.map(entry), { at: NOW + 5, reason });
  expect(paused()).toEqual([pause]);
  expect(paused(1, 5)).toEqual([entry(1), entry(5), pause]);
  expect(paused(1, 6, 7)).toEqual([entry(1), pause, entry(6), entry(7)]);
  expect(paused(6)).toEqual([pause, entry(6)]);
});

it("every state of a gate survives JSON, in which it is stored", () => {
  fc.assert(
    fc.property(historyArbitrary, (history) => {
      for (const { after } of momentsOf(history))
        expect(JSON.parse(JSON.stringify(after))).toStrictEqual(after);
    }),
  );
});
