/** The state of a delivery, and its message, after an attempt and without one. */
import { beforeEach, describe, expect, test } from "vitest";
import type { Script } from "../support/receivers.ts";
import {
  execute,
  FIRST_EVENT,
  gateOf,
  messageFor,
  newDestination,
  newWorld,
  rowOf,
  START,
  statusOf,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** Posts one event to a new destination that answers as scripted, and delivers its message. */
async function deliverTo(script: Script, columns = {}) {
  const destination = await newDestination(columns);
  world.receiver.script(urlOf(destination), script);
  const message = (await world.post()).find((posted) => posted.destinationId === destination);
  if (!message) throw new Error("The event is for the destination");
  const [fate] = await world.consume([message]);
  return { destination, message, fate };
}

function answerTo(destination: string, script: Script): void {
  world.receiver.script(urlOf(destination), script);
}

test("a receiver that is gone gets one request, and the rest of its batch waits for an operator", async () => {
  const destination = await newDestination();
  world.receiver.script(urlOf(destination), 410);
  const messages = await world.post(20);
  await world.consume(messages);
  expect(world.receiver.calls).toHaveLength(1);
  const rows = await storedRows();
  expect(rows.map(({ state, reason }) => `${state} ${reason}`).sort()).toEqual([
    "dead gone",
    ...Array(19).fill("waiting paused"),
  ]);
});

describe("a failure", () => {
  test.each([
    [0, 15_000, 15],
    [0.5, 22_500, 23],
    [0.9, 28_500, 29],
    [0.99999, 30_000, 30],
  ])("is retried after the policy's jittered delay, in seconds rounded up (chance %d)", async (chance, ms, s) => {
    world.chance(chance);
    const { message, fate } = await deliverTo(500);
    expect(fate).toEqual({ retryIn: s });
    expect(await rowOf(message)).toMatchObject({
      state: "retrying",
      reason: "http_500",
      attempts: 1,
      nextAttemptAt: START + ms,
      giveUpAt: START + 74 * 3_600_000,
      endedAt: null,
      lastStatus: 500,
      lastError: "http_500",
    });
  });

  test("is not retried before its time: an early message is delayed again", async () => {
    const { message } = await deliverTo(500);
    const before = await rowOf(message);
    world.clock.pass(10_000);
    expect(await world.consume([message])).toEqual([{ retryIn: 13 }]);
    expect(world.receiver.calls).toHaveLength(1);
    expect(await rowOf(message)).toEqual(before);
  });

  test("is retried at its time, and waits longer after each attempt", async () => {
    const { message } = await deliverTo(500);
    for (const seconds of [45, 90, 180]) {
      world.clock.pass(((await rowOf(message))?.nextAttemptAt ?? 0) - world.clock.now());
      expect(await world.consume([message])).toEqual([{ retryIn: seconds }]);
    }
    expect(await rowOf(message)).toMatchObject({ state: "retrying", attempts: 4 });
    expect((await rowOf(message))?.log.map(({ status }) => status)).toEqual([500, 500, 500, 500]);
  });

  test("is dead when the policy's attempts are used up, and no sooner", async () => {
    const retry = { schedule: [1], jitter: "none", max_attempts: 3 } as const;
    const { message, destination } = await deliverTo(500, { retry, breakerMinAttempts: 100 });
    const results = [];
    for (let i = 0; i < 2; i++) {
      world.clock.pass(1_000);
      results.push(...(await world.consume([message])));
    }
    expect(results).toEqual([{ retryIn: 1 }, "acked"]);
    const end = {
      state: "dead",
      reason: "exhausted",
      attempts: 3,
      nextAttemptAt: null,
      endedAt: START + 2_000,
    };
    expect(await rowOf(message)).toMatchObject(end);
    world.clock.pass(60_000);
    await world.consume([message]);
    expect(world.receiver.to(urlOf(destination))).toHaveLength(3);
  });

  test("is dead when the next attempt would be past the age limit", async () => {
    const retry = { schedule: [100], jitter: "none", give_up_after: 150 } as const;
    const { message } = await deliverTo(500, { retry });
    world.clock.pass(100_000);
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(await rowOf(message)).toMatchObject({ state: "dead", reason: "expired", attempts: 2 });
  });

  test("counts the age limit from the first attempt, however long that was held back", async () => {
    const destination = await newDestination({ retry: { give_up_after: 3_600 } });
    answerTo(destination, 500);
    const [message] = await world.post();
    if (!message) throw new Error("The event is for the destination");
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", destination);
    await world.consume([message]);
    world.clock.pass(3 * 86_400_000);
    await execute("UPDATE destinations SET status = 'active' WHERE id = ?1", destination);
    await gateOf(destination).resume();
    await world.drain(destination);
    const firstAttemptAt = world.clock.now();
    expect(await rowOf(message)).toMatchObject({
      state: "retrying",
      attempts: 1,
      firstAttemptAt,
      giveUpAt: firstAttemptAt + 3_600_000,
    });
  });

  test("is not ended by the limit of one cause for attempts with other causes", async () => {
    const retry = { preset: "textbook", schedule: [1], jitter: "none" } as const;
    const { message, destination } = await deliverTo(404, { retry, breakerMinAttempts: 100 });
    answerTo(destination, 500);
    for (let i = 0; i < 5; i++) {
      world.clock.pass(1_000);
      await world.consume([message]);
    }
    answerTo(destination, 404);
    for (let i = 0; i < 3; i++) {
      world.clock.pass(1_000);
      expect(await world.consume([message])).toEqual([{ retryIn: 1 }]);
    }
    world.clock.pass(1_000);
    await world.consume([message]);
    expect(await rowOf(message)).toMatchObject({ state: "dead", reason: "exhausted", attempts: 10 });
  });

  test("that is followed by a success ends as delivered, with both attempts on record", async () => {
    const { message, destination } = await deliverTo(500);
    answerTo(destination, 200);
    world.clock.pass(30_000);
    expect(await world.consume([message])).toEqual(["acked"]);
    const row = await rowOf(message);
    expect(row).toMatchObject({ state: "delivered", reason: null, attempts: 2, nextAttemptAt: null });
    expect(row).toMatchObject({ endedAt: START + 30_000, lastStatus: 200, lastError: null });
    expect(row?.log.map(({ at, status }) => [at, status])).toEqual([
      [START, 500],
      [START + 30_000, 200],
    ]);
  });

  test("keeps the last forty attempts on record", async () => {
    const { message } = await deliverTo(500, { retry: { max_attempts: 100 } });
    const before = Array.from({ length: 40 }, (_, i) => ({ at: i, latencyMs: 1, status: 503 }));
    await execute("UPDATE deliveries SET attempts = 60, log = ?1", JSON.stringify(before));
    world.clock.pass(60_000);
    await world.consume([message]);
    const row = await rowOf(message);
    expect(row?.attempts).toBe(61);
    expect(row?.log.map(({ at }) => at)).toEqual([...before.slice(1).map(({ at }) => at), START + 60_000]);
  });

  test("that is to be retried later than a queue can delay is delayed repeatedly until its time", async () => {
    const retry = { schedule: [3 * 86_400], jitter: "none", give_up_after: 10 * 86_400 } as const;
    const { message, fate } = await deliverTo(500, { retry });
    expect(fate).toEqual({ retryIn: 86_400 });
    world.clock.pass(86_400_000);
    expect(await world.consume([message])).toEqual([{ retryIn: 86_400 }]);
    world.clock.pass(2 * 86_400_000);
    await world.consume([message]);
    expect(world.receiver.calls).toHaveLength(2);
  });

  test("gets a new message before the platform's limit makes the old one a dead letter", async () => {
    const destination = await newDestination();
    answerTo(destination, 500);
    const messages = await world.post();
    expect(await world.consume(messages, 89)).toEqual([{ retryIn: 23 }]);
    world.clock.pass(30_000);
    expect(await world.consume(messages, 90)).toEqual(["acked"]);
    expect(world.deliveryQueue.taken()).toEqual([{ body: messageFor(messages[0]), delaySeconds: 45 }]);
  });
});

describe("a response with status", () => {
  test.each([200, 201, 202, 204, 299])("%d is a success", async (status) => {
    const { message, fate } = await deliverTo(status);
    expect(fate).toBe("acked");
    expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 1, endedAt: START });
  });

  test.each([301, 302, 307, 308, 400, 401, 403, 405, 422])("%d is permanent", async (status) => {
    const { message, fate, destination } = await deliverTo(status);
    expect(fate).toBe("acked");
    expect(await rowOf(message)).toMatchObject({ state: "dead", reason: "permanent", lastStatus: status });
    expect(await statusOf(destination)).toEqual(["active", null]);
  });

  test.each([404, 408, 429, 500, 502, 503, 504, 599])("%d is retried", async (status) => {
    const { message, fate } = await deliverTo(status);
    expect(fate).toMatchObject({ retryIn: expect.any(Number) });
    expect(await rowOf(message)).toMatchObject({ state: "retrying", reason: `http_${status}`, attempts: 1 });
  });

  test("410 ends the delivery, and pauses the destination", async () => {
    const { message, fate, destination } = await deliverTo(410);
    expect(fate).toBe("acked");
    expect(await rowOf(message)).toMatchObject({ state: "dead", reason: "gone", attempts: 1 });
    expect(await statusOf(destination)).toEqual(["paused", "gone"]);
    expect(world.logged("destination_paused")).toMatchObject([{ destination, reason: "gone" }]);

    const later = await world.post();
    await world.consume(later);
    expect(world.receiver.calls).toHaveLength(1);
    expect(await storedRows()).toMatchObject([{ state: "dead" }, { state: "waiting", reason: "paused" }]);
  });

  test("410 leaves the reason of an operator's pause as it is", async () => {
    const pause = "UPDATE destinations SET status = 'paused', status_reason = 'by hand'";
    const { destination } = await deliverTo(async () => {
      await execute(pause);
      return new Response(null, { status: 410 });
    });
    expect(await statusOf(destination)).toEqual(["paused", "by hand"]);
  });
});

