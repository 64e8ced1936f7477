/** Replays of missing deliveries: what a destination never got is planned and sent, each event once, and nothing else. */
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt } from "../../../src/core/bundle.ts";
import { Content } from "../../../src/core/content.ts";
import { replaying } from "../../../src/features/replays/job.ts";
import { sweep } from "../../../src/jobs/sweep.ts";
import { overBy } from "../../../src/store/delivery-filter.ts";
import { eraseFrom } from "../../../src/store/erase.ts";
import { findDelivery, findEvent } from "../../../src/store/planned-deliveries.ts";
import { beginReplay } from "../../../src/store/replay-steps.ts";
import { findReplay, type ReplayInsert } from "../../../src/store/replays.ts";
import { accept } from "../../support/accept.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import {
  execute,
  FIRST_EVENT,
  newDestination,
  newWorld,
  START,
  storedRows,
  TENANT,
  type World,
} from "../../support/world.ts";

const HOUR = 3_600_000;
const ALL = { first: 1, last: Number.MAX_SAFE_INTEGER };
const ID = "rpl_1";
const KEPT = 30 * 24 * HOUR;

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

async function begin(destinationId: string, fields: Partial<ReplayInsert> = {}): Promise<void> {
  const now = world.clock.now();
  const at = { createdAt: now, updatedAt: now, nextStepAt: now };
  const range = { since: START - 48 * HOUR, until: now + HOUR, ratePerMinute: 6000, pace: 6000 };
  const job = { id: ID, tenant: TENANT, destinationId, include: "missing" as const };
  await beginReplay(env.DB, { ...job, ...range, state: "running", ...at, ...fields }, ALL, 10, {
    ms: KEPT,
    types: {},
  });
}

const step = () => replaying.step(world.services, ID);
const replay = () => findReplay({ db: env.DB }, ID, undefined);
const rowsOf = async (destination: string) =>
  (await storedRows()).filter(({ destinationId }) => destinationId === destination);

/** Steps and drains, as time passes, until the replay has completed and nothing waits. */
async function completed(destination: string): Promise<void> {
  for (let i = 0; i < 200; i++) {
    await step();
    const waits = async () => (await rowsOf(destination)).some(({ state }) => state === "waiting");
    for (let n = 0; n < 40 && (await waits()); n++) {
      await world.drain(destination);
      await world.settled();
      world.clock.pass(1_000);
    }
    if ((await replay())?.state === "completed") return;
    world.clock.pass(10_000);
  }
}

const sentTo = (destination: string) =>
  world.receiver.calls.filter(({ url }) => url.includes(destination.slice(4)));

describe("events that were accepted before a destination existed", () => {
  test("are planned for it and sent, with their ids and bytes, once each", async () => {
    const old = await newDestination();
    const messages = await world.post(3);
    await world.consume(messages);
    const young = await newDestination();
    await begin(young);
    await completed(young);
    expect(await replay()).toMatchObject({ state: "completed", requeued: 3, delivered: 3, failed: 0 });
    const [first, second] = [sentTo(old), sentTo(young)].map((calls) =>
      calls.map(({ body, headers }) => [headers.get("webhook-id"), body]).sort(),
    );
    expect(second).toHaveLength(3);
    expect(second).toEqual(first);
    await execute("UPDATE replays SET state = 'running', cursor = 0, next_step_at = 0");
    await completed(young);
    expect(sentTo(young)).toHaveLength(3);
  });

  test("have their delivery shown with the event and in lists, and are not considered lost by the sweep", async () => {
    await newDestination();
    await world.consume(await world.post(2));
    const young = await newDestination();
    await begin(young);
    await step();
    const over = overBy(world.services);
    const found = await findEvent(world.services, eventAt(1, 1), TENANT, over);
    expect(found?.deliveries.map(({ destinationId }) => destinationId)).toContain(young);
    const key = { eventId: eventAt(1, 0), destinationId: young };
    expect(await findDelivery(world.services, key, TENANT, over)).toMatchObject({
      row: { state: "waiting", reason: "replayed", replay: ID, generation: 1 },
    });
    expect(await env.DB.prepare("SELECT planned FROM bundles").first("planned")).toBe(4);
    world.clock.pass(HOUR);
    await sweep.run(world.services);
    expect(await rowsOf(young)).toHaveLength(2);
    expect((await rowsOf(young)).every(({ reason }) => reason === "replayed")).toBe(true);
  });

  test("are planned once by steps that are made at the same time", async () => {
    await world.postBundles(30);
    const young = await newDestination();
    await begin(young);
    await Promise.all([step(), step(), step()]);
    expect(await replay()).toMatchObject({ requeued: 30 });
    expect(await rowsOf(young)).toHaveLength(30);
    expect(await env.DB.prepare("SELECT planned FROM bundles").first("planned")).toBe(30);
  });

  test("are not bound by an expired time to live", async () => {
    await world.postBundles(1, { options: { ttlSeconds: 60 } });
    const young = await newDestination();
    world.clock.pass(2 * HOUR);
    await begin(young);
    await completed(young);
    expect(await rowsOf(young)).toMatchObject([{ state: "delivered" }]);
  });
});

