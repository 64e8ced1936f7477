/** A gate's state in its storage: what was written is read again, whichever of its minutes were written before. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import { rollupsAfter } from "../../src/core/rollups.ts";
import { loadGate, saveGate } from "../../src/gate/storage.ts";
import { start } from "../support/gate-arbitraries.ts";

function memoryStorage(): DurableObjectStorage {
  const stored = new Map<string, unknown>();
  const put = (key: string, value: unknown) => stored.set(key, value);
  return { kv: { get: (key: string) => stored.get(key), put } } as unknown as DurableObjectStorage;
}

const refuse = () => {
  throw new Error("It is corrupt");
};

const delivered = { attempt: 1, result: "2xx", end: "delivered", tookMs: 5, lateMs: 5 } as const;

test("the state is read as it was written, after any traffic", () => {
  let mostMinutes = 0;
  fc.assert(
    fc.property(fc.array(fc.nat(300_000), { minLength: 1, maxLength: 60, size: "max" }), (waits) => {
      const storage = memoryStorage();
      let state: GateState = newGateState(start);
      let now = start;
      for (const [i, ms] of waits.entries()) {
        now += ms;
        const metrics = Array.from({ length: 1 + (i % 3) }, () => delivered);
        state = saveGate(storage, { ...state, rollups: rollupsAfter(state.rollups, metrics, now) });
        expect(loadGate(storage, refuse)).toStrictEqual(state);
        mostMinutes = Math.max(mostMinutes, state.rollups.minutes.length);
      }
    }),
  );
  expect(mostMinutes).toBeGreaterThan(10);
});
