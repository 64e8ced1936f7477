/**
 * Old events that have ended are removed, with everything that belongs to them, and nothing else is. Random histories
 * are held to a model of ten lines, and every run to a bound of rows.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, lengthOf, type Plan } from "../../../src/core/bundle.ts";
import { retention } from "../../../src/features/retention/job.ts";
import { removeDeleted } from "../../../src/jobs/deleted-destinations.ts";
import { oldBundles, removeEnded } from "../../../src/store/retention.ts";
import { runCron } from "../../../src/upkeep.ts";
import { insertRow } from "../../support/api.ts";
import { bundlesOf, insertBundles } from "../../support/bundle-rows.ts";
import { requeueOne } from "../../support/requeue.ts";
import {
  alarmOf,
  execute,
  gateOf,
  newDestination,
  newWorld,
  storedRows,
  TENANT,
  type World,
} from "../../support/world.ts";

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const KEPT = 30 * DAY;
/** For an event of one delivery that is alone in its bundle. In a full one it is half of that. */
const ROWS_READ = 23.1;

let world: World;
let here: string;
beforeEach(async () => {
  world = await newWorld();
  here = await newDestination();
});

type State = "delivered" | "dead" | "cancelled" | "waiting" | "retrying";
type Past = Readonly<{ ageMs: number; dueInMs?: number; plan: readonly string[]; key?: string }>;

/** An event of the past, by its age, in a bundle of its own; returns its number. */
async function event({ ageMs, dueInMs, plan, key }: Past): Promise<number> {
  const acceptedAt = world.clock.now() - ageMs;
  const deliverAt = dueInMs === undefined ? undefined : acceptedAt + dueInMs;
  const keys = key === undefined ? [] : ([[TENANT, key]] as const);
  const events = [{ tenant: TENANT, type: "order.paid", destinations: plan }];
  const [id = -1] = await insertBundles(env.DB, [{ acceptedAt, deliverAt, keys, events }]);
  for (const [tenant, name] of keys)
    await insertRow("idempotency_keys", {
      tenant,
      key: name,
      fingerprint: "f",
      bundles: [bundleOf(id)],
      places: [[0, 0]],
      created_at: acceptedAt,
    });
  return id;
}

async function delivery(id: number, destination: string, state: State, endedAgoMs = 2 * HOUR): Promise<void> {
  const now = world.clock.now();
  const ended = ["delivered", "dead", "cancelled"].includes(state) ? now - endedAgoMs : null;
  await insertRow("deliveries", {
    destination_id: destination,
    event_id: id,
    state,
    next_attempt_at: ended === null ? now + DAY : null,
    give_up_at: now + DAY,
    ended_at: ended,
  });
}

/** The youngest, which stays whatever its age, so that the others are judged by their own age. */
const newest = () => event({ ageMs: 0, plan: [] });

async function ids(): Promise<number[]> {
  const { results } = await env.DB.prepare("SELECT id FROM events ORDER BY id").all<{ id: number }>();
  return results.map(({ id }) => id);
}

const cursor = () => env.DB.prepare("SELECT row_id FROM cursors WHERE name = 'retention'").first("row_id");

