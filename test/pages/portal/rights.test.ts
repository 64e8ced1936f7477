/** A visit has the rights that its link and its tenant's settings leave, wherever it gets, and does not read its link's key. */
import { env } from "cloudflare:workers";
import { sign } from "hono/jwt";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  accessUnder,
  type Capability,
  capabilities,
  type PortalRules,
} from "../../../src/core/portal-access.ts";
import { scopes } from "../../../src/core/scopes.ts";
import { forVisitors } from "../../../src/features/destinations/fields.ts";
import { derivedKeys } from "../../../src/secrets/vault.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";
import {
  bodyFor,
  everythingStored,
  operations,
  pathFor,
  saved,
  type Things,
  thingsOf,
} from "../../support/operations.ts";
import { enter, testPortal, visitor } from "../../support/portal.ts";
import { newGates } from "../../support/world.ts";

const { call } = testApi();

beforeEach(emptyDatabase);

/** A path in place of an id, with its slashes and dots encoded. */
const spelled = (path: string) => [
  path.replaceAll("/", "%2F"),
  path.replaceAll("/", "%2f").replaceAll(".", "%2e"),
  path.replaceAll("/", "%5C"),
];

describe("a visitor that may edit endpoints", () => {
  it("reaches nothing else of the tenant with an id that is a path", async () => {
    const { ids } = await thingsOf(call, "acme");
    const browser = await visitor("acme");
    const before = await everythingStored();
    for (const elsewhere of spelled(`../keys/${ids.keys}`))
      expect((await browser.post(`/portal/endpoints/${elsewhere}/delete`)).status).toBe(404);
    for (const elsewhere of spelled(`../destinations/${ids.destinations}/pause#`))
      expect((await browser.post(`/portal/deliveries/${elsewhere}/resend`)).status).toBe(404);
    expect(await everythingStored()).toBe(before);
  });
});

describe("a visitor that may only send again", () => {
  const link = { access: { may_edit_endpoints: false, may_rotate: false, may_test: false } };

  it("pauses, resumes, rotates and tests nothing with an id that is a path", async () => {
    const { ids } = await thingsOf(call, "acme");
    const browser = await visitor("acme", link);
    const before = await everythingStored();
    for (const action of ["pause", "resume", "rotate-secret", "test"])
      for (const elsewhere of spelled(`../destinations/${ids.destinations}/${action}`))
        for (const end of ["%3F", "%23"]) {
          const path = `/portal/endpoints/${ids.destinations}/replays/${elsewhere}${end}/cancel`;
          expect((await browser.post(path)).status).toBe(404);
        }
    expect(await everythingStored()).toBe(before);
  });
});

/** The operations of the API that the portal has for its visitors, with what each needs; null: every visitor may. */
const OPERATIONS: Readonly<Record<string, Capability | null>> = {
  "GET /v1/destinations": null,
  "GET /v1/destinations/{id}": null,
  "POST /v1/destinations": "may_edit_endpoints",
  "PATCH /v1/destinations/{id}": "may_edit_endpoints",
  "DELETE /v1/destinations/{id}": "may_edit_endpoints",
  "POST /v1/destinations/{id}/pause": "may_edit_endpoints",
  "POST /v1/destinations/{id}/resume": "may_edit_endpoints",
  "POST /v1/destinations/{id}/rotate-secret": "may_rotate",
  "POST /v1/destinations/{id}/test": "may_test",
  "POST /v1/destinations/{id}/certification": "may_test",
  "GET /v1/destinations/{id}/certification": null,
  "POST /v1/destinations/{id}/preview": "may_see_payloads",
  "POST /v1/destinations/{id}/transform/preview": "may_see_payloads",
  "GET /v1/destinations/{id}/transform/versions": null,
  "POST /v1/destinations/{id}/transform/restore": "may_edit_endpoints",
  "GET /v1/destinations/{id}/blocked-keys": null,
  "GET /v1/destinations/{id}/notices": null,
  "GET /v1/destinations/{id}/poll/consumers": null,
  "PUT /v1/destinations/{id}/notices": "may_edit_endpoints",
  "DELETE /v1/destinations/{id}/notices": "may_edit_endpoints",
  "POST /v1/destinations/{id}/notices/test": "may_test",
  "GET /v1/event-types": null,
  "GET /v1/event-types/{name}": null,
  "GET /v1/event-types/{name}/versions": null,
  "GET /v1/event-types/{name}/endpoints": null,
  "GET /v1/deliveries": null,
  "GET /v1/deliveries/{id}": null,
  "GET /v1/deliveries/{id}/attempts/{at}": null,
  "POST /v1/deliveries/{id}/retry": "may_resend",
  "POST /v1/deliveries/retry": "may_resend",
  "POST /v1/replays": "may_resend",
  "POST /v1/replays/batch": "may_resend",
  "POST /v1/replays/{id}/cancel": "may_resend",
};

/** The API as a visit of acme calls it, with all scopes: what it may do is up to its rules. */
function apiUnder(...rules: readonly PortalRules[]) {
  const visit = accessUnder(...rules);
  const fetch = async () => new Response(null, { status: 204 });
  const services = { gates: env.GATES, fetch };
  return testApi({ authenticate: async () => ({ scopes, tenant: "acme", visit }), services });
}

/** The body of an operation with what a visitor may set of a destination. */
function bodyOfVisitor(described: (typeof operations)[number], things: Parameters<typeof bodyFor>[1]) {
  const body = bodyFor(described, things);
  if (!/^\/v1\/destinations(\/\{id\})?$/.test(described.path) || !body) return body;
  return Object.fromEntries(Object.entries(body).filter(([name]) => forVisitors.has(name)));
}

