/** Drains of one batch, which share an invocation. */
import { beforeEach, expect, test } from "vitest";
import { type ByHand, worldByHand } from "../support/by-hand.ts";

let world: ByHand;
beforeEach(() => {
  world = worldByHand();
});

/** The given number of destinations, each with the given number of waiting deliveries. */
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

test("drains of one batch run side by side, and share connections and the sizes of leases", async () => {
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

test("of a destination's drains in one batch one runs, with all connections and leases, and the others go to other batches", async () => {
  const [many = "", other = ""] = await waitingAt(2, 120);
  await world.drainTogether([many, many, many].map((destination) => ({ destination, drains: 3 })));
  const admits = world.gateCalls.filter(({ method }) => method === "admit");
  expect(admits[0]?.given[0]).toMatchObject({ most: 100, connections: 5 });
  expect(stateOf(many)).toEqual(Array(120).fill("delivered"));
  const handedOn = { destination: many, drains: 3 };
  expect(world.sentDrains().map(({ body }) => body)).toEqual([handedOn, handedOn]);

  world.gateCalls.splice(0);
  await world.drainTogether([handedOn, { destination: other, drains: 1 }, handedOn]);
  expect(firstAdmit(other)?.given[0]).toMatchObject({ most: 50, connections: 2 });
});

test("drains of one batch use no more leases together than a single drain", async () => {
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

test("drains of one batch await a receiver for less time than a single drain does", async () => {
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

test("a drain that comes alone has all connections and leases", async () => {
  const [only = ""] = await waitingAt(1, 4);
  await world.drain({ destination: only, drains: 1 });
  expect(firstAdmit(only)?.given[0]).toMatchObject({ most: 100, connections: 5 });
});

test.each([
  ["its gate suspects of a crash", { alone: true }, 1],
  ["has come before", {}, 2],
])("drains of which the invocation may die run one by one, after the others: one that %s", async (_, extra, attempts) => {
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
