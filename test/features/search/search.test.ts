/** `GET /v1/events` and `GET /v1/search`: what they find and refuse, and for which tenant. */
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeEach, describe, expect, it, test } from "vitest";
import { deliveryKey, eventNumber } from "../../../src/ids.ts";
import { BUNDLES_LOOKED_AT } from "../../../src/store/event-list.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { thingsOf } from "../../support/operations.ts";

const scopes = ["events:write", "read", "poll", "admin"] as const;
const { call } = testApi({ authenticate: async () => ({ scopes }) });
const acme = testApi({ authenticate: async () => ({ scopes, tenant: "acme" }) });
const reader = testApi({ authenticate: async () => ({ scopes: ["read"], tenant: "acme" }) });

beforeEach(emptyDatabase);

const post = async (event: object, headers: Record<string, string> = {}) =>
  (await call("POST", "/v1/events", { type: "order.paid", data: {}, tenant: "acme", ...event }, headers)).json
    .id as string;

const list = async (query: string) => (await acme.call("GET", `/v1/events?${query}`)).json;
const search = (q: string, by = acme, more = "") =>
  by.call("GET", `/v1/search?q=${encodeURIComponent(q)}${more}`);
const ids = async (q: string, by = acme) =>
  (await search(q, by)).json.data.map((one: { id: string }) => one.id);

describe("GET /v1/events", () => {
  it("lists a tenant's events, the newest first, those without a destination too", async () => {
    const first = await post({ data: { n: 1 }, tags: ["a"], ttl: 60 });
    await post({ tenant: "rival" });
    const second = await post({ type: "order.made", deliver_at: "2026-11-21T10:00:00Z" });
    expect(await list("")).toEqual({
      data: [
        {
          ...{ id: second, tenant: "acme", type: "order.made", timestamp: "2026-11-21T09:00:00.000Z" },
          deliver_at: "2026-11-21T10:00:00.000Z",
        },
        {
          ...{ id: first, tenant: "acme", type: "order.paid", timestamp: "2026-11-21T09:00:00.000Z" },
          ...{ tags: ["a"], ttl: 60 },
        },
      ],
      next_cursor: null,
      looked_back_to: null,
    });
  });

  it("shows the data on request, to the digit, and content as text or base64", async () => {
    await call("POST", "/v1/events", '{"type":"a","tenant":"acme","data":{"n":1.10}}');
    await call("POST", "/v1/events?type=b&tenant=acme", "<a/>", { "content-type": "text/xml" });
    await call("POST", "/v1/events?type=c&tenant=acme", new Uint8Array([255]), {
      "content-type": "image/png",
    });
    const { text, json } = await acme.call("GET", "/v1/events?data=true");
    expect(text).toContain('"data":{"n":1.10}');
    expect(json.data).toMatchObject([
      { content_type: "image/png", data_base64: "/w==" },
      { content_type: "text/xml", data: "<a/>" },
      { data: { n: 1.1 } },
    ]);
  });

  it("filters by type, by a prefix of types, by tag and by time", async () => {
    const [, made, other] = [
      await post({ tags: ["x"] }),
      await post({ type: "order.made" }),
      await post({ type: "orders" }),
    ];
    const found = async (query: string) => (await list(query)).data.map(({ id }: { id: string }) => id);
    expect(await found("type=order.*")).toHaveLength(2);
    expect(await found("type=order.made")).toEqual([made]);
    expect(await found("type=orders")).toEqual([other]);
    expect(await found("tag=x")).toHaveLength(1);
    expect(await found("since=2026-11-21T09:00:00Z")).toHaveLength(3);
    expect(await found("until=2026-11-21T09:00:00Z")).toEqual([]);
  });

  it("continues with its cursor, over empty pages", async () => {
    await insertBundles(env.DB, [{ events: [{ tenant: "acme" }], acceptedAt: NOW - 9_000 }]);
    const foreign = { events: [{ tenant: "rival" }], acceptedAt: NOW };
    await insertBundles(env.DB, Array(BUNDLES_LOOKED_AT).fill(foreign));
    const first = await list("");
    expect(first).toMatchObject({ data: [], next_cursor: expect.any(String) });
    expect(first.looked_back_to).toBe("2026-11-21T08:59:51.000Z");
    expect(await list(`cursor=${first.next_cursor}`)).toMatchObject({
      data: [{ tenant: "acme" }],
      next_cursor: null,
    });
  });

  it.each([
    ["tenant=rival", 403, undefined],
    ["type=a..b", 422, "type"],
    ["data=yes", 422, "data"],
    ["limit=0", 422, "limit"],
    ["cursor=WyJldnRfMSJd", 422, "cursor"],
    ["cursor=W10", 422, "cursor"],
    ["since=2026-11-21T09:00:00Z&until=2026-11-21T08:00:00Z", 422, "until"],
    ["order=asc", 422, undefined],
  ])("refuses %s with %i", async (query, status, field) => {
    const answer = await acme.call("GET", `/v1/events?${query}`);
    expect(answer.status).toBe(status);
    if (field) expect(answer.json.errors).toMatchObject([{ field }]);
  });

  it("has cursors that reveal nothing about the number of others' events", async () => {
    for (let i = 0; i < 3; i++) await post({});
    const { next_cursor } = await list("limit=1");
    expect(JSON.parse(atob(next_cursor))).toEqual([expect.stringMatching(/^evt_\w{13}$/)]);
  });
});

