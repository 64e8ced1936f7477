/** Deliveries over three databases: attempts, waiting, sweeps and ends, and failures between two databases. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, type DeliveryKey } from "../../src/core/bundle.ts";
import { databaseNumberOf, databaseNumberOfBundle } from "../../src/core/placement.ts";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import { runCron } from "../../src/upkeep.ts";
import { accept } from "../support/accept.ts";
import { rowsOfAll } from "../support/databases.ts";
import { operationalEvents } from "../support/operational.ts";
import { batchOf } from "../support/queues.ts";
import {
  execute,
  GRACE_MS,
  messageFor,
  named,
  newDestination,
  newWorld,
  statusOf,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

const MINUTE = 60_000;
const EVENTS = 18;

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

/** Posts one event a minute, and takes their messages off the queue. */
async function postAll(deliverAt?: number): Promise<DeliveryKey[]> {
  for (let i = 0; i < EVENTS; i++) {
    await accept(world.services, [{ tenant: TENANT, type: "order.paid", data: i, deliverAt }]);
    await world.settled();
    world.clock.pass(MINUTE);
  }
  return named(world.deliveryQueue.taken().map(({ body }) => body));
}

/** Two deliveries of each database. */
const sixOf = (messages: readonly DeliveryKey[]) => messages.filter((_, i) => i % 3 === 0);

const statesOf = async () => (await storedRows()).map(({ state }) => state);
const all = (state: string) => Array(EVENTS).fill(state);

/** Schedules drains and runs them until nothing waits, at most so often. */
async function drainAll(times = 12): Promise<void> {
  for (let i = 0; i < times && (await statesOf()).includes("waiting"); i++) {
    await world.drain(destination);
    await world.settled();
    world.clock.pass(MINUTE);
  }
}

test("a batch with messages of all databases takes two round trips to each, and no more rows than with one", async () => {
  const messages = await postAll();
  expect(new Set(messages.map(({ eventId }) => databaseNumberOf(eventId)))).toEqual(new Set([0, 1, 2]));
  world.d1.used();
  await world.consume(messages);
  expect(await statesOf()).toEqual(all("delivered"));
  expect(world.d1.used()).toMatchObject({ roundTrips: 6, rowsWritten: EVENTS });
  await world.consume(messages);
  expect(world.d1.used()).toMatchObject({ roundTrips: 3, rowsWritten: 0 });
  expect(world.receiver.calls).toHaveLength(EVENTS);
});

test("failed deliveries are retried, whichever database they are in", async () => {
  const messages = await postAll();
  world.receiver.script(urlOf(destination), ...Array(3).fill(500), 204);
  for (let round = 0; round < 12; round++) {
    await world.consume(messages);
    await world.settled();
    world.clock.pass(5 * MINUTE);
    await drainAll(3);
  }
  expect(await statesOf()).toEqual(all("delivered"));
});

test("a paused destination's deliveries wait in their databases, and one drain takes them from all", async () => {
  const messages = await postAll();
  await execute("UPDATE destinations SET status = 'paused'");
  await world.consume(messages);
  expect(await statesOf()).toEqual(all("waiting"));
  await execute("UPDATE destinations SET status = 'active'");
  await sweep.run(world.services);
  const calls = world.receiver.calls.length;
  await world.drain(destination);
  await world.settled();
  const sent = world.receiver.calls.length - calls;
  expect(sent).toBeGreaterThan(1);
  await drainAll();
  expect(await statesOf()).toEqual(all("delivered"));
});

test("lost deliveries are recovered in every database, and each event is checked once", async () => {
  await postAll();
  world.clock.pass(GRACE_MS);
  await sweep.run(world.services);
  expect(await statesOf()).toEqual(all("waiting"));
  await drainAll();
  expect(await statesOf()).toEqual(all("delivered"));
  const marks = await rowsOfAll<{ watermark: number }>("SELECT watermark FROM sweeps");
  expect(marks.map(({ watermark }) => databaseNumberOfBundle(watermark))).toEqual([0, 1, 2]);
});

test("retries without a message wait again", async () => {
  const messages = await postAll();
  await execute("UPDATE destinations SET retry = ?1", JSON.stringify({ preset: "textbook" }));
  world.receiver.script(urlOf(destination), 503);
  await world.consume(messages);
  world.receiver.script(urlOf(destination), 204);
  world.clock.pass(60 * MINUTE);
  await sweep.run(world.services);
  expect(new Set(await statesOf())).toEqual(new Set(["waiting"]));
  await drainAll();
  expect(await statesOf()).toEqual(all("delivered"));
});

