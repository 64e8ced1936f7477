/** Deliveries of events whose types have versions: who gets which, at what cost, and what waits. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bodyOfText } from "../../src/delivery/http.ts";
import { faultFor } from "../../src/delivery/transform.ts";
import { changeDestination, findDestination } from "../../src/store/destinations.ts";
import { findEventType, putEventType } from "../../src/store/event-types.ts";
import { changeEventVersion, insertEventVersion } from "../../src/store/event-versions.ts";
import {
  newDestination,
  newWorld,
  rowOf,
  START,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

const TYPE = "order.paid";
const DOWN = '{"id": "{{ data.order.id }}"}';

let world: World;
beforeEach(async () => {
  world = await newWorld();
  const plain = { name: TYPE, description: null, schema: null, example: null, retentionDays: null };
  await putEventType(env.DB, { ...plain, validates: false, archived: false }, START - 10_000);
});

async function publish(conversion = DOWN, at = START - 1_000): Promise<void> {
  const seen = await findEventType(env.DB, TYPE);
  if (!seen) throw new Error("There is no type");
  if (!(await insertEventVersion(env.DB, seen, { schema: "true", example: null, conversion }, at)))
    throw new Error("Not published");
}

const correct = (conversion: string) => changeEventVersion(env.DB, TYPE, 2, { conversion }, START);

async function pin(id: string, pins: Record<string, number>): Promise<void> {
  await changeDestination(
    env.DB,
    id,
    { eventVersions: [{ pins, at: world.services.now(), after: -1 }] },
    TENANT,
  );
}

const order = { data: { order: { id: 7 } } };
const sentTo = (id: string) => world.receiver.to(urlOf(id)).map(({ body }) => JSON.parse(body).data);
const callsTo = (id: string) => world.receiver.to(urlOf(id));

describe("an endpoint", () => {
  test("gets the newest version at its creation, or the version that it is pinned to, whatever is published later", async () => {
    await publish();
    const [early, late] = [
      await newDestination({ createdAt: START - 5_000 }),
      await newDestination({ createdAt: START }),
    ];
    const pinned = await newDestination({ createdAt: START });
    await pin(pinned, { [TYPE]: 1 });
    await world.consume(await world.post(1, order));
    expect([early, late, pinned].map(sentTo)).toEqual([[{ id: 7 }], [order.data], [{ id: 7 }]]);
  });

  test("of an earlier version gets the conversions of all versions in between", async () => {
    const id = await newDestination({ createdAt: START - 5_000 });
    await publish('{"id": "{{ data.id }}", "was": 2}');
    await publish('{"id": "{{ data.order.id }}", "was": 3}', START - 500);
    const between = await newDestination({ createdAt: START - 700 });
    await world.consume(await world.post(1, order));
    expect([sentTo(id), sentTo(between)]).toEqual([[{ id: 7, was: 2 }], [{ id: 7, was: 3 }]]);
  });

  test("gets the same bytes at every attempt, whatever is pinned, published and corrected meanwhile", async () => {
    const retry = { schedule: [60], max_attempts: 5 };
    const id = await newDestination({ createdAt: 0, retry });
    const old = await world.post(1, order);
    await publish();
    const events = [...old, ...(await world.post(1, order))];
    world.receiver.script(urlOf(id), 500, 500, 204);
    await world.consume(events);
    await correct('{"other": 1}');
    await pin(id, { [TYPE]: 2 });
    world.clock.pass(120_000);
    await world.consume(events);
    const bodies = Map.groupBy(callsTo(id), ({ headers }) => headers.get("webhook-id"));
    expect([...bodies.values()].map((calls) => new Set(calls.map(({ body }) => body)).size)).toEqual([1, 1]);
    // The pin and the correction apply to later events.
    world.receiver.script(urlOf(id), 204);
    await pin(id, { [TYPE]: 1 });
    await world.consume(await world.post(1, order));
    expect(sentTo(id).at(-1)).toEqual({ other: 1 });
  });

  test("with a template fills it in with converted data, and the signature covers the converted event", async () => {
    await publish();
    const by = { kind: "admin_key", key: null, session: null } as const;
    const template = { body: '{"n": "{{ data.id }}"}' };
    const id = await newDestination({
      createdAt: 0,
      transform: { version: 1, after: -1, at: 0, by, template },
    });
    await world.consume(await world.post(1, order));
    expect(callsTo(id).map(({ body }) => body)).toEqual(['{"n":7}']);
  });

  test("of a deprecated version gets headers that say so, and no other endpoint does", async () => {
    await publish();
    const dates = { deprecatedAt: Date.UTC(2026, 10, 1), sunsetAt: Date.UTC(2027, 0, 1) };
    await changeEventVersion(env.DB, TYPE, 1, dates, START);
    const [early, late] = [
      await newDestination({ createdAt: 0 }),
      await newDestination({ createdAt: START }),
    ];
    await world.consume(await world.post(1, order));
    const named = (id: string) => ["deprecation", "sunset"].map((name) => callsTo(id)[0]?.headers.get(name));
    expect(named(early)).toEqual(["@1793491200", "Fri, 01 Jan 2027 00:00:00 GMT"]);
    expect(named(late)).toEqual([null, null]);
  });
});

test("a type with one version, and an endpoint at the newest, cost no row, call or query", async () => {
  await newDestination({ createdAt: START });
  const costOf = async () => {
    world.d1.used();
    await world.consume(await world.post(10, order));
    await world.settled();
    return world.d1.used();
  };
  await costOf();
  const plain = await costOf();
  await publish();
  // A commit that finds the catalogue changed reads it once.
  await costOf();
  expect(await costOf()).toEqual(plain);
});

test("an event that was accepted before the second version has no version, and is never converted", async () => {
  const id = await newDestination({ createdAt: 0 });
  const events = await world.post(1, order);
  await publish();
  await world.consume(events);
  expect(sentTo(id)).toEqual([order.data]);
});

describe("a delivery whose conversion fails", () => {
  const FAULTY = '{"id": {{ data.order.id }} }';
  const text = { data: { order: { id: "no json" } } };

  test("waits with type, versions and fault: no attempt, no circuit; neighbours are sent; a correction sends it", async () => {
    await publish(FAULTY);
    const id = await newDestination({ createdAt: 0 });
    const other = await newDestination({ createdAt: START });
    const posted = await world.post(1, text);
    const sound = await world.post(1, order);
    await world.consume([...posted, ...sound]);
    await world.settled();
    expect([sentTo(id), sentTo(other).length]).toEqual([[{ id: 7 }], 2]);
    const faulty = posted.find(({ destinationId }) => destinationId === id);
    expect(faulty && (await rowOf(faulty))).toMatchObject({
      state: "waiting",
      reason: "transform_failed",
      attempts: 0,
    });
    expect(world.logged("transform_failed")).toEqual([
      expect.objectContaining({
        destination: id,
        fault: expect.stringContaining(`conversion of ${TYPE} from version 2 to 1, body`),
      }),
    ]);
    // A drain does not request it from the gate.
    world.gates.called();
    await world.answer([{ destination: id, drains: 1 }]);
    expect(world.gates.called()).toEqual(["reportEmptyDrain"]);
    await correct(DOWN);
    await world.answer([{ destination: id, drains: 1 }]);
    await world.settled();
    expect(sentTo(id)).toEqual([{ id: 7 }, { id: "no json" }]);
    expect((await storedRows()).map(({ state }) => state)).not.toContain("waiting");
  });

  test("also fails if an edit in the database has left no pins", async () => {
    await publish();
    const id = await newDestination({ createdAt: 0 });
    await env.DB.prepare("UPDATE destinations SET event_versions = 'nonsense' WHERE id = ?1").bind(id).run();
    await world.consume(await world.post(1, order));
    await world.settled();
    expect(sentTo(id)).toEqual([]);
    const destination = await findDestination(env.DB, id, TENANT);
    const about = {
      id: 128,
      tenant: TENANT,
      type: TYPE,
      acceptedAt: START,
      version: { version: 2, since: START },
    };
    const body = bodyOfText('{"type":"order.paid","timestamp":"2026-11-21T09:00:00.000Z","data":1}');
    expect(destination && (await faultFor(world.services, { ...about, body }, destination))).toMatchObject({
      field: "event_versions",
    });
  });
});