it.each(["", "?q=", "?q=%20", "?limit=5"])("a search of nothing (%j) is refused", async (query) => {
  const { status, json } = await acme.call("GET", `/v1/search${query}`);
  expect([status, json.errors]).toMatchObject([
    422,
    [{ field: "q", expected: expect.stringContaining("an id, or words and conditions") }],
  ]);
});

describe("GET /v1/search by id", () => {
  test("finds each object of the tenant, and none of another's", async () => {
    const own = await thingsOf(call, "acme");
    const foreign = await thingsOf(call, "rival");
    const kinds = {
      events: "event",
      deliveries: "delivery",
      destinations: "destination",
      replays: "replay",
      keys: "key",
    };
    for (const [plural, kind] of Object.entries(kinds)) {
      const id = own.ids[plural] ?? "";
      expect((await search(` ${id} `)).json, plural).toMatchObject({
        data: [{ kind, id, matched: "id" }],
        next_cursor: null,
        looked_back_to: null,
      });
      expect((await search(foreign.ids[plural] ?? "")).json.data, plural).toEqual([]);
      expect(
        (await search(foreign.ids[plural] ?? "", testApi({ authenticate: async () => ({ scopes }) }))).json
          .data,
      ).toMatchObject([{ kind }]);
    }
    expect(await ids(own.ids.keys ?? "", reader)).toEqual([]);
  });

  test("finds the delivery of an attempt", async () => {
    const { ids: of } = await thingsOf(call, "acme");
    const attempt = `atmpt_${of.deliveries?.slice(4)}_${NOW.toString(36)}`;
    expect(await ids(attempt)).toEqual([of.deliveries]);
  });

  test("finds events by idempotency key and by eventId, and a destination by its uid, only of its own tenant", async () => {
    const event = await post({}, { "idempotency-key": "order-4711" });
    const message = await post({}, { "idempotency-key": "svix-event-id:msg-7" });
    await post({ tenant: "rival" }, { "idempotency-key": "order-1" });
    const { ids: of } = await thingsOf(call, "acme");
    await env.DB.prepare("UPDATE destinations SET uid = 'hook' WHERE id = ?1").bind(of.destinations).run();
    expect((await search("order-4711")).json.data).toMatchObject([{ id: event, matched: "idempotency_key" }]);
    expect((await search("msg-7")).json.data).toMatchObject([{ id: message, matched: "idempotency_key" }]);
    expect((await search("hook")).json.data).toMatchObject([{ id: of.destinations, matched: "uid" }]);
    expect(await ids("order-1")).toEqual([]);
    expect(
      await ids("order-1 tenant:rival", testApi({ authenticate: async () => ({ scopes }) })),
    ).toHaveLength(1);
  });
});

