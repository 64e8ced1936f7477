/** Lists over three databases read like one: in order of time, page by page, everything once. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { beforeFirstOf, databaseNumberOf } from "../../src/core/placement.ts";
import { deliveryId, deliveryKey, eventId, eventNumber, newDestinationId } from "../../src/ids.ts";
import { readLog } from "../../src/pages/ui/delivery-log.tsx";
import { accept } from "../support/accept.ts";
import { KEY, testApi } from "../support/api.ts";
import { newDestination, newWorld, TENANT, urlOf, type World } from "../support/world.ts";

const MINUTE = 60_000;
const EVENTS = 24;

let world: World;
let a: string;
let b: string;
/** The ids of the events, the newest first. */
let newestFirst: readonly string[];

beforeEach(async () => {
  world = await newWorld();
  // Gates outlive a world, so each is used in one test only.
  a = await newDestination({ id: newDestinationId().replace(/_./, "_a") });
  b = await newDestination({ id: newDestinationId().replace(/_./, "_b") });
  world.receiver.script(urlOf(b), 400);
  const ids: string[] = [];
  for (let i = 0; i < EVENTS; i++) {
    const posted = { tenant: TENANT, type: i % 2 ? "odd" : "even", data: i };
    const accepted = await accept(world.services, [posted]);
    const [event] = accepted.kind === "accepted" ? accepted.events : [];
    ids.unshift(eventId(event?.id ?? 0));
    world.clock.pass(MINUTE);
  }
  newestFirst = ids;
  await world.settled();
});

async function deliverAll(): Promise<void> {
  await world.consume(world.deliveryQueue.taken().map(({ body }) => body));
  await world.settled();
}

const withKey = () => ({ ...world.services, config: { ...world.services.config, adminKey: KEY } });

const api = (tenant?: string) =>
  testApi({
    services: withKey(),
    ...(tenant && { authenticate: async () => ({ tenant, scopes: ["read"] }) }),
  });

/** Every page of a list from a cursor on, one after the other. */
async function pagesOf(path: string, tenant?: string, from = "") {
  const { call } = api(tenant);
  const pages: { id: string; event_id: string; destination_id: string; state: string }[][] = [];
  let cursor: string | null = from;
  while (cursor !== null && pages.length < 100) {
    const { status, json, text } = await call("GET", `${path}${cursor && `&cursor=${cursor}`}`);
    if (status !== 200) throw new Error(text);
    pages.push(json.data);
    cursor = json.next_cursor;
  }
  return pages;
}

const eventsOf = (pages: Awaited<ReturnType<typeof pagesOf>>) => pages.flat().map(({ event_id }) => event_id);

test("the events are in all three databases", () => {
  const databases = newestFirst.map((id) => databaseNumberOf(eventNumber(id) ?? -1));
  expect(new Set(databases)).toEqual(new Set([0, 1, 2]));
});