describe("Retry-After", () => {
  const quiet = (status: number, value: string) => () =>
    new Response(null, { status, headers: { "retry-after": value } });

  test("holds the whole destination, and the retry comes no earlier", async () => {
    const destination = await newDestination();
    answerTo(destination, quiet(429, "120"));
    const messages = await world.post(5);
    const results = await world.consume(messages);
    expect(world.receiver.calls).toHaveLength(1);
    expect(results).toEqual([{ retryIn: 126 }, "acked", "acked", "acked", "acked"]);
    const [first, ...rest] = await storedRows();
    expect(first).toMatchObject({ state: "retrying", reason: "http_429", nextAttemptAt: START + 126_000 });
    for (const row of rest) {
      const wait = { state: "waiting", reason: "hold", attempts: 0, nextAttemptAt: START + 120_000 };
      expect(row).toMatchObject(wait);
    }
    world.clock.pass(119_000);
    await world.consume(await world.post());
    expect(world.receiver.calls).toHaveLength(1);
  });

  test("of one destination does not affect another", async () => {
    await deliverTo(quiet(503, "120"));
    const { message } = await deliverTo(204);
    expect(await rowOf(message)).toMatchObject({ state: "delivered" });
  });
});

describe("a success whose rate-limit headers allow", () => {
  const stating = (limits: string) => () =>
    new Response(null, { status: 204, headers: { ratelimit: limits } });

  test("nothing for a while holds the destination for that time, before anything is refused", async () => {
    const { destination } = await deliverTo(stating('"default";r=0;t=30'));
    await world.consume((await world.post()).filter((message) => message.destinationId === destination));
    expect(world.receiver.calls).toHaveLength(1);
    const wait = { state: "waiting", reason: "hold", nextAttemptAt: START + 30_000 };
    expect(await storedRows()).toMatchObject([{ state: "delivered" }, wait]);
  });

  test("few requests keeps no more than half of those in flight at once", async () => {
    const destination = await newDestination();
    await world.earnTrust(destination);
    answerTo(destination, stating('"default";r=4;t=30'));
    await world.consume(await world.post());
    expect(await gateOf(destination).destinationState()).toMatchObject({ window: { size: 2 }, heldUntil: 0 });
  });
});