describe("GET /v1/search by words", () => {
  test("finds them in types, tags and content, in any case, each word somewhere", async () => {
    const paid = await post({ data: { invoice: "INV-42", note: 'a "quoted" word' }, tags: ["import"] });
    const made = await post({ type: "invoice.made", data: { a: ["Zürich", "\u2028", 99.5] } });
    await post({ tenant: "rival", data: { invoice: "INV-42" } });
    expect(await ids("inv-42")).toEqual([paid]);
    expect(await ids("invoice")).toEqual([made, paid]);
    expect(await ids("invoice import")).toEqual([paid]);
    expect(await ids("invoice nothing")).toEqual([]);
    expect(await ids("zürich")).toEqual([made]);
    expect(await ids("99.5")).toEqual([made]);
    expect(await ids('"quoted')).toEqual([paid]);
    expect(await ids('"42 note"')).toEqual([]);
    expect(await ids("invoice type:order.*")).toEqual([paid]);
    expect(await ids("tag:import")).toEqual([paid]);
    expect(await ids("since:2026-11-21 until:2026-11-22 inv")).toEqual([made, paid]);
    expect(await ids("until:2026-11-21 inv")).toEqual([]);
    expect(await ids("timestamp")).toEqual([]);
    expect((await search("inv-42")).json.data[0]).toMatchObject({
      matched: "content",
      excerpt: expect.stringContaining("INV-42"),
    });
  });

  test("finds a character that the sender has escaped, and text of other content", async () => {
    await call("POST", "/v1/events", '{"type":"a","tenant":"acme","data":"Z\\u00fcrich a\\/b"}');
    await call("POST", "/v1/events?type=b&tenant=acme", "<ort>Zürich</ort>", { "content-type": "text/xml" });
    expect(await ids("Zürich")).toHaveLength(2);
    expect(await ids("a/b")).toHaveLength(1);
  });

  test("continues where a page has ended, until everything has been searched", async () => {
    const big = Array.from({ length: 24 }, (_, i) => ({
      events: [{ tenant: "acme", data: `${i % 8 === 7 ? "needle" : "hay"}${"x".repeat(512_000)}` }],
      acceptedAt: NOW - 1_000 * (24 - i),
    }));
    await insertBundles(env.DB, big);
    const first = (await search("needle")).json;
    expect(first.data).toHaveLength(2);
    expect(Date.parse(first.looked_back_to)).toBeLessThan(NOW - 9_000);
    const second = (await search("needle", acme, `&cursor=${first.next_cursor}`)).json;
    expect(second).toMatchObject({ data: [{ matched: "content" }], next_cursor: null, looked_back_to: null });
    const one = (await search("needle", acme, "&limit=1")).json;
    const two = (await search("needle", acme, `&limit=1&cursor=${one.next_cursor}`)).json;
    expect([one.data, two.data]).toEqual([[first.data[0]], [first.data[1]]]);
  });
});

describe("GET /v1/search by conditions of deliveries", () => {
  test.each([
    "500",
    "status:500",
    "exhausted",
    "reason:exhausted",
    "dead",
    "state:dead type:order.*",
  ])("%s finds the tenant's own", async (q) => {
    const own = await thingsOf(call, "acme");
    await thingsOf(call, "rival");
    await env.DB.prepare("UPDATE deliveries SET last_status = 500").run();
    const { data } = (await search(q)).json;
    expect(data).toMatchObject([{ kind: "delivery", id: own.ids.deliveries, matched: "conditions" }]);
  });

  test("pages like the list of deliveries", async () => {
    const { ids: of } = await thingsOf(call, "acme");
    const { destinationId } = deliveryKey(of.deliveries ?? "") ?? {};
    const event = eventNumber(await post({}));
    await insertRow("deliveries", {
      ...{ destination_id: destinationId, event_id: event, state: "dead", reason: "exhausted" },
      ...{ attempts: 1, give_up_at: NOW, ended_at: NOW, log: [] },
    });
    const first = (await search("dead", acme, "&limit=1")).json;
    const second = (await search("dead", acme, `&limit=1&cursor=${first.next_cursor}`)).json;
    expect([...first.data, ...second.data]).toHaveLength(2);
    expect((await search("words", acme, `&cursor=${first.next_cursor}`)).json.errors).toMatchObject([
      { field: "cursor", fault: "is that of another search" },
    ]);
  });

  test("names the fault of a condition", async () => {
    const fault = async (q: string) => (await search(q)).json.errors?.[0];
    expect(await fault("status:9")).toMatchObject({ field: "q", expected: /status code/ });
    expect(await fault("reason:x")).toMatchObject({ field: "q", fault: expect.stringContaining("reason") });
    expect(await fault("since:soon")).toMatchObject({ field: "q", expected: /ISO 8601/ });
    expect(await fault("since:2026-11-22 until:2026-11-21")).toMatchObject({ field: "q" });
    expect(await fault("dead parrot state:dead")).toMatchObject({ fault: expect.stringContaining("words") });
    expect((await search("tenant:rival")).status).toBe(403);
  });
});