describe("an old event", () => {
  test.each<State>(["delivered", "dead", "cancelled"])("goes with its %s delivery", async (state) => {
    await delivery(await event({ ageMs: KEPT, plan: [here] }), here, state);
    const last = await newest();
    await retention.run(world.services);
    expect(await ids()).toEqual([last]);
    expect(await storedRows()).toEqual([]);
    expect(world.logged("removed")).toMatchObject([{ events: 1, deliveries: 1 }]);
  });

  test.each<State>(["waiting", "retrying"])("stays while a delivery of it is %s", async (state) => {
    const there = await newDestination();
    const old = await event({ ageMs: 9 * KEPT, plan: [here, there] });
    await delivery(old, here, "delivered");
    await delivery(old, there, state);
    const last = await newest();
    await retention.run(world.services);
    expect(await ids()).toEqual([old, last]);
    expect(await storedRows()).toHaveLength(2);
  });

  test("stays while one of its deliveries has no outcome yet", async () => {
    const old = await event({ ageMs: KEPT, plan: [here] });
    const last = await newest();
    await retention.run(world.services);
    expect(await ids()).toEqual([old, last]);
  });

  test("without destinations is removed, and one a millisecond too young stays", async () => {
    await event({ ageMs: KEPT, plan: [] });
    const young = await event({ ageMs: KEPT - 1, plan: [] });
    const last = await newest();
    await retention.run(world.services);
    expect(await ids()).toEqual([young, last]);
    world.clock.pass(1);
    await retention.run(world.services);
    expect(await ids()).toEqual([last]);
  });

  test("is as old as its deliver_at", async () => {
    const later = await event({ ageMs: KEPT + DAY, dueInMs: DAY + 1, plan: [here] });
    const over = await event({ ageMs: KEPT + DAY, dueInMs: DAY, plan: [here] });
    for (const id of [later, over]) await delivery(id, here, "delivered");
    const last = await newest();
    await retention.run(world.services);
    expect(await ids()).toEqual([later, last]);
  });

  test("stays for an hour after its last end, because earlier readers may still write", async () => {
    const old = await event({ ageMs: KEPT + DAY, plan: [here] });
    await delivery(old, here, "delivered", HOUR - 1);
    const last = await newest();
    await retention.run(world.services);
    expect(await ids()).toEqual([old, last]);
    world.clock.pass(1);
    await retention.run(world.services);
    expect(await ids()).toEqual([last]);
  });

  test("stays when it is the newest, so that its number is not reused", async () => {
    await event({ ageMs: 2 * KEPT, plan: [] });
    const last = await event({ ageMs: KEPT, plan: [] });
    await retention.run(world.services);
    expect(await ids()).toEqual([last]);
    expect(bundleOf(await event({ ageMs: 0, plan: [] }))).toBe(bundleOf(last) + 1);
  });

  test("frees its key when it is removed, not before", async () => {
    await event({ ageMs: KEPT, plan: [], key: "k" });
    await newest();
    await expect(event({ ageMs: 0, plan: [], key: "k" })).rejects.toThrow("UNIQUE");
    await retention.run(world.services);
    await newest();
    await event({ ageMs: 0, plan: [], key: "k" });
  });

  test("is removed although the row of its destination was deleted by hand, together with waiting deliveries", async () => {
    const there = await newDestination();
    const old = await event({ ageMs: KEPT, plan: [here, there] });
    await delivery(old, here, "delivered");
    await delivery(old, there, "waiting");
    const last = await newest();
    await retention.run(world.services);
    expect(await ids()).toEqual([old, last]);
    await execute("DELETE FROM destinations WHERE id = ?1", there);
    await retention.run(world.services);
    expect(await ids()).toEqual([last]);
    expect(await storedRows()).toEqual([]);
  });

  test("for a deleted destination is removed once the sweep has ended it", async () => {
    const old = await event({ ageMs: KEPT, plan: [here] });
    const last = await newest();
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", here);
    // One run makes lost deliveries wait, and the next ends those whose destination is gone.
    await runCron(world.services);
    expect((await storedRows()).map(({ state, reason }) => [state, reason])).toEqual([
      ["waiting", "recovered"],
    ]);
    expect(await ids()).toEqual([old, last]);
    world.clock.pass(HOUR);
    await runCron(world.services);
    expect(await ids()).toEqual([last]);
  });

  test("that waits again when it would be removed stays as a whole", async () => {
    const there = await newDestination();
    const old = await event({ ageMs: KEPT, plan: [here, there] });
    for (const id of [here, there]) await delivery(old, id, "dead");
    await newest();
    await requeueOne({ db: env.DB }, { destinationId: there, eventId: old }, world.clock.now() + DAY);
    const seen = [pageOf(old, { [here]: [0, 0], [there]: [0, 0] })];
    const removed = await removeEnded(env.DB, seen, { gone: [], replays: [] }, world.clock.now());
    expect(removed).toEqual({ events: 0, deliveries: 0 });
    expect(await storedRows()).toHaveLength(2);
  });

  test("that is planned for another destination when it would be removed stays as a whole", async () => {
    const there = await newDestination();
    const old = await event({ ageMs: KEPT, plan: [here] });
    await delivery(old, here, "dead");
    await newest();
    const seen = [pageOf(old, { [here]: [0, 0] })];
    await execute(
      "UPDATE bundles SET plan = json_set(plan, '$.' || ?1, json('[0,0]')), planned = 2 WHERE id = ?2",
      there,
      bundleOf(old),
    );
    expect(await removeEnded(env.DB, seen, { gone: [], replays: [] }, world.clock.now())).toEqual({
      events: 0,
      deliveries: 0,
    });
    expect(await storedRows()).toHaveLength(1);
  });

  test("that a replay of missing deliveries may still plan stays until that has ended", async () => {
    const old = await event({ ageMs: KEPT, plan: [] });
    const last = await newest();
    const there = await newDestination();
    await execute(
      `INSERT INTO replays (id, tenant, destination_id, include, since, until, rate_per_minute, state, pace,
         next_step_at, created_at, updated_at) VALUES ('rpl_1', ?1, ?2, 'missing', 0, ?3, 1, 'paused', 1, 0, 0, 0)`,
      TENANT,
      there,
      world.clock.now(),
    );
    await runCron(world.services);
    expect(await ids()).toEqual([old, last]);
    await execute("UPDATE replays SET state = 'cancelled'");
    await runCron(world.services);
    expect(await ids()).toEqual([last]);
  });
});

