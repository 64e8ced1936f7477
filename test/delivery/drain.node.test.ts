/** One drain: what it reads, gets admitted and attempts, how it goes from lease to lease, and when it ends. */
import { beforeEach, describe, expect, test } from "vitest";
import type { AdmitRequest, AdmitResult } from "../../src/core/admit.ts";
import { eventAt } from "../../src/core/bundle.ts";
// Loaded here, because loading takes real time, for which virtual time does not wait.
import "../../src/core/transform/liquid.ts";
import type { TransformTemplate } from "../../src/core/transform/template.ts";
import { connections } from "../../src/delivery/connections.ts";
import { drain } from "../../src/delivery/drain.ts";
import { Recorder } from "../../src/delivery/recorder.ts";
import type { DrainMessage } from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";
import { findEventType, putEventType } from "../../src/store/event-types.ts";
import { insertEventVersion } from "../../src/store/event-versions.ts";
import { type ByHand, worldByHand } from "../support/by-hand.ts";
import { interceptedD1 } from "../support/intercept.ts";
import type { Posted } from "../support/virtual-world.ts";

let world: ByHand;
let shop: string;
beforeEach(() => {
  world = worldByHand();
  const limits = { maxConcurrency: 1, ratePerSecond: 10_000, rateBurst: 10_000 };
  shop = world.destination({ ...limits, retry: { schedule: [30], jitter: "none" }, breakerMinAttempts: 100 });
  world.script(shop, { status: 204, afterMs: 20 });
});

const message = (drains = 1) => ({ destination: shop, drains });
/** Its first delivery is that of the first event. */
const FIRST = eventAt(1, 0);
/** A message that has come so often is for a drain that takes one delivery at a time. */
const ONE_BY_ONE = { attempts: 5 };

/** The given number of deliveries that wait because their destination was paused, in as few bundles as possible. */
async function waiting(count: number, posted?: Posted): Promise<void> {
  world.edit(shop, { status: "paused" });
  for (let left = count; left > 0; left -= 100)
    await world.consume(await world.post(Math.min(100, left), posted));
  world.edit(shop, { status: "active" });
  await world.handled("resume", ({ gates }) => gates.get(gates.idFromName(shop)).resume());
  world.gateCalls.splice(0);
  world.sent();
}

/** Deliveries that have succeeded, so that the gate knows how long the receiver takes. */
async function known(): Promise<void> {
  await world.consume(await world.post(5));
  await world.run(1_000);
  world.gateCalls.splice(0);
}

const states = () =>
  world.rows(shop).map(({ state, reason }) => (reason === null ? state : `${state} ${reason}`));
const count = (state: string) => states().filter((one) => one === state).length;
const admits = () =>
  world.asked("admit", shop) as unknown as {
    deliveries: number[];
    most: number;
    startWithinMs: number;
    succeeds?: string;
    probe?: number;
    lane: string;
  }[];
const nextDrains = () => world.sentDrains().map(({ body }) => body);

/** From now on the gate answers admit requests so; `real` calls it, and `nth` counts from 1. */
function admitting(
  answer: (given: {
    deliveries: readonly number[];
    nth: number;
    real: () => Promise<AdmitResult>;
  }) => Promise<AdmitResult>,
): void {
  let nth = 0;
  world.answering(({ method, given }, real) => {
    if (method !== "admit") return real();
    nth += 1;
    const { deliveries } = given[0] as AdmitRequest;
    return answer({ deliveries, nth, real: real as () => Promise<AdmitResult> });
  });
}

