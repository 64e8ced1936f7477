/** Many deliveries are sent again or cancelled at once: those that are selected, or all that a filter finds. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import type { Principal } from "../../../src/core/principal.ts";
import { repairDeliveries, tryDeliveryNow } from "../../../src/features/deliveries/repairs.ts";
import type { DeliveryQuery } from "../../../src/features/deliveries/service.ts";
import { deliveryId } from "../../../src/ids.ts";
import type { Services } from "../../../src/services.ts";
import { isoTime } from "../../../src/time.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { testConfig } from "../../support/config.ts";
import { idleGateView } from "../../support/idle-gate-view.ts";
import { timeless } from "../../support/timeless.ts";

const [OWN, OTHER, FOREIGN] = ["dst_a", "dst_b", "dst_c"].map((id) => id.padEnd(24, "a")) as [
  string,
  string,
  string,
];
const HOUR = 3_600_000;
const COUNT = 60;
const event = (index: number) => eventAt(1, index);
const ended = { state: "dead", reason: "exhausted", ended_at: NOW - 9 };
const waiting = { state: "waiting", reason: "circuit_open" };

const pending: Promise<unknown>[] = [];
let gateCalls: string[];
let sent: unknown[];

/** @param gate methods of the gates that do something else */
function caller(principal: Partial<Principal> = {}, gate: object = {}) {
  const gates = {
    idFromName: (name: string) => name,
    get: (name: string) => ({
      scheduleDrain: async () => void gateCalls.push(`drain ${name}`),
      recheck: async (events: readonly number[]) => {
        gateCalls.push(`recheck ${name} ${events.length}`);
        return [];
      },
      ...gate,
    }),
  };
  const services = {
    ...{ db: env.DB, config: testConfig(), gates, now: () => NOW, log: () => {}, random: () => 0 },
    deliveries: {
      sendBatch: async (batch: readonly Readonly<{ body: unknown }>[]) =>
        void sent.push(...batch.map(({ body }) => body)),
    },
    ...{ sleep: timeless, background: (work: Promise<unknown>) => void pending.push(work) },
  } as unknown as Services;
  return { services, principal: { scopes: ["read", "admin"] as const, ...principal } };
}

/** The further fields of a message for waiting deliveries. */
const liveMessage = { owner: expect.any(String), takesWaiting: true };

const byIds = (action: "retry" | "cancel", ids: readonly string[]) =>
  ({ action, chosen: { kind: "selected", ids } }) as const;

const byFilter = (action: "retry" | "cancel", query: Partial<DeliveryQuery>) =>
  ({ action, chosen: { kind: "found", query: { limit: 100, ...query } } }) as const;

const counts = () =>
  env.DB.prepare("SELECT state, count(*) AS n FROM deliveries GROUP BY state ORDER BY state").all();
const states = async () => Object.fromEntries((await counts()).results.map(({ state, n }) => [state, n]));

beforeEach(async () => {
  gateCalls = [];
  sent = [];
  await emptyDatabase();
  const at = { created_at: NOW, updated_at: NOW };
  for (const [id, tenant] of [
    [OWN, "acme"],
    [OTHER, "acme"],
    [FOREIGN, "rival"],
  ])
    await insertRow("destinations", { id, tenant, url: "https://example.com/", secret: "whsec_", ...at });
  const events = Array.from({ length: COUNT }, () => ({ tenant: "acme", destinations: [OWN, OTHER] }));
  await insertBundles(env.DB, [
    { id: 1, acceptedAt: NOW - HOUR, events },
    { id: 2, acceptedAt: NOW - HOUR, events: [{ tenant: "rival", destinations: [FOREIGN] }] },
  ]);
});

function delivery(destination: string, index: number, fields: object, bundle = 1) {
  const key = { destination_id: destination, event_id: eventAt(bundle, index) };
  return insertRow("deliveries", { ...key, attempts: 3, give_up_at: NOW + HOUR, ...fields });
}

