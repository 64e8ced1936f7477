/** Order by key: the deliveries of a line are made one after the other, and a line never stops without a reason. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { attemptWaiting } from "../../src/delivery/message-group.ts";
import { replaying } from "../../src/features/replays/job.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import { blockedLines, skipHeld } from "../../src/store/lines.ts";
import { beginReplay } from "../../src/store/replay-steps.ts";
import { expireWaiting } from "../../src/store/waiting.ts";
import { runCron } from "../../src/upkeep.ts";
import { requeueOne } from "../support/requeue.ts";
import {
  alarmOf,
  execute,
  newDestination,
  newWorld,
  rowOf,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const keyed = (orderingKey: string, n: number) => ({
  data: { n, key: orderingKey },
  options: { orderingKey },
});

/** Posts an event with the key; returns its messages. */
async function post(key: string, n: number): Promise<DeliveryMessage[]> {
  return world.postBundles(1, keyed(key, n));
}

/** The numbers of the events that were sent to the destination, in order. */
const sentTo = (destination: string) =>
  world.receiver
    .to(urlOf(destination))
    .map(({ body }) => (JSON.parse(body) as { data: { n: number } }).data.n);

async function lines(): Promise<number> {
  return (await env.DB.prepare("SELECT count(*) AS n FROM lines").first<number>("n")) ?? -1;
}

/** Consumes what is on the queue until nothing is. */
async function consumeAll(): Promise<void> {
  for (let taken = world.deliveryQueue.taken(); taken.length > 0; taken = world.deliveryQueue.taken()) {
    await world.consume(taken.map(({ body }) => body));
    await world.settled();
  }
}

describe("a destination that orders by key", () => {
  let destination: string;
  beforeEach(async () => {
    destination = await newDestination({ ordering: "key", retry: { schedule: [60], max_attempts: 2 } });
  });

  test("gets the events of a key one after the other in one batch", async () => {
    const messages = [...(await post("a", 1)), ...(await post("a", 2)), ...(await post("a", 3))];
    await world.consume(messages.toReversed());
    await world.settled();
    expect(sentTo(destination)).toEqual([1, 2, 3]);
    expect(world.receiver.mostOpen()).toBe(1);
    expect(await lines()).toBe(0);
  });

  test("gets the events of one request in their order, and those of other keys beside them", async () => {
    const bundles = await world.postBundles(5, keyed("a", 0));
    await world.consume([...bundles, ...(await post("b", 9))]);
    expect(sentTo(destination)).toHaveLength(6);
    expect(await lines()).toBe(0);
  });

  test("does not get an event whose message comes before that of the previous event", async () => {
    const first = await post("a", 1);
    const second = await post("a", 2);
    world.d1.used();
    world.gates.called();
    expect(await world.consume(second)).toEqual(["acked"]);
    expect(world.d1.used()).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    expect(world.gates.called()).toEqual([]);
    expect(sentTo(destination)).toEqual([]);
    await world.consume(first);
    await world.settled();
    expect(sentTo(destination)).toEqual([1]);
    await consumeAll();
    expect(sentTo(destination)).toEqual([1, 2]);
    expect(await lines()).toBe(0);
  });

  test("holds back a key behind a failure, and no other key", async () => {
    world.receiver.script(urlOf(destination), 500, 204);
    await world.consume([...(await post("a", 1)), ...(await post("a", 2))]);
    await world.consume(await post("b", 3));
    await world.settled();
    expect(sentTo(destination)).toEqual([1, 3]);
    const [a1] = await storedRows();
    expect(a1).toMatchObject({ state: "retrying" });
    expect(await rowOf({ destinationId: destination, eventId: (a1?.eventId ?? 0) + 128 })).toBeUndefined();
  });

  test("skips a dead event by default", async () => {
    world.receiver.script(urlOf(destination), 400, 204);
    await world.consume([...(await post("a", 1)), ...(await post("a", 2))]);
    await world.settled();
    await consumeAll();
    expect(sentTo(destination)).toEqual([1, 2]);
    expect(await lines()).toBe(0);
  });

  test("does not order events without a key, or scheduled ones", async () => {
    await world.postBundles(1, { data: { n: 1 } });
    expect(await lines()).toBe(0);
  });

  test("costs two more rows for each delivery and no call if nothing is behind another", async () => {
    const plain = await newDestination({ eventTypes: ["plain"] });
    await world.post(1, { type: "nobody.asked" });
    const costOf = async (type: string, options?: { orderingKey: string }) => {
      world.d1.used();
      world.gates.called();
      const bundles = await world.postBundles(1, { type, data: {}, ...(options && { options }) });
      const posted = world.d1.used();
      await world.consume(bundles);
      await world.settled();
      return { posted, consumed: world.d1.used(), gates: world.gates.called() };
    };
    await env.DB.prepare("UPDATE destinations SET event_types = '[\"order\"]' WHERE id = ?1")
      .bind(destination)
      .run();
    await costOf("plain");
    const without = await costOf("plain");
    await costOf("order", { orderingKey: "a" });
    const ordered = await costOf("order", { orderingKey: "a" });
    console.log("cost of an ordered delivery", JSON.stringify({ without, ordered, plain }));
    expect(ordered.posted.roundTrips).toBe(without.posted.roundTrips);
    expect(ordered.consumed.roundTrips).toBe(without.consumed.roundTrips);
    expect(ordered.gates).toEqual(without.gates);
    expect(
      ordered.posted.rowsWritten +
        ordered.consumed.rowsWritten -
        without.posted.rowsWritten -
        without.consumed.rowsWritten,
    ).toBe(2);
  });
});

