import { describe, expect, it } from "vitest";
import { newDestinationState } from "../../src/core/destination-state.ts";
import {
  type AttemptResult,
  consumerPatienceMs,
  type Done,
  type LeaseEffects,
  LeaseRunner,
  type LeaseTerms,
} from "../../src/core/lease-runner.ts";
import { defaultGateSettings } from "../../src/core/limits.ts";
import type { Exchange } from "../../src/core/retry/classify.ts";
import { virtualTime } from "../../src/simulator/virtual-time.ts";

const OK: Exchange = { kind: "response", status: 204 };
const GONE: Exchange = { kind: "response", status: 410 };
const LATER: Exchange = { kind: "response", status: 429, retryAfter: "60" };

type Given = Partial<{
  count: number;
  slots: number;
  width: number;
  everyMs: number;
  patienceMs: number;
  /** How long each attempt takes, by its number; undefined: for ever. */
  tookMs: (n: number) => number | undefined;
  exchange: (n: number) => Exchange;
  /** Whether its attempt cannot be made at all. */
  fails: (n: number) => boolean;
  /** Begins the next lease, of so many deliveries, when this one is nearly over. */
  next: number;
  effects: Partial<LeaseEffects>;
}>;

/** A lease that is used in virtual time: what it starts, when, and how it ends. */
function leaseInUse(given: Given) {
  const { count = 10, slots = 3, width = 1, everyMs = 0, patienceMs = 1_000 } = given;
  const { tookMs = () => 100, exchange = () => OK, fails = () => false } = given;
  const time = virtualTime(1);
  const start = time.now();
  const starts: number[] = [];
  const events: string[] = [];
  const holds: number[] = [];
  let running = 0;
  let mostRunning = 0;
  const effects: LeaseEffects = {
    now: time.now,
    random: () => 0.5,
    at: time.at,
    withConnection: (task, then) =>
      task(
        (error) => (error === undefined ? then() : runner.fail(error)),
        () => {},
      ),
    readState: (then) => then(undefined),
    hold: (until) => holds.push(until - start),
    ...given.effects,
  };
  const termsFor = (deliveries: readonly number[]): LeaseTerms => ({
    grant: {
      id: "lease",
      slots,
      width,
      deliveries,
      startWithinMs: 5_000,
      expiresInMs: 30_000,
      pace: { firstInMs: 0, everyMs, slackMs: 0 },
      destinationState: newDestinationState(start),
    },
    settings: defaultGateSettings,
    patienceMs,
    grantedAt: time.now(),
  });
  const send = (n: number, then: (result: AttemptResult) => void, failed: Done) => {
    if (fails(n)) return failed(new Error("no body"));
    const startedAt = time.now();
    starts.push(startedAt - start);
    running += 1;
    mostRunning = Math.max(mostRunning, running);
    const ms = tookMs(n);
    if (ms === undefined) return;
    time.after(ms, () => {
      running -= 1;
      then({ attempt: { exchange: exchange(n), startedAt, endedAt: time.now() } });
    });
  };
  const range = (from: number, length: number) => Array.from({ length }, (_, i) => from + i);
  const order = (deliveries: readonly number[], name: string) => ({
    ...termsFor(deliveries),
    deliveries,
    send,
    nearlyOver: (isNear: boolean) => {
      events.push(`${name}${isNear ? "nearly over" : "not nearly over"}`);
      if (name === "" && given.next !== undefined)
        time.after(0, () => runner.begin(order(range(count, given.next ?? 0), "next: ")));
    },
    enough: () => events.push(`${name}enough at ${time.now() - start}`),
    finished: () => events.push(`${name}finished at ${time.now() - start}`),
    failed: (error: unknown) => events.push(`${name}failed: ${error}`),
  });
  const runner = new LeaseRunner<number, AttemptResult>(effects, termsFor(range(0, count)));
  const lease = runner.begin(order(range(0, count), ""));
  while (time.nextAt() !== undefined) time.step();
  const reason = () => runner.leftoverReason(lease).reason;
  return { lease, starts, events, holds, reason, mostRunning: () => mostRunning };
}

