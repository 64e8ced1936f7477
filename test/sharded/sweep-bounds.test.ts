/**
 * However much there is to do, a cron run stays within the queries that D1 allows an invocation, schedules drains before it
 * repairs, and passes the rest to the queue; and every waiting delivery is reached within a stated number of ticks.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { beforeFirstBundleOf, beforeFirstOf } from "../../src/core/placement.ts";
import type { Services } from "../../src/services.ts";
import { consumeDrains, consumeUpkeep, runCron } from "../../src/upkeep.ts";
import { bundlesOf, insertBundles } from "../support/bundle-rows.ts";
import { rowsOfAll, testDatabases } from "../support/databases.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { batchOf } from "../support/queues.ts";
import { GRACE_MS, newWorld, START, TENANT, type World } from "../support/world.ts";

/** Queries that D1 allows an invocation; each statement of a batch counts. */
const ALLOWED = 1_000;
/** Most queries of a tick, or of a page of it. */
const BUDGET = 400;
const MINUTE = 60_000;
const NEVER = 8_640_000_000_000;

let world: World;
let rung: string[];
beforeEach(async () => {
  world = await newWorld();
  rung = [];
});

const numbers = (count: number) =>
  `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;
const nameOf = "printf('dst_%05d', i)";

/** Stores so many destinations, each with a waiting delivery in every database. */
async function waitingFor(count: number, giveUpAt = NEVER): Promise<void> {
  const times = "'https://a.example/', '', 0, 0";
  await testDatabases[0]
    ?.prepare(
      `${numbers(count)} INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
       SELECT ${nameOf}, '${TENANT}', ${times} FROM n`,
    )
    .run();
  for (const [number, db] of testDatabases.entries())
    await db
      .prepare(
        `${numbers(count)} INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at)
         SELECT ${nameOf}, ${beforeFirstOf(number)} + i, 'waiting', 'slow', ${giveUpAt} FROM n`,
      )
      .run();
}

/** Stores so many events without messages in each database, each for one of the destinations. */
async function lost(count: number, destinations: number): Promise<void> {
  const events = Array.from({ length: count }, (_, i) => ({
    tenant: TENANT,
    destinations: [`dst_${String(1 + ((i + 1) % destinations)).padStart(5, "0")}`],
  }));
  for (const [number, db] of testDatabases.entries()) {
    const bundles = bundlesOf(events, { acceptedAt: START });
    // After the events that wait.
    const first = beforeFirstBundleOf(number) + 100;
    await insertBundles(
      db,
      bundles.map((bundle, i) => ({ ...bundle, id: first + i })),
      number,
    );
  }
}

/** An invocation that D1 stops at its limit, with gates that only record which destinations a drain was scheduled for. */
async function invocation(work: (services: Services) => Promise<void>): Promise<number> {
  let queries = 0;
  const [db, ...further] = testDatabases.map((real) =>
    interceptedD1(real, async (sql, call) => {
      queries += sql.split(";").length;
      if (queries > ALLOWED) throw new Error("D1_ERROR: Too many API requests by single worker invocation.");
      return call();
    }),
  );
  const gates = {
    idFromName: (name: string) => name,
    get: (name: string) => ({
      scheduleDrain: async () => void rung.push(name),
      countDead: async () => false,
    }),
  } as unknown as Services["gates"];
  if (db) await work({ ...world.services, db, further, gates });
  return queries;
}

const cron = () => invocation(runCron);

/** Consumes the upkeep queue until it is empty, and then that of drains, each message in an invocation of its own. */
async function pages(): Promise<number[]> {
  const used: number[] = [];
  for (let left = world.upkeepQueue.taken(); left.length > 0; left = world.upkeepQueue.taken())
    for (const { body } of left) {
      const { batch } = batchOf("breakwater-upkeep", [body]);
      used.push(await invocation((services) => consumeUpkeep(services, batch)));
    }
  for (const { body } of world.drainQueue.taken()) {
    const { batch } = batchOf("breakwater-drains", [body]);
    used.push(await invocation((services) => consumeDrains(services, batch)));
  }
  return used;
}

const heartbeat = async () =>
  (await rowsOfAll<{ at: number }>("SELECT heartbeat_at AS at FROM sweeps WHERE heartbeat_at > 0"))[0]?.at;
const countOf = async (where: string) =>
  (await rowsOfAll<{ n: number }>(`SELECT count(*) AS n FROM delivery_states WHERE ${where}`)).reduce(
    (sum, { n }) => sum + n,
    0,
  );

describe("with 1,500 waiting destinations in three databases and thousands of lost deliveries", () => {
  beforeEach(async () => {
    await waitingFor(1_500);
    await lost(4_000, 1_500);
    world.clock.pass(GRACE_MS);
  });

  test("a tick completes within its budget of queries and writes a heartbeat", async () => {
    expect(await cron()).toBeLessThanOrEqual(BUDGET);
    expect(await heartbeat()).toBe(START + GRACE_MS);
  });

  test("pages from the queue do what a tick leaves over, each within the budget, and all lost deliveries wait", async () => {
    await cron();
    for (const used of await pages()) expect(used).toBeLessThanOrEqual(BUDGET);
    expect(await countOf("reason = 'recovered'")).toBe(12_000);
  });

  test("drains are scheduled before lost deliveries are repaired", async () => {
    await invocation(async (services) => {
      let repaired = -1;
      const db = interceptedD1(services.db, (sql, call) => {
        if (repaired < 0 && /INSERT INTO packs|json_each\(b.plan\)/.test(sql)) repaired = rung.length;
        return call();
      });
      await runCron({ ...services, db });
      expect(repaired).toBeGreaterThanOrEqual(500);
    });
  });
});

test("a drain is scheduled for each of 2,600 waiting destinations within a tick, or six if the queues lose everything", async () => {
  await waitingFor(2_600);
  await cron();
  await pages();
  world.clock.pass(MINUTE);
  expect(new Set(rung).size).toBe(2_600);
  rung = [];
  for (let i = 0; i < 6; i++) {
    await cron();
    world.upkeepQueue.taken();
    world.drainQueue.taken();
    world.clock.pass(MINUTE);
  }
  expect(new Set(rung).size).toBe(2_600);
});

test("a tick checks the age limits of 24,000 waiting deliveries, and reaches each of 60,000 in three databases within five ticks", async () => {
  for (const [number, db] of testDatabases.entries())
    await db
      .prepare(
        `${numbers(20_000)} INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at)
         SELECT 'dst_00001', ${beforeFirstOf(number)} + i, 'waiting', 'slow', iif(i < 20000, ${NEVER}, ${START}) FROM n`,
      )
      .run();
  const looked: number[] = [];
  for (let i = 0; i < 5; i++) {
    world.clock.pass(MINUTE);
    let rows = 0;
    const counted = (real: D1Database) =>
      interceptedD1(real, async (sql, call) => {
        const result = await call();
        if (sql.includes("give_up_at AS giveUpAt")) rows += (result as D1Result).results.length;
        return result;
      });
    await invocation(({ db, further = [], ...services }) =>
      runCron({ ...services, db: counted(db), further: further.map(counted) }),
    );
    looked.push(rows);
  }
  expect(looked).toEqual(Array(5).fill(24_000));
  expect(await countOf("state = 'dead' AND reason = 'expired'")).toBe(3);
});
