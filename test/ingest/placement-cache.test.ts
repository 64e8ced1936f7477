/** Where an isolate sends events: to which shard of intake, and by which number of databases. */
import { beforeEach, describe, expect, test } from "vitest";
import { type DatabaseCount, shardsOf } from "../../src/core/placement.ts";
import { PlacementCache } from "../../src/ingest/placement-cache.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { playedD1 } from "../support/played-d1.ts";

const SHARDS = 16;
const MINUTE = 60_000;

let now: number;
let cache: PlacementCache;
/** From a fixed sequence, so that every run is the same. */
let seed: number;
beforeEach(() => {
  now = 1_000_000_000_000;
  cache = new PlacementCache();
  seed = 1;
});

function random(): number {
  seed = (Math.imul(seed, 48_271) >>> 0) % 0x7fffffff;
  return seed / 0x7fffffff;
}

const timing = { now: () => now, random: () => random(), sleep: () => new Promise<void>(() => {}) };

const shardFor = (tenant: string, work: () => Promise<unknown> = async () => undefined) => {
  let chosen = -1;
  const done = cache.withShard(timing, tenant, SHARDS, async (shard) => {
    chosen = shard;
    await work();
  });
  return { chosen, done };
};

describe("the shards of intake", () => {
  test("that a tenant's events go to are two, the same in every isolate", () => {
    for (let i = 0; i < 50; i++) {
      const seen = new Set<number>();
      for (let post = 0; post < 40; post++) {
        cache = new PlacementCache();
        seen.add(shardFor(`tenant-${i}`).chosen);
        now += 500;
      }
      expect(seen).toEqual(new Set(shardsOf(`tenant-${i}`, SHARDS)));
    }
  });

  test("each have a share of ten thousand tenants that a routing cache holds", () => {
    const tenants = Array.from({ length: SHARDS }, () => 0);
    for (let i = 0; i < 10_000; i++)
      for (const shard of shardsOf(`tenant-${i}`, SHARDS)) tenants[shard] = (tenants[shard] ?? 0) + 1;
    expect(Math.max(...tenants)).toBeLessThan((1.2 * 2 * 10_000) / SHARDS);
    expect(Math.min(...tenants)).toBeGreaterThan((0.8 * 2 * 10_000) / SHARDS);
  });

  test("get about the same load, although tenants differ", () => {
    const load = Array.from({ length: SHARDS }, () => 0);
    for (let i = 0; i < 2_000; i++) {
      const { chosen } = shardFor(`tenant-${i % 700}`, () => new Promise(() => {}));
      load[chosen] = (load[chosen] ?? 0) + 1;
      now += 10;
    }
    expect(Math.max(...load) - Math.min(...load)).toBeLessThan(0.2 * (2_000 / SHARDS));
  });

  test("are all used by a tenant that posts much, as long as it does", () => {
    const seen = new Set<number>();
    for (let i = 0; i < 200; i++) {
      seen.add(shardFor("busy").chosen);
      now += 5;
    }
    expect(seen.size).toBe(SHARDS);
    const calm = new Set<number>();
    for (let i = 0; i < 50; i++) {
      now += 1_000;
      calm.add(shardFor("busy").chosen);
    }
    expect(calm).toEqual(new Set(shardsOf("busy", SHARDS)));
  });

  test("are called elsewhere while one of the two hangs", async () => {
    const [first = 0, second = 0] = shardsOf("t", SHARDS);
    let letGo = () => {};
    const hanging = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const { chosen, done } = shardFor("t", () => hanging);
    for (let i = 0; i < 10; i++) {
      now += 1_000;
      const next = shardFor("t");
      await next.done;
      expect(next.chosen).toBe(chosen === first ? second : first);
    }
    letGo();
    await done;
    const seen = new Set<number>();
    for (let i = 0; i < 40; i++) {
      now += 1_000;
      const next = shardFor("t");
      await next.done;
      seen.add(next.chosen);
    }
    expect(seen).toEqual(new Set([first, second]));
  });

  test.each([1, 2, 3])("of %d are never out of range", (shards) => {
    for (let i = 0; i < 100; i++)
      for (const shard of shardsOf(`tenant-${i}`, shards)) {
        expect(shard).toBeGreaterThanOrEqual(0);
        expect(shard).toBeLessThan(shards);
      }
    if (shards > 1) expect(new Set(shardsOf("t", shards)).size).toBe(2);
  });
});

describe("the history of the databases", () => {
  let reads: number;
  let stored: DatabaseCount[];
  let isAway: boolean;
  let pending: Promise<unknown>[];
  const log: object[] = [];
  const db = playedD1(() => {
    reads += 1;
    if (isAway) throw new Error("D1_ERROR: away");
    return stored;
  });
  const isolate = (further = 1) => ({
    ...timing,
    ...{ db, further: Array(further).fill(db) as D1Database[], config: {} },
    log: (line: object) => void log.push(line),
    background: (work: Promise<unknown>) => void pending.push(work),
  });
  beforeEach(() => {
    reads = 0;
    stored = [{ count: 2, since: 0 }];
    isAway = false;
    pending = [];
  });
  const countNow = async () => (await cache.places(isolate())).count;

  test("is not read with one database", async () => {
    expect(await cache.places(isolate(0))).toMatchObject({ count: 1 });
    expect(reads).toBe(0);
  });

  test("is read by others although an invocation that was reading it was killed", async () => {
    const dead = interceptedD1(db, () => new Promise(() => {}));
    void cache.places({ ...isolate(), db: dead });
    expect(await countNow()).toBe(2);
  });

  test("is read once for all that wait for it in an invocation, and again in the background after a minute", async () => {
    await Promise.all([countNow(), countNow(), countNow()]);
    expect(reads).toBe(1);
    now += MINUTE - 1;
    await countNow();
    expect(reads).toBe(1);
    now += 1;
    stored = [{ count: 1, since: 0 }];
    expect(await countNow()).toBe(2);
    await Promise.all(pending);
    expect([reads, await countNow()]).toEqual([2, 1]);
  });

  test("is waited for in an isolate that was quiet for ten minutes", async () => {
    await countNow();
    now += 10 * MINUTE;
    stored = [{ count: 1, since: 0 }];
    expect(await countNow()).toBe(1);
  });

  test("may be that old while the database is away, but no older", async () => {
    await countNow();
    isAway = true;
    now += 10 * MINUTE - 1;
    expect(await countNow()).toBe(2);
    await Promise.all(pending);
    expect(log).toMatchObject([{ what: "history_unread" }]);
    now += 1;
    await expect(countNow()).rejects.toThrow("away");
    isAway = false;
    expect(await countNow()).toBe(2);
  });
});