describe("deliveries", () => {
  beforeEach(() => deliverAll());

  test.each([1, 5, 50])("of a destination come with the newest event first, %i a page", async (limit) => {
    const pages = await pagesOf(`/v1/deliveries?destination_id=${a}&limit=${limit}`);
    expect(eventsOf(pages)).toEqual(newestFirst);
    for (const page of pages.slice(0, -1)) expect(page).toHaveLength(limit);
  });

  test("of all destinations are ordered by destination and time", async () => {
    const pages = await pagesOf("/v1/deliveries?limit=7");
    expect(eventsOf(pages)).toEqual([...newestFirst, ...newestFirst]);
    expect(pages.flat().map(({ destination_id }) => destination_id)).toEqual([
      ...newestFirst.map(() => b),
      ...newestFirst.map(() => a),
    ]);
  });

  test("that are dead are listed and filtered as with one database", async () => {
    const dead = await pagesOf("/v1/deliveries?state=dead&limit=7");
    expect(eventsOf(dead)).toEqual(newestFirst);
    const even = await pagesOf("/v1/deliveries?state=dead&type=even&status=400&limit=5");
    expect(eventsOf(even)).toEqual(newestFirst.filter((_, i) => i % 2 === 1));
    expect(eventsOf(await pagesOf("/v1/deliveries?reason=exhausted&limit=5"))).toEqual([]);
  });

  test("of a time range are found in each database", async () => {
    const at = (minutes: number) => new Date(world.clock.now() - minutes * MINUTE).toISOString();
    const pages = await pagesOf(`/v1/deliveries?destination_id=${a}&since=${at(10)}&until=${at(4)}&limit=4`);
    expect(eventsOf(pages)).toEqual(newestFirst.slice(4, 10));
  });

  test("are shown to their tenant only", async () => {
    expect(eventsOf(await pagesOf("/v1/deliveries?state=dead&limit=5", TENANT))).toEqual(newestFirst);
    expect(eventsOf(await pagesOf("/v1/deliveries?limit=5", "other"))).toEqual([]);
    for (const id of newestFirst.slice(0, 6)) {
      const { call } = api("other");
      expect((await call("GET", `/v1/events/${id}`)).status).toBe(404);
      const delivery = deliveryId(eventNumber(id) ?? 0, a);
      expect((await call("GET", `/v1/deliveries/${delivery}`)).status).toBe(404);
    }
  });

  test("are read by their ids and by those of their events, and retried when they are dead", async () => {
    const { call } = api();
    for (const id of newestFirst) {
      const { json } = await call("GET", `/v1/events/${id}`);
      expect(json).toMatchObject({ id, data: EVENTS - 1 - newestFirst.indexOf(id) });
      expect(json.deliveries.map(({ state }: { state: string }) => state).toSorted()).toEqual([
        "dead",
        "delivered",
      ]);
      const delivery = deliveryId(eventNumber(id) ?? 0, b);
      expect((await call("GET", `/v1/deliveries/${delivery}`)).json).toMatchObject({ state: "dead" });
      expect((await call("POST", `/v1/deliveries/${delivery}/retry`)).json).toMatchObject({
        state: "waiting",
      });
    }
    expect(eventsOf(await pagesOf("/v1/deliveries?state=waiting&limit=7"))).toEqual(newestFirst);
  });

  test("are on the page of their destination, the newest first, with the types of their events", async () => {
    const seen: string[] = [];
    let before: string | undefined;
    do {
      const log = await readLog(
        { services: world.services, principal: { scopes: ["read"] } },
        { id: a, tenant: TENANT },
        {
          state: "all",
          before,
        },
      );
      seen.push(...log.entries.map(({ delivery }) => delivery.event_id));
      for (const { event } of log.entries) expect(event?.type).toMatch(/^(odd|even)$/);
      before = log.next;
    } while (before);
    expect(seen).toEqual(newestFirst);
  });

  test("continue from a cursor of one database when there are three", async () => {
    const one = testApi({ services: { ...withKey(), further: [] } });
    const ofFirst = newestFirst.filter((id) => databaseNumberOf(eventNumber(id) ?? -1) === 0);
    const path = `/v1/deliveries?destination_id=${a}&limit=2`;
    const { json } = await one.call("GET", path);
    expect(json.data.map(({ event_id }: { event_id: string }) => event_id)).toEqual(ofFirst.slice(0, 2));
    const rest = eventsOf(await pagesOf(path, undefined, json.next_cursor));
    expect(new Set([...ofFirst.slice(0, 2), ...rest])).toEqual(new Set(newestFirst));
  });
});

test("queued deliveries come with the newest event first, without those of a deleted destination", async () => {
  expect(eventsOf(await pagesOf(`/v1/deliveries?state=queued&destination_id=${a}&limit=5`))).toEqual(
    newestFirst,
  );
  expect(await pagesOf("/v1/deliveries?state=queued&limit=5").then(eventsOf)).toHaveLength(2 * EVENTS);
  await env.DB.prepare("UPDATE destinations SET deleted_at = 1 WHERE id = ?1").bind(b).run();
  expect(eventsOf(await pagesOf("/v1/deliveries?state=queued&limit=5"))).toEqual(newestFirst);
});

test("an event of a database that is not bound is unknown, and its message is retried", async () => {
  const { call } = api();
  const foreign = beforeFirstOf(7) + 128;
  expect((await call("GET", `/v1/events/${eventId(foreign)}`)).status).toBe(404);
  const delivery = deliveryId(foreign, a);
  expect(deliveryKey(delivery)).toBeDefined();
  expect((await call("POST", `/v1/deliveries/${delivery}/retry`)).status).toBe(404);
  const [fate] = await world.consume([{ eventId: foreign, destinationId: a }]);
  expect(fate).toMatchObject({ retryIn: expect.any(Number) });
  expect(world.logged("database_not_bound")).toHaveLength(1);
});

test("a preview has the last events of all databases, the newest first", async () => {
  const { status, json } = await api().call("POST", `/v1/destinations/${a}/preview`, {
    event_types: ["odd"],
  });
  expect(status).toBe(200);
  expect(json.events.map(({ event_id: id }: { event_id: string }) => id)).toEqual(newestFirst);
  const taken = json.events.filter((event: { taken: boolean }) => event.taken);
  expect(taken.map(({ type }: { type: string }) => type)).toEqual(Array(EVENTS / 2).fill("odd"));
});

test("a list by tag has the deliveries of all databases, the newest first, page by page", async () => {
  const tagged: string[] = [];
  for (let i = 0; i < 9; i++) {
    const accepted = await accept(world.services, [
      { tenant: TENANT, type: "odd", data: i, options: { tags: ["t"] } },
    ]);
    const [event] = accepted.kind === "accepted" ? accepted.events : [];
    tagged.unshift(eventId(event?.id ?? 0));
    world.clock.pass(MINUTE);
  }
  const pages = await pagesOf("/v1/deliveries?tag=t&limit=4", TENANT);
  expect(pages.flat().map((one) => one.event_id)).toEqual(tagged.flatMap((id) => [id, id]));
  expect(pages.flat().map((one) => one.destination_id)).toEqual(tagged.flatMap(() => [b, a]));
});