describe("a drain", () => {
  test("delivers what waits in the order in which it was admitted, and reports to the gate that nothing is left", async () => {
    for (let bundle = 0; bundle < 3; bundle++) await waiting(2);
    const before = world.now();
    expect(await world.drain(message())).toEqual(["left"]);
    expect(states()).toEqual(Array(6).fill("delivered"));
    const [first, ...others] = admits();
    expect(others).toEqual([]);
    expect(first).toMatchObject({ lane: "backlog", most: 100, startWithinMs: 3_000 });
    expect(first?.deliveries).not.toEqual(first?.deliveries.toSorted((a, b) => a - b));
    expect(world.requests.map(({ event }) => event)).toEqual(first?.deliveries);
    expect(first).not.toHaveProperty("succeeds");
    expect(first?.probe).toBeDefined();
    const [empty] = world.gateCalls.filter(({ method }) => method === "reportEmptyDrain");
    expect(Number(empty?.given[0])).toBeGreaterThan(before);
    expect(Number(empty?.given[0])).toBeLessThan(empty?.at ?? 0);
    expect(nextDrains()).toEqual([]);
  });

  test("that finds nothing reports it to the gate, and requests nothing", async () => {
    expect(await world.drain(message())).toEqual(["left"]);
    expect(world.gateCalls.map(({ method }) => method)).toEqual(["reportEmptyDrain"]);
    expect(nextDrains()).toEqual([]);
  });

  test.each([
    [1, 100],
    [2, 25],
    [3, 6],
    [4, 1],
    [9, 1],
  ])("whose message comes for the %dth time takes at most %d deliveries under a lease", async (attempts, most) => {
    await waiting(2);
    await world.drain(message(), { attempts });
    expect(admits().map((request) => request.most)).toEqual(Array(admits().length).fill(most));
    expect(count("delivered")).toBe(2);
  });

  test("uses 25 leases at most, and sends a message for the next drain", async () => {
    await waiting(30);
    await world.drain(message(3), ONE_BY_ONE);
    expect(admits()).toHaveLength(25);
    expect(count("delivered")).toBe(25);
    expect(nextDrains()).toEqual([message(3)]);
  });

  test("works for fifteen seconds, and sends a message for the next drain", async () => {
    await waiting(30);
    world.script(shop, { status: 204, afterMs: 900 });
    const from = world.now();
    await world.drain(message(), ONE_BY_ONE);
    const last = world.requests.at(-1)?.at ?? 0;
    expect(last - from).toBeGreaterThan(13_000);
    expect(last - from).toBeLessThan(15_000);
    expect(count("waiting paused")).toBe(30 - world.requests.length);
    expect(nextDrains()).toEqual([message()]);
    // For each lease no longer than the drain itself has left.
    const within = admits().map(({ startWithinMs }) => startWithinMs);
    expect(within[0]).toBe(3_000);
    expect(within.at(-1)).toBeLessThan(2_000);
  });

  test("ends after a lease if the receiver is slow, so that others get their turns", async () => {
    world.script(shop, { status: 204, afterMs: 1_400 });
    await waiting(30);
    // The gate learns how long it takes.
    await world.drain(message(), ONE_BY_ONE);
    world.gateCalls.splice(0);
    world.sentDrains();
    await world.drain(message(), ONE_BY_ONE);
    expect(admits()).toHaveLength(1);
    expect(nextDrains()).toEqual([message()]);
  });
});

test.each([
  [1_000, 2],
  [1_001, 1],
])("a drain whose receiver usually takes %d ms uses %d leases", async (tookMs, leases) => {
  await waiting(2);
  admitting(async ({ real }) => {
    const result = await real();
    const { grant } = result;
    return grant
      ? { ...result, grant: { ...grant, destinationState: { ...grant.destinationState, tookMs } } }
      : result;
  });
  await world.drain(message(), ONE_BY_ONE);
  expect(admits()).toHaveLength(leases);
});

test.each([
  ["for one step only", 900, 1, 0, 1],
  ["for its own next step", 876, 1, 0, 2],
  ["for its own next step and not for another drain's that comes after it", 876, 1, 1, 1],
  ["for its own next step and not for another drain's beside it", 876, 2, 0, 1],
  ["for the next steps of both", 852, 2, 0, 2],
])("a drain whose invocation has queries left %s makes no more", async (_, queries, drains, toCome, steps) => {
  await waiting(2);
  await world.handled("drain", (services) => {
    const parts = { services, connections: connections(drains, "each"), recorder: new Recorder(services) };
    const counts = { queries: () => queries, sideBySide: () => drains, toCome: () => toCome };
    return drain({ ...parts, ...counts }, message(), ONE_BY_ONE.attempts);
  });
  expect(admits()).toHaveLength(steps);
  expect(nextDrains()).toEqual(steps === 1 ? [message()] : []);
});

describe("a lease", () => {
  test("that could not start all of its deliveries in its time is followed by another", async () => {
    await waiting(3);
    world.script(shop, { status: 204, afterMs: 1_900 });
    await world.drain(message());
    expect(count("delivered")).toBe(3);
  });

  test("that follows another has its own time, also when the drain's time is nearly over", async () => {
    await known();
    await waiting(30);
    world.script(shop, { status: 204, afterMs: 900 });
    await world.drain(message(), ONE_BY_ONE);
    const following = admits().filter(({ succeeds }) => succeeds !== undefined);
    expect(Math.min(...following.map(({ startWithinMs }) => startWithinMs))).toBe(1_500);
  });
});

describe("a refused delivery", () => {
  test("continues to wait, and the gate's alarm starts the next drain", async () => {
    await waiting(3);
    world.edit(shop, { status: "paused" });
    expect(await world.drain(message())).toEqual(["left"]);
    expect(admits()).toHaveLength(1);
    expect(states()).toEqual(Array(3).fill("waiting paused"));
    expect([world.requests, nextDrains(), world.asked("settle")]).toEqual([[], [], []]);
  });

  test("of a partly admitted batch is not requested again", async () => {
    await waiting(3);
    admitting(async ({ real }) => {
      const result = await real();
      const { grant } = result;
      if (!grant) return result;
      const deliveries = grant.deliveries.slice(0, 1);
      const refused = {
        deliveries: grant.deliveries.slice(1),
        reason: "rate" as const,
        until: world.now() + 50_000,
      };
      return { ...result, grant: { ...grant, deliveries }, refused };
    });
    await world.drain(message());
    expect(world.requests).toHaveLength(1);
    expect(admits()).toHaveLength(1);
    expect(count("waiting paused")).toBe(2);
    expect(world.asked("settle")).toMatchObject([{ continues: false }]);
    expect(nextDrains()).toEqual([]);
  });

  test("because the gate cannot be reached waits for its alarm", async () => {
    await waiting(3);
    admitting(() => Promise.reject(new Error("Away, as the test wants it")));
    expect(await world.drain(message())).toEqual(["left"]);
    expect(states()).toEqual(Array(3).fill("waiting paused"));
    expect(nextDrains()).toEqual([]);
    expect(admits()).toHaveLength(1);
  });

  test("of a lease in which nothing could be started is left to the gate's alarm", async () => {
    await waiting(3);
    admitting(async ({ real }) => {
      const result = await real();
      const { grant } = result;
      return grant ? { ...result, grant: { ...grant, pace: { ...grant.pace, firstInMs: 60_000 } } } : result;
    });
    await world.drain(message());
    expect(admits()).toHaveLength(1);
    expect(world.requests).toEqual([]);
    expect(states()).toEqual(Array(3).fill("waiting paused"));
    expect(world.asked("settle")).toMatchObject([{ continues: false, left: 3 }]);
    expect(world.asked("settle")[0]).not.toHaveProperty("tatInMs");
    expect(nextDrains()).toEqual([]);
  });
});

