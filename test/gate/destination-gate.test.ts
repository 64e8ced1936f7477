/** The gate as its callers see it: over RPC, with its real storage, through evictions and crashes. */
import {
  abortAllDurableObjects,
  evictDurableObject,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { AdmitRequest } from "../../src/core/admit.ts";
import type { AttemptSignal } from "../../src/core/destination-state.ts";
import type { GateState } from "../../src/core/gate-state.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { newDestinationId } from "../../src/ids.ts";
import type { DrainMessage } from "../../src/queue-messages.ts";
import { type Clock, START, standingClock } from "../support/clock.ts";
import { fakeQueue } from "../support/queues.ts";
import { alarmOf, gateOf } from "../support/world.ts";

const settings: GateSettings = {
  paused: false,
  maxConcurrency: 5,
  ratePerSecond: 100,
  rateBurst: 200,
  timeoutMs: 15_000,
  breaker: {
    failureRatio: 0.5,
    minAttempts: 5,
    windowMs: 60_000,
    cooldownMs: 30_000,
    maxCooldownMs: 300_000,
  },
};

let clock: Clock;
let destination: string;
beforeEach(() => {
  clock = standingClock();
  destination = newDestinationId();
});

function ask(deliveries: readonly number[], more: Partial<AdmitRequest> = {}): AdmitRequest {
  return { lane: "fresh", deliveries, connections: 6, startWithinMs: 1_000, ...more };
}

function admit(deliveries: readonly number[], more: Partial<AdmitRequest> = {}) {
  return gateOf(destination).admit(ask(deliveries, more), settings);
}

/** Admits without obstacles. */
async function admitted(deliveries: readonly number[]) {
  const { grant } = await admit(deliveries);
  if (!grant) throw new Error("It was refused");
  return grant;
}

function settle(lease: string, signals: readonly AttemptSignal[] = []) {
  return gateOf(destination).settle({ lease, signals, left: 0 }, settings);
}

const healthy = (): AttemptSignal => ({
  at: clock.now(),
  health: "healthy",
  backsOff: false,
  tookMs: 50,
});
const unhealthy = (): AttemptSignal => ({ ...healthy(), health: "unhealthy", backsOff: true });

/** Successes enough to open the window to the limit. */
async function earnTrust() {
  const { id } = await admitted([1_000_001]);
  await settle(id, Array.from({ length: 20 }, healthy));
}

function storedState(): Promise<unknown> {
  return runInDurableObject(gateOf(destination), (_, { storage }) => {
    const text = storage.kv.get<string>("gate");
    return text === undefined ? undefined : JSON.parse(text);
  });
}

/** For a later incarnation: the former one is gone. */
async function storeState(value: unknown): Promise<void> {
  const text = JSON.stringify(value);
  await runInDurableObject(gateOf(destination), (_, { storage }) => storage.kv.put("gate", text));
  await evictDurableObject(gateOf(destination));
}

describe("in flight", () => {
  test("are never more than the limit, however many requests come at once", async () => {
    await earnTrust();
    const asks = Array.from({ length: 20 }, (_, i) => admit([3 * i, 3 * i + 1, 3 * i + 2]));
    const answers = await Promise.all(asks);
    const slots = answers.reduce((sum, { grant }) => sum + (grant?.slots ?? 0), 0);
    expect(slots).toBe(settings.maxConcurrency);
    const refused = answers.filter(({ grant }) => grant === null);
    expect(refused.length).toBeGreaterThanOrEqual(15);
    for (const answer of refused) expect(answer.refused?.reason).toBe("concurrency");
  });

  test("is one delivery to an unknown destination", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => admit([2 * i, 2 * i + 1])));
    expect(answers.filter(({ grant }) => grant !== null).map(({ grant }) => grant?.width)).toEqual([1]);
  });

  test("is no delivery twice", async () => {
    const grant = await admitted([7]);
    const again = await admit([7]);
    expect(again).toEqual({
      grant: null,
      refused: null,
      inFlight: { deliveries: [7], until: START + grant.expiresInMs },
    });
  });

  test.each([
    ["an eviction", () => evictDurableObject(gateOf(destination))],
    ["a crash", () => abortAllDurableObjects()],
  ])("are still known after %s", async (_, interrupt) => {
    await earnTrust();
    const grant = await admitted([1, 2, 3, 4, 5]);
    expect(grant.slots).toBe(5);
    await interrupt();
    expect(await admit([3])).toMatchObject({ grant: null, inFlight: { deliveries: [3] } });
    expect(await admit([6])).toMatchObject({ grant: null, refused: { reason: "concurrency" } });
    await interrupt();
    await settle(grant.id, Array.from({ length: 5 }, healthy));
    expect(await admit([3])).toMatchObject({ grant: { deliveries: [3] } });
  });

  test("is nothing of an expired unsettled lease, nor of an earlier one", async () => {
    const { expiresInMs } = await admitted([7]);
    clock.pass(expiresInMs - 1);
    expect(await admit([7])).toMatchObject({ grant: null });
    clock.pass(1);
    expect(await admit([7])).toMatchObject({ grant: { deliveries: [7] } });
  });
});

