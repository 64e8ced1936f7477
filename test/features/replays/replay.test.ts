/** A replay at work: paced, exact, interrupted at any point and never two at once. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { consumeDeadLetters } from "../../../src/delivery/dead-letters.ts";
import { replaying } from "../../../src/features/replays/job.ts";
import { endReplaysOfDeleted } from "../../../src/jobs/deleted-destinations.ts";
import { sweep } from "../../../src/jobs/sweep.ts";
import type { DeliveryRow } from "../../../src/store/delivery.ts";
import { recordOutcomes } from "../../../src/store/record.ts";
import { beginReplay } from "../../../src/store/replay-steps.ts";
import { changeReplay, findReplay, type ReplayInsert } from "../../../src/store/replays.ts";
import { bundlesOf, insertBundles } from "../../support/bundle-rows.ts";
import { batchOf } from "../../support/queues.ts";
import {
  execute,
  messageFor,
  newDestination,
  newWorld,
  START,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../../support/world.ts";

const HOUR = 3_600_000;
const ALL = { first: 1, last: Number.MAX_SAFE_INTEGER };
const ID = "rpl_1";

let world: World;
let place: string;
beforeEach(async () => {
  world = await newWorld();
  place = await newDestination();
});

type Past = Readonly<{ state?: "dead" | "delivered"; to?: string; acceptedAt?: number }>;

/** Events of the past hour whose deliveries have ended so; returns their numbers. */
async function ended(
  count: number,
  { state = "dead", to = place, acceptedAt = START - HOUR }: Past = {},
  typeOf: (i: number) => string = () => "order.paid",
): Promise<number[]> {
  const events = Array.from({ length: count }, (_, i) => ({
    tenant: TENANT,
    type: typeOf(i + 1),
    data: { n: i + 1 },
    destinations: [to],
  }));
  const numbers = await insertBundles(env.DB, bundlesOf(events, { acceptedAt }));
  await execute(
    `INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, give_up_at, ended_at)
     SELECT ?1, value, ?2, 'exhausted', 3, ?3, ?3 FROM json_each(?4)`,
    to,
    state,
    START - 1,
    JSON.stringify(numbers),
  );
  return numbers;
}

async function begin(fields: Partial<ReplayInsert> = {}): Promise<void> {
  const at = { createdAt: world.clock.now(), updatedAt: world.clock.now(), nextStepAt: world.clock.now() };
  const range = { since: START - 2 * HOUR, until: START, ratePerMinute: 100, pace: 100 };
  const job = { id: ID, tenant: TENANT, destinationId: place, include: "dead" as const };
  await beginReplay(env.DB, { ...job, ...range, state: "running", ...at, ...fields }, ALL, 10_000, {
    ms: 30 * 24 * HOUR,
    types: {},
  });
}

const step = () => replaying.step(world.services, ID);
const replay = () => findReplay({ db: env.DB }, ID, undefined);
const waiting = async () => (await storedRows()).filter(({ state }) => state === "waiting").length;

/** Drains, each scheduled by the gate, until nothing waits or nothing is admitted. */
async function drained(): Promise<void> {
  for (let i = 0; i < 20 && (await waiting()) > 0; i++) {
    await world.drain(place);
    await world.settled();
    world.clock.pass(1_000);
  }
}

/** Steps and drains, as time passes, until the replay has completed. */
async function completed(): Promise<void> {
  for (let i = 0; i < 50 && (await replay())?.state === "running"; i++) {
    await step();
    await drained();
    world.clock.pass(10_000);
  }
}

describe("a slow replay over deliveries that it does not select", () => {
  test("reaches its deliveries in steps that follow each other at once, each of a bounded number of rows", async () => {
    await ended(25_000);
    await ended(3, { state: "delivered" });
    await begin({ include: "delivered", ratePerMinute: 6, pace: 6 });
    for (let steps = 1; (await waiting()) === 0; steps++) {
      expect(steps).toBeLessThanOrEqual(4);
      world.d1.used();
      await step();
      expect(world.d1.used().rowsRead).toBeLessThanOrEqual(50_000);
    }
    expect(world.clock.now()).toBe(START);
    expect(await waiting()).toBe(1);
    expect((await replay())?.nextStepAt).toBeGreaterThanOrEqual(START + 10_000);
  });
});

