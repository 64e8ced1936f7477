/**
 * An erased event's content is gone everywhere, and the event stays listed; others of its bundle stay unchanged, to the
 * byte. However often a step is made, and wherever it is killed, the receipt counts each event once.
 */

import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, type Plan, type StoredHeader, storedHeader } from "../../../src/core/bundle.ts";
import { eraseEvent, erasing, startErasure } from "../../../src/features/erasures/job.ts";
import { type Erasure, findErasure } from "../../../src/features/erasures/sql.ts";
import { readContents } from "../../../src/store/bundles.ts";
import { storeBodies } from "../../../src/store/commit.ts";
import { loadDeliveries } from "../../../src/store/deliveries.ts";
import { type Extent, eraseFrom } from "../../../src/store/erase.ts";
import { runCron } from "../../../src/upkeep.ts";
import { accept } from "../../support/accept.ts";
import { KEY, testApi } from "../../support/api.ts";
import { rowsOfAll } from "../../support/databases.ts";
import { storedBodies } from "../../support/stored-bodies.ts";
import {
  execute,
  FIRST_EVENT,
  newDestination,
  newWorld,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../../support/world.ts";

const MINUTE = 60_000;
const all: Extent = { cancels: true, tags: true, keys: "closed" };

let world: World;
let here: string;
beforeEach(async () => {
  world = await newWorld();
  here = await newDestination();
  world.receiver.script(urlOf(here), 204);
});

/** Makes all steps that are due, pauses included. */
async function complete(begun: Erasure | undefined): Promise<Erasure> {
  if (!begun) throw new Error("The erasure has begun");
  for (let step = 0; step < 50; step++) {
    const found = await findErasure(world.services, begun.id, undefined);
    if (found?.state === "completed") return found;
    await erasing.step(world.services, begun.id);
    world.clock.pass(MINUTE);
  }
  throw new Error("The erasure completes");
}

function api() {
  const services = { ...world.services, config: { ...world.services.config, adminKey: KEY } };
  return testApi({ services });
}

const headers = async () =>
  (await rowsOfAll<{ header: string }>("SELECT header FROM bundles ORDER BY id")).map(
    ({ header }) => JSON.parse(header) as StoredHeader,
  );

/** Posts an event of each of these data in one request; returns their numbers. */
async function post(
  data: readonly unknown[],
  options?: Parameters<World["post"]>[1],
  tenant = TENANT,
  key?: string,
) {
  const posted = data.map((one) => ({ tenant, type: "order.paid", data: one, ...options }));
  const result = await accept(world.services, posted, key);
  await world.settled();
  if (!("events" in result)) throw new Error("The events are accepted");
  return result.events.map(({ id }) => id);
}

describe("the neighbours of an erased event", () => {
  const event = fc.record({
    tenant: fc.constantFrom("acme", "rival"),
    body: fc.uint8Array({ maxLength: 300 }),
    repeated: fc.integer({ min: 1, max: 20 }),
    headers: fc.option(
      fc.dictionary(fc.constantFrom("x-a", "x-b"), fc.string({ maxLength: 8 }), { minKeys: 1 }),
      {
        nil: undefined,
      },
    ),
    tags: fc.array(fc.constantFrom("one", "two"), { maxLength: 2 }),
    contentType: fc.option(fc.constant("text/xml"), { nil: undefined }),
    ttlSeconds: fc.option(fc.constant(60), { nil: undefined }),
  });

  test("keep their bytes, headers, tags and times to live, whichever are erased, in any order", async () => {
    const bundles = fc.array(event, { minLength: 1, maxLength: 100 }).chain((events) =>
      fc.record({
        events: fc.constant(events),
        rounds: fc.array(fc.array(fc.nat({ max: events.length - 1 }), { maxLength: 5 }), { maxLength: 4 }),
      }),
    );
    await fc.assert(
      fc.asyncProperty(bundles, async ({ events, rounds }) => {
        await execute("DELETE FROM bundles");
        await execute("DELETE FROM tags");
        const bodies = events.map(
          ({ body, repeated }) =>
            new Uint8Array(
              Array(repeated)
                .fill([...body])
                .flat(),
            ),
        );
        const own = events.flatMap(({ headers }, index) => (headers ? [[index, headers] as const] : []));
        const part =
          own.length > 0 ? [new TextEncoder().encode(JSON.stringify(Object.fromEntries(own)))] : [];
        const { hex, ...how } = await storeBodies([...bodies, ...part]);
        const header = storedHeader(
          events.map((one, i) => ({ ...one, type: "a", bytes: bodies[i]?.byteLength ?? 0 })),
          { ...how, ...(part[0] && { headerBytes: part[0].byteLength }) },
        );
        await execute(
          `INSERT INTO bundles (id, tokens, accepted_at, count, planned, plan, header, body)
           VALUES (1, '[]', 1, ?1, 0, '{}', ?2, unhex(?3))`,
          events.length,
          JSON.stringify(header),
          hex,
        );
        const before = await readContents(hex, header);
        const gone = new Set<number>();
        for (const round of rounds) {
          for (const index of round) gone.add(index);
          await eraseFrom(env.DB, { id: 1, plan: {}, indexes: round }, all, 1);
        }
        const [after] = await rowsOfAll<{ header: string; hex: string }>(
          "SELECT header, hex(body) AS hex FROM bundles",
        );
        const read = JSON.parse(after?.header ?? "{}") as StoredHeader;
        const contents = await readContents(after?.hex ?? "", read);
        const shown = (one: typeof before) => one?.map(({ body, headers }) => [body.toHex(), headers]);
        const expected = shown(before)?.map((one, i) => (gone.has(i) ? ["", undefined] : one));
        expect(shown(contents)).toEqual(expected);
        const tags = events.flatMap(({ tags, tenant }, i) =>
          gone.has(i) ? [] : tags.map((tag) => `${tenant} ${tag}`),
        );
        const rows = await rowsOfAll<{ tag: string }>("SELECT tenant || ' ' || tag AS tag FROM tags");
        expect(new Set(rows.map(({ tag }) => tag))).toEqual(new Set(tags));
        expect(read.ttls).toEqual(header.ttls);
      }),
      { numRuns: 60 },
    );
  });

  test("are sent as they were posted by a consumer that read their header before the erasure", async () => {
    const [first = 0, second = 0] = await post([{ secret: 1 }, { open: 2 }]);
    const before = await storedBodies([env.DB]);
    const plan: Plan = { [here]: [0, 1] };
    let erased = false;
    const { db } = world.services;
    const racing = {
      prepare: db.prepare.bind(db),
      batch: async (statements: D1PreparedStatement[]) => {
        const results = await db.batch(statements);
        if (!erased)
          await eraseFrom(env.DB, { id: bundleOf(first), plan, indexes: [0] }, { ...all, cancels: false }, 1);
        erased = true;
        return results;
      },
    } as unknown as D1Database;
    const parts = [{ bundle: bundleOf(first), destinations: [here] }];
    const loaded = await loadDeliveries({ db: racing }, parts, { fewDueOf: new Set([bundleOf(first)]) });
    const shown = loaded.deliveries.map(({ event: { id, body, isErased } }) => [
      id,
      body && new TextDecoder().decode(body),
      isErased,
    ]);
    expect(shown).toEqual([
      [first, undefined, true],
      [second, before[1], undefined],
    ]);
  });

  test("survive an erasure to which the database gave one bad answer", async () => {
    const [first = 0] = await post(["a", "b"]);
    const before = await storedBodies([env.DB]);
    let isBad = true;
    const { db } = world.services;
    const spoiling = {
      batch: db.batch.bind(db),
      prepare: (sql: string) => ({
        bind: (...values: unknown[]) => {
          const statement = db.prepare(sql).bind(...values);
          if (!sql.startsWith("SELECT header") || !isBad) return statement;
          isBad = false;
          return { first: async () => ({ ...(await statement.first<object>()), body: "00" }) };
        },
      }),
    } as unknown as D1Database;
    await eraseFrom(spoiling, { id: bundleOf(first), plan: {}, indexes: [0] }, all, 1);
    expect(await storedBodies([env.DB])).toEqual(["", before[1]]);
  });

  test("are not restored by an erasure that read the bundle before another one had written it", async () => {
    const [first = 0] = await post(["a", "b", "c"]);
    const before = await storedBodies([env.DB]);
    const bundle = { id: bundleOf(first), plan: {} };
    const { db } = world.services;
    let other: Promise<unknown> | undefined;
    const racing = {
      prepare: db.prepare.bind(db),
      batch: async (statements: D1PreparedStatement[]) => {
        other ??= eraseFrom(env.DB, { ...bundle, indexes: [1] }, all, 1);
        await other;
        return db.batch(statements);
      },
    } as unknown as D1Database;
    const erasure = (await startErasure(world.services, "rival", { kind: "tenant" }))?.id ?? "";
    await eraseFrom(racing, { ...bundle, indexes: [0] }, { ...all, erasure }, 1);
    expect(await storedBodies([env.DB])).toEqual(["", "", before[2]]);
    expect(await rowsOfAll("SELECT events FROM erasures")).toEqual([{ events: 1 }]);
  });

  test("are delivered, while the erased one is cancelled, and nothing of it is sent", async () => {
    const messages = await world.postBundles(3, { data: { secret: 42 } });
    await complete(await eraseEvent(world.services, TENANT, FIRST_EVENT + 1));
    await world.consume(messages);
    const states = (await storedRows()).map(({ eventId, state, reason }) => [eventId, state, reason]);
    expect(states).toEqual([
      [FIRST_EVENT, "delivered", null],
      [FIRST_EVENT + 1, "cancelled", "erased"],
      [FIRST_EVENT + 2, "delivered", null],
    ]);
    expect(world.receiver.calls).toHaveLength(2);
  });
});

describe("an erased event", () => {
  test("is listed without content, and its receipt lists what was removed", async () => {
    const { call } = api();
    const event = (
      await call("POST", "/v1/events", { type: "a", data: { secret: "hush-hush" }, tenant: TENANT })
    ).json;
    await world.settled();
    const begun = await call("POST", "/v1/erasures", { tenant: TENANT, event_id: event.id });
    expect(begun.status).toBe(202);
    expect(begun.json).toMatchObject({ event_id: event.id, state: "running", everything: false, events: 0 });
    await complete({ id: begun.json.id } as Erasure);
    const shown = await call("GET", `/v1/events/${event.id}`);
    expect(shown.json).toMatchObject({ id: event.id, type: "a", content: "erased", data: null });
    expect(shown.json.deliveries).toMatchObject([{ state: "cancelled", reason: "erased" }]);
    expect(shown.text).not.toContain("hush-hush");
    const receipt = (await call("GET", `/v1/erasures/${begun.json.id}`)).json;
    expect(receipt).toMatchObject({ state: "completed", events: 1, deliveries: 1, cancelled: 1 });
    expect(receipt.ended_at).not.toBeNull();
    expect((await call("GET", "/v1/erasures")).json.data).toEqual([receipt]);
  });

  test("has no answers of receivers, and is not sent again by a retry or a replay", async () => {
    world.receiver.script(urlOf(here), () => new Response("secret 42 is wrong", { status: 400 }));
    await world.consume(await world.post(2));
    await world.settled();
    expect((await storedRows()).every(({ log }) => log[0]?.excerpt?.includes("42"))).toBe(true);
    await complete(await eraseEvent(world.services, TENANT, FIRST_EVENT));
    const [gone, kept] = await storedRows();
    expect(gone?.log).toEqual([{ at: expect.any(Number), latencyMs: expect.any(Number), status: 400 }]);
    expect(kept?.log[0]?.excerpt).toContain("42");
    const { call } = api();
    const [first] = (await call("GET", `/v1/deliveries?destination_id=${here}`)).json.data.toReversed();
    const retried = await call("POST", `/v1/deliveries/${first.id}/retry`);
    expect(retried).toMatchObject({ status: 409, json: { detail: expect.stringContaining("erased") } });
    const range = { since: "2020-01-01T00:00:00Z", until: new Date(world.clock.now()).toISOString() };
    const replay = await call("POST", "/v1/replays", { destination_id: here, ...range });
    expect(replay.json).toMatchObject({ total: 1 });
  });

  test("that has been delivered is in no replay, alone or with a requested type", async () => {
    await world.consume(await world.postBundles(3));
    await complete(await eraseEvent(world.services, TENANT, FIRST_EVENT));
    const { call } = api();
    const range = { since: "2020-01-01T00:00:00Z", until: new Date(world.clock.now()).toISOString() };
    for (const event_types of [null, ["order.*"]]) {
      const body = { destination_id: here, include: "delivered", event_types, ...range };
      const replay = (await call("POST", "/v1/replays", body)).json;
      expect(replay).toMatchObject({ total: 2 });
      await call("POST", `/v1/replays/${replay.id}/cancel`);
    }
  });

  test("loses its tags, and a repeat of its request stores nothing and gets 409", async () => {
    const { call } = api();
    const posted = { type: "a", data: 1, tenant: TENANT, tags: ["jane@acme.example"] };
    const key = { "idempotency-key": "k1" };
    const event = (await call("POST", "/v1/events", posted, key)).json;
    await complete(await eraseEvent(world.services, TENANT, FIRST_EVENT));
    expect(await rowsOfAll("SELECT * FROM tags")).toEqual([]);
    expect(JSON.stringify(await headers())).not.toContain("jane");
    expect((await call("GET", `/v1/events/${event.id}`)).json.tags).toBeUndefined();
    expect((await call("POST", "/v1/events", posted, key)).status).toBe(409);
    expect(await rowsOfAll("SELECT fingerprint FROM idempotency_keys")).toEqual([{ fingerprint: "erased" }]);
  });

  test("whose attempt was under way may arrive, and its record is redacted by the second pass", async () => {
    await world.post(1);
    const begun = await eraseEvent(world.services, TENANT, FIRST_EVENT);
    await execute(
      "INSERT INTO packs (destination_id, bundle_id, in_flight0, recover_at) VALUES (?1, ?2, 1, 9e15)",
      here,
      bundleOf(FIRST_EVENT),
    );
    await erasing.step(world.services, begun?.id ?? "");
    expect(await storedRows()).toMatchObject([{ state: "retrying", reason: "in_flight" }]);
    await execute(
      `INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, give_up_at, next_attempt_at, log)
       VALUES (?1, ?2, 'retrying', 'http_500', 1, 9e15, 9e15, '[{"at":1,"latencyMs":1,"status":500,"excerpt":"hush-hush"}]')`,
      here,
      FIRST_EVENT,
    );
    const receipt = await complete(begun);
    expect(await storedRows()).toMatchObject([
      { state: "cancelled", reason: "erased", attempts: 1, log: [{ at: 1, latencyMs: 1, status: 500 }] },
    ]);
    expect(JSON.stringify(await storedRows())).not.toContain("hush-hush");
    expect(receipt).toMatchObject({ events: 1, deliveries: 1, cancelled: 1 });
  });

  test("is not erased through another tenant, nor through one that does not exist", async () => {
    const [event = 0] = await post([1]);
    expect(await eraseEvent(world.services, "rival", event)).toBeUndefined();
    expect(await eraseEvent(world.services, TENANT, event + 1)).toBeUndefined();
    expect(await rowsOfAll("SELECT id FROM erasures")).toEqual([]);
  });
});

describe("an erasure of many", () => {
  test("takes only the tenant's events, and only of its range", async () => {
    await post(["early"]);
    world.clock.pass(MINUTE);
    const since = world.clock.now();
    await accept(world.services, [
      { tenant: TENANT, type: "a", data: "mine" },
      { tenant: "rival", type: "a", data: "theirs" },
    ]);
    world.clock.pass(MINUTE);
    const until = world.clock.now();
    await post(["late"]);
    const receipt = await complete(
      await startErasure(world.services, TENANT, { kind: "range", since, until }),
    );
    expect((await storedBodies()).map((body) => body && JSON.parse(body).data).toSorted()).toEqual(
      ["", "early", "late", "theirs"].toSorted(),
    );
    expect(receipt).toMatchObject({ events: 1, deliveries: 1, cancelled: 1 });
  });

  test("takes everything up to its beginning, and no events posted later", async () => {
    await post([1, 2, 3], undefined, TENANT, "a key");
    const begun = await startErasure(world.services, TENANT, { kind: "tenant" });
    world.clock.pass(1_000);
    await post(["new"]);
    const receipt = await complete(begun);
    expect((await storedBodies()).filter((body) => body !== "")).toHaveLength(1);
    expect(receipt).toMatchObject({ events: 3, deliveries: 3, cancelled: 3 });
    expect(await rowsOfAll("SELECT key FROM idempotency_keys")).toEqual([]);
    expect(JSON.stringify(await headers())).not.toContain("a key");
  });

  test("is refused while five of the tenant are running; those of single events are not", async () => {
    const [event = 0] = await post([1]);
    const begin = (tenant: string) => startErasure(world.services, tenant, { kind: "tenant" });
    for (let i = 0; i < 5; i++) expect(await begin(TENANT)).toBeDefined();
    expect(await begin(TENANT)).toBeUndefined();
    expect(await begin("rival")).toBeDefined();
    expect(await eraseEvent(world.services, TENANT, event)).toBeDefined();
  });

  test("continues after its step was killed anywhere, and counts everything once", async () => {
    for (let i = 0; i < 4; i++) await post(Array.from({ length: 3 }, (_, j) => `${i} ${j}`));
    const begun = await startErasure(world.services, TENANT, { kind: "tenant" });
    let trips = 0;
    let killed = 0;
    let at = 0;
    world.d1.failing(() => {
      trips += 1;
      if (trips !== at) return undefined;
      killed += 1;
      return killed % 2 ? "after" : "before";
    });
    for (at = 1; at < 60; at++) {
      trips = 0;
      await erasing.step(world.services, begun?.id ?? "").catch(() => {});
      if (at % 8 === 0) world.clock.pass(17 * MINUTE);
    }
    world.d1.failing(() => undefined);
    const receipt = await complete(begun);
    expect(killed).toBeGreaterThan(8);
    expect(receipt).toMatchObject({ events: 12, deliveries: 12, cancelled: 12 });
    expect(new Set(await storedBodies())).toEqual(new Set([""]));
  });

  test("whose step is lost is continued by the cron", async () => {
    await post([1]);
    await startErasure(world.services, TENANT, { kind: "tenant" });
    await world.settled();
    world.upkeepQueue.taken();
    world.clock.pass(MINUTE);
    await runCron(world.services);
    await world.settled();
    const steps = world.upkeepQueue.taken().filter(({ body }) => "erasure" in body);
    expect(steps).toHaveLength(1);
    await world.keepUp(steps.map(({ body }) => body));
    expect(await storedBodies()).toEqual([""]);
  });
});

test("a delivery that comes back after the erasure is cancelled instead of sent", async () => {
  const messages = await world.postBundles(1);
  const [header] = await headers();
  await complete(await eraseEvent(world.services, TENANT, FIRST_EVENT));
  expect(header).toBeDefined();
  await execute("DELETE FROM deliveries");
  await world.consume(messages);
  expect(await storedRows()).toMatchObject([{ state: "cancelled", reason: "erased", attempts: 0 }]);
  expect(world.receiver.calls).toEqual([]);
});

test.each<[unknown, string]>([
  [{ tenant: TENANT }, "does not say what to erase"],
  [{ tenant: TENANT, everything: true, event_id: "evt_x" }, "more than one way"],
  [{ tenant: TENANT, since: "2026-01-02T00:00:00Z", everything: true }, "more than one way"],
  [{ tenant: TENANT, everything: false }, "is false"],
  [{ tenant: "a b", everything: true }, 'is "a b"'],
  [{ everything: true }, "is missing"],
  [{ tenant: TENANT, since: "yesterday" }, 'is "yesterday"'],
  [{ tenant: TENANT, since: "2026-01-02T00:00:00Z", until: "2026-01-01T00:00:00Z" }, "is 2026-01-01"],
  [{ tenant: TENANT, event_id: 7 }, "is 7"],
])("an erasure of %j is refused with its fault", async (body, fault) => {
  const { status, json } = await api().call("POST", "/v1/erasures", body);
  expect(status).toBe(422);
  expect(json.errors[0].fault).toContain(fault);
  expect(await rowsOfAll("SELECT id FROM erasures")).toEqual([]);
});

test.each([
  "evt_x",
  "",
  "evt_0000000000000",
  "' OR 1=1",
])("an erasure of the event %j is 404", async (event_id) => {
  expect((await api().call("POST", "/v1/erasures", { tenant: TENANT, event_id })).status).toBe(404);
});
