/** Two independent client libraries speak with the MCP server as it is, in both eras of the protocol. */
import { env } from "cloudflare:workers";
import { createMCPClient } from "@ai-sdk/mcp";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { beforeEach, describe, expect, test } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { agentWith } from "../../support/agent.ts";
import { emptyDatabase, KEY, testApi } from "../../support/api.ts";
import { type Things, thingsOf } from "../../support/operations.ts";

const { app } = agentWith({ principal: { scopes, tenant: "acme" } });
const context = {
  waitUntil: () => {},
  passThroughOnException: () => {},
  props: {},
} as unknown as ExecutionContext;

/** The revisions that requests name, as the headers have them. */
const spoken = new Set<string | null>();

async function fetchHere(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const request = new Request(input, { ...init, redirect: "manual" });
  if (request.method === "POST") spoken.add(request.headers.get("mcp-protocol-version"));
  return app.fetch(request, env, context);
}

const url = new URL("http://localhost/mcp");
const headers = { authorization: `Bearer ${KEY}` };

/** The actions of a client. */
type Connected = Readonly<{
  names: () => Promise<string[]>;
  call: (name: string, input: object) => Promise<Readonly<{ content: unknown; isError?: unknown }>>;
  close: () => Promise<void>;
}>;

async function official(mode: "auto" | "legacy"): Promise<Connected> {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(
    new StreamableHTTPClientTransport(url, { fetch: fetchHere, requestInit: { headers } }),
  );
  return {
    names: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: (name, input) => client.callTool({ name, arguments: { ...input } }),
    close: () => client.close(),
  };
}

async function ofAiSdk(protocolVersionDiscovery: boolean): Promise<Connected> {
  const transport = { type: "http", url: url.href, headers, fetch: fetchHere } as const;
  const client = await createMCPClient({ transport, protocolVersionDiscovery });
  const call = async (name: string, input: object) => {
    const { [name]: tool } = await client.tools();
    if (tool === undefined) throw new Error(`There is no ${name}`);
    return tool.execute(input, { toolCallId: "1", messages: [] });
  };
  return {
    names: async () => (await client.listTools()).tools.map(({ name }) => name),
    call,
    close: () => client.close(),
  };
}

let own: Things;
beforeEach(async () => {
  await emptyDatabase();
  own = await thingsOf(testApi().call, "acme");
  spoken.clear();
});

describe.each<[string, () => Promise<Connected>, string]>([
  ["the official client", () => official("auto"), "2026-07-28"],
  ["the official client, with a handshake", () => official("legacy"), "2025-11-25"],
  ["the AI SDK's client", () => ofAiSdk(true), "2026-07-28"],
  ["the AI SDK's client, with a handshake", () => ofAiSdk(false), "2025-11-25"],
])("%s", (_, connect, revision) => {
  test("lists tools, explains a delivery, changes something, and reads a refusal", async () => {
    const client = await connect();
    expect(await client.names()).toContain("explain_delivery");
    const textOf = (content: unknown) => JSON.parse((content as { text: string }[])[0]?.text ?? "");
    const explained = await client.call("explain_delivery", { delivery_id: own.ids.deliveries });
    expect(textOf(explained.content)).toMatchObject({ state: "dead", reason: "exhausted" });
    const paused = await client.call("pause_destination", { destination_id: own.ids.destinations });
    expect(textOf(paused.content)).toMatchObject({ status: "paused" });
    const refused = await client.call("get_event", { event_id: "evt_none" });
    expect(refused.isError).toBe(true);
    expect(textOf(refused.content).detail).toContain("expected an id of the kind event");
    await client.close();
    expect([...spoken].filter((one) => one !== null)).toEqual([revision]);
  });
});
