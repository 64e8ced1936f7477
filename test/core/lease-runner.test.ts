import { describe, expect, it } from "vitest";
import { type DestinationState, newDestinationState } from "../../src/core/destination-state.ts";
import type { Grant } from "../../src/core/lease.ts";
import {
  type AttemptResult,
  consumerPatienceMs,
  drainPatienceMs,
  type LeaseEffects,
  type LeaseOrder,
  type LeaseRun,
  runLease,
} from "../../src/core/lease-runner.ts";
import { defaultGateSettings, type GateSettings } from "../../src/core/limits.ts";
import type { AttemptMetric } from "../../src/core/metrics.ts";
import type { Exchange } from "../../src/core/retry/classify.ts";
import { promisesSettled, virtualTime } from "../../src/simulator/virtual-time.ts";

const OK: Exchange = { kind: "response", status: 204 };
const GONE: Exchange = { kind: "response", status: 410 };
const LATER: Exchange = { kind: "response", status: 429, retryAfter: "60" };
const SOON: Exchange = { kind: "response", status: 429, retryAfter: "1" };
const BROKEN: Exchange = { kind: "response", status: 500 };

type Given = Partial<{
  count: number;
  /** Granted, but gone when they are loaded. */
  missing: number;
  slots: number;
  width: number;
  everyMs: number;
  patienceMs: number;
  settings: Partial<GateSettings>;
  /** The gate's knowledge of the destination. */
  state: Partial<DestinationState>;
  /** How long each attempt takes, by its number; 0: answers within the call; undefined: for ever. */
  tookMs: (n: number) => number | undefined;
  exchange: (n: number) => Exchange;
  /** Whether its attempt cannot be made at all. */
  fails: (n: number) => boolean;
  /** Further signals of an attempt, by its number. */
  says: (n: number) => Pick<AttemptResult, "metric"> & Pick<AttemptResult["attempt"], "limits">;
  /** Begins the next lease, of so many deliveries, when this one is nearly over. */
  next: number;
  /** Starts it so long after this one has finished instead. */
  nextAfterMs: number;
  nextGrant: Partial<Grant>;
  /** How long it takes until a connection is free, by which of them it is. */
  connectMs: (n: number) => number;
  effects: Partial<LeaseEffects>;
}>;

const NOTHING: NonNullable<Given["says"]> = () => ({});

