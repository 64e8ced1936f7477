/** A scheduled event is delivered at its time: not before, at most a second after it, and despite every loss. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt } from "../../src/core/bundle.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import { accept } from "../support/accept.ts";
import {
  execute,
  forgetOutcomes,
  GRACE_MS,
  named,
  newDestination,
  newWorld,
  rowOf,
  START,
  storedRows,
  TENANT,
  type World,
} from "../support/world.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

/** Accepts an event for each of these times. */
async function schedule(...times: number[]): Promise<number[]> {
  const posted = times.map((deliverAt) => ({ tenant: TENANT, type: "a", data: 1, deliverAt }));
  const accepted = await accept(world.services, posted);
  await world.settled();
  return accepted.kind === "accepted" ? accepted.events.map(({ id }) => id) : [];
}

/** The messages since the last call: which event, and when it is due. */
async function sent(): Promise<{ event: number; at: number }[]> {
  const each = world.deliveryQueue.taken().map(async ({ body, delaySeconds = 0 }) => {
    const at = world.clock.now() + delaySeconds * 1000;
    return (await named([body])).map(({ eventId: event }) => ({ event, at }));
  });
  return (await Promise.all(each)).flat();
}

describe("a scheduled event", () => {
  test("that is due soon is enqueued at once, with a delay", async () => {
    const [event = 0] = await schedule(START + 30_500);
    const body = { bundles: [{ bundle: bundleOf(event), destinations: [destination] }] };
    expect(world.deliveryQueue.taken()).toEqual([{ body, delaySeconds: 31 }]);
  });

  test("that is due later is enqueued shortly before its time", async () => {
    const [event] = await schedule(START + DAY);
    expect(await sent()).toEqual([]);
    world.clock.pass(DAY - 2 * MINUTE);
    await sweep.run(world.services);
    expect(await sent()).toEqual([]);
    world.clock.pass(MINUTE);
    await sweep.run(world.services);
    expect(await sent()).toEqual([{ event, at: START + DAY }]);
    world.clock.pass(MINUTE);
    await sweep.run(world.services);
    expect(await sent()).toEqual([]);
  });

  test("is delivered within a second of its time, whenever it is accepted between two sweeps", async () => {
    const due = new Map<number, number>();
    const messages: { event: number; at: number }[] = [];
    for (let second = 0; second < 600; second += 7) {
      world.clock.pass(7_000);
      if (second % 60 < 7) await sweep.run(world.services);
      const at = world.clock.now() + ((second * 7919) % 300_000) + 1;
      if (second < 300) for (const id of await schedule(at)) due.set(id, at);
      messages.push(...(await sent()));
    }
    expect(due.size).toBe(43);
    for (const [event, at] of due) {
      const first = Math.min(...messages.filter((message) => message.event === event).map((m) => m.at));
      expect(first).toBeGreaterThanOrEqual(at);
      expect(first).toBeLessThan(at + 1_000);
    }
  });

  test("whose time has passed is sent at once, like any other", async () => {
    const [event = 0] = await schedule(START - 1);
    const body = { bundles: [{ bundle: bundleOf(event), destinations: [destination] }] };
    expect(world.deliveryQueue.taken()).toEqual([{ body }]);
    expect(await env.DB.prepare("SELECT deliver_at FROM bundles").first("deliver_at")).toBeNull();
  });

  test("is not attempted when its message comes early", async () => {
    const [event = 0] = await schedule(START + 30_000);
    const [fate] = await world.consume([{ eventId: event, destinationId: destination }]);
    expect(fate).toEqual({ retryIn: 30 });
    expect(world.receiver.calls).toHaveLength(0);
    world.clock.pass(30_000);
    await world.consume([{ eventId: event, destinationId: destination }]);
    expect(await rowOf({ eventId: event, destinationId: destination })).toMatchObject({
      state: "delivered",
      attempts: 1,
    });
  });

  test("is as old as the time since it was due", async () => {
    const [event = 0] = await schedule(START + 29 * DAY);
    world.clock.pass(29 * DAY);
    await execute("UPDATE destinations SET status = 'paused'");
    await world.consume([{ eventId: event, destinationId: destination }]);
    expect(await rowOf({ eventId: event, destinationId: destination })).toMatchObject({
      state: "waiting",
      reason: "paused",
      giveUpAt: START + (29 + 14) * DAY,
    });
  });

  test("is cancelled when its destination is deleted by then", async () => {
    const [event = 0] = await schedule(START + MINUTE);
    await execute("UPDATE destinations SET deleted_at = 1");
    world.clock.pass(MINUTE);
    await world.consume([{ eventId: event, destinationId: destination }]);
    expect(await rowOf({ eventId: event, destinationId: destination })).toMatchObject({ state: "cancelled" });
  });

  test("costs one more row than another, and few rows to read", async () => {
    const [event = 0] = await schedule(START + DAY);
    expect(world.d1.used().rowsWritten).toBe(2);
    world.clock.pass(DAY - MINUTE);
    await sweep.run(world.services);
    world.clock.pass(MINUTE);
    world.d1.used();
    await world.consume([{ eventId: event, destinationId: destination }]);
    expect(world.d1.used()).toMatchObject({ rowsWritten: 1, rowsRead: 12 });
  });
});

