/** How fast the line of one key is, fifty milliseconds from every service, and how little of it a kill would repeat. */
import { describe, expect, test } from "vitest";
import type { Services } from "../../src/services.ts";
import { virtualWorld, type WorldOptions } from "../support/virtual-world.ts";

const HOP_MS = 50;
/**
 * In addition to a second's: one is under way, the last that has ended waits for the one behind it, and a write takes a round
 * trip.
 */
const MOST_UNRECORDED = 1000 / HOP_MS + 4;

function newLine(events: number, options: WorldOptions = {}) {
  const world = virtualWorld({
    latency: { d1: HOP_MS, gate: HOP_MS, queue: HOP_MS },
    travel: { twice: 0, late: 0 },
    isolates: { count: 1 },
    cron: false,
    ...options,
  });
  const destination = world.destination({ ordering: "destination", maxConcurrency: 20 });
  world.script(destination, { status: 204, afterMs: HOP_MS });
  for (let posted = 0; posted < events; posted += 100) void world.post(100);
  const sent = () => world.requestsTo(destination).map(({ event }) => event);
  const recorded = () => world.rows(destination).filter(({ state }) => state === "delivered").length;
  return { world, destination, sent, recorded };
}

describe("a key with many waiting events", () => {
  test("is delivered at ten a second, so that fifty thousand take less than an hour and a half", async () => {
    const events = 400;
    const { world, destination, sent, recorded } = newLine(events);
    expect(await world.runUntil(() => recorded() === events, 10 * 60_000)).toBe(true);
    const requests = world.requestsTo(destination);
    const perSecond = (1000 * (events - 1)) / ((requests.at(-1)?.at ?? 0) - (requests[0]?.at ?? 0));
    expect(perSecond).toBeGreaterThanOrEqual(10);
    expect(50_000 / perSecond).toBeLessThan(90 * 60);
    expect(sent()).toEqual(sent().toSorted((a, b) => a - b));
    // A lease for each fifty; the first message has a hundred.
    expect(world.calls()["gate admit"]).toBeLessThanOrEqual(events / 50);
    expect(world.broken()).toEqual([]);
  });

  test("is recorded once a second, so that a kill repeats little", async () => {
    const { world, sent, recorded } = newLine(100);
    let most = 0;
    for (let looks = 0; looks < 120 && recorded() < 100; looks++) {
      await world.run(HOP_MS);
      most = Math.max(most, sent().length - recorded());
    }
    expect(recorded()).toBe(100);
    expect(most).toBeLessThanOrEqual(MOST_UNRECORDED);
    expect(world.broken()).toEqual([]);
  });

  test("stops when it cannot be recorded, and continues when it can", async () => {
    let isDown = false;
    const failing = (db: D1Database) =>
      new Proxy(db, {
        get: (target, name) => {
          if (name === "batch" && isDown) return () => Promise.reject(new Error("D1 is away"));
          const value = Reflect.get(target, name) as unknown;
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    const wrap = (services: Services) => ({ ...services, db: failing(services.db) });
    const { world, sent, recorded } = newLine(100, { wrap, cron: true });
    await world.run(900);
    isDown = true;
    await world.run(20_000);
    expect(recorded()).toBe(0);
    expect(sent().length).toBeLessThanOrEqual((3 * 1000) / HOP_MS);
    isDown = false;
    expect(await world.runUntil(() => recorded() === 100, 10 * 60_000)).toBe(true);
    const firsts = [...new Set(sent())];
    expect(firsts).toEqual(firsts.toSorted((a, b) => a - b));
  });
});