/** The only event of a bundle as the page that is to be removed has it. */
function pageOf(event: number, plan: Record<string, number[]>) {
  const planned = Object.keys(plan).length;
  return { bundle: bundleOf(event), acceptedAt: 0, planned, plan, keys: [], tenants: [TENANT] };
}

describe("a bundle", () => {
  test("stays as a whole, with its deliveries and keys, until the last of its events has ended, and is then removed as a whole", async () => {
    const there = await newDestination();
    const keys = [
      [TENANT, "one"],
      ["other", "two"],
    ] as const;
    const plans = [[here], [here, there], [there], []];
    const [first = 0, second = 0, third = 0] = await insertBundles(env.DB, [
      {
        acceptedAt: world.clock.now() - KEPT,
        keys,
        events: plans.map((destinations) => ({ destinations })),
      },
    ]);
    for (const [tenant, key] of keys)
      await insertRow("idempotency_keys", {
        tenant,
        key,
        fingerprint: "f",
        bundles: [bundleOf(first)],
        places: [[0, 0]],
        created_at: 0,
      });
    await delivery(first, here, "delivered");
    await delivery(second, here, "dead");
    await delivery(second, there, "waiting");
    await delivery(third, there, "cancelled");
    const last = await newest();
    const keysLeft = () => env.DB.prepare("SELECT count(*) AS n FROM idempotency_keys").first("n");
    await retention.run(world.services);
    expect([await ids(), await keysLeft()]).toEqual([[first, second, third, third + 1, last], 2]);
    expect(await storedRows()).toHaveLength(4);
    await execute("UPDATE deliveries SET state = 'dead', ended_at = 0 WHERE state = 'waiting'");
    await retention.run(world.services);
    expect([await ids(), await keysLeft(), await storedRows()]).toEqual([[last], 0, []]);
    expect(world.logged("removed")).toMatchObject([{ events: 4, deliveries: 4 }]);
  });
});

describe("a replay under way", () => {
  async function replay(state: string, since: number, until: number): Promise<void> {
    await insertRow("replays", {
      id: `rpl_${state}${since}`,
      tenant: TENANT,
      destination_id: here,
      include: "dead",
      since,
      until,
      rate_per_minute: 100,
      state,
      pace: 100,
      next_step_at: Number.MAX_SAFE_INTEGER,
      created_at: 0,
      updated_at: 0,
    });
  }

  test.each([
    "running",
    "paused",
  ])("that is %s prevents the removal of events in its period, until it ends", async (state) => {
    const now = world.clock.now();
    const there = await newDestination();
    const [before, within, after] = [
      await event({ ageMs: KEPT + 3 * DAY, plan: [here] }),
      await event({ ageMs: KEPT + 2 * DAY, plan: [here, there] }),
      await event({ ageMs: KEPT + DAY, plan: [here] }),
    ];
    const other = await event({ ageMs: KEPT + DAY, plan: [there] });
    for (const id of [before, within, after]) await delivery(id, here, "dead");
    for (const id of [within, other]) await delivery(id, there, "delivered");
    const last = await newest();
    await replay("completed", 0, now);
    await replay(state, now - KEPT - 2 * DAY, now - KEPT - DAY);
    await retention.run(world.services);
    expect(await ids()).toEqual([within, last]);
    expect(await storedRows()).toHaveLength(2);
    await execute("UPDATE replays SET state = 'cancelled'");
    await retention.run(world.services);
    expect(await ids()).toEqual([last]);
  });
});

