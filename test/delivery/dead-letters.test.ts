/** The platform's dead letters: messages that failed too often become dead deliveries, which operators can see. */
import { beforeEach, describe, expect, test } from "vitest";
import type { DeliveryKey } from "../../src/core/bundle.ts";
import { consumeDeadLetters } from "../../src/delivery/dead-letters.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import { batchOf } from "../support/queues.ts";
import {
  calm,
  isKey,
  messageFor,
  named,
  newDestination,
  newWorld,
  START,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

/** How long a batch awaits one answer. */
const PATIENCE_MS = 1_000;

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

/** Each name in a message of its own. */
async function buried(given: readonly unknown[]) {
  const messages = given.map((one) => (isKey(one) ? messageFor(one) : one));
  const { batch, results } = batchOf("breakwater-dead", messages, 100);
  await consumeDeadLetters(world.services, batch);
  return results;
}

test("a dead letter makes a delivery wait that was never attempted, also one alone in its message", async () => {
  expect(await buried(await world.post())).toEqual(["acked"]);
  const waiting = { state: "waiting", reason: "recovered", attempts: 0, endedAt: null, nextAttemptAt: START };
  expect(await storedRows()).toMatchObject([waiting]);
  expect(world.receiver.calls).toEqual([]);
  await world.settled();
  world.clock.pass(1_000);
  await world.drain(destination);
  expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
});

test("a dead letter ends an attempted delivery that was alone as dead, and keeps its attempts", async () => {
  world.receiver.script(urlOf(destination), 500);
  const messages = await world.post();
  await world.consume(messages);
  await buried(messages);
  expect(await storedRows()).toMatchObject([
    {
      state: "dead",
      reason: "poison",
      attempts: 1,
      log: [{ status: 500 }],
      endedAt: START,
      nextAttemptAt: null,
    },
  ]);
});

describe("of a delivery in flight that was alone in its message", () => {
  let messages: DeliveryKey[];
  let answer: PromiseWithResolvers<Response>;

  /** Its sender waits for an answer in the background. */
  beforeEach(async () => {
    answer = Promise.withResolvers<Response>();
    world.receiver.script(urlOf(destination), () => answer.promise, 204);
    messages = await world.post();
    const consumed = world.consume(messages);
    await world.receiver.called(1);
    await calm();
    world.clock.pass(PATIENCE_MS);
    await consumed;
    expect(await storedRows()).toMatchObject([{ state: "retrying", reason: "in_flight", attempts: 0 }]);
  });

  test("a dead letter leaves it to its sender while that may be alive", async () => {
    const [before] = await storedRows();
    expect(await buried(messages)).toEqual(["acked"]);
    expect(await storedRows()).toEqual([before]);
    const [again, ...others] = world.deliveryQueue.taken();
    expect(others).toEqual([]);
    expect(await named([again?.body as DeliveryMessage])).toEqual(messages);
    const dueAt = world.clock.now() + (again?.delaySeconds ?? 0) * 1000;
    expect(dueAt).toBeGreaterThanOrEqual(before?.nextAttemptAt ?? Number.POSITIVE_INFINITY);

    answer.resolve(new Response(null, { status: 204 }));
    await world.settled();
    expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
    world.clock.pass(dueAt - world.clock.now());
    expect(await world.consume([again?.body])).toEqual(["acked"]);
    expect(world.receiver.to(urlOf(destination))).toHaveLength(1);
  });

  test("a dead letter ends it as dead once its sender is lost", async () => {
    const [before] = await storedRows();
    world.clock.pass((before?.nextAttemptAt ?? 0) - world.clock.now());
    expect(await buried(messages)).toEqual(["acked"]);
    expect(await storedRows()).toMatchObject([{ state: "dead", reason: "poison" }]);
    answer.resolve(new Response(null, { status: 204 }));
    await world.settled();
  });
});

test("a dead letter changes nothing about a delivery that has ended", async () => {
  const messages = await world.post();
  await world.consume(messages);
  expect(await buried(messages)).toEqual(["acked"]);
  expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
});

test("a dead letter that names no delivery is dropped", async () => {
  expect(await buried([null, { event: 9, destination: "dst_x" }])).toEqual(["acked", "acked"]);
  expect(await storedRows()).toEqual([]);
});

test("a batch of dead letters fails as a whole while D1 is away, so that the platform retries it", async () => {
  const messages = await world.post();
  world.d1.failing(() => "before");
  await expect(buried(messages)).rejects.toThrow("D1");
});

test("dead letters that are lost with their queue are found by the sweep, untried ones and retries", async () => {
  world.receiver.script(urlOf(destination), 500, 204);
  const [retried] = await world.post();
  await world.consume([retried]);
  await world.settled();
  await world.post(2);
  // The queue has dropped all three messages, and nothing has come out of the dead-letter queue.
  world.clock.pass(24 * 60 * 60_000);
  await sweep.run(world.services);
  expect((await storedRows()).map(({ state, reason, attempts }) => [state, reason, attempts])).toEqual([
    ["waiting", "recovered", 1],
    ["waiting", "recovered", 0],
    ["waiting", "recovered", 0],
  ]);
  await world.settled();
  for (let i = 0; i < 3; i++) {
    world.clock.pass(1_000);
    await world.drain(destination);
    await world.settled();
  }
  expect((await storedRows()).map(({ state }) => state)).toEqual(Array(3).fill("delivered"));
  expect(world.receiver.calls).toHaveLength(4);
});

test("dead letters that arrive after the sweep has found their deliveries send nothing a second time", async () => {
  const messages = await world.post(2);
  world.clock.pass(24 * 60 * 60_000);
  await sweep.run(world.services);
  await world.settled();
  world.clock.pass(1_000);
  await world.drain(destination);
  expect(await buried(messages)).toEqual(["acked", "acked"]);
  await world.settled();
  world.clock.pass(1_000);
  await world.drain(destination);
  expect(world.receiver.calls).toHaveLength(2);
});
