/** A delivery in flight whose Worker has died: its message comes again, when the delivery is overdue or before. */
import { beforeEach, describe, expect, test } from "vitest";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { consumeDrains } from "../../src/upkeep.ts";
import { type FaultyRuntime, faultyRuntime } from "../support/faulty-runtime.ts";
import { batchOf } from "../support/queues.ts";
import {
  execute,
  gateOf,
  messageFor,
  newDestination,
  newWorld,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

/** Longer than any lease. */
const LEASE_MS = 120_000;
const HOUR_MS = 3_600_000;

let world: World;
let runtime: FaultyRuntime;
let destination: string;
let messages: readonly unknown[];

/** The Worker dies as soon as it has recorded that the attempt is in flight. */
beforeEach(async () => {
  world = await newWorld();
  runtime = faultyRuntime(world);
  destination = await newDestination();
  world.receiver.script(urlOf(destination), after4s, 204);
  messages = (await world.post()).map((name) => messageFor(name));
  expect(await deliveredUntilRecorded()).toEqual(["left"]);
  expect(await storedRows()).toMatchObject([{ state: "retrying", reason: "in_flight", attempts: 0 }]);
});

const after4s = () => world.clock.sleep(4_000).then(() => new Response(null, { status: 204 }));

async function delivered() {
  const { batch, results } = batchOf("breakwater-deliveries", messages);
  await runtime.invoke("consume", (services) => consumeDeliveries(services, batch));
  return results;
}

async function deliveredUntilRecorded() {
  runtime.failNext((call) => /INSERT INTO (packs|deliveries)/.test(call), "crash");
  const results = await delivered();
  runtime.stopFailing();
  return results;
}

const deleteDestination = () =>
  execute("UPDATE destinations SET deleted_at = ?2 WHERE id = ?1", destination, world.clock.now());

describe("once it is overdue", () => {
  beforeEach(() => world.clock.pass(LEASE_MS));

  test("is sent again", async () => {
    expect(await delivered()).toEqual(["acked"]);
    expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
    expect(world.receiver.to(urlOf(destination))).toHaveLength(2);
  });

  test("waits when the gate refuses it, and a drain delivers it", async () => {
    const until = world.clock.now() + HOUR_MS;
    await gateOf(destination).hold(until);
    expect(await delivered()).toEqual(["acked"]);
    expect(await storedRows()).toMatchObject([{ state: "waiting", reason: "hold", nextAttemptAt: until }]);

    await gateOf(destination).clearHold();
    world.clock.pass(1_000);
    const { batch } = batchOf("breakwater-drains", await world.ring(destination));
    await runtime.invoke("drain", (services) => consumeDrains(services, batch));
    expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
  });

  test("is cancelled when its destination has been deleted", async () => {
    await deleteDestination();
    expect(await delivered()).toEqual(["acked"]);
    expect(await storedRows()).toMatchObject([{ state: "cancelled", reason: "destination_deleted" }]);
    expect(world.receiver.to(urlOf(destination))).toHaveLength(1);
  });

  test("is in flight with a new time when its next sender is lost too", async () => {
    world.receiver.script(urlOf(destination), after4s);
    await deliveredUntilRecorded();
    const [row] = await storedRows();
    expect(row).toMatchObject({ state: "retrying", reason: "in_flight", attempts: 0 });
    expect(row?.nextAttemptAt).toBeGreaterThan(world.clock.now());
  });
});

test("is not cancelled with its destination before it is overdue: its message comes again then", async () => {
  const [before] = await storedRows();
  await deleteDestination();
  const [result] = await delivered();
  const dueInMs = (before?.nextAttemptAt ?? 0) - world.clock.now();
  expect(result).toMatchObject({ retryIn: expect.closeTo(dueInMs / 1000, -1) });
  expect(await storedRows()).toEqual([before]);
});