describe("a replay under way of a deleted destination", () => {
  test("holds nothing back, paused or running", async () => {
    for (const state of ["paused", "running"]) {
      const there = await newDestination();
      await delivery(await event({ ageMs: KEPT + DAY, plan: [there] }), there, "dead");
      await insertRow("replays", {
        id: `rpl_${state}`,
        tenant: TENANT,
        destination_id: there,
        include: "dead",
        since: 0,
        until: world.clock.now(),
        rate_per_minute: 100,
        state,
        pace: 100,
        next_step_at: Number.MAX_SAFE_INTEGER,
        created_at: 0,
        updated_at: 0,
      });
    }
    const last = await newest();
    await execute("UPDATE destinations SET deleted_at = 1");
    await retention.run(world.services);
    expect(await ids()).toEqual([last]);
  });
});

describe("a deleted destination", () => {
  const left = async () =>
    (await env.DB.prepare("SELECT id FROM destinations ORDER BY id").all<{ id: string }>()).results.map(
      ({ id }) => id,
    );
  const storedAtGate = (id: string) =>
    runInDurableObject(gateOf(id), async (_, { storage }) => [...storage.kv.list()].length);

  /** Deleted so long ago. */
  const bury = (id: string, agoMs: number) =>
    execute("UPDATE destinations SET deleted_at = ?1 WHERE id = ?2", world.clock.now() - agoMs, id);

  test("is removed, with its gate's storage, together with its last delivery, and not before", async () => {
    const old = await event({ ageMs: KEPT, plan: [here] });
    await delivery(old, here, "cancelled", HOUR - 1);
    await newest();
    await gateOf(here).scheduleDrain();
    await bury(here, KEPT);
    await runCron(world.services);
    expect(await left()).toEqual([here]);
    expect(await storedAtGate(here)).toBeGreaterThan(0);
    world.clock.pass(MINUTE);
    await runCron(world.services);
    world.clock.pass(MINUTE);
    await runCron(world.services);
    expect(await left()).toEqual([]);
    expect(await storedAtGate(here)).toBe(0);
    expect(await alarmOf(here)).toBeNull();
    expect(world.logged("destinations_removed")).toMatchObject([{ destinations: 1 }]);
  });

  test("stays for the retention time, and one that is not deleted stays for ever", async () => {
    const there = await newDestination();
    await bury(there, KEPT - 1);
    await removeDeleted(world.services);
    expect(await left()).toEqual([here, there].sort());
    world.clock.pass(1);
    await removeDeleted(world.services);
    expect(await left()).toEqual([here]);
  });

  test("whose gate cannot be reached is removed by a later run", async () => {
    await bury(here, KEPT);
    world.gates.before(() => {
      throw new Error("Durable Object is overloaded");
    });
    await removeDeleted(world.services);
    expect(await left()).toEqual([here]);
    world.gates.before(() => {});
    await removeDeleted(world.services);
    expect(await left()).toEqual([]);
  });

  test("that cannot be removed yet delays no later one, and each run reads a bounded number", async () => {
    await execute("DELETE FROM destinations");
    const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250)";
    await execute(
      `${numbers} INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at, deleted_at)
       SELECT printf('dst_%03d', i), '${TENANT}', 'https://a.example/', '', 0, 0, ?1 FROM n`,
      1,
    );
    for (let i = 1; i <= 150; i++) await delivery(i, `dst_${String(i).padStart(3, "0")}`, "cancelled");
    for (const calls of [0, 50, 50]) {
      await removeDeleted(world.services);
      expect(world.gates.called()).toHaveLength(calls);
    }
    expect(await left()).toHaveLength(150);
  });

  test("costs a run that finds none a few rows, however many destinations there are", async () => {
    for (let i = 0; i < 20; i++) await newDestination();
    await bury(here, KEPT - 1);
    world.d1.used();
    await removeDeleted(world.services);
    expect(world.d1.used()).toMatchObject({ roundTrips: 2, queries: 2, rowsWritten: 0 });
    await removeDeleted(world.services);
    expect(world.d1.used().rowsRead).toBeLessThanOrEqual(2);
  });
});

