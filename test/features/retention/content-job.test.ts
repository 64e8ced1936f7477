/**
 * Events with a shorter retention by their tenant or type than the deployment's: hidden everywhere from that moment on,
 * whatever else is in the bundle, and their content erased by the walks of the cron.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt } from "../../../src/core/bundle.ts";
import { erasing, startErasure } from "../../../src/features/erasures/job.ts";
import { findErasure } from "../../../src/features/erasures/sql.ts";
import { contentRetention } from "../../../src/features/retention/content-job.ts";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { eventId } from "../../../src/ids.ts";
import { runCron } from "../../../src/upkeep.ts";
import { insertRow, KEY, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { rowsOfAll } from "../../support/databases.ts";
import { storedBodies } from "../../support/stored-bodies.ts";
import { execute, newDestination, newWorld, urlOf, type World } from "../../support/world.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

let world: World;
let here: string;
beforeEach(async () => {
  world = await newWorld();
  here = await newDestination();
});

function apis() {
  const services = { ...world.services, config: { ...world.services.config, adminKey: KEY } };
  return { native: testApi({ services }).call, svix: testApi({ services, create: createSvixApi }).call };
}

const setDays = (days: number, tenant = "acme") =>
  insertRow("tenant_settings", { tenant, retention_days: days, created_at: 0, updated_at: 0 });

const setTypeDays = (days: number, name: string) =>
  insertRow("event_types", { name, validates: 0, retention_days: days, created_at: 0, updated_at: 0 });

/** A bundle with an event of each of these, all delivered at that time; returns their numbers. */
async function delivered(ageMs: number, events: readonly Readonly<{ tenant?: string; type?: string }>[]) {
  const acceptedAt = world.clock.now() - ageMs;
  const rows = events.map(({ tenant = "acme", type = "a" }) => ({
    tenant,
    type,
    data: `${tenant} ${type}`,
    destinations: [here],
    tags: ["t"],
  }));
  const numbers = await insertBundles(env.DB, [{ acceptedAt, events: rows }]);
  await insertRow("packs", {
    destination_id: here,
    bundle_id: bundleOf(numbers[0] ?? 0),
    delivered0: 2 ** events.length - 1,
    ended_at: acceptedAt,
    ends: "",
  });
  return numbers;
}

const statusOf = async (event: number) => (await apis().native("GET", `/v1/events/${eventId(event)}`)).status;
const bodies = async () => (await storedBodies([env.DB])).map((body) => body && JSON.parse(body).data);

describe("an event of a tenant with a retention of seven days", () => {
  test("is hidden from then on, and its neighbours of the same bundle are not", async () => {
    await setDays(7);
    const [mine = 0, theirs = 0] = await delivered(7 * DAY, [{}, { tenant: "rival" }]);
    const [young = 0] = await delivered(7 * DAY - 1, [{}]);
    const { native, svix } = apis();
    expect(await Promise.all([mine, theirs, young].map(statusOf))).toEqual([404, 200, 200]);
    const listed = async (path: string) =>
      (await native("GET", path)).json.data.map(({ event_id }: { event_id: string }) => event_id);
    const shown = [young, theirs].map(eventId);
    expect(await listed(`/v1/deliveries?destination_id=${here}`)).toEqual(shown);
    expect(await listed("/v1/deliveries?tag=t&tenant=acme")).toEqual([eventId(young)]);
    const id = `dlv_${eventId(mine).slice(4)}_${here.slice(4)}`;
    expect((await native("GET", `/v1/deliveries/${id}`)).status).toBe(404);
    expect((await native("POST", `/v1/deliveries/${id}/retry`)).status).toBe(404);
    const preview = await native("POST", `/v1/destinations/${here}/preview`);
    expect(preview.json.events.map(({ event_id }: { event_id: string }) => event_id)).toEqual([
      eventId(young),
    ]);
    await insertRow("applications", { id: "acme", name: "Acme", created_at: 0, updated_at: 0 });
    const messages = (await svix("GET", "/api/v1/app/acme/msg")).json.data;
    expect(messages.map(({ id }: { id: string }) => id)).toEqual([eventId(young)]);
    expect((await svix("GET", `/api/v1/app/acme/msg/${eventId(mine)}`)).status).toBe(404);
  });

  test("is in no replay", async () => {
    await setDays(7);
    await delivered(7 * DAY, [{}]);
    await delivered(6 * DAY, [{}]);
    const range = { since: "2020-01-01T00:00:00Z", until: new Date(world.clock.now()).toISOString() };
    const body = { destination_id: here, include: "delivered", ...range };
    expect((await apis().native("POST", "/v1/replays", body)).json).toMatchObject({ total: 1 });
  });

  test("is shown, with its content, while one of its deliveries has not ended", async () => {
    await setDays(7);
    const [event = 0] = await delivered(8 * DAY, [{}]);
    await execute("UPDATE packs SET delivered0 = 0, waiting0 = 1");
    expect(await statusOf(event)).toBe(200);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["acme a"]);
  });

  test("loses its content in the next round, and the others of its bundle keep theirs", async () => {
    await setDays(7);
    await delivered(8 * DAY, [{}, { tenant: "rival" }, {}]);
    await delivered(6 * DAY, [{}]);
    await runCron(world.services);
    expect(await bodies()).toEqual(["", "rival a", "", "acme a"]);
    world.clock.pass(DAY);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["", "rival a", "", ""]);
    expect(world.logged("erased_over")).toMatchObject([{ events: 2 }, { events: 1 }]);
  });

  test("is stored no longer than the deployment stores events, whatever was set in the database", async () => {
    await setDays(4_000);
    const [event = 0] = await delivered(31 * DAY, [{}]);
    expect(await statusOf(event)).toBe(404);
  });
});

