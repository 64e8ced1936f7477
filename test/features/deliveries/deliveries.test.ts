import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { bundleOf, eventAt } from "../../../src/core/bundle.ts";
import { deliveryReasons } from "../../../src/core/reasons.ts";
import { deliveryId, eventId, eventNumber } from "../../../src/ids.ts";
import type { StoredState } from "../../../src/store/delivery.ts";
import { RETRIES_SORTED } from "../../../src/store/delivery-list.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";

const [A, B] = ["dst_aaaaaaaaaaaaaaaaaaaa", "dst_bbbbbbbbbbbbbbbbbbbb"] as const;
const iso = (at: number) => new Date(at).toISOString();

beforeEach(emptyDatabase);

function destination(id: string, fields: object = {}) {
  const row = {
    id,
    tenant: "default",
    url: "https://example.com/",
    secret: "whsec_",
    created_at: NOW,
    updated_at: NOW,
  };
  return insertRow("destinations", { ...row, ...fields });
}

/** The event of that number in these tests: the first of the bundle of that number. */
const at = (number: number) => eventAt(number, 0);

type Fields = Readonly<{ type?: string; acceptedAt?: number; deliverAt?: number }>;

async function event(id: number, destinations: readonly string[], { type = "a", ...fields }: Fields = {}) {
  const events = [{ tenant: "default", type, data: null, destinations }];
  await insertBundles(env.DB, [{ id, acceptedAt: NOW, ...fields, events }]);
}

function delivery(destinationId: string, event: number, state: StoredState, fields: object = {}) {
  const row = {
    destination_id: destinationId,
    event_id: at(event),
    state,
    attempts: 0,
    give_up_at: NOW + 9000,
  };
  return insertRow("deliveries", { ...row, ...fields });
}

type Listed = {
  data: { event_id: string; destination_id: string; state: string }[];
  next_cursor: string | null;
};

/** All pages of a list, as `destination letter + event number`. */
async function walk(query: string, limit = 2) {
  const { call } = testApi();
  const numbers = new Map(Array.from({ length: 20 }, (_, i) => [eventId(at(i)), i]));
  const pages: string[][] = [];
  for (let cursor: string | null = ""; cursor !== null && pages.length < 20; ) {
    const path = `/v1/deliveries?limit=${limit}${query}${cursor && `&cursor=${cursor}`}`;
    const { status, json }: { status: number; json: Listed } = await call("GET", path);
    expect(status).toBe(200);
    pages.push(json.data.map((d) => `${d.destination_id[4]}${numbers.get(d.event_id)}`));
    cursor = json.next_cursor;
  }
  return pages;
}

