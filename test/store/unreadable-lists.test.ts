/** A bundle whose row was edited into something unreadable is left out of lists, and hides nothing else. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { behindPage, waitingPage } from "../../src/store/cancellations.ts";
import { deliveriesByEvent } from "../../src/store/deliveries-by-event.ts";
import { eventsOver, overBy } from "../../src/store/delivery-filter.ts";
import { storedDeliveries } from "../../src/store/delivery-list.ts";
import { newTail, tailStep } from "../../src/store/delivery-tail.ts";
import { listEvents } from "../../src/store/event-list.ts";
import { readEventLog } from "../../src/store/event-log.ts";
import { keysOfEvents, searchEvents } from "../../src/store/events.ts";
import { deliveriesOfEvents, findEvent } from "../../src/store/planned-deliveries.ts";
import { queuedDeliveries } from "../../src/store/queued-deliveries.ts";
import { accept } from "../support/accept.ts";
import { execute, newDestination, newWorld, rowOf, TENANT, type World } from "../support/world.ts";

const TYPE = "order.paid";
const [BAD, GOOD] = [1, 2].map((bundle) => eventAt(bundle, 0)) as [number, number];
const DAY = 86_400_000;

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination({ ordering: "key" });
});

/** Two events, each in a bundle of its own. */
async function post(): Promise<void> {
  const event = { tenant: TENANT, type: TYPE, data: "word", options: { orderingKey: "k", tags: ["t"] } };
  for (let i = 0; i < 2; i++) await accept(world.services, [event], `key ${i}`);
  await world.settled();
}

const idsOf = (found: readonly Readonly<{ eventId: number }>[]) => found.map(({ eventId }) => eventId);
const over = () => overBy(world.services);
const page = () => ({ limit: 10, over: over() });
const planned = { ...{ tenant: TENANT, type: TYPE }, limit: 10 };

describe.each([
  ["a header that is no JSON", "header = 'oops'"],
  ["a header without its lists", "header = '{}'"],
  ["a plan that is no JSON", "plan = 'oops'"],
])("a bundle with %s", (_, change) => {
  const damaged = async () => {
    await post();
    await execute(`UPDATE bundles SET ${change} WHERE id = 1`);
  };

  test("is in no list of events, and the others are", async () => {
    await damaged();
    const { services } = world;
    const asked = { tenant: TENANT, types: [TYPE], destination, ...page() };
    for (const filter of [asked, { ...asked, tag: "t" }, page()])
      expect((await listEvents(services, filter)).found.map(({ id }) => id)).toContain(GOOD);
    expect((await searchEvents(services, asked, ["word"])).found.map(({ event }) => event.id)).toContain(
      GOOD,
    );
    const log = await readEventLog(services, [], { tenant: TENANT, type: TYPE, ...page() });
    expect(log.found.map(({ id }) => id)).toContain(GOOD);
    expect((await findEvent(services, GOOD, TENANT, over()))?.deliveries).toHaveLength(1);
    expect((await findEvent(services, BAD, TENANT, over()))?.deliveries ?? []).toEqual([]);
    expect([...(await keysOfEvents(services, TENANT, [BAD, GOOD])).keys()]).toContain(GOOD);
  });

  test("is in no list of queued deliveries, and the others are", async () => {
    const tail = await newTail(world.services);
    await damaged();
    const { services } = world;
    expect(idsOf((await queuedDeliveries(services, planned)).found)).toEqual([GOOD]);
    expect(idsOf((await deliveriesByEvent(services, { state: undefined }, planned)).found)).toEqual([GOOD]);
    for (const filter of [{}, { tenant: TENANT }, { destinationId: destination }]) {
      const { news } = await tailStep(services, filter, tail);
      expect(idsOf(news.map(({ found }) => found))).toEqual([GOOD]);
    }
    expect((await deliveriesOfEvents(services, [BAD, GOOD], 5)).get(GOOD)?.count).toBe(1);
  });

  test("keeps no stored delivery from being listed, hidden or cancelled", async () => {
    await damaged();
    const insert = `INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at, ended_at)
      SELECT ?1, id * 128, ?2, 'hold', 9e15, ?3 FROM bundles`;
    await execute(insert, destination, "waiting", null);
    const { db } = world.services;
    const filter = { ...planned, over: over() };
    expect(idsOf((await storedDeliveries(world.services, undefined, filter)).found)).toContain(GOOD);
    const every = { after: 0, last: Number.MAX_SAFE_INTEGER };
    expect((await waitingPage(db, destination, every, { eventTypes: [TYPE] })).events).toContain(GOOD);
    expect(
      (await behindPage(db, destination, { line: "", event: 0 }, { eventTypes: [TYPE] })).events,
    ).toContain(GOOD);
    await execute("UPDATE deliveries SET state = 'dead', ended_at = ?1", world.clock.now());
    world.clock.pass(world.services.config.retentionMs + DAY);
    const row = await rowOf({ destinationId: destination, eventId: GOOD });
    expect(row?.state).toBe("dead");
    const hidden = await storedDeliveries(world.services, "dead", { limit: 10, over: over() });
    expect(idsOf(hidden.found)).not.toContain(GOOD);
    expect(await eventsOver(env.DB, [], over())).toEqual(new Set());
  });
});
