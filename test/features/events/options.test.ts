/** Events that are posted with options: to some destinations only, with tags, a time to live and headers. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventNumber } from "../../../src/ids.ts";
import type { DeliveryMessage, DrainMessage } from "../../../src/queue-messages.ts";
import { servicesOf } from "../../../src/services.ts";
import { runCron } from "../../../src/upkeep.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { fakeQueue } from "../../support/queues.ts";

const url = "https://example.com/hook";
const { call } = testApi();

beforeEach(emptyDatabase);

async function created(settings: object = {}, tenant = "acme"): Promise<string> {
  return (await call("POST", "/v1/destinations", { url, tenant, ...settings })).json.id;
}

const event = { type: "order.paid", data: { total: 1 }, tenant: "acme" };

async function post(options: object, path = "/v1/events") {
  return call("POST", path, { ...event, ...options });
}

describe("destination_ids", () => {
  it("gives the event only to these destinations, as far as they take it", async () => {
    const [a, b] = [await created(), await created()];
    const other = await created({ event_types: ["invoice.*"] });
    const to = async (...ids: string[]) => (await post({ destination_ids: ids })).json;
    const planned = (json: { deliveries: { destination_id: string }[] }) =>
      json.deliveries.map(({ destination_id: id }) => id).sort();
    expect(planned((await post({})).json)).toEqual([a, b].sort());
    expect(planned(await to(a))).toEqual([a]);
    expect(planned(await to(b, other))).toEqual([b]);
    expect((await to(other)).hint).toContain("No destination of destination_ids takes this event");
  });

  it("is refused with the index of an id that is unknown, foreign or deleted, and nothing is stored", async () => {
    const own = await created();
    const foreign = await created({}, "rival");
    const deleted = await created();
    await call("DELETE", `/v1/destinations/${deleted}`);
    const { status, json } = await post({ destination_ids: [own, foreign, "dst_nonsense", deleted] });
    expect(status).toBe(422);
    const expected = "the id of a destination of the tenant acme";
    expect(json.errors).toEqual([
      { field: "destination_ids[1]", fault: `is "${foreign}"`, expected },
      { field: "destination_ids[2]", fault: 'is "dst_nonsense"', expected },
      { field: "destination_ids[3]", fault: `is "${deleted}"`, expected },
    ]);
    const batch = await call("POST", "/v1/events/batch", {
      events: [event, { ...event, destination_ids: [own, foreign] }],
    });
    expect(batch.json.errors).toMatchObject([{ field: "events[1].destination_ids[1]" }]);
    const lines = [event, { ...event, destination_ids: [foreign] }].map((one) => JSON.stringify(one));
    const ndjson = await call("POST", "/v1/events/batch", `${lines.join("\n")}\n`, {
      "content-type": "application/x-ndjson",
    });
    expect(ndjson.json.errors).toMatchObject([{ line: 2, field: "destination_ids[0]" }]);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM bundles").first("n")).toBe(0);
  });

  it("finds a destination that was created a moment ago, whatever an isolate has cached", async () => {
    await created();
    await post({});
    const id = await created();
    expect((await post({ destination_ids: [id] })).status).toBe(202);
  });

  it("gives a repeat with an idempotency key its first answer, although the destination is gone", async () => {
    const id = await created();
    const key = { "idempotency-key": "k" };
    const body = { ...event, destination_ids: [id] };
    const first = await call("POST", "/v1/events", body, key);
    await call("DELETE", `/v1/destinations/${id}`);
    const again = await call("POST", "/v1/events", body, key);
    expect(again.json.id).toBe(first.json.id);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    const other = await call("POST", "/v1/events", { ...body, tags: ["a"] }, key);
    expect(other.status).toBe(409);
  });
});

describe("an event's options", () => {
  it("are shown with the event, the values of headers to admins only", async () => {
    await created();
    const options = {
      tags: ["import", "a/b=c"],
      channels: ["a", "b"],
      ttl: 60,
      headers: { "X-Trace": "secret-trace" },
    };
    const { json } = await post(options);
    const path = `/v1/events/${json.id}`;
    expect((await call("GET", path)).json).toMatchObject(options);
    const reader = testApi({ authenticate: async () => ({ tenant: "acme", scopes: ["read"] }) });
    const shown = (await reader.call("GET", path)).json;
    expect(shown).toMatchObject({ ...options, headers: { "X-Trace": "***" } });
    const plain = (await call("GET", `/v1/events/${(await post({})).json.id}`)).json;
    for (const name of Object.keys(options)) expect(plain).not.toHaveProperty(name);
  });

  it("make the age limit of its deliveries, counted from deliver_at", async () => {
    const destination = await created();
    const limitOf = async (options: object) => {
      const { json } = await post(options);
      return (await call("GET", `/v1/deliveries/${json.deliveries[0].id}`)).json.give_up_at;
    };
    expect(await limitOf({ ttl: 60 })).toBe("2026-11-21T09:01:00.000Z");
    expect(await limitOf({ ttl: 60, deliver_at: "2026-11-21T10:00:00Z" })).toBe("2026-11-21T10:01:00.000Z");
    expect(await limitOf({ ttl: 30 * 86_400 })).toBe("2026-12-05T09:00:00.000Z");
    const { json } = await call("GET", `/v1/deliveries?state=queued&destination_id=${destination}`);
    expect(json.data.map((one: { give_up_at: string }) => one.give_up_at).sort()).toEqual([
      "2026-11-21T09:01:00.000Z",
      "2026-11-21T10:01:00.000Z",
      "2026-12-05T09:00:00.000Z",
    ]);
  });

  it.each<[object, string, string]>([
    [{ destination_ids: [] }, "destination_ids", "a list of 1 to 100 ids of destinations"],
    [{ destination_ids: [7] }, "destination_ids[0]", "the id of a destination"],
    [{ tags: [] }, "tags", "a list of 1 to 10 tags"],
    [{ tags: "a" }, "tags", "a list of 1 to 10 tags"],
    [{ tags: ["a", ""] }, "tags[1]", "1 to 64 letters"],
    [{ tags: ["a b"] }, "tags[0]", "1 to 64 letters"],
    [{ tags: Array.from({ length: 11 }, (_, i) => `t${i}`) }, "tags", "a list of 1 to 10 tags"],
    [{ channels: [] }, "channels", "a list of 1 to 5 channels"],
    [{ channels: "a" }, "channels", "a list of 1 to 5 channels"],
    [{ channels: ["a", ""] }, "channels[1]", "1 to 128 letters, digits and _ . -"],
    [{ channels: ["a/b"] }, "channels[0]", "1 to 128 letters, digits and _ . -"],
    [{ channels: ["x".repeat(129)] }, "channels[0]", "1 to 128 letters"],
    [{ channels: ["a", "b", "c", "d", "e", "f"] }, "channels", "a list of 1 to 5 channels"],
    [{ ttl: 0 }, "ttl", "a whole number of seconds from 1 to 2592000"],
    [{ ttl: 1.5 }, "ttl", "a whole number of seconds"],
    [{ ttl: 2_592_001 }, "ttl", "a whole number of seconds"],
    [
      { headers: { "webhook-id": "x" } },
      "headers.webhook-id",
      "none of the headers that Breakwater sets itself",
    ],
    [{ headers: { "X-Forwarded-For": "x" } }, "headers.X-Forwarded-For", "none of the headers"],
    [{ headers: { Host: "x" } }, "headers.Host", "none of the headers"],
    [{ headers: { "x y": "x" } }, "headers.x y", "a header name"],
    [{ headers: JSON.parse('{"__proto__":"x"}') }, "headers.__proto__", "another name"],
    [{ headers: JSON.rawJSON("1.0") }, "headers", "an object"],
    [{ headers: { a: "x\r\ny" } }, "headers.a", "1 to 1024 printable ASCII characters"],
    [{ headers: { a: "x", A: "y" } }, "headers", "at most 10 headers, each named once"],
    [{ headers: { a: "x".repeat(1024), b: "y".repeat(1024) } }, "headers", "of 2048 bytes together"],
  ])("are refused when they are %j", async (options, field, expected) => {
    const { status, json } = await post(options);
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      { field, fault: expect.any(String), expected: expect.stringContaining(expected) },
    ]);
  });

  it("are not repeated in an error if they may be a credential, not even in a batch", async () => {
    const events = [{ ...event, headers: { authorization: "Bearer s3cret\u0007" } }];
    const { text } = await call("POST", "/v1/events/batch", { events });
    expect(text).toContain("events[0].headers.authorization");
    expect(text).not.toContain("s3cret");
  });
});

describe("a list by tag", () => {
  const idsIn = (json: { data: { id: string }[] }) => json.data.map(({ id }) => id);

  async function listed(query: string, api = testApi()) {
    const ids: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const next: string = cursor ? `&cursor=${cursor}` : "";
      const { status, json, text } = await api.call("GET", `/v1/deliveries?${query}${next}`);
      expect(status, text).toBe(200);
      ids.push(...idsIn(json));
      cursor = json.next_cursor;
    }
    return ids;
  }

  it("has the deliveries of its events in every state, the newest first, page by page", async () => {
    const [a] = [await created(), await created()];
    const expected: string[] = [];
    for (let i = 0; i < 7; i++) {
      await post({ tags: ["other"] });
      const events = [event, { ...event, tags: ["t", "other"] }, { ...event, tags: ["t"] }];
      const { json } = await call("POST", "/v1/events/batch", { events });
      const deliveries = json.events
        .slice(1)
        .flatMap((one: { deliveries: { id: string }[] }) => one.deliveries);
      expected.push(...deliveries.map(({ id }: { id: string }) => id));
    }
    const [dead] = expected;
    const { json } = await call("GET", `/v1/deliveries/${dead}`);
    await insertRow("deliveries", {
      destination_id: json.destination_id,
      event_id: eventNumber(json.event_id),
      state: "dead",
      reason: "exhausted",
      attempts: 1,
      give_up_at: NOW,
      ended_at: NOW,
      last_status: 500,
    });
    for (const limit of [100, 3]) {
      const all = await listed(`tag=t&tenant=acme&limit=${limit}`);
      expect(all.toSorted()).toEqual(expected.toSorted());
      expect(new Set(all).size).toBe(all.length);
    }
    expect(await listed("tag=t&tenant=acme&state=dead")).toEqual([dead]);
    expect(await listed("tag=t&tenant=acme&status=500")).toEqual([dead]);
    expect(await listed("tag=t&tenant=acme&state=queued&limit=2")).toHaveLength(expected.length - 1);
    expect(await listed(`tag=t&destination_id=${a}`)).toHaveLength(expected.length / 2);
    expect(await listed("tag=none&tenant=acme")).toEqual([]);
    expect(await listed("tag=t&tenant=acme&type=nobody.posts")).toEqual([]);
  });

  it("shows a tenant its own deliveries, and requires a tenant from an unbound key", async () => {
    await created();
    await created({}, "rival");
    await call("POST", "/v1/events/batch", {
      events: [
        { ...event, tags: ["t"] },
        { ...event, tenant: "rival", tags: ["t"] },
      ],
    });
    const rival = testApi({ authenticate: async () => ({ tenant: "rival", scopes: ["read"] }) });
    expect(await listed("tag=t", rival)).toHaveLength(1);
    expect((await rival.call("GET", "/v1/deliveries?tag=t&tenant=acme")).status).toBe(403);
    const { status, json } = await call("GET", "/v1/deliveries?tag=t");
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      {
        field: "tag",
        fault: 'is "t", and no tenant is named',
        expected: "tenant or destination_id beside it: tags belong to tenants",
      },
    ]);
  });

  it("ends with its events: retention removes the tags with the bundle", async () => {
    const old = NOW - 400 * 86_400_000;
    const past = testApi({ services: { now: () => old } });
    await past.call("POST", "/v1/events", { ...event, tags: ["t", "u"] });
    await post({ tags: ["t"] });
    const tags = () => env.DB.prepare("SELECT count(*) AS n FROM tags").first<number>("n");
    expect(await tags()).toBe(3);
    const services = servicesOf(env, { waitUntil: () => {} });
    const queues = {
      deliveries: fakeQueue<DeliveryMessage>().queue,
      drains: fakeQueue<DrainMessage>().queue,
    };
    await runCron({ ...services, ...queues, now: () => NOW, log: () => {}, background: () => {} });
    expect(await tags()).toBe(1);
  });
});

describe("a replay by tag", () => {
  it("selects only the deliveries of the tag's events, in rows and in packs", async () => {
    const destination_id = await created();
    const events = [0, 1, 2, 3].map((i) => ({ ...event, ...(i % 2 && { tags: ["t"] }) }));
    const { json } = await call("POST", "/v1/events/batch", { events });
    const numbers = json.events.map(({ id }: { id: string }) => eventNumber(id) ?? 0);
    const bundle = Math.floor((numbers[0] ?? 0) / 128);
    await insertRow("packs", { destination_id, bundle_id: bundle, delivered0: 0b0011, ended_at: NOW - 1 });
    for (const event_id of numbers.slice(2))
      await insertRow("deliveries", {
        destination_id,
        event_id,
        state: "delivered",
        attempts: 2,
        give_up_at: NOW,
        ended_at: NOW - 1,
      });
    const time = { since: new Date(NOW - 1000).toISOString(), until: new Date(NOW + 1).toISOString() };
    const replay = { destination_id, include: "delivered", tag: "t", ...time };
    const started = await call("POST", "/v1/replays", replay);
    expect(started.json).toMatchObject({ tag: "t", total: 2 });
    const { status, json: refused } = await call("POST", "/v1/replays", { ...replay, tag: "a b" });
    expect(status).toBe(422);
    expect(refused.errors).toMatchObject([{ field: "tag" }]);
  });
});