/** A lease that is used in virtual time: what it starts, when, and how it ends. */
async function leaseInUse(given: Given) {
  const { count = 10, slots = 3, width = 1, everyMs = 0, patienceMs = 1_000 } = given;
  const { tookMs = () => 100, exchange = () => OK, fails = () => false, says = NOTHING } = given;
  const { missing = 0, nextAfterMs, connectMs } = given;
  const time = virtualTime(1);
  const start = time.now();
  const starts: number[] = [];
  const started: number[] = [];
  const events: string[] = [];
  const holds: number[] = [];
  const timers: number[] = [];
  let near: string | undefined;
  let reasonWhenFinished: string | undefined;
  let connections = 0;
  let running = 0;
  let mostRunning = 0;
  const effects: LeaseEffects = {
    now: time.now,
    random: () => 0.5,
    sleep: (ms) => {
      timers.push(time.now() + ms - start);
      return time.sleep(ms);
    },
    withConnection: async (task) => {
      connections += 1;
      if (connectMs) await time.sleep(connectMs(connections - 1));
      await task(() => {});
    },
    readState: async () => undefined,
    hold: (until) => holds.push(until - start),
    ...given.effects,
  };
  const send = async (n: number): Promise<AttemptResult> => {
    if (fails(n)) throw new Error("no body");
    const startedAt = time.now();
    starts.push(startedAt - start);
    started.push(n);
    running += 1;
    mostRunning = Math.max(mostRunning, running);
    const ms = tookMs(n);
    if (ms === undefined) return new Promise(() => {});
    if (ms > 0) await time.sleep(ms);
    running -= 1;
    const { limits, metric } = says(n);
    const attempt = { exchange: exchange(n), startedAt, endedAt: time.now() };
    return { attempt: { ...attempt, ...(limits && { limits }) }, ...(metric && { metric }) };
  };
  const orderOf = (deliveries: readonly number[]): LeaseOrder<number, AttemptResult> => ({
    grant: {
      id: "lease",
      slots,
      width,
      deliveries,
      startWithinMs: 5_000,
      expiresInMs: 30_000,
      pace: { firstInMs: 0, everyMs, slackMs: 0 },
      destinationState: { ...newDestinationState(start), ...given.state },
    },
    settings: { ...defaultGateSettings, ...given.settings },
    patienceMs,
    grantedAt: time.now(),
    deliveries,
    send,
  });
  const range = (from: number, length: number) => Array.from({ length }, (_, i) => from + i);
  const watch = (lease: LeaseRun<number, AttemptResult>, name: string) => {
    void lease.readyForSuccessor.then((isNear) => {
      events.push(`${name}${isNear ? "nearly over" : "not nearly over"}`);
      near ??= `${isNear} at ${time.now() - start}`;
      if (name === "" && nextAfterMs === undefined) time.after(0, beginNext);
    });
    const ignored = () => {};
    void lease.enough.then(() => events.push(`${name}enough at ${time.now() - start}`), ignored);
    void lease.finished.then(
      () => {
        events.push(`${name}finished at ${time.now() - start}`);
        reasonWhenFinished ??= lease.leftoverReason().reason;
        if (name === "" && nextAfterMs !== undefined) time.after(nextAfterMs, beginNext);
      },
      (error) => events.push(`${name}failed: ${error}`),
    );
  };
  const beginNext = () => {
    if (given.next === undefined) return;
    const next = orderOf(range(count, given.next));
    watch(lease.continueWith({ ...next, grant: { ...next.grant, ...given.nextGrant } }), "next: ");
  };
  const first = orderOf(range(0, count));
  const lease = runLease(effects, { ...first, deliveries: first.deliveries.slice(missing) });
  watch(lease, "");
  await promisesSettled();
  while (time.nextAt() !== undefined) if (time.step()) await promisesSettled();
  return {
    lease,
    starts,
    started,
    events,
    holds,
    timers,
    near,
    reason: reasonWhenFinished,
    reasonAtLast: lease.leftoverReason().reason,
    mostRunning,
    connections,
    start,
  };
}

describe("a lease in use", () => {
  it("begins with its width and grows with successes up to its slots", async () => {
    const { starts, lease, mostRunning } = await leaseInUse({ count: 10, slots: 3 });
    expect(starts.slice(0, 3)).toEqual([0, 100, 100]);
    expect(mostRunning).toBe(3);
    expect(lease.done).toHaveLength(10);
    expect(lease.signals).toHaveLength(10);
    expect(lease.queue).toEqual([]);
  });

  it("keeps its pace", async () => {
    const { starts } = await leaseInUse({ count: 4, slots: 1, everyMs: 500 });
    expect(starts).toEqual([0, 500, 1_000, 1_500]);
  });

  it("is over as soon as its last attempt has ended", async () => {
    const { events } = await leaseInUse({ count: 2, slots: 1, tookMs: () => 100 });
    expect(events).toEqual(["nearly over", "enough at 200", "finished at 200"]);
  });

  it("leaves over deliveries that the rate does not allow in its time", async () => {
    const { lease, starts } = await leaseInUse({ count: 10, slots: 1, everyMs: 2_000 });
    expect(starts).toEqual([0, 2_000, 4_000]);
    expect(lease.queue).toHaveLength(7);
  });

  it("starts nothing more when an attempt has been running for longer than the patience", async () => {
    const { events, starts, lease, reason } = await leaseInUse({
      count: 5,
      slots: 1,
      tookMs: (n) => (n === 1 ? 4_000 : 100),
    });
    expect(starts).toEqual([0, 100]);
    expect(events).toEqual(["nearly over", "enough at 1100", "finished at 4100"]);
    expect(lease.queue).toEqual([2, 3, 4]);
    expect(reason).toBe("slow");
  });

  it("is recorded when its time is over, even while it still waits for a connection", async () => {
    const { events, lease } = await leaseInUse({
      count: 1,
      effects: { withConnection: () => new Promise(() => {}) },
    });
    expect(events).toEqual(["not nearly over", "enough at 6000"]);
    expect(lease.queue).toEqual([0]);
  });

  it("stops at a Retry-After, which is reported to the gate at once", async () => {
    const { starts, holds, lease, reason } = await leaseInUse({ count: 3, slots: 1, exchange: () => LATER });
    expect(starts).toEqual([0]);
    expect(holds).toEqual([60_100]);
    expect(lease.queue).toEqual([1, 2]);
    expect(lease.signals).toMatchObject([{ health: "throttled", backsOff: true }]);
    expect(reason).not.toBe("slow");
  });

  it("stops at a 410, and the rest waits for a destination that is about to be paused", async () => {
    const { starts, reason } = await leaseInUse({ count: 3, slots: 1, exchange: () => GONE });
    expect(starts).toEqual([0]);
    expect(reason).toBe("paused");
  });

  it("stops when the gate has learned of a hold from another lease, within a second", async () => {
    const held = { ...newDestinationState(0), heldUntil: Number.MAX_SAFE_INTEGER };
    const { starts, reason } = await leaseInUse({
      count: 10,
      slots: 1,
      tookMs: () => 400,
      effects: { readState: async () => held },
    });
    expect(starts).toEqual([0, 400, 800]);
    expect(reason).toBe("hold");
  });

  it("fails as a whole when an attempt cannot be made", async () => {
    const { events, lease } = await leaseInUse({ count: 3, slots: 1, fails: (n) => n === 1 });
    expect(events.at(-1)).toBe("failed: Error: no body");
    expect(lease.done).toHaveLength(1);
  });

  it("is not ready for a successor when its first attempt cannot be made", async () => {
    const { events } = await leaseInUse({ count: 1, fails: () => true });
    expect(events).toEqual(["not nearly over", "failed: Error: no body"]);
  });

  it("is followed by the next one over the same connections, which are never more than its slots", async () => {
    const { events, starts, mostRunning } = await leaseInUse({ count: 9, slots: 3, width: 3, next: 9 });
    expect(events).toEqual([
      "nearly over",
      "next: nearly over",
      "enough at 300",
      "finished at 300",
      "next: enough at 600",
      "next: finished at 600",
    ]);
    expect(starts).toEqual([0, 100, 200, 300, 400, 500].flatMap((at) => [at, at, at]));
    expect(mostRunning).toBe(3);
  });
});