describe("a run", () => {
  test("costs three rows and two round trips when nothing is old, however much is stored", async () => {
    await many(2_000, KEPT - 1);
    world.d1.used();
    await retention.run(world.services);
    expect(world.d1.used()).toMatchObject({ roundTrips: 2, queries: 2, rowsWritten: 0 });
    await retention.run(world.services);
    expect(world.d1.used().rowsRead).toBeLessThanOrEqual(3);
  });

  test("writes as many rows to remove an event as storing it did, and reads a few", async () => {
    await many(500, KEPT);
    await newest();
    world.d1.used();
    await retention.run(world.services);
    const { rowsRead, rowsWritten, roundTrips } = world.d1.used();
    console.log(
      `removing 500 events of one delivery: ${JSON.stringify({ rowsRead, rowsWritten, roundTrips })}`,
    );
    expect(await ids()).toHaveLength(1);
    expect(rowsWritten).toBe(1_000);
    expect(rowsRead / 500).toBeLessThanOrEqual(ROWS_READ);
  });

  test("removes full bundles for less: a row written for each, and for each delivery", async () => {
    await many(2_000, KEPT, 100);
    await newest();
    world.d1.used();
    await retention.run(world.services);
    const { rowsRead, rowsWritten, roundTrips } = world.d1.used();
    console.log(`removing 20 bundles of 100: ${JSON.stringify({ rowsRead, rowsWritten, roundTrips })}`);
    expect(await ids()).toHaveLength(1);
    expect(rowsWritten).toBe(2_020);
    expect(rowsRead / 2_000).toBeLessThanOrEqual(8);
  });

  test("removes delivered full bundles for two rows each, and reads few", async () => {
    for (let bundle = 0; bundle < 20; bundle++) {
      await world.consume(await world.post(100));
      world.clock.pass(MINUTE);
    }
    world.clock.pass(KEPT + 2 * HOUR);
    await newest();
    world.d1.used();
    await retention.run(world.services);
    const { rowsRead, rowsWritten } = world.d1.used();
    expect(await ids()).toHaveLength(1);
    expect(await storedRows()).toEqual([]);
    expect(rowsWritten).toBe(2 * 20);
    expect(rowsRead).toBeLessThanOrEqual(23 * 20);
  });

  test("removes a bounded number, leaves the rest to the next, and skips events that have not ended", async () => {
    await many(11_000, KEPT);
    await execute("UPDATE deliveries SET state = 'waiting', ended_at = NULL WHERE event_id / 128 % 100 = 0");
    await newest();
    world.d1.used();
    await retention.run(world.services);
    expect(world.d1.used().rowsRead).toBeLessThanOrEqual(20 * 500 * ROWS_READ);
    expect(await ids()).toHaveLength(1 + 1_000 + 100);
    expect(await cursor()).toBeGreaterThan(0);
    await retention.run(world.services);
    expect(await ids()).toHaveLength(1 + 110);
    expect(await cursor()).toBe(0);
    await execute("UPDATE deliveries SET state = 'dead', ended_at = 0 WHERE state = 'waiting'");
    await retention.run(world.services);
    expect(await ids()).toHaveLength(1);
  });

  test("takes an event separately that has more deliveries than fit together", async () => {
    const wide = Array.from({ length: 3_000 }, (_, i) => `dst_${i}`);
    for (const plan of [[], wide, wide, []]) await event({ ageMs: KEPT, plan });
    const last = await newest();
    await retention.run(world.services);
    expect(await ids()).toEqual([last]);
  });
});

/** The given number of delivered events of an age, by default each in a separate bundle. */
async function many(count: number, ageMs: number, perBundle = 1): Promise<void> {
  const acceptedAt = world.clock.now() - ageMs;
  const events = Array.from({ length: count }, () => ({ tenant: TENANT, destinations: [here] }));
  await insertBundles(env.DB, bundlesOf(events, { acceptedAt }, perBundle));
  await env.DB.prepare(
    `INSERT INTO deliveries (destination_id, event_id, state, attempts, give_up_at, ended_at)
       SELECT ?1, id, 'delivered', 1, 0, ?2 FROM events WHERE accepted_at = ?2`,
  )
    .bind(here, acceptedAt)
    .run();
}

