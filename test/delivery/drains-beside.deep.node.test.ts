/** Deliveries to a healthy destination beside slow ones that drains serve, with one consumer of each queue. */
import { describe, expect, test } from "vitest";
import { retryDelivery } from "../../src/features/deliveries/repairs.ts";
import { deliveryId } from "../../src/ids.ts";
import { type VirtualWorld, virtualWorld } from "../support/virtual-world.ts";

const MINUTE_MS = 60_000;
const WAITING = 20;

/** Ten destinations with receivers that take so long have work for all drains; one more has had three events. */
async function besideSlow(slowMs: number, perSecond: number) {
  const world = virtualWorld({
    consumers: { deliveries: 1, drains: 1 },
    travel: { twice: 0, late: 0 },
    latency: { d1: 50, gate: 50, queue: 20 },
  });
  const healthy = world.destination({ eventTypes: ["healthy"] });
  world.script(healthy, { status: 204, afterMs: 20 });
  for (let i = 0; i < 10; i++)
    world.script(world.destination({ eventTypes: ["slow"] }), { status: 204, afterMs: slowMs });
  void world.post(3, { type: "healthy" });
  world.postSteadily(perSecond, 5 * MINUTE_MS, { type: "slow" });
  await world.run(2 * MINUTE_MS);
  return { world, healthy };
}

/** How long it takes until the destination has got so many more requests. */
async function waited(world: VirtualWorld, id: string, count: number, begin: () => void): Promise<number> {
  const from = world.now();
  const before = world.requestsTo(id).length;
  begin();
  await world.runUntil(() => world.requestsTo(id).length >= before + count, 2 * MINUTE_MS);
  return (world.requestsTo(id)[before + count - 1]?.at ?? Number.POSITIVE_INFINITY) - from;
}

describe.each([
  // One drain's step, if it runs alone.
  [2_000, 0.2, 6_000],
  [6_000, 2, 1_500],
])("beside ten receivers that take %d ms,", (slowMs, perSecond, soonMs) => {
  test("a manually retried delivery does not wait for their drains", async () => {
    const { world, healthy } = await besideSlow(slowMs, perSecond);
    const [delivered] = world.rows(healthy);
    if (!delivered) throw new Error("An event has been delivered");
    const principal = { scopes: ["read", "admin"] as const };
    const took = await waited(world, healthy, 1, () => {
      void world.invoke("retry", (services) =>
        retryDelivery({ services, principal }, deliveryId(delivered.eventId, healthy)),
      );
    });
    expect(took).toBeLessThan(1_000);
    expect(world.broken()).toEqual([]);
  });

  test("a drain of a healthy destination does not wait for their drains", async () => {
    const { world, healthy } = await besideSlow(slowMs, perSecond);
    for (let times = 0; times < 3; times++) {
      world.pause(healthy);
      void world.post(WAITING, { type: "healthy" });
      await world.run(10_000);
      const took = await waited(world, healthy, WAITING, () => void world.resume(healthy));
      expect(took).toBeLessThan(soonMs);
    }
    expect(world.broken()).toEqual([]);
  });
});
