/** Configurations, planned and applied against the Worker: what was applied once is not planned again. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { changePlan, configurationIn, type PlanOptions } from "../../client/cli/configuration.ts";
import { type Breakwater, breakwaterClient, dataOf } from "../../client/src/breakwater.ts";
import { emptyDatabase, KEY, testApi } from "../support/api.ts";

let api: Breakwater;
beforeEach(async () => {
  await emptyDatabase();
  const { app } = testApi();
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
  const send = async (request: Request) => app.fetch(request, env, context as never);
  api = breakwaterClient({ url: "https://breakwater.example", key: KEY, fetch: send });
});

const DOCUMENT = {
  event_types: {
    "order.created": {
      description: "An order",
      schema: { type: "object" },
      example: { id: 1 },
      retention_days: 7,
    },
    "order.paid": {},
  },
  tenants: {
    acme: {
      settings: {
        contact_email: "ops@acme.example",
        retention_days: 30,
        portal: { may_rotate: false, max_endpoints: 3, language: "de" },
        branding: { name: "Acme", accent: "#0b6a72" },
      },
      destinations: {
        orders: {
          url: "https://EXAMPLE.com",
          description: "Orders",
          event_types: ["order.paid", "order.created"],
          channels: ["b", "a"],
          filter: { total: { gte: 10 }, or: [{ a: 1 }, { b: { exists: true } }] },
          metadata: { team: "shop" },
          headers: { "X-Token": "s3cret-value", "x-other": "another-value" },
          auth: { kind: "basic", username: "u", password: "p4ssword-1" },
          body: "data",
          max_concurrency: 3,
          rate_per_second: 2.5,
          timeout_ms: 5000,
          retry: { preset: "svix", max_attempts: 4, on: { fail: [404] } },
          breaker: { min_attempts: 9 },
          signature_forms: [
            { form: "standard" },
            { form: "template", content: "{id}.{body}", signature_header: "x-signature" },
          ],
        },
        audit: { url: "https://example.org/audit?a=b", status: "paused", event_types: null },
      },
    },
  },
  keys: { ci: { scopes: ["read", "events:write"], tenant: "acme" }, ops: { scopes: ["admin"] } },
};

const orders = (fields: object) => ({ tenants: { acme: { destinations: { orders: fields } } } });
const plan = (document: unknown, options?: PlanOptions) =>
  changePlan(api, configurationIn(document), options);
const names = async (document: unknown, options?: PlanOptions) =>
  (await plan(document, options)).map(({ action, kind, name }) => `${action} ${kind} ${name}`);

async function apply(document: unknown, options?: PlanOptions) {
  const shown: unknown[] = [];
  for (const step of await plan(document, options)) shown.push(await step.apply());
  return shown;
}

async function destinations() {
  const { data } = dataOf(await api.GET("/v1/destinations", { params: { query: { tenant: "acme" } } }));
  return Object.fromEntries(data.map((one) => [String(one.uid), one]));
}

test("a second plan of what was applied has no steps", async () => {
  expect(await names(DOCUMENT)).toEqual([
    "create event type order.created",
    "create event type order.paid",
    "change tenant acme",
    "create destination acme/orders",
    "create destination acme/audit",
    "create key ci",
    "create key ops",
  ]);
  const shown = await apply(DOCUMENT);
  expect(shown.slice(3)).toEqual([
    { id: expect.stringMatching(/^dst_/), secret: expect.stringMatching(/^whsec_/) },
    { id: expect.stringMatching(/^dst_/), secret: expect.stringMatching(/^whsec_/) },
    { id: expect.stringMatching(/^key_/), key: expect.any(String) },
    { id: expect.stringMatching(/^key_/), key: expect.any(String) },
  ]);
  expect(await plan(DOCUMENT)).toEqual([]);
  expect(await plan(DOCUMENT, { prune: true })).toEqual([]);
});

test("an interrupted application continues with the remaining steps", async () => {
  const [first, second] = await plan(DOCUMENT);
  await first?.apply();
  await second?.apply();
  expect((await names(DOCUMENT))[0]).toBe("change tenant acme");
  await apply(DOCUMENT);
  expect(await plan(DOCUMENT)).toEqual([]);
});

describe("drift", () => {
  test("is shown by field, and fields that the document leaves out stay as they are", async () => {
    await apply(DOCUMENT);
    const { orders } = await destinations();
    const params = { path: { id: orders?.id ?? "" } };
    const body = { max_concurrency: 7, description: "By hand", breaker: { min_attempts: 10, window_s: 90 } };
    await api.PATCH("/v1/destinations/{id}", { params, body });
    const { description: _, ...wanted } = DOCUMENT.tenants.acme.destinations.orders;
    const document = { tenants: { acme: { destinations: { orders: wanted } } } };
    const [step, ...others] = await plan(document);
    expect(others).toEqual([]);
    expect(step?.changes.map(({ field, from, to }) => [field, from, to])).toEqual([
      ["max_concurrency", 7, 3],
      ["breaker", expect.objectContaining({ min_attempts: 10 }), { min_attempts: 9 }],
    ]);
    await apply(document);
    expect((await destinations()).orders).toMatchObject({
      max_concurrency: 3,
      description: "By hand",
      breaker: { min_attempts: 9, window_s: 90 },
    });
    expect(await plan(document)).toEqual([]);
  });

  test("of a destination's status pauses and resumes it", async () => {
    await apply(DOCUMENT);
    const withStatus = (status: string) => ({ tenants: { acme: { destinations: { audit: { status } } } } });
    await apply(withStatus("active"));
    expect((await destinations()).audit?.status).toBe("active");
    await apply(withStatus("paused"));
    expect((await destinations()).audit?.status).toBe("paused");
    expect(await plan(withStatus("paused"))).toEqual([]);
  });

  test("of an event type keeps the fields that the document leaves out", async () => {
    await apply(DOCUMENT);
    await apply({ event_types: { "order.created": { description: "Changed" } } });
    const stored = await api.GET("/v1/event-types/{name}", { params: { path: { name: "order.created" } } });
    expect(stored.data).toMatchObject({
      description: "Changed",
      schema: { type: "object" },
      retention_days: 7,
    });
  });

  test("of a key is reported, because it cannot be applied", async () => {
    await apply(DOCUMENT);
    expect(await names({ keys: { ci: { scopes: ["admin"], tenant: "acme" } } })).toEqual(["blocked key ci"]);
  });
});

describe("values that the API does not show", () => {
  test("are not in a plan", async () => {
    const headers = { "x-token": "other-s3cret" };
    const auth = { kind: "bearer", token: "other-t0ken" };
    const creation = JSON.stringify(await plan(DOCUMENT));
    await apply(DOCUMENT);
    const change = JSON.stringify(
      await plan(orders({ headers, auth, secret: "whsec_x" }), { secrets: true }),
    );
    expect(change).toContain("x-token");
    for (const secret of ["s3cret", "p4ssword", "t0ken", "whsec_x"])
      expect(creation + change).not.toContain(secret);
  });

  test("are compared by name, and set again on request", async () => {
    await apply(DOCUMENT);
    const same = { "x-token": "changed", "X-Other": "changed" };
    expect(await plan(orders({ headers: same }))).toEqual([]);
    expect(await names(orders({ headers: same }), { secrets: true })).toEqual([
      "change destination acme/orders",
    ]);
    await apply(orders({ headers: { "x-new": "1" } }));
    expect(Object.keys((await destinations()).orders?.headers ?? {})).toEqual(["x-new"]);
  });
});

test("only pruning deletes, and never a destination without a uid, another tenant's, or a key", async () => {
  await apply(DOCUMENT);
  const body = { url: "https://example.net/" };
  await api.POST("/v1/destinations", { body: { ...body, tenant: "acme" } });
  await api.POST("/v1/destinations", { body: { ...body, tenant: "other", uid: "orders" } });
  const document = {
    event_types: { "order.paid": {} },
    tenants: { acme: { destinations: { audit: {} } }, other: {} },
    keys: {},
  };
  expect(await plan(document)).toEqual([]);
  expect(await names(document, { prune: true })).toEqual([
    "delete event type order.created",
    "delete destination acme/orders",
  ]);
  await apply(document, { prune: true });
  expect(Object.keys(await destinations()).sort()).toEqual(["audit", "null"]);
  expect(await plan(document, { prune: true })).toEqual([]);
});

test("pruning leaves the subscriptions of agents, which have a uid and expire", async () => {
  await apply(orders({ url: "https://example.com/" }));
  await env.DB.prepare("UPDATE destinations SET uid = 'sub_agent', expires_at = 4102444800000").run();
  expect(await names({ tenants: { acme: { destinations: {} } } }, { prune: true })).toEqual([]);
});

test("a change that the API refuses fails with its problem, in the plan or when it is applied", async () => {
  const [step] = await plan(orders({ url: "no address" }));
  await expect(step?.apply()).rejects.toMatchObject({ problem: { status: 422, errors: [{ field: "url" }] } });
  await expect(plan({ tenants: { "a b": { destinations: {} } } })).rejects.toMatchObject({
    problem: { status: 422 },
  });
});

test.each([
  [{ event_types: { a: { retention: 1 } } }, "event_types.a.retention"],
  [{ keys: { ci: { key: "bw_x" } } }, "keys.ci.key"],
  [
    { tenants: { acme: { settings: { portal: { may_fly: true } } } } },
    "tenants.acme.settings.portal.may_fly",
  ],
  [orders({ colour: 1 }), "tenants.acme.destinations.orders.colour"],
  [orders({ constructor: 1 }), "tenants.acme.destinations.orders.constructor"],
  [orders({ retry: { on: { never: [1] } } }), "tenants.acme.destinations.orders.retry.on.never"],
  [
    orders({ signature_forms: [{ form: "standard" }, { form: "standard", salt: "" }] }),
    "tenants.acme.destinations.orders.signature_forms.1.salt",
  ],
])("a field that the deployment does not take is refused before anything is changed: %j", async (document, place) => {
  await expect(plan(document)).rejects.toThrow(`${place} is unknown; expected one of `);
});

test.each([
  [[], "The document is a list; expected a map"],
  ["text", "The document is a string; expected a map"],
  [{ tenant: {} }, "tenant is unknown; expected one of event_types, tenants, keys"],
  [
    { tenants: { acme: { url: "x" } } },
    "tenants.acme.url is unknown; expected one of settings, destinations",
  ],
  [{ tenants: { acme: { destinations: [] } } }, "tenants.acme.destinations is a list; expected a map"],
  [
    { tenants: { a: { destinations: { b: { uid: "c" } } } } },
    "tenants.a.destinations.b.uid is implied by its place",
  ],
  [
    { tenants: { a: { destinations: { b: { rate_burst: null } } } } },
    "tenants.a.destinations.b.rate_burst is null",
  ],
  [{ keys: { ci: 1 } }, "keys.ci is a number; expected a map"],
])("%j is no configuration", (document, message) => {
  expect(() => configurationIn(document)).toThrow(message);
});

test("sections that are empty or missing are left alone", async () => {
  expect(await plan(null, { prune: true })).toEqual([]);
  expect(await plan({ tenants: { acme: null } }, { prune: true })).toEqual([]);
});
