/**
 * Random histories of a polled destination: posts, scheduled events and events that are sent again, several isolates at
 * once, consumers with several processes each, crashes at any call, evicted gates, pages that are dropped, committed
 * late, twice or in part. In the end every consumer has got every event, and each event was committed after it was
 * fetched.
 */
import { evictDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { expect, test } from "vitest";
import { eventAt, indexesOf } from "../../../src/core/bundle.ts";
import type { Principal } from "../../../src/core/principal.ts";
import { seededRandom } from "../../../src/core/seeded-random.ts";
import type { PollPage } from "../../../src/features/polling/schema.ts";
import { commitPoll, pollDestination } from "../../../src/features/polling/service.ts";
import { eventNumber } from "../../../src/ids.ts";
import { accept } from "../../support/accept.ts";
import { rowsOfAll } from "../../support/databases.ts";
import { propertySeed, runs } from "../../support/effort.ts";
import { faultyRuntime, nth } from "../../support/faulty-runtime.ts";
import { heal, platformOf } from "../../support/platform.ts";
import { requeueOne } from "../../support/requeue.ts";
import { gateOf, newDestination, newGates, newWorld, TENANT } from "../../support/world.ts";

const RUNS = runs(5, 40);
const STEPS = 30;
const MINUTE = 60_000;
const ID = "dst_polled";
const OTHER = "dst_pushed";
const consumers = ["a", "b"] as const;
const principal: Principal = { scopes: ["poll"] };

const acts = [
  "post",
  "poll",
  "commit",
  "again",
  "deliver",
  "drain",
  "cron",
  "later",
  "evict",
  "all",
] as const;
type Act = (typeof acts)[number];

const step = fc.record({
  act: fc.constantFrom<Act>(...acts, "post", "poll", "poll", "commit", "commit", "all"),
  crashAt: fc.option(fc.integer({ min: 1, max: 10 }), { freq: 3, nil: undefined }),
  seed: fc.nat(1_000_000),
});

let worlds = 0;

async function begin() {
  const world = await newWorld();
  worlds += 1;
  const runtime = faultyRuntime(world, { seed: worlds });
  await newGates([ID, OTHER]);
  await newDestination({ id: ID, url: "poll:inbox" });
  await newDestination({ id: OTHER });
  const platform = platformOf(world, runtime, [ID, OTHER], worlds);
  const seen = new Map(consumers.map((name) => [name as string, new Set<number>()]));
  const held: { consumer: string; page: PollPage }[] = [];
  return { world, runtime, platform, seen, held };
}

type Run = Awaited<ReturnType<typeof begin>>;

async function post({ runtime, world }: Run, random: () => number): Promise<void> {
  const count = 1 + Math.floor(random() * 5);
  const events = Array.from({ length: count }, () => ({
    tenant: TENANT,
    type: "order.paid",
    data: {},
    ...(random() < 0.2 && { deliverAt: world.clock.now() + Math.floor(random() * 10) * MINUTE }),
  }));
  const requests = random() < 0.5 ? [events] : events.map((one) => [one]);
  await Promise.all(
    requests.map((request) =>
      runtime.invoke("post", (services) => accept(services, request).catch(() => {})),
    ),
  );
}

/** A process of a consumer fetches a page, and holds it. */
async function poll({ runtime, seen, held }: Run, consumer: string, limit: number): Promise<number> {
  let page: PollPage | undefined;
  await runtime.invoke("poll", async (services) => {
    const polled = await pollDestination(
      { services, principal },
      { id: ID, consumer, limit, visibility_s: 60, wait_s: 0 },
    );
    if (polled.kind === "ok") page = polled.value;
  });
  if (page === undefined) return 0;
  for (const { id } of page.data) seen.get(consumer)?.add(eventNumber(id) ?? -1);
  held.push({ consumer, page });
  return page.data.length;
}

/** Commits a page that was fetched at some time: all of it, or some events, and returns others. */
async function commit({ runtime, held }: Run, random: () => number): Promise<void> {
  const one = held[Math.floor(random() * held.length)];
  if (one === undefined) return;
  const { consumer, page } = one;
  const events = page.data.map(({ id }) => eventNumber(id) ?? -1);
  const returned = random() < 0.3 ? events.filter(() => random() < 0.5) : [];
  const some = events.filter((event) => !returned.includes(event) && random() < 0.5);
  const input = {
    return: returned.map((event) => ({ id: event, retry_after_s: Math.floor(random() * 120) })),
    ...(random() < 0.3 && some.length > 0 && { acknowledge: some }),
  };
  await runtime.invoke("commit", (services) =>
    commitPoll({ services, principal }, { id: ID, consumer, iterator: page.iterator, ...input }),
  );
}

async function sendAgain({ world }: Run, random: () => number): Promise<void> {
  const events = await planned();
  const eventId = events[Math.floor(random() * events.length)];
  if (eventId === undefined) return;
  await requeueOne(world.services, { destinationId: ID, eventId }, world.clock.now() + 60 * MINUTE);
}

/** The events that the destination is to get. */
async function planned(): Promise<number[]> {
  const rows = await rowsOfAll<{ id: number; plan: string }>("SELECT id, plan FROM bundles ORDER BY id");
  return rows.flatMap(({ id, plan }) =>
    indexesOf(JSON.parse(plan)[ID] ?? []).map((index) => eventAt(id, index)),
  );
}

async function perform(run: Run, act: Act, random: () => number): Promise<void> {
  const { platform } = run;
  const consumer = consumers[Math.floor(random() * consumers.length)] ?? "a";
  const limit = 1 + Math.floor(random() * 6);
  switch (act) {
    case "post":
      return post(run, random);
    case "poll":
      await Promise.all([poll(run, consumer, limit), poll(run, consumer, limit), poll(run, "a", limit)]);
      return;
    case "commit":
      await Promise.all([commit(run, random), commit(run, random)]);
      return;
    case "again":
      return sendAgain(run, random);
    case "deliver":
      return platform.deliver();
    case "drain":
      return platform.drain();
    case "cron":
      return platform.cron();
    case "later":
      return platform.later([1_000, 20_000, MINUTE, 5 * MINUTE][Math.floor(random() * 4)] ?? 0);
    case "evict":
      await gateOf(ID).inboxConsumers();
      return evictDurableObject(gateOf(ID));
    case "all":
      await Promise.all([
        post(run, random),
        poll(run, consumer, limit),
        platform.deliver(),
        post(run, random),
      ]);
      await Promise.all([commit(run, random), poll(run, consumer, limit), platform.drain()]);
  }
}

/** Fetches and commits until nothing comes. */
async function drain(run: Run, consumer: string): Promise<void> {
  for (let empty = 0; empty < 2; ) {
    const before = run.held.length;
    const got = await poll(run, consumer, 50);
    const page = run.held[before]?.page;
    if (page)
      await run.runtime.invoke("commit", (services) =>
        commitPoll({ services, principal }, { id: ID, consumer, iterator: page.iterator }),
      );
    empty = got === 0 ? empty + 1 : 0;
    if (got === 0) run.platform.later(3 * MINUTE);
  }
}

test("every consumer gets every event, whatever happens", async () => {
  let events = 0;
  const property = fc.asyncProperty(
    fc.array(step, { minLength: STEPS, maxLength: STEPS }),
    async (history) => {
      const run = await begin();
      for (const { act, crashAt, seed } of history) {
        if (crashAt !== undefined) run.runtime.failNext(nth(crashAt), "crash");
        await perform(run, act, seededRandom(seed));
        run.runtime.stopFailing();
      }
      await heal(run.platform);
      const all = await planned();
      for (const consumer of consumers) {
        await drain(run, consumer);
        expect([...(run.seen.get(consumer) ?? [])].sort((a, b) => a - b)).toEqual(all);
      }
      for (const { returned, pages } of await gateOf(ID).inboxConsumers())
        expect({ returned, pages }).toEqual({ returned: 0, pages: 0 });
      events += all.length;
    },
  );
  await fc.assert(property, { numRuns: RUNS, seed: propertySeed(7) });
  expect(events).toBeGreaterThan(RUNS * 10);
});