test("costs unordered deliveries no row, call or query", async () => {
  await newDestination();
  const run = async () => {
    await world.post(1, { type: "warm.up" });
    world.d1.used();
    world.gates.called();
    const messages = await world.post();
    const posted = world.d1.used();
    await world.consume(messages);
    await world.settled();
    return { posted, consumed: world.d1.used(), gates: world.gates.called() };
  };
  const among = await run();
  const names = "('deliveries_leave_line', 'packs_inserted_leave_line', 'packs_leave_line', 'bundles_lined')";
  const { results: triggers } = await env.DB.prepare(
    `SELECT name, sql FROM sqlite_master WHERE name IN ${names}`,
  ).all<Record<"name" | "sql", string>>();
  expect(triggers).toHaveLength(4);
  for (const { name } of triggers) await execute(`DROP TRIGGER ${name}`);
  const without = await run().finally(async () => {
    for (const { sql } of triggers) await execute(sql);
  });
  expect(among).toEqual(without);
  expect(among.posted.rowsWritten + among.consumed.rowsWritten).toBe(2);
});

describe("a line", () => {
  let destination: string;
  /** Three events, of which the first has failed for now, and the others have been acknowledged. */
  beforeEach(async () => {
    destination = await newDestination({
      ordering: "destination",
      retry: { schedule: [60], max_attempts: 5 },
    });
    world.receiver.script(urlOf(destination), 500, 204);
    await world.consume([...(await post("a", 1)), ...(await post("b", 2)), ...(await post("c", 3))]);
    await world.settled();
    expect(sentTo(destination)).toEqual([1]);
  });

  const head = async () => (await storedRows()).find(({ endedAt }) => endedAt === null);

  test("continues when its head is cancelled", async () => {
    const first = await head();
    await execute(
      "UPDATE deliveries SET state = 'cancelled', ended_at = 1 WHERE event_id = ?1",
      first?.eventId,
    );
    expect(await head()).toMatchObject({ state: "waiting", reason: "order", attempts: 0 });
    expect(await lines()).toBe(2);
  });

  test("continues when its head expires", async () => {
    await execute("UPDATE deliveries SET state = 'waiting', give_up_at = 1");
    await expireWaiting(env.DB, { destinationId: "", eventId: 0 }, world.clock.now(), 10);
    expect(await head()).toMatchObject({ state: "waiting", reason: "order" });
  });

  test("continues by the sweep alone when every message is lost", async () => {
    world.deliveryQueue.taken();
    for (let minute = 0; minute < 30 && (await lines()) > 0; minute++) {
      world.clock.pass(60_000);
      await runCron(world.services);
      await world.settled();
      await world.drain(destination);
      await world.settled();
      world.deliveryQueue.taken();
    }
    expect(sentTo(destination)).toEqual([1, 1, 2, 3]);
    expect(await lines()).toBe(0);
  });

  test("ends with its bundles, and when its destination is deleted", async () => {
    await execute("UPDATE destinations SET deleted_at = 1");
    await execute("UPDATE deliveries SET state = 'waiting'");
    for (let i = 0; i < 3; i++) await world.answer([{ destination, drains: 1 }]);
    await world.settled();
    expect(await lines()).toBe(0);
    expect((await storedRows()).map(({ state }) => state)).toEqual(["cancelled", "cancelled", "cancelled"]);
  });

  test("loses the events that are removed", async () => {
    await execute("DELETE FROM bundles");
    expect(await lines()).toBe(0);
  });
});

