/** Order with three databases: a tenant with a destination that orders events without a key has them all in the first one. */
import { beforeEach, describe, expect, test } from "vitest";
import { databaseNumberOf, placeByKey, placeByTime } from "../../src/core/placement.ts";
import type { CommitResult, Entry } from "../../src/ingest/bundle.ts";
import { GroupCommit } from "../../src/ingest/intake.ts";
import { PlacementCache } from "../../src/ingest/placement-cache.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { Services } from "../../src/services.ts";
import { accept, acceptEach } from "../support/accept.ts";
import { rowsOfAll } from "../support/databases.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { execute, newDestination, newWorld, TENANT, type World } from "../support/world.ts";

const MINUTE = 60_000;

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** Another isolate: it shares nothing with others but the databases. */
const newIsolate = (): Services => ({
  ...world.services,
  routing: new RoutingCache(),
  placement: new PlacementCache(),
});

const event = (tenant = TENANT) => ({ tenant, type: "order.paid", data: { order: 1 } });

const placesIn = (outcome: CommitResult) =>
  "events" in outcome ? outcome.events.map(({ id }) => databaseNumberOf(id)) : [outcome.kind];

const post = async (services: Services, tenant = TENANT) => placesIn(await accept(services, [event(tenant)]));

/** Waits for a minute in which the tenant's events would go to a further database. */
function passUntilFurther(): void {
  while (placeByTime(TENANT, 3, world.clock.now()) === 0) world.clock.pass(MINUTE);
}

const furtherKeys = Array.from({ length: 20 }, (_, i) => `key-${i}`).filter(
  (key) => placeByKey(TENANT, key, 3) > 0,
);

const order = (id: string, ordering: string | null | undefined = "destination") =>
  execute("UPDATE destinations SET ordering = ?2 WHERE id = ?1", id, ordering);

describe("a tenant with a destination that orders all events, or by a path", () => {
  test.each([
    ["all events", { ordering: "destination" }],
    ["by a path", { ordering: "key", orderingPath: "data.order" }],
  ] as const)("(%s) has each event in the first database, and others do not", async (_which, columns) => {
    await newDestination(columns);
    const [knowing, others] = [newIsolate(), new Set<unknown>()];
    for (let minute = 0; minute < 12; minute++) {
      expect(await post(newIsolate())).toEqual([0]);
      expect(await post(knowing)).toEqual([0]);
      for (const place of await post(knowing, "other")) others.add(place);
      world.clock.pass(MINUTE);
    }
    expect(others).toEqual(new Set([0, 1, 2]));
    expect(await rowsOfAll("SELECT * FROM lines")).toHaveLength(24);
  });

  test("has scheduled events, and those in a request with others', in the first database too", async () => {
    await newDestination({ ordering: "destination" });
    passUntilFurther();
    const scheduled = { ...event(), deliverAt: world.clock.now() + MINUTE };
    expect(placesIn(await accept(newIsolate(), [scheduled]))).toEqual([0]);
    for (let i = 0; i < 6; i++)
      expect(placesIn(await accept(newIsolate(), [event(), event(`other ${i}`)]))).toEqual([0, 0]);
  });

  test("has its events there from the next post on, whatever an isolate has cached, and elsewhere again without such an order", async () => {
    const id = await newDestination();
    const isolate = newIsolate();
    passUntilFurther();
    expect(await post(isolate)).not.toEqual([0]);
    await order(id);
    expect(await post(isolate)).toEqual([0]);
    await order(id, null);
    world.clock.pass(11 * MINUTE);
    passUntilFurther();
    expect(await post(isolate)).not.toEqual([0]);
  });

  test("costs an isolate that has cached it no query, and another isolate a refused commit", async () => {
    await newDestination({ ordering: "destination" });
    const isolate = newIsolate();
    await post(isolate);
    passUntilFurther();
    await post(isolate);
    world.d1.used();
    await post(isolate);
    // A bundle and a place in line.
    expect(world.d1.used()).toMatchObject({ roundTrips: 1, rowsWritten: 2 });
    isolate.placement.pin([TENANT], Number.NEGATIVE_INFINITY);
    world.d1.used();
    await post(isolate);
    expect(world.d1.used()).toMatchObject({ roundTrips: 2, rowsWritten: 2 });
  });

  test("has the event of a call with a lost answer in one place, or an error", async () => {
    await newDestination({ ordering: "destination" });
    passUntilFurther();
    let calls = 0;
    const isolate = newIsolate();
    const objects = new Map<string, GroupCommit>();
    const intake = {
      idFromName: (name: string) => name,
      get: (name: string) => ({
        accept: async (version: number, database: number, entry: Entry) => {
          const own = objects.get(name) ?? new GroupCommit(newIsolate());
          objects.set(name, own);
          const result = await own.accept(version, database, entry);
          calls += 1;
          if (calls === 1) throw new Error("Network connection lost.");
          return result;
        },
      }),
    } as unknown as NonNullable<Services["intake"]>;
    const posting = accept({ ...isolate, intake }, [event()]);
    while ((await Promise.race([posting, new Promise((go) => setTimeout(go))])) === undefined)
      world.clock.wakeFirst();
    expect(await posting).toEqual({ kind: "unavailable" });
    expect(placesIn(await accept({ ...isolate, intake }, [event()]))).toEqual([0]);
    expect(await rowsOfAll("SELECT id FROM events")).toHaveLength(1);
  });
});

