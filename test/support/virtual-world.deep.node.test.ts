import { describe, expect, it } from "vitest";
import { virtualWorld } from "./virtual-world.ts";

const MINUTE = 60_000;

describe("the virtual world", () => {
  it("delivers everything, with many concurrent invocations, and breaks no promise", async () => {
    const world = virtualWorld({ seed: 3 });
    const shops = [1, 2, 3].map((n) => world.destination({ maxConcurrency: 2 * n }));
    world.script(shops[0] ?? "", 500, { status: 503, body: "busy" }, 204);
    for (let n = 0; n < 10; n++) void world.post(50);
    expect(await world.runUntil(() => world.open() === 0 && world.requests.length > 0, 60 * MINUTE)).toBe(
      true,
    );
    expect(world.rows().map(({ state }) => state)).toEqual(Array(1_500).fill("delivered"));
    expect(world.broken()).toEqual([]);
    expect(world.platform.invocations.mostRunning()).toBeGreaterThan(5);
  });

  it("has the same history for the same seed, and another for another", async () => {
    const history = async (seed: number) => {
      const world = virtualWorld({ seed });
      world.script(world.destination(), 500, new Error("Network connection lost."), 204);
      world.postSteadily(5, MINUTE);
      await world.run(5 * MINUTE);
      return [...world.requests.map(({ at, event }) => `${at} ${event}`), JSON.stringify(world.calls())];
    };
    const first = await history(1);
    expect(first.length).toBeGreaterThan(300);
    expect(await history(1)).toEqual(first);
    expect(await history(2)).not.toEqual(first);
  });

  it("ends an attempt whose receiver hangs at its destination's timeout", async () => {
    const world = virtualWorld();
    const shop = world.destination({ timeoutMs: 5_000 });
    world.script(shop, "hang", 204);
    void world.post();
    await world.run(5 * MINUTE);
    const [first, second] = world.requestsTo(shop);
    expect((first?.endedAt ?? 0) - (first?.at ?? 0)).toBe(5_000);
    expect(second).toMatchObject({ attempt: 2, status: 204 });
    expect(world.rows(shop)).toMatchObject([{ state: "delivered", attempts: 2 }]);
  });

  it("loses nothing to crashes, failing calls and lost answers", async () => {
    const world = virtualWorld({ seed: 5 });
    const shop = world.destination({ maxConcurrency: 4 });
    world.trouble({ failing: 0.02, unanswered: 0.02, crashing: 0.02 });
    world.postSteadily(4, 5 * MINUTE);
    await world.run(6 * MINUTE);
    expect(world.platform.invocations.crashes()).toBeGreaterThan(10);
    world.trouble();
    expect(await world.runUntil(() => world.open() === 0, 60 * MINUTE)).toBe(true);
    expect(world.rows(shop).length).toBeGreaterThan(900);
  });

  it.each([1, 2, 3])("keeps every promise through all troubles at once (seed %i)", async (seed) => {
    const world = virtualWorld({ seed });
    const [single = "", held = "", flaky = "", wide = ""] = [1, 3, 10, 20].map((maxConcurrency) =>
      world.destination({ maxConcurrency }),
    );
    const busy = { status: 429, headers: { "retry-after": "30" } };
    let asked = 0;
    world.script(single, 500, 500, 204);
    world.script(held, busy, 204, 204, { ...busy, status: 503 }, 204);
    world.script(flaky, () => {
      asked += 1;
      return asked % 23 === 0 ? "hang" : asked % 5 === 0 ? 500 : 204;
    });
    world.trouble({ failing: 0.005, unanswered: 0.005, crashing: 0.005 });
    world.postSteadily(3, MINUTE);
    void world.post(100);
    world.after(20_000, () => world.pause(wide));
    world.after(50_000, () => void world.resume(wide));
    await world.run(2 * MINUTE);
    world.trouble();
    expect(await world.runUntil(() => world.open() === 0, 240 * MINUTE)).toBe(true);
    expect(world.rows().map(({ state }) => state)).not.toContain("dead");
    expect(world.broken()).toEqual([]);
  });
});
