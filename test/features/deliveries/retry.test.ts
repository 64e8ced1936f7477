/** A delivery that has ended is sent again on request, and no other. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import { endsText } from "../../../src/core/pack.ts";
import { deliveryId } from "../../../src/ids.ts";
import { isoTime } from "../../../src/time.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";

const PLACE = "dst_aaaaaaaaaaaaaaaaaaaa";
const HOUR = 3_600_000;
const EVENT = eventAt(1, 0);
const ID = deliveryId(EVENT, PLACE);
const log = [{ at: NOW - HOUR, latencyMs: 5, status: 500 }];

beforeEach(async () => {
  await emptyDatabase();
  const at = { created_at: NOW, updated_at: NOW };
  const place = { id: PLACE, tenant: "default", url: "https://example.com/", secret: "whsec_", ...at };
  await insertRow("destinations", { ...place, retry: { expire_unattempted_after: 7200 } });
  const events = [{ tenant: "default", data: null, destinations: [PLACE] }];
  await insertBundles(env.DB, [{ acceptedAt: NOW - 100 * HOUR, events }]);
});

function delivery(state: string, fields: object = {}) {
  const row = { destination_id: PLACE, event_id: EVENT, state, attempts: 5, give_up_at: NOW - HOUR, log };
  return insertRow("deliveries", { ...row, ...fields });
}

/** The bundle's first three events that are in the mask are delivered, each at its first attempt. */
async function deliveredPack(mask = 0b111): Promise<void> {
  const events = [0, 1, 2].map(() => ({ tenant: "default", data: null, destinations: [PLACE] }));
  await env.DB.prepare("DELETE FROM bundles").run();
  await insertBundles(env.DB, [{ id: 1, acceptedAt: NOW - 2 * HOUR, events }]);
  const end = (index: number) => ({ index, at: NOW - HOUR, latencyMs: 5, status: 204 });
  const ends = endsText([0, 1, 2].map(end));
  await insertRow("packs", { destination_id: PLACE, bundle_id: 1, delivered0: mask, ended_at: NOW, ends });
}

const packed = () => env.DB.prepare("SELECT delivered0, ends FROM packs").first();
const stored = () => env.DB.prepare("SELECT * FROM deliveries").first();

it("a retry requeues a dead delivery with new attempts and a new age limit, and is enqueued with live traffic", async () => {
  await delivery("dead", { reason: "exhausted", ended_at: NOW - 9, last_status: 500, replay: "rpl_1" });
  const { call, messages } = testApi();
  const { status, json } = await call("POST", `/v1/deliveries/${ID}/retry`);
  expect(status).toBe(200);
  expect(json).toMatchObject({ id: ID, state: "waiting", reason: "retried", attempts: 0, last_status: 500 });
  expect(json.give_up_at).toBe(new Date(NOW + 2 * HOUR).toISOString());
  expect(json.log).toHaveLength(1);
  const bundles = [{ bundle: 1, destinations: [PLACE], indexes: [0, 0] }];
  expect(messages).toEqual([{ bundles, owner: expect.any(String), takesWaiting: true }]);
  expect(await stored()).toMatchObject({ state: "waiting", ended_at: null, replay: null });
});

it("a retry starts a new generation, with the age limit of a delivery without an attempt", async () => {
  await delivery("dead", { give_up_at: NOW + 100 * HOUR, first_attempt_at: NOW - HOUR });
  const { json } = await testApi().call("POST", `/v1/deliveries/${ID}/retry`);
  expect(json.give_up_at).toBe(new Date(NOW + 2 * HOUR).toISOString());
  expect(await stored()).toMatchObject({ generation: 1, first_attempt_at: null });
});

it("a repeated retry is refused, because the delivery has not ended", async () => {
  await delivery("dead");
  const { call } = testApi();
  await call("POST", `/v1/deliveries/${ID}/retry`);
  const again = await call("POST", `/v1/deliveries/${ID}/retry`);
  expect([again.status, again.json.detail]).toEqual([409, expect.stringContaining("has not ended")]);
});

it.each(["delivered", "cancelled"])("a %s delivery is sent again, and keeps its log", async (state) => {
  await delivery(state, { ended_at: NOW - 9, last_status: 500, replay: "rpl_1" });
  const { status, json } = await testApi().call("POST", `/v1/deliveries/${ID}/retry`);
  expect([status, json]).toMatchObject([200, { id: ID, state: "waiting", reason: "retried", attempts: 0 }]);
  expect(json.log).toHaveLength(1);
  expect(await stored()).toMatchObject({ state: "waiting", ended_at: null, replay: null, generation: 1 });
});

it("a delivery that its pack says is delivered is sent again, and its neighbours are left alone", async () => {
  await deliveredPack();
  const { status, json } = await testApi().call("POST", `/v1/deliveries/${ID}/retry`);
  expect([status, json]).toMatchObject([200, { state: "waiting", reason: "retried", last_status: 204 }]);
  expect(json.log).toEqual([{ at: isoTime(NOW - HOUR), status: 204, latency_ms: 5 }]);
  expect(await stored()).toMatchObject({ state: "waiting", generation: 1, last_status: 204 });
  expect(await packed()).toEqual({ delivered0: 0b110, ends: expect.any(String) });
});