describe("a delivery without an attempt", () => {
  test("ends as cancelled for a deleted destination", async () => {
    const destination = await newDestination();
    const messages = await world.post();
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", destination);
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(world.receiver.calls).toEqual([]);
    const end = { state: "cancelled", reason: "destination_deleted", attempts: 0, endedAt: START };
    expect(await storedRows()).toMatchObject([end]);
  });

  test("ends as cancelled at once when it was to be retried and its destination has been deleted", async () => {
    const { destination, message } = await deliverTo(500);
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", destination);
    await world.consume([message]);
    expect(await rowOf(message)).toMatchObject({ state: "cancelled", attempts: 1 });
  });

  test("ends as dead when it has waited for its first attempt past the limit", async () => {
    await newDestination({ retry: { expire_unattempted_after: 60 } });
    const messages = await world.post();
    world.clock.pass(60_000);
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(world.receiver.calls).toEqual([]);
    expect(await storedRows()).toMatchObject([{ state: "dead", reason: "expired", attempts: 0 }]);
  });

  test("ends as dead when its address has become forbidden", async () => {
    const destination = await newDestination();
    await execute("UPDATE destinations SET url = 'https://10.0.0.1/' WHERE id = ?1", destination);
    expect(await world.consume(await world.post())).toEqual(["acked"]);
    expect(world.receiver.calls).toEqual([]);
    expect(await storedRows()).toMatchObject([{ state: "dead", reason: "forbidden_target", attempts: 0 }]);
  });

  test.each([
    ["an event", { eventId: 4_711, destinationId: "dst_00000000000000000000" }],
    ["a destination", { eventId: FIRST_EVENT, destinationId: "dst_00000000000000000000" }],
  ])("of a message that names %s that is unknown is dropped", async (_, message) => {
    await newDestination();
    await world.post();
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(world.logged("delivery_unknown")).toHaveLength(1);
    expect(await storedRows()).toEqual([]);
  });

  test.each([
    null,
    "text",
    7,
    {},
    { eventId: "1", destinationId: "dst_x" },
    { bundles: {} },
    { bundles: [{ bundle: 1 }] },
    { bundles: [{ bundle: 1.5, destinations: ["dst_x"] }] },
    { bundles: [{ bundle: "1", destinations: ["dst_x"] }] },
    { bundles: [{ bundle: 1, destinations: [7] }] },
    { bundles: [{ bundle: 1, destinations: ["dst_x"], indexes: ["1"] }] },
  ])("in an unreadable message (%j) is dropped, and the rest of the batch is delivered", async (body) => {
    await newDestination();
    const messages = await world.post();
    expect(await world.consume([body, ...messages])).toEqual(["acked", "acked"]);
    expect(world.logged("message_unreadable")).toHaveLength(1);
    expect(await storedRows()).toMatchObject([{ state: "delivered" }]);
  });

  test("of an unreadable message is dropped", async () => {
    expect(await world.consume([null, "text"])).toEqual(["acked", "acked"]);
  });
});
