/** The Worker's queue handler, in a deployment whose queues have names of their own. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import worker from "../src/worker.ts";
import { batchOf } from "./support/queues.ts";
import { calm, newDestination, newWorld, storedRows, type World } from "./support/world.ts";

let world: World;
let received: number;
beforeEach(async () => {
  world = await newWorld();
  await newDestination();
  received = 0;
  vi.spyOn(console, "log").mockImplementation(() => {});
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => {
    received += 1;
    return new Response(null, { status: 204 });
  });
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Hands the Worker a batch of the queue, and returns the outcome of each message. */
async function handle(queue: string, bodies: readonly unknown[], variables: object = {}) {
  const background: Promise<unknown>[] = [];
  const context = { waitUntil: (work: Promise<unknown>) => void background.push(work) };
  const { batch, results } = batchOf(queue, bodies);
  await worker.queue(batch, { ...env, ...variables }, context as unknown as ExecutionContext);
  while (background.length > 0) await Promise.all(background.splice(0));
  await calm();
  return results;
}

test.each([
  "breakwater-staging-deliveries",
  "whatever",
  "acme-drains",
])("deliveries on a queue named %s are attempted", async (queue) => {
  const results = await handle(queue, await world.postBundles());
  expect([results, received]).toEqual([["acked"], 1]);
  expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
});

test.each([
  ["acme-dead", {}],
  ["lost-letters", { QUEUE_NAMES: "acme-events,acme-dead,lost-letters" }],
])("dead letters on a queue named %s, with %j, are not attempted: untried ones wait", async (queue, given) => {
  const results = await handle(queue, await world.postBundles(), given);
  expect([results, received]).toEqual([["acked"], 0]);
  expect(await storedRows()).toMatchObject([{ state: "waiting", reason: "recovered" }]);
});

test("a dead letter on a queue without such a name is attempted like any delivery", async () => {
  await handle("lost-letters", await world.postBundles());
  expect(received).toBe(1);
});

test("a drain on a queue of any name drains", async () => {
  const messages = await world.postBundles();
  await handle("acme-dead", messages);
  const [waiting] = await storedRows();
  const destination = waiting?.destinationId;
  await handle("whatever", [{ destination, drains: 1 }]);
  expect(received).toBe(1);
  expect(await storedRows()).toMatchObject([{ state: "delivered" }]);
});

test.each([
  "acme-events",
  "acme-dead",
])("deliveries on a queue named %s are attempted if the deployment configures it as their queue", async (queue) => {
  await handle(queue, await world.postBundles(), { QUEUE_NAMES: `${queue},second,third` });
  expect(received).toBe(1);
});

test.each([
  "breakwater-upkeep",
  "breakwater-drains",
])("upkeep on a queue named %s is processed, because a former version may have left it there", async (queue) => {
  await handle("acme-deliveries", await world.postBundles());
  world.clock.pass(40 * 86_400_000);
  await handle("acme-deliveries", await world.postBundles());
  expect(await handle(queue, [{ retention: 1, until: world.clock.now() }])).toEqual(["left"]);
  expect(await storedRows()).toHaveLength(1);
});

test("messages on an operator's queue of events are events", async () => {
  await handle("shop-events", [{ type: "order.created", data: 1 }]);
  const stored = await env.DB.prepare("SELECT count(*) AS events FROM bundles").first<number>("events");
  expect(stored).toBe(1);
});