describe("an event of a type with a retention of two days", () => {
  test("is hidden, is in no replay, and loses its content, whoever its tenant is", async () => {
    await setTypeDays(2, "a.secret");
    const [gone = 0, kept = 0] = await delivered(3 * DAY, [{ type: "a.secret" }, { type: "a.plain" }]);
    expect(await Promise.all([gone, kept].map(statusOf))).toEqual([404, 200]);
    const range = { since: "2020-01-01T00:00:00Z", until: new Date(world.clock.now()).toISOString() };
    for (const event_types of [null, ["a.*"]]) {
      const body = { destination_id: here, include: "delivered", event_types, ...range };
      const { json } = await apis().native("POST", "/v1/replays", body);
      expect(json).toMatchObject({ total: 1 });
      await apis().native("POST", `/v1/replays/${json.id}/cancel`);
    }
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["", "acme a.plain"]);
  });

  test("that is dead is skipped by a replay too", async () => {
    await setTypeDays(2, "a.secret");
    const [gone = 0, kept = 0] = await delivered(3 * DAY, [{ type: "a.secret" }, { type: "a.plain" }]);
    await execute("DELETE FROM packs");
    for (const event of [gone, kept])
      await insertRow("deliveries", {
        destination_id: here,
        event_id: event,
        state: "dead",
        reason: "exhausted",
        give_up_at: 1,
        ended_at: world.clock.now() - 2 * DAY,
      });
    const range = { since: "2020-01-01T00:00:00Z", until: new Date(world.clock.now()).toISOString() };
    expect((await apis().native("POST", "/v1/replays", { destination_id: here, ...range })).json.total).toBe(
      1,
    );
  });

  test("takes its retention from the catalogue, which the operator sets", async () => {
    const { native } = apis();
    const put = (body: object) => native("PUT", "/v1/event-types/a.secret", body);
    expect((await put({ retention_days: 2 })).json.retention_days).toBe(2);
    const [event = 0] = await delivered(3 * DAY, [{ type: "a.secret" }]);
    expect(await statusOf(event)).toBe(404);
    expect((await put({})).json.retention_days).toBeNull();
    expect(await statusOf(event)).toBe(200);
    for (const days of [0, 31, 1.5, "2"]) {
      const { status, json } = await put({ retention_days: days });
      expect([status, json.errors[0].field]).toEqual([422, "retention_days"]);
    }
  });
});