describe("if other drains hold what a drain finds", () => {
  /** Nothing is granted: others hold all but so many. */
  const heldBut = (free: number) =>
    admitting(async ({ deliveries }) => ({
      ...{ grant: null, refused: null },
      inFlight: { deliveries: deliveries.slice(free), until: world.now() + 5_000 },
    }));
  const looks = () => admits().map(({ deliveries }) => deliveries.length);

  test("it reads further, then as far as all of them may reach, and then leaves the rest to them", async () => {
    await waiting(320);
    heldBut(0);
    await world.drain(message(4));
    expect(looks()).toEqual([220, 320, 320]);
    expect(nextDrains()).toEqual([]);
  });

  test.each([
    [49, 3],
    [50, 1],
  ])("it reads further only if they hold most of it: all but %d", async (free, requests) => {
    await waiting(320);
    heldBut(free);
    await world.drain(message(4));
    expect(looks()).toHaveLength(requests);
  });

  test("it does not read further if they hold nothing", async () => {
    await waiting(320);
    admitting(async ({ deliveries, nth, real }) => {
      if (nth < 4) return real();
      return {
        grant: null,
        refused: { deliveries, reason: "hold", until: world.now() + 5_000 },
        inFlight: null,
      };
    });
    await world.drain(message(4), ONE_BY_ONE);
    for (const found of looks()) expect(found).toBeLessThanOrEqual(220);
    expect(looks()).toHaveLength(4);
  });

  test("it requests a lease no longer than its own time", async () => {
    await waiting(320);
    admitting(async ({ deliveries }) => {
      await world.engine.sleep(6_900);
      return { grant: null, refused: null, inFlight: { deliveries, until: world.now() + 5_000 } };
    });
    await world.drain(message(4));
    const within = admits().map(({ startWithinMs }) => startWithinMs);
    expect(within.slice(0, 2)).toEqual([3_000, 3_000]);
    expect(within[2]).toBeLessThan(1_300);
  });

  test("it does not read further if there is no more", async () => {
    await waiting(40);
    heldBut(0);
    await world.drain(message(4));
    expect(looks()).toEqual([40]);
  });

  test("it does not read further if it has read as far as they may reach", async () => {
    await waiting(320);
    heldBut(0);
    await world.drain(message(3));
    expect(looks()).toEqual([320]);
  });

  test("it continues with what is left to it, over the wider range", async () => {
    await waiting(320);
    admitting(async ({ deliveries, nth, real }) => {
      if (nth > 1) return real();
      return { grant: null, refused: null, inFlight: { deliveries, until: world.now() + 5_000 } };
    });
    await world.drain(message(4), ONE_BY_ONE);
    expect(
      looks()
        .slice(0, 3)
        .map((found) => found >= 299),
    ).toEqual([false, true, true]);
    expect(world.requests.length).toBeGreaterThan(20);
    expect(nextDrains()).toEqual([message(4)]);
  });
});

