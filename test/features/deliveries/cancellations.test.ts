/** Cancelling deliveries through the API: what has not ended and is not in flight, one or all that wait. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import { deliveryId } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";

const PLACE = "dst_aaaaaaaaaaaaaaaaaaaa";
const HOUR = 3_600_000;
const EVENT = eventAt(1, 0);
const ID = deliveryId(EVENT, PLACE);
const CANCEL = `/v1/deliveries/${ID}/cancel`;
const CANCEL_WAITING = `/v1/destinations/${PLACE}/cancel-waiting`;
const byRequest = { state: "cancelled", reason: "cancelled_by_request" };

beforeEach(async () => {
  await emptyDatabase();
  const at = { created_at: NOW, updated_at: NOW };
  const place = { id: PLACE, tenant: "default", url: "https://example.com/", secret: "whsec_", ...at };
  await insertRow("destinations", place);
  await bundleOf(3);
});

/** An hour ago and older: each bundle an hour more. */
async function bundleOf(count: number, type = "order.paid", hours = 1): Promise<number[]> {
  const events = Array.from({ length: count }, () => ({ tenant: "default", type, destinations: [PLACE] }));
  return insertBundles(env.DB, [{ acceptedAt: NOW - hours * HOUR, events }]);
}

const delivery = (state: string, fields: object = {}, event = EVENT) =>
  insertRow("deliveries", {
    destination_id: PLACE,
    event_id: event,
    state,
    give_up_at: NOW + HOUR,
    ...fields,
  });

const pack = (fields: object, bundle = 1) =>
  insertRow("packs", { destination_id: PLACE, bundle_id: bundle, give_up_at: NOW + HOUR, ...fields });

async function rows() {
  const { results } = await env.DB.prepare("SELECT * FROM deliveries ORDER BY event_id").all();
  return results;
}

describe("a delivery", () => {
  it.each([
    ["queued", async () => {}],
    ["waiting in a row", () => delivery("waiting", { reason: "retried", attempts: 0, generation: 2 })],
    ["waiting in a pack", () => pack({ waiting0: 0b111, reason: "paused" })],
    [
      "retrying",
      () => delivery("retrying", { reason: "http_503", attempts: 2, next_attempt_at: NOW + HOUR }),
    ],
  ])("that is %s is cancelled, and may be cancelled again and sent again", async (_, prepare) => {
    await prepare();
    const { call, gateCalls } = testApi();
    const { status, json } = await call("POST", CANCEL);
    expect([status, json]).toMatchObject([200, { id: ID, ...byRequest }]);
    expect(await rows()).toMatchObject([{ ...byRequest, ended_at: NOW, next_attempt_at: null }]);
    // Before, to see what is in flight, and after, so that nothing continues with what was read before.
    expect(gateCalls).toEqual([`recheck ${PLACE}`, `recheck ${PLACE}`]);
    expect((await call("POST", CANCEL)).json).toMatchObject(byRequest);
    const again = await call("POST", `/v1/deliveries/${ID}/retry`);
    expect(again.json).toMatchObject({ state: "waiting", reason: "retried" });
  });

  it("that is cancelled or sent again is in the audit trail, and a repeat is not", async () => {
    const { call } = testApi();
    for (const verb of ["cancel", "cancel", "retry", "retry"])
      await call("POST", `/v1/deliveries/${ID}/${verb}`);
    await call("POST", CANCEL_WAITING);
    await call("POST", CANCEL_WAITING);
    const { results } = await env.DB.prepare(
      "SELECT action, subject, tenant FROM audit_entries ORDER BY id",
    ).all();
    expect(results).toEqual([
      { action: "delivery.cancelled", subject: ID, tenant: "default" },
      { action: "delivery.retried", subject: ID, tenant: "default" },
      { action: "deliveries.cancelled", subject: PLACE, tenant: "default" },
    ]);
  });

  it("that waits in a pack leaves its neighbours waiting", async () => {
    await pack({ waiting0: 0b111, reason: "paused" });
    await testApi().call("POST", CANCEL);
    expect(await env.DB.prepare("SELECT waiting0 FROM packs").first("waiting0")).toBe(0b110);
  });

  it.each([
    ["delivered", "it is delivered", () => delivery("delivered", { ended_at: NOW - 9 })],
    ["delivered in a pack", "it is delivered", () => pack({ delivered0: 1 })],
    ["dead", "it is dead", () => delivery("dead", { ended_at: NOW - 9 })],
    ["in flight", "is under way", () => delivery("retrying", { reason: "in_flight", next_attempt_at: NOW })],
    ["in flight in a pack", "is under way", () => pack({ in_flight0: 1, recover_at: NOW })],
  ])("that is %s is refused, and stays as it is", async (_, why, prepare) => {
    await prepare();
    const before = await rows();
    const { status, json } = await testApi().call("POST", CANCEL);
    expect([status, json.detail]).toEqual([409, expect.stringContaining(why)]);
    expect(await rows()).toEqual(before);
  });

  it("that a lease holds is refused, although it still waits in the database", async () => {
    await delivery("waiting", { reason: "paused" });
    const { status, json } = await testApi({ inFlight: [EVENT] }).call("POST", CANCEL);
    expect([status, json.detail]).toEqual([409, expect.stringContaining("is under way")]);
    expect(await rows()).toMatchObject([{ state: "waiting" }]);
  });

  it("is not cancelled while its gate cannot be reached", async () => {
    const gates = { idFromName: (name: string) => name, get: () => ({}) } as unknown as typeof env.GATES;
    const { status } = await testApi({ services: { gates } }).call("POST", CANCEL);
    expect([status, await rows()]).toEqual([503, []]);
  });

  it("of another tenant is not found", async () => {
    const { call } = testApi({ authenticate: async () => ({ scopes: ["admin"], tenant: "other" }) });
    expect((await call("POST", CANCEL)).status).toBe(404);
    expect((await call("POST", CANCEL_WAITING)).status).toBe(404);
    expect(await rows()).toEqual([]);
  });

  it("of a replay counts as failed for it, once", async () => {
    const range = { since: 0, until: NOW, rate_per_minute: 1, pace: 1, next_step_at: 0 };
    const replay = {
      id: "rpl_1",
      tenant: "default",
      destination_id: PLACE,
      include: "dead",
      state: "completed",
    };
    await insertRow("replays", { ...replay, ...range, created_at: 0, updated_at: 0 });
    await delivery("waiting", { reason: "replayed", replay: "rpl_1", generation: 1 });
    const { call } = testApi();
    await Promise.all([call("POST", CANCEL), call("POST", CANCEL), call("POST", CANCEL)]);
    expect(await env.DB.prepare("SELECT failed FROM replays").first("failed")).toBe(1);
  });
});