async function many(fields: object) {
  for (let index = 0; index < COUNT; index++)
    for (const destination of [OWN, OTHER]) await delivery(destination, index, fields);
}

describe("selected deliveries", () => {
  test("are sent again across destinations, and the others are counted by why they are not", async () => {
    await delivery(OWN, 0, ended);
    await delivery(OTHER, 0, { state: "delivered", ended_at: NOW - 9 });
    await delivery(OWN, 1, waiting);
    await delivery(OWN, 2, { ...ended, reason: "event_removed" });
    const ids = [deliveryId(event(0), OWN), deliveryId(event(0), OTHER), deliveryId(event(1), OWN)];
    const unknown = ["nonsense", deliveryId(event(99), OWN)];
    const done = await repairDeliveries(
      caller(),
      byIds("retry", [...ids, ids[0] ?? "", deliveryId(event(2), OWN), ...unknown]),
    );
    expect(done).toEqual({
      kind: "ok",
      value: {
        done: 2,
        skipped: [
          { why: expect.stringContaining("has not ended"), count: 1 },
          { why: expect.stringContaining("removed by hand"), count: 1 },
          { why: "There is no such delivery", count: 2 },
        ],
        next: undefined,
      },
    });
    await Promise.all(pending.splice(0));
    expect(gateCalls).toEqual([]);
    expect(sent).toEqual([
      {
        bundles: [OWN, OTHER].map((id) => ({ bundle: 1, destinations: [id], indexes: [0, 0] })),
        ...liveMessage,
      },
    ]);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM audit_entries").first("n")).toBe(2);
  });

  test("are cancelled with one call of each gate before and one after, except those in flight there", async () => {
    await many(waiting);
    const ids = [0, 1, 2].flatMap((index) => [
      deliveryId(event(index), OWN),
      deliveryId(event(index), OTHER),
    ]);
    const recheck = async (events: readonly number[]) => {
      gateCalls.push(`recheck ${events.length}`);
      return events.includes(event(1)) ? [event(1)] : [];
    };
    const done = await repairDeliveries(caller({}, { recheck }), byIds("cancel", ids));
    expect(done).toMatchObject({
      value: { done: 4, skipped: [{ why: expect.stringContaining("under way"), count: 2 }] },
    });
    expect(gateCalls).toEqual(["recheck 3", "recheck 3", "recheck 2", "recheck 2"]);
    expect(await states()).toEqual({ cancelled: 4, waiting: 2 * COUNT - 4 });
  });

  test("of another tenant are unknown, and stay as they are", async () => {
    await delivery(FOREIGN, 0, ended, 2);
    const ids = [deliveryId(eventAt(2, 0), FOREIGN)];
    const done = await repairDeliveries(caller({ tenant: "acme" }), byIds("retry", ids));
    expect(done).toMatchObject({ value: { done: 0, skipped: [{ count: 1 }] } });
    expect(await states()).toEqual({ dead: 1 });
  });

  test("are not cancelled if their gate cannot be reached, while those of other gates are", async () => {
    await many(waiting);
    const gates = caller().services.gates;
    const broken = caller();
    const get = (name: string) => {
      if (name === OTHER) throw new Error("The gate is gone");
      return gates.get(name as never);
    };
    const services = { ...broken.services, gates: { ...gates, get } } as unknown as Services;
    const ids = [deliveryId(event(0), OWN), deliveryId(event(0), OTHER)];
    expect(await repairDeliveries({ ...broken, services }, byIds("cancel", ids))).toMatchObject({
      value: { done: 1, skipped: [{ why: expect.stringContaining("cannot be reached"), count: 1 }] },
    });
  });

  test("are refused above a hundred", async () => {
    const done = await repairDeliveries(caller(), byIds("retry", Array(101).fill("dlv_x")));
    expect(done).toMatchObject({ kind: "invalid", errors: [{ field: "delivery" }] });
  });
});