describe("a step", () => {
  test("requeues a portion, in order, and leaves the rest dead", async () => {
    await ended(40);
    await begin();
    await step();
    const rows = await storedRows();
    expect(rows.slice(0, 16).map(({ state, reason, replay }) => [state, reason, replay])).toEqual(
      Array(16).fill(["waiting", "replayed", ID]),
    );
    expect(rows.slice(16).map(({ state }) => state)).toEqual(Array(24).fill("dead"));
    expect(await replay()).toMatchObject({
      total: 40,
      requeued: 16,
      cursor: rows[15]?.eventId,
      state: "running",
    });
    expect(world.receiver.calls).toEqual([]);
  });

  test("gives the requeued deliveries all attempts and a new age limit", async () => {
    await ended(1);
    await begin();
    await step();
    expect(await storedRows()).toMatchObject([
      { attempts: 0, endedAt: null, generation: 1, giveUpAt: START + 14 * 24 * HOUR },
    ]);
  });

  test("enqueues the next one, which does nothing before its time", async () => {
    await ended(40);
    await begin();
    await step();
    expect(world.upkeepQueue.taken()).toEqual([
      { body: { replay: ID, at: START + 9_600 }, delaySeconds: 10 },
    ]);
    world.clock.pass(9_000);
    await step();
    expect(await waiting()).toBe(16);
    expect(world.upkeepQueue.taken()).toEqual([]);
  });

  test("comes as a message on the queue of upkeep", async () => {
    await ended(3);
    await begin();
    await world.keepUp([{ replay: ID }]);
    expect(await waiting()).toBe(3);
  });

  test("made twice at the same time takes effect once", async () => {
    await ended(40);
    await begin();
    await Promise.all([step(), step(), step()]);
    expect(await replay()).toMatchObject({ requeued: 16 });
    expect(await waiting()).toBe(16);
    expect(world.upkeepQueue.taken()).toHaveLength(1);
  });

  test("of a replay that is paused, cancelled or unknown does nothing", async () => {
    await ended(2);
    await begin({ state: "paused" });
    await changeReplay(env.DB, ID, ["running"], { state: "paused" }, START);
    await step();
    await changeReplay(env.DB, ID, ["paused"], { state: "cancelled" }, START);
    await step();
    await replaying.step(world.services, "rpl_2");
    expect(await waiting()).toBe(0);
  });

  test("that is paused meanwhile requeues nothing", async () => {
    await ended(2);
    await begin();
    world.gates.before(async (method) => {
      if (method === "view") await changeReplay(env.DB, ID, ["running"], { state: "paused" }, START);
    });
    await step();
    expect(await waiting()).toBe(0);
    expect(await replay()).toMatchObject({ state: "paused", requeued: 0 });
  });

  test("costs a few rows, and no more with a long history", async () => {
    await ended(5_000, { state: "delivered" });
    await ended(40);
    await begin();
    world.d1.used();
    await step();
    const { rowsRead, rowsWritten } = world.d1.used();
    console.log(`a step of 16: ${rowsRead} rows read, ${rowsWritten} written`);
    expect(rowsRead).toBeLessThan(200);
    expect(rowsWritten).toBeLessThanOrEqual(16 * 2 + 2);
  });
});

