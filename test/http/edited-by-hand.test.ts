/** A column that was edited by hand into something invalid never fails a request that shows the row. */
import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { beforeEach, describe, expect, it } from "vitest";
import { destinations, gateSettingsOf } from "../../src/store/destination.ts";
import { emptyDatabase, testApi } from "../support/api.ts";
import { operations } from "../support/operations.ts";
import { responseFaults } from "../support/response-check.ts";

beforeEach(emptyDatabase);

const shown = operations.find(({ method, path }) => method === "GET" && path === "/v1/destinations/{id}");

describe.each([
  ["event_types", "event_types"],
  ["channels", "channels"],
  ["metadata", "metadata"],
  ["headers", "headers"],
  ["sealed_headers", "headers"],
  ["retry", "retry"],
  ["signature_forms", "signature_forms"],
])("a destination's %s", (column, field) => {
  it.each(["not json", "{", "5", '"text"', "[1]", '{"a":{}}', "null", "true"])("of %s", async (value) => {
    const { call } = testApi();
    const { json } = await call("POST", "/v1/destinations", { url: "https://example.com/" });
    await env.DB.prepare(`UPDATE destinations SET ${column} = ?1`).bind(value).run();
    const answer = await call("GET", `/v1/destinations/${json.id}`);
    expect(answer.status).toBe(200);
    if (shown === undefined) throw new Error("GET /v1/destinations/{id} must be described");
    expect(responseFaults(shown, answer), answer.text).toEqual([]);
    expect((await call("GET", "/v1/destinations")).status).toBe(200);
    expect((await call("PATCH", `/v1/destinations/${json.id}`, { [field]: null })).status).toBe(200);
  });
});

describe("a limit out of its range", () => {
  it.each([
    ["max_concurrency", "many", { max_concurrency: 10 }],
    ["max_concurrency", 1_000_000, { max_concurrency: 10 }],
    ["rate_per_second", 0, { rate_per_second: 100 }],
    ["rate_burst", 1.5, { rate_burst: 100 }],
    ["timeout_ms", -1, { timeout_ms: 15_000 }],
    ["timeout_ms", 30_000, { timeout_ms: 15_000 }],
    ["breaker_failure_ratio", 17, { breaker: { failure_ratio: 0.5 } }],
    ["breaker_window_s", "soon", { breaker: { window_s: 60 } }],
    ["status", "who knows", { status: "active" }],
  ])("in %s (%j) is shown as the value that applies", async (column, value, expected) => {
    const { call } = testApi();
    const { json } = await call("POST", "/v1/destinations", { url: "https://example.com/" });
    await env.DB.prepare(`UPDATE destinations SET ${column} = ?1`).bind(value).run();
    const answer = await call("GET", `/v1/destinations/${json.id}`);
    expect(answer.json).toMatchObject(expected);
    if (shown === undefined) throw new Error("GET /v1/destinations/{id} must be described");
    expect(responseFaults(shown, answer), answer.text).toEqual([]);
    const [counts] = await drizzle(env.DB).select().from(destinations);
    if (counts === undefined) throw new Error("The destination is there");
    expect(answer.json.max_concurrency).toBe(gateSettingsOf(counts).maxConcurrency);
    expect(answer.json.breaker.window_s * 1000).toBe(gateSettingsOf(counts).breaker.windowMs);
  });
});

describe("an invalid time", () => {
  it.each(["yesterday", 1e20, -1e20, ""])("(%j) is shown as the beginning of 1970", async (value) => {
    const { call } = testApi();
    const { json: destination } = await call("POST", "/v1/destinations", { url: "https://example.com/" });
    const { json: key } = await call("POST", "/v1/keys", { scopes: ["read"] });
    for (const table of ["destinations", "api_keys"])
      await env.DB.prepare(`UPDATE ${table} SET created_at = ?1`).bind(value).run();
    for (const path of [`/v1/destinations/${destination.id}`, `/v1/keys/${key.id}`]) {
      const { status, json } = await call("GET", path);
      expect([path, status, json.created_at]).toEqual([path, 200, "1970-01-01T00:00:00.000Z"]);
    }
  });
});