test("a long line expires while its destination is paused", async () => {
  await newDestination({ ordering: "destination", status: "paused" });
  for (let i = 0; i < 3; i++)
    await world.consume(await world.postBundles(60, { options: { ttlSeconds: 60 } }));
  await world.consume(await world.postBundles(1));
  await world.settled();
  const states = async () => {
    const all = Object.groupBy(await storedRows(), ({ state }) => state);
    return Object.entries(all).map(([state, rows]) => [state, rows?.length]);
  };
  expect(await states()).toEqual([["waiting", 1]]);
  world.clock.pass(61_000);
  for (let minute = 0; minute < 2; minute++) {
    await runCron(world.services);
    await world.settled();
    world.clock.pass(60_000);
  }
  expect(await states()).toEqual([
    ["dead", 180],
    ["waiting", 1],
  ]);
  expect(await lines()).toBe(1);
});

describe("a destination that holds keys", () => {
  let destination: string;
  beforeEach(async () => {
    destination = await newDestination({ ordering: "key", orderingPath: "data.key", onDead: "hold" });
    world.receiver.script(urlOf(destination), 400, 204);
    await world.consume([...(await post("a", 1)), ...(await post("a", 2))]);
    await world.settled();
    await consumeAll();
    expect(sentTo(destination)).toEqual([1]);
  });

  const dead = async () => (await storedRows()).filter(({ state }) => state === "dead")[0];

  test("shows the key as blocked by a dead delivery, and no other key", async () => {
    await post("b", 3);
    const { lines: blocked, upto } = await blockedLines(env.DB, destination, "");
    expect(blocked).toMatchObject([{ isHeld: true, behind: 1, head: { state: "dead" } }]);
    expect(upto).toBeUndefined();
  });

  test("reports the head that expires in the sweep, and holds its key", async () => {
    await post("b", 3);
    const event = (await env.DB.prepare("SELECT max(event_id) AS n FROM lines").first<number>("n")) ?? 0;
    await execute(
      "INSERT INTO deliveries (destination_id, event_id, state, give_up_at) VALUES (?1, ?2, 'waiting', 1)",
      ...[destination, event],
    );
    const held: unknown[] = [];
    const notify: World["services"]["notify"] = async (_, news) => void held.push(...(news.held ?? []));
    await runCron({ ...world.services, notify });
    await world.settled();
    expect(held).toMatchObject([{ event, destination: { id: destination } }]);
    expect(await rowOf({ destinationId: destination, eventId: event })).toMatchObject({ state: "dead" });
  });

  test("lets what stands behind a dead delivery expire, and no other key wait for that", async () => {
    await world.consume(await world.postBundles(2, { ...keyed("a", 3), options: { ttlSeconds: 60 } }));
    await world.consume(await post("a", 4));
    expect(await lines()).toBe(5);
    world.clock.pass(61_000);
    await runCron(world.services);
    await world.settled();
    expect((await storedRows()).map(({ state, reason }) => [state, reason])).toEqual([
      ["dead", "permanent"],
      ["dead", "expired"],
      ["dead", "expired"],
    ]);
    expect(world.logged("deliveries_dead")).toMatchObject([{ destination, deliveries: 2 }]);
    expect(sentTo(destination)).toEqual([1]);
  });

  test("cancels what stands behind a dead delivery some minutes after it was deleted", async () => {
    await execute("UPDATE destinations SET deleted_at = ?1", world.clock.now());
    world.clock.pass(180_000);
    await runCron(world.services);
    await world.settled();
    expect((await storedRows()).map(({ state, reason }) => [state, reason])).toEqual([
      ["dead", "permanent"],
      ["cancelled", "destination_deleted"],
    ]);
  });

  test("continues when the dead delivery is retried with success", async () => {
    const first = await dead();
    if (!first) throw new Error("It is dead");
    await requeueOne(world.services, first as never, world.clock.now() + 3_600_000);
    await attemptWaiting(world.services, [first]);
    await consumeAll();
    expect(sentTo(destination)).toEqual([1, 1, 2]);
    expect(await lines()).toBe(0);
  });

  test("continues when the dead delivery is skipped, once", async () => {
    const first = await dead();
    if (!first) throw new Error("It is dead");
    const next = await skipHeld(world.services, first);
    expect(next).toHaveLength(1);
    expect(await skipHeld(world.services, first)).toBeUndefined();
    await attemptWaiting(world.services, next ?? []);
    await consumeAll();
    expect(sentTo(destination)).toEqual([1, 2]);
    expect(await lines()).toBe(0);
  });
});

