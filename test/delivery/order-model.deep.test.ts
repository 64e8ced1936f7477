/**
 * Random histories of ordered destinations: several isolates and batches at once, crashes at any call, failures,
 * retries, pauses, evicted gates, lost and repeated messages, cancellations, skipped and expired heads, replays and
 * deletions. For each key the first successes are in the order of acceptance, those of each replay too, and in the end nothing
 * is stuck.
 */
import { evictDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { expect, test } from "vitest";
import { seededRandom } from "../../src/core/seeded-random.ts";
import { replaying } from "../../src/features/replays/job.ts";
import { atGate } from "../../src/gate/client.ts";
import { newReplayId } from "../../src/ids.ts";
import { behindPage, cancelBehind, cancelDeliveries } from "../../src/store/cancellations.ts";
import { skipHeld } from "../../src/store/lines.ts";
import { beginReplay } from "../../src/store/replay-steps.ts";
import { accept } from "../support/accept.ts";
import { rowsOfAll } from "../support/databases.ts";
import { propertySeed, runs } from "../support/effort.ts";
import { faultyRuntime, nth } from "../support/faulty-runtime.ts";
import { heal, platformOf } from "../support/platform.ts";
import { logRequests } from "../support/request-log.ts";
import {
  execute,
  gateOf,
  newDestination,
  newGates,
  newWorld,
  storedRows,
  TENANT,
  urlOf,
} from "../support/world.ts";

const RUNS = runs(6, 40);
const STEPS = 25;
const MINUTE = 60_000;

const destinations = [
  { id: "dst_order0", ordering: "key", maxConcurrency: 10 },
  { id: "dst_order1", ordering: "key", orderingPath: "data.key", onDead: "hold", maxConcurrency: 3 },
  { id: "dst_order2", ordering: "destination", maxConcurrency: 10 },
] as const;
const ids = destinations.map(({ id }) => id);
const retry = { schedule: [30, 60], max_attempts: 3, give_up_after: 7200, expire_unattempted_after: 86_400 };

const acts = [
  "post",
  "deliver",
  "drain",
  "cron",
  "redeliver",
  "all",
  "later",
  "answers",
  "pause",
  "resume",
  "evict",
  "cancel",
  "dead letters",
  "skip",
  "expire",
  "cancel waiting",
  "replay dead",
  "replay delivered",
] as const;
type Act = (typeof acts)[number];

const step = fc.record({
  act: fc.constantFrom<Act>(
    ...acts,
    "post",
    "post",
    "deliver",
    "deliver",
    "deliver",
    "drain",
    "drain",
    "later",
    "all",
  ),
  crashAt: fc.option(fc.integer({ min: 1, max: 14 }), { freq: 3, nil: undefined }),
  seed: fc.nat(1_000_000),
});

let worlds = 0;

async function begin() {
  const world = await newWorld();
  const log = logRequests(world.services);
  worlds += 1;
  const runtime = faultyRuntime({ ...world, services: log.services }, { seed: worlds });
  await newGates(ids);
  for (const one of destinations) await newDestination({ ...one, retry });
  const platform = platformOf(world, runtime, ids, worlds);
  const replays: Readonly<{ id: string; from: number }>[] = [];
  return { world, log, runtime, platform, replays };
}

type Run = Awaited<ReturnType<typeof begin>>;

let number = 0;

/** Events of some keys, in one request or several, with the key in the event. */
async function post({ runtime }: Run, random: () => number): Promise<void> {
  const count = 1 + Math.floor(random() * 4);
  const events = Array.from({ length: count }, () => {
    const key = `k${Math.floor(random() * 3)}`;
    const options = random() < 0.1 ? undefined : { orderingKey: key };
    return { tenant: TENANT, type: "order.paid", data: { key, n: ++number }, ...(options && { options }) };
  });
  const requests = random() < 0.5 ? [events] : events.map((one) => [one]);
  for (const request of requests)
    await runtime.invoke("post", (services) => accept(services, request).catch(() => {}));
}

const answers: readonly (() => number | Error | (() => Response))[] = [
  () => 204,
  () => 204,
  () => 500,
  () => 400,
  () => new Error("Network connection lost."),
  () => () => new Response(null, { status: 429, headers: { "retry-after": "40" } }),
];

async function perform(run: Run, act: Act, random: () => number): Promise<void> {
  const { world, runtime, platform } = run;
  const one = ids[Math.floor(random() * ids.length)] ?? "";
  switch (act) {
    case "post":
      return post(run, random);
    case "deliver":
      return platform.deliver();
    case "drain":
      return platform.drain();
    case "cron":
      return platform.cron();
    case "redeliver":
      return platform.redeliver();
    case "dead letters":
      return platform.deadLetter();
    case "all":
      await Promise.all([platform.deliver(), platform.drain(), platform.cron(), post(run, random)]);
      return;
    case "later":
      return platform.later([1_000, 20_000, MINUTE, 5 * MINUTE, 20 * MINUTE][Math.floor(random() * 5)] ?? 0);
    case "answers": {
      const some = Array.from({ length: 5 }, () =>
        (answers[Math.floor(random() * answers.length)] ?? (() => 204))(),
      );
      return world.receiver.script(urlOf(one), ...some, 204);
    }
    case "pause":
      return void (await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", one));
    case "resume":
      return resume(run, one);
    case "evict":
      await gateOf(one).destinationState();
      return evictDurableObject(gateOf(one));
    case "cancel": {
      const planned = await rowsOfAll<{ eventId: number }>(
        "SELECT event_id AS eventId FROM lines WHERE destination_id = ?1",
        one,
      );
      const chosen = planned[Math.floor(random() * planned.length)];
      if (!chosen) return;
      const ending = [{ destinationId: one, eventId: chosen.eventId, giveUpAt: world.clock.now() }];
      await runtime.invoke("cancel", (services) =>
        cancelDeliveries(services, ending, services.now()).catch(() => {}),
      );
      return;
    }
    case "skip": {
      const [held] = await rowsOfAll<{ eventId: number }>(HELD, one);
      if (held)
        await runtime.invoke("skip", (services) =>
          skipHeld(services, { ...held, destinationId: one }).catch(() => {}),
        );
      return;
    }
    case "expire":
      await execute(
        `UPDATE deliveries SET give_up_at = 1 WHERE destination_id = ?1 AND event_id = (
          SELECT min(event_id) FROM deliveries WHERE destination_id = ?1 AND state = 'waiting')`,
        one,
      );
      return platform.cron();
    case "cancel waiting":
      return void (await runtime.invoke("cancel waiting", async (services) => {
        const { events } = await behindPage(services.db, one, { line: "", event: 0 }, {});
        await cancelBehind(services.db, one, events, services.now());
      }));
    case "replay dead":
    case "replay delivered":
      return replay(run, one, act === "replay dead" ? "dead" : "delivered");
  }
}

const HELD = `SELECT n.event_id AS eventId FROM lines n JOIN deliveries d
  ON d.destination_id = n.destination_id AND d.event_id = n.event_id AND d.state = 'dead' WHERE n.destination_id = ?1`;

const KEPT = { ms: 30 * 86_400_000, types: {} };

/** Requeues all that have ended so, in one step. */
async function replay(
  { world, runtime, log, replays }: Run,
  destinationId: string,
  include: "dead" | "delivered",
): Promise<void> {
  const now = world.clock.now();
  const id = newReplayId();
  const times = { createdAt: now, updatedAt: now, nextStepAt: now };
  const range = { since: 0, until: now + 1, ratePerMinute: 1_000, pace: 1_000 };
  const job = { id, tenant: TENANT, destinationId, include, state: "running" as const, ...times, ...range };
  const all = { first: 1, last: Number.MAX_SAFE_INTEGER };
  replays.push({ id, from: log.sent.length });
  await runtime.invoke("replay", async (services) => {
    await beginReplay(services.db, job, all, 10_000, KEPT).catch(() => {});
    await replaying.step(services, id).catch(() => {});
  });
}

async function resume({ runtime }: Run, id: string): Promise<void> {
  await execute("UPDATE destinations SET status = 'active', status_reason = NULL WHERE id = ?1", id);
  await runtime.invoke("resume", (services) => atGate(services, id, "resume"));
}

/** The selected deliveries of each line that were sent from a request on, in the order of their first success. */
async function firstSuccesses(
  { log }: Run,
  isMeant: (key: string) => boolean,
  from = 0,
): Promise<ReadonlyMap<string, number[]>> {
  const successes = new Map<string, number[]>();
  const seen = new Set<string>();
  for (const { key, status, body } of log.sent.slice(from)) {
    if (status === undefined || status >= 300 || seen.has(key) || !isMeant(key)) continue;
    seen.add(key);
    const [event = "", destination = ""] = key.split(" ");
    const { key: ordering } = (JSON.parse(body) as { data: { key: string } }).data;
    if (destination === "dst_order0" && !(await hasKey(Number(event)))) continue;
    const line = destination === "dst_order2" ? destination : `${destination} ${ordering}`;
    successes.set(line, [...(successes.get(line) ?? []), Number(event)]);
  }
  return successes;
}

/** First successes of deliveries that were never replayed, and of the others since their last replay began. */
async function orders(run: Run) {
  const rows = await storedRows();
  const replayed = new Map(
    rows
      .filter(({ generation }) => generation > 0)
      .map((row) => [`${row.eventId} ${row.destinationId}`, row.replay]),
  );
  const each = run.replays.map(({ id, from }) =>
    firstSuccesses(run, (key) => replayed.get(key) === id, from),
  );
  return { first: await firstSuccesses(run, (key) => !replayed.has(key)), replays: await Promise.all(each) };
}

async function hasKey(event: number): Promise<boolean> {
  const [bundle] = await rowsOfAll<{ lines: string | null }>(
    "SELECT header -> '$.lines.dst_order0' AS lines FROM bundles WHERE id = ?1",
    Math.floor(event / 128),
  );
  const lines = JSON.parse(bundle?.lines ?? "[]") as [string, number, number, ...number[]][];
  return lines.some(([, , , ...indexes]) => indexes.includes(event % 128));
}

async function expectOrder(run: Run): Promise<void> {
  const { first, replays } = await orders(run);
  for (const [line, events] of [first, ...replays].flatMap((one) => [...one]))
    expect(events, line).toEqual(events.toSorted((a, b) => a - b));
}

/** Dead deliveries hold keys, and are skipped again and again. */
const skipAll = () =>
  execute(`DELETE FROM lines WHERE EXISTS (SELECT 1 FROM deliveries d WHERE d.destination_id = lines.destination_id
    AND d.event_id = lines.event_id AND d.state = 'dead')`);

test("first successes of a key are in the order of acceptance, whatever happens, and nothing is stuck", async () => {
  let [ordered, replayed] = [0, 0];
  const property = fc.asyncProperty(
    fc.array(step, { minLength: STEPS, maxLength: STEPS }),
    async (history) => {
      const run = await begin();
      for (const { act, crashAt, seed } of history) {
        if (crashAt !== undefined) run.runtime.failNext(nth(crashAt), "crash");
        await perform(run, act, seededRandom(seed));
        run.runtime.stopFailing();
      }
      await expectOrder(run);
      for (const id of ids) {
        run.world.receiver.script(urlOf(id), 204);
        await resume(run, id);
      }
      for (let round = 1; round <= 20; round++) {
        await heal(run.platform, skipAll);
        const [open] = await rowsOfAll<{ n: number }>("SELECT count(*) AS n FROM lines");
        if (open?.n === 0) break;
      }
      await expectOrder(run);
      expect(await rowsOfAll("SELECT * FROM lines")).toEqual([]);
      expect((await storedRows()).filter(({ endedAt }) => endedAt === null)).toEqual([]);
      const { first, replays } = await orders(run);
      for (const events of first.values()) ordered += events.length;
      for (const events of replays.flatMap((one) => [...one.values()])) replayed += events.length;
    },
  );
  await fc.assert(property, { numRuns: RUNS, seed: propertySeed(11) });
  expect(ordered).toBeGreaterThan(RUNS * 10);
  expect(replayed).toBeGreaterThan(RUNS);
});