describe("the width of a lease", () => {
  const wide = { window: { size: 4, threshold: 4 } };

  it("is halved by a failure, and grows back with successes", async () => {
    const { starts } = await leaseInUse({
      count: 16,
      slots: 4,
      width: 4,
      state: wide,
      exchange: (n) => (n === 0 ? BROKEN : OK),
    });
    const at = (ms: number) => starts.filter((start) => start === ms).length;
    expect([0, 100, 200, 300].map(at)).toEqual([4, 3, 4, 4]);
  });

  it("is that of the newest lease", async () => {
    const { starts } = await leaseInUse({
      count: 6,
      slots: 3,
      width: 3,
      next: 3,
      nextGrant: { slots: 1, width: 1 },
    });
    expect(starts).toEqual([0, 0, 0, 100, 100, 100, 200, 300, 400]);
  });

  it("is free again for a lease that begins after the other has finished", async () => {
    const { starts } = await leaseInUse({ count: 3, slots: 3, width: 3, next: 3, nextAfterMs: 900 });
    expect(starts).toEqual([0, 0, 0, 1_000, 1_000, 1_000]);
  });
});

describe("the end of a lease", () => {
  it("comes at once when there is nothing to send", async () => {
    expect((await leaseInUse({ count: 0 })).events).toEqual([
      "not nearly over",
      "enough at 0",
      "finished at 0",
    ]);
  });

  it("comes with the last delivery that could be loaded", async () => {
    const { events, started } = await leaseInUse({ count: 5, missing: 3, slots: 1 });
    expect(started).toEqual([3, 4]);
    expect(events.at(-1)).toBe("finished at 200");
  });

  it("comes once, also when every attempt is answered within the call", async () => {
    const { events, starts } = await leaseInUse({ count: 4, slots: 2, tookMs: () => 0 });
    expect(starts).toEqual([0, 0, 0, 0]);
    expect(events).toEqual(["not nearly over", "enough at 0", "finished at 0"]);
  });

  it("comes when its time is over: no attempt starts at its last moment or after it", async () => {
    const { starts, lease, events, reason } = await leaseInUse({ count: 60, slots: 1 });
    expect(starts).toHaveLength(50);
    expect(starts.at(-1)).toBe(4_900);
    expect(lease.queue).toHaveLength(10);
    expect(events.at(-1)).toBe("finished at 5000");
    expect(reason).toBe("slow");
  });

  it("comes when the rate allows the next attempt only at its last moment", async () => {
    const { events, starts, reason } = await leaseInUse({ count: 9, slots: 1, everyMs: 2_500 });
    expect(starts).toEqual([0, 2_500]);
    expect(events.slice(-2)).toEqual(["enough at 2600", "finished at 2600"]);
    expect(reason).toBe("rate");
  });

  it("comes with the first reading of the clock after its time", async () => {
    for (let late = 1; late < 40; late++) {
      const time = virtualTime(1);
      let looks = 0;
      const clock = () => time.now() + (++looks >= late ? 10_000 : 0);
      const { events } = await leaseInUse({ count: 3, slots: 1, effects: { now: clock } });
      expect(events.join()).toMatch(/finished/);
    }
  });

  it("waits for claimed send slots when a 410 has stopped it", async () => {
    const { events, starts, connections } = await leaseInUse({
      count: 5,
      slots: 2,
      width: 2,
      everyMs: 1_000,
      exchange: () => GONE,
    });
    expect(starts).toEqual([0]);
    expect(connections).toBe(2);
    expect(events).toEqual(["not nearly over", "enough at 1000", "finished at 1000"]);
  });

  it("is not near, however little is left, when a 410 has stopped it and an attempt still runs", async () => {
    const { events, connections } = await leaseInUse({
      count: 3,
      slots: 2,
      width: 2,
      tookMs: (n) => (n === 0 ? 100 : 800),
      state: { tookMs: 1_500 },
      exchange: (n) => (n === 0 ? GONE : OK),
    });
    expect(connections).toBe(2);
    expect(events).toEqual(["not nearly over", "enough at 800", "finished at 800"]);
  });

  it("is near when the rest takes 700 ms at the usual duration and the width allowed", async () => {
    const usual = { tookMs: () => 100, state: { tookMs: 100 } };
    expect((await leaseInUse({ count: 20, slots: 1, ...usual })).near).toBe("true at 1300");
    expect((await leaseInUse({ count: 40, slots: 2, width: 2, ...usual })).near).toBe("true at 1300");
    expect((await leaseInUse({ count: 2, slots: 1, ...usual })).near).toBe("true at 0");
  });

  it("is never near with a receiver that usually takes longer than a second", async () => {
    const near = async (tookMs: number) =>
      (await leaseInUse({ count: 1, patienceMs: 5_000, tookMs: () => tookMs, state: { tookMs } })).near;
    expect(await near(1_000)).toBe("true at 0");
    expect(await near(1_001)).toBe("false at 1001");
  });
});

