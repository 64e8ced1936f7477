/** How many writes a batch needs whose destinations end together, or one after the other, when calls take time. */
import { describe, expect, it } from "vitest";
import { interceptedD1 } from "../support/intercept.ts";
import { virtualWorld } from "../support/virtual-world.ts";

const MINUTE = 60_000;
const D1_MS = 30;
const ANSWER_MS = 40;

/** Delivers an event to destinations that answer after those times, and to some that are paused; watches the writes of outcomes. */
async function deliverTo(answersMs: readonly number[], paused = 0) {
  const writes: { from: number; until: number }[] = [];
  const world = virtualWorld({
    latency: { d1: D1_MS, gate: 5 },
    travel: { twice: 0, late: 0 },
    cron: false,
    wrap: (services) => {
      const db = interceptedD1(services.db, async (name, work) => {
        if (!name.includes("INSERT INTO packs")) return work();
        const write = { from: world.now(), until: Number.POSITIVE_INFINITY };
        writes.push(write);
        return work().finally(() => {
          write.until = world.now();
        });
      });
      return { ...services, db };
    },
  });
  const shops = answersMs.map((afterMs) => {
    const shop = world.destination({ timeoutMs: 5_000 });
    world.script(shop, { status: 204, afterMs });
    return shop;
  });
  for (let i = 0; i < paused; i++) world.destination({ status: "paused" });
  void world.post(1);
  await world.run(MINUTE);
  expect(shops.map((shop) => world.rows(shop).map(({ state }) => state))).toEqual(
    shops.map(() => ["delivered"]),
  );
  expect(world.broken()).toEqual([]);
  const { at = 0 } = world.requests[0] ?? {};
  return {
    writes: writes.length,
    overlapping: writes.filter(({ from }, i) => writes.some(({ until }, j) => j < i && from < until)).length,
    lastOnRecordMs: Math.max(...writes.map(({ until }) => until)) - at,
  };
}

/** Each so much later than the one before it. */
const apart = (count: number, ms: number) => Array.from({ length: count }, (_, i) => ANSWER_MS + i * ms);

describe("the outcomes of destinations that get requests at the same time", () => {
  it.each([
    ["at once", 0],
    ["within a few milliseconds", 1],
  ])("go into one write if all answer %s", async (_, ms) => {
    expect(await deliverTo(apart(5, ms))).toEqual({
      writes: 1,
      overlapping: 0,
      // The last to end waits neither for others to share a write, nor for another write.
      lastOnRecordMs: ANSWER_MS + 4 * ms + D1_MS,
    });
  });

  it("share their write with refused deliveries", async () => {
    expect(await deliverTo(apart(5, 1), 2)).toMatchObject({
      writes: 1,
      lastOnRecordMs: ANSWER_MS + 4 + D1_MS,
    });
    expect(await deliverTo([ANSWER_MS], 1)).toMatchObject({ writes: 1, lastOnRecordMs: ANSWER_MS + D1_MS });
  });

  it("go into one write for each round of connections if there are more destinations than connections", async () => {
    expect(await deliverTo(apart(10, 0))).toMatchObject({ writes: 2 });
  });

  it("go into separate writes if the destinations answer one after the other", async () => {
    const { writes, overlapping, lastOnRecordMs } = await deliverTo(apart(5, 100));
    expect({ writes, overlapping }).toEqual({ writes: 5, overlapping: 0 });
    expect(lastOnRecordMs).toBe(ANSWER_MS + 400 + D1_MS);
  });

  it("are never written by two writes at a time, and are gathered while one is under way", async () => {
    const { writes, overlapping } = await deliverTo(apart(6, 10));
    expect(overlapping).toBe(0);
    expect(writes).toBeLessThanOrEqual(3);
  });
});

it("a single destination is recorded one round trip after its answer", async () => {
  expect(await deliverTo([ANSWER_MS])).toEqual({
    writes: 1,
    overlapping: 0,
    lastOnRecordMs: ANSWER_MS + D1_MS,
  });
});
