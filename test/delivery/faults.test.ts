/** When a service is unavailable, nothing is lost, nothing is counted as an attempt, and the rest continues. */
import { beforeEach, describe, expect, test } from "vitest";
import { atGate } from "../../src/gate/client.ts";
import { accept } from "../support/accept.ts";
import {
  FIRST_EVENT,
  messageFor,
  newDestination,
  newWorld,
  rowOf,
  START,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

/** The result of work that calls a gate three times: the pauses are in the middle of 200 and 400 ms, shortened by a quarter. */
async function throughPauses<T>(work: Promise<T>, pauses: readonly number[] = [150, 300]): Promise<T> {
  for (const ms of pauses) {
    await world.clock.asleep(ms);
    world.clock.pass(ms);
  }
  return work;
}

describe("a gate that cannot be reached", () => {
  test("makes no attempt: the message is retried in a few seconds, with jitter", async () => {
    const messages = await world.post();
    world.gates.before(() => {
      throw new Error("Durable Object is overloaded");
    });
    world.chance(0);
    expect(await world.consume(messages)).toEqual([{ retryIn: 5 }]);
    world.chance(0.999);
    expect(await world.consume(messages)).toEqual([{ retryIn: 10 }]);
    expect(world.receiver.calls).toEqual([]);
    expect(await storedRows()).toEqual([]);
    expect(world.logged("gate_unreachable")).toMatchObject([{ destination }, { destination }]);

    world.gates.before(() => {});
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
  });

  test.each([
    ["overloaded", { overloaded: true, retryable: true }],
    ["broken", { remote: true }],
  ])("that reports it is %s is called once, and its deliveries are sent when they are retried", async (_, flags) => {
    const messages = await world.post(2);
    world.gates.before(() => {
      throw Object.assign(new Error("As the platform says it"), flags);
    });
    for (let again = 1; again <= 3; again++)
      expect(await world.consume(messages)).toEqual(Array(2).fill({ retryIn: 8 }));
    expect(world.gates.called()).toEqual(["admit", "admit", "admit"]);
    expect(await storedRows()).toEqual([]);

    world.gates.before(() => {});
    await world.consume(messages);
    expect((await storedRows()).map(({ state, attempts }) => [state, attempts])).toEqual(
      Array(2).fill(["delivered", 1]),
    );
  });

  test.each([
    ["out of reach for a moment", "As the platform says it", { retryable: true }],
    ["reset by a deploy", "Durable Object reset because its code was updated.", {}],
    ["moved", "Network connection lost.", {}],
  ])("that is %s is called again after a pause, and the deliveries are made", async (_, message, flags) => {
    const messages = await world.post(2);
    const at: number[] = [];
    world.gates.before((method) => {
      if (method !== "admit") return;
      at.push(world.clock.now());
      if (at.length < 3) throw Object.assign(new Error(message), flags);
    });
    expect(await throughPauses(world.consume(messages))).toEqual(["acked", "acked"]);
    const [first = 0] = at;
    expect(at.map((time) => time - first)).toEqual([0, 150, 450]);
    expect(world.receiver.calls).toHaveLength(2);
    expect(world.logged("gate_unreachable")).toEqual([]);
  });

  test("after it has granted a lease does not grant the same deliveries again to the repeated request", async () => {
    const messages = await world.post(2);
    let answers = 0;
    world.gates.after((method) => {
      if (method !== "admit") return;
      answers += 1;
      if (answers === 1) throw new Error("Network connection lost.");
    });
    const [first, second] = await throughPauses(world.consume(messages), [150]);
    expect(answers).toBe(2);
    expect(world.receiver.calls).toEqual([]);
    // They come again when the lost lease has expired, without using up an attempt.
    expect([first, second]).toEqual(Array(2).fill({ retryIn: expect.any(Number) }));
    world.clock.pass(60_000);
    await world.consume(messages);
    expect((await storedRows()).map(({ state, attempts }) => [state, attempts])).toEqual(
      Array(2).fill(["delivered", 1]),
    );
    expect(world.receiver.calls).toHaveLength(2);
  });

  test("that counts or claims something is not called again, because it may have done so", async () => {
    const lost = new Error("Network connection lost.");
    world.gates.after((method) => {
      if (["countDead", "claimTest", "resume", "reportEmptyDrain"].includes(method)) throw lost;
    });
    const { services } = world;
    expect(await atGate(services, destination, "countDead", 3)).toBeUndefined();
    expect(await atGate(services, destination, "claimTest")).toBeUndefined();
    await atGate(services, destination, "resume");
    await atGate(services, destination, "reportEmptyDrain", START);
    expect(world.gates.called()).toEqual(["countDead", "claimTest", "resume", "reportEmptyDrain"]);
  });

  test("that does not answer is awaited for ten seconds at most, and makes no attempt", async () => {
    const messages = await world.post();
    // Background work of the commit.
    world.clock.pass(10_000);
    world.gates.before(() => new Promise(() => {}));
    const delivered = world.consume(messages);
    await world.clock.asleep(10_000);
    world.clock.pass(10_000);
    expect(await delivered).toEqual([{ retryIn: 8 }]);
    expect(await storedRows()).toEqual([]);
    expect(world.logged("gate_unreachable")).toMatchObject([{ destination }]);
  });

  test("does not affect another destination", async () => {
    const other = await newDestination();
    world.gates.before((_, name) => {
      if (name === destination) throw new Error("Network connection lost.");
    });
    await throughPauses(world.consume(await world.post(3)));
    expect(world.receiver.to(urlOf(other))).toHaveLength(3);
    expect(world.receiver.to(urlOf(destination))).toHaveLength(0);
  });

  test("when a lease is settled keeps the outcome recorded, and the lease expires by itself", async () => {
    const messages = await world.post(3);
    world.gates.before((method) => {
      if (method === "settle") throw new Error("Network connection lost.");
    });
    expect(await throughPauses(world.consume(messages))).toEqual(["acked", "acked", "acked"]);
    expect((await storedRows()).map(({ state }) => state)).toEqual(["delivered", "delivered", "delivered"]);

    world.gates.before(() => {});
    world.clock.pass(60_000);
    expect(await world.consume(await world.post())).toEqual(["acked"]);
    expect(world.receiver.calls).toHaveLength(4);
  });
});

describe("D1 that cannot be reached", () => {
  test.each([
    [1, 5],
    [2, 10],
    [3, 20],
    [7, 300],
    [89, 300],
  ])("when deliveries are loaded retries all messages, later each time (try %d)", async (attempts, s) => {
    const messages = await world.post(3);
    world.d1.failing(() => "before");
    expect(await world.consume(messages, attempts)).toEqual(Array(3).fill({ retryIn: s }));
    expect(world.receiver.calls).toEqual([]);
    expect(world.logged("batch_failed")).toMatchObject([{ messages: 3 }]);
  });

  test("for a hundred tries of a message creates no dead letter: a new message replaces it", async () => {
    const messages = await world.post();
    world.d1.failing(() => "before");
    expect(await world.consume(messages, 99)).toEqual(["acked"]);
    expect(world.deliveryQueue.taken()).toEqual([
      { body: messageFor({ eventId: FIRST_EVENT, destinationId: destination }), delaySeconds: 300 },
    ]);
  });

  test.each([
    "before",
    "after",
  ] as const)("once when outcomes are written is written to again, and stores them once (%s the write)", async (fault) => {
    world.receiver.script(urlOf(destination), 500);
    const messages = await world.post();
    let faults = 1;
    world.d1.failing((sql) => (sql.includes("INSERT INTO deliveries") && faults-- > 0 ? fault : undefined));
    const delivered = world.consume(messages);
    await world.clock.asleep(188);
    world.clock.pass(188);
    expect(await delivered).toEqual([{ retryIn: 23 }]);
    expect(world.receiver.calls).toHaveLength(1);
    const once = { state: "retrying", attempts: 1, nextAttemptAt: START + 22_500, log: [{ status: 500 }] };
    expect(await storedRows()).toMatchObject([once]);
    expect(world.logged("record_failed")).toHaveLength(1);
  });

  test("on every try to write outcomes retries the messages, and settles nothing", async () => {
    const messages = await world.post(2);
    world.d1.failing((sql) => (sql.includes("INSERT INTO packs") ? "before" : undefined));
    world.gates.called();
    const delivered = world.consume(messages);
    for (const pause of [188, 375]) {
      await world.clock.asleep(pause);
      world.clock.pass(pause);
    }
    expect(await delivered).toEqual([{ retryIn: 5 }, { retryIn: 5 }]);
    expect(world.gates.called()).toEqual(["admit"]);
    expect(await storedRows()).toEqual([]);

    world.d1.failing(() => undefined);
    world.clock.pass(60_000);
    await world.consume(messages);
    const states = (await storedRows()).map(({ state, attempts }) => [state, attempts]);
    expect(states).toEqual(Array(2).fill(["delivered", 1]));
  });

  test("when an event is posted accepts nothing, and enqueues nothing", async () => {
    world.d1.failing(() => "before");
    const accepted = accept(world.services, [{ tenant: TENANT, type: "order.paid", data: 1 }]);
    expect(await accepted).toEqual({ kind: "unavailable" });
    await world.settled();
    expect(world.deliveryQueue.taken()).toEqual([]);
  });
});

describe("a queue that cannot be reached", () => {
  test("leaves an accepted event accepted", async () => {
    world.deliveryQueue.break(true);
    const accepted = await accept(world.services, [{ tenant: TENANT, type: "order.paid", data: 1 }]);
    await world.settledThroughPauses();
    expect(accepted).toMatchObject({ kind: "accepted", events: [{ plan: [destination] }] });
    expect(world.logged("enqueue_failed")).toMatchObject([{ messages: 1 }]);
  });

  test("keeps the old message if a new one was to replace it", async () => {
    world.receiver.script(urlOf(destination), 500);
    const messages = await world.post();
    world.deliveryQueue.break(true);
    expect(await world.consume(messages, 95)).toEqual([{ retryIn: 23 }]);
    expect(await rowOf({ eventId: FIRST_EVENT, destinationId: destination })).toMatchObject({
      state: "retrying",
      attempts: 1,
    });
  });
});
