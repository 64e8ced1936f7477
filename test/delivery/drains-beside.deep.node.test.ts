/** What is sent to a healthy destination beside slow ones that drains serve, with one consumer of each queue. */
import { beforeEach, describe, expect, test } from "vitest";
import { retryDelivery } from "../../src/features/deliveries/repairs.ts";
import { deliveryId } from "../../src/ids.ts";
import { type ByHand, worldByHand } from "../support/by-hand.ts";
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
  // One drain's step, where it runs by itself.
  [2_000, 0.2, 6_000],
  [6_000, 2, 1_500],
])("beside ten receivers that take %d ms,", (slowMs, perSecond, soonMs) => {
  test("a delivery that is retried by hand does not wait for their drains", async () => {
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

  test("a drain of a healthy destination does not wait for theirs", async () => {
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

describe("drains of one batch", () => {
  let world: ByHand;
  beforeEach(() => {
    world = worldByHand();
  });

  /** So many destinations for each of which so many deliveries wait. */
  async function waitingAt(destinations: number, events: number): Promise<string[]> {
    const ids = Array.from({ length: destinations }, () => world.destination({ status: "paused" }));
    for (const message of [await world.post(events)]) await world.consume(message);
    for (const id of ids) {
      world.edit(id, { status: "active" });
      await world.handled("resume", ({ gates }) => gates.get(gates.idFromName(id)).resume());
      world.script(id, { status: 204, afterMs: 20 });
    }
    world.gateCalls.splice(0);
    return ids;
  }

  const stateOf = (id: string) => world.rows(id).map(({ state }) => state);
  const firstAdmit = (id: string) =>
    world.gateCalls.find((call) => call.method === "admit" && call.destination === id);

  test("run side by side, and share connections and the sizes of leases", async () => {
    const [hanging = "", ...others] = await waitingAt(5, 4);
    world.script(hanging, { status: 204, afterMs: 20_000 });
    let seen: string[][] = [];
    world.after(600, () => {
      seen = others.map(stateOf);
    });
    await world.drainTogether([hanging, ...others].map((destination) => ({ destination, drains: 1 })));
    expect(seen).toEqual(Array(4).fill(Array(4).fill("delivered")));
    expect(firstAdmit(hanging)?.given[0]).toMatchObject({ most: 20, connections: 1 });
  });

  test("use no more leases together than one by itself", async () => {
    const ids = await waitingAt(5, 120);
    await world.drainTogether(ids.map((destination) => ({ destination, drains: 1 })));
    for (const id of ids) {
      const admits = world.gateCalls.filter((call) => call.method === "admit" && call.destination === id);
      expect(admits).toHaveLength(5);
      expect(stateOf(id).filter((state) => state === "delivered")).toHaveLength(100);
    }
    expect(world.sentDrains().map(({ body }) => body)).toEqual(
      expect.arrayContaining(ids.map((destination) => ({ destination, drains: 1 }))),
    );
  });

  test("await a receiver for less time than one by itself does", async () => {
    const tookMs = async (count: number) => {
      const ids = await waitingAt(count, 1);
      for (const id of ids) {
        world.edit(id, { timeoutMs: 10_000 });
        world.script(id, { status: 204, afterMs: 9_000 });
      }
      const from = world.now();
      await world.drainTogether(ids.map((destination) => ({ destination, drains: 1 })));
      for (const id of ids) expect(world.rows(id).map(({ reason }) => reason)).toEqual(["in_flight"]);
      return world.now() - from;
    };
    expect(await tookMs(1)).toBeGreaterThan(3_000);
    world = worldByHand();
    expect(await tookMs(2)).toBeLessThan(1_500);
  });

  test("have a destination's connections and leases to themselves where each comes alone", async () => {
    const [only = ""] = await waitingAt(1, 4);
    await world.drain({ destination: only, drains: 1 });
    expect(firstAdmit(only)?.given[0]).toMatchObject({ most: 100, connections: 5 });
  });

  test.each([
    ["its gate suspects of a crash", { alone: true }, 1],
    ["has come before", {}, 2],
  ])("run one by one, after the others, where the invocation may die of one that %s", async (_, extra, attempts) => {
    const [first = "", second = "", other = ""] = await waitingAt(3, 4);
    const order = (destination: string) => ({ destination, drains: 1 });
    const suspects = [first, second].map((id) => ({ ...order(id), ...extra }));
    await world.drainTogether(attempts > 1 ? suspects : [...suspects, order(other)], { attempts });
    const spanOf = (id: string) => {
      const times = world.gateCalls.flatMap(({ destination, at }) => (destination === id ? at : []));
      return [Math.min(...times), Math.max(...times)] as const;
    };
    const [[, end], [begin, secondEnd], [, otherEnd]] = [spanOf(first), spanOf(second), spanOf(other)];
    expect(begin).toBeGreaterThan(end);
    if (attempts === 1) expect(spanOf(first)[0]).toBeGreaterThan(otherEnd);
    expect(stateOf(second)).toEqual(Array(4).fill("delivered"));
    expect(secondEnd).toBeGreaterThan(begin);
  });
});
