/**
 * Random histories of a tenant whose destinations begin and cease to order its events, with several databases: isolates with
 * caches of every age, posts and changes at the same time, keys and messages that are repeated, crashes at any call. Events
 * posted after a change are in line; no event is stored twice; and first successes are in the order of the posts.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { databaseNumberOf } from "../../src/core/placement.ts";
import { seededRandom } from "../../src/core/seeded-random.ts";
import type { Services } from "../../src/services.ts";
import { accept, acceptEach, type GivenEvent } from "../support/accept.ts";
import { rowsOfAll } from "../support/databases.ts";
import { propertySeed, runs } from "../support/effort.ts";
import { faultyRuntime, nth } from "../support/faulty-runtime.ts";
import { heal, platformOf } from "../support/platform.ts";
import { logRequests } from "../support/request-log.ts";
import { newDestination, newGates, newWorld, TENANT } from "../support/world.ts";

const RUNS = runs(6, 50);
const STEPS = 25;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const [WHOLE, BY_PATH, OTHERS] = ["dst_whole", "dst_by0path", "dst_others"] as const;
const ordered = [WHOLE, BY_PATH] as const;
type Ordered = (typeof ordered)[number];

const acts = [
  "post",
  "post",
  "post",
  "change",
  "again",
  "message",
  "later",
  "deliver",
  "all",
  "all",
] as const;
type Act = (typeof acts)[number];

const step = fc.record({
  act: fc.constantFrom<Act>(...acts),
  crashAt: fc.option(fc.integer({ min: 1, max: 8 }), { freq: 3, nil: undefined }),
  seed: fc.nat(1_000_000),
});

/** The posts and their repeats: by key, or as a message by token. */
type Request = Readonly<{ events: readonly GivenEvent[]; key?: string; token?: string; sentAt: number }>;

let [worlds, number] = [0, 0];

async function begin() {
  const world = await newWorld();
  const log = logRequests(world.services);
  worlds += 1;
  const runtime = faultyRuntime({ ...world, services: log.services }, { seed: worlds });
  const ids = [...ordered, OTHERS];
  await newGates(ids);
  for (const id of ordered) await newDestination({ id, eventTypes: ["acme.*"] });
  await newDestination({ id: OTHERS, tenant: "other" });
  const platform = platformOf(world, runtime, ids, worlds);
  const settings = new Map<Ordered, boolean>(ordered.map((id) => [id, false]));
  const seen = new Set<number>();
  return {
    world,
    log,
    runtime,
    platform,
    settings,
    seen,
    requests: [] as Request[],
    stepOf: new Map<number, number>(),
  };
}

type Run = Awaited<ReturnType<typeof begin>>;
type Random = () => number;

const pick = <T>(all: readonly T[], random: Random) => all[Math.floor(random() * all.length)] as T;

function newRequest({ world }: Run, random: Random): Request {
  const count = random() < 0.6 ? 1 : 1 + Math.floor(random() * 4);
  const events = Array.from({ length: count }, (_, i) => {
    number += 1;
    const isOther = i < count - 1 && random() < 0.2;
    const tenant = isOther ? "other" : TENANT;
    return { tenant, type: `${tenant}.${number}`, data: { key: `k${Math.floor(random() * 2)}` } };
  });
  const sentAt = world.clock.now();
  if (random() < 0.4) return { events, key: `key ${number}`, sentAt };
  return count === 1 && random() < 0.3 ? { events, token: `token ${number}`, sentAt } : { events, sentAt };
}

async function send(
  { runtime, world }: Run,
  request: Request,
  random: Random,
  isRepeated = false,
): Promise<void> {
  const { events, key, token, sentAt } = request;
  const delay = Math.floor(random() * 200);
  await runtime.invoke("post", async (services) => {
    await world.clock.sleep(delay);
    const [event] = events;
    if (token !== undefined && event) await acceptEach(services, [{ ...event, token, sentAt, isRepeated }]);
    else await accept(services, events, key).catch(() => {});
  });
}

/** By a person, and by hand: the statement is all that happens. */
async function change({ runtime, world, settings }: Run, random: Random): Promise<Ordered> {
  const id = pick(ordered, random);
  const isOrdered = !settings.get(id);
  const value = isOrdered ? (id === WHOLE ? "destination" : "key") : null;
  const delay = Math.floor(random() * 200);
  const update = async ({ db }: Services) => {
    await world.clock.sleep(delay);
    await db
      .prepare("UPDATE destinations SET ordering = ?2, ordering_path = ?3 WHERE id = ?1")
      .bind(id, value, id === BY_PATH && isOrdered ? "data.key" : null)
      .run();
  };
  await runtime.invoke("change", (services) => update(services).catch(() => {}));
  return id;
}