describe("the walk", () => {
  test("reads three rows and writes none if nothing is set", async () => {
    await delivered(20 * DAY, [{}]);
    world.d1.used();
    await contentRetention.run(world.services);
    expect(world.d1.used()).toMatchObject({ queries: 1, rowsWritten: 0 });
    expect(await rowsOfAll("SELECT name FROM cursors WHERE name = 'kept'")).toEqual([]);
  });

  test("continues where a step has stopped, also after one that was killed anywhere", async () => {
    await setDays(7);
    for (let i = 0; i < 30; i++) await delivered(8 * DAY, [{}, { tenant: "rival" }]);
    let trips = 0;
    for (let at = 1; at < 40; at++) {
      trips = 0;
      world.d1.failing(() => {
        trips += 1;
        return trips === at ? (at % 2 ? "after" : "before") : undefined;
      });
      await contentRetention.run(world.services).catch(() => {});
      if (at % 10 === 0) world.clock.pass(6 * HOUR);
    }
    world.d1.failing(() => undefined);
    world.clock.pass(6 * HOUR);
    await contentRetention.run(world.services);
    const pages = world.upkeepQueue.taken().map(({ body }) => body);
    await world.keepUp(pages);
    const left = await bodies();
    expect(left.filter((data) => data !== "")).toEqual(Array(30).fill("rival a"));
  });

  test("rests for an hour after it has reached the end", async () => {
    await setDays(7);
    await contentRetention.run(world.services);
    await delivered(8 * DAY, [{}]);
    world.clock.pass(HOUR - 1);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["acme a"]);
    world.clock.pass(1);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual([""]);
  });

  test("fails nothing if days were edited into nonsense", async () => {
    await execute(
      "INSERT INTO tenant_settings (tenant, retention_days, created_at, updated_at) VALUES ('acme', 'soon', 0, 0), ('b', -3, 0, 0)",
    );
    const [event = 0] = await delivered(8 * DAY, [{}]);
    await contentRetention.run(world.services);
    expect([await statusOf(event), await bodies()]).toEqual([200, ["acme a"]]);
    expect(eventAt(bundleOf(event), 0)).toBe(event);
  });
});

describe("an event of a tenant without payload retention", () => {
  const setFree = (tenant = "acme") =>
    insertRow("tenant_settings", { tenant, payload_free: 1, created_at: 0, updated_at: 0 });
  const MINUTE = 60_000;

  test("loses its content a minute after it was delivered, and is shown and found as before", async () => {
    await setFree();
    const [mine = 0] = await delivered(MINUTE, [{}, { tenant: "rival" }]);
    const { native } = apis();
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["", "rival a"]);
    const shown = (await native("GET", `/v1/events/${eventId(mine)}`)).json;
    expect(shown).toMatchObject({
      content: "erased",
      data: null,
      tags: ["t"],
      deliveries: [{ state: "delivered" }],
    });
    const tagged = (await native("GET", "/v1/deliveries?tag=t&tenant=acme")).json.data;
    expect(tagged).toMatchObject([{ event_id: eventId(mine), state: "delivered" }]);
    const resent = await native("POST", `/v1/deliveries/${shown.deliveries[0].id}/retry`);
    expect(resent).toMatchObject({ status: 409, json: { detail: expect.stringContaining("erased") } });
  });

  test("keeps its content while a delivery is dead or under way, and loses it once that is delivered", async () => {
    await setFree();
    await delivered(2 * MINUTE, [{}, {}]);
    await execute("UPDATE packs SET delivered0 = 1");
    const dead = { destination_id: here, event_id: eventAt(1, 1), state: "dead", give_up_at: 1, ended_at: 1 };
    await insertRow("deliveries", { ...dead, reason: "exhausted" });
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["", "acme a"]);
    await execute("UPDATE deliveries SET state = 'delivered', reason = NULL");
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["", "acme a"]);
    world.clock.pass(15 * MINUTE);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["", ""]);
  });

  test("keeps it in an inbox, whose consumers may fetch it later, until that is deleted", async () => {
    await setFree();
    await execute("UPDATE destinations SET url = 'poll:inbox'");
    const hook = await newDestination({ eventTypes: ["order.paid"] });
    await world.postBundles(1, { type: "other", data: "in an inbox" });
    await world.consume(await world.postBundles(1, { data: "in an inbox and sent" }));
    await execute("UPDATE destinations SET event_types = '[\"none\"]' WHERE id = ?1", here);
    await world.consume(await world.postBundles(1, { data: "sent" }));
    expect(world.receiver.to(urlOf(hook))).toHaveLength(2);
    const left = async () => {
      await contentRetention.run(world.services);
      return bodies();
    };
    world.clock.pass(2 * MINUTE);
    expect(await left()).toEqual(["in an inbox", "in an inbox and sent", ""]);
    world.clock.pass(7 * DAY);
    expect(await left()).toEqual(["in an inbox", "in an inbox and sent", ""]);
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", here);
    world.clock.pass(DAY);
    expect(await left()).toEqual(["", "", ""]);
  });

  test("loses its content in one written row for its whole bundle", async () => {
    await setFree();
    await delivered(MINUTE, [{ tenant: "rival" }]);
    await contentRetention.run(world.services);
    await delivered(
      MINUTE,
      Array.from({ length: 40 }, () => ({})),
    );
    world.d1.used();
    await contentRetention.run(world.services);
    // The bundle, and where the walk is.
    expect(world.d1.used().rowsWritten).toBeLessThanOrEqual(2);
    expect(new Set(await bodies())).toEqual(new Set(["rival a", ""]));
  });

  test("gets the first answer for a repeat of its request", async () => {
    await setFree();
    const { native } = apis();
    world.receiver.script(urlOf(here), 204);
    const post = () =>
      native("POST", "/v1/events", { type: "a", data: 1, tenant: "acme" }, { "idempotency-key": "k1" });
    const first = await post();
    await world.settled();
    await world.consume(world.deliveryQueue.taken().map(({ body }) => body));
    world.clock.pass(2 * MINUTE);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual([""]);
    const again = await post();
    expect([again.status, again.json.id]).toEqual([202, first.json.id]);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
  });

  test("that no destination takes loses its content too, and a scheduled one keeps it", async () => {
    await setFree();
    await insertBundles(env.DB, [
      { acceptedAt: world.clock.now() - MINUTE, events: [{ data: "for nobody" }] },
      {
        acceptedAt: world.clock.now() - MINUTE,
        deliverAt: world.clock.now() + DAY,
        events: [{ data: "later", destinations: [here] }],
      },
    ]);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["", "later"]);
  });
});

