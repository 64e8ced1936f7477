/** Messages of whole bundles: deliveries share messages, look-ups and writes, and their outcomes stay their own. */

import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt, indexOf } from "../../src/core/bundle.ts";
import { seededRandom } from "../../src/core/seeded-random.ts";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { consumeDeadLetters } from "../../src/delivery/dead-letters.ts";
import { wakeUpAt } from "../../src/delivery/message-group.ts";
import { eventNumber } from "../../src/ids.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import { HELD_BYTES, loadDeliveries } from "../../src/store/deliveries.ts";
import { consumeDrains } from "../../src/upkeep.ts";
import { batchOf } from "../support/queues.ts";
import { silence } from "../support/receivers.ts";
import {
  alarmOf,
  calm,
  execute,
  messageFor,
  newDestination,
  newWorld,
  START,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

const PATIENCE_MS = 1_000;
/** A status that is retried and does not open the circuit. */
const BUSY = 409;
const WIDE = { maxConcurrency: 1_000, ratePerSecond: 10_000, rateBurst: 10_000 };

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const statesOf = async (destination?: string) =>
  (await storedRows())
    .filter((row) => destination === undefined || row.destinationId === destination)
    .map(({ state }) => state);

const eventsTo = (destination: string) =>
  world.receiver
    .to(urlOf(destination))
    .map(({ headers }) => eventNumber(headers.get("webhook-id") ?? "") ?? 0);

const parts = (messages: readonly DeliveryMessage[]) => messages.flatMap(({ bundles }) => bundles);

describe("a bundle of a hundred events", () => {
  test("is one message for one destination, and is acknowledged when all are delivered", async () => {
    await newDestination(WIDE);
    const messages = await world.postBundles(100);
    expect(messages).toHaveLength(1);
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(await statesOf()).toEqual(Array(100).fill("delivered"));
  });

  test("for three destinations, of which one fails and one hangs, is retried only for the failed one", async () => {
    const [well, failing, silent] = [
      await newDestination(WIDE),
      await newDestination(WIDE),
      await newDestination(WIDE),
    ];
    const { script, end } = silence();
    world.receiver.script(urlOf(failing), BUSY);
    world.receiver.script(urlOf(silent), script);
    const messages = await world.postBundles(30);
    expect(messages).toHaveLength(1);
    const delivered = world.consume(messages);
    await world.receiver.called(61);
    await calm();
    world.clock.pass(PATIENCE_MS);
    const [fate] = await delivered;
    expect(fate).toEqual({ retryIn: expect.any(Number) });
    expect(await statesOf(well)).toEqual(Array(30).fill("delivered"));
    expect(await statesOf(failing)).toEqual(Array(30).fill("retrying"));
    end(204);
    await world.settled();

    world.receiver.script(urlOf(failing), 204);
    world.receiver.script(urlOf(silent), 204);
    const before = world.receiver.calls.length;
    world.clock.pass(((fate as { retryIn: number }).retryIn ?? 0) * 1_000);
    expect(await world.consume(messages, 2)).toEqual(["acked"]);
    expect(world.receiver.calls.length - before).toBe(30);
    expect(eventsTo(failing)).toHaveLength(60);
    expect(await statesOf(failing)).toEqual(Array(30).fill("delivered"));
  });

  test("wakes up a bounded number of times for a hundred retry times, and retries none early", async () => {
    const schedule = [600, 3_600, 14_400];
    const destination = await newDestination({
      ...WIDE,
      retry: { schedule, jitter: "equal", max_attempts: 4 },
    });
    world.receiver.script(urlOf(destination), BUSY);
    const services = { ...world.services, random: seededRandom(7) };
    const messages = await world.postBundles(100);
    const consume = async (attempts: number) => {
      const { batch, results } = batchOf("breakwater-deliveries", messages, attempts);
      await consumeDeliveries(services, batch);
      return results[0];
    };
    world.d1.used();
    let wakeUps = 0;
    const early: number[] = [];
    const late: number[] = [];
    for (let fate = await consume(1); typeof fate === "object" && wakeUps < 200; wakeUps++) {
      world.clock.pass((fate.retryIn ?? 0) * 1_000);
      const now = world.clock.now();
      const rows = new Map((await storedRows()).map((row) => [row.eventId, row]));
      const before = world.receiver.calls.length;
      fate = await consume(2);
      for (const event of eventsTo(destination).slice(before)) {
        const { nextAttemptAt, log = [] } = rows.get(event) ?? {};
        const [at, waitedMs] = [nextAttemptAt ?? 0, (nextAttemptAt ?? 0) - (log.at(-1)?.at ?? 0)];
        if (now < at) early.push(event);
        if (now - at > 0.05 * waitedMs + 1_000) late.push(event);
      }
    }
    expect(await statesOf()).toEqual(Array(100).fill("dead"));
    expect(world.receiver.calls).toHaveLength(400);
    expect([early, late]).toEqual([[], []]);
    // Half of each wait is jitter: 20 windows of a twentieth of the wait hold all of it.
    expect(wakeUps).toBeLessThanOrEqual(3 * 20);
    const { rowsRead } = world.d1.used();
    console.log(`a hundred deliveries with four attempts each: ${wakeUps} wake-ups, ${rowsRead} rows read`);
    expect(rowsRead).toBeLessThanOrEqual(wakeUps * 250 + 1_500);
  });

  test("is replaced, before the platform dead-letters its message, by one that names only open deliveries", async () => {
    const destination = await newDestination(WIDE);
    const messages = await world.postBundles(100);
    const twice = [7, 8, 50].map((index) => eventAt(1, index));
    world.receiver.script(urlOf(destination), (call) => {
      const event = eventNumber(call.headers.get("webhook-id") ?? "") ?? 0;
      return new Response(null, { status: twice.includes(event) ? BUSY : 204 });
    });
    expect(await world.consume(messages, 90)).toEqual(["acked"]);
    const [next, ...others] = world.deliveryQueue.taken();
    expect(others).toEqual([]);
    expect(next).toEqual({
      body: { bundles: [{ bundle: 1, destinations: [destination], indexes: [7, 8, 50, 50] }] },
      delaySeconds: expect.any(Number),
    });
  });
});

describe("a wake-up", () => {
  test("takes what is due within a second of the first, or within a twentieth of its delay, and nothing later", () => {
    const at = (ms: number, slackMs = 1_000) => ({ at: ms, slackMs });
    expect(wakeUpAt([at(5_000)])).toBe(5_000);
    expect(wakeUpAt([at(5_000), at(5_900), at(6_001)])).toBe(5_900);
    expect(wakeUpAt([at(60_000, 3_000), at(62_900, 3_000), at(63_100, 3_000)])).toBe(62_900);
    // A delivery that may come a second late at most does not wait for others.
    expect(wakeUpAt([at(60_000, 3_000), at(60_500), at(62_900, 3_000)])).toBe(60_500);
  });
});

describe("a response that comes after its batch has ended", () => {
  test("has its retry in a separate message, which alone delivers it", async () => {
    const destination = await newDestination(WIDE);
    await world.earnTrust(destination);
    const messages = await world.postBundles(3);
    const bundle = parts(messages)[0]?.bundle ?? 0;
    const { script, end } = silence();
    world.receiver.script(urlOf(destination), (call) => {
      const event = eventNumber(call.headers.get("webhook-id") ?? "") ?? 0;
      if (indexOf(event) === 0 && typeof script === "function") return script(call);
      return new Response(null, { status: indexOf(event) === 1 ? BUSY : 204 });
    });
    const calls = world.receiver.calls.length;
    const delivered = world.consume(messages);
    await world.receiver.called(calls + 3);
    await calm();
    world.clock.pass(PATIENCE_MS);
    expect(await delivered).toEqual([{ retryIn: expect.any(Number) }]);
    end(BUSY);
    await world.settled();
    const own = world.deliveryQueue.taken().map(({ body }) => body);
    expect(own).toEqual([
      { bundles: [{ bundle, destinations: [destination], indexes: [0, 0] }], owner: expect.any(String) },
    ]);

    world.clock.pass(60_000);
    world.receiver.script(urlOf(destination), 204);
    const before = eventsTo(destination).length;
    // Each of the two messages delivers its own, in either order and in one batch.
    expect(await world.consume([...messages, ...own], 2)).toEqual(["acked", "acked"]);
    expect(eventsTo(destination).slice(before).map(indexOf).sort()).toEqual([0, 1]);
    expect(new Set(await statesOf())).toEqual(new Set(["delivered"]));
  });

  test("is not retried by the message of its bundle, unless it is overdue", async () => {
    const destination = await newDestination(WIDE);
    const { script, end } = silence();
    world.receiver.script(urlOf(destination), script);
    const messages = await world.postBundles();
    const delivered = world.consume(messages);
    await world.receiver.called(1);
    await calm();
    world.clock.pass(PATIENCE_MS);
    expect(await delivered).toEqual(["acked"]);
    end(BUSY);
    await world.settled();
    world.clock.pass(10_000);
    expect(await world.consume(messages, 2)).toEqual(["acked"]);
    expect(world.receiver.calls).toHaveLength(1);
    world.clock.pass(60_000);
    expect(await world.consume(messages, 2)).toEqual([{ retryIn: expect.any(Number) }]);
    expect(world.receiver.calls).toHaveLength(2);
    // The message of its last attempt delivers it: its former owner is acknowledged.
    const own = world.deliveryQueue.taken().map(({ body }) => body);
    expect(await world.consume(own, 2)).toEqual(["acked"]);
    expect(world.receiver.calls).toHaveLength(2);
  });
});

describe("the same delivery in two messages of a batch", () => {
  test("is one attempt, and the first message is the one that retries it", async () => {
    const destination = await newDestination(WIDE);
    world.receiver.script(urlOf(destination), BUSY);
    const [whole] = await world.postBundles(3);
    const part = messageFor({ eventId: eventAt(1, 1), destinationId: destination });
    expect(await world.consume([part, whole])).toEqual([
      { retryIn: expect.any(Number) },
      { retryIn: expect.any(Number) },
    ]);
    expect(world.receiver.calls).toHaveLength(3);
  });

  test("is one attempt when the same message comes to two invocations at once", async () => {
    await newDestination(WIDE);
    const messages = await world.postBundles(100);
    await Promise.all([world.consume(messages), world.consume(messages), world.consume(messages)]);
    expect(world.receiver.calls).toHaveLength(100);
    expect(await statesOf()).toEqual(Array(100).fill("delivered"));
  });
});

describe("a dead-lettered message", () => {
  const letDie = async (messages: readonly unknown[]) => {
    const { batch, results } = batchOf("breakwater-dead", messages, 100);
    await consumeDeadLetters(world.services, batch);
    await world.settled();
    return results;
  };

  test("leaves deliveries without an attempt waiting, and schedules a drain for them", async () => {
    const destination = await newDestination(WIDE);
    const messages = await world.postBundles(3);
    expect(await letDie(messages)).toEqual(["acked"]);
    expect(await storedRows()).toMatchObject(
      Array(3).fill({ state: "waiting", reason: "recovered", attempts: 0, nextAttemptAt: START }),
    );
    expect(await alarmOf(destination)).not.toBeNull();
    world.clock.pass(1_000);
    await world.drain(destination);
    expect(await statesOf()).toEqual(Array(3).fill("delivered"));
  });

  test("gives each attempted delivery a separate message, which may be poison", async () => {
    const destination = await newDestination(WIDE);
    world.receiver.script(urlOf(destination), BUSY);
    const messages = await world.postBundles(3);
    await world.consume(messages);
    await letDie(messages);
    expect(await statesOf()).toEqual(Array(3).fill("retrying"));
    const alone = world.deliveryQueue.taken().map(({ body }) => body);
    expect(parts(alone).map(({ indexes }) => indexes)).toEqual([
      [0, 0],
      [1, 1],
      [2, 2],
    ]);
    expect(alone).toHaveLength(3);
    await letDie(alone.slice(1, 2));
    expect(await storedRows()).toMatchObject([
      { state: "retrying" },
      { state: "dead", reason: "poison", attempts: 1 },
      { state: "retrying" },
    ]);
  });

  test("is not poison if another message of its batch names the rest of it", async () => {
    const destination = await newDestination(WIDE);
    world.receiver.script(urlOf(destination), BUSY);
    const [whole] = await world.postBundles(2);
    await world.consume([whole]);
    await letDie([messageFor({ eventId: eventAt(1, 0), destinationId: destination }), whole]);
    expect(await storedRows()).toMatchObject([{ state: "dead", reason: "poison" }, { state: "retrying" }]);
  });

  test("makes failing drains take fewer and fewer deliveries, and finally one", async () => {
    const destination = await newDestination({ ...WIDE, status: "paused" });
    const messages = await world.postBundles(60);
    await world.consume(messages);
    await execute("UPDATE destinations SET status = 'active'");
    const { batch } = batchOf("breakwater-drains", [{ destination, drains: 1 }], 4);
    await consumeDrains(world.services, batch);
    // This many leases of one delivery.
    expect(world.receiver.calls).toHaveLength(25);
    await consumeDrains(world.services, batchOf("breakwater-drains", [{ destination, drains: 1 }]).batch);
    expect(world.receiver.calls).toHaveLength(60);
  });
});

describe("bodies", () => {
  /** Does not compress: as large in the database as it was posted. */
  function noise(bytes: number): string {
    const random = seededRandom(bytes);
    return Array.from({ length: bytes }, () => String.fromCharCode(33 + Math.floor(random() * 90))).join("");
  }

  const held = ({ deliveries }: Awaited<ReturnType<typeof loadDeliveries>>) =>
    [...new Set(deliveries.map(({ event }) => event.body))].reduce(
      (sum, body) => sum + (body?.length ?? 0),
      0,
    );

  test("of ten full bundles are delivered by one batch, in few round trips", async () => {
    const destination = await newDestination(WIDE);
    await world.earnTrust(destination);
    const data = noise(120_000);
    const messages: DeliveryMessage[] = [];
    for (let i = 0; i < 10; i++) messages.push(...(await world.postBundles(4, { data })));
    world.d1.used();
    const before = world.receiver.calls.length;
    expect(await world.consume(messages)).toEqual(Array(messages.length).fill("acked"));
    expect(world.receiver.calls.length - before).toBe(40);
    expect(world.d1.used().roundTrips).toBeLessThanOrEqual(5);
  });

  test("that are too large together are loaded in portions, and all are delivered", async () => {
    const destination = await newDestination({ ...WIDE, status: "paused" });
    const data = noise(250_000);
    const messages: DeliveryMessage[] = [];
    for (let i = 0; i < 60; i++) messages.push(...(await world.postBundles(1, { data })));
    const first = await loadDeliveries(world.services, parts(messages));
    expect(held(first)).toBeLessThanOrEqual(HELD_BYTES);
    expect(first.deliveries.length + first.rest.length).toBe(60);
    const second = await loadDeliveries(world.services, first.rest);
    expect([held(second) <= HELD_BYTES, second.rest]).toEqual([true, []]);

    await world.consume(messages.slice(0, 10));
    for (let at = 10; at < 60; at += 10) await world.consume(messages.slice(at, at + 10));
    await execute("UPDATE destinations SET status = 'active'");
    await world.earnTrust(destination);
    await consumeDrains(world.services, batchOf("breakwater-drains", [{ destination, drains: 1 }]).batch);
    expect(new Set(await statesOf())).toEqual(new Set(["delivered"]));
  });

  test("of deliveries that are not due yet are not loaded", async () => {
    const destination = await newDestination(WIDE);
    const messages = [...(await world.postBundles(1)), ...(await world.postBundles(1))];
    world.receiver.script(urlOf(destination), BUSY);
    await world.consume(messages);
    await execute("UPDATE deliveries SET next_attempt_at = ?1 WHERE event_id = ?2", START, eventAt(2, 0));
    const { deliveries } = await loadDeliveries(world.services, parts(messages), {
      isDue: (row) => (row?.nextAttemptAt ?? 0) <= START,
      fewDueOf: new Set([1, 2]),
    });
    expect(deliveries.map(({ event }) => [bundleOf(event.id), typeof event.body])).toEqual([
      [1, "undefined"],
      [2, "object"],
    ]);
  });

  test.each([
    "x'00'",
    "substr(body, 1, 20)",
    "zeroblob(length(body))",
  ])("that are damaged (%s) take only the deliveries of their own bundle", async (damage) => {
    await newDestination(WIDE);
    const data = "a".repeat(1_000);
    const messages = [...(await world.postBundles(2, { data })), ...(await world.postBundles(2, { data }))];
    await execute(`UPDATE bundles SET body = ${damage} WHERE id = 1`);
    expect(await world.consume(messages)).toEqual(["acked", "acked"]);
    expect((await storedRows()).map(({ state, reason }) => [state, reason])).toEqual([
      ["dead", "corrupt"],
      ["dead", "corrupt"],
      ["delivered", null],
      ["delivered", null],
    ]);
  });
});