describe("a replay", () => {
  test("delivers every dead delivery of its range once, and counts to the end", async () => {
    await ended(40);
    await begin();
    await completed();
    expect(await replay()).toMatchObject({
      state: "completed",
      total: 40,
      requeued: 40,
      delivered: 40,
      failed: 0,
    });
    const bodies = world.receiver.calls.map(({ body }) => body);
    expect(new Set(bodies).size).toBe(40);
    expect(bodies).toHaveLength(40);
  });

  test("is spread over time at the requested rate", async () => {
    await ended(60);
    await begin();
    const from = world.clock.now();
    await completed();
    // The last of four portions comes three waits after the first.
    expect(world.clock.now() - from).toBeGreaterThanOrEqual(3 * 9_600);
  });

  test("selects only deliveries that had ended when it began, of its range and its types", async () => {
    await ended(1, { acceptedAt: START - 3 * HOUR });
    const [second] = await ended(1);
    const [, fourth] = await ended(2, {}, (i) => (i === 1 ? "order.made" : "order.paid"));
    await ended(1, { state: "delivered" });
    const other = await newDestination();
    await ended(1, { to: other });
    await begin({ eventTypes: ["order.paid"] });
    const [late] = await ended(1);
    await execute("UPDATE deliveries SET ended_at = ?1 WHERE event_id = ?2", START + 1, late);
    await completed();
    const { results } = await env.DB.prepare(
      "SELECT event_id FROM deliveries WHERE replay IS NOT NULL",
    ).all();
    expect(results).toEqual([{ event_id: second }, { event_id: fourth }]);
    expect(await replay()).toMatchObject({ total: 2, requeued: 2, delivered: 2 });
  });

  test("finds a few deliveries among many, step by step", async () => {
    await ended(3_000, {}, (i) => ([1, 1_500, 3_000].includes(i) ? "rare" : "order.paid"));
    await begin({ eventTypes: ["rare"] });
    await completed();
    expect(await replay()).toMatchObject({ total: 3, requeued: 3, delivered: 3, state: "completed" });
  });

  test("of history sends delivered events again, with the same ids and bytes", async () => {
    const messages = await world.post(3, { data: { n: 1 } });
    await world.consume(messages.filter(({ destinationId }) => destinationId === place));
    const before = world.receiver.calls.map(({ body, headers }) => [headers.get("webhook-id"), body]).sort();
    await ended(1);
    await begin({ include: "delivered", until: START + HOUR });
    await completed();
    const after = world.receiver.calls.slice(3).map(({ body, headers }) => [headers.get("webhook-id"), body]);
    expect(after.sort()).toEqual(before);
    expect(await replay()).toMatchObject({ total: 3, requeued: 3, delivered: 3 });
    expect((await storedRows()).map(({ state }) => state)).toEqual([
      "delivered",
      "delivered",
      "delivered",
      "dead",
    ]);
  });

  test("of history sends every delivery of a bundle again, in as many steps as it takes", async () => {
    await world.consume(await world.post(40));
    await begin({ include: "delivered", until: START + HOUR });
    await completed();
    expect(await replay()).toMatchObject({ state: "completed", total: 40, requeued: 40, delivered: 40 });
    expect(world.receiver.calls).toHaveLength(80);
  });

  test.each([
    "running",
    "paused",
  ] as const)("that is %s ends at the next cron when its destination is deleted", async (state) => {
    await ended(5);
    await begin();
    await changeReplay(env.DB, ID, ["running"], { state }, START);
    await execute("UPDATE destinations SET deleted_at = 1");
    await endReplaysOfDeleted(world.services);
    expect(await replay()).toMatchObject({ state: "cancelled", reason: "destination_deleted" });
    expect(world.logged("replay_cancelled")).toMatchObject([{ replay: ID, destination: place }]);
  });

  test("ends when its destination is deleted", async () => {
    await ended(2);
    await begin();
    await execute("UPDATE destinations SET deleted_at = 1");
    await step();
    expect(await replay()).toMatchObject({ state: "cancelled", reason: "destination_deleted" });
    expect(await waiting()).toBe(0);
  });
});

describe("its pace", () => {
  test("grows while the destination is well", async () => {
    await ended(2_000);
    await begin();
    for (let i = 0; i < 12; i++) {
      await step();
      await drained();
      world.clock.pass(10_000);
    }
    expect((await replay())?.pace).toBeGreaterThan(120);
  });

  test("falls, and nothing is requeued, while the destination is blocked", async () => {
    world.receiver.script(urlOf(place), 500);
    await world.consume(await world.post(10));
    await ended(20);
    await begin();
    world.clock.pass(20_000);
    await step();
    expect(await replay()).toMatchObject({ requeued: 0, state: "running", reason: "stuck" });
    expect((await replay())?.pace).toBeLessThan(100);
  });

  test("waits for a paused destination, and says so", async () => {
    await ended(2);
    await execute("UPDATE destinations SET status = 'paused'");
    await begin();
    await step();
    expect(await replay()).toMatchObject({ requeued: 0, state: "running", reason: "destination_paused" });
  });

  test("waits until already waiting deliveries get through", async () => {
    await ended(40);
    await begin({ ratePerMinute: 10, pace: 10 });
    for (let i = 0; i < 30; i++) {
      await step();
      world.clock.pass(10_000);
    }
    expect((await replay())?.requeued).toBeLessThanOrEqual(20);
  });

  test("waits while the gate cannot be reached", async () => {
    await ended(2);
    await begin();
    world.gates.before((method) => {
      if (method === "view") throw new Error("away");
    });
    await step();
    expect(await replay()).toMatchObject({ requeued: 0, reason: "stuck" });
  });
});

