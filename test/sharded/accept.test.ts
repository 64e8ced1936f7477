/** Accepting events with three databases: each request goes to one of them, and each key is used once. */

import { beforeEach, describe, expect, test } from "vitest";
import { databaseNumberOf, placeByKey, placeByTime } from "../../src/core/placement.ts";
import type { AcceptedEvent, CommitResult } from "../../src/ingest/bundle.ts";
import { PlacementCache } from "../../src/ingest/placement-cache.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { Services } from "../../src/services.ts";
import { runCron } from "../../src/upkeep.ts";
import { accept, type GivenEvent } from "../support/accept.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { rowsOfAll, testDatabases } from "../support/databases.ts";
import {
  execute,
  newDestination,
  newWorld,
  START,
  storedRows,
  TENANT,
  type World,
} from "../support/world.ts";

const MINUTE = 60_000;

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const event = (data: unknown = {}) => ({ tenant: TENANT, type: "order.paid", data });

/** The same services with so many databases. */
const withDatabases = (count: number): Services => ({
  ...world.services,
  further: (world.services.further ?? []).slice(0, count - 1),
});

/** The accepted events; throws when they were refused. */
function acceptedOf(outcome: CommitResult): readonly AcceptedEvent[] {
  if (outcome.kind !== "accepted") throw new Error(`It is ${outcome.kind}`);
  return outcome.events;
}

const acceptAll = async (services: Services, posted: readonly GivenEvent[]) =>
  acceptedOf(await accept(services, posted));

const storedIds = async () => (await rowsOfAll<{ id: number }>("SELECT id FROM events")).map(({ id }) => id);

test("there are three databases", () => {
  expect(testDatabases).toHaveLength(3);
});

describe("events", () => {
  test("are spread over the databases as time passes, and delivered from each", async () => {
    const destination = await newDestination();
    for (let minute = 0; minute < 12; minute++) {
      await world.consume(await world.post(2));
      await world.settled();
      world.clock.pass(MINUTE);
    }
    const rows = await storedRows();
    expect(rows.map(({ state }) => state)).toEqual(Array(24).fill("delivered"));
    expect(new Set(rows.map(({ eventId }) => databaseNumberOf(eventId)))).toEqual(new Set([0, 1, 2]));
    expect(new Set(rows.map(({ destinationId }) => destinationId))).toEqual(new Set([destination]));
  });

  test("have ids that name their database, in order and without a gap", async () => {
    for (let minute = 0; minute < 12; minute++) {
      await world.post(3);
      world.clock.pass(MINUTE);
    }
    for (const [number, db] of testDatabases.entries()) {
      const { results } = await db.prepare("SELECT id FROM events ORDER BY id").all<{ id: number }>();
      const ids = results.map(({ id }) => id);
      expect(ids.length).toBeGreaterThan(0);
      // Three events of each bundle, which has room for 128 ids.
      expect(ids).toEqual(ids.map((_, i) => number * 2 ** 40 + (Math.floor(i / 3) + 1) * 128 + (i % 3)));
    }
  });

  test("of a large request are in one database, in its order, with the plan of each", async () => {
    const all = await newDestination();
    const some = await newDestination({ eventTypes: ["b.*"] });
    world.clock.pass(msUntilFurther());
    const posted = Array.from({ length: 300 }, (_, i) => ({
      tenant: TENANT,
      type: i % 2 ? "b.x" : "a",
      data: "x".repeat(5_000),
    }));
    const accepted = await acceptAll(world.services, posted);
    expect(new Set(accepted.map(({ id }) => databaseNumberOf(id))).size).toBe(1);
    expect(databaseNumberOf(accepted[0]?.id ?? 0)).toBeGreaterThan(0);
    expect(accepted.map(({ id }) => id)).toEqual(
      accepted.map((_, i) => (accepted[0]?.id ?? 0) + Math.floor(i / 100) * 128 + (i % 100)),
    );
    for (const [i, { plan }] of accepted.entries())
      expect(plan.toSorted()).toEqual((i % 2 ? [all, some] : [all]).toSorted());
  });

  test("are routed by the same filters in every database", async () => {
    const paid = await newDestination({ filter: { status: "paid" } });
    for (let minute = 0; minute < 6; minute++) {
      const posted = [event({ status: "paid" }), event({ status: "open" })];
      const accepted = await acceptAll(world.services, posted);
      expect(accepted.map(({ plan }) => plan)).toEqual([[paid], []]);
      world.clock.pass(MINUTE);
    }
  });

  test("beyond the first database take two round trips, and no more rows", async () => {
    await newDestination();
    world.clock.pass(msUntilFurther());
    await world.post();
    world.d1.used();
    await accept(world.services, [event()]);
    expect(world.d1.used()).toMatchObject({ roundTrips: 2, rowsWritten: 1 });
  });

  test("go to the databases that take new ones, and are still delivered from the others", async () => {
    await newDestination();
    world.clock.pass(msUntilFurther());
    const messages = await world.post();
    const services = { ...world.services, config: { ...world.services.config, eventDatabases: 1 } };
    const [next] = await acceptAll(services, [event()]);
    expect(databaseNumberOf(next?.id ?? -1)).toBe(0);
    await world.consume(messages);
    expect((await storedRows()).map(({ state }) => state)).toEqual(["delivered"]);
  });
});