describe("from one lease to the next", () => {
  test("it continues without a pause if the receiver is quick, and settles every lease as used", async () => {
    await known();
    await waiting(6);
    await world.drain(message(), ONE_BY_ONE);
    expect(count("delivered")).toBe(11);
    const settlements = world.asked("settle", shop);
    expect(settlements).toHaveLength(6);
    const succeeded = new Set(admits().flatMap(({ succeeds }) => succeeds ?? []));
    expect(succeeded.size).toBeGreaterThan(2);
    // The gate knows of each lease that the drain continues: by the lease after it, or by its settlement.
    for (const { lease, continues } of settlements) expect(continues).toBe(!succeeded.has(String(lease)));
    const times = world.requests.slice(5).map(({ at }) => at);
    for (const [i, at] of times.entries()) if (i > 0) expect(at - (times[i - 1] ?? 0)).toBeLessThan(45);
    for (const { startWithinMs } of admits()) expect(startWithinMs).toBe(3_000);
    for (const { probe, deliveries } of admits()) expect([...deliveries, undefined]).toContain(probe);
    const asked = admits().map(({ deliveries }) => deliveries);
    // It does not request deliveries that it is attempting.
    for (const { event, at } of world.requests.slice(5)) {
      const later = world.gateCalls.filter((call) => call.method === "admit" && call.at > at);
      for (const { given } of later)
        expect((given[0] as { deliveries: number[] }).deliveries).not.toContain(event);
    }
    expect(asked.at(-1)).toHaveLength(1);
    // Only a read while it holds nothing itself proves that nothing waits.
    const ends = world.gateCalls.map(({ method }) => method).filter((method) => /settle|Empty/.test(method));
    expect(ends).toEqual([...Array(6).fill("settle"), "reportEmptyDrain"]);
    expect(nextDrains()).toEqual([]);
  });

  test("it does not continue with deliveries held by others before it has read again", async () => {
    await known();
    await waiting(4);
    admitting(async ({ deliveries, nth, real }) => {
      if (nth !== 2) return real();
      return { grant: null, refused: null, inFlight: { deliveries, until: world.now() + 5_000 } };
    });
    await world.drain(message(), ONE_BY_ONE);
    expect(count("delivered")).toBe(9);
    expect(world.asked("settle", shop)[0]).toMatchObject({ continues: true });
  });

  test("it looks again where the gate cannot be reached for the following lease", async () => {
    await known();
    await waiting(4);
    admitting(({ nth, real }) =>
      nth === 2 ? Promise.reject(new Error("Away, as the test wants it")) : real(),
    );
    expect(await world.drain(message(), ONE_BY_ONE)).toEqual(["left"]);
    expect(count("delivered")).toBe(9);
    expect(world.asked("settle", shop)[0]).toMatchObject({ continues: true });
  });

  test("it accepts a refusal of the following lease as final", async () => {
    await known();
    await waiting(4);
    admitting(async ({ deliveries, nth, real }) => {
      if (nth < 2) return real();
      return {
        grant: null,
        refused: { deliveries, reason: "hold", until: world.now() + 5_000 },
        inFlight: null,
      };
    });
    await world.drain(message(), ONE_BY_ONE);
    expect(admits()).toHaveLength(2);
    expect(count("delivered")).toBe(6);
    expect(world.asked("settle", shop)).toMatchObject([{ continues: false }]);
    expect(nextDrains()).toEqual([]);
  });
});

/** Whether a drain searches waiting deliveries so. */
const isLook = (sql: string) => /FROM destinations/.test(sql) && /deliveries/.test(sql);

describe("a failure", () => {
  /** D1 refuses to record outcomes of those bundles. */
  const refuseBundles = (...bundles: number[]) =>
    world.sql(
      `CREATE TRIGGER refuse BEFORE UPDATE ON packs WHEN NEW.bundle_id IN (${bundles.join()})
       BEGIN SELECT RAISE(ABORT, 'as the test wants it'); END`,
    );
  /** D1 is unavailable when the drain reads for the second time. */
  const secondLookFails = () => {
    let looks = 0;
    return ({ db }: Services) => ({
      db: interceptedD1(db, async (sql, work) => {
        if (isLook(sql)) looks += 1;
        if (looks === 2) {
          looks += 1;
          throw new Error("D1 is away");
        }
        return work();
      }),
    });
  };

  test.each([
    [2, ["waiting paused", "delivered"]],
    [3, ["delivered", "waiting paused"]],
  ])("to record a lease makes the message come again, and attempts begun meanwhile are recorded (%d)", async (bundle, ends) => {
    await known();
    await waiting(1);
    await waiting(1);
    refuseBundles(bundle);
    expect(await world.drain(message(), ONE_BY_ONE)).toEqual([{ retryIn: 10 }]);
    expect(world.logged("drain_failed")).toMatchObject([
      { error: expect.stringContaining("as the test wants it") },
    ]);
    expect(
      world.requests
        .slice(5)
        .map(({ event }) => event)
        .toSorted(),
    ).toEqual([eventAt(2, 0), eventAt(3, 0)]);
    expect(states().slice(5)).toEqual(ends);
    expect(nextDrains()).toEqual([]);
  });

  test("to read further makes the message come again, and attempts under way are recorded", async () => {
    await known();
    await waiting(3);
    const instead = secondLookFails();
    expect(await world.drain(message(), { ...ONE_BY_ONE, instead })).toEqual([{ retryIn: 10 }]);
    expect(world.logged("drain_failed")).toMatchObject([{ error: "Error: D1 is away" }]);
    expect(world.requests).toHaveLength(6);
    expect(count("delivered")).toBe(6);
    expect(world.asked("settle", shop)).toHaveLength(1);
  });

  test("to record a lease is what is logged, also where the drain cannot look further either", async () => {
    await known();
    await waiting(1);
    await waiting(1);
    refuseBundles(2, 3);
    const instead = secondLookFails();
    expect(await world.drain(message(), { ...ONE_BY_ONE, instead })).toEqual([{ retryIn: 10 }]);
    expect(world.logged("drain_failed")).toMatchObject([
      { error: expect.stringContaining("as the test wants it") },
    ]);
  });

  test("of an attempt gives its retry a separate message, and the drain continues", async () => {
    await waiting(3);
    world.script(shop, 500, 204);
    await world.drain(message());
    expect(states().toSorted()).toEqual(["delivered", "delivered", "retrying http_500"]);
    const [{ lease } = {}] = world.asked("settle", shop);
    const [sent, ...others] = world.sent();
    expect(others).toEqual([]);
    expect(sent).toMatchObject({ body: { bundles: [{ bundle: 1 }], owner: lease }, delaySeconds: 30 });
    expect(nextDrains()).toEqual([]);
  });

  test("to answer in time leaves the rest to the gate's alarm", async () => {
    await waiting(3);
    world.script(shop, { status: 204, afterMs: 8_000 });
    await world.drain(message());
    expect(states().toSorted()).toEqual(["retrying in_flight", "waiting paused", "waiting paused"]);
    expect(nextDrains()).toEqual([]);
    expect(admits()).toHaveLength(1);
    await world.run(10_000);
    expect(count("delivered")).toBe(1);
  });
});

