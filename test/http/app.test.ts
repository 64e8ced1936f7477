import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import type { Principal } from "../../src/core/principal.ts";

import { LATEST_MIGRATION } from "../../src/store/stats.ts";
import { countRows, emptyDatabase, insertRow, KEY, NOW, testApi } from "../support/api.ts";
import { operationalEvents } from "../support/operational.ts";

beforeEach(emptyDatabase);

describe("authentication", () => {
  it.each([
    ["no header", null],
    ["another scheme", `Basic ${btoa(`admin:${KEY}`)}`],
    ["no token", "Bearer "],
    ["the bare key", KEY],
    ["a wrong key", "Bearer nonsense-nonsense-nonsense"],
    ["a key cut short", `Bearer ${KEY.slice(0, -1)}`],
    ["a key with more", `Bearer ${KEY}x`],
  ])("refuses %s", async (_what, authorization) => {
    const { call } = testApi();
    const answer = await call("POST", "/v1/destinations", { url: "https://example.com/" }, { authorization });
    expect(answer).toMatchObject({ status: 401, json: { type: "/problems/unauthorized", status: 401 } });
    expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer/);
    expect(await countRows("destinations")).toBe(0);
  });

  it.each([
    ["no header", null, "Authorization is missing; expected Bearer and a key"],
    [
      "another scheme",
      "Basic YWRtaW46c2VjcmV0",
      "Authorization has the scheme Basic; expected Bearer and a key",
    ],
    [
      "a scheme that may be half of a key",
      "s3cret key",
      "Authorization has a scheme that is not Bearer; expected Bearer and a key",
    ],
    ["the scheme alone", "Bearer ", "Authorization has no key after Bearer; expected Bearer and a key"],
    ["the key alone", "s3cret-key", "Authorization has no scheme before the key; expected Bearer and a key"],
    [
      "two words",
      "Bearer s3cret key",
      "Authorization has more than one word after Bearer; expected Bearer and a key",
    ],
    ["a key of nobody", "Bearer s3cret-key", "The key is not valid: it is unknown, revoked or expired"],
  ])("names the fault of %s, and repeats no key", async (_what, authorization, detail) => {
    const { json, text } = await testApi().call("GET", "/v1/destinations", undefined, { authorization });
    expect(json.detail).toBe(detail);
    expect(text).not.toMatch(/s3cret|YWRt/);
  });

  it("takes the scheme in any case", async () => {
    const answer = await testApi().call("GET", "/v1/destinations", undefined, {
      authorization: `bearer ${KEY}`,
    });
    expect(answer.status).toBe(200);
  });

  it.each([
    ["GET", "/v1/events/evt_0000000000001", undefined, "read"],
    ["GET", "/v1/deliveries", undefined, "read"],
    ["GET", "/v1/deliveries/dlv_0000000000001_11111111111111111111", undefined, "read"],
    ["GET", "/v1/destinations", undefined, "read"],
    ["GET", "/v1/destinations/dst_11111111111111111111", undefined, "read"],
    ["POST", "/v1/events", { type: "a", data: 1 }, "events:write"],
    ["POST", "/v1/events/batch", { events: [{ type: "a", data: 1 }] }, "events:write"],
    ["POST", "/v1/destinations", { url: "https://example.com/" }, "admin"],
    ["PATCH", "/v1/destinations/dst_11111111111111111111", {}, "admin"],
    ["DELETE", "/v1/destinations/dst_11111111111111111111", undefined, "admin"],
    ["POST", "/v1/destinations/dst_11111111111111111111/pause", undefined, "admin"],
    ["POST", "/v1/destinations/dst_11111111111111111111/resume", undefined, "admin"],
  ] as const)("admits %s %s with its one scope", async (method, path, body, scope) => {
    const others = (["read", "events:write", "admin"] as const).filter((other) => other !== scope);
    const as = (principal: Principal) =>
      testApi({ authenticate: async () => principal }).call(method, path, body);
    expect(await as({ scopes: others })).toMatchObject({
      status: 403,
      json: { detail: expect.stringContaining(scope) },
    });
    expect((await as({ scopes: [scope] })).status).not.toBe(403);
  });
});

