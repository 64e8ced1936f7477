/**
 * The cost of delivering, in billed units, by the figures that D1 itself reports. The budget is in the architecture; a
 * change that exceeds it fails here. The figures are printed, to be quoted.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { insertBundles } from "../support/bundle-rows.ts";
import type { Script } from "../support/receivers.ts";
import { named, newDestination, newWorld, storedRows, urlOf, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
  // Rows beside it in every index.
  await newDestination({ tenant: "aaa" });
  await newDestination({ tenant: "zzz" });
});

/** Posts events in one call and delivers them in one batch. The destinations have been read before, for another event. */
async function deliver(count: number, script: (destination: string) => Script = () => 204) {
  await world.post(1, { type: "nobody.asked" });
  world.d1.used();
  world.gates.called();
  const bundles = await world.postBundles(count);
  const ingest = world.d1.used();
  const messages = await named(bundles);
  for (const { destinationId: destination } of messages)
    world.receiver.script(urlOf(destination), script(destination));
  await world.consume(bundles);
  return { bundles, messages, ingest, consume: world.d1.used(), gateCalls: world.gates.called() };
}

type Cost = Awaited<ReturnType<typeof deliver>>;

/** Per delivered event of a run whose deliveries all succeeded. */
function perEvent({ messages, ingest, consume }: Cost) {
  const count = new Set(messages.map(({ eventId }) => eventId)).size;
  return {
    rowsWritten: (ingest.rowsWritten + consume.rowsWritten) / count,
    rowsRead: (ingest.rowsRead + consume.rowsRead) / count,
  };
}

function print(what: string, { ingest, consume, gateCalls }: Cost, count: number): void {
  const figures = { events: count, ingest, consume, gate_calls: gateCalls.length };
  console.log(`cost of ${what}: ${JSON.stringify(figures)}`);
}

describe("one event that is delivered at its first attempt", () => {
  test("costs two rows written, at most twenty read, one round trip to accept and at most three to deliver", async () => {
    await newDestination();
    const cost = await deliver(1);
    print("one event", cost, 1);
    expect(perEvent(cost).rowsWritten).toBe(2);
    expect(perEvent(cost).rowsRead).toBeLessThanOrEqual(20);
    expect(cost.ingest.roundTrips).toBe(1);
    expect(cost.consume.roundTrips).toBeLessThanOrEqual(3);
    expect(cost.gateCalls).toEqual(["admit", "settle"]);
  });

  test("costs the same however much is stored", async () => {
    const destination = await newDestination();
    await store(10, destination);
    const few = await deliver(1);
    await store(2_000, destination);
    const many = await deliver(1);
    console.log(
      `rows read per event with 10 and with 2,000 stored: ${perEvent(few).rowsRead}, ${perEvent(many).rowsRead}`,
    );
    expect(perEvent(many)).toEqual(perEvent(few));
  });

  test("costs the same however many destinations other tenants have", async () => {
    await newDestination();
    const alone = await deliver(1);
    for (let i = 0; i < 50; i++) await newDestination({ tenant: `b${i}` });
    expect(perEvent(await deliver(1))).toEqual(perEvent(alone));
  });
});

describe("a batch of a hundred", () => {
  test("to one destination costs two rows written, for the bundle and the pack, and calls its gate twice", async () => {
    await newDestination();
    const cost = await deliver(100);
    print("a hundred to one destination", cost, 100);
    expect((await storedRows()).map(({ state }) => state)).toEqual(Array(100).fill("delivered"));
    expect(perEvent(cost).rowsWritten).toBe(0.02);
    expect(perEvent(cost).rowsRead).toBeLessThanOrEqual(0.2);
    expect(cost.ingest.roundTrips).toBe(1);
    expect(cost.consume.roundTrips).toBeLessThanOrEqual(3);
    expect(cost.gateCalls).toEqual(["admit", "settle"]);
  });

  test("to twenty destinations costs a row for each pack, and calls each gate twice, in as few round trips", async () => {
    for (let i = 0; i < 20; i++) await newDestination();
    const cost = await deliver(5);
    print("five events to twenty destinations each", cost, 5);
    expect(cost.messages).toHaveLength(100);
    expect((await storedRows()).map(({ state }) => state)).toEqual(Array(100).fill("delivered"));
    expect(cost.ingest.rowsWritten + cost.consume.rowsWritten).toBe(21);
    expect(cost.ingest.roundTrips).toBe(1);
    expect(cost.consume.roundTrips).toBeLessThanOrEqual(3);
    expect(cost.gateCalls).toHaveLength(40);
  });

  test("with failures, refusals and dead deliveries takes no more round trips", async () => {
    const held = () => new Response(null, { status: 503, headers: { "retry-after": "60" } });
    const scripts = [500, 404, 410, 302, held, 204];
    const places: string[] = [];
    for (let i = 0; i < 20; i++) places.push(await newDestination());
    const cost = await deliver(5, (destination) => scripts[places.indexOf(destination) % 6] ?? 204);
    print("a hundred with failures among them", cost, 5);
    const states = new Set((await storedRows()).map(({ state }) => state));
    expect(states).toEqual(new Set(["delivered", "retrying", "waiting", "dead"]));
    expect(cost.consume.roundTrips).toBeLessThanOrEqual(3);
    // Two for each destination, and one for each hold, which is reported at once.
    expect(cost.gateCalls).toHaveLength(40 + places.filter((_, i) => scripts[i % 6] === held).length);
  });
});

test("a filter costs no row read and no round trip", async () => {
  await newDestination();
  const without = await deliver(1);
  await newDestination({ filter: { "order.total": { gte: 1 }, "order.status": ["a", "b"] } });
  const filtered = await deliver(1);
  expect(filtered.ingest).toEqual(without.ingest);
});

test("a failure costs one row more, for the index of what is due; the success that follows costs one", async () => {
  await newDestination();
  const { bundles, messages, consume } = await deliver(1, () => 500);
  expect(consume.rowsWritten).toBe(2);
  world.clock.pass(60_000);
  world.receiver.script(urlOf(messages[0]?.destinationId ?? ""), 204);
  await world.consume(bundles);
  expect(world.d1.used()).toMatchObject({ rowsWritten: 1, roundTrips: 2 });
});

test("a repeated message costs one round trip and no row", async () => {
  await newDestination();
  const { bundles } = await deliver(10);
  await world.consume(bundles);
  expect(world.d1.used()).toMatchObject({ rowsWritten: 0, roundTrips: 1 });
  expect(world.gates.called()).toEqual([]);
});

/** Events of the past, each in a bundle of its own, delivered. */
async function store(count: number, destination: string): Promise<void> {
  const events = await insertBundles(
    env.DB,
    Array.from({ length: count }, () => ({ events: [{ destinations: [destination] }] })),
  );
  await env.DB.prepare(
    `INSERT INTO deliveries (destination_id, event_id, state, attempts, give_up_at)
     SELECT ?1, value, 'delivered', 1, 0 FROM json_each(?2)`,
  )
    .bind(destination, JSON.stringify(events))
    .run();
}