describe("settling", () => {
  test("twice changes nothing more than once", async () => {
    const { id } = await admitted([1]);
    expect(await settle(id, Array.from({ length: 5 }, unhealthy))).toMatchObject({
      events: ["circuit_opened"],
    });
    const once = await storedState();
    expect(await settle(id, Array.from({ length: 5 }, unhealthy))).toBeNull();
    expect(await storedState()).toEqual(once);
  });

  test("a lease that has expired changes nothing", async () => {
    const { id, expiresInMs } = await admitted([1]);
    clock.pass(expiresInMs);
    expect(await settle(id, Array.from({ length: 5 }, unhealthy))).toBeNull();
    expect(await admit([2])).toMatchObject({ grant: { deliveries: [2] } });
  });

  test("a lease that the gate has never given changes nothing", async () => {
    const { id } = await admitted([1]);
    const before = await storedState();
    expect(await settle("another", [unhealthy()])).toBeNull();
    expect(await storedState()).toEqual(before);
    await settle(id);
  });

  test("reports what happened to the circuit", async () => {
    const { id } = await admitted([1]);
    const signal = { ...healthy(), health: "throttled", backsOff: true, holdUntil: START + 60_000 } as const;
    expect(await settle(id, [signal])).toMatchObject({ events: ["held"] });
    expect(await admit([2])).toMatchObject({ refused: { reason: "hold", until: START + 60_000 } });
  });
});

describe("peeking", () => {
  test("says why a delivery would wait, and changes nothing", async () => {
    const { id } = await admitted([1]);
    await settle(id, Array.from({ length: 5 }, unhealthy));
    const before = await storedState();
    expect(await gateOf(destination).refusal(settings)).toMatchObject({ reason: "circuit_open" });
    expect(await storedState()).toEqual(before);
  });

  test("refuses nothing while the gate is not blocked, and stores nothing", async () => {
    expect(await gateOf(destination).refusal(settings)).toBeNull();
    expect(await storedState()).toBeUndefined();
  });
});

test("the alarm overwrites no admission made while it enqueues drains", async () => {
  await gateOf(destination).scheduleDrain();
  await runInDurableObject(gateOf(destination), (gate) => {
    const sendBatch = async () => void (await gate.admit(ask([1]), settings));
    Object.assign(gate, { env: { DRAINS: { sendBatch } } });
  });
  expect(await runDurableObjectAlarm(gateOf(destination))).toBe(true);
  expect(await gateOf(destination).view(settings)).toMatchObject({ inFlight: 1 });
});

describe("a gate that its group has refused", () => {
  beforeEach(async () => {
    const refusal = { why: "rate", until: clock.now() + 900_000, quietUntil: clock.now() + 2_000 } as const;
    const answered = { answer: { at: clock.now(), kind: "refused", refusal }, askedAt: clock.now() } as const;
    const { refused } = await admit([1], { group: { name: "billing", answered } });
    expect(refused?.reason).toBe("group");
    expect(await alarmOf(destination)).toBe(refused?.until);
  });

  test("drains at once when the destination has left the group", async () => {
    await gateOf(destination).leaveGroup();
    expect(await alarmOf(destination)).toBe(clock.now());
    expect(await gateOf(destination).refusal(settings)).toBeNull();
  });

  test("drains at once when the destination is tried again, because its new URL may be in another group", async () => {
    await gateOf(destination).resume();
    expect(await alarmOf(destination)).toBe(clock.now());
    expect(await gateOf(destination).refusal(settings)).toBeNull();
  });
});