describe("a key bound to a tenant", () => {
  const scopes = ["read", "events:write", "admin"] as const;
  const acme = () => testApi({ authenticate: async () => ({ scopes, tenant: "acme" }) });

  it("acts for that tenant without naming it", async () => {
    const { call } = acme();
    const { json: destination } = await call("POST", "/v1/destinations", { url: "https://example.com/" });
    expect(destination.tenant).toBe("acme");
    const { json: event } = await call("POST", "/v1/events", { type: "a", data: 1 });
    expect(event.deliveries).toHaveLength(1);
    expect((await call("GET", `/v1/events/${event.id}`)).json.tenant).toBe("acme");
  });

  it("can write nothing for another tenant", async () => {
    const { call } = acme();
    const other = { tenant: "other" };
    const attempts = [
      await call("POST", "/v1/destinations", { url: "https://example.com/", ...other }),
      await call("POST", "/v1/events", { type: "a", data: 1, ...other }),
      await call("POST", "/v1/events/batch", {
        events: [
          { type: "a", data: 1 },
          { type: "a", data: 1, ...other },
        ],
      }),
      await call("GET", "/v1/destinations?tenant=other"),
    ];
    expect(attempts.map(({ status }) => status)).toEqual([403, 403, 403, 403]);
    expect([await countRows("events"), await countRows("destinations")]).toEqual([0, 0]);
  });

  it("sees nothing of another tenant", async () => {
    const all = testApi();
    const { json: destination } = await all.call("POST", "/v1/destinations", { url: "https://example.com/" });
    const { json: event } = await all.call("POST", "/v1/events", { type: "a", data: 1 });
    const delivery = event.deliveries[0].id;
    const { call } = acme();
    for (const path of [`events/${event.id}`, `deliveries/${delivery}`, `destinations/${destination.id}`]) {
      expect((await all.call("GET", `/v1/${path}`)).status).toBe(200);
      expect((await call("GET", `/v1/${path}`)).status).toBe(404);
    }
    for (const path of ["destinations", "deliveries?state=queued"]) {
      expect((await all.call("GET", `/v1/${path}`)).json.data).toHaveLength(1);
      expect((await call("GET", `/v1/${path}`)).json.data).toEqual([]);
    }
    expect((await call("DELETE", `/v1/destinations/${destination.id}`)).status).toBe(404);
    expect((await call("POST", `/v1/destinations/${destination.id}/pause`)).status).toBe(404);
  });
});

describe("routes", () => {
  it.each([
    ["DELETE", "/v1/events", "GET, HEAD, POST"],
    ["DELETE", "/v1/events/evt_0000000000001", "GET, HEAD"],
    ["PUT", "/v1/events/batch", "POST"],
    ["PUT", "/v1/destinations", "GET, HEAD, POST"],
    ["POST", "/v1/destinations/dst_11111111111111111111", "DELETE, GET, HEAD, PATCH"],
    ["GET", "/v1/destinations/dst_11111111111111111111/pause", "POST"],
    ["POST", "/v1/deliveries", "GET, HEAD"],
    ["POST", "/v1/health", "GET, HEAD"],
    ["POST", "/openapi.json", "GET, HEAD"],
  ])("answer %s %s with 405 and what is allowed", async (method, path, allow) => {
    const answer = await testApi().call(method, path);
    expect(answer).toMatchObject({ status: 405, json: { type: "/problems/method-not-allowed" } });
    expect(answer.headers.get("allow")).toBe(allow);
  });

  it.each([
    ["without a type", {}],
    ["as a form", { "content-type": "application/x-www-form-urlencoded" }],
    ["as JSON", { "content-type": "application/json" }],
  ])("accept a request without a body %s wherever the body is optional", async (_what, headers) => {
    const { call } = testApi();
    const { json: document } = await call("GET", "/openapi.json");
    type Operations = Record<string, { requestBody?: { required?: boolean } }>;
    const paths = Object.entries(document.paths as Record<string, Operations>).flatMap(([path, { post }]) =>
      post && !post.requestBody?.required ? [path] : [],
    );
    expect(paths).toContain("/v1/destinations/{id}/rotate-secret");
    expect(paths).toContain("/v1/destinations/{id}/test");
    for (const path of paths) {
      const { status } = await call("POST", path.replaceAll(/\{\w+\}/g, "some"), "", headers);
      expect([path, [200, 404].includes(status)]).toEqual([path, true]);
    }
  });

  it("answer undescribed methods with 405, and OPTIONS with the described ones", async () => {
    const { call } = testApi();
    const { json: document } = await call("GET", "/openapi.json");
    for (const [pattern, operations] of Object.entries(document.paths as Record<string, object>)) {
      const path = pattern.replaceAll(/\{\w+\}/g, "some");
      const known = Object.keys(operations).map((method) => method.toUpperCase());
      const allow = [...known, ...(known.includes("GET") ? ["HEAD"] : [])].sort().join(", ");
      const options = await call("OPTIONS", path);
      expect([path, options.status, options.headers.get("allow"), options.text]).toEqual([
        path,
        204,
        allow,
        "",
      ]);
      // A type may be called `import`.
      const ofTypes = path.endsWith("/event-types/import") ? ["GET", "PUT", "DELETE"] : [];
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"].filter(
        (each) => !known.includes(each) && !ofTypes.includes(each),
      )) {
        const answer = await call(method, path);
        expect([method, path, answer.status, answer.headers.get("allow")]).toEqual([
          method,
          path,
          405,
          allow,
        ]);
      }
    }
    expect((await call("OPTIONS", "/v1/nothing")).status).toBe(404);
  });

  it.each([
    ["/v1"],
    ["/v1/nothing"],
    ["/v1/events/a/b"],
    ["/v1/destinations/"],
  ])("answer 404 at %s", async (path) => {
    const answer = await testApi().call("GET", path);
    expect(answer).toMatchObject({
      status: 404,
      json: { type: "/problems/not-found", status: 404, title: expect.any(String) },
    });
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
  });
});