describe("a waiting delivery", () => {
  test("whose bundle no longer plans it ends as dead, is counted, and delays no other", async () => {
    await waiting(4);
    world.sql("UPDATE bundles SET plan = ?1", JSON.stringify({ [shop]: [0, 1] }));
    await world.drain(message());
    expect(states()).toEqual(["delivered", "delivered", "dead event_removed", "dead event_removed"]);
    expect(world.logged("deliveries_dead")).toEqual([
      { what: "deliveries_dead", destination: shop, reason: "event_removed", deliveries: 2 },
    ]);
    await world.run(100);
    expect(
      world.gateCalls.filter(({ method }) => method === "countDead").map(({ given }) => given[0]),
    ).toEqual([2]);
  });

  test("that is planned is not an orphan: nothing is logged or counted", async () => {
    await waiting(2);
    await world.drain(message());
    await world.run(100);
    expect(world.logged("deliveries_dead")).toEqual([]);
    expect(world.asked("countDead")).toEqual([]);
  });

  test("that only later code can read continues to wait, and the gate learns that it is left over", async () => {
    await waiting(2);
    await waiting(2);
    world.sql("UPDATE bundles SET header = json_set(header, '$.version', 9) WHERE id = 1");
    await world.drain(message());
    expect(states()).toEqual(["waiting paused", "waiting paused", "delivered", "delivered"]);
    expect(world.asked("settle", shop)[0]).toMatchObject({ left: 2 });
    expect(world.logged("deliveries_dead")).toEqual([]);
  });

  describe("of a bundle that only later code can read", () => {
    const cannotRead = (bundles: string) =>
      world.sql(`UPDATE bundles SET header = json_set(header, '$.version', 9) WHERE id ${bundles}`);
    /** Runs a drain whose invocation has queries for one step only, and which has come twice before. */
    const drainOnce = (one: DrainMessage) =>
      world.handled("drain", (services) => {
        const parts = { services, connections: connections(1, "each"), recorder: new Recorder(services) };
        return drain({ ...parts, queries: () => 900, sideBySide: () => 1, toCome: () => 0 }, one, 3);
      });

    test("is left to the sweep where nothing else waits: the gate starts no other drain", async () => {
      await waiting(2);
      cannotRead("= 1");
      await world.handled("sweep", ({ gates }) => gates.get(gates.idFromName(shop)).scheduleDrain());
      await world.run(10_000);
      expect(await world.drain(message())).toEqual(["left"]);
      expect(world.asked("settle", shop)).toMatchObject([{ left: 0, continues: true }]);
      expect(world.gateCalls.at(-1)?.method).toBe("reportEmptyDrain");
      expect(world.gate(shop)?.drainSchedule).toMatchObject({ waitingSince: 0, expected: 0, at: null });
      expect(states()).toEqual(Array(2).fill("waiting paused"));
    });

    test("does not hide others, however many wait at the ends of the backlog", async () => {
      await waiting(700);
      cannotRead("<> 4");
      expect(await world.drain(message())).toEqual(["left"]);
      expect(count("delivered")).toBe(100);
    });

    test("does not hide others if only a few are admitted at once, and no drain follows at once", async () => {
      for (const size of [40, 2, 40]) await waiting(size);
      cannotRead("<> 2");
      world.edit(shop, { ratePerSecond: 2, rateBurst: 1 });
      expect(await world.drain(message())).toEqual(["left"]);
      expect(count("delivered")).toBe(2);
      await world.run(10_000);
      world.sentDrains();
      await world.drain(message());
      await world.run(2_000);
      expect(nextDrains()).toEqual([]);
    });

    test("does not hide others if the receiver is slow", async () => {
      for (const size of [6, 2, 6]) await waiting(size);
      cannotRead("<> 2");
      admitting(async ({ real }) => {
        const result = await real();
        const { grant } = result;
        return grant
          ? { ...result, grant: { ...grant, destinationState: { ...grant.destinationState, tookMs: 1_400 } } }
          : result;
      });
      await world.drain(message(), { attempts: 3 });
      expect(count("delivered")).toBe(2);
    });

    test("does not hide others if a drain has time for one step only: the next one looks past it", async () => {
      for (const size of [6, 2, 6]) await waiting(size);
      cannotRead("<> 2");
      await drainOnce(message());
      const next = nextDrains();
      expect(next).toEqual([{ ...message(), faultyReads: 1 }]);
      await drainOnce(next[0] as DrainMessage);
      expect(count("delivered")).toBe(2);
      expect(nextDrains()).toEqual([message()]);
    });

    test("is looked past by ten drains at most that find nothing else", async () => {
      await waiting(700);
      cannotRead("> 0");
      let drains = 0;
      for (let next: DrainMessage[] = [message()]; next[0]; next = nextDrains()) {
        await drainOnce(next[0]);
        drains += 1;
      }
      expect(drains).toBe(10);
      expect(world.gateCalls.at(-1)?.method).toBe("reportEmptyDrain");
    });

    test.each([
      [8, [{ destination: "", drains: 1, faultyReads: 9 }]],
      [9, []],
    ])("and found out only under the lease, after %i reads of faults, has a further drain or none", async (faultyReads, next) => {
      await waiting(2);
      admitting(async ({ real }) => {
        const result = await real();
        cannotRead("> 0");
        return result;
      });
      await drainOnce({ ...message(), faultyReads });
      expect(nextDrains()).toEqual(next.map((one) => ({ ...one, destination: shop })));
    });

    test("is not the only probe of a half-open circuit", async () => {
      for (let bundle = 0; bundle < 3; bundle++) await waiting(1);
      cannotRead("<> 2");
      admitting(async ({ deliveries: [probe = 0, ...others], real }) => {
        const result = await real();
        const { grant } = result;
        if (!grant || others.length === 0) return result;
        const refused = { deliveries: others, reason: "probing" as const, until: world.now() + 30_000 };
        return { ...result, grant: { ...grant, deliveries: [probe] }, refused };
      });
      await world.drain(message());
      expect(count("delivered")).toBe(1);
    });
  });

  test("that ends without an attempt is recorded as such", async () => {
    await waiting(2);
    world.sql("UPDATE packs SET give_up_at = ?1", world.now());
    await world.drain(message());
    expect(states()).toEqual(["dead expired", "dead expired"]);
    expect(world.requests).toEqual([]);
    // That was progress: it searches for more.
    expect(world.gateCalls.at(-1)?.method).toBe("reportEmptyDrain");
  });

  test("is the probe of a half-open circuit if it has the fewest attempts", async () => {
    await waiting(3);
    for (const index of [0, 1])
      world.sql(
        `INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, give_up_at)
         VALUES (?1, ?2, 'waiting', 'paused', 3, ?3)`,
        ...[shop, FIRST + index, world.now() + 9e9],
      );
    await world.drain(message());
    expect(admits()[0]?.probe).toBe(FIRST + 2);
  });
});

