/** Deliveries that wait in D1, and the drains that the gate's alarm schedules for them. */
import { beforeEach, describe, expect, test } from "vitest";
import type { DeliveryKey } from "../../src/core/bundle.ts";
import { eventNumber } from "../../src/ids.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import { silence } from "../support/receivers.ts";
import {
  alarmOf,
  calm,
  execute,
  forgetOutcomes,
  GRACE_MS,
  gateOf,
  giveRows,
  messageFor,
  newDestination,
  newWorld,
  rowOf,
  START,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

const HELD_MS = 60_000;
const held = () => new Response(null, { status: 503, headers: { "retry-after": String(HELD_MS / 1000) } });

/** The given number of deliveries that wait behind a hold of HELD_MS. One more is to be retried. */
async function waitBehindHold(count: number): Promise<DeliveryKey[]> {
  world.receiver.script(urlOf(destination), held);
  const messages = await world.post(count + 1);
  await world.consume(messages);
  world.receiver.script(urlOf(destination), 204);
  return messages.slice(1);
}

/** The given number of deliveries that wait at an open circuit. */
async function waitAtOpenCircuit(count: number): Promise<DeliveryKey[]> {
  world.receiver.script(urlOf(destination), 500);
  await world.consume(await world.post(5));
  const messages = await world.post(count);
  await world.consume(messages);
  return messages;
}

/** The rows of these deliveries. */
async function rowsOf(messages: readonly DeliveryKey[]) {
  return Promise.all(messages.map((message) => rowOf(message)));
}

/** The events that the destination received after a number of calls, as they were posted. */
function eventsSince(calls: number): (number | undefined)[] {
  return world.receiver.calls.slice(calls).map(({ headers }) => eventNumber(headers.get("webhook-id") ?? ""));
}

describe("a refused delivery", () => {
  test("waits in D1 with the reason, and its message is acknowledged", async () => {
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", destination);
    expect(await world.consume(await world.post())).toEqual(["acked"]);
    expect(world.receiver.calls).toEqual([]);
    const waiting = { state: "waiting", reason: "paused", attempts: 0, nextAttemptAt: null, endedAt: null };
    expect(await storedRows()).toMatchObject([{ ...waiting, giveUpAt: START + 14 * 86_400_000 }]);
  });

  test("waits until the circuit may close or the hold ends, if that is known", async () => {
    const messages = await waitBehindHold(3);
    for (const row of await rowsOf(messages)) {
      expect(row).toMatchObject({ state: "waiting", reason: "hold", nextAttemptAt: START + HELD_MS });
    }
    const atCircuit = await waitAtOpenCircuit(2);
    for (const row of await rowsOf(atCircuit))
      expect(row).toMatchObject({ state: "waiting", reason: "hold" });
  });

  test("keeps its attempts and its age limit", async () => {
    world.receiver.script(urlOf(destination), 500);
    const [message] = await world.post();
    if (!message) throw new Error("The event is for the destination");
    await world.consume([message]);
    const before = await rowOf(message);
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", destination);
    world.clock.pass(30_000);
    expect(await world.consume([message])).toEqual(["acked"]);
    const { attempts, giveUpAt, log } = before ?? {};
    expect(await rowOf(message)).toMatchObject({
      state: "waiting",
      reason: "paused",
      attempts,
      giveUpAt,
      log,
    });
  });
});

describe("the drain alarm", () => {
  test("fires when the hold ends, and enqueues a drain that delivers everything waiting", async () => {
    const messages = await waitBehindHold(20);
    expect(await alarmOf(destination)).toBeGreaterThanOrEqual(START + HELD_MS);
    world.clock.pass(HELD_MS - 1);
    expect(await world.ring(destination)).toEqual([]);
    expect(await alarmOf(destination)).toBeGreaterThanOrEqual(START + HELD_MS);

    world.clock.pass(1);
    const drains = await world.ring(destination);
    expect(drains).toEqual([{ destination, drains: 1 }]);
    await world.answer(drains);
    for (const row of await rowsOf(messages)) expect(row).toMatchObject({ state: "delivered", attempts: 1 });
    expect(await alarmOf(destination)).toBeNull();
  });

  test("fires again when an enqueued drain never came", async () => {
    await waitBehindHold(1);
    world.clock.pass(HELD_MS);
    expect(await world.ring(destination)).toHaveLength(1);
    const again = (await alarmOf(destination)) ?? 0;
    expect(again).toBeGreaterThan(world.clock.now());
    world.clock.pass(again - world.clock.now());
    expect(await world.ring(destination)).toHaveLength(1);
  });

  test("enqueues as many drains as the window allows, and one after a pause", async () => {
    const wide = await newDestination({ maxConcurrency: 30 });
    await world.earnTrust(wide, 40);
    const gate = gateOf(wide);
    await gate.scheduleDrain();
    expect(await world.ring(wide)).toEqual(Array(6).fill({ destination: wide, drains: 6 }));
    await gate.resume();
    world.clock.pass(60_000);
    expect(await world.ring(wide)).toEqual([{ destination: wide, drains: 1 }]);
  });
});

describe("a drain", () => {
  test("takes the oldest and the newest bundle in turn, as far as they wait", async () => {
    world.chance(0);
    const [a, b] = (await waitBehindHold(2)).map(({ eventId }) => eventId);
    world.receiver.script(urlOf(destination), held);
    const later: number[] = [];
    for (let i = 0; i < 3; i++) {
      const messages = await world.post(2);
      await world.consume(messages);
      later.push(...messages.map(({ eventId }) => eventId));
    }
    world.receiver.script(urlOf(destination), 204);
    const [c, d, e, f, g, h] = later;
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    await world.drain(destination);
    expect(eventsSince(before)).toEqual([a, b, h, g, c, d, f, e]);
  });

  test.each([
    ["nothing has been attempted", 0, [1, 2, 3, 0]],
    ["something has", 0.7, [0, 1, 2, 3]],
  ])("takes attempted and new deliveries in turn, beginning where %s", async (_, drawn, order) => {
    const messages = await waitBehindHold(4);
    const events = messages.map(({ eventId }) => eventId);
    await giveRows(events[0]);
    await execute("UPDATE deliveries SET attempts = 2 WHERE event_id = ?1", events[0]);
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    world.chance(drawn);
    await world.drain(destination);
    expect(eventsSince(before)).toEqual(order.map((place) => events[place]));
  });

  test("probes with the least attempted delivery: an outage does not use up the attempts of a few", async () => {
    const messages = await waitAtOpenCircuit(4);
    const events = messages.map(({ eventId }) => eventId);
    for (const event of events) if (event !== events[2]) await giveRows(event);
    await execute("UPDATE deliveries SET attempts = 2");
    world.clock.pass(40_000);
    const before = world.receiver.calls.length;
    await world.drain(destination);
    expect(eventsSince(before)).toEqual([events[2]]);
  });

  test("stops at the failure that opens the circuit, and leaves the rest waiting", async () => {
    const messages = await waitBehindHold(10);
    world.receiver.script(urlOf(destination), 204, 204, held);
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    await world.drain(destination);
    const calls = world.receiver.calls.length - before;
    expect(calls).toBeGreaterThanOrEqual(3);
    expect(calls).toBeLessThanOrEqual(4);
    const states = (await rowsOf(messages)).map((row) => row?.state);
    expect(states.filter((state) => state === "waiting")).toHaveLength(10 - calls);
    expect(world.drainQueue.taken()).toEqual([]);
    expect(await world.ring(destination)).toEqual([]);
    expect(await alarmOf(destination)).toBeGreaterThanOrEqual(world.clock.now() + HELD_MS);
  });

  test("enqueues a separate message for each failed delivery that is to be retried", async () => {
    const messages = await waitBehindHold(1);
    world.receiver.script(urlOf(destination), 500);
    world.clock.pass(HELD_MS);
    await world.drain(destination);
    expect(await rowsOf(messages)).toMatchObject([{ state: "retrying", reason: "http_500", attempts: 1 }]);
    expect(world.deliveryQueue.taken()).toEqual([
      { body: { ...messageFor(messages[0]), owner: expect.any(String) }, delaySeconds: 23 },
    ]);
  });

  test("sends exactly one to a half-open circuit, and none after it when it fails", async () => {
    const messages = await waitAtOpenCircuit(10);
    expect((await rowsOf(messages)).map((row) => row?.reason)).toEqual(Array(10).fill("circuit_open"));
    world.clock.pass(40_000);
    const before = world.receiver.calls.length;
    await world.drain(destination);
    expect(world.receiver.calls.length - before).toBe(1);
    expect((await rowsOf(messages)).filter((row) => row?.state === "waiting")).toHaveLength(9);

    world.receiver.script(urlOf(destination), 204);
    await world.drain(destination);
    expect(world.receiver.calls.length - before).toBe(1);
  });

  test("admits the others when the probe succeeds", async () => {
    const messages = await waitAtOpenCircuit(10);
    world.receiver.script(urlOf(destination), 204);
    world.clock.pass(40_000);
    await world.drain(destination);
    await world.drain(destination);
    expect((await rowsOf(messages)).map((row) => row?.state)).toEqual(Array(10).fill("delivered"));
    expect(world.logged("circuit_closed")).toHaveLength(1);
  });

  test("sends the probe only, while its response is awaited", async () => {
    await waitAtOpenCircuit(10);
    const { script, end } = silence();
    world.receiver.script(urlOf(destination), script);
    world.clock.pass(40_000);
    const before = world.receiver.calls.length;
    const drains = await world.ring(destination);
    const draining = world.answer(drains);
    await world.receiver.called(before + 1);
    await world.answer(drains);
    await world.consume(await world.post());
    expect(world.receiver.calls.length - before).toBe(1);
    end(204);
    await draining;
  });

  test("cancels deliveries that wait for a deleted destination", async () => {
    const messages = await waitBehindHold(3);
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", destination);
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    await world.drain(destination);
    for (const row of await rowsOf(messages)) {
      expect(row).toMatchObject({ state: "cancelled", reason: "destination_deleted", attempts: 0 });
    }
    expect(world.receiver.calls.length).toBe(before);
    expect(await alarmOf(destination)).toBeNull();
  });

  test("ends waiting deliveries of a removed event as dead", async () => {
    const messages = await waitBehindHold(3);
    // The first two of a bundle of four are left in its plan, and the last.
    await execute("UPDATE bundles SET plan = ?1", JSON.stringify({ [destination]: [0, 1, 3, 3] }));
    world.clock.pass(HELD_MS);
    await world.drain(destination);
    const states = (await rowsOf(messages)).map((row) => [row?.state, row?.reason]);
    expect(states).toEqual([
      ["delivered", null],
      ["dead", "event_removed"],
      ["delivered", null],
    ]);
  });

  test("ends deliveries past their age limit as dead, without an attempt", async () => {
    const messages = await waitBehindHold(3);
    await giveRows(messages[1]?.eventId);
    await execute("UPDATE deliveries SET give_up_at = ?1", START + 1);
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    await world.drain(destination);
    const states = (await rowsOf(messages)).map((row) => [row?.state, row?.reason, row?.attempts]);
    expect(states).toEqual([
      ["delivered", null, 1],
      ["dead", "expired", 0],
      ["delivered", null, 1],
    ]);
    expect(world.receiver.calls.length - before).toBe(2);
  });

  test("enqueues the next drain when its own time is over", async () => {
    const messages = await waitBehindHold(80);
    world.receiver.script(urlOf(destination), () => {
      world.clock.pass(300);
      return new Response(null, { status: 204 });
    });
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    await world.drain(destination);
    const calls = world.receiver.calls.length - before;
    expect(calls).toBeLessThan(75);
    expect((await rowsOf(messages)).filter((row) => row?.state === "waiting")).toHaveLength(80 - calls);
    expect(world.drainQueue.taken()).toMatchObject([{ body: { destination } }]);
  });

  test("enqueues the next drain when it has used as many leases as one invocation may, however fast the receiver is", async () => {
    await execute("UPDATE destinations SET rate_per_second = 10000, rate_burst = 10000");
    await waitBehindHold(2_600);
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    await world.drain(destination);
    const calls = world.receiver.calls.length - before;
    expect(calls).toBeGreaterThan(1_000);
    expect(calls).toBeLessThanOrEqual(2_500);
    const drains = world.drainQueue.taken().map(({ body }) => body);
    expect(drains).toHaveLength(1);
    await world.answer(drains);
    expect(world.receiver.calls.length - before).toBe(2_600);
  });

  test("does not wait for a receiver that does not respond", async () => {
    await waitBehindHold(3);
    const { script, end } = silence();
    world.receiver.script(urlOf(destination), script);
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    const draining = world.drain(destination);
    await world.receiver.called(before + 1);
    await calm();
    world.clock.pass(3_000);
    await draining;
    const rows = await storedRows();
    expect(rows.filter(({ reason }) => reason === "in_flight")).toHaveLength(1);
    expect(rows.filter(({ state }) => state === "waiting")).toHaveLength(2);
    end(204);
    await world.settled();
    world.receiver.script(urlOf(destination), 204);
    await world.drain(destination);
    expect((await storedRows()).filter(({ state }) => state === "delivered")).toHaveLength(3);
  });

  test("beside another takes the deliveries that the other does not hold", async () => {
    const messages = await waitBehindHold(3);
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    await Promise.all([1, 2, 3].map(() => world.answer([{ destination, drains: 1 }])));
    await world.drain(destination);
    expect(world.receiver.calls.length - before).toBe(3);
    expect((await rowsOf(messages)).map((row) => row?.attempts)).toEqual([1, 1, 1]);
  });

  test("reads a wider range if others hold the nearest deliveries", async () => {
    const wide = await newDestination({ maxConcurrency: 100, ratePerSecond: 10_000, rateBurst: 10_000 });
    await world.earnTrust(wide, 100);
    await world.post(400);
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    const { script, end } = silence();
    world.receiver.script(urlOf(wide), script);
    const before = world.receiver.calls.length;
    const draining: Promise<unknown>[] = [];
    for (let drains = 1; drains <= 4; drains++) {
      draining.push(world.answer([{ destination: wide, drains: 4 }]));
      await world.receiver.called(before + 5 * drains);
    }
    expect(new Set(eventsSince(before)).size).toBe(20);
    end(204);
    world.clock.pass(3_000);
    await Promise.all(draining);
  });

  test("that finds nothing reports it to the gate, which then schedules no more drains", async () => {
    await waitBehindHold(1);
    await forgetOutcomes();
    world.clock.pass(HELD_MS);
    await world.drain(destination);
    expect(await alarmOf(destination)).toBeNull();
    expect(await world.ring(destination)).toEqual([]);
  });

  test("that fails is retried a little later", async () => {
    await waitBehindHold(1);
    world.d1.failing(() => "before");
    expect(await world.answer([{ destination, drains: 1 }])).toEqual([{ retryIn: 10 }]);
    expect(world.logged("drain_failed")).toHaveLength(1);
  });

  test("of a destination that was paused meanwhile attempts nothing", async () => {
    const messages = await waitBehindHold(3);
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", destination);
    world.clock.pass(HELD_MS);
    const before = world.receiver.calls.length;
    await world.drain(destination);
    expect(world.receiver.calls.length).toBe(before);
    expect((await rowsOf(messages)).map((row) => row?.state)).toEqual(Array(3).fill("waiting"));
  });

  test.each([
    null,
    "text",
    {},
    { destination: 7 },
  ])("ignores an invalid message (%j)", async (drainSchedule) => {
    expect(await world.answer([drainSchedule])).toEqual(["left"]);
  });
});