describe("the root", () => {
  const at = (accept: string | null, method = "GET") =>
    testApi().call(method, "/", undefined, { authorization: null, accept });

  it.each([
    "text/html",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
  ])("redirects a browser to the dashboard: %s", async (accept) => {
    const { status, headers } = await at(accept);
    expect([status, headers.get("location"), headers.get("vary")]).toEqual([302, "/dashboard", "Accept"]);
  });

  it.each([
    "*/*",
    "application/json",
    null,
  ])("lists the addresses of everything for a client: %s", async (accept) => {
    const { status, json, headers } = await at(accept);
    expect([status, headers.get("vary")]).toEqual([200, "Accept"]);
    expect(json).toEqual({
      name: "Breakwater",
      dashboard: expect.stringMatching(/^https?:\/\/[^/]+\/dashboard$/),
      docs: expect.stringMatching(/^https?:\/\/[^/]+\/docs$/),
      openapi: expect.stringMatching(/^https?:\/\/[^/]+\/openapi\.json$/),
      mcp: expect.stringMatching(/^https?:\/\/[^/]+\/mcp$/),
      health: expect.stringMatching(/^https?:\/\/[^/]+\/v1\/health$/),
    });
  });

  it("allows only GET and HEAD", async () => {
    expect((await at("*/*", "POST")).status).toBe(405);
  });
});