test("a drain runs alone after an invocation of the destination has been lost", async () => {
  await earnTrust();
  await admitted([7, 8]);
  clock.pass(60_000);
  await admit([7]);
  await gateOf(destination).scheduleDrain();
  const drains = fakeQueue<DrainMessage>();
  await runInDurableObject(gateOf(destination), (gate) => {
    Object.assign(gate, { env: { DRAINS: drains.queue } });
  });
  clock.pass(1);
  expect(await runDurableObjectAlarm(gateOf(destination))).toBe(true);
  const [first] = drains.taken();
  expect(first?.body).toMatchObject({ destination, alone: true });
});

describe("a hold that is reported at once", () => {
  test("blocks all leases, and shows in the state that others fetch", async () => {
    await earnTrust();
    const until = clock.now() + 30_000;
    await gateOf(destination).hold(until);
    expect(await admit([2])).toMatchObject({ grant: null, refused: { reason: "hold", until } });
    expect(await gateOf(destination).destinationState()).toMatchObject({
      heldUntil: until,
      window: { size: 1 },
    });
  });

  test("is not shortened by another", async () => {
    const until = clock.now() + 30_000;
    await gateOf(destination).hold(until);
    await gateOf(destination).hold(until - 10_000);
    expect(await admit([2])).toMatchObject({ refused: { reason: "hold", until } });
  });

  test("ends with one attempt at a time, whatever other leases achieved meanwhile", async () => {
    await earnTrust();
    const { id } = await admitted([1, 2, 3]);
    await gateOf(destination).hold(clock.now() + 30_000);
    await settle(id, Array.from({ length: 3 }, healthy));
    clock.pass(30_000);
    expect(await admitted([4, 5, 6])).toMatchObject({ width: 1 });
  });
});

describe("a hold that a person clears", () => {
  test("ends at once, and drains are scheduled for waiting deliveries", async () => {
    await gateOf(destination).hold(clock.now() + 86_400_000);
    expect(await admit([2])).toMatchObject({ refused: { reason: "hold" } });
    expect(await gateOf(destination).clearHold()).toEqual(["hold_ended"]);
    expect(await alarmOf(destination)).toBe(clock.now());
    expect(await admit([2])).toMatchObject({ grant: { deliveries: [2] } });
    expect(await gateOf(destination).clearHold()).toEqual([]);
  });
});

describe("a gate that forgets its destination", () => {
  test("keeps nothing in its storage, and no alarm", async () => {
    await earnTrust();
    await gateOf(destination).hold(clock.now() + 86_400_000);
    await gateOf(destination).scheduleDrain();
    await gateOf(destination).forget();
    expect(await runInDurableObject(gateOf(destination), (_, { storage }) => [...storage.kv.list()])).toEqual(
      [],
    );
    expect(await alarmOf(destination)).toBeNull();
    await gateOf(destination).forget();
    expect(await admit([2])).toMatchObject({ grant: { width: 1 } });
  });
});

describe("a delivery that was settled", () => {
  test("after the caller's read is not granted on that outdated read", async () => {
    const { id } = await admitted([1]);
    clock.pass(500);
    await settle(id, [healthy()]);
    clock.pass(100);
    const late = await admit([1, 2], { lookedUpMsAgo: 300 });
    expect(late).toMatchObject({ grant: { deliveries: [2] }, inFlight: { deliveries: [1] } });
  });

  test("before the caller's read is granted", async () => {
    const { id } = await admitted([1]);
    await settle(id, [healthy()]);
    clock.pass(500);
    expect(await admit([1], { lookedUpMsAgo: 300 })).toMatchObject({ grant: { deliveries: [1] } });
  });

  test("must be reread under its lease if the caller's read is older than the gate's memory", async () => {
    expect(await admit([1], { lookedUpMsAgo: 6_001 })).toMatchObject({
      grant: { deliveries: [1] },
      readAgain: true,
      inFlight: null,
    });
  });
});

