/** Calls to a gate whose first answer is lost. */
import { expect, test } from "vitest";
import { type GateServices, holdAtGate, settleAtGate } from "../../src/gate/client.ts";
import { steady } from "../support/gate-arbitraries.ts";

const START = 1_000_000;

/** A gate that records its calls; the first call takes a second, and its answer is lost. */
function interrupted() {
  let now = START;
  const calls: unknown[][] = [];
  const take = async (...args: unknown[]) => {
    calls.push(args);
    if (calls.length > 1) return null;
    now += 1_000;
    throw new Error("Network connection lost.");
  };
  const services = {
    gates: { idFromName: (name: string) => name, get: () => ({ hold: take, settle: take }) },
    now: () => now,
    random: () => 0,
    log: () => {},
    sleep: (ms: number, signal?: AbortSignal) => {
      // The time that a call may take passes only where nothing answers.
      if (signal) return new Promise<void>(() => {});
      now += ms;
      return Promise.resolve();
    },
  } as unknown as GateServices;
  return { services, calls, now: () => now };
}

test("a repeated report of a hold has its own sending time, so that the hold ends no later", async () => {
  const { services, calls, now } = interrupted();
  await holdAtGate(services, "dst_1", START + 30_000);
  expect(calls).toEqual([
    [START + 30_000, START],
    [START + 30_000, now()],
  ]);
  expect(now()).toBeGreaterThan(START + 1_000);
});

test("a repeated settlement has its own sending time", async () => {
  const { services, calls, now } = interrupted();
  await settleAtGate(services, "dst_1", { lease: "a", signals: [], left: 0 }, steady);
  expect(calls.map(([request]) => request)).toMatchObject([{ sentAt: START }, { sentAt: now() }]);
});