describe("/openapi.json", () => {
  it("describes every route, in OpenAPI 3.1, from the schemas that validate", async () => {
    const { app, call } = testApi();
    const { status, json } = await call("GET", "/openapi.json", undefined, { authorization: null });
    expect(status).toBe(200);
    expect(json.openapi).toBe("3.1.0");
    const undescribed = /^\/(openapi\..*)?$/;
    const served = app.routes.filter(({ method, path }) => method !== "ALL" && !undescribed.test(path));
    const described = Object.entries(json.paths as object).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`),
    );
    expect(described.sort()).toEqual(
      [...new Set(served.map(({ method, path }) => `${method} ${path}`))].sort(),
    );
    expect(json.components.schemas.NewDestination.properties.timeout_ms).toMatchObject({
      minimum: 100,
      maximum: 25_000,
    });
    expect(json.components.schemas.NewEvent).toMatchObject({
      additionalProperties: false,
      required: ["type", "data"],
    });
    expect(json.paths["/v1/health"].get.security).toEqual([]);
  });
});

describe("GET /v1/health", () => {
  const health = () => testApi().call("GET", "/v1/health", undefined, { authorization: null });

  it("is ok before the first sweep", async () => {
    expect(await health()).toMatchObject({ status: 200, json: { status: "ok", sweep: null } });
  });

  it.each([
    [60_000, 200, "ok"],
    [300_000, 200, "ok"],
    [300_001, 503, "stalled"],
  ])("answers a heartbeat %d ms ago with %d %s", async (age, status, word) => {
    await insertRow("sweeps", { id: 1, watermark: 0, heartbeat_at: NOW - age });
    const sweep = { heartbeat_at: new Date(NOW - age).toISOString(), age_s: Math.floor(age / 1000) };
    const answer = await health();
    expect(answer).toMatchObject({ status, json: { status: word, sweep } });
    expect(answer.headers.get("retry-after")).toBe(status === 503 ? "5" : null);
  });

  it("does not show the size of the databases, which grow with the traffic", async () => {
    const { json } = await health();
    expect(json.databases).toEqual([{ name: "DB", migration: LATEST_MIGRATION }]);
  });

  const migrations = async () => {
    const { migration, databases } = (await health()).json;
    return [migration, databases[0].migration];
  };

  it("shows the latest migration that it expects, and the one that the database has", async () => {
    expect(await migrations()).toEqual([LATEST_MIGRATION, LATEST_MIGRATION]);
  });

  it("shows the migration of another version that the database has instead", async () => {
    await env.DB.exec("INSERT INTO d1_migrations (name) VALUES ('9999_of_a_later_version.sql')");
    expect(await migrations()).toEqual([LATEST_MIGRATION, "9999_of_a_later_version.sql"]);
    await env.DB.exec("DELETE FROM d1_migrations WHERE name LIKE '9999%'");
  });

  it("works without wrangler's record of migrations", async () => {
    await env.DB.exec("ALTER TABLE d1_migrations RENAME TO other_migrations");
    const answer = await health();
    await env.DB.exec("ALTER TABLE other_migrations RENAME TO d1_migrations");
    expect(answer).toMatchObject({ status: 200, json: { status: "ok", databases: [{ migration: null }] } });
  });

  it("counts a sweep that never completed as no sweep", async () => {
    await insertRow("sweeps", { id: 1, watermark: 7, heartbeat_at: 0 });
    expect(await health()).toMatchObject({ status: 200, json: { sweep: null } });
  });

  const due = (at: number, state = "retrying") =>
    insertRow("deliveries", {
      destination_id: "dst_one",
      event_id: at,
      state,
      give_up_at: NOW,
      next_attempt_at: NOW + at,
    });

  it("shows the retry that has been due for the longest time", async () => {
    await due(-90_500);
    await due(-30_000);
    await due(-900_000, "waiting");
    const oldest = { due_at: new Date(NOW - 90_500).toISOString(), age_s: 90 };
    expect((await health()).json.oldest_due).toEqual(oldest);
  });

  it("shows no retry while none is due", async () => {
    await due(1);
    expect((await health()).json.oldest_due).toBeNull();
  });

  it("publishes each stall once to the operator", async () => {
    await insertRow("destinations", {
      id: "dst_operator",
      tenant: "operator",
      url: "https://example.com/",
      secret: "sealed",
      created_at: 0,
      updated_at: 0,
    });
    await insertRow("sweeps", { id: 1, watermark: 0, heartbeat_at: NOW - 400_000 });
    for (let i = 0; i < 3; i++) expect((await health()).status).toBe(503);
    expect(await operationalEvents(env.DB)).toMatchObject([{ type: "sweep.stalled", data: { age_s: 400 } }]);
  });

  it("says that a database has the tables of another version, and which", async () => {
    const prepare = (sql: string) => ({
      all: () =>
        sql.includes("d1_migrations")
          ? Promise.resolve({ results: [{ name: "0000_spine.sql" }], meta: { size_after: 4096 } })
          : Promise.reject(new Error("D1_ERROR: no such table: packs: SQLITE_ERROR")),
    });
    const api = testApi({ services: { db: { prepare } as unknown as D1Database } });
    const { status, json } = await api.call("GET", "/v1/health", undefined, { authorization: null });
    expect([status, json]).toMatchObject([
      503,
      {
        status: "not_migrated",
        migration: LATEST_MIGRATION,
        databases: [{ name: "DB", migration: "0000_spine.sql" }],
      },
    ]);
  });

  it("is unreachable while the database does not answer", async () => {
    const db = { prepare: () => ({ all: () => Promise.reject(new Error("D1_ERROR: away")) }) };
    const api = testApi({ services: { db: db as unknown as D1Database } });
    const { status, json, headers } = await api.call("GET", "/v1/health", undefined, { authorization: null });
    expect(headers.get("retry-after")).toBe("5");
    expect([status, json]).toEqual([
      503,
      { status: "unreachable", sweep: null, oldest_due: null, migration: LATEST_MIGRATION, databases: [] },
    ]);
  });
});

it("the app uses the real services by default", async () => {
  const { createApp } = await import("../../src/http/app.ts");
  const ctx = {
    waitUntil: () => {},
    passThroughOnException: () => {},
    props: {},
  } as unknown as ExecutionContext;
  const headers = { authorization: `Bearer ${(env as unknown as { ADMIN_KEY: string }).ADMIN_KEY}` };
  expect((await createApp().request("/v1/destinations", { headers }, env, ctx)).status).toBe(200);
  expect((await createApp().request("/v1/destinations", {}, env, ctx)).status).toBe(401);
});