describe("a lease in use", () => {
  it("begins with its width and grows with successes up to its slots", () => {
    const { starts, lease, mostRunning } = leaseInUse({ count: 10, slots: 3 });
    expect(starts.slice(0, 3)).toEqual([0, 100, 100]);
    expect(mostRunning()).toBe(3);
    expect(lease.done).toHaveLength(10);
    expect(lease.signals).toHaveLength(10);
    expect(lease.queue).toEqual([]);
  });

  it("keeps its pace", () => {
    const { starts } = leaseInUse({ count: 4, slots: 1, everyMs: 500 });
    expect(starts).toEqual([0, 500, 1_000, 1_500]);
  });

  it("is over as soon as its last attempt has ended", () => {
    const { events } = leaseInUse({ count: 2, slots: 1, tookMs: () => 100 });
    expect(events).toEqual(["nearly over", "enough at 200", "finished at 200"]);
  });

  it("leaves over what the rate does not allow in its time", () => {
    const { lease, starts } = leaseInUse({ count: 10, slots: 1, everyMs: 2_000 });
    expect(starts).toEqual([0, 2_000, 4_000]);
    expect(lease.queue).toHaveLength(7);
  });

  it("starts nothing more when an attempt has been running for longer than the patience", () => {
    const { events, starts, lease, reason } = leaseInUse({
      count: 5,
      slots: 1,
      tookMs: (n) => (n === 1 ? 4_000 : 100),
    });
    expect(starts).toEqual([0, 100]);
    expect(events).toEqual(["nearly over", "enough at 1100", "finished at 4100"]);
    expect(lease.queue).toEqual([2, 3, 4]);
    expect(reason()).toBe("slow");
  });

  it("is to be recorded when its time is over, even while it still waits for a connection", () => {
    const { events, lease } = leaseInUse({ count: 1, effects: { withConnection: () => {} } });
    expect(events).toEqual(["not nearly over", "enough at 6000"]);
    expect(lease.queue).toEqual([0]);
  });

  it("stops at a Retry-After, which the gate is told at once", () => {
    const { starts, holds, lease, reason } = leaseInUse({ count: 3, slots: 1, exchange: () => LATER });
    expect(starts).toEqual([0]);
    expect(holds).toEqual([60_100]);
    expect(lease.queue).toEqual([1, 2]);
    expect(lease.signals).toMatchObject([{ health: "throttled", backsOff: true }]);
    expect(reason()).not.toBe("slow");
  });

  it("stops at a 410, and the rest waits for a destination that is about to be paused", () => {
    const { starts, reason } = leaseInUse({ count: 3, slots: 1, exchange: () => GONE });
    expect(starts).toEqual([0]);
    expect(reason()).toBe("paused");
  });

  it("stops when the gate has learned of a hold from another lease, within a second", () => {
    const held = { ...newDestinationState(0), heldUntil: Number.MAX_SAFE_INTEGER };
    const { starts, reason } = leaseInUse({
      count: 10,
      slots: 1,
      tookMs: () => 400,
      effects: { readState: (then) => then(held) },
    });
    expect(starts).toEqual([0, 400, 800]);
    expect(reason()).toBe("hold");
  });

  it("fails as a whole when an attempt cannot be made", () => {
    const { events, lease } = leaseInUse({ count: 3, fails: (n) => n === 1 });
    expect(events.at(-1)).toBe("failed: Error: no body");
    expect(lease.done).toHaveLength(1);
  });

  it("is followed by the next one over the same connections, which are never more than its slots", () => {
    const { events, starts, mostRunning } = leaseInUse({ count: 9, slots: 3, width: 3, next: 9 });
    expect(events).toEqual([
      "nearly over",
      "next: nearly over",
      "enough at 300",
      "finished at 300",
      "next: enough at 600",
      "next: finished at 600",
    ]);
    expect(starts).toEqual([0, 100, 200, 300, 400, 500].flatMap((at) => [at, at, at]));
    expect(mostRunning()).toBe(3);
  });
});

it("the consumer's patience is twenty times what a receiver usually takes, from 200 ms to 1 s", () => {
  expect([0, 1, 10, 20, 50, 500].map(consumerPatienceMs)).toEqual([1_000, 200, 200, 400, 1_000, 1_000]);
});
