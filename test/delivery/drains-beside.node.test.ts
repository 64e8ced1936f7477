/** What is sent to a healthy destination beside slow ones that drains serve, with one consumer of each queue. */
import { beforeEach, expect, test } from "vitest";
import { retryDelivery } from "../../src/features/deliveries/repairs.ts";
import { deliveryId } from "../../src/ids.ts";
import { type VirtualWorld, virtualWorld } from "../support/virtual-world.ts";

const SLOW_MS = 6_000;
const MINUTE_MS = 60_000;
/** Its receiver's answer, and some calls at fifty milliseconds each. */
const SOON_MS = 1_500;

let world: VirtualWorld;
let healthy: string;

/** Ten destinations with slow receivers have work for all drains; one more has had three events. */
beforeEach(async () => {
  world = virtualWorld({
    consumers: { deliveries: 1, drains: 1 },
    travel: { twice: 0, late: 0 },
    latency: { d1: 50, gate: 50, queue: 20 },
  });
  healthy = world.destination({ eventTypes: ["healthy"] });
  world.script(healthy, { status: 204, afterMs: 20 });
  for (let i = 0; i < 10; i++)
    world.script(world.destination({ eventTypes: ["slow"] }), { status: 204, afterMs: SLOW_MS });
  void world.post(3, { type: "healthy" });
  world.postSteadily(2, 5 * MINUTE_MS, { type: "slow" });
  await world.run(2 * MINUTE_MS);
});

/** How long it takes until the healthy destination has got so many more requests. */
async function waited(count: number, begin: () => void): Promise<number> {
  const from = world.now();
  const before = world.requestsTo(healthy).length;
  begin();
  await world.runUntil(() => world.requestsTo(healthy).length >= before + count, MINUTE_MS);
  return (world.requestsTo(healthy)[before + count - 1]?.at ?? Number.POSITIVE_INFINITY) - from;
}

test("a delivery that is retried by hand does not wait for their drains", async () => {
  const [delivered] = world.rows(healthy);
  if (!delivered) throw new Error("An event has been delivered");
  const principal = { scopes: ["read", "admin"] as const };
  const took = await waited(1, () => {
    void world.invoke("retry", (services) =>
      retryDelivery({ services, principal }, deliveryId(delivered.eventId, healthy)),
    );
  });
  expect(took).toBeLessThan(SOON_MS);
  expect(world.broken()).toEqual([]);
});
