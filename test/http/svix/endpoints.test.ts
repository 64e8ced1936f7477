/** Endpoints in the Svix API: destinations of the application's tenant. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, test } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { countRows, emptyDatabase, NOW, testApi } from "../../support/api.ts";

const { call, gateCalls } = testApi({ create: createSvixApi });
const native = testApi();
const AT = "2026-11-21T09:00:00.000Z";
const SECRET = "8nQZ0sTj1vWm5kYdLr7xGaUcPb3hEoSf";
const url = "https://receiver.example/hooks";

let at = "";
let app = "";
beforeEach(async () => {
  await emptyDatabase();
  app = (await call("POST", "/api/v1/app", { name: "Acme", uid: "acme" })).json.id;
  at = `/api/v1/app/${app}/endpoint`;
});

const create = async (body: object = {}, headers = {}) =>
  (await call("POST", at, { url, ...body }, headers)).json;
const full = {
  description: "Orders",
  uid: "orders",
  disabled: false,
  eventTypes: ["order.paid"],
  channels: ["eu", "project-1"],
  throttleRate: 5,
  metadata: { team: "shop" },
};

describe("an endpoint", () => {
  it("is shown as it was created, by id and by uid", async () => {
    const { status, json } = await call("POST", at, { url, ...full, notKnown: 1 });
    expect([status, json]).toEqual([
      201,
      {
        id: expect.stringMatching(/^dst_/),
        url,
        ...full,
        filterTypes: full.eventTypes,
        rateLimit: 5,
        version: 1,
        createdAt: AT,
        updatedAt: AT,
      },
    ]);
    for (const name of [json.id, "orders"]) expect((await call("GET", `${at}/${name}`)).json).toEqual(json);
    expect((await call("GET", `/api/v1/app/acme/endpoint`)).json).toMatchObject({ data: [json], done: true });
  });

  it("is a destination that gets only the data, signed in both forms", async () => {
    const { id } = await create();
    const { json } = await native.call("GET", `/v1/destinations/${id}`);
    expect(json).toMatchObject({
      tenant: app,
      body: "data",
      signature_forms: [{ form: "standard" }, { form: "svix" }],
    });
  });

  it("belongs to its application: another finds neither its id nor its uid", async () => {
    const { id } = await create({ uid: "orders" });
    const { json: other } = await call("POST", "/api/v1/app", { name: "B" });
    for (const name of [id, "orders"])
      expect((await call("GET", `/api/v1/app/${other.id}/endpoint/${name}`)).status).toBe(404);
    const { status } = await call("POST", `/api/v1/app/${other.id}/endpoint`, { url, uid: "orders" });
    expect(status).toBe(201);
  });

  it.each([6, 300])("is created once under an idempotency key of %i characters", async (length) => {
    const headers = { "idempotency-key": "k".repeat(length) };
    const first = await create({ uid: "one" }, headers);
    const again = await call("POST", at, { url, uid: "one" }, headers);
    expect([again.status, again.json]).toEqual([201, first]);
  });

  it("is refused with a uid that another has, in a change too", async () => {
    await create({ uid: "one" });
    const { id } = await create({ uid: "two" });
    expect((await call("POST", at, { url, uid: "one" }, { "idempotency-key": "k" })).status).toBe(409);
    const { status } = await call("PATCH", `${at}/${id}`, { uid: "one", description: "changed" });
    expect(status).toBe(409);
    expect((await call("GET", `${at}/two`)).json.description).toBe("");
  });

  it("stays as it was when another takes the uid at the same moment", async () => {
    const made = [await create(), await create()];
    const changes = await Promise.all(
      made.map(({ id }) =>
        call("PATCH", `${at}/${id}`, { uid: "one", description: "changed", disabled: true }),
      ),
    );
    const taken = changes.findIndex(({ status }) => status === 200);
    expect(changes.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    const other = made[1 - taken];
    expect((await call("GET", `${at}/${other.id}`)).json).toEqual(other);
  });

  it("is created only once when two take one uid at the same moment", async () => {
    const both = await Promise.all([1, 2].map(() => call("POST", at, { url, uid: "one" })));
    expect(both.map(({ status }) => status).toSorted()).toEqual([201, 409]);
    expect(await countRows("destinations")).toBe(1);
  });

  it("keeps omitted fields with PATCH, and resets them with PUT", async () => {
    const { id } = await create(full);
    const patched = (await call("PATCH", `${at}/${id}`, { description: "New" })).json;
    expect(patched).toMatchObject({ ...full, description: "New" });
    const put = (await call("PUT", `${at}/${id}`, { url: `${url}/2` })).json;
    expect(put).toMatchObject({ url: `${url}/2`, description: "", uid: null, eventTypes: null });
    expect(put).toMatchObject({ throttleRate: null, metadata: {}, disabled: false, channels: null });
  });

  it("gets messages of its channels, until null removes them", async () => {
    const { id } = await create({ channels: ["eu", "us"] });
    const taken = async (channels?: string[]) => {
      const message = { eventType: "order.paid", payload: {}, ...(channels && { channels }) };
      const { json } = await call("POST", "/api/v1/app/acme/msg", message);
      const { data } = (await call("GET", `/api/v1/app/acme/msg/${json.id}/endpoint`)).json;
      return data.map((one: { id: string }) => one.id);
    };
    expect([await taken(["us", "asia"]), await taken(["asia"]), await taken()]).toEqual([[id], [], []]);
    expect((await call("PATCH", `${at}/${id}`, { description: "x" })).json.channels).toEqual(["eu", "us"]);
    expect((await call("PATCH", `${at}/${id}`, { channels: null })).json.channels).toBe(null);
    expect([await taken(["asia"]), await taken()]).toEqual([[id], [id]]);
  });

  it("can also be updated by the former names of its event types and its rate", async () => {
    const { id } = await create(full);
    const former = { filterTypes: ["order.sent"], rateLimit: 7 };
    const put = (await call("PUT", `${at}/${id}`, { url, ...former })).json;
    expect(put).toMatchObject({ ...former, eventTypes: ["order.sent"], throttleRate: 7 });
  });

  it("is created by PUT with an unused uid", async () => {
    const { status, json } = await call("PUT", `${at}/fresh`, { url });
    expect([status, json.uid]).toEqual([201, "fresh"]);
    expect((await call("PUT", `${at}/dst_00000000000000000000`, { url })).status).toBe(404);
  });

  it("is paused while it is disabled", async () => {
    const { id, disabled } = await create({ disabled: true });
    expect(disabled).toBe(true);
    expect((await native.call("GET", `/v1/destinations/${id}`)).json.status).toBe("paused");
    gateCalls.length = 0;
    expect((await call("PATCH", `${at}/${id}`, { disabled: false })).json.disabled).toBe(false);
    expect(gateCalls).toEqual([`resume ${id}`]);
    expect((await call("GET", `${at}/${id}`)).json.disabled).toBe(false);
  });

  it("is never active when it is created disabled, not for a moment", async () => {
    let now = Date.parse(AT);
    const ticking = testApi({ create: createSvixApi, services: { now: () => now++ } });
    expect((await ticking.call("POST", at, { url, disabled: true })).status).toBe(201);
    // Everything after its creation happens at a later time.
    const times = "SELECT created_at, status_changed_at FROM destinations";
    const row = await env.DB.prepare(times).first<{ created_at: number; status_changed_at: number }>();
    expect(row?.status_changed_at).toBe(row?.created_at);
  });

  it("has the rate of its application unless it has its own", async () => {
    const [own, shared] = [await create({ throttleRate: 3 }), await create()];
    await call("PATCH", "/api/v1/app/acme", { throttleRate: 20 });
    const rateOf = async (id: string) =>
      (await native.call("GET", `/v1/destinations/${id}`)).json.rate_per_second;
    expect([await rateOf(own.id), await rateOf(shared.id)]).toEqual([3, 20]);
    expect((await call("GET", `${at}/${shared.id}`)).json.throttleRate).toBe(null);
    expect(await rateOf((await create()).id)).toBe(20);
    await call("PATCH", `${at}/${own.id}`, { throttleRate: null });
    expect(await rateOf(own.id)).toBe(20);
  });

  it("is gone when it is deleted, or its application", async () => {
    const [one, two] = [await create(), await create({ uid: "two" })];
    expect((await call("DELETE", `${at}/${one.id}`)).status).toBe(204);
    expect((await call("GET", `${at}/${one.id}`)).status).toBe(404);
    await call("DELETE", "/api/v1/app/acme");
    expect((await native.call("GET", `/v1/destinations/${two.id}`)).status).toBe(404);
  });

  it.each<[object, string[], string]>([
    [{ url: undefined }, ["body", "url"], "is missing"],
    [{ url: "http://receiver.example" }, ["body", "url"], "expected"],
    [{ eventTypes: ["a b"] }, ["body", "eventTypes", "0"], "expected an event type"],
    [{ channels: ["a", "b c"] }, ["body", "channels", "1"], "expected 1 to 128 letters"],
    [{ channels: [] }, ["body", "channels"], "expected a list of 1 to 10 channels"],
    [{ channels: "a" }, ["body", "channels"], "expected a list of 1 to 10 channels"],
    [{ channels: Array(11).fill("a") }, ["body", "channels"], "expected a list of 1 to 10 channels"],
    [{ throttleRate: 1.5 }, ["body", "throttleRate"], "is 1.5"],
    [{ secret: "short" }, ["body", "secret"], "is a string of 11 characters"],
    [{ headers: { host: "x" } }, ["body", "headers", "host"], "expected none of the headers"],
    [{ headers: JSON.parse('{"__proto__":"x"}') }, ["body", "headers", "__proto__"], "another name"],
    [{ metadata: JSON.parse('{"__proto__":"x"}') }, ["body", "metadata", "__proto__"], "another name"],
    [{ uid: "a/b" }, ["body", "uid"], "expected 1 to 256 letters"],
  ])("is refused with %j at %j, and not created", async (body, loc, msg) => {
    const { status, json } = await call("POST", at, { url, ...body });
    expect([status, json]).toMatchObject([422, { detail: [{ loc, msg: expect.stringContaining(msg) }] }]);
    expect((await call("GET", at)).json.data).toEqual([]);
  });
});

describe("the secret of an endpoint", () => {
  it("is the caller's or a new one, with or without its prefix, and is rotated", async () => {
    const { id } = await create({ secret: SECRET });
    expect((await call("GET", `${at}/${id}/secret`)).json).toEqual({ key: `whsec_${SECRET}` });
    const rotated = await call("POST", `${at}/${id}/secret/rotate`, { gracePeriodSeconds: 60 });
    const { key } = (await call("GET", `${at}/${id}/secret`)).json;
    expect([rotated.status, rotated.json]).toEqual([200, { key }]);
    expect(rotated.headers.get("cache-control")).toBe("no-store");
    expect(key).toMatch(/^whsec_/);
    expect(key).not.toBe(`whsec_${SECRET}`);
    const { previous_secrets } = (await native.call("GET", `/v1/destinations/${id}`)).json;
    expect(previous_secrets).toEqual([{ expires_at: "2026-11-21T09:01:00.000Z" }]);
  });

  it("is shown only to keys with the scope admin", async () => {
    const { id } = await create();
    const reader = testApi({ create: createSvixApi, authenticate: async () => ({ scopes: ["read"] }) });
    expect((await reader.call("GET", `${at}/${id}/secret`)).status).toBe(403);
  });

  it("is refused by PATCH", async () => {
    const { id } = await create({ secret: SECRET });
    const { status, json, text } = await call("PATCH", `${at}/${id}`, {
      secret: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    });
    expect([status, json.detail[0].loc]).toEqual([422, ["body", "secret"]]);
    expect(text).not.toContain("MfKQ");
    expect((await call("GET", `${at}/${id}/secret`)).json).toEqual({ key: `whsec_${SECRET}` });
  });

  it("is refused under the field names of the Svix API", async () => {
    const { id } = await create();
    const { status, json } = await call("POST", `${at}/${id}/secret/rotate`, { gracePeriodSeconds: -1 });
    expect([status, json.detail[0].loc]).toEqual([422, ["body", "gracePeriodSeconds"]]);
  });
});

test("headers are set, merged and removed, and their values are never shown", async () => {
  const { id } = await create({ headers: { "X-One": "1-one-1-one" } });
  const headers = `${at}/${id}/headers`;
  expect((await call("GET", headers)).json).toEqual({ headers: {}, sensitive: ["X-One"] });
  await call("PATCH", headers, { headers: { "X-Two": "2" } });
  await call("PATCH", headers, { headers: { "x-two": "3" }, deleteHeaders: ["x-one"] });
  expect((await call("GET", headers)).json).toEqual({ headers: {}, sensitive: ["x-two"] });
  expect((await call("PUT", headers, { headers: { "x-three": "3" } })).status).toBe(204);
  expect((await call("GET", headers)).json.sensitive).toEqual(["x-three"]);
  const stored = await env.DB.prepare("SELECT sealed_headers AS h FROM destinations").first<string>("h");
  expect(stored).toMatch(/^\{"x-three":/);
});

describe("the transformation of an endpoint", () => {
  test("is off without one, on with a template, and removed by switching it off or by unsetting its code", async () => {
    const { id } = await create();
    const path = `${at}/${id}/transformation`;
    const off = { code: null, enabled: false, updatedAt: null, variables: {} };
    expect((await call("GET", path)).json).toEqual(off);
    for (const patch of [
      { enabled: false },
      { code: null },
      { code: null, enabled: false, variables: null },
    ]) {
      await native.call("PATCH", `/v1/destinations/${id}`, { transform: { template: "slack" } });
      const on = { ...off, enabled: true, updatedAt: new Date(NOW).toISOString() };
      expect((await call("GET", path)).json).toEqual(on);
      for (const nothing of [{}, { enabled: true }, { code: null, enabled: true }])
        expect((await call("PATCH", path, nothing)).status).toBe(204);
      expect((await call("GET", path)).json).toEqual(on);
      expect((await call("PATCH", path, patch)).status).toBe(204);
      expect((await call("GET", path)).json.enabled).toBe(false);
      expect((await native.call("GET", `/v1/destinations/${id}`)).json.transform).toBeNull();
    }
  });

  test("is Svix's function: shown as it was saved, and called with the same arguments as at Svix", async () => {
    const { id } = await create();
    const path = `${at}/${id}/transformation`;
    const code = `function handler(webhook) {
      if (webhook.payload.cancel) return { ...webhook, cancel: true };
      if (webhook.payload.elsewhere) webhook.url = "https://elsewhere.example";
      else webhook.url += "/" + webhook.eventType;
      return { ...webhook, method: "PUT", headers: { "x-a": "b" }, payload: { n: webhook.payload.n + 1 } };
    }`;
    expect((await call("PATCH", path, { code, enabled: true })).status).toBe(204);
    expect((await call("GET", path)).json).toMatchObject({ code, enabled: true });
    for (const data of [{ n: 1 }, { cancel: true }, { elsewhere: true }])
      await native.call("POST", "/v1/events", { type: "order.paid", tenant: app, data });
    const preview = await native.call("POST", `/v1/destinations/${id}/transform/preview`, {});
    expect(preview.json.events).toMatchObject([
      { result: "failed", fault: expect.stringContaining("url may only be extended") },
      { result: "cancelled" },
      {
        result: "sent",
        after: { method: "PUT", url: `${url}/order.paid`, body: '{"n":2}', headers: { "x-a": "b" } },
      },
    ]);
    const changed = `${code}\n// changed`;
    expect((await call("PATCH", path, { code: changed })).status).toBe(204);
    expect((await call("GET", path)).json.code).toBe(changed);
    await native.call("PATCH", `/v1/destinations/${id}`, {
      transform: { code: "export default () => null" },
    });
    expect((await call("GET", path)).json).toMatchObject({ code: null, enabled: true });
    expect((await call("PATCH", path, { code: null })).status).toBe(204);
    expect((await call("GET", path)).json.enabled).toBe(false);
  });

  test.each([
    [{ code: "function handler(webhook) { return webhook }" }, "enabled"],
    [{ code: "function handler(webhook) { return webhook }", enabled: false }, "enabled"],
    [{ code: "function handle(webhook) { return webhook }", enabled: true }, "code"],
    [{ code: "import a from 'a'; function handler() {}", enabled: true }, "code"],
    [{ enabled: true }, "enabled"],
    [{ variables: { a: "b" } }, "variables"],
    [{ enabled: "yes" }, "enabled"],
    [{ code: 5 }, "code"],
  ])("refuses %j, with the field", async (patch, field) => {
    const { id } = await create();
    const { status, json } = await call("PATCH", `${at}/${id}/transformation`, patch);
    expect([status, json.detail[0].loc]).toEqual([422, ["body", field]]);
  });
});