describe("GET /v1/deliveries", () => {
  beforeEach(async () => {
    await destination(A);
    await destination(B);
    for (const id of [1, 2, 3, 4, 5]) await event(id, [A, B]);
    await delivery(A, 1, "delivered");
    await delivery(A, 2, "dead", { reason: "exhausted" });
    await delivery(A, 3, "waiting", { reason: "circuit_open" });
    await delivery(A, 4, "dead", { reason: "permanent" });
    await delivery(B, 1, "retrying", { next_attempt_at: NOW + 5 });
    await delivery(B, 2, "dead", { reason: "expired" });
    await delivery(B, 3, "retrying", { next_attempt_at: NOW + 1 });
  });

  it.each([
    ["", [["b3", "b2"], ["b1", "a4"], ["a3", "a2"], ["a1"]]],
    [
      `&destination_id=${A}`,
      [
        ["a4", "a3"],
        ["a2", "a1"],
      ],
    ],
    ["&state=dead", [["b2", "a4"], ["a2"]]],
    [`&state=dead&destination_id=${A}`, [["a4", "a2"]]],
    ["&state=waiting", [["a3"]]],
    [`&state=waiting&destination_id=${B}`, [[]]],
    ["&state=retrying", [["b3", "b1"]]],
    ["&state=delivered", [["a1"]]],
    ["&state=cancelled", [[]]],
    [`&destination_id=dst_unknown`, [[]]],
  ])("lists %j newest first, each once", async (query, pages) => {
    expect(await walk(query)).toEqual(pages);
  });

  it("lists deliveries without a row as queued, the newest event first", async () => {
    expect(await walk("&state=queued")).toEqual([["b5", "a5"], ["b4"]]);
    expect(await walk(`&state=queued&destination_id=${A}`)).toEqual([["a5"]]);
  });

  it("searches queued ones only above the sweep's watermark", async () => {
    await insertRow("sweeps", { id: 1, watermark: 4, heartbeat_at: NOW });
    expect(await walk("&state=queued")).toEqual([["b5", "a5"]]);
  });

  it("does not list deliveries to a deleted destination as queued", async () => {
    await env.DB.prepare("UPDATE destinations SET deleted_at = 1 WHERE id = ?").bind(B).run();
    expect(await walk("&state=queued")).toEqual([["a5"]]);
  });

  describe("scheduled for later", () => {
    const DAY = 86_400_000;
    beforeEach(async () => {
      // The sweep has passed them: by row they are below its watermark, by time they are still to come.
      for (const [id, days] of [
        [11, 3],
        [12, 1],
        [13, 2],
        [14, 1],
      ] as const)
        await event(id, [A, B], { deliverAt: NOW + days * DAY });
      await event(15, [A]);
      await insertRow("sweeps", { id: 1, watermark: 14, heartbeat_at: NOW });
      await insertRow("cursors", { name: "scheduled_checked", at: NOW, row_id: 10 });
    });

    it("is listed as queued until its time, after those to be delivered at once, the first due first", async () => {
      expect(await walk("&state=queued")).toEqual([
        ["a15", "b12"],
        ["a12", "b14"],
        ["a14", "b13"],
        ["a13", "b11"],
        ["a11"],
      ]);
      expect(await walk(`&state=queued&destination_id=${B}`)).toEqual([
        ["b12", "b14"],
        ["b13", "b11"],
      ]);
    });

    it("is listed on pages of any size", async () => {
      const all = ["a15", "b12", "a12", "b14", "a14", "b13", "a13", "b11", "a11"];
      for (const limit of [1, 3, 9]) expect((await walk("&state=queued", limit)).flat()).toEqual(all);
    });

    it("is listed once, and none is left out, while the sweep moves on between two pages", async () => {
      await env.DB.prepare("UPDATE sweeps SET watermark = 10").run();
      const { call } = testApi();
      const first = (await call("GET", "/v1/deliveries?state=queued&limit=4")).json;
      await env.DB.prepare("UPDATE sweeps SET watermark = 15").run();
      const rest = (await call("GET", `/v1/deliveries?state=queued&limit=100&cursor=${first.next_cursor}`))
        .json;
      const ids = [...first.data, ...rest.data].map(({ id }: { id: string }) => id);
      expect(new Set(ids).size).toBe(9);
      expect(ids).toHaveLength(9);
    });

    it("is no longer listed as queued once it has an outcome, or its time has passed the watermark", async () => {
      await delivery(A, 12, "cancelled");
      await env.DB.prepare("UPDATE cursors SET at = ?1, row_id = 14")
        .bind(NOW + DAY)
        .run();
      expect(await walk("&state=queued")).toEqual([["a15", "b13"], ["a13", "b11"], ["a11"]]);
    });

    it("is searched among a bounded number of all tenants', and the page has a cursor to continue", async () => {
      const others = Array.from({ length: 240 }, (_, i) => ({
        id: 101 + i,
        acceptedAt: NOW,
        deliverAt: NOW + 2 * DAY + i,
        events: [{ tenant: "others", destinations: ["dst_other"] }],
      }));
      await insertBundles(env.DB, others);
      await env.DB.prepare("UPDATE sweeps SET watermark = 9000").run();
      const pages = await walk("&state=queued&type=a");
      expect(pages.flat()).toEqual(["b12", "a12", "b14", "a14", "b13", "a13", "b11", "a11"]);
      expect(pages.length).toBeLessThanOrEqual(9);
    });
  });

  it("examines a bounded number of events for queued deliveries, and gives a cursor to continue", async () => {
    await event(60, []);
    const { call } = testApi();
    const first = (await call("GET", "/v1/deliveries?state=queued")).json;
    expect(first).toEqual({ data: [], next_cursor: expect.any(String) });
    const second = (await call("GET", `/v1/deliveries?state=queued&cursor=${first.next_cursor}`)).json;
    expect(second.data).toHaveLength(3);
    expect(second.next_cursor).toBeNull();
  });

  it("lists the newest event first, in all states, with order=event", async () => {
    const all = ["b5", "a5", "b4", "a4", "b3", "a3", "b2", "a2", "b1", "a1"];
    expect((await walk("&order=event")).flat()).toEqual(all);
    expect((await walk("&order=event", 3)).flat()).toEqual(all);
    expect((await walk(`&order=event&destination_id=${A}`)).flat()).toEqual(["a5", "a4", "a3", "a2", "a1"]);
    expect((await walk("&order=event&state=dead")).flat()).toEqual(["a4", "b2", "a2"]);
    expect((await walk("&order=event&reason=expired")).flat()).toEqual(["b2"]);
    expect((await walk("&order=event&tenant=rival")).flat()).toEqual([]);
  });

  it("takes a prefix of types, whether deliveries have rows, bits or neither", async () => {
    await event(6, [A], { type: "order.paid" });
    await event(7, [A], { type: "order.made" });
    await event(8, [A], { type: "orders" });
    await delivery(A, 6, "dead");
    await insertRow("packs", { destination_id: A, bundle_id: 7, delivered0: 1 });
    const rest = (await walk("&state=queued&type=order.*")).flat();
    expect([rest, (await walk("&state=queued&type=orders")).flat()]).toEqual([[], ["a8"]]);
    expect((await walk("&type=order.*")).flat()).toEqual(["a7", "a6"]);
    expect((await walk("&type=*&state=dead")).flat()).toEqual(["b2", "a6", "a4", "a2"]);
    expect((await walk("&order=event&type=order.*")).flat()).toEqual(["a7", "a6"]);
  });

  it.each([
    ["state=lost", "state", 'is "lost"', "one of queued, waiting"],
    ["state=canceled", "state", 'is "canceled" (did you mean cancelled?)', "one of queued, waiting"],
    ["order=evnt", "order", 'is "evnt" (did you mean event?)', "destination or event"],
    ["reason=circiut_open", "reason", 'is "circiut_open" (did you mean circuit_open?)', "as in http_503"],
    ["limit=1000", "limit", 'is "1000"', "1 to 100"],
    ["cursor=!!!", "cursor", 'is "!!!"', "next_cursor"],
    [`cursor=${btoa("[1,2]")}`, "cursor", 'is "WzEsMl0="', "next_cursor"],
    [`cursor=${btoa('["dst_a",-2]')}`, "cursor", 'is "WyJkc3RfYSIsLTJd"', "next_cursor"],
    [
      "destination=x",
      "destination",
      "is not a known field (did you mean destination_id?)",
      "destination_id, state, tenant, type, tag, status, reason, since, until, order, limit, cursor",
    ],
    ["status=dead", "status", 'is "dead"', "an HTTP status code, 100 to 999; `state` has the states"],
    ["reason=It%20died", "reason", 'is "It died"', deliveryReasons.join(", ")],
    ["reason=http_5xx", "reason", 'is "http_5xx"', "as in http_503"],
    ["type=a..b", "type", 'is "a..b"', "a prefix"],
    ["since=yesterday", "since", 'is "yesterday"', "ISO 8601"],
    ["until=2026-11-21", "until", 'is "2026-11-21"', "ISO 8601"],
    [
      "since=2026-11-21T10:00:00Z&until=2026-11-21T09:00:00Z",
      "until",
      "is 2026-11-21T09:00:00.000Z",
      "a time after since",
    ],
  ])("refuses ?%s", async (query, field, fault, expected) => {
    const { status, json } = await testApi().call("GET", `/v1/deliveries?${query}`);
    expect(status).toBe(422);
    expect(json.errors).toEqual([{ field, fault, expected: expect.stringContaining(expected) }]);
  });

  describe("with filters", () => {
    const hour = (n: number) => NOW + n * 3_600_000;
    beforeEach(async () => {
      await env.DB.prepare("DELETE FROM bundles").run();
      for (const id of [1, 2, 3, 4, 5])
        await event(id, [A, B], { type: id % 2 === 0 ? "b" : "a", acceptedAt: hour(id - 1) });
      await env.DB.prepare(
        "UPDATE deliveries SET last_status = 400 + event_id / 128 WHERE state = 'dead'",
      ).run();
    });

    it.each([
      ["&type=b", [["b2", "a4"], ["a2"]]],
      ["&type=b&state=dead", [["b2", "a4"], ["a2"]]],
      ["&type=c", [[]]],
      ["&status=402", [["b2", "a2"]]],
      ["&reason=exhausted", [["a2"]]],
      ["&reason=challenged", [[]]],
      [`&since=${iso(hour(2))}`, [["b3", "a4"], ["a3"]]],
      [`&until=${iso(hour(1))}`, [["b1", "a1"]]],
      [`&since=${iso(hour(1))}&until=${iso(hour(2))}`, [["b2", "a2"]]],
      [`&since=${iso(hour(1))}&destination_id=${A}&state=dead&status=404`, [["a4"]]],
      [`&since=${iso(hour(9))}`, [[]]],
      [`&state=queued&since=${iso(hour(4))}`, [["b5", "a5"]]],
      ["&state=queued&type=b", [["b4"]]],
      ["&state=queued&status=404", [[]]],
    ])("%j lists the matching deliveries and nothing else", async (query, pages) => {
      expect(await walk(query)).toEqual(pages);
    });

    it("takes times with an offset", async () => {
      expect(await walk(`&until=${encodeURIComponent("2026-11-21T11:00:00+01:00")}`)).toEqual([["b1", "a1"]]);
    });

    it("examines a few hundred for a page, and gives a cursor to continue", async () => {
      await env.DB.prepare(
        `WITH RECURSIVE n (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         INSERT INTO deliveries (destination_id, event_id, state, give_up_at, last_status)
         SELECT ?1, i * 128, 'dead', 0, 500 FROM n`,
      )
        .bind(B)
        .run();
      const { call } = testApi();
      let cursor = "";
      const seen: string[] = [];
      for (let page = 0; page < 3; page++) {
        const { json } = await call("GET", `/v1/deliveries?state=dead&status=402${cursor}`);
        seen.push(...json.data.map((d: { destination_id: string }) => d.destination_id));
        cursor = `&cursor=${json.next_cursor}`;
      }
      expect([seen, cursor]).toEqual([[B, A], "&cursor=null"]);
    });
  });

  describe("of a tenant", () => {
    const [foreign, own] = ["dst_zzzzzzzzzzzzzzzzzzzz", A];
    const mine = testApi({ authenticate: async () => ({ scopes: ["read"], tenant: "default" }) });
    beforeEach(async () => {
      await destination(foreign, { tenant: "other" });
      await env.DB.prepare(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
         INSERT INTO deliveries (destination_id, event_id, state, give_up_at) SELECT ?1, i * 128, 'dead', 0 FROM n`,
      )
        .bind(foreign)
        .run();
      await env.DB.prepare("DELETE FROM destinations WHERE id = ?").bind(B).run();
    });

    it("lists its own destinations' only, and its cursors name no others", async () => {
      const first = (await mine.call("GET", "/v1/deliveries?state=dead&limit=1")).json;
      expect(first.data).toMatchObject([{ destination_id: own, reason: "permanent" }]);
      expect(atob(first.next_cursor)).toBe(JSON.stringify([own, at(4)]));
      const next = `/v1/deliveries?state=dead&limit=1&cursor=${first.next_cursor}`;
      expect((await mine.call("GET", next)).json).toMatchObject({ data: [{}], next_cursor: null });
    });

    it("gets past more destinations without deliveries than one page examines", async () => {
      await env.DB.prepare(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
         SELECT 'dst_b' || printf('%019d', i), 'default', 'https://example.com', '', 0, 0 FROM n`,
      ).run();
      let cursor = "";
      const found: number[] = [];
      do {
        const { json } = await mine.call("GET", `/v1/deliveries?state=dead${cursor}`);
        found.push(json.data.length);
        cursor = json.next_cursor && `&cursor=${json.next_cursor}`;
      } while (cursor);
      expect(found).toEqual([0, 0, 2]);
    });

    it("finds nothing of another tenant's destination", async () => {
      const { json } = await mine.call("GET", `/v1/deliveries?destination_id=${foreign}`);
      expect(json).toEqual({ data: [], next_cursor: null });
    });
  });

  it("lists retrying deliveries in the same order, page by page, when there are too many to sort", async () => {
    const many = RETRIES_SORTED + 10;
    await env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < ${many + 9})
       INSERT INTO deliveries (destination_id, event_id, state, give_up_at, next_attempt_at)
       SELECT ?1, i * 128, 'retrying', 0, 1000000 - i FROM n`,
    )
      .bind(A)
      .run();
    const page = async (cursor: string) =>
      (await testApi().call("GET", `/v1/deliveries?state=retrying&limit=3${cursor}`)).json;
    const numbers = (json: { data: { event_id: string }[] }) =>
      json.data.map(({ event_id }) => bundleOf(eventNumber(event_id) ?? 0));
    const first = await page("");
    expect(numbers(first)).toEqual([3, 1, many + 9]);
    expect(numbers(await page(`&cursor=${first.next_cursor}`))).toEqual([many + 8, many + 7, many + 6]);
  });
});

describe("GET /v1/deliveries/:id", () => {
  const show = async (event: number, destinationId: string = A, api = testApi()) =>
    (await api.call("GET", `/v1/deliveries/${deliveryId(at(event), destinationId)}`)).json;

  it("shows a retrying delivery in full", async () => {
    await destination(A);
    await event(1, [A]);
    await delivery(A, 1, "retrying", {
      reason: "http_503",
      attempts: 2,
      next_attempt_at: NOW + 60_000,
      last_status: 503,
      log: [
        { at: NOW - 90, latencyMs: 12, error: "Network connection lost", note: "unsent" },
        { at: NOW - 30, latencyMs: 7, status: 503, excerpt: "busy" },
      ],
    });
    expect(await show(1)).toEqual({
      id: deliveryId(at(1), A),
      event_id: eventId(at(1)),
      destination_id: A,
      state: "retrying",
      reason: "http_503",
      attempts: 2,
      next_attempt_at: iso(NOW + 60_000),
      give_up_at: iso(NOW + 9000),
      last_status: 503,
      log: [
        { at: iso(NOW - 90), latency_ms: 12, error: "Network connection lost", note: "unsent" },
        { at: iso(NOW - 30), latency_ms: 7, status: 503, response: "busy" },
      ],
    });
  });

  it("shows a dead delivery without a next attempt or a time of delivery", async () => {
    await destination(A);
    await event(1, [A]);
    await delivery(A, 1, "dead", {
      reason: "exhausted",
      attempts: 16,
      ended_at: NOW,
      next_attempt_at: NOW,
      last_error: "timeout",
    });
    const shown = await show(1);
    expect(shown).toMatchObject({ state: "dead", reason: "exhausted", attempts: 16, last_error: "timeout" });
    expect(Object.keys(shown)).not.toContain("next_attempt_at");
    expect(Object.keys(shown)).not.toContain("delivered_at");
    expect(Object.keys(shown)).not.toContain("waiting_until");
  });

  it("shows a queued delivery with the time at which its destination's policy gives up", async () => {
    await destination(A, { retry: { expire_unattempted_after: 60 } });
    await event(1, [A]);
    const shown = { state: "queued", attempts: 0, give_up_at: iso(NOW + 60_000), log: [] };
    expect(await show(1)).toEqual({
      id: deliveryId(at(1), A),
      event_id: eventId(at(1)),
      destination_id: A,
      ...shown,
    });
  });

  it("shows a delivery without a row as cancelled when its destination is deleted", async () => {
    await destination(A, { deleted_at: NOW });
    await event(1, [A]);
    expect(await show(1)).toMatchObject({ state: "cancelled", reason: "destination_deleted" });
  });

  it.each([
    [
      "the gate's words",
      { reason: "hold", until: NOW + 5000 },
      { reason: "hold", waiting_until: iso(NOW + 5000) },
    ],
    [
      "no time when only an operator can end the wait",
      { reason: "paused", until: null },
      { reason: "paused" },
    ],
    [
      "the row's words when the gate has none",
      null,
      { reason: "circuit_open", waiting_until: iso(NOW + 1000) },
    ],
  ])("shows a waiting delivery with %s", async (_what, look, expected) => {
    await destination(A);
    await event(1, [A]);
    await delivery(A, 1, "waiting", { reason: "circuit_open", next_attempt_at: NOW + 1000 });
    const shown = await show(1, A, testApi({ look: () => look }));
    const names = { id: deliveryId(at(1), A), event_id: eventId(at(1)), destination_id: A };
    expect(shown).toEqual({
      ...names,
      state: "waiting",
      attempts: 0,
      give_up_at: iso(NOW + 9000),
      log: [],
      ...expected,
    });
  });

  it.each([
    ["of an unknown event", deliveryId(at(7), A)],
    ["of a destination that the event was not planned for", deliveryId(at(1), B)],
    ["with a nonsense id", "dlv_x"],
  ])("answers 404 to an id %s", async (_what, id) => {
    await destination(A);
    await destination(B);
    await event(1, [A]);
    expect(await testApi().call("GET", `/v1/deliveries/${id}`)).toMatchObject({
      status: 404,
      json: { status: 404 },
    });
  });
});

describe("the gates behind a page", () => {
  it("are called once each, and only if a delivery waits", async () => {
    const look = (id: string) => ({ reason: id === A ? "rate" : "hold", until: NOW + 1 });
    const { call, gateCalls } = testApi({ look });
    await destination(A);
    await destination(B);
    for (const id of [1, 2, 3]) await delivery(A, id, "waiting");
    await delivery(B, 1, "dead");
    const { json } = await call("GET", "/v1/deliveries");
    expect(gateCalls).toEqual([`refusal ${A}`]);
    expect(json.data.map((d: { reason?: string }) => d.reason)).toEqual([undefined, "rate", "rate", "rate"]);
  });

  it("are called for an event's deliveries too", async () => {
    const { call, gateCalls } = testApi({ look: () => ({ reason: "rate", until: null }) });
    await destination(A);
    await event(1, [A, B]);
    await delivery(A, 1, "waiting");
    const { json } = await call("GET", `/v1/events/${eventId(at(1))}`);
    expect(gateCalls).toEqual([`refusal ${A}`]);
    expect(json.deliveries).toMatchObject([{ reason: "rate" }, { state: "cancelled" }]);
  });
});