describe("a key of a tenant that comes to be ordered", () => {
  const once = (key: string, services = newIsolate()) => accept(services, [event()], key);

  test("names the stored event, in whichever database, and afterwards", async () => {
    const id = await newDestination();
    const before = new Map<string, CommitResult>();
    const [early, late] = [furtherKeys.slice(0, 4), furtherKeys.slice(4, 8)];
    for (const key of early) before.set(key, await once(key));
    await order(id);
    for (const key of early) expect(await once(key)).toEqual({ ...before.get(key), kind: "replayed" });
    for (const key of late) before.set(key, await once(key));
    await order(id, null);
    for (const key of [...early, ...late])
      expect(await once(key)).toEqual({ ...before.get(key), kind: "replayed" });
    expect(await rowsOfAll("SELECT id FROM events")).toHaveLength(8);
  });

  test("names one event when two requests meet at that moment", async () => {
    const id = await newDestination();
    const [key = ""] = furtherKeys;
    const { promise: ordered, resolve: go } = Promise.withResolvers<void>();
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const slow = newIsolate();
    const further = (slow.further ?? []).map((db) =>
      interceptedD1(db, async (sql, work) => {
        if (sql.includes("INSERT INTO bundles")) {
          begin();
          await ordered;
        }
        return work();
      }),
    );
    const first = once(key, { ...slow, further });
    await begun;
    await order(id);
    const second = await once(key);
    go();
    expect(second.kind).toBe("accepted");
    expect(await first).toEqual({ ...second, kind: "replayed" });
    expect(await rowsOfAll("SELECT id FROM events")).toHaveLength(1);
  });

  test("costs a look-up elsewhere until no event can be there", async () => {
    await execute("INSERT INTO database_history (since, count) VALUES (0, 3)");
    await newDestination({ ordering: "destination" });
    const isolate = newIsolate();
    const [place] = furtherKeys.map((key) => placeByKey(TENANT, key, 3));
    const keys = furtherKeys.filter((key) => placeByKey(TENANT, key, 3) === place);
    const tripsOf = async (key = "") => {
      isolate.placement.pin([TENANT], world.clock.now());
      world.d1.used();
      await once(key, isolate);
      return world.d1.used().roundTrips;
    };
    await once("warm-up", isolate);
    await tripsOf(keys[0]);
    expect(await tripsOf(keys[1])).toBe(2);
    world.clock.pass(200 * 1_440 * MINUTE);
    await post(isolate, "other");
    expect(await tripsOf(keys[2])).toBe(1);
  });
});

describe("a message that is delivered again", () => {
  const handOver = async (n: number, isRepeated: boolean, sentAt: number) => {
    const message = { ...event(), token: `token ${n}`, sentAt, isRepeated };
    const [outcome] = await acceptEach(newIsolate(), [message]);
    return outcome && "events" in outcome ? outcome.events[0]?.id : outcome?.kind;
  };

  test.each([
    ["before its tenant was ordered", "during it", [null, "destination", "destination"]],
    ["before its tenant was ordered", "after it", [null, "destination", null]],
    ["while its tenant was ordered", "then", ["destination", "destination", "destination"]],
    ["while its tenant was ordered", "after it", ["destination", "destination", null]],
  ])("and was stored %s is found %s", async (_when, _then, [first, second, third]) => {
    await execute("INSERT INTO database_history (since, count) VALUES (0, 3)");
    const id = await newDestination();
    passUntilFurther();
    const sentAt = world.clock.now();
    await order(id, first);
    const stored = await handOver(1, false, sentAt);
    await order(id, second);
    await order(id, third);
    expect(await handOver(1, true, sentAt)).toBe(stored);
    expect(await rowsOfAll("SELECT id FROM events")).toHaveLength(1);
  });
});

test("a key of a tenant that a further database refuses is accepted by the first, also without its reason", async () => {
  const id = await newDestination({ ordering: "destination" });
  for (const key of furtherKeys) await accept(newIsolate(), [event()], key);
  // As Time Travel does it: the order was never set.
  await order(id, null);
  const [place] = furtherKeys.map((key) => placeByKey(TENANT, key, 3));
  const other = Array.from({ length: 99 }, (_, i) => `other-${i}`).find(
    (key) => placeByKey(TENANT, key, 3) === place,
  );
  expect(placesIn(await accept(newIsolate(), [event()], other))).toEqual([0]);
});