describe("the database of a request", () => {
  const placesOf = (outcome: CommitResult) => acceptedOf(outcome).map(({ id }) => databaseNumberOf(id));

  test.each([
    ["all of them", undefined, 3],
    ["those that take new events", 2, 2],
  ])("is one of %s: that of its last event's tenant and minute, or of its key", async (_which, eventDatabases, count) => {
    const config = { ...world.services.config, ...(eventDatabases !== undefined && { eventDatabases }) };
    const services = { ...world.services, config };
    for (let i = 0; i < 8; i++) {
      const last = `last-${i}`;
      const posted = [`first-${i}`, `second-${i}`, last].map((tenant) => ({ ...event(), tenant }));
      const byTime = placeByTime(last, count, world.clock.now());
      expect(placesOf(await accept(services, posted))).toEqual(Array(3).fill(byTime));
      const byKey = placeByKey(last, "k", count);
      expect(placesOf(await accept(services, posted, "k"))).toEqual(Array(3).fill(byKey));
      world.clock.pass(MINUTE);
    }
  });

  test("routes by the current destinations, whatever an isolate has cached", async () => {
    for (let minute = 0; minute < 6; minute++) {
      const destination = await newDestination({ tenant: `tenant-${minute}` });
      const posted = { ...event(), tenant: `tenant-${minute}` };
      expect((await acceptAll(world.services, [posted]))[0]?.plan).toEqual([destination]);
      await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", destination);
      expect((await acceptAll(world.services, [posted]))[0]?.plan).toEqual([]);
      const addressed = { ...posted, options: { destinationIds: [destination] } };
      expect(await accept(world.services, [addressed])).toMatchObject({ kind: "invalid" });
      world.clock.pass(MINUTE);
    }
  });

  test("does not need a second read of the destinations for a new key, beyond the first database", async () => {
    world.clock.pass(msUntilFurther());
    await world.post();
    const wrong = { ...event(), options: { destinationIds: ["dst_unknown"] } };
    world.d1.used();
    expect(await accept(world.services, [wrong])).toMatchObject({ kind: "invalid" });
    expect(world.d1.used().roundTrips).toBe(1);
  });
});