test("scheduled events are enqueued at their time from every database", async () => {
  const at = world.clock.now() + 60 * MINUTE;
  expect(await postAll(at)).toEqual([]);
  world.clock.pass(60 * MINUTE - EVENTS * MINUTE - 30_000);
  await sweep.run(world.services);
  const messages = await named(world.deliveryQueue.taken().map(({ body }) => body));
  expect(messages).toHaveLength(EVENTS);
  await sweep.run(world.services);
  expect(world.deliveryQueue.taken()).toEqual([]);
});

test("waiting deliveries of a deleted destination are cancelled in every database", async () => {
  const messages = await postAll();
  await execute("UPDATE destinations SET status = 'paused'");
  await world.consume(messages);
  await execute("UPDATE destinations SET deleted_at = 1");
  await sweep.run(world.services);
  await world.answer(world.drainQueue.taken().map(({ body }) => body));
  expect(await statesOf()).toEqual(all("cancelled"));
});

test("waiting deliveries expire in every database", async () => {
  const messages = await postAll();
  await execute("UPDATE destinations SET status = 'paused'");
  await world.consume(messages);
  world.clock.pass(100 * 24 * 60 * MINUTE);
  await sweep.run(world.services);
  expect(await statesOf()).toEqual(all("dead"));
});

test("a 410 pauses its destination from any database", async () => {
  for (const message of sixOf(await postAll())) {
    const fresh = await newDestination();
    world.receiver.script(urlOf(fresh), 410);
    const plan = JSON.stringify({ [fresh]: [0, 0] });
    await execute("UPDATE bundles SET plan = ?1 WHERE id = ?2", plan, bundleOf(message.eventId));
    await world.consume([{ ...message, destinationId: fresh }]);
    expect(await statusOf(fresh)).toEqual(["paused", "gone"]);
  }
});

describe("when one database fails while outcomes are recorded", () => {
  test.each([
    "before",
    "after",
  ] as const)("%s it has written, all outcomes are recorded in the end", async (fault) => {
    const messages = await postAll();
    let failures = 0;
    world.d1.failing((sql) => (sql.includes("INSERT INTO packs") && failures++ === 1 ? fault : undefined));
    const brought = world.consume(messages);
    await world.clock.asleep(188);
    world.clock.pass(188);
    await brought;
    expect(failures).toBeGreaterThan(3);
    expect(await statesOf()).toEqual(all("delivered"));
    expect((await storedRows()).map(({ attempts }) => attempts)).toEqual(Array(EVENTS).fill(1));
    expect(world.receiver.calls).toHaveLength(EVENTS);
  });

  test("and keeps failing, its messages are redelivered and the deliveries of others are not sent again", async () => {
    const messages = await postAll();
    const isAway = messages.map(({ eventId }) => databaseNumberOfBundle(bundleOf(eventId)) === 1);
    const [away, ...others] = world.services.further ?? [];
    const broken = {
      ...away,
      batch: () => Promise.reject(new Error("D1_ERROR: away")),
    } as unknown as D1Database;
    const { batch, results } = batchOf("breakwater-deliveries", messages.map(messageFor));
    await consumeDeliveries({ ...world.services, further: [broken, ...others] }, batch);
    expect(results.map((fate) => typeof fate === "object")).toEqual(isAway);
    expect(isAway).toContain(true);
    expect(world.receiver.calls).toHaveLength(isAway.filter((away) => !away).length);
    world.clock.pass(MINUTE);
    await world.consume(messages);
    await world.settled();
    await drainAll();
    expect(await statesOf()).toEqual(all("delivered"));
    expect(world.receiver.calls).toHaveLength(EVENTS);
  });
});

test("old events are removed from every database, except its newest one", async () => {
  await world.consume(await postAll());
  world.clock.pass(40 * 24 * 60 * MINUTE);
  await runCron(world.services);
  const left = await rowsOfAll<{ id: number }>("SELECT id FROM bundles");
  expect(left.map(({ id }) => databaseNumberOfBundle(id))).toEqual([0, 1, 2]);
  expect(await storedRows()).toHaveLength(3);
});

test("a pause that is written before another database fails is published once", async () => {
  await newDestination({ tenant: "operator" });
  const messages = await postAll();
  world.receiver.script(urlOf(destination), 410);
  let faults = 1;
  world.d1.failing((sql) => {
    const isAnother = sql.includes("INSERT INTO packs") && !sql.includes("UPDATE destinations");
    return isAnother && faults-- > 0 ? "before" : undefined;
  });
  const brought = world.consume(sixOf(messages));
  await world.clock.asleep(188);
  world.clock.pass(188);
  await brought;
  await world.settled();
  expect(world.logged("record_failed")).toHaveLength(1);
  expect(await statusOf(destination)).toEqual(["paused", "gone"]);
  expect(await operationalEvents(env.DB)).toMatchObject([{ type: "destination.paused" }]);
  expect(world.logged("destination_paused")).toMatchObject([{ destination, reason: "gone" }]);
});