describe("a replay to an ordered destination", () => {
  const KEPT = { ms: 30 * 86_400_000, types: {} };
  let replays = 0;

  /** Begins a replay and makes one step of it. */
  async function replay(destination: string, include: "dead" | "delivered" | "missing"): Promise<void> {
    const now = world.clock.now();
    const id = `rpl_order${++replays}`;
    const at = { createdAt: now, updatedAt: now, nextStepAt: now };
    const range = { since: 0, until: now + 1, ratePerMinute: 1_000, pace: 1_000 };
    const job = { id, tenant: TENANT, destinationId: destination, include };
    const all = { first: 1, last: Number.MAX_SAFE_INTEGER };
    await beginReplay(env.DB, { ...job, ...range, state: "running", ...at }, all, 10_000, KEPT);
    await replaying.step(world.services, id);
    await world.settled();
  }

  async function drainAll(destination: string): Promise<void> {
    for (let round = 0; round < 20 && (await lines()) > 0; round++) {
      await world.answer([{ destination, drains: 1 }]);
      await world.settled();
      world.clock.pass(61_000);
      await consumeAll();
    }
  }

  const retry = { schedule: [60], max_attempts: 5 };

  test("keeps the order within itself, through a failure, and holds up no new event", async () => {
    const destination = await newDestination({ ordering: "key", retry });
    await world.consume(await world.postBundles(5, keyed("a", 1)));
    for (let n = 2; n <= 6; n++) await world.consume(await post("a", n));
    await world.settled();
    const before = sentTo(destination).length;
    const sent = () => sentTo(destination).slice(before);
    world.clock.pass(61_000);
    await replay(destination, "delivered");
    expect(await lines()).toBe(10);
    expect((await env.DB.prepare("SELECT DISTINCT line FROM lines").all()).results).toHaveLength(1);
    world.receiver.script(urlOf(destination), 204, 204, 500, 204);
    const fresh = await post("a", 7);
    await world.answer([{ destination, drains: 1 }]);
    await world.consume(fresh);
    await world.settled();
    expect(sent()).toEqual([1, 1, 1, 7]);
    await drainAll(destination);
    expect(sent()).toEqual([1, 1, 1, 7, 1, 1, 1, 2, 3, 4, 5, 6]);
    expect(await lines()).toBe(0);
  });

  test("keeps that order again when it is repeated, and when a dead delivery holds its key", async () => {
    const destination = await newDestination({ ordering: "key", onDead: "hold", retry });
    world.receiver.script(urlOf(destination), 204, 400, 204);
    for (let n = 1; n <= 3; n++) await world.consume(await post("a", n));
    await world.settled();
    await consumeAll();
    world.clock.pass(61_000);
    await replay(destination, "delivered");
    await drainAll(destination);
    world.clock.pass(61_000);
    await replay(destination, "dead");
    expect(await lines()).toBe(3);
    await drainAll(destination);
    expect(sentTo(destination)).toEqual([1, 2, 1, 2, 3]);
    expect(await lines()).toBe(0);
  });

  test("has no drain come at once while its first delivery is retried", async () => {
    const destination = await newDestination({ ordering: "key", retry });
    for (let n = 1; n <= 3; n++) await world.consume(await post("a", n));
    await world.settled();
    world.clock.pass(61_000);
    world.receiver.script(urlOf(destination), 500, 204);
    await replay(destination, "delivered");
    for (let round = 0; round < 2; round++) {
      await world.drain(destination);
      await world.settled();
      expect(sentTo(destination)).toEqual([1, 2, 3, 1]);
      expect(await alarmOf(destination)).toBeGreaterThan(world.clock.now());
      world.clock.pass(2_000);
    }
    await drainAll(destination);
    expect(sentTo(destination)).toEqual([1, 2, 3, 1, 1, 2, 3]);
  });

  test("sends other keys that a long one hides from drains", async () => {
    const destination = await newDestination({ ordering: "key", retry, ratePerSecond: 500, rateBurst: 500 });
    const postSixty = async () => {
      for (let n = 0; n < 12; n++) await world.consume(await world.postBundles(5, keyed("a", 1)));
    };
    await postSixty();
    await world.consume(await world.postBundles(3, keyed("b", 2)));
    await postSixty();
    await world.settled();
    await consumeAll();
    const before = sentTo(destination).length;
    expect([before, await lines()]).toEqual([123, 0]);
    world.clock.pass(61_000);
    world.receiver.script(urlOf(destination), 500, 204);
    await replay(destination, "delivered");
    for (let round = 0; round < 12; round++) {
      world.services.background(world.drain(destination));
      await world.settledThroughPauses();
      world.clock.pass(2_000);
    }
    expect(sentTo(destination).slice(before)).toEqual([1, 2, 2, 2]);
  });

  test("keeps the order of missing events if all of a destination are in one line", async () => {
    await newDestination({ eventTypes: ["order.paid"] });
    for (let n = 1; n <= 3; n++) await post("a", n);
    world.clock.pass(61_000);
    const destination = await newDestination({ ordering: "destination", retry });
    await replay(destination, "missing");
    expect(await lines()).toBe(3);
    world.receiver.script(urlOf(destination), 500, 204);
    await drainAll(destination);
    expect(sentTo(destination)).toEqual([1, 1, 2, 3]);
    expect(await lines()).toBe(0);
  });
});

