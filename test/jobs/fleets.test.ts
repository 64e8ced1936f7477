/** However large the fleet: each destination is reached within a stated time, at a bounded cost. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { checkThresholds } from "../../src/features/notifications/thresholds.ts";
import type { Services } from "../../src/services.ts";
import { waitingDestinations } from "../../src/store/waiting.ts";
import { consumeDrains, consumeUpkeep, runCron } from "../../src/upkeep.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { batchOf } from "../support/queues.ts";
import { newWorld, TENANT, type World } from "../support/world.ts";

const MINUTE = 60_000;

let world: World;
/** The destinations whose gates were to schedule a drain, call by call. */
let rung: string[];
let services: Services;
beforeEach(async () => {
  world = await newWorld();
  rung = [];
  const gates = {
    idFromName: (name: string) => name,
    get: (name: string) => ({ scheduleDrain: async () => void rung.push(name) }),
  } as unknown as Services["gates"];
  services = { ...world.services, gates };
});

/** Stores so many destinations, each with a waiting delivery. */
async function waitingFor(count: number): Promise<void> {
  const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;
  await env.DB.prepare(
    `${numbers} INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
     SELECT printf('dst_%07d', i), '${TENANT}', 'https://a.example/', '', 0, 0 FROM n`,
  ).run();
  await env.DB.prepare(
    `${numbers} INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at)
     SELECT printf('dst_%07d', i), 128 + i, 'waiting', 'slow', 8640000000000 FROM n`,
  ).run();
}

/** Runs the cron and its upkeep; returns the destinations that were passed to the queue of drains. */
async function sweepMinute(): Promise<string[]> {
  await runCron(services);
  for (let left = world.upkeepQueue.taken(); left.length > 0; left = world.upkeepQueue.taken())
    for (const { body } of left) await consumeUpkeep(services, batchOf("breakwater-upkeep", [body]).batch);
  world.clock.pass(MINUTE);
  return world.drainQueue.taken().flatMap(({ body }) => ("waiting" in body ? body.waiting : []));
}

/** The same, with the drains that the queue starts. */
async function minute(): Promise<void> {
  const waiting = await sweepMinute();
  if (waiting.length > 0) await consumeDrains(services, batchOf("breakwater-drains", [{ waiting }]).batch);
}

describe("drains for a fleet in which every destination waits", () => {
  test("are enqueued for 40,000 destinations a minute, each once: for a million within 25 minutes", async () => {
    await waitingFor(100_000);
    const minutes = [await sweepMinute(), await sweepMinute(), await sweepMinute()];
    expect(minutes.map(({ length }) => length)).toEqual([40_000, 40_000, 20_000]);
    expect(new Set(minutes.flat()).size).toBe(100_000);
  });

  test("cost at most a thousand calls of gates a minute, apart from the first round and the sweep's own", async () => {
    await waitingFor(6_000);
    await minute();
    expect(new Set(rung).size).toBe(6_000);
    rung = [];
    for (let i = 1; i < 6; i++) await minute();
    expect(rung.length).toBeLessThanOrEqual(5 * 500);
    await minute();
    expect(new Set(rung).size).toBe(6_000);
  });

  test("cost at most four rows read for each destination that is found, wherever it is among all", async () => {
    await waitingFor(20_000);
    for (const after of ["", "dst_0014000"]) {
      world.d1.used();
      const { ids } = await waitingDestinations([services.db], after, 5_000);
      expect(ids).toHaveLength(5_000);
      expect(world.d1.used().rowsRead).toBeLessThanOrEqual(4 * 5_000);
    }
  });

  test("are scheduled by the sweep itself, 500 a minute, if the queue takes nothing", async () => {
    await waitingFor(1_200);
    world.drainQueue.break(true);
    world.upkeepQueue.break(true);
    for (let i = 0; i < 3; i++) await minute();
    expect(new Set(rung).size).toBe(1_200);
    expect(world.logged("drains_not_handed_on").length).toBeGreaterThan(0);
  });
});

/** A database without a row, which answers at once. */
const nothing = { results: [], meta: { changes: 0, rows_read: 0, rows_written: 0 } };
const statement = {
  bind: () => statement,
  first: async () => null,
  all: async () => nothing,
  run: async () => nothing,
};
const emptyD1 = {
  prepare: () => statement,
  batch: async (statements: unknown[]) => statements.map(() => nothing),
} as unknown as D1Database;

describe("with 300 databases", () => {
  test("a minute without traffic stays within the queries of an invocation, in the cron and in each page", async () => {
    let queries = 0;
    const counted = (real: D1Database) =>
      interceptedD1(real, async (sql, call) => {
        queries += sql.split(";").length;
        return call();
      });
    const many = {
      ...services,
      db: counted(services.db),
      further: Array.from({ length: 299 }, () => counted(emptyD1)),
    };
    const used: number[] = [];
    const invocation = async (work: () => Promise<void>) => {
      queries = 0;
      await work();
      used.push(queries);
    };
    await invocation(() => runCron(many).finally(() => checkThresholds(many)));
    for (let left = world.upkeepQueue.taken(); left.length > 0; left = world.upkeepQueue.taken())
      for (const { body } of left)
        await invocation(() => consumeUpkeep(many, batchOf("breakwater-upkeep", [body]).batch));
    expect(Math.max(...used)).toBeLessThan(750);
    expect(used.length).toBeGreaterThan(5);
    expect(used.length).toBeLessThan(25);
  });
});