async function perform(run: Run, act: Act, random: Random): Promise<readonly Ordered[]> {
  const { world, platform, requests } = run;
  const one = () => {
    const request = newRequest(run, random);
    requests.push(request);
    return request;
  };
  // No message is handed over again before it has been for the first time.
  const known = requests.filter(({ key, token }) => key !== undefined || token !== undefined);
  const again = () => {
    const request = known.length > 0 ? pick(known.slice(-6), random) : one();
    return send(run, request, random, true);
  };
  switch (act) {
    case "post":
    case "message":
      await send(run, one(), random);
      return [];
    case "change":
      return [await change(run, random)];
    case "again":
      await again();
      return [];
    case "later":
      world.clock.pass(pick([SECOND, 20 * SECOND, MINUTE, 3 * MINUTE, 11 * MINUTE, 120 * MINUTE], random));
      return [];
    case "deliver":
      await platform.deliver();
      await platform.drain();
      return [];
    case "all": {
      const twice = one();
      const [changed] = await Promise.all([
        change(run, random),
        send(run, twice, random),
        ...(twice.key !== undefined ? [send(run, twice, random), send(run, twice, random)] : []),
        send(run, one(), random),
        again(),
      ]);
      return [changed];
    }
  }
}

type Stored = Readonly<{ id: number; type: string; lines: string | null }>;

/** The new events of a step, whose orders were the same throughout it. */
async function expectInLine(run: Run, at: number, changed: readonly Ordered[]): Promise<void> {
  const stored = await rowsOfAll<Stored>(
    "SELECT e.id, e.type, b.header -> '$.lines' AS lines FROM events e JOIN bundles b ON b.id = e.id / 128",
  );
  const types = stored.map(({ type }) => type);
  expect(types.length, "events that are stored twice").toBe(new Set(types).size);
  for (const { id, type, lines } of stored) {
    if (run.seen.has(id)) continue;
    run.seen.add(id);
    run.stepOf.set(id, at);
    if (!type.startsWith(TENANT)) continue;
    const all = JSON.parse(lines ?? "{}") as Record<string, [string, number, number, ...number[]][]>;
    for (const destination of ordered.filter((one) => !changed.includes(one))) {
      const isInLine = (all[destination] ?? []).some(([, , , ...indexes]) => indexes.includes(id % 128));
      const isWanted = run.settings.get(destination) === true;
      expect(isInLine, `event ${id} stands in line at ${destination}`).toBe(isWanted);
    }
    if (lines !== null) expect(databaseNumberOf(id)).toBe(0);
  }
}

async function noteSettings({ settings }: Run): Promise<void> {
  for (const { id, isOrdered } of await rowsOfAll<{ id: Ordered; isOrdered: number }>(
    "SELECT id, ordering IS NOT NULL AS isOrdered FROM destinations WHERE tenant = ?1",
    TENANT,
  ))
    settings.set(id, isOrdered === 1);
}

/** The first successes of deliveries that stood in line, by what they are ordered by, in the order of the steps. */
async function expectOrder({ log, stepOf }: Run): Promise<number> {
  const rows = await rowsOfAll<{ id: number; lines: string }>(
    "SELECT id, header -> '$.lines' AS lines FROM bundles WHERE header -> '$.lines' IS NOT NULL",
  );
  const lineOf = new Map<string, string>(
    rows.flatMap(({ id, lines }) =>
      Object.entries(JSON.parse(lines) as Record<string, [string, number, number, ...number[]][]>).flatMap(
        ([destination, own]) =>
          own.flatMap(([line, , , ...indexes]) =>
            indexes.map((index) => [`${id * 128 + index} ${destination}`, `${destination} ${line}`] as const),
          ),
      ),
    ),
  );
  const steps = new Map<string, number[]>();
  const known = new Set<string>();
  for (const { key, status } of log.sent) {
    const line = lineOf.get(key);
    if (line === undefined || status === undefined || status >= 300 || known.has(key)) continue;
    known.add(key);
    steps.set(line, [...(steps.get(line) ?? []), stepOf.get(Number(key.split(" ")[0])) ?? -1]);
  }
  for (const [line, own] of steps) expect(own, line).toEqual(own.toSorted((a, b) => a - b));
  return known.size;
}

test("a tenant's events are ordered from the moment that a destination orders them, whatever isolates have cached, and stored once", async () => {
  let inLine = 0;
  const property = fc.asyncProperty(
    fc.array(step, { minLength: STEPS, maxLength: STEPS }),
    async (history) => {
      const run = await begin();
      for (const [at, { act, crashAt, seed }] of history.entries()) {
        if (crashAt !== undefined) run.runtime.failNext(nth(crashAt), "crash");
        const changed = await perform(run, act, seededRandom(seed));
        run.runtime.stopFailing();
        await noteSettings(run);
        await expectInLine(run, at, changed);
      }
      await heal(run.platform);
      inLine += await expectOrder(run);
      expect(await rowsOfAll("SELECT * FROM lines")).toEqual([]);
    },
  );
  await fc.assert(property, { numRuns: RUNS, seed: propertySeed(5) });
  expect(inLine).toBeGreaterThan(RUNS * 5);
});
