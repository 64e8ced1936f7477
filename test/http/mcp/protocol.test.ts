/** The MCP server's side of the protocol: both eras, what headers must say, and errors. */
import { beforeEach, expect, test } from "vitest";
import { createMcp } from "../../../src/http/mcp/app.ts";
import { agentWith, messageOf } from "../../support/agent.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

beforeEach(emptyDatabase);

const agent = agentWith();
const HANDSHAKE = { "mcp-protocol-version": "2025-11-25" };

test("a client of the current revision discovers, lists and calls without a handshake", async () => {
  const { json: discovered } = await agent.request("server/discover");
  expect(discovered.result).toMatchObject({
    resultType: "complete",
    supportedVersions: ["2026-07-28", "2025-11-25", "2025-06-18"],
    capabilities: { tools: {} },
    cacheScope: "public",
    _meta: { "io.modelcontextprotocol/serverInfo": { name: "breakwater" } },
  });
  const { json: listed } = await agent.request("tools/list");
  expect(listed.result).toMatchObject({ resultType: "complete", cacheScope: "private", ttlMs: 300_000 });
  const { status, json, headers } = await agent.request("tools/call", { name: "list_destinations" });
  expect(status).toBe(200);
  expect(headers.get("content-type")).toContain("application/json");
  expect(json).toMatchObject({ jsonrpc: "2.0", id: 1, result: { resultType: "complete" } });
});

test("a client of an earlier revision begins with a handshake, and gets no session", async () => {
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } };
  const post = (body: object, headers = {}) => agent.call("POST", "/mcp", body, headers);
  const begun = await post({ jsonrpc: "2.0", id: 0, method: "initialize", params });
  expect(begun.json.result).toMatchObject({ protocolVersion: "2025-06-18", capabilities: { tools: {} } });
  expect(begun.headers.has("mcp-session-id")).toBe(false);
  const noted = await post({ jsonrpc: "2.0", method: "notifications/initialized" }, HANDSHAKE);
  expect([noted.status, noted.text]).toEqual([202, ""]);
  expect((await post({ jsonrpc: "2.0", id: "p", method: "ping" }, HANDSHAKE)).json).toEqual({
    ...{ jsonrpc: "2.0", id: "p", result: {} },
  });
  const { json } = await post({ jsonrpc: "2.0", id: 2, method: "tools/list" }, HANDSHAKE);
  expect(json.result.tools.length).toBeGreaterThan(20);
  expect(json.result).not.toHaveProperty("resultType");
});

test("a client that begins with an unknown revision is offered the newest with a handshake", async () => {
  const message = { jsonrpc: "2.0", id: 0, method: "initialize", params: { protocolVersion: "2024-11-05" } };
  const { json } = await agent.call("POST", "/mcp", message);
  expect(json.result.protocolVersion).toBe("2025-11-25");
});

const call = { name: "stats", arguments: {} };

test.each<[string, string, object, Record<string, string | null>, number, number]>([
  ["no revision", "tools/list", {}, { "mcp-protocol-version": null }, 400, -32020],
  ["another revision than the body", "tools/list", {}, { "mcp-protocol-version": "2025-11-25" }, 400, -32020],
  ["another method than the body", "tools/list", {}, { "mcp-method": "tools/call" }, 400, -32020],
  ["no method", "tools/list", {}, { "mcp-method": null }, 400, -32020],
  ["another tool than the body", "tools/call", call, { "mcp-name": "pause_destination" }, 400, -32020],
  ["no tool", "tools/call", call, { "mcp-name": null }, 400, -32020],
  ["a tool in broken base64", "tools/call", call, { "mcp-name": "=?base64?%%?=" }, 400, -32020],
  ["a method that is not there", "resources/list", {}, {}, 404, -32601],
  ["a method of the era with a handshake", "ping", {}, {}, 404, -32601],
  ["a tool that is not there", "tools/call", { name: "drop_tables" }, {}, 200, -32602],
  ["a cursor of a list with one page", "tools/list", { cursor: "x" }, {}, 200, -32602],
  ["arguments that are a list", "tools/call", { name: "stats", arguments: [1] }, {}, 200, -32602],
  [
    "no revision in the body",
    "tools/list",
    { _meta: { "io.modelcontextprotocol/clientCapabilities": {} } },
    {},
    400,
    -32602,
  ],
  [
    "no capabilities",
    "tools/list",
    { _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } },
    {},
    400,
    -32602,
  ],
])("a request with %s is refused", async (_, method, params, headers, status, code) => {
  const answer = await agent.request(method, params, headers);
  expect([answer.status, answer.json.error.code, answer.json.id]).toEqual([status, code, 1]);
});

test("a tool's name may come in base64", async () => {
  const { status } = await agent.request("tools/call", call, { "mcp-name": `=?base64?${btoa("stats")}?=` });
  expect(status).toBe(200);
});