describe("the results of a search show", () => {
  const at = new Date(NOW).toISOString();

  test("a delivery with the type of its event, its destination, its state and its time", async () => {
    const { ids: of } = await thingsOf(call, "acme");
    const { deliveries: id, destinations: destination_id } = of;
    const place = { id, destination_id, destination: "https://example.com/hook" };
    const expected = {
      ...{ kind: "delivery", id, tenant: "acme", type: "order.paid", at },
      deliveries: [{ ...place, state: "dead", reason: "exhausted" }],
    };
    for (const q of ["dead", id ?? ""]) expect((await search(q)).json.data).toMatchObject([expected]);
  });

  test("an event with its time and the states of its first two deliveries, and how many it has", async () => {
    const { ids: of } = await thingsOf(call, "acme");
    for (const path of ["a", "b"])
      await call("POST", "/v1/destinations", { url: `https://example.com/${path}`, tenant: "acme" });
    const many = await post({ data: { word: "needle" } });
    const alone = await post({ tenant: "rival", data: { word: "needle" } });
    const [found] = (await search("needle")).json.data;
    expect(found).toMatchObject({ id: many, type: "order.paid", at, delivery_count: 4 });
    expect(found.deliveries).toHaveLength(2);
    for (const one of found.deliveries) expect(["queued", "delivered"]).toContain(one.state);
    await post({ data: {} }, { "idempotency-key": "order-4711" });
    expect((await search("order-4711")).json.data[0]).toMatchObject({
      type: "order.paid",
      delivery_count: 4,
    });
    expect((await search(of.events ?? "")).json.data[0]).toMatchObject({ type: "order.paid", at });
    const everywhere = testApi({ authenticate: async () => ({ scopes }) });
    const { json } = await search("needle tenant:rival", everywhere);
    expect(json.data).toMatchObject([{ id: alone, deliveries: [], delivery_count: 0 }]);
  });

  test("a destination with its status, a replay with its state, and each with its time", async () => {
    const { ids: of } = await thingsOf(call, "acme");
    const hit = async (id: string | undefined) => (await search(id ?? "")).json.data[0];
    expect(await hit(of.destinations)).toMatchObject({ state: "active", at });
    expect(await hit(of.replays)).toMatchObject({ state: "running", at });
    expect(await hit(of.keys)).toMatchObject({ kind: "key", at });
  });
});

describe("hostile searches", () => {
  test("of 10 KB are refused, and everything else is searched literally", async () => {
    await post({ data: { a: "100%_\\ .* \u0000 ' OR 1=1 -- <script> 😀 a\u0301" } });
    expect((await search("x".repeat(10_000))).status).toBe(422);
    for (const q of ["%", "_", "100%_", ".*", "' OR 1=1 --", "<script>", "😀", "a\u0301", "\\ .*"])
      expect(await ids(q), q).toHaveLength(1);
    for (const q of ["100%%", "10_%", ".+", "^.", "\u0001", "\ufffd", "évt_", "evt_%", "dlv_'"])
      expect(await ids(q), q).toEqual([]);
  });

  test("of any characters are answered, and never with a server error", async () => {
    await post({ data: { a: "b" } });
    const q = fc.oneof(
      fc.string({ unit: "binary", maxLength: 300 }),
      fc.stringMatching(/^(type|tag|status|since|tenant|until|x):"?[!-~]{0,20}"? ?"?/),
      fc.stringMatching(/^(evt|dlv|dst|key|rpl|atmpt)_[0-9a-z]{13}(_[0-9a-z]{20})?(_[0-9a-z]{0,9})?$/),
    );
    const holds = async (typed: string) => {
      const { status } = await search(typed.toWellFormed());
      expect([200, 403, 422]).toContain(status);
    };
    await fc.assert(fc.asyncProperty(q, holds), { numRuns: 200 });
  });
});