/** The steps of a history; a `queued` delivery has no row. */
const state = fc.constantFrom<State | "queued">(
  "delivered",
  "dead",
  "cancelled",
  "waiting",
  "retrying",
  "queued",
);
const endedAgoMs = fc.constantFrom(0, HOUR - 1, HOUR, DAY);
const deliveries = fc.uniqueArray(fc.record({ place: fc.nat(2), state, endedAgoMs }), {
  maxLength: 3,
  selector: ({ place }) => place,
});
const ageMs = fc.constantFrom(0, KEPT - 1, KEPT, KEPT + DAY, 3 * KEPT);
const dueInMs = fc.option(fc.constantFrom(0, 1, DAY, 2 * KEPT), { nil: undefined });
const history = fc.array(fc.record({ ageMs, dueInMs, deliveries }), { minLength: 1, maxLength: 12 });

type History = typeof history extends fc.Arbitrary<infer H> ? H : never;

describe("whatever the history", () => {
  test("exactly the old bundles whose events have all ended are removed as a whole, except the newest", async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.nat(3), async (given, lost) => {
        world = await newWorld();
        const places = [await newDestination(), await newDestination(), await newDestination()];
        const stored = await store(
          given.toSorted((a, b) => b.ageMs - a.ageMs),
          places,
        );
        const gone = places[lost];
        if (gone !== undefined) await execute("DELETE FROM destinations WHERE id = ?1", gone);
        const before = await storedRows();
        await retention.run(world.services);
        const stays = stored
          .filter((one, i) => i === stored.length - 1 || !mayGo(one, gone))
          .map(({ id }) => id);
        expect(await ids()).toEqual(stays);
        expect(await storedRows()).toEqual(before.filter(({ eventId }) => stays.includes(eventId)));
        expect(await cursor()).toBeOneOf([null, 0]);
      }),
      { numRuns: 60 },
    );
  });
});

describe("the walk", () => {
  test("reads everything old once, in bounded pages, and then ends", async () => {
    const bounds = fc.record({
      bundles: fc.integer({ min: 1, max: 5 }),
      deliveries: fc.integer({ min: 1, max: 5 }),
    });
    await fc.assert(
      fc.asyncProperty(history, bounds, async (given, bound) => {
        world = await newWorld();
        const stored = await store(
          given.toSorted((a, b) => b.ageMs - a.ageMs),
          ["a", "b", "c"],
        );
        const horizon = world.clock.now() - KEPT;
        const seen: number[] = [];
        let after = 0;
        for (let isLast = false; !isLast; ) {
          const page = await oldBundles(env.DB, after, { ...bound, horizon });
          const planned = page.bundles.reduce((sum, { plan }) => sum + plannedBy(plan), 0);
          expect(page.bundles.length).toBeLessThanOrEqual(bound.bundles);
          if (page.bundles.length > 1) expect(planned).toBeLessThanOrEqual(bound.deliveries);
          expect(page.isLast || page.upto > after).toBe(true);
          seen.push(...page.bundles.map(({ bundle }) => bundle));
          ({ upto: after, isLast } = page);
        }
        const isOld = ({ given: { ageMs, dueInMs = 0 } }: Stored) => ageMs - dueInMs >= KEPT;
        expect(seen).toEqual(stored.filter(isOld).map(({ id }) => bundleOf(id)));
      }),
      { numRuns: 40 },
    );
  });
});

function plannedBy(plan: Plan): number {
  return Object.values(plan).reduce((sum, runs) => sum + lengthOf(runs), 0);
}

type Stored = Readonly<{ id: number; places: readonly string[]; given: History[number] }>;

async function store(given: History, places: readonly string[]): Promise<Stored[]> {
  const stored: Stored[] = [];
  for (const one of given) {
    const plan = one.deliveries.map(({ place }) => places[place] ?? "");
    const { ageMs, dueInMs } = one;
    const id = await event({ ageMs, plan, ...(dueInMs !== undefined && { dueInMs }) });
    for (const [i, { state, endedAgoMs }] of one.deliveries.entries())
      if (state !== "queued") await delivery(id, plan[i] ?? "", state, endedAgoMs);
    stored.push({ id, places: plan, given: one });
  }
  return stored;
}

function mayGo({ places, given }: Stored, gone: string | undefined): boolean {
  const isOver = given.deliveries.every(
    ({ state, endedAgoMs }, i) =>
      places[i] === gone || (["delivered", "dead", "cancelled"].includes(state) && endedAgoMs >= HOUR),
  );
  return isOver && given.ageMs - (given.dueInMs ?? 0) >= KEPT;
}