describe("a key", () => {
  const once = (services: Services, key: string, data: unknown = {}) => accept(services, [event(data)], key);
  const keys = Array.from({ length: 12 }, (_, i) => `key-${i}`);

  test("names one event, whichever database that is in and whenever it is repeated", async () => {
    for (const key of keys) {
      const first = await once(world.services, key);
      expect(first.kind).toBe("accepted");
      world.clock.pass(MINUTE);
      expect(await once(world.services, key)).toEqual({ ...first, kind: "replayed" });
      expect(await once(world.services, key, "other")).toEqual({ kind: "conflict" });
    }
    const ids = await storedIds();
    expect(ids).toHaveLength(keys.length);
    expect(new Set(ids.map(databaseNumberOf))).toEqual(new Set([0, 1, 2]));
  });

  test("names the same event when databases are added, and when fewer take events again", async () => {
    for (const [i, key] of keys.entries()) await once(withDatabases((i % 3) + 1), key);
    for (const key of keys) expect((await once(world.services, key)).kind).toBe("replayed");
    const fewer = { ...world.services, config: { ...world.services.config, eventDatabases: 1 } };
    for (const key of keys) expect((await once(fewer, key)).kind).toBe("replayed");
    expect(await storedIds()).toHaveLength(keys.length);
  });

  test("is used by one of many simultaneous requests", async () => {
    for (const key of keys) {
      const results = await Promise.all(Array.from({ length: 5 }, () => once(world.services, key)));
      expect(results.map(({ kind }) => kind).toSorted()).toEqual([
        "accepted",
        "replayed",
        "replayed",
        "replayed",
        "replayed",
      ]);
    }
    expect(await storedIds()).toHaveLength(keys.length);
  });

  test("names a request of many statements as a whole", async () => {
    await newDestination();
    const posted = Array.from({ length: 300 }, () => event("x".repeat(5_000)));
    for (const key of keys.slice(0, 4)) {
      const first = await accept(world.services, posted, key);
      expect(await accept(world.services, posted, key)).toEqual({ ...first, kind: "replayed" });
    }
    expect(await storedIds()).toHaveLength(1_200);
  });

  test("is free again when the database fails before the event is stored", async () => {
    for (const key of keys) {
      world.d1.failing((sql) => (sql.includes("INSERT INTO bundles") ? "before" : undefined));
      expect(await patiently(once(world.services, key))).toEqual({ kind: "unavailable" });
      world.d1.failing(() => undefined);
      expect((await once(world.services, key)).kind).toBe("accepted");
    }
  });

  test("names the event although the response was lost, and that of the repeat", async () => {
    for (const key of keys) {
      world.d1.failing((sql) => (sql.includes("INSERT INTO bundles") ? "after" : undefined));
      expect(await patiently(once(world.services, key))).toEqual({ kind: "unavailable" });
      world.d1.failing(() => undefined);
      expect((await once(world.services, key)).kind).toBe("replayed");
    }
    expect(await storedIds()).toHaveLength(keys.length);
  });

  test("costs no look-up in another database if their number has been the same for the lifetime of keys", async () => {
    await tookEvents([0, 3]);
    for (const [number, db] of testDatabases.entries()) {
      await insertBundles(db, Array(100).fill({ events: [{}] }), number);
      await world.services.routing.readFloor(db, number);
    }
    await once(world.services, "warm-up");
    for (const key of keys) {
      world.d1.used();
      await once(world.services, key);
      const { roundTrips, rowsRead } = world.d1.used();
      // Beyond the first database also a read of the tenant's revision.
      expect(roundTrips).toBe(placeByKey(TENANT, key, 3) === 0 ? 1 : 2);
      expect(rowsRead).toBeLessThanOrEqual(15);
    }
  });

  test("is stored, and found again, while all databases that cannot have it are away", async () => {
    await tookEvents([0, 3]);
    await once(world.services, "warm-up");
    for (const key of keys) {
      const place = placeByKey(TENANT, key, 3);
      const services = withAway((number) => number !== place && number !== 0);
      const first = await once(services, key);
      expect(first.kind).toBe("accepted");
      expect(await once(services, key)).toEqual({ ...first, kind: "replayed" });
    }
  });

  test("is looked up where it went while there were fewer databases, and nowhere else", async () => {
    const DAY = 86_400_000;
    const former = withPlaces(2);
    const first = new Map<string, CommitResult>();
    for (const key of keys) first.set(key, await once(former, key));
    await tookEvents([0, 1], [START - 20 * DAY, 2], [START - DAY, 3]);
    for (const key of keys) {
      const needed = [0, placeByKey(TENANT, key, 2), placeByKey(TENANT, key, 3)];
      const services = withAway((number) => !needed.includes(number), newIsolate());
      expect(await once(services, key)).toEqual({ ...first.get(key), kind: "replayed" });
    }
    const moved =
      keys.find((key) => placeByKey(TENANT, key, 3) === 2 && placeByKey(TENANT, key, 2) === 1) ?? "";
    expect(
      await once(
        withAway((number) => number === 1, newIsolate()),
        moved,
      ),
    ).toEqual({ kind: "unavailable" });
    expect(world.logged("keys_unavailable")).toMatchObject([{ database: 1 }]);
  });

  test("is placed by the number of databases in effect, whatever an isolate's configuration says", async () => {
    await tookEvents([0, 2]);
    const former = newIsolate(withPlaces(2));
    const next = newIsolate(withPlaces(3));
    await runCron(next);
    const stored = async (key: string) => {
      const first = await once(former, key);
      expect(await once(next, key)).toEqual({ ...first, kind: "replayed" });
      const other = await once(next, `${key} other`);
      expect(await once(former, `${key} other`)).toEqual({ ...other, kind: "replayed" });
      return idsOf(other).map(databaseNumberOf);
    };
    const places: number[] = [];
    for (let minute = 0; minute < 20; minute++) {
      for (const key of keys.slice(0, 4)) places.push(...(await stored(`${key} ${minute}`)));
      await world.settled();
      if (minute < 14) expect(places).not.toContain(2);
      world.clock.pass(MINUTE);
    }
    expect(places).toContain(2);
  });

  test("is unavailable if the history of the databases cannot be read, and so is everything else", async () => {
    world.d1.failing((sql) => (sql.includes("database_history") ? "before" : undefined));
    expect(await once(world.services, "k")).toEqual({ kind: "unavailable" });
    expect(world.logged("history_unread")).toHaveLength(1);
  });
});