const ANSWER = [{ at: 1, latencyMs: 1, status: 500, excerpt: "what the receiver has answered" }];

/** A bundle of one event of `acme` for so many destinations, all delivered after an answer that is in their logs. */
async function manyDestinations(ageMs: number, count: number): Promise<number> {
  const acceptedAt = world.clock.now() - ageMs;
  const destinations = Array.from({ length: count }, (_, i) => `dst_${i}`);
  const [event = 0] = await insertBundles(env.DB, [
    { acceptedAt, events: [{ data: "acme a", destinations }] },
  ]);
  await env.DB.prepare(
    `INSERT INTO deliveries (destination_id, event_id, state, attempts, give_up_at, ended_at, log)
     SELECT value, ?2, 'delivered', 2, 1, ?3, ?4 FROM json_each(?1)`,
  )
    .bind(JSON.stringify(destinations), event, acceptedAt, JSON.stringify(ANSWER))
    .run();
  return event;
}

const answers = async () =>
  (await rowsOfAll("SELECT 1 FROM deliveries WHERE log LIKE '%what the receiver%'")).length;

/** Steps and their pages until nothing is enqueued that is due at once; returns the most queries of one. */
async function stepsOf(first: () => Promise<unknown>): Promise<number> {
  const used = () => world.d1.used().queries;
  used();
  await first();
  let most = used();
  const due = () => world.upkeepQueue.taken().filter(({ delaySeconds = 0 }) => delaySeconds === 0);
  for (let pages = due(); pages.length > 0; pages = due()) {
    await world.answer(pages.map(({ body }) => body));
    most = Math.max(most, used());
  }
  return most;
}

describe("an event for 6,000 destinations", () => {
  test("loses its content and all answers of receivers, in steps of bounded queries", async () => {
    await setDays(7);
    await manyDestinations(8 * DAY, 6_000);
    expect(await stepsOf(() => contentRetention.run(world.services))).toBeLessThan(400);
    expect([await bodies(), await answers()]).toEqual([[""], 0]);
    expect(await rowsOfAll("SELECT * FROM kept_later")).toEqual([]);
    expect(world.logged("erased_over")).toMatchObject([{ events: 1 }]);
  });

  test("is erased by an erasure in steps of bounded queries, and counted once", async () => {
    await manyDestinations(DAY, 6_000);
    const begun = await startErasure(world.services, "acme", { kind: "range", since: 0, until: undefined });
    await world.settled();
    world.upkeepQueue.taken();
    for (let pass = 0; pass < 2; pass++) {
      expect(await stepsOf(() => erasing.step(world.services, begun?.id ?? ""))).toBeLessThan(400);
      world.clock.pass(17 * 60_000);
    }
    const done = await findErasure(world.services, begun?.id ?? "", "acme");
    expect(done).toMatchObject({ state: "completed", events: 1, deliveries: 6_000, unreadable: [] });
    expect([await bodies(), await answers()]).toEqual([[""], 0]);
  });
});

test("answers of receivers are also removed from events that an earlier version has erased without them", async () => {
  await setDays(7);
  const event = await manyDestinations(8 * DAY, 30);
  await execute(
    "UPDATE bundles SET header = json_set(header, '$.erased', json('[0,0]'), '$.version', 2), body = x''",
  );
  await contentRetention.run(world.services);
  expect([bundleOf(event), await answers()]).toEqual([1, 0]);
  await execute("UPDATE deliveries SET log = ?1", JSON.stringify(ANSWER));
  world.clock.pass(2 * DAY);
  await contentRetention.run(world.services);
  expect(await answers()).toBe(30);
});

