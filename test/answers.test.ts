/** The common properties of all answers of the Worker, from any of its parts. */
import { env } from "cloudflare:workers";
import { afterEach, expect, test, vi } from "vitest";
import worker from "../src/worker.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const context = { waitUntil: () => {}, passThroughOnException: () => {} } as unknown as ExecutionContext;
const { ADMIN_KEY } = env as unknown as { ADMIN_KEY: string };
const key = { authorization: `Bearer ${ADMIN_KEY}` };

function answerTo(url: string, init: RequestInit = {}, bindings: Env = env): Promise<Response> {
  const request = new Request(url, init) as Parameters<typeof worker.fetch>[0];
  return worker.fetch(request, bindings, context);
}

test.each<[path: string, status: number, init?: RequestInit]>([
  ["/", 200],
  ["/v1/health", 200],
  ["/openapi.json", 200],
  ["/v1/destinations", 401],
  ["/v1/destinations", 200, { headers: key }],
  [
    "/v1/destinations",
    422,
    { method: "POST", headers: { ...key, "content-type": "application/json" }, body: "{}" },
  ],
  ["/v1/destinations", 204, { method: "OPTIONS", headers: key }],
  ["/nothing", 404],
  ["/api/v1/app", 401],
  ["/api/v1/app", 200, { headers: key }],
  ["/api/v1/nothing", 501, { headers: key }],
  ["/dashboard", 401],
  ["/portal", 401],
  ["/docs", 200],
  ["/docs/nothing", 404],
  ["/llms.txt", 200],
  ["/openapi.md", 200],
  ["/mcp", 401, { method: "POST" }],
  ["/mcp", 405, { headers: key }],
  [
    "/mcp",
    200,
    {
      method: "POST",
      headers: { ...key, "content-type": "application/json" },
      body: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}',
    },
  ],
])("no browser may guess the type of the answer to %s with the status %i", async (path, status, init) => {
  const { status: given, headers } = await answerTo(`https://breakwater.example${path}`, init);
  expect([given, headers.get("x-content-type-options")]).toEqual([status, "nosniff"]);
});

test("no browser may guess the type of the answer of a misconfigured Worker", async () => {
  vi.spyOn(console, "log").mockImplementation(() => {});
  const { status, headers } = await answerTo("https://breakwater.example/v1/events", {}, {
    ...env,
    MASTER_KEYS: "",
  } as Env);
  expect([status, headers.get("x-content-type-options")]).toEqual([503, "nosniff"]);
});
