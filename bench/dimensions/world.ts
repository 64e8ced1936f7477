/**
 * Counts the cost of an event in a deployment of a given size: first come uncounted rounds, until caches are in their
 * steady state.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { DimensionStep } from "../results.ts";
import { type DeploymentSize, deployment } from "./deployment.ts";

export type Size = DeploymentSize &
  Readonly<{
    /** How long the isolates are idle, while others accept an event a second. */
    idleMs: number;
  }>;

/** The size of each dimension while another one grows. */
export const USUAL: Size = {
  isolates: 3,
  tenants: 10,
  keys: 10,
  destinations: 10,
  databases: 1,
  shards: 1,
  idleMs: 0,
};

/** The cost of an event, from the request that posts it to the settled delivery. */
type Counted = Omit<DimensionStep, "size">;

export type GrowthWorld = Readonly<{
  /** Plays `rounds` rounds uncounted, and as many counted. */
  measure: (rounds: number) => Promise<Counted>;
  close: () => Promise<void>;
}>;

/** Single posts in a round, which is a second of virtual time. One more request posts a batch. */
const SINGLE = 15;
const BATCH = 5;

export async function growthWorld(size: Size): Promise<GrowthWorld> {
  const { all, d1, isolates, intakes, counted, ...world } = await deployment(size);
  const anyTenant = () => `tenant-${Math.floor(world.random() * size.tenants)}`;

  async function round(): Promise<number> {
    await world.advance(1_000);
    const single = Array.from({ length: SINGLE }, () => world.post([anyTenant()]));
    await Promise.all([...single, world.post(Array(BATCH).fill(anyTenant()))]);
    await world.settled();
    await world.consume();
    return SINGLE + BATCH;
  }

  async function measure(rounds: number): Promise<Counted> {
    for (let i = 0; i < rounds; i++) await round();
    if (size.idleMs > 0) {
      await othersAccept(all, size.idleMs / 1_000, world.now());
      await world.advance(size.idleMs);
    }
    d1.used();
    counted.gateCalls = 0;
    let events = 0;
    for (let i = 0; i < rounds; i++) events += await round();
    const used = d1.used();
    const { gateCalls } = counted;
    await world.advance(60_000);
    await world.cron();
    await world.settled();
    const cron = d1.used();
    const held = isolates.length + intakes.size;
    const before = await heapKb();
    isolates.length = 0;
    intakes.clear();
    const isolateKb = (before - (await heapKb())) / held;
    return {
      rowsRead: used.rowsRead / events,
      rowsWritten: used.rowsWritten / events,
      queries: used.queries / events,
      gateCalls: gateCalls / events,
      isolateKb,
      cronQueries: cron.queries,
      cronRowsRead: cron.rowsRead,
    };
  }

  return { measure, close: world.close };
}

/**
 * Inserts bundles of one event without a destination, as other isolates would have committed them, spread over all
 * databases.
 */
async function othersAccept(all: readonly D1Database[], seconds: number, from: number): Promise<void> {
  const count = Math.ceil(seconds / all.length);
  for (const db of all)
    await db
      .prepare(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO bundles (id, tokens, accepted_at, count, planned, plan, header, body)
         SELECT newest.id + i, '["others' || i || '"]', CAST(?2 + i * 1000 * ?3 AS INTEGER), 1, 0, '{}', b.header, b.body
         FROM n, (SELECT * FROM bundles WHERE count = 1 LIMIT 1) b, (SELECT max(id) AS id FROM bundles) newest`,
      )
      .bind(count, from, all.length)
      .run();
}

const collect = (() => {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
})();

async function heapKb(): Promise<number> {
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
  return process.memoryUsage().heapUsed / 1024;
}