describe("a lost scheduled event", () => {
  test("is not searched before its time, although later events are", async () => {
    await schedule(START + DAY);
    await world.post();
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await env.DB.prepare("SELECT watermark FROM sweeps").first("watermark")).toBe(2);
    expect((await storedRows()).map(({ eventId }) => eventId)).toEqual([eventAt(2, 0)]);
  });

  test("is recovered after the grace period, once", async () => {
    const [event = 0] = await schedule(START + DAY);
    await sweepsUntil(START + DAY + GRACE_MS - 1);
    expect(await storedRows()).toEqual([]);
    world.clock.pass(1);
    await sweep.run(world.services);
    expect(await rowOf({ eventId: event, destinationId: destination })).toMatchObject({
      state: "waiting",
      reason: "recovered",
    });
    await forgetOutcomes();
    await sweep.run(world.services);
    expect(await storedRows()).toEqual([]);
  });

  test("is recovered with all the others of its instant", async () => {
    const at = START + DAY;
    await schedule(...Array(1_000).fill(at), ...Array(1_000).fill(at), ...Array(3).fill(at));
    world.clock.pass(DAY);
    await sweep.run(world.services);
    expect(await sent()).toHaveLength(2_003);
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await storedRows()).toHaveLength(2_003);
    world.d1.used();
    await sweep.run(world.services);
    expect(world.d1.used().rowsRead).toBeLessThanOrEqual(3_000);
  });

  test("is recovered although it was stored behind the position of the walk by time", async () => {
    await execute("INSERT INTO cursors VALUES ('scheduled_checked', ?1, 1000)", START + 2 * MINUTE);
    const [first, second] = await schedule(START + MINUTE, START + 2 * MINUTE, START + 2 * MINUTE + 1);
    world.clock.pass(2 * MINUTE + GRACE_MS);
    await sweep.run(world.services);
    expect((await storedRows()).map(({ eventId }) => eventId)).toEqual([first, second]);
    world.clock.pass(1);
    await sweep.run(world.services);
    expect(await storedRows()).toHaveLength(3);
  });

  test("is enqueued by the next sweep if the queue does not take it, and no later one is skipped", async () => {
    const [event = 0] = await schedule(START + DAY);
    world.clock.pass(DAY - MINUTE);
    world.deliveryQueue.break(true);
    const sweeping = sweep.run(world.services);
    // In the middle of each pause: 250, 500 and 1,000 ms, shortened by a quarter.
    for (const ms of [188, 375, 750]) {
      await world.clock.asleep(ms);
      world.clock.pass(ms);
    }
    await expect(sweeping).rejects.toThrow("could not be enqueued");
    expect(world.logged("sweep_part_failed")).toMatchObject([{ part: "scheduled" }]);
    world.deliveryQueue.break(false);
    await sweep.run(world.services);
    const [message, ...others] = await sent();
    expect([message?.event, others]).toEqual([event, []]);
    expect(message?.at).toBeGreaterThanOrEqual(START + DAY);
    expect(message?.at).toBeLessThan(START + DAY + 1_000);
  });

  test.each([
    ["knows that they are sent for", "INTO cursors"],
    ["has looked for them", "INDEXED BY bundles_scheduled"],
  ])("is delivered when a sweep dies before it %s", async (_, part) => {
    const [event = 0] = await schedule(START + DAY);
    world.clock.pass(DAY - MINUTE);
    world.d1.failing((sql) => (sql.includes(part) ? "before" : undefined));
    await expect(sweep.run(world.services)).rejects.toThrow("D1");
    world.d1.failing(() => undefined);
    await sweep.run(world.services);
    const messages = await sent();
    expect(messages.at(-1)).toEqual({ event, at: START + DAY });
    world.clock.pass(MINUTE);
    for (const { event } of messages) await world.consume([{ eventId: event, destinationId: destination }]);
    expect(world.receiver.calls).toHaveLength(1);
  });
});

/** A sweep now, and one at the end. */
async function sweepsUntil(at: number): Promise<void> {
  await sweep.run(world.services);
  world.clock.pass(at - world.clock.now());
  await sweep.run(world.services);
}