it.each([
  ["in a row", () => delivery("delivered", { ended_at: NOW - 9 })],
  ["in a pack", () => deliveredPack()],
])("requests at the same time requeue a delivery %s once", async (_, prepare) => {
  await prepare();
  const { call } = testApi();
  const answers = await Promise.all([1, 2, 3, 4].map(() => call("POST", `/v1/deliveries/${ID}/retry`)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
  expect(await stored()).toMatchObject({ state: "waiting", generation: 1 });
});

it("a delivery to a paused destination may be sent again: it waits", async () => {
  await delivery("dead", { ended_at: NOW - 9 });
  await env.DB.prepare("UPDATE destinations SET status = 'paused'").run();
  expect((await testApi().call("POST", `/v1/deliveries/${ID}/retry`)).status).toBe(200);
});

describe("several deliveries", () => {
  const OTHER = deliveryId(eventAt(1, 1), PLACE);
  const MISSING = deliveryId(eventAt(9, 0), PLACE);

  it("are requeued or refused individually, in the given order, and a repeated id counts once", async () => {
    await deliveredPack(0b110);
    await delivery("retrying");
    const { call, messages } = testApi();
    const ids = [MISSING, OTHER, "no id", ID, OTHER];
    const { status, json } = await call("POST", "/v1/deliveries/retry", { delivery_ids: ids });
    expect([status, json.data]).toMatchObject([
      200,
      [
        { id: MISSING, problem: { status: 404 } },
        { id: OTHER, delivery: { id: OTHER, state: "waiting", reason: "retried" } },
        { id: "no id", problem: { status: 404 } },
        { id: ID, problem: { status: 409, detail: expect.stringContaining("has not ended") } },
      ],
    ]);
    expect(json.data).toHaveLength(4);
    expect(messages).toHaveLength(1);
  });

  it("of another tenant are not found, and stay as they are", async () => {
    await delivery("dead", { ended_at: NOW - 9 });
    const { call } = testApi({ authenticate: async () => ({ scopes: ["admin"], tenant: "other" }) });
    const { json } = await call("POST", "/v1/deliveries/retry", { delivery_ids: [ID] });
    expect(json.data).toEqual([{ id: ID, problem: expect.objectContaining({ status: 404 }) }]);
    expect(await stored()).toMatchObject({ state: "dead" });
  });

  it("are a hundred at most", async () => {
    const events = Array.from({ length: 100 }, () => ({ tenant: "default", destinations: [PLACE] }));
    await insertBundles(env.DB, [{ acceptedAt: NOW - HOUR, events }]);
    const rows = events.map((_, index) =>
      insertRow("deliveries", {
        ...{
          destination_id: PLACE,
          event_id: eventAt(2, index),
          state: "dead",
          attempts: 1,
          give_up_at: NOW,
        },
        ended_at: NOW - 9,
      }),
    );
    await Promise.all(rows);
    const { call } = testApi();
    const ids = events.map((_, index) => deliveryId(eventAt(2, index), PLACE));
    const { json } = await call("POST", "/v1/deliveries/retry", { delivery_ids: ids });
    expect(json.data.filter((one: object) => "delivery" in one)).toHaveLength(100);
    const tooMany = await call("POST", "/v1/deliveries/retry", { delivery_ids: [...ids, ID] });
    expect([tooMany.status, tooMany.json.errors]).toMatchObject([
      422,
      [
        {
          field: "delivery_ids",
          fault: "is a list of 101",
          expected: "a list of 1 to 100 ids of deliveries",
        },
      ],
    ]);
  });
});

describe("a retry is refused for", () => {
  it.each(["waiting", "retrying"])("a %s delivery, with the reason", async (state) => {
    await delivery(state);
    const before = await stored();
    const { status, json } = await testApi().call("POST", `/v1/deliveries/${ID}/retry`);
    expect([status, json.detail]).toEqual([409, expect.stringContaining("has not ended")]);
    expect(await stored()).toEqual(before);
  });

  it("a delivery whose event was removed from the database", async () => {
    await delivery("cancelled", { reason: "event_removed", ended_at: NOW - 9 });
    const { status, json } = await testApi().call("POST", `/v1/deliveries/${ID}/retry`);
    expect([status, json.detail]).toEqual([409, expect.stringContaining("removed by hand")]);
    expect(await stored()).toMatchObject({ state: "cancelled" });
  });

  it("a queued delivery", async () => {
    const { status, json } = await testApi().call("POST", `/v1/deliveries/${ID}/retry`);
    expect([status, json.detail]).toEqual([409, expect.stringContaining("has not ended")]);
  });

  it("a delivery whose destination is deleted", async () => {
    await delivery("dead");
    await env.DB.prepare("UPDATE destinations SET deleted_at = 1").run();
    const { status, json } = await testApi().call("POST", `/v1/deliveries/${ID}/retry`);
    expect([status, json.detail]).toEqual([409, expect.stringContaining("deleted")]);
  });

  it("a delivery of another tenant, as if it did not exist", async () => {
    await delivery("dead");
    const { call } = testApi({ authenticate: async () => ({ scopes: ["admin"], tenant: "other" }) });
    expect((await call("POST", `/v1/deliveries/${ID}/retry`)).status).toBe(404);
    expect(await stored()).toMatchObject({ state: "dead" });
  });

  it("a key that can only read", async () => {
    const { call } = testApi({ authenticate: async () => ({ scopes: ["read"] }) });
    expect((await call("POST", `/v1/deliveries/${ID}/retry`)).status).toBe(403);
  });
});
