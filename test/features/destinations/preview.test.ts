/** A preview shows which of the last events a destination takes, by its own settings or by those under test. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventId } from "../../../src/ids.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { bundlesOf, insertBundles } from "../../support/bundle-rows.ts";

const url = "https://example.com/hook";
const { call } = testApi();

beforeEach(emptyDatabase);

async function created(settings: object = {}): Promise<string> {
  const { json, text } = await call("POST", "/v1/destinations", { url, tenant: "acme", ...settings });
  expect(json?.id, text).toBeDefined();
  return json.id;
}

async function post(type: string, data: unknown, tenant = "acme"): Promise<string> {
  return (await call("POST", "/v1/events", { type, data, tenant })).json.id;
}

async function preview(id: string, body?: object) {
  const { status, json, text } = await call("POST", `/v1/destinations/${id}/preview`, body);
  expect(status, text).toBe(200);
  return json as {
    events: { event_id: string; type: string; taken: boolean; reason: string | null; delivery_id?: string }[];
    taken: number;
    not_taken: number;
  };
}

describe("a preview of a destination", () => {
  it("shows that content other than JSON goes only to a destination without a filter on data", async () => {
    const [envelopes, data] = [await created(), await created({ body: "data" })];
    const path = "/v1/events?type=invoice.paid&tenant=acme";
    await call("POST", path, new Uint8Array([0xff]), { "content-type": "image/png" });
    const reasonFor = async (id: string, body?: object) => (await preview(id, body)).events[0]?.reason;
    expect(await reasonFor(envelopes)).toBe("body");
    expect(await reasonFor(data)).toBe(null);
    expect(await reasonFor(data, { filter: { total: 1 } })).toBe("filter");
  });

  it("shows for each event whether it is taken, and if not why, the newest first", async () => {
    const id = await created({ event_types: ["order.*"], filter: { total: { gte: 100 } } });
    const posted = [await post("order.paid", { total: 100 }), await post("order.paid", { total: 99 })];
    posted.unshift(await post("invoice.paid", { total: 100 }));
    const { events, taken, not_taken } = await preview(id);
    expect(events).toEqual([
      {
        event_id: posted[0],
        type: "invoice.paid",
        timestamp: expect.any(String),
        taken: false,
        reason: "type",
      },
      {
        event_id: posted[2],
        type: "order.paid",
        timestamp: expect.any(String),
        taken: false,
        reason: "filter",
      },
      {
        event_id: posted[1],
        type: "order.paid",
        timestamp: "2026-11-21T09:00:00.000Z",
        taken: true,
        reason: null,
        delivery_id: expect.stringContaining("dlv_"),
      },
    ]);
    expect([taken, not_taken]).toEqual([1, 2]);
  });

  it("tries other settings than its own, and changes nothing", async () => {
    const id = await created({ event_types: ["order.*"], filter: { total: { gte: 100 } } });
    await post("order.paid", { total: 1, region: "EU" });
    const tried = async (body: object) => (await preview(id, body)).events.map(({ taken }) => taken);
    expect(await tried({})).toEqual([false]);
    expect(await tried({ filter: null })).toEqual([true]);
    expect(await tried({ filter: { region: { in: ["eu"], ignore_case: true } } })).toEqual([true]);
    expect(await tried({ filter: null, event_types: ["invoice.paid"] })).toEqual([false]);
    expect(await tried({ event_types: null })).toEqual([false]);
    expect((await call("GET", `/v1/destinations/${id}`)).json).toMatchObject({
      event_types: ["order.*"],
      filter: { total: { gte: 100 } },
    });
  });

  it("shows that the destination would take events from before its creation", async () => {
    await insertBundles(env.DB, [{ acceptedAt: NOW - 1000, events: [{ data: { a: 1 } }] }]);
    const { events } = await preview(await created({ filter: { a: 1 } }));
    expect(events).toEqual([expect.objectContaining({ taken: true, reason: "created_later" })]);
    expect(events[0]).not.toHaveProperty("delivery_id");
  });

  it("refuses settings that could not be saved, naming the path inside the filter", async () => {
    const path = `/v1/destinations/${await created()}/preview`;
    const { status, json } = await call("POST", path, { filter: { or: [{ a: { gt: "5" } }] }, url });
    expect(status).toBe(422);
    expect(json.errors.map(({ field }: { field: string }) => field).sort()).toEqual([
      "filter.or[0].a.gt",
      "url",
    ]);
  });

  it("shows nothing of other tenants, also where their events share a bundle", async () => {
    const shared = [{ tenant: "rival", type: "acme" }, { tenant: "acme" }, { tenant: "acme2" }];
    const [, own = 0] = await insertBundles(env.DB, [
      { acceptedAt: NOW, events: shared },
      { acceptedAt: NOW, events: [{ tenant: "rival", type: "acme" }] },
    ]);
    const { events } = await preview(await created());
    expect(events.map((event) => event.event_id)).toEqual([eventId(own)]);
  });

  it("shows at most a hundred events, none older than the retention time", async () => {
    const id = await created();
    const old = NOW - 400 * 86_400_000;
    await insertBundles(env.DB, bundlesOf([{ type: "old" }], { acceptedAt: old }));
    expect((await preview(id)).events).toEqual([]);
    const many = Array.from({ length: 130 }, (_, i) => ({ type: `n${i}` }));
    await insertBundles(env.DB, bundlesOf(many, { acceptedAt: NOW }, 20));
    const { events } = await preview(id);
    expect(events).toHaveLength(100);
    expect(events[0]?.type).toBe("n129");
  });

  it("reads at most eight megabytes of bodies, and only if the filter needs them", async () => {
    const big = { filler: "x".repeat(250_000), a: 1 };
    const events = Array.from({ length: 40 }, () => ({ type: "big", data: big }));
    await insertBundles(env.DB, bundlesOf(events, { acceptedAt: NOW }, 1));
    const id = await created({ filter: { a: 1 } });
    const { events: shown, taken } = await preview(id);
    expect(shown.length).toBeGreaterThan(30);
    expect(shown.length).toBeLessThan(36);
    expect(taken).toBe(shown.length);
    expect((await preview(id, { filter: null })).events).toHaveLength(40);
    expect((await preview(id, { event_types: ["other"] })).events).toHaveLength(40);
  });

  it("shows an event with damaged stored bytes as corrupt", async () => {
    const id = await created({ filter: { a: 1 } });
    await post("order.paid", { a: 1 });
    await env.DB.prepare("UPDATE bundles SET body = zeroblob(length(body))").run();
    expect((await preview(id)).events).toEqual([
      expect.objectContaining({ taken: false, reason: "corrupt" }),
    ]);
  });
});