describe("waiting deliveries that stand behind a retried one, as those of a replay may", () => {
  /** The number of the retried delivery, which does not wait itself. */
  const HEAD = 0;
  const settled = () => world.asked("settle", shop).map(({ left, continues }) => ({ left, continues }));
  const methods = () => world.gateCalls.map(({ method }) => method);

  /** Waiting deliveries in bundles of the given sizes. All but the free ones stand behind the retried one. */
  async function standing(sizes: readonly number[], free: readonly number[] = []): Promise<void> {
    for (const size of sizes) await waiting(size);
    world.sql("UPDATE bundles SET header = json_set(header, '$.lines', json(?1))", `{"${shop}": [["k~"]]}`);
    const events = sizes.flatMap((size, i) => Array.from({ length: size }, (_, n) => eventAt(1 + i, n)));
    for (const event of [HEAD, ...events.filter((one) => !free.includes(one))])
      world.sql("INSERT INTO lines VALUES (?1, 'k~', ?2, 9e15, 0)", shop, event);
  }

  test("are left to the gate's alarm, and those between them are sent", async () => {
    const between = Array.from({ length: 30 }, (_, n) => eventAt(2, n));
    await standing([50, 30, 50], between);
    expect(await world.drain(message())).toEqual(["left"]);
    expect(world.requests.map(({ event }) => event).toSorted((a, b) => a - b)).toEqual(between);
    expect(admits().map(({ deliveries }) => deliveries.length)).toEqual([100, 30]);
    expect(settled()).toEqual([
      { left: 100, continues: false },
      { left: 0, continues: true },
    ]);
    // It does not report that nothing waits.
    expect(methods()).not.toContain("reportEmptyDrain");
    expect([count("waiting paused"), nextDrains()]).toEqual([100, []]);
  });

  test("are left to the gate's alarm if there are no others", async () => {
    await standing([10]);
    await world.drain(message());
    expect(settled()).toEqual([{ left: 10, continues: false }]);
    expect(methods()).not.toContain("reportEmptyDrain");
    expect([count("waiting paused"), nextDrains()]).toEqual([10, []]);
  });

  test("are skipped if only a few are admitted at once", async () => {
    await standing([4, 1, 4], [eventAt(2, 0)]);
    admitting(async ({ deliveries, real }) => {
      const result = await real();
      const { grant } = result;
      const [granted, others] = [deliveries.slice(0, 8), deliveries.slice(8)];
      if (!grant || others.length === 0) return result;
      const refused = { deliveries: others, reason: "rate" as const, until: world.now() + 1_000 };
      return { ...result, grant: { ...grant, deliveries: granted }, refused };
    });
    await world.drain(message());
    expect(world.requests.map(({ event }) => event)).toEqual([eventAt(2, 0)]);
  });

  test("are skipped once", async () => {
    await standing([100, 100, 100, 100]);
    await world.drain(message());
    expect(admits()).toHaveLength(2);
    expect(settled().map(({ left }) => left)).toEqual([100, 100]);
    expect(nextDrains()).toEqual([]);
  });

  test("are not skipped when the drain's time is over", async () => {
    await standing([50, 1, 50], [eventAt(2, 0)]);
    admitting(async ({ real }) => {
      const result = await real();
      await world.engine.sleep(15_000);
      return result;
    });
    await world.drain(message());
    expect([admits().length, world.requests, nextDrains()]).toEqual([1, [], []]);
  });

  test("are not left over under a lease that sends others", async () => {
    await standing([3], [FIRST + 1]);
    await world.drain(message());
    expect(world.requests.map(({ event }) => event)).toEqual([FIRST + 1]);
    expect(settled()).toEqual([
      { left: 0, continues: true },
      { left: 2, continues: false },
    ]);
    expect(methods()).not.toContain("reportEmptyDrain");
  });

  test("are not confused with those that have ended since they were found", async () => {
    await waiting(1);
    world.sql("UPDATE packs SET waiting0 = 0");
    world.sql(
      `INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, give_up_at)
       VALUES (?1, ?2, 'waiting', 'paused', 1, 9e15)`,
      ...[shop, FIRST],
    );
    admitting(async ({ real }) => {
      const result = await real();
      world.sql("UPDATE deliveries SET state = 'delivered', ended_at = ?1", world.now());
      return result;
    });
    await world.drain(message());
    expect(settled()).toEqual([{ left: 0, continues: false }]);
    expect([world.requests, nextDrains()]).toEqual([[], []]);
  });

  test("hide no fault of a transformation", async () => {
    await standing([2], [FIRST + 1]);
    const transform = {
      ...{ version: 1, after: -1, at: 0, by: { kind: "admin_key", key: null, session: null } as const },
      template: { body: "{% if data == 1 %}no json{% else %}1{% endif %}" },
    };
    world.edit(shop, { transform });
    await world.drain(message());
    expect(admits().map(({ deliveries }) => deliveries)).toEqual([[FIRST]]);
    expect(states()).toEqual(["waiting paused", "waiting transform_failed"]);
    expect(methods()).not.toContain("reportEmptyDrain");
  });
});