describe("among the events without a delivery to a destination,", () => {
  test("those are sent that its types, its filter and its body take now, or all on request", async () => {
    await world.postBundles(1, { type: "order.paid", data: { total: 5 } });
    await world.postBundles(1, { type: "order.paid", data: { total: 50 } });
    await world.postBundles(1, { type: "user.created", data: { total: 50 } });
    await accept(world.services, [
      { tenant: TENANT, type: "order.paid", data: new Content("text/plain", new Uint8Array([65])) },
    ]);
    const young = await newDestination({ eventTypes: ["order.*"], filter: { total: { gte: 10 } } });
    await begin(young);
    await completed(young);
    expect((await rowsOf(young)).map(({ eventId }) => eventId)).toEqual([eventAt(2, 0)]);
    await execute("DELETE FROM replays");
    await begin(young, { matching: 0 });
    await completed(young);
    const numbers = [1, 2, 3].map((bundle) => eventAt(bundle, 0));
    expect((await rowsOf(young)).map(({ eventId }) => eventId)).toEqual(numbers);
    expect(sentTo(young)).toHaveLength(3);
  });

  test("those that were posted for certain destinations are left out, unless all are requested", async () => {
    const only = await newDestination();
    await world.postBundles(1, { options: { destinationIds: [only] } });
    await world.postBundles(1);
    const young = await newDestination();
    await begin(young);
    await completed(young);
    expect((await rowsOf(young)).map(({ eventId }) => eventId)).toEqual([eventAt(2, 0)]);
    await execute("DELETE FROM replays");
    await begin(young, { matching: 0 });
    await completed(young);
    expect(await rowsOf(young)).toHaveLength(2);
  });

  test.each<[string, Partial<ReplayInsert>, object]>([
    ["not due yet", {}, { deliverAt: START + HOUR }],
    ["older than the retention time", { since: 0 }, { acceptedAt: START - KEPT }],
    ["accepted before the period", { since: START - HOUR }, { acceptedAt: START - HOUR - 1 }],
    ["accepted after the period", { until: START - HOUR }, { acceptedAt: START - HOUR }],
    ["of another type", { eventTypes: ["b.*"] }, {}],
    ["without the tag", { tag: "import" }, {}],
  ])("one that is %s is left out", async (_, fields, times) => {
    const young = await newDestination();
    const events = [{ tenant: TENANT, type: "a" }];
    await insertBundles(env.DB, [{ acceptedAt: START - HOUR, events, ...times }]);
    await begin(young, fields);
    await completed(young);
    expect(await replay()).toMatchObject({ state: "completed", requeued: 0 });
    expect(await storedRows()).toEqual([]);
  });

  test("those are sent that have one of its channels", async () => {
    await world.postBundles(1, { options: { channels: ["billing"] } });
    await world.postBundles(1, { options: { channels: ["support"] } });
    const young = await newDestination({ channels: ["support"] });
    await begin(young);
    await completed(young);
    expect((await rowsOf(young)).map(({ eventId }) => eventId)).toEqual([eventAt(2, 0)]);
  });

  test("erased ones are left out, whether they match or not", async () => {
    await world.postBundles(3);
    const young = await newDestination();
    const bundle = { id: bundleOf(FIRST_EVENT), plan: {}, indexes: [1] };
    await eraseFrom(env.DB, bundle, { cancels: true, tags: true, keys: "closed" }, 1);
    await begin(young, { matching: 0 });
    await completed(young);
    expect((await rowsOf(young)).map(({ eventId }) => eventId)).toEqual([FIRST_EVENT, FIRST_EVENT + 2]);
  });

  test("damaged ones are left out", async () => {
    await world.postBundles(1, { data: { total: 50 } });
    await execute("UPDATE bundles SET body = x'00'");
    const young = await newDestination({ filter: { total: { gte: 10 } } });
    await begin(young);
    await completed(young);
    expect(await replay()).toMatchObject({ state: "completed", requeued: 0 });
  });
});

