/** Between two leases of a drain neither its connections nor its send slots are idle, and it never has too many open. */
import { describe, expect, it } from "vitest";
import { CONNECTIONS } from "../../src/core/lease.ts";
import { virtualWorld } from "../support/virtual-world.ts";

const MINUTE = 60_000;
const TOOK_MS = 120;

describe("a drain whose calls take time", () => {
  it.each([1, 2, 3])("keeps its connections busy from lease to lease (seed %i)", async (seed) => {
    const world = virtualWorld({ seed, travel: { twice: 0, late: 0 }, cron: false });
    const limits = { maxConcurrency: CONNECTIONS, ratePerSecond: 1_000, rateBurst: 1_000 };
    const shop = world.destination({ ...limits, status: "paused" });
    world.script(shop, { status: 204, afterMs: TOOK_MS });
    for (let i = 0; i < 8; i++) void world.post(100);
    await world.run(MINUTE);
    void world.resume(shop);
    await world.run(MINUTE);
    const times = world.requestsTo(shop).map(({ at }) => at);
    expect(times).toHaveLength(800);
    const [from = 0, to = 0] = [times[100], times[500]];
    const best = (400 / CONNECTIONS) * TOOK_MS;
    expect((to - from) / best).toBeLessThan(1.1);
    expect(world.broken()).toEqual([]);
  });
});