describe("a stored state", () => {
  const whole = async () => {
    await admitted([1]);
    return (await storedState()) as Record<string, unknown>;
  };
  const without = (...path: string[]) => {
    return async () => {
      const state = structuredClone(await whole());
      const last = path.pop() ?? "";
      const parent = path.reduce((at, name) => at[name] as Record<string, unknown>, state);
      delete parent[last];
      return state;
    };
  };

  test.each<[string, () => unknown]>([
    ["a text", () => "garbage"],
    ["a number", () => 7],
    ["null", () => null],
    ["empty", () => ({})],
    ["a list", () => []],
    ["of a version to come", async () => ({ ...(await whole()), version: 2 })],
    ["with leases that are none", async () => ({ ...(await whole()), leases: [{}, null] })],
    [
      "with a window that is no number",
      async () => ({ ...(await whole()), destinationState: { window: "wide" } }),
    ],
    ["with settled ones that are none", async () => ({ ...(await whole()), settled: [7] })],
    ["with a history that is none", async () => ({ ...(await whole()), history: {} })],
    ["with failures that are none", async () => ({ ...(await whole()), failureStreak: 7 })],
    ["without its rate", without("tat")],
    ["without its circuit", without("destinationState", "circuit")],
    ["without its turns", without("turns", "backlog")],
  ])("that is %s is replaced by a new one, and reported", async (_, make) => {
    await storeState(await make());
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    const grant = await admitted([7]);
    expect(lines.mock.calls.flat().map((line) => JSON.parse(line))).toEqual([
      { what: "gate_state_corrupt", destination },
    ]);
    lines.mockRestore();
    expect(grant).toMatchObject({ deliveries: [7], width: 1 });
    expect(await settle(grant.id, [healthy()])).toBeNull();
    await gateOf(destination).scheduleDrain();
    expect(await alarmOf(destination)).toBeGreaterThan(0);
  });

  test.each([
    ["its limit", without("maxConcurrency")],
    ["the drains it expects", without("drainSchedule", "expected")],
    ["its history", without("history")],
    ["what it counted", without("rollups")],
    ["what was settled", without("settled")],
    ["how long attempts take", without("destinationState", "tookMs")],
    ["its failures in a row", without("destinationState", "circuit", "streak")],
    ["what 429s have taught", without("destinationState", "adaptiveLimit")],
  ])("that an earlier version wrote without %s is filled in, and its leases hold", async (_, make) => {
    await storeState(await make());
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    expect(await admit([1])).toMatchObject({ grant: null, inFlight: { deliveries: [1] } });
    expect(lines).not.toHaveBeenCalled();
    lines.mockRestore();
    await gateOf(destination).scheduleDrain();
    expect(await gateOf(destination).view(settings)).toMatchObject({ circuit: "closed" });
  });

  test("that is complete is none of these, in any state of the circuit", async () => {
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    const { id } = await admitted([1]);
    await settle(id, Array.from({ length: 5 }, unhealthy));
    expect(await admit([2])).toMatchObject({ refused: { reason: "circuit_open" } });
    clock.pass(40_000);
    const probe = await admitted([2]);
    await settle(probe.id, [healthy()]);
    expect(await admit([3])).toMatchObject({ grant: { deliveries: [3] } });
    expect(lines).not.toHaveBeenCalled();
    lines.mockRestore();
  });
});

describe("an alarm that has gone off", () => {
  async function goOff(): Promise<readonly unknown[]> {
    const stub = gateOf(destination);
    const { queue, taken } = fakeQueue<DrainMessage>();
    await runInDurableObject(stub, (gate) => void Object.assign(gate, { env: { DRAINS: queue } }));
    await runDurableObjectAlarm(stub);
    return taken();
  }

  test("is set again in case its drain is lost, and sends no second one before that", async () => {
    await gateOf(destination).scheduleDrain();
    expect(await goOff()).toHaveLength(1);
    expect(await alarmOf(destination)).toBe(START + 30_000);
    expect(await goOff()).toEqual([]);
    clock.pass(30_000);
    expect(await goOff()).toHaveLength(1);
  });

  test("sends more drains than one call of the queue takes, and counts no others", async () => {
    await openWide();
    const { queue, taken } = fakeQueue<DrainMessage>();
    const pages: number[] = [];
    const paged = {
      ...queue,
      sendBatch: async (messages: MessageSendRequest<DrainMessage>[]) => {
        pages.push(messages.length);
        return queue.sendBatch(messages);
      },
    };
    await goOffWith(paged);
    expect(pages).toEqual([100, 100]);
    expect(taken()).toHaveLength(200);
    expect(await storedState()).toMatchObject({ drainSchedule: { expected: 200 } });
  });

  test("goes off again within seconds when the queue does not take its drains, and counts only those it took", async () => {
    await openWide();
    const { queue } = fakeQueue<DrainMessage>();
    let calls = 0;
    const sendBatch = async (messages: MessageSendRequest<DrainMessage>[]) => {
      calls += 1;
      if (calls > 1) throw new Error("The queue is away");
      return queue.sendBatch(messages);
    };
    await goOffWith({ ...queue, sendBatch });
    expect(await storedState()).toMatchObject({ drainSchedule: { expected: 100 } });
    const again = (await alarmOf(destination)) ?? Number.POSITIVE_INFINITY;
    expect(again).toBeLessThanOrEqual(START + 5_000);
    clock.pass(again - START);
    expect(await goOff()).toHaveLength(100);
  });

  /** A thousand at once, with something waiting. */
  async function openWide(): Promise<void> {
    const wide = { ...settings, maxConcurrency: 1_000, ratePerSecond: 10_000, rateBurst: 10_000 };
    const { grant } = await gateOf(destination).admit(ask([1]), wide);
    const signals = Array.from({ length: 1_000 }, healthy);
    await gateOf(destination).settle({ lease: grant?.id ?? "", signals, left: 0 }, wide);
    await gateOf(destination).scheduleDrain();
  }

  async function goOffWith(queue: Partial<Queue<DrainMessage>>): Promise<void> {
    await runInDurableObject(
      gateOf(destination),
      (gate) => void Object.assign(gate, { env: { DRAINS: queue } }),
    );
    await runDurableObjectAlarm(gateOf(destination));
  }
});

