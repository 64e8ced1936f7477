/** Many databases: D1 allows an invocation 1,000 queries, and a drain searches every database at each step. */
import { expect, test } from "vitest";
import { virtualWorld } from "../support/virtual-world.ts";

const MINUTE_MS = 60_000;
const LIMITS = { maxConcurrency: 20, ratePerSecond: 10_000, rateBurst: 10_000 };

test("backlogs in many databases are drained within the queries of each invocation", async () => {
  const databases = 40;
  const world = virtualWorld({ databases, cron: false, consumers: { drains: 1 } });
  const shops = Array.from({ length: 5 }, () => world.destination(LIMITS));
  for (const shop of shops) {
    world.script(shop, { status: 204, afterMs: 5 });
    world.pause(shop);
  }
  // New events go to another database every minute.
  for (let minute = 0; minute < 2 * databases; minute++) {
    void world.post(10);
    await world.run(MINUTE_MS);
  }
  const filled = world.platform.databases.filter((db) => db.prepare("SELECT 1 FROM bundles LIMIT 1").get());
  expect(filled.length).toBeGreaterThan(databases / 2);
  for (const shop of shops) void world.resume(shop);
  expect(await world.runUntil(() => world.open() === 0, 20 * MINUTE_MS)).toBe(true);
  expect(world.broken()).toEqual([]);
});

test("many tenants in many databases get everything through all troubles", async () => {
  const world = virtualWorld({ databases: 15 });
  const tenants = Array.from({ length: 20 }, (_, n) => `tenant-${n}`);
  const busy = { status: 429, headers: { "retry-after": "30" } };
  const troubled = [
    [500, 500, 204],
    [busy, 204, 204, { ...busy, status: 503 }, 204],
    ["hang", 204],
    [204],
  ] as const;
  const shops = tenants.map((tenant, n) => {
    const shop = world.destination({ tenant, maxConcurrency: 1 + (n % 5) });
    world.script(shop, ...(troubled[n % troubled.length] ?? [204]));
    return shop;
  });
  // A crash may take the news of a hold with it.
  world.trouble({ failing: 0.005, unanswered: 0.005 });
  for (let second = 0; second < 4 * 60; second++)
    world.after(second * 1_000, () => {
      for (let n = 0; n < 3; n++) {
        const tenant = tenants[(second * 7 + n * 13) % tenants.length] ?? "";
        void world.post(1 + (second % 4), { tenant });
      }
    });
  world.after(MINUTE_MS, () => shops.slice(0, 5).forEach(world.pause));
  world.after(3 * MINUTE_MS, () => shops.slice(0, 5).forEach((shop) => void world.resume(shop)));
  await world.run(5 * MINUTE_MS);
  world.trouble();
  expect(await world.runUntil(() => world.open() === 0, 240 * MINUTE_MS)).toBe(true);
  expect(world.rows().map(({ state }) => state)).not.toContain("dead");
  expect(world.broken()).toEqual([]);
});