describe("all deliveries that a filter finds", () => {
  test("are sent again page by page, each once, and no other tenant's", async () => {
    await many(ended);
    await delivery(FOREIGN, 0, ended, 2);
    const query = { state: "dead", type: undefined } as const;
    const first = await repairDeliveries(caller({ tenant: "acme" }), byFilter("retry", query));
    expect(first).toMatchObject({ value: { done: 100, skipped: [], next: [expect.anything()] } });
    const cursor = first.kind === "ok" ? first.value.next : undefined;
    const second = await repairDeliveries(
      caller({ tenant: "acme" }),
      byFilter("retry", { ...query, cursor }),
    );
    expect(second).toMatchObject({ value: { done: 2 * COUNT - 100, skipped: [], next: undefined } });
    expect(await states()).toEqual({ dead: 1, waiting: 2 * COUNT });
  });

  test("are cancelled whether they are queued, wait or are retried", async () => {
    await delivery(OWN, 0, waiting);
    await delivery(OWN, 1, { state: "retrying", reason: "http_503", next_attempt_at: NOW + HOUR });
    const done = await repairDeliveries(caller(), byFilter("cancel", { destination_id: OWN }));
    expect(done).toMatchObject({ value: { done: 2 } });
    const queued = { destination_id: OWN, state: "queued", limit: 10 } as const;
    expect(await repairDeliveries(caller(), byFilter("cancel", queued))).toMatchObject({
      value: { done: 10, next: [expect.anything()] },
    });
    expect(await states()).toEqual({ cancelled: 12 });
  });

  test("leave out events whose content has been erased", async () => {
    await delivery(OWN, 0, ended);
    await delivery(OWN, 1, ended);
    await env.DB.prepare("UPDATE bundles SET header = json_set(header, '$.erased', json('[0,0]'))").run();
    expect(await repairDeliveries(caller(), byFilter("retry", { state: "dead" }))).toMatchObject({
      value: { done: 1, skipped: [{ why: expect.stringContaining("erased"), count: 1 }] },
    });
  });

  test("are refused for a time range that ends before it begins, and for another tenant", async () => {
    const range = byFilter("retry", { since: NOW, until: NOW - 1 });
    expect(await repairDeliveries(caller(), range)).toMatchObject({ kind: "invalid" });
    const foreign = byFilter("retry", { tenant: "rival" });
    expect(await repairDeliveries(caller({ tenant: "acme" }), foreign)).toMatchObject({ kind: "forbidden" });
  });
});

describe("POST /v1/deliveries/repair", () => {
  const { call } = testApi({ authenticate: async () => ({ scopes: ["read", "admin"], tenant: "acme" }) });
  const post = (body: object) => call("POST", "/v1/deliveries/repair", body);

  test("repairs the deliveries that the conditions find, page by page, and none of another tenant", async () => {
    await many({ ...ended, last_status: 503 });
    await delivery(FOREIGN, 0, { ...ended, last_status: 503 }, 2);
    const query = { action: "retry", state: "dead", status: 503 };
    const first = await post(query);
    expect(first).toMatchObject({ status: 200, json: { repaired: 100, skipped: [] } });
    const second = await post({ ...query, cursor: first.json.next_cursor });
    expect(second.json).toEqual({ repaired: 2 * COUNT - 100, skipped: [], next_cursor: null });
    expect(await states()).toEqual({ dead: 1, waiting: 2 * COUNT });
  });

  test("counts the deliveries that it leaves by reason", async () => {
    await delivery(OWN, 0, ended);
    await delivery(OWN, 1, waiting);
    const { json } = await post({ action: "cancel", destination_id: OWN });
    const why = "The delivery has ended: it is dead";
    expect(json).toEqual({ repaired: 1, skipped: [{ why, count: 1 }], next_cursor: null });
  });

  test.each([
    [{ action: "retry" }, "body", "at least one condition"],
    [{ action: "retry", limit: 5, cursor: undefined }, "body", "at least one condition"],
    [{ action: "replay", state: "dead" }, "action", "retry or cancel"],
    [{ action: "retry", sate: "dead" }, "sate", "one of action, destination_id, state"],
    [{ action: "retry", state: "dead", limit: 101 }, "limit", "a whole number from 1 to 100"],
  ])("refuses %j, and changes nothing", async (body, field, expected) => {
    await delivery(OWN, 0, ended);
    const { status, json } = await post(body);
    expect(status).toBe(422);
    expect(json.errors[0]).toMatchObject({ field, expected: expect.stringContaining(expected) });
    expect(await states()).toEqual({ dead: 1 });
  });
});