describe("the rows written", () => {
  test("are one for the admission and one for the settlement of a delivery that comes alone, and no alarm", async () => {
    const writes = await countWrites();
    const { id } = await admitted([1]);
    expect(writes).toEqual(["put"]);
    await settle(id, [healthy()]);
    expect(writes).toEqual(["put", "put"]);
  });

  test("are a small fraction of one for each delivery of a dense stream", async () => {
    const writes = await countWrites();
    for (let i = 0; i < 500; i++) {
      const { id } = await admitted([i]);
      clock.pass(10);
      await settle(id, [healthy()]);
    }
    expect(writes.length).toBeLessThan(20);
  });

  test("are at most one for each batch of a hundred", async () => {
    const writes = await countWrites();
    for (let i = 0; i < 20; i++) {
      const { id, deliveries } = await admitted(Array.from({ length: 100 }, (_, n) => 128 * i + n));
      expect(deliveries).toHaveLength(100);
      clock.pass(1_000);
      await settle(id, Array.from({ length: 100 }, healthy));
    }
    expect(writes.length).toBeLessThanOrEqual(20 + 6);
  });
});

describe("an unstored change", () => {
  const counted = (): AttemptSignal => ({
    ...healthy(),
    metric: { attempt: 1, result: "2xx", end: "delivered", tookMs: 50, lateMs: 10 },
  });
  const delivered = async () => {
    const { ever } = await gateOf(destination).figures({ windows: [], series: false }, settings);
    return ever.delivered;
  };

  /** One after the other, so that the gate leaves what it can to its alarm. */
  async function deliver(count: number): Promise<void> {
    for (let i = 0; i < count; i++) await settle((await admitted([i])).id, [counted()]);
  }

  test("is written by the alarm, ten seconds after the last write, and then outlives the object", async () => {
    await deliver(10);
    expect(await alarmOf(destination)).toBe(START + 10_000);
    clock.pass(10_000);
    expect(await runDurableObjectAlarm(gateOf(destination))).toBe(true);
    await evictDurableObject(gateOf(destination));
    expect(await delivered()).toBe(10);
    expect(await alarmOf(destination)).toBeNull();
  });

  test("is lost in a crash if it is a success, but never if it is a failure", async () => {
    await deliver(10);
    const { id } = await admitted([1]);
    await settle(id, [
      { ...unhealthy(), metric: { ...counted().metric, result: "5xx", end: "again" } } as AttemptSignal,
    ]);
    await deliver(5);
    expect(await delivered()).toBe(15);
    await abortAllDurableObjects();
    const remembered = await delivered();
    expect(remembered).toBeGreaterThanOrEqual(10);
    expect(remembered).toBeLessThan(15);
    expect(await gateOf(destination).view(settings)).toMatchObject({ traffic: { failures: 1 } });
  });

  test("is dropped if it could not be written: the next request begins with the stored state", async () => {
    await earnTrust();
    await runInDurableObject(gateOf(destination), async (gate, { id, storage }) => {
      const put = () => {
        throw new Error("The disk is full");
      };
      Object.assign(gate, {
        ctx: { id, storage: { kv: { get: (key: string) => storage.kv.get(key), put } } },
      });
      await expect(gate.admit(ask([1]), settings)).rejects.toThrow("The disk is full");
      Object.assign(gate, { ctx: { id, storage } });
      expect(await gate.admit(ask([1]), settings)).toMatchObject({ grant: { deliveries: [1] } });
    });
  });

  test("is counted as in flight after a crash, until it must have ended", async () => {
    await earnTrust();
    for (let i = 0; i < 3; i++) await settle((await admitted([i])).id, [counted()]);
    const { expiresInMs } = await admitted([10]);
    await admitted([11]);
    await abortAllDurableObjects();
    const after = [await admit([20, 21, 22, 23, 24]), await admit([30])];
    expect(after.map(({ grant }) => grant?.slots ?? 0)).toEqual([2, 0]);
    clock.pass(10_000 + expiresInMs);
    expect(await admitted([40, 41, 42, 43, 44])).toMatchObject({ slots: 5 });
  });
});