test("exactly the tenant's missing events are planned, whoever shares their bundles, and however steps overlap", async () => {
  const event = fc.record({
    tenant: fc.constantFrom(TENANT, "other", "acme2"),
    type: fc.constantFrom("a", "b"),
    isPlanned: fc.boolean(),
  });
  const history = fc.array(fc.array(event, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(
      history,
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 3 }),
      async (all, pace, together) => {
        world = await newWorld();
        const there = await newDestination();
        const young = await newDestination({ eventTypes: ["a"] });
        const bundles = all.map((events) => ({
          acceptedAt: START - HOUR,
          events: events.map(({ isPlanned, ...one }) => ({
            ...one,
            destinations: isPlanned ? [there, young] : [there],
          })),
        }));
        const numbers = await insertBundles(env.DB, bundles);
        const flat = all.flat().map((one, i) => ({ ...one, id: numbers[i] ?? 0 }));
        await begin(young, { ratePerMinute: pace, pace });
        for (let i = 0; i < 300 && (await replay())?.state === "running"; i++) {
          await Promise.all(Array.from({ length: together }, step));
          // Planned deliveries do not delay the replay.
          await execute("UPDATE deliveries SET state = 'delivered', ended_at = 1 WHERE state = 'waiting'");
          world.clock.pass(60_000);
        }
        const missing = flat.filter(
          ({ tenant, type, isPlanned }) => tenant === TENANT && type === "a" && !isPlanned,
        );
        expect((await rowsOf(young)).map(({ eventId }) => eventId)).toEqual(missing.map(({ id }) => id));
        expect(await replay()).toMatchObject({ state: "completed", requeued: missing.length });
        const planned = flat.filter((one) => one.isPlanned || missing.includes(one)).length + flat.length;
        expect(await env.DB.prepare("SELECT sum(planned) AS n FROM bundles").first("n")).toBe(planned);
      },
    ),
    { numRuns: 15 },
  );
});

test("a step reads a bounded number of rows of others' bundles, and is followed by the next at once", async () => {
  const young = await newDestination();
  const others = Array.from({ length: 6_000 }, () => ({
    acceptedAt: START - HOUR,
    events: [{ tenant: "other", type: "a" }],
  }));
  await insertBundles(env.DB, others);
  await insertBundles(env.DB, [{ acceptedAt: START - HOUR, events: [{ tenant: TENANT, type: "a" }] }]);
  await begin(young);
  world.d1.used();
  await step();
  expect(world.d1.used().rowsRead).toBeLessThan(11_000);
  expect(await replay()).toMatchObject({ state: "running", requeued: 0, nextStepAt: world.clock.now() });
  await step();
  expect(await replay()).toMatchObject({ state: "completed", requeued: 1 });
});