describe("the API, called for a visitor of the portal,", () => {
  const all = Object.fromEntries(capabilities.map((name) => [name, true]));
  let things: Things;
  let restore: () => Promise<void>;
  beforeAll(async () => {
    await emptyDatabase();
    things = await thingsOf(call, "acme");
    restore = await saved();
  });
  beforeEach(() => restore());

  it.each(
    operations.filter(({ operation }) => operation.security.length > 0),
  )("permits only what its rules do: $method $path", async (described) => {
    const { method, path } = described;
    const needed = OPERATIONS[`${method} ${path}`];
    const before = await everythingStored();
    if (needed !== null) {
      const rules = { ...all, ...(needed && { [needed]: false }) };
      const answer = await apiUnder(rules).call(method, pathFor(path, things), bodyFor(described, things));
      expect(answer).toMatchObject({ status: 403, json: { type: "/problems/forbidden" } });
      expect(await everythingStored()).toBe(before);
    }
    if (needed === undefined) return;
    // A gate allows one test in a minute, and knows of former ones.
    if (needed === "may_test") await newGates([things.ids.destinations ?? ""]);
    const none = Object.fromEntries(capabilities.map((name) => [name, name === needed]));
    const answer = await apiUnder(none).call(method, pathFor(path, things), bodyOfVisitor(described, things));
    // No version has been saved that could be restored: the visitor may request one.
    const allowed = path.endsWith("/transform/restore") ? /^404$/ : /^(20\d|409)$/;
    expect(String(answer.status), answer.text).toMatch(allowed);
  });

  it.each([
    "uid",
    "channels",
    "metadata",
    "auth",
    "retry",
    "breaker",
    "timeout_ms",
    "binding",
  ])("sets no field that is not for visitors: %s", async (field) => {
    const { ids } = things;
    const before = await everythingStored();
    const api = apiUnder({});
    const path = `/v1/destinations/${ids.destinations}`;
    const created = { url: "https://example.com/hook", [field]: null };
    for (const answer of [
      await api.call("POST", "/v1/destinations", created),
      await api.call("PATCH", path, { [field]: null }),
    ]) {
      const expected = { field, fault: "is not for visitors to set" };
      expect(answer).toMatchObject({ status: 422, json: { errors: [expected] } });
    }
    expect(await everythingStored()).toBe(before);
  });

  it("sets no limit above the visitor's, by name or by default", async () => {
    const { ids } = things;
    const api = apiUnder({ max_concurrency: 5 }, { rate_per_second: 2 });
    const url = "https://example.com/hook";
    const limits = { max_concurrency: 5, rate_per_second: 2 };
    for (const given of [{ max_concurrency: 6 }, { rate_per_second: 3 }, { max_concurrency: null }]) {
      const above = { url, ...limits, ...given };
      expect((await api.call("POST", "/v1/destinations", above)).status).toBe(422);
      expect((await api.call("PATCH", `/v1/destinations/${ids.destinations}`, given)).status).toBe(422);
    }
    expect((await api.call("POST", "/v1/destinations", { url })).status).toBe(422);
    expect((await api.call("POST", "/v1/destinations", { url, ...limits })).status).toBe(201);
    expect((await api.call("PATCH", `/v1/destinations/${ids.destinations}`, limits)).status).toBe(200);
  });
});

describe("a link of an API key", () => {
  /** The claims of a JSON Web Token, which need no key to read. */
  const claimsIn = (token: string) =>
    atob((token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/"));

  it("does not reveal the key to its visitor, and neither does the visitor's cookie", async () => {
    const made = await call("POST", "/v1/keys", { scopes: ["read", "admin"] });
    const link = await call(
      "POST",
      "/v1/portal-links",
      { tenant: "acme" },
      { authorization: `Bearer ${made.json.key}` },
    );
    const token = new URL(link.json.url).searchParams.get("token") ?? "";
    const browser = testPortal();
    expect((await enter(browser, token)).status).toBe(303);
    const cookie = browser.cookie();
    for (const text of [claimsIn(token), claimsIn(cookie.slice(cookie.indexOf("=") + 1))]) {
      expect(text).toContain('"tenant":"acme"');
      expect(text).not.toContain(made.json.id);
    }
    expect((await browser.get("/portal")).status).toBe(200);
    await call("DELETE", `/v1/keys/${made.json.id}`);
    expect((await browser.get("/portal")).status).toBe(401);
  });

  it("of 0.3.0, which names the key, opens a visit that ends with the key", async () => {
    const made = await call("POST", "/v1/keys", { scopes: ["read", "admin"] });
    const config = testConfig();
    const [key = ""] = await derivedKeys(config.masterKeys, "portal", config.adminKey);
    const claims = { jti: "a".repeat(40), exp: NOW / 1000 + 600, iat: NOW / 1000, key: made.json.id };
    const visit = { rules: {}, language: null, theme: null, return_url: null };
    const token = await sign({ ...claims, tenant: "acme", scopes: ["read"], visit }, key, "HS256");
    const browser = testPortal();
    expect((await enter(browser, token)).status).toBe(303);
    expect((await browser.get("/portal")).status).toBe(200);
    await call("DELETE", `/v1/keys/${made.json.id}`);
    expect((await browser.get("/portal")).status).toBe(401);
  });
});