test("fifty thousand events behind one key cost a message a bounded number of rows", async () => {
  const destination = await newDestination({ ordering: "destination" });
  const [first, ...rest] = [await post("a", 1), await post("a", 2)];
  await execute(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
     INSERT INTO lines SELECT ?1, '*', 1000000 + i, 9e15, 0 FROM n`,
    destination,
  );
  world.d1.used();
  await world.consume(rest.flat());
  expect(world.d1.used().rowsRead).toBeLessThanOrEqual(30);
  await world.consume(first);
  await world.settled();
  expect(world.d1.used().rowsRead).toBeLessThanOrEqual(200);
});

test("a hundred thousand keys cost a message, a page of blocked keys and a drain a bounded number of rows", async () => {
  const destination = await newDestination({ ordering: "key" });
  const messages = [...(await post("a", 1)), ...(await post("a", 2))];
  await execute(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
     INSERT INTO lines SELECT ?1, printf('%016x', i * 7919), 1000000 + i, 9e15, 0 FROM n`,
    destination,
  );
  world.d1.used();
  await world.consume(messages);
  await world.settled();
  expect(sentTo(destination)).toEqual([1, 2]);
  expect(world.d1.used().rowsRead).toBeLessThanOrEqual(150);
  await blockedLines(env.DB, destination, "");
  expect(world.d1.used().rowsRead).toBeLessThanOrEqual(500);
  await world.answer([{ destination, drains: 1 }]);
  expect(world.d1.used().rowsRead).toBeLessThanOrEqual(30);
});
