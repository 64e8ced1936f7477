/**
 * Pacing in a world in which calls take time: what the rate has granted is sent, however long the gate and D1
 * take to answer, and the gate is not asked again and again for what was not sent.
 */
import { describe, expect, it } from "vitest";
import { virtualWorld } from "../support/virtual-world.ts";

const MINUTE = 60_000;
const near = { d1: 30, gate: 25 };
const gateCalls = (calls: Readonly<Record<string, number>>) =>
  Object.entries(calls).reduce((sum, [name, n]) => sum + (name.startsWith("gate ") ? n : 0), 0);

describe("a destination with default limits that has answered one 429", () => {
  it("is sent what waits for it, at the rate that was learned", async () => {
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

describe("a rate of five a second whose burst nobody has set", () => {
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
