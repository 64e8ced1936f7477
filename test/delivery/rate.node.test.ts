/**
 * The rate limit when calls take time: what the rate has granted is sent, however long the gate and D1 take to answer,
 * and the gate does not get repeated requests for what was not sent.
 */
import { describe, expect, it } from "vitest";
import { virtualWorld } from "../support/virtual-world.ts";

const MINUTE = 60_000;
const near = { d1: 30, gate: 25 };
const gateCalls = (calls: Readonly<Record<string, number>>) =>
  Object.entries(calls).reduce((sum, [name, n]) => sum + (name.startsWith("gate ") ? n : 0), 0);

describe("a destination with default limits that has answered one 429", () => {
  it("gets the waiting deliveries, at the learned rate", async () => {
    const world = virtualWorld({ seed: 3, latency: near });
    const shop = world.destination();
    world.script(shop, { status: 429, headers: { "retry-after": "5" } }, 204);
    void world.post(5);
    await world.run(10 * MINUTE);
    expect(world.open()).toBe(0);
    expect(world.broken()).toEqual([]);
    expect(gateCalls(world.calls())).toBeLessThanOrEqual(30);
  });
});

describe("a rate of one in ten seconds without bursts", () => {
  it("sends one in ten seconds, with few calls of the gate for each", async () => {
    const world = virtualWorld({ seed: 3, latency: near });
    world.destination({ ratePerSecond: 0.1, rateBurst: 1 });
    void world.post(30);
    await world.run(6 * MINUTE);
    const gaps = world.requests.slice(1).map(({ at }, i) => at - (world.requests[i]?.at ?? 0));
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(10_000 - 100);
    expect(world.open()).toBe(0);
    expect(gateCalls(world.calls()) / 30).toBeLessThanOrEqual(12);
  });
});

describe("a rate of five a second without a set burst", () => {
  it("lets no more than two seconds' worth through in any one second", async () => {
    const world = virtualWorld({ seed: 3 });
    const shop = world.destination({ ratePerSecond: 5 });
    void world.post(60);
    await world.run(2 * MINUTE);
    const starts = world.requestsTo(shop).map(({ at }) => at);
    expect(starts).toHaveLength(60);
    const inASecond = starts.map((from) => starts.filter((at) => at >= from && at < from + 1_000).length);
    expect(Math.max(...inASecond)).toBeLessThanOrEqual(10);
  });
});

describe("a lease whose deliveries cannot be loaded", () => {
  it("is ended at once, as unused, and does not hold the one probe until it expires", async () => {
    let broken = false;
    const world = virtualWorld({
      seed: 3,
      latency: near,
      wrap: (services) => {
        const batch: D1Database["batch"] = (statements) => {
          // A drain's second query, after the one for what waits, loads the admitted deliveries.
          if (broken && drains.has(services)) return Promise.reject(new Error("D1 is away"));
          drains.add(services);
          return services.db.batch(statements);
        };
        const drains = new Set<unknown>();
        const db = { prepare: (sql: string) => services.db.prepare(sql), batch } as unknown as D1Database;
        return { ...services, db };
      },
    });
    const shop = world.destination({ status: "paused" });
    void world.post(3);
    await world.run(MINUTE);
    broken = true;
    void world.resume(shop);
    await world.runUntil(() => world.logged("drain_failed").length > 0, MINUTE);
    expect(world.logged("drain_failed")).not.toEqual([]);
    await world.run(200);
    expect(world.gate(shop)?.leases).toEqual([]);
    broken = false;
    expect(await world.runUntil(() => world.open() === 0, 15_000)).toBe(true);
  });
});

describe("a backlog at any rate, with calls of any duration", () => {
  it.each([
    { rate: 0.5, burst: 1, d1: 1_000, gate: 1_000, count: 20 },
    { rate: 1, burst: 1, d1: 5, gate: 5, count: 60 },
    { rate: 5, burst: 1, d1: 300, gate: 200, count: 100 },
    { rate: 20, burst: 20, d1: 30, gate: 25, count: 400 },
    { rate: 20, burst: 1, d1: 30, gate: 25, count: 400 },
    { rate: 100, burst: 1, d1: 80, gate: 60, count: 600 },
  ])("is delivered at the rate, with few calls of the gate: %j", async ({ rate, burst, d1, gate, count }) => {
    const world = virtualWorld({ seed: 5, latency: { d1, gate }, travel: { twice: 0, late: 0 } });
    const shop = world.destination({ ratePerSecond: rate, rateBurst: burst, status: "paused" });
    void world.post(count);
    await world.run(2 * MINUTE);
    const from = world.now();
    world.calls();
    void world.resume(shop);
    // A lease is used for three seconds; each also takes time to request, read, record and settle.
    const roundTripsMs = 5 * d1 + 3 * gate + 500;
    const mostMs = (count / rate) * 1_000 * (1 + roundTripsMs / 3_000) + 15_000;
    expect(await world.runUntil(() => world.open() === 0, mostMs)).toBe(true);
    const starts = world.requestsTo(shop).map(({ at }) => at);
    expect(starts).toHaveLength(count);
    for (const [i, at] of starts.entries()) {
      const within = starts.slice(i).filter((start) => start < at + 5_000).length;
      expect(within).toBeLessThanOrEqual(5 * rate + burst + rate * ((gate + 3 * d1) / 1_000) + 1);
    }
    const askedOfGate = gateCalls(world.calls());
    expect(askedOfGate).toBeLessThanOrEqual(4 * count + (world.now() - from) / 500 + 20);
  });
});