describe("a replay that is interrupted", () => {
  test.each([
    "before",
    "after",
  ] as const)("by D1 failing %s the commit, it loses and doubles nothing", async (when) => {
    await ended(20);
    await begin();
    world.d1.failing((sql) => (sql.includes("reason = 'replayed'") ? when : undefined));
    await expect(step()).rejects.toThrow("D1");
    world.d1.failing(() => undefined);
    world.clock.pass(60_000);
    await replaying.run(world.services);
    expect(world.upkeepQueue.taken()).toEqual([
      { body: { replay: ID, at: world.clock.now() }, delaySeconds: 0 },
    ]);
    await completed();
    expect(await replay()).toMatchObject({ requeued: 20, delivered: 20, state: "completed" });
    expect(world.receiver.calls).toHaveLength(20);
  });

  test("between two steps, has its next step enqueued again by the cron, once it is late", async () => {
    await ended(20);
    await begin();
    world.upkeepQueue.break(true);
    await step();
    world.upkeepQueue.break(false);
    expect(world.logged("replay_step_not_sent")).toHaveLength(1);
    world.clock.pass(30_000);
    await replaying.run(world.services);
    expect(world.upkeepQueue.taken()).toEqual([]);
    world.clock.pass(10_000);
    await replaying.run(world.services);
    expect(world.upkeepQueue.taken()).toEqual([
      { body: { replay: ID, at: world.clock.now() }, delaySeconds: 0 },
    ]);
  });

  test("and paused, has no step enqueued again", async () => {
    await begin();
    await changeReplay(env.DB, ID, ["running"], { state: "paused" }, START);
    world.clock.pass(HOUR);
    await replaying.run(world.services);
    expect(world.upkeepQueue.taken()).toEqual([]);
  });
});

describe("its count", () => {
  const one = async (): Promise<DeliveryRow> => (await storedRows())[0] as DeliveryRow;
  beforeEach(async () => {
    await ended(1);
    await begin();
    await step();
  });
  const counters = async () => {
    const { delivered, failed } = (await replay()) ?? {};
    return [delivered, failed];
  };
  const end = { state: "delivered", reason: null, attempts: 1, endedAt: START + 5 } as const;

  test("counts an end once, however often it is written", async () => {
    const row = { ...(await one()), ...end };
    await recordOutcomes({ db: env.DB }, [row], [], START);
    await recordOutcomes({ db: env.DB }, [row], [], START);
    expect(await counters()).toEqual([1, 0]);
  });

  test("is as durable as the end itself", async () => {
    const row = { ...(await one()), ...end };
    world.d1.failing(() => "after");
    await expect(recordOutcomes(world.services, [row], [], START)).rejects.toThrow("D1");
    expect(await counters()).toEqual([1, 0]);
  });

  test("does not count anything but an end", async () => {
    await recordOutcomes({ db: env.DB }, [{ ...(await one()), state: "retrying", attempts: 1 }], [], START);
    expect(await counters()).toEqual([0, 0]);
    await recordOutcomes(
      { db: env.DB },
      [{ ...(await one()), ...end, state: "dead", attempts: 2 }],
      [],
      START,
    );
    expect(await counters()).toEqual([0, 1]);
  });

  test("ignores a message that comes too late", async () => {
    const stale = { ...(await one()), ...end, generation: 0 };
    await recordOutcomes({ db: env.DB }, [stale], [], START);
    expect(await counters()).toEqual([0, 0]);
  });

  test("includes a delivery that has waited past its age limit", async () => {
    await execute("UPDATE deliveries SET give_up_at = ?1", START - 1);
    await sweep.run(world.services);
    expect([await counters(), (await one()).reason]).toEqual([[0, 1], "expired"]);
  });

  test("includes a delivery whose message was poison", async () => {
    const { eventId, destinationId } = await one();
    await execute("UPDATE deliveries SET state = 'retrying', attempts = 1, next_attempt_at = ?1", START);
    await consumeDeadLetters(
      world.services,
      batchOf("breakwater-dead", [messageFor({ eventId, destinationId })]).batch,
    );
    expect([await counters(), (await one()).reason]).toEqual([[0, 1], "poison"]);
  });

  test("includes a delivery whose destination was deleted", async () => {
    await execute("UPDATE destinations SET deleted_at = 1");
    await world.drain(place);
    expect([await counters(), (await one()).state]).toEqual([[0, 1], "cancelled"]);
  });
});