describe("counters", () => {
  const counted = (): AttemptSignal => ({
    ...healthy(),
    metric: { attempt: 1, result: "2xx", end: "delivered", tookMs: 50, lateMs: 10 },
  });
  const settleOne = async (signal = counted()) => settle((await admitted([1])).id, [signal]);
  const figures = () => gateOf(destination).figures({ windows: ["1h", "24h"], series: true }, settings);
  const attempts = (sum: { attempts: readonly number[] } | undefined) => sum?.attempts[0];

  test("are returned for each requested window, as a sum and as a series, and in total", async () => {
    await settleOne();
    clock.pass(2 * 3_600_000);
    await settleOne();
    const { view, ever, windows } = await figures();
    expect(view.circuit).toBe("closed");
    expect(attempts(ever)).toBe(2);
    expect(attempts(windows["1h"]?.sum)).toBe(1);
    expect(attempts(windows["24h"]?.sum)).toBe(2);
    expect(windows["24h"]?.series).toHaveLength(24);
    expect(windows["1h"]?.series.at(-1)).toMatchObject({ attempts: 1, delivered: 1, failures: 0 });
    expect(windows["7d"]).toBeUndefined();
  });

  test("include deliveries that ended dead without an attempt", async () => {
    await gateOf(destination).countDead(3);
    expect((await figures()).windows["1h"]?.sum).toMatchObject({ dead: 3, delivered: 0 });
  });

  test("do not change when a settlement is repeated, or has no counts", async () => {
    const { id } = await admitted([1]);
    await settle(id, [counted()]);
    await settle(id, [counted()]);
    await settleOne(healthy());
    expect(attempts((await figures()).ever)).toBe(1);
  });

  test("are written with the state; the first write after the first settlement of an hour writes one more row for the last hour", async () => {
    await settleOne();
    const writes = await countWrites();
    clock.pass(3_600_000);
    await settleOne();
    expect(writes).toEqual(["put"]);
    clock.pass(60_000);
    await settleOne();
    expect(writes).toEqual(["put", "put", "put"]);
  });

  test("stay far below the limit of a stored value", async () => {
    for (let minute = 0; minute < 70; minute++) {
      await settleOne();
      clock.pass(60_000);
    }
    const bytes = JSON.stringify(await storedState()).length;
    console.log(`a gate's state after 70 busy minutes: ${bytes} bytes as JSON`);
    expect(bytes).toBeLessThan(30_000);
  });

  test.each([
    ["with distributions of another length", (state: GateState) => ({ ...state.rollups.ever, latency: [1] })],
    ["without its sums", () => ({})],
    ["that is a text", () => "many"],
  ])("in another shape, %s, begin anew, and the gate continues", async (_, ever) => {
    const grant = await admitted([1]);
    const state = (await storedState()) as GateState;
    await storeState({ ...state, rollups: { ...state.rollups, ever: ever(state) } });
    await settle(grant.id, [counted()]);
    expect(attempts((await figures()).ever)).toBe(1);
  });
});

/** The writes to the gate's storage from now on, each of which is one row. */
async function countWrites(): Promise<string[]> {
  const writes: string[] = [];
  await runInDurableObject(gateOf(destination), (gate, { id, storage }) => {
    const counted = {
      kv: {
        get: (key: string) => storage.kv.get(key),
        put: (key: string, value: unknown) => {
          writes.push("put");
          storage.kv.put(key, value);
        },
      },
      setAlarm: (at: number) => {
        writes.push("setAlarm");
        return storage.setAlarm(at);
      },
      deleteAlarm: () => {
        writes.push("deleteAlarm");
        return storage.deleteAlarm();
      },
    };
    Object.assign(gate, { ctx: { id, storage: counted } });
  });
  return writes;
}