describe("when much has already been erased", () => {
  const many = async (count: number) => {
    const rows = Array.from({ length: count }, () => ({
      acceptedAt: world.clock.now() - 8 * DAY,
      events: [{ data: "acme a" }],
    }));
    await insertBundles(env.DB, rows);
    await execute(
      "UPDATE bundles SET header = json_set(header, '$.erased', json('[0,0]'), '$.version', 2), body = x''",
    );
  };

  test.each([10, 400])("a minute costs a handful of queries and rows beside %d bundles", async (count) => {
    await setDays(7);
    await execute("UPDATE tenant_settings SET payload_free = 1");
    await many(count);
    for (let round = 0; round < 3; round++) await stepsOf(() => contentRetention.run(world.services));
    world.clock.pass(12 * HOUR);
    world.d1.used();
    await contentRetention.run(world.services);
    const { queries, rowsRead } = world.d1.used();
    expect(queries).toBeLessThan(8);
    expect(rowsRead).toBeLessThan(40);
  });

  test("a later setting of a tenant reaches its old events within minutes", async () => {
    await setDays(7, "rival");
    await delivered(8 * DAY, [{}, { tenant: "rival" }]);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["acme a", ""]);
    world.clock.pass(10 * 60_000);
    await setDays(7);
    await execute("UPDATE tenant_settings SET updated_at = ?1 WHERE tenant = 'acme'", world.clock.now());
    world.clock.pass(60_000);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["", ""]);
  });

  test("a setting made in the database, without a time, reaches them within a day", async () => {
    await setDays(7, "rival");
    await delivered(8 * DAY, [{}]);
    await contentRetention.run(world.services);
    await setDays(7);
    world.clock.pass(DAY - 1);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual(["acme a"]);
    world.clock.pass(1);
    await contentRetention.run(world.services);
    expect(await bodies()).toEqual([""]);
  });
});

test("a tenant with a backlog of thousands does not delay the removal of another's content", async () => {
  await setDays(1, "busy");
  await insertRow("tenant_settings", { tenant: "acme", payload_free: 1, created_at: 0, updated_at: 0 });
  const rows = Array.from({ length: 600 }, () => ({
    acceptedAt: world.clock.now() - 2 * DAY,
    events: [{ tenant: "busy", data: "busy a" }],
  }));
  await delivered(3 * DAY, [{ tenant: "other" }]);
  await insertBundles(env.DB, rows);
  // The walk of what is new has passed the backlog before.
  await execute("INSERT INTO cursors (name, at, row_id) VALUES ('payload_free', 0, 601)");
  await delivered(2 * 60_000, [{}]);
  await contentRetention.run(world.services);
  const left = await bodies();
  expect(left.filter((data) => data === "busy a").length).toBeGreaterThan(300);
  expect(left.includes("acme a")).toBe(false);
});

test("a scheduled event is erased when its own time is over, although the walks have passed its bundle", async () => {
  await setDays(7);
  const acceptedAt = world.clock.now() - 8 * DAY;
  const [event = 0] = await insertBundles(env.DB, [
    { acceptedAt, deliverAt: acceptedAt + 3 * DAY, events: [{ data: "acme a", destinations: [here] }] },
  ]);
  const ended = { ended_at: acceptedAt + 3 * DAY, ends: "" };
  await insertRow("packs", { destination_id: here, bundle_id: bundleOf(event), delivered0: 1, ...ended });
  await contentRetention.run(world.services);
  world.clock.pass(2 * DAY - 1);
  await contentRetention.run(world.services);
  expect(await bodies()).toEqual(["acme a"]);
  world.clock.pass(1);
  await contentRetention.run(world.services);
  expect(await bodies()).toEqual([""]);
});

test("a bundle that fails is logged and retried, and the others lose their content", async () => {
  await setDays(7);
  await contentRetention.run(world.services);
  world.clock.pass(HOUR);
  for (let i = 0; i < 3; i++) await delivered(8 * DAY, [{}]);
  let writes = 0;
  world.d1.failing((sql) => {
    if (!sql.includes("UPDATE bundles SET header")) return undefined;
    writes += 1;
    return writes === 2 ? "before" : undefined;
  });
  await contentRetention.run(world.services);
  expect(await bodies()).toEqual(["", "acme a", ""]);
  expect(world.logged("bundle_not_erased")).toMatchObject([{ bundle: 2 }]);
  world.clock.pass(15 * 60_000);
  await contentRetention.run(world.services);
  expect(await bodies()).toEqual(["", "", ""]);
});