describe("a request that cannot be made", () => {
  const TYPE = "order.paid";
  const by = { kind: "admin_key", key: null, session: null } as const;
  const transform = (template: TransformTemplate) => ({ version: 1, after: -1, at: 0, by, template });
  const methods = () => world.gateCalls.map(({ method }) => method);
  /** Pins the destination to a version that this conversion makes of later events. */
  async function pinned(conversion: string): Promise<void> {
    const plain = { name: TYPE, description: null, schema: null, example: null, retentionDays: null };
    await world.handled("publish", async ({ db, now }) => {
      await putEventType(db, { ...plain, validates: false, archived: false }, now());
      const seen = await findEventType(db, TYPE);
      if (!seen) throw new Error("There is a type");
      return insertEventVersion(db, seen, { schema: "true", example: null, conversion }, now());
    });
    await world.run(1_000);
    world.edit(shop, { eventVersions: [{ pins: { [TYPE]: 1 }, at: 0, after: -1 }] });
  }

  test("of an event by its destination's transformation leaves the event waiting, and the others are sent", async () => {
    await waiting(3);
    const body = '{% if data == 1 %}no json{% else %}{"n": {{ data }} }{% endif %}';
    world.edit(shop, { transform: transform({ body }) });
    await world.drain(message());
    expect(admits().map(({ deliveries }) => deliveries.toSorted())).toEqual([[FIRST, FIRST + 2]]);
    expect(world.requests.map(({ body }) => body).toSorted()).toEqual(['{"n": 0 }', '{"n": 2 }']);
    expect(states()).toEqual(["delivered", "waiting transform_failed", "delivered"]);
  });

  test("of any event by its destination's transformation has the gate learn that nothing is left", async () => {
    await waiting(2);
    world.edit(shop, { transform: transform({ body: "no json {{ data }}" }) });
    const before = world.now();
    expect(await world.drain(message())).toEqual(["left"]);
    expect(methods()).toEqual(["countTransformFaults", "reportEmptyDrain"]);
    expect(world.asked("reportEmptyDrain")).toEqual([before]);
    expect(states()).toEqual(Array(2).fill("waiting transform_failed"));
    expect(nextDrains()).toEqual([]);
  });

  test("of any event in the version that its destination is pinned to has the gate learn that nothing is left", async () => {
    await pinned("no json");
    await waiting(2);
    expect(await world.drain(message())).toEqual(["left"]);
    expect(methods()).toEqual(["reportEmptyDrain"]);
    expect(states()).toEqual(Array(2).fill("waiting transform_failed"));
  });

  describe("of what is at both ends of a backlog", () => {
    const bad = { data: "bad" };
    /** The bad ones cannot be transformed, which has paused the destination; it was resumed. */
    async function backlog(before: number, sound: number, after: number): Promise<void> {
      await pinned('{% if data == "bad" %}no json{% else %}{{ data }}{% endif %}');
      await waiting(before, bad);
      await waiting(sound);
      await waiting(after, bad);
      await world.run(1_000);
      await waiting(0);
      // Those wait in rows too, so none of them is found at the ends.
      world.sql(
        `INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, give_up_at)
         SELECT ?1, value, 'waiting', 'paused', 1, ?2 FROM json_each(?3)`,
        ...[shop, world.now() + 9e9],
        JSON.stringify(Array.from({ length: sound }, (_, i) => eventAt(before / 100 + 1, i))),
      );
    }

    test("does not hide the others from a drain", async () => {
      await backlog(300, 20, 300);
      // A little before the good ones.
      world.chance(0.44);
      expect(await world.drain(message())).toEqual(["left"]);
      expect(count("delivered")).toBe(20);
      expect(methods().at(-1)).toBe("reportEmptyDrain");
    });

    test("does not hide the others from a drain that looks at the same place twice", async () => {
      await backlog(300, 20, 300);
      let drawn = 0;
      // The second and the third look begin with the oldest, the fourth a little before the good ones.
      const random = () => {
        drawn += 1;
        return drawn <= 5 ? 0 : 0.44;
      };
      expect(await world.drain(message(), { instead: () => ({ random }) })).toEqual(["left"]);
      expect(count("delivered")).toBe(20);
      expect(methods().at(-1)).toBe("reportEmptyDrain");
    });

    test("and is known only under the lease does not hide the others", async () => {
      await pinned('{% if data == "bad" %}no json{% else %}{{ data }}{% endif %}');
      for (const [size, data] of [[20, bad], [3], [20, bad]] as const) await waiting(size, data);
      await world.run(1_000);
      await waiting(0);
      // Without pins nothing is checked before.
      world.edit(shop, { eventVersions: null, createdAt: 0 });
      expect(await world.drain(message(), { attempts: 3 })).toEqual(["left"]);
      expect(count("delivered")).toBe(3);
      expect(methods().at(-1)).toBe("reportEmptyDrain");
    });

    test("and of everything between them occupies a drain for a few steps only", async () => {
      await backlog(2_000, 0, 0);
      let looks = 0;
      let drawn = 0;
      // A step draws twice, so that it reads another place between the ends than the step before.
      const random = () => {
        drawn += 0.53;
        return drawn % 1;
      };
      const instead = ({ db }: Services) => ({
        random,
        db: interceptedD1(db, async (sql, work) => {
          if (isLook(sql)) looks += 1;
          return work();
        }),
      });
      expect(await world.drain(message(), { instead })).toEqual(["left"]);
      expect(methods()).toEqual(["reportEmptyDrain"]);
      expect(looks).toBeGreaterThan(5);
      expect(looks).toBeLessThan(12);
    });
  });

  test.each<[string, number, TransformTemplate?]>([
    ["once, under the lease", 1],
    ["before it is admitted too, where there is a transformation", 2, { body: "{{ data }}" }],
  ])("what waits is loaded %s", async (_, times, template) => {
    await waiting(2);
    if (template) world.edit(shop, { transform: transform(template) });
    let loaded = 0;
    const instead = ({ db }: Services) => ({
      db: interceptedD1(db, async (sql, work) => {
        if (/hex\(b\.body\)/.test(sql)) loaded += 1;
        return work();
      }),
    });
    await world.drain(message(), { instead });
    expect(count("delivered")).toBe(2);
    expect(loaded).toBe(times);
  });
});

describe("a delivery that waits for a deleted destination", () => {
  test.each<[string, (id: string) => void]>([
    ["", (id) => world.edit(id, { deletedAt: 1 })],
    [", and whose row is gone", (id) => void world.sql("DELETE FROM destinations WHERE id = ?1", id)],
  ])("is cancelled%s, and none of another destination is", async (_, remove) => {
    const other = world.destination({ status: "paused" });
    await waiting(3);
    remove(shop);
    await world.drain(message());
    expect(world.requests).toEqual([]);
    expect(states()).toEqual(Array(3).fill("cancelled destination_deleted"));
    expect(world.rows(other).map(({ state }) => state)).toEqual(Array(3).fill("waiting"));
    expect(world.logged("deliveries_cancelled")).toEqual([
      { what: "deliveries_cancelled", destination: shop, deliveries: 3 },
    ]);
    expect(world.gateCalls.map(({ method }) => method)).toEqual(["reportEmptyDrain"]);
    expect(nextDrains()).toEqual([]);
  });
});