/** From when on so many databases have taken events. */
async function tookEvents(...history: readonly (readonly [since: number, count: number])[]): Promise<void> {
  for (const [since, count] of history)
    await testDatabases[0]
      ?.prepare("INSERT INTO database_history (since, count) VALUES (?1, ?2)")
      .bind(since, count)
      .run();
}

/** Another isolate: it shares nothing with others but the databases. */
function newIsolate(services: Services = world.services): Services {
  return { ...services, routing: new RoutingCache(), placement: new PlacementCache() };
}

/** An isolate that is configured for so many databases, before anything of their history was stored. */
function withPlaces(eventDatabases: number): Services {
  const placement = new PlacementCache();
  const config = { ...world.services.config, eventDatabases };
  return { ...world.services, placement, config };
}

/** The same services, where these databases are away. */
function withAway(isAway: (number: number) => boolean, services: Services = world.services): Services {
  const away = {
    prepare: () => {
      throw new Error("D1_ERROR: away, as the test wants it");
    },
  } as unknown as D1Database;
  const { db, further = [] } = services;
  const [first = db, ...others] = [db, ...further].map((one, number) => (isAway(number) ? away : one));
  return { ...services, db: first, further: others };
}

function idsOf(outcome: CommitResult): number[] {
  return "events" in outcome ? outcome.events.map(({ id }) => id) : [];
}

/** Ends the pause before a repeat as soon as it begins. */
async function patiently<T>(work: Promise<T>): Promise<T> {
  void world.clock.asleep(75).then(() => world.clock.pass(75));
  return work;
}

/** How long until the tenant's events go to a database beyond the first. */
function msUntilFurther(): number {
  let ms = 0;
  while (placeByTime(TENANT, testDatabases.length, world.clock.now() + ms) === 0) ms += MINUTE;
  return ms;
}

test("a request that plans too many deliveries is stored in no database, whichever it would have gone to", async () => {
  for (let i = 0; i < 3; i++) await newDestination();
  const services = { ...world.services, config: { ...world.services.config, maxDeliveriesPerRequest: 5 } };
  for (let minute = 0; minute < 12; minute++) {
    const tooMany = { kind: "too_many", planned: 6 };
    expect(await accept(services, [event(), event()])).toEqual(tooMany);
    expect(await accept(services, [event(), event()], `key ${minute}`)).toEqual(tooMany);
    world.clock.pass(MINUTE);
  }
  expect(await storedIds()).toEqual([]);
  const once = await accept(services, [event()], "key 1");
  expect(once.kind).toBe("accepted");
});

describe("events with options", () => {
  test("have their tags in their own database, and are refused in each for unknown objects", async () => {
    const destination = await newDestination();
    const databases = new Set<number>();
    for (let minute = 0; minute < 12; minute++) {
      const tagged = { ...event(), options: { tags: ["t"], destinationIds: [destination] } };
      for (const { id } of await acceptAll(world.services, [tagged, event()]))
        databases.add(databaseNumberOf(id));
      const wrong = { ...event(), options: { destinationIds: ["dst_unknown"] } };
      expect(await accept(world.services, [wrong])).toMatchObject({ kind: "invalid" });
      world.clock.pass(MINUTE);
    }
    expect(databases).toEqual(new Set([0, 1, 2]));
    const misplaced = "SELECT 1 FROM tags WHERE NOT EXISTS (SELECT 1 FROM bundles WHERE id = bundle_id)";
    expect(await rowsOfAll("SELECT * FROM tags")).toHaveLength(12);
    expect(await rowsOfAll(misplaced)).toEqual([]);
  });

  test("whose data does not fit are refused in each database, by the current schema", async () => {
    const { db } = world.services;
    const schema = JSON.stringify({ type: "object" });
    const put =
      "REPLACE INTO event_types (name, schema, validates, created_at, updated_at) VALUES (?1, ?2, ?3, 0, 0)";
    for (let minute = 0; minute < 12; minute++) {
      await db.prepare(put).bind("order.paid", schema, 1).run();
      expect(await accept(world.services, [event(7)])).toMatchObject({
        kind: "invalid",
        faults: [{ place: 0, field: "data#" }],
      });
      await db.prepare(put).bind("order.paid", schema, 0).run();
      expect(await accept(world.services, [event(7)])).toMatchObject({ kind: "accepted" });
      world.clock.pass(MINUTE);
    }
  });
});
