/** A requeued delivery is a new generation: an outcome of the old one cannot end it. */

import { beforeEach, expect, test } from "vitest";
import type { DeliveryRow } from "../../src/store/delivery.ts";
import { recordOutcomes } from "../../src/store/record.ts";
import { requeueOne } from "../support/requeue.ts";
import { newDestination, newWorld, storedRows, urlOf, type World } from "../support/world.ts";

let world: World;
let destination: string;
let dead: DeliveryRow;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination({ retry: { schedule: [60, 60], max_attempts: 2 } });
  world.receiver.script(urlOf(destination), 500);
  const messages = await world.post();
  await world.consume(messages);
  world.clock.pass(120_000);
  await world.consume(messages);
  [dead] = (await storedRows()) as [DeliveryRow];
  await requeueOne(world.services, dead, world.clock.now() + 3_600_000);
});

const row = async () => (await storedRows())[0];

test("a delivery is dead when its attempts are used up", () => {
  expect(dead).toMatchObject({ state: "dead", reason: "exhausted", attempts: 2 });
});

test("a requeued delivery is not ended by a repeated outcome of its former generation", async () => {
  await recordOutcomes(world.services, [dead], [], world.clock.now());
  expect(await row()).toMatchObject({ state: "waiting", reason: "retried", attempts: 0 });
});

test("a dead delivery is requeued only once, however often that is requested", async () => {
  const limit = world.clock.now() + 7_200_000;
  expect(await requeueOne(world.services, dead, limit)).toBeUndefined();
  expect(await row()).toMatchObject({
    state: "waiting",
    generation: 1,
    firstAttemptAt: null,
    giveUpAt: limit - 3_600_000,
  });
});

test("a requeued delivery is sent with the same bytes, and has all of its attempts again", async () => {
  const { gates } = world.services;
  await gates.get(gates.idFromName(destination)).scheduleDrain();
  await world.drain(destination);
  expect(await row()).toMatchObject({ state: "retrying", attempts: 1, log: [{}, {}, { status: 500 }] });
  const [first, , third] = world.receiver.calls;
  expect(third?.body).toBe(first?.body);
  expect(third?.headers.get("webhook-id")).toBe(first?.headers.get("webhook-id"));
  expect(third?.headers.get("webhook-attempt")).toBe("1");
});

async function sendWaiting(): Promise<void> {
  const { gates } = world.services;
  await gates.get(gates.idFromName(destination)).scheduleDrain();
  await world.drain(destination);
  await world.settled();
}

test("a requeued delivery ends when it is delivered, and may be sent again", async () => {
  world.receiver.script(urlOf(destination), 204);
  await sendWaiting();
  expect(await row()).toMatchObject({ state: "delivered", attempts: 1, generation: 1 });
  const limit = world.clock.now() + 7_200_000;
  expect(await requeueOne(world.services, dead, limit)).toMatchObject({ state: "waiting", generation: 2 });
  await sendWaiting();
  expect(await row()).toMatchObject({ state: "delivered", attempts: 1, generation: 2 });
  expect(world.receiver.calls).toHaveLength(4);
});

test("a delivery of a pack that is sent again has the same bytes, whatever late repeats come", async () => {
  world.receiver.script(urlOf(destination), 204);
  await sendWaiting();
  const messages = await world.post();
  await world.consume(messages);
  const delivered = (await storedRows()).find(({ generation }) => generation === 0) as DeliveryRow;
  expect(delivered).toMatchObject({ state: "delivered", attempts: 1 });
  await requeueOne(world.services, delivered, world.clock.now() + 7_200_000);
  const before = world.receiver.calls.length;
  await world.consume(messages);
  await recordOutcomes(world.services, [delivered], [], world.clock.now());
  const again = async () => (await storedRows()).find(({ eventId }) => eventId === delivered.eventId);
  expect(await again()).toMatchObject({
    state: "waiting",
    reason: "retried",
    generation: 1,
    log: [{ status: 204 }],
  });
  expect(world.receiver.calls).toHaveLength(before);
  await sendWaiting();
  expect(await again()).toMatchObject({
    state: "delivered",
    attempts: 1,
    log: [{ status: 204 }, { status: 204 }],
  });
  const [first, second] = world.receiver.calls.slice(-2);
  expect(second?.body).toBe(first?.body);
  expect(second?.headers.get("webhook-id")).toBe(first?.headers.get("webhook-id"));
});
