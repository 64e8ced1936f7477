/** An agent's requests to the MCP server, over the real D1 of the test. Gates are idle unless a test says otherwise. */
import type { FiguresQuery, GateView } from "../../src/core/gate-view.ts";
import type { Principal } from "../../src/core/principal.ts";
import { newRollups } from "../../src/core/rollups.ts";
import { scopes } from "../../src/core/scopes.ts";
import { createMcp } from "../../src/http/mcp/app.ts";
import { REVISION } from "../../src/http/mcp/message.ts";
import type { Services } from "../../src/services.ts";
import { NOW, testApi } from "./api.ts";
import { figuresOf } from "./figures.ts";
import { idleGateView } from "./idle-gate-view.ts";

type Options = Readonly<{
  principal?: Principal;
  services?: Partial<Services>;
  view?: (destination: string) => Partial<GateView>;
}>;

/** Records the requests that reach the gates, and answers with views. */
function gatesWith(view: NonNullable<Options["view"]>) {
  const stub = (name: string) => {
    const shown = { ...idleGateView, ...view(name) };
    const known: Record<string, unknown> = {
      refusal: async () => shown.refusal,
      recheck: async () => [],
      view: async () => shown,
      figures: async (look: FiguresQuery) => figuresOf(shown, newRollups(NOW), look, NOW),
    };
    return new Proxy(known, { get: (all, method: string) => all[method] ?? (async () => null) });
  };
  return { idFromName: (name: string) => name, get: stub };
}

/** An agent with a key of the principal. */
export function agentWith({ principal = { scopes }, services = {}, view = () => ({}) }: Options = {}) {
  const gates = gatesWith(view) as unknown as Services["gates"];
  const { call, app } = testApi({
    create: createMcp,
    authenticate: async () => principal,
    services: { gates, ...services },
  });

  /** Makes a request of the current revision. */
  function request(method: string, params: object = {}, headers: Record<string, string | null> = {}) {
    return call("POST", "/mcp", messageOf(method, params), { ...messageHeaders(method, params), ...headers });
  }

  /** Calls a tool, and returns its answer as JSON. */
  async function use(name: string, input: object = {}) {
    const { status, json, text } = await request("tools/call", { name, arguments: input });
    if (status !== 200 || !json.result)
      throw new Error(`${name} ${JSON.stringify(input)}: ${status} ${text}`);
    return { isError: json.result.isError === true, value: JSON.parse(json.result.content[0].text) };
  }

  return { app, call, request, use };
}

/** The headers that repeat the method and the name of a message. */
export function messageHeaders(method: string, params: object = {}): Readonly<Record<string, string>> {
  const { name } = params as { name?: string };
  return {
    "mcp-protocol-version": REVISION,
    "mcp-method": method,
    ...(name !== undefined && { "mcp-name": name }),
  };
}

/** The message of a request, with the information on its client that each request carries. */
export function messageOf(method: string, params: object = {}, id: unknown = 1) {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  return { jsonrpc: "2.0", id, method, params: { _meta, ...params } };
}
