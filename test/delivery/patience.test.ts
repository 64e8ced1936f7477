/** A batch does not wait for a receiver that does not respond: its attempts are awaited in the background. */
import { beforeEach, describe, expect, test, vi } from "vitest";
import { sweep } from "../../src/jobs/sweep.ts";
import { silence } from "../support/receivers.ts";
import {
  calm,
  FIRST_EVENT,
  messageFor,
  newDestination,
  newWorld,
  rowOf,
  START,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

/** How long one answer is awaited. */
const PATIENCE_MS = 1_000;
/** How long a batch continues to start attempts. */
const STARTS_MS = 5_000;

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** A destination that gives no answer until its `end` is called. */
async function silentDestination(columns = {}) {
  const id = await newDestination(columns);
  const { script, end } = silence();
  world.receiver.script(urlOf(id), script);
  return { id, end };
}

/** Delivers the messages, and ends the patience when so many attempts are in flight. */
async function bringAndWait(messages: Awaited<ReturnType<World["post"]>>, attempts: number) {
  const delivered = world.consume(messages);
  await world.receiver.called(attempts);
  await calm();
  world.clock.pass(PATIENCE_MS);
  return delivered;
}

describe("an attempt without a response after a second", () => {
  test("is recorded as in flight, with a time at which it would be recovered", async () => {
    const slow = await silentDestination({ timeoutMs: 15_000 });
    const messages = await world.post();
    expect(await bringAndWait(messages, 1)).toEqual(["acked"]);
    const row = await rowOf({ eventId: FIRST_EVENT, destinationId: slow.id });
    expect(row).toMatchObject({ state: "retrying", reason: "in_flight", attempts: 0, log: [] });
    // Not before the attempt has timed out and its lease has ended.
    expect(row?.nextAttemptAt).toBeGreaterThan(START + PATIENCE_MS + 15_000);
    expect(row?.nextAttemptAt).toBeLessThan(START + 60_000);
  });

  test("delays nothing of another destination of the batch", async () => {
    const slow = await silentDestination();
    const quick = await newDestination();
    const failing = await newDestination();
    world.receiver.script(urlOf(failing), 500);
    const messages = await world.post();
    world.d1.used();
    const results = await bringAndWait(messages, 3);
    expect(results[messages.findIndex(({ destinationId }) => destinationId === failing)]).toMatchObject({
      retryIn: expect.any(Number),
    });
    expect(results.filter((fate) => fate === "acked")).toHaveLength(2);
    // To load, for the two that answered at once, and for the one that did not.
    expect(world.d1.used().roundTrips).toBe(3);
    expect(await rowOf({ eventId: FIRST_EVENT, destinationId: quick })).toMatchObject({ state: "delivered" });
    expect(await rowOf({ eventId: FIRST_EVENT, destinationId: failing })).toMatchObject({
      reason: "http_500",
    });
    expect(await rowOf({ eventId: FIRST_EVENT, destinationId: slow.id })).toMatchObject({
      reason: "in_flight",
    });
  });

  test("leaves deliveries waiting that had not been started", async () => {
    await silentDestination();
    const messages = await world.post(5);
    expect(await bringAndWait(messages, 1)).toEqual(Array(5).fill("acked"));
    const [first, ...rest] = await storedRows();
    expect(first).toMatchObject({ state: "retrying", reason: "in_flight" });
    for (const row of rest) expect(row).toMatchObject({ state: "waiting", reason: "slow", attempts: 0 });
  });

  test("is not made a second time by another message", async () => {
    const slow = await silentDestination();
    const messages = await world.post();
    await bringAndWait(messages, 1);
    expect(await world.consume(messages)).toEqual([{ retryIn: expect.any(Number) }]);
    expect(world.receiver.to(urlOf(slow.id))).toHaveLength(1);
  });
});

describe("a late response", () => {
  test("is recorded, and the lease settled", async () => {
    const slow = await silentDestination();
    await bringAndWait(await world.post(), 1);
    world.gates.called();
    world.clock.pass(4_000);
    slow.end(204);
    await world.settled();
    const delivered = { state: "delivered", attempts: 1, nextAttemptAt: null, endedAt: START + 5_000 };
    expect(await storedRows()).toMatchObject([
      { ...delivered, log: [{ at: START, latencyMs: 5_000, status: 204 }] },
    ]);
    expect(world.gates.called()).toEqual(["settle"]);
    expect(world.deliveryQueue.taken()).toEqual([]);
  });

  test("gets a separate message when it is a failure", async () => {
    const slow = await silentDestination();
    const messages = await world.post();
    await bringAndWait(messages, 1);
    slow.end(500);
    await world.settled();
    expect(world.deliveryQueue.taken()).toEqual([
      { body: { ...messageFor(messages[0]), owner: expect.any(String) }, delaySeconds: 23 },
    ]);
    const retrying = { state: "retrying", reason: "http_500", attempts: 1, nextAttemptAt: START + 23_500 };
    expect(await storedRows()).toMatchObject([retrying]);
  });

  test("is recorded while another destination of the batch still gives none", async () => {
    const slow = await silentDestination();
    const silent = await silentDestination();
    await bringAndWait(await world.post(), 2);
    slow.end(204);
    await world.d1.written("INSERT INTO packs");
    await calm();
    expect(await rowOf({ eventId: FIRST_EVENT, destinationId: slow.id })).toMatchObject({
      state: "delivered",
    });
    expect(await rowOf({ eventId: FIRST_EVENT, destinationId: silent.id })).toMatchObject({
      reason: "in_flight",
    });
    silent.end(204);
    await world.settled();
    expect(await rowOf({ eventId: FIRST_EVENT, destinationId: silent.id })).toMatchObject({
      state: "delivered",
    });
  });

  test("loses nothing when it cannot be recorded: the sweep recovers the delivery", async () => {
    const slow = await silentDestination();
    await bringAndWait(await world.post(), 1);
    world.d1.failing(() => "before");
    slow.end(204);
    for (const pause of [188, 375]) {
      await world.clock.asleep(pause);
      world.clock.pass(pause);
    }
    await world.settled();
    expect(world.logged("late_outcomes_lost")).toHaveLength(1);
    world.d1.failing(() => undefined);
    world.clock.pass(120_000);
    await sweep.run(world.services);
    expect(await storedRows()).toMatchObject([{ state: "waiting", reason: "recovered", attempts: 0 }]);
  });
});

describe("receivers that hang", () => {
  test("delay a batch of others no longer than attempts are started, even if there are five of them", async () => {
    for (let i = 0; i < 5; i++) await silentDestination();
    const healthy = await newDestination();
    world.gates.before((method, name) =>
      method === "admit" && name === healthy ? world.receiver.called(5) : undefined,
    );
    const delivered = world.consume(await world.post());
    await world.clock.asleep(STARTS_MS + PATIENCE_MS, 6);
    world.clock.pass(STARTS_MS + PATIENCE_MS);
    expect(await delivered).toEqual(Array(6).fill("acked"));
    const row = await rowOf({ eventId: FIRST_EVENT, destinationId: healthy });
    expect(row).toMatchObject({ state: "waiting", reason: "slow", attempts: 0 });
  });

  test("leave a connection to a destination whose attempts come one after the other", async () => {
    const hanging = await newDestination({ maxConcurrency: 20 });
    await world.earnTrust(hanging);
    const { script } = silence();
    world.receiver.script(urlOf(hanging), script);
    const other = await newDestination();
    const delivered = world.consume(await world.post(20));
    await world.receiver.called(12 + 4 + 20);
    await calm();
    expect(world.receiver.to(urlOf(other))).toHaveLength(20);
    expect(world.receiver.open()).toBe(4);
    world.clock.pass(PATIENCE_MS);
    await delivered;
    const states = (await storedRows())
      .filter((row) => row.destinationId === other)
      .map(({ state }) => state);
    expect(states).toEqual(Array(20).fill("delivered"));
  });
});

test("an attempt's timeout starts when its connection is free, and not while it queues", async () => {
  const destination = await newDestination({ maxConcurrency: 20 });
  await world.earnTrust(destination, 20);
  const armed = vi.spyOn(AbortSignal, "timeout");
  const scripts = Array.from({ length: 5 }, silence);
  world.receiver.script(urlOf(destination), ...scripts.map(({ script }) => script), 204);
  const delivered = world.consume(await world.post(8));
  await world.receiver.called(25);
  await calm();
  expect(armed).toHaveBeenCalledTimes(5);
  expect(world.receiver.open()).toBe(5);
  scripts[0]?.end(204);
  await world.receiver.called(28);
  expect(armed).toHaveBeenCalledTimes(8);
  for (const { end } of scripts) end(204);
  expect(await delivered).toEqual(Array(8).fill("acked"));
  armed.mockRestore();
});
