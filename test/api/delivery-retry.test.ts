/** A dead delivery is retried on request, and no other. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { deliveryId } from "../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";

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

const stored = () => env.DB.prepare("SELECT * FROM deliveries").first();

it("a retry requeues a dead delivery with new attempts and a new age limit, and schedules a drain", async () => {
  await delivery("dead", { reason: "exhausted", ended_at: NOW - 9, last_status: 500, replay: "rpl_1" });
  const { call, gateCalls } = testApi();
  const { status, json } = await call("POST", `/v1/deliveries/${ID}/retry`);
  expect(status).toBe(200);
  expect(json).toMatchObject({ id: ID, state: "waiting", reason: "retried", attempts: 0, last_status: 500 });
  expect(json.give_up_at).toBe(new Date(NOW + 2 * HOUR).toISOString());
  expect(json.log).toHaveLength(1);
  expect(gateCalls).toContain(`scheduleDrain ${PLACE}`);
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

describe("a retry is refused for", () => {
  it.each([
    ["delivered", "has been delivered"],
    ["cancelled", "has been cancelled"],
    ["waiting", "has not ended"],
    ["retrying", "has not ended"],
  ])("a %s delivery, with the reason", async (state, why) => {
    await delivery(state);
    const before = await stored();
    const { status, json } = await testApi().call("POST", `/v1/deliveries/${ID}/retry`);
    expect([status, json.detail]).toEqual([409, expect.stringContaining(why)]);
    expect(await stored()).toEqual(before);
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