test("an unknown revision is refused with the supported ones", async () => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "1900-01-01",
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const { status, json } = await agent.request(
    "tools/list",
    { _meta },
    { "mcp-protocol-version": "1900-01-01" },
  );
  expect(status).toBe(400);
  expect(json.error).toMatchObject({
    code: -32022,
    data: { supported: ["2026-07-28", "2025-11-25", "2025-06-18"], requested: "1900-01-01" },
  });
  const long = { _meta: { ..._meta, "io.modelcontextprotocol/protocolVersion": "x".repeat(5_000) } };
  const { text } = await agent.request("tools/list", long, { "mcp-protocol-version": "x".repeat(5_000) });
  expect(text.length).toBeLessThan(500);
});

test.each<[string, unknown, number, number]>([
  ["no JSON", "{", 400, -32700],
  ["no UTF-8", new Uint8Array([0xff]), 400, -32700],
  ["nesting", "[".repeat(10_000), 400, -32700],
  ["a batch", [messageOf("tools/list")], 400, -32600],
  ["null", "null", 400, -32600],
  ["no version of JSON-RPC", { id: 1, method: "ping" }, 400, -32600],
  ["a response", { jsonrpc: "2.0", id: 1, result: {} }, 400, -32600],
  ["an id that is null", { jsonrpc: "2.0", id: null, method: "ping" }, 400, -32600],
  ["an id that is an object", { jsonrpc: "2.0", id: {}, method: "ping" }, 400, -32600],
  ["params that are text", { jsonrpc: "2.0", id: 1, method: "ping", params: "x" }, 400, -32600],
  ["too many bytes", " ".repeat(300_000), 413, -32600],
])("a body with %s is refused", async (_, body, status, code) => {
  const sent = typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body);
  const answer = await agent.call("POST", "/mcp", sent, { "content-type": "application/json", ...HANDSHAKE });
  expect([answer.status, answer.json.error.code]).toEqual([status, code]);
});

test("another content type, another method and another site are refused", async () => {
  const text = await agent.request("tools/list", {}, { "content-type": "text/plain" });
  expect(text.status).toBe(415);
  for (const method of ["GET", "DELETE", "PUT"]) {
    const { status, headers } = await agent.call(method, "/mcp");
    expect([status, headers.get("allow")]).toEqual([405, "POST"]);
  }
  for (const origin of ["https://evil.example", "null", "http://localhost:1"])
    expect((await agent.request("tools/list", {}, { origin })).status).toBe(403);
  expect((await agent.request("tools/list", {}, { origin: "http://localhost" })).status).toBe(200);
});

test("a request without a valid key is 401 with a challenge", async () => {
  const { call } = testApi({ create: createMcp });
  for (const authorization of [null, "Bearer bw_nonsense", "Basic eDp5"]) {
    const { status, headers } = await call("POST", "/mcp", messageOf("tools/list"), { authorization });
    expect(status).toBe(401);
    expect(headers.get("www-authenticate")).toMatch(/^Bearer/);
  }
});

test("reading tools count as reads, changing tools as changes, and a limit is 429 with Retry-After", async () => {
  const counted: string[] = [];
  const limiter = (name: string, success: boolean) => ({
    limit: async () => {
      counted.push(name);
      return { success };
    },
  });
  const services = { readLimit: limiter("read", true), writeLimit: limiter("write", false) };
  const limited = agentWith({ principal: { key: "key_1", scopes: ["read", "admin"] }, services });
  expect((await limited.request("tools/list")).status).toBe(200);
  await limited.use("list_destinations");
  const { status, headers, json } = await limited.request("tools/call", {
    ...{ name: "pause_destination", arguments: {} },
  });
  expect([status, headers.get("retry-after"), json.id]).toEqual([429, "10", 1]);
  expect(counted).toEqual(["read", "read", "write"]);
});

test("messages that are refused, and notifications, count as reads", async () => {
  const readLimit = { limit: async () => ({ success: false }) };
  const { call } = agentWith({ principal: { key: "key_1", scopes: ["read"] }, services: { readLimit } });
  for (const body of [
    { jsonrpc: "2.0", id: 1 },
    { jsonrpc: "2.0", method: "notifications/initialized" },
  ]) {
    const { status, headers } = await call("POST", "/mcp", body, HANDSHAKE);
    expect([status, headers.get("retry-after")]).toEqual([429, "10"]);
  }
});

test("a failing database is 503 with Retry-After, without a description", async () => {
  const db = {
    prepare: () => {
      throw new Error("D1_ERROR: Network connection lost.");
    },
  } as unknown as D1Database;
  const { status, headers, json } = await agentWith({ services: { db } }).request("tools/call", {
    ...{ name: "list_destinations" },
  });
  expect([status, json.error.code]).toEqual([503, -32603]);
  expect(headers.get("retry-after")).toBe("5");
  expect(JSON.stringify(json)).not.toContain("D1_ERROR");
});