describe("what a lease leaves over", () => {
  it("waits for the rate only while the lease has time left", async () => {
    const given = { count: 10, slots: 1, everyMs: 2_000 };
    expect((await leaseInUse(given)).reason).toBe("rate");
    expect((await leaseInUse({ ...given, tookMs: () => 1_900 })).reason).toBe("slow");
    expect((await leaseInUse(given)).reasonAtLast).toBe("slow");
  });

  it("waits for an operator when the destination was paused", async () => {
    const { reason, starts } = await leaseInUse({ settings: { paused: true } });
    expect(starts).toEqual([]);
    expect(reason).toBe("paused");
  });

  it("is not started any more when the next lease begins after the hold that stopped this one", async () => {
    const { started, events } = await leaseInUse({
      count: 3,
      slots: 1,
      exchange: (n) => (n === 0 ? SOON : OK),
      next: 2,
      nextAfterMs: 1_100,
    });
    expect(started).toEqual([0, 3, 4]);
    expect(events.filter((event) => /^finished/.test(event))).toEqual(["finished at 100"]);
  });

  it("is known for the next lease as soon as an attempt has run for too long", async () => {
    const { events, started } = await leaseInUse({
      count: 2,
      slots: 1,
      next: 2,
      tookMs: (n) => (n === 1 ? undefined : 100),
    });
    expect(started).toEqual([0, 1]);
    expect(events).toEqual([
      "nearly over",
      "next: nearly over",
      "enough at 1100",
      "next: enough at 1100",
      "next: finished at 1100",
    ]);
  });

  it("is all of a lease that begins while an attempt has been running for too long", async () => {
    const { events, started } = await leaseInUse({
      count: 2,
      slots: 2,
      width: 2,
      next: 1,
      tookMs: (n) => (n === 0 ? undefined : 100),
      state: { tookMs: 900 },
      patienceMs: 0,
    });
    expect(started).toEqual([0, 1]);
    expect(events).toContain("next: finished at 0");
  });
});