describe("waiting deliveries of a destination", () => {
  it("are cancelled in rows and packs, while queued, retried and ended ones stay", async () => {
    const [, second = 0] = await bundleOf(2);
    await pack({ waiting0: 0b11, delivered0: 0b100, reason: "paused" });
    await delivery("waiting", { reason: "paused", attempts: 1 }, eventAt(2, 0));
    await delivery("retrying", { reason: "http_503", attempts: 1, next_attempt_at: NOW }, second);
    const { status, json } = await testApi().call("POST", CANCEL_WAITING);
    expect([status, json]).toEqual([200, { cancelled: 3, in_flight: 0, next_cursor: null }]);
    const states = (await rows()).map(({ state, reason }) => [state, reason]);
    const done = [byRequest.state, byRequest.reason];
    expect(states).toEqual([done, done, done, ["retrying", "http_503"]]);
    expect(await env.DB.prepare("SELECT waiting0, delivered0 FROM packs").first()).toEqual({
      waiting0: 0,
      delivered0: 0b100,
    });
    const repeated = await testApi().call("POST", CANCEL_WAITING);
    expect(repeated.json).toMatchObject({ cancelled: 0 });
  });

  it("are left alone if a lease holds them, and counted", async () => {
    await pack({ waiting0: 0b111, reason: "paused" });
    const { json } = await testApi({ inFlight: [EVENT] }).call("POST", CANCEL_WAITING);
    expect(json).toEqual({ cancelled: 2, in_flight: 1, next_cursor: null });
    expect(await env.DB.prepare("SELECT waiting0 FROM packs").first("waiting0")).toBe(1);
  });

  it("can be limited to a period and to types, in packs and in rows", async () => {
    await bundleOf(1, "user.created", 2);
    await bundleOf(1, "order.paid", 3);
    await bundleOf(1, "order.sent", 4);
    for (const bundle of [1, 2]) await pack({ waiting0: 1, reason: "paused" }, bundle);
    for (const bundle of [3, 4]) await delivery("waiting", { reason: "paused" }, eventAt(bundle, 0));
    const iso = (hours: number) => new Date(NOW - hours * HOUR).toISOString();
    const { json } = await testApi().call("POST", CANCEL_WAITING, {
      since: iso(3),
      until: iso(1),
      event_types: ["order.*"],
    });
    expect(json).toMatchObject({ cancelled: 1 });
    expect((await rows()).map(({ event_id, state }) => [event_id, state])).toEqual([
      [eventAt(3, 0), "cancelled"],
      [eventAt(4, 0), "waiting"],
    ]);
  });

  it("are all cancelled by requests that follow the cursor, each for a bounded number", async () => {
    const ids: number[] = [];
    for (let i = 0; i < 30; i++) ids.push(...(await bundleOf(100)));
    await env.DB.prepare(
      `INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at)
       SELECT ?1, value, 'waiting', 'paused', ?2 FROM json_each(?3)`,
    )
      .bind(PLACE, NOW + HOUR, JSON.stringify(ids))
      .run();
    const { call } = testApi();
    let cursor: string | undefined;
    const counts: number[] = [];
    do {
      const { json } = await call("POST", CANCEL_WAITING, cursor === undefined ? {} : { cursor });
      counts.push(json.cancelled);
      cursor = json.next_cursor ?? undefined;
    } while (cursor !== undefined);
    expect(counts).toEqual([2_000, 1_000]);
    expect(await env.DB.prepare("SELECT DISTINCT state FROM deliveries").first("state")).toBe("cancelled");
  });

  it.each([
    [{ since: "2026-11-20T10:00:00Z", until: "2026-11-20T09:00:00Z" }, "until"],
    [{ event_types: [] }, "event_types"],
    [{ cursor: "abc" }, "cursor"],
    [{ state: "dead" }, "state"],
  ])("are not cancelled by %j", async (body, field) => {
    await pack({ waiting0: 1, reason: "paused" });
    const { status, json } = await testApi().call("POST", CANCEL_WAITING, body);
    expect([status, json.errors[0].field]).toEqual([422, field]);
    expect(await env.DB.prepare("SELECT waiting0 FROM packs").first("waiting0")).toBe(1);
  });
});