describe("trying a delivery now", () => {
  const retrying = { state: "retrying", reason: "http_503", next_attempt_at: NOW + HOUR };
  const at = (view: object) => ({ view: async () => ({ ...idleGateView, ...view }) });
  const id = deliveryId(event(0), OWN);
  const row = () => env.DB.prepare("SELECT * FROM deliveries").first();

  test("brings its retry forward, with the attempts that it has made", async () => {
    await delivery(OWN, 0, retrying);
    const tried = await tryDeliveryNow(caller({}, at({})), id);
    expect(tried).toMatchObject({
      kind: "ok",
      value: { isProbe: false, delivery: { state: "waiting", reason: "retried", attempts: 3 } },
    });
    expect(await row()).toMatchObject({
      state: "waiting",
      attempts: 3,
      generation: 0,
      next_attempt_at: null,
    });
    expect(gateCalls).toEqual([`recheck ${OWN} 1`]);
    expect(sent).toEqual([
      { bundles: [{ bundle: 1, destinations: [OWN], indexes: [0, 0] }], ...liveMessage },
    ]);
  });

  test("is refused while the gate admits nothing, with the reason and the end, and changes nothing", async () => {
    await delivery(OWN, 0, retrying);
    const refusal = { reason: "circuit_open", until: NOW + 90_000 };
    expect(await tryDeliveryNow(caller({}, at({ refusal })), id)).toMatchObject({
      kind: "conflict",
      detail: `Its destination admits no attempt now (circuit open), until ${isoTime(NOW + 90_000)}`,
      retryAfterS: 90,
    });
    expect(await row()).toMatchObject(retrying);
    const paused = await tryDeliveryNow(caller({}, at({ refusal: { reason: "paused", until: null } })), id);
    expect(paused).toMatchObject({ detail: expect.stringContaining("until this is changed") });
  });

  test("says that it is the probe of a circuit that has been open", async () => {
    await delivery(OWN, 0, waiting);
    const tried = await tryDeliveryNow(caller({}, at({ circuit: "half_open" })), id);
    expect(tried).toMatchObject({ kind: "ok", value: { isProbe: true } });
  });

  test.each([
    ["ended", ended],
    ["in flight", { ...retrying, reason: "in_flight" }],
  ])("is refused for one that is %s", async (_, fields) => {
    await delivery(OWN, 0, fields);
    expect(await tryDeliveryNow(caller({}, at({})), id)).toMatchObject({ kind: "conflict" });
    expect(await row()).toMatchObject(fields);
  });

  test("is refused for one that the gate holds in flight", async () => {
    await delivery(OWN, 0, retrying);
    const gate = { ...at({}), recheck: async () => [event(0)] };
    expect(await tryDeliveryNow(caller({}, gate), id)).toMatchObject({ kind: "conflict" });
    expect(await row()).toMatchObject(retrying);
  });

  test("of another tenant is not found", async () => {
    await delivery(FOREIGN, 0, retrying, 2);
    const foreign = deliveryId(eventAt(2, 0), FOREIGN);
    expect(await tryDeliveryNow(caller({ tenant: "acme" }), foreign)).toMatchObject({ kind: "not_found" });
  });

  test("is part of sending again all deliveries that a filter finds", async () => {
    await delivery(OWN, 0, retrying);
    await delivery(OWN, 1, ended);
    const all = byFilter("retry", { destination_id: OWN });
    expect(await repairDeliveries(caller({}, at({})), all)).toMatchObject({
      value: { done: 2, skipped: [] },
    });
    expect(await states()).toEqual({ waiting: 2 });
  });
});