describe("the pace of a lease", () => {
  it("counts from when an attempt has really started, over all connections", async () => {
    const { starts, lease, start } = await leaseInUse({
      count: 4,
      slots: 2,
      width: 2,
      everyMs: 1_000,
      tookMs: () => 300,
      connectMs: (n) => (n === 0 ? 900 : 0),
    });
    expect(starts).toEqual([900, 1_900, 2_900, 3_900]);
    expect(lease.tat()).toBe(start + 4_900);
  });

  it("has no arrival time to report before anything has started", async () => {
    expect((await leaseInUse({ settings: { paused: true } })).lease.tat()).toBeUndefined();
  });

  it("takes a connection only for an attempt that it will start", async () => {
    const { connections, starts } = await leaseInUse({ count: 9, slots: 2, width: 2, everyMs: 2_000 });
    expect(starts).toEqual([0, 2_000, 4_000]);
    expect(connections).toBe(3);
  });
});

describe("what a lease requires of its caller", () => {
  it("is two timers for many attempts that are all answered in time", async () => {
    const { timers } = await leaseInUse({ count: 9, slots: 3 });
    expect(timers).toEqual([6_000, 1_000]);
  });

  it("is the destination's state at most once a second, however many attempts start", async () => {
    let reads = 0;
    const { starts } = await leaseInUse({
      count: 50,
      slots: 4,
      width: 4,
      tookMs: () => 250,
      effects: {
        readState: async () => {
          reads += 1;
          return undefined;
        },
      },
    });
    expect(starts.at(-1)).toBe(3_000);
    expect(reads).toBe(3);
  });
});

describe("the signal of an attempt", () => {
  const ended = { at: expect.any(Number), health: "healthy", backsOff: false, tookMs: 100 };

  it("contains only what is known", async () => {
    const { lease, holds } = await leaseInUse({ count: 2, slots: 1 });
    expect(lease.signals).toStrictEqual([ended, ended]);
    expect(holds).toEqual([]);
  });

  it("has its figures for the metrics and the receiver's remaining requests", async () => {
    const metric: AttemptMetric = {
      attempt: 1,
      result: "2xx",
      end: "delivered",
      tookMs: 100,
      lateMs: 5,
    };
    const limits = { remaining: 7, resetAt: 1 };
    const { lease } = await leaseInUse({ count: 1, says: () => ({ metric, limits }) });
    expect(lease.signals).toStrictEqual([{ ...ended, metric, remaining: 7 }]);
  });

  it("is a hold until the reset when the receiver takes no more, which is reported to the gate once", async () => {
    const { start } = await leaseInUse({ count: 0 });
    const limits = { remaining: 0, resetAt: start + 3_000 };
    const { lease, holds, starts } = await leaseInUse({
      count: 4,
      slots: 2,
      width: 2,
      says: () => ({ limits }),
    });
    expect(starts).toEqual([0, 0]);
    expect(holds).toEqual([3_000]);
    expect(lease.signals[0]).toStrictEqual({ ...ended, remaining: 0, holdUntil: start + 3_000 });
  });
});

it("the consumer's patience is twenty times what a receiver usually takes, from 200 ms to 1 s", async () => {
  expect([0, 1, 10, 20, 50, 500].map(consumerPatienceMs)).toEqual([1_000, 200, 200, 400, 1_000, 1_000]);
});

it("a drain by itself awaits an answer for a step, and nobody who takes longer", () => {
  const patience = [0, 20, 1_001, 3_000, 3_001].map((usualMs) => drainPatienceMs(usualMs, false));
  expect(patience).toEqual([3_000, 3_000, 3_000, 3_000, 200]);
});

it("a drain beside others awaits an answer as a consumer does, and nobody who takes more than a second", () => {
  const patience = [0, 20, 1_000, 1_001].map((usualMs) => drainPatienceMs(usualMs, true));
  expect(patience).toEqual([1_000, 400, 1_000, 200]);
});
