/** The token that a visitor of the portal makes for an agent: what the agent may do with it, and when that ends. */
import { beforeEach, describe, expect, it } from "vitest";
import { createMcp } from "../../../src/http/mcp/app.ts";
import { REVISION } from "../../../src/http/mcp/message.ts";
import { messageOf } from "../../support/agent.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { type Things, thingsOf } from "../../support/operations.ts";
import { testPortal, visitor } from "../../support/portal.ts";

let own: Things;
let foreign: Things;
beforeEach(async () => {
  await emptyDatabase();
  own = await thingsOf(testApi().call, "acme");
  foreign = await thingsOf(testApi().call, "rival");
});

/** The MCP server for the holder of the token. */
function agentOf(token: string, now = NOW) {
  const { call } = testApi({ create: createMcp, services: { now: () => now } });
  const request = (method: string, params: object = {}) =>
    call("POST", "/mcp", messageOf(method, params), {
      authorization: `Bearer ${token}`,
      "mcp-protocol-version": REVISION,
      "mcp-method": method,
      "mcp-name": (params as { name?: string }).name ?? null,
    });
  const use = async (name: string, input: object) => {
    const { json } = await request("tools/call", { name, arguments: input });
    return { isError: json.result.isError === true, value: JSON.parse(json.result.content[0].text) };
  };
  const names = async () =>
    (await request("tools/list")).json.result.tools.map(({ name }: { name: string }) => name);
  return { request, use, names };
}

type Browser = Awaited<ReturnType<typeof visitor>>;

async function tokenOf(browser: Browser): Promise<string> {
  const { status, html } = await browser.post("/portal/agent");
  expect(status).toBe(200);
  return /eyJ[\w-]+\.[\w-]+\.[\w-]+/.exec(html)?.[0] ?? "";
}

describe("a visitor's agent", () => {
  it("has the visitor's rights in the visitor's tenant, and is recorded as an agent of the visit", async () => {
    const { use, names } = agentOf(await tokenOf(await visitor("acme")));
    expect(await names()).toEqual([
      ...["explain_delivery", "list_deliveries", "get_attempt", "list_destinations", "get_destination"],
      ...[
        "preview_filter",
        "preview_policy",
        "get_action",
        "retry_deliveries",
        "start_replay",
        "cancel_replay",
      ],
      ...[
        "pause_destination",
        "resume_destination",
        "set_limits",
        "set_filter",
        "rotate_secret",
        "send_test_event",
      ],
    ]);
    const explained = await use("explain_delivery", { delivery_id: own.ids.deliveries });
    expect(explained.value).toMatchObject({ reason: "exhausted" });
    expect(explained.value.destination.page).toContain(`/portal/endpoints/${own.ids.destinations}`);
    const paused = await use("pause_destination", { destination_id: own.ids.destinations });
    expect(paused.value.status).toBe("paused");
    const { data } = (await testApi().call("GET", "/v1/audit?limit=1")).json;
    expect(data[0]).toMatchObject({
      action: "destination.paused",
      actor: { kind: "agent", session: expect.stringMatching(/^[0-9a-f]{40}$/) },
    });
    const other = await use("explain_delivery", { delivery_id: foreign.ids.deliveries });
    expect([other.isError, other.value.title]).toEqual([true, "Not found"]);
    const listed = JSON.stringify((await use("list_destinations", {})).value);
    expect(listed).not.toContain(foreign.ids.destinations);
  });

  it("has no more rights than the link, and than the tenant's later settings", async () => {
    const browser = await visitor("acme", { access: { may_edit_endpoints: false, may_see_payloads: false } });
    const { names, use } = agentOf(await tokenOf(browser));
    for (const name of ["pause_destination", "set_limits", "set_filter", "preview_filter"])
      expect(await names()).not.toContain(name);
    const refused = await use("pause_destination", { destination_id: own.ids.destinations });
    expect(refused).toMatchObject({
      isError: true,
      value: { detail: "The portal does not let this visitor do that" },
    });
    expect(await names()).toContain("retry_deliveries");
    await testApi().call("PATCH", "/v1/tenants/acme", { portal: { may_resend: false } });
    expect(await names()).not.toContain("retry_deliveries");
  });

  it("loses access when the visit ends, however it ends", async () => {
    const browser = await visitor("acme");
    const token = await tokenOf(browser);
    expect((await agentOf(token).request("tools/list")).status).toBe(200);
    const HALF_DAY_MS = 12 * 3_600_000;
    expect((await agentOf(token, NOW + HALF_DAY_MS).request("tools/list")).status).toBe(401);
    await browser.post("/portal/leave");
    const { status, headers } = await agentOf(token).request("tools/list");
    expect([status, headers.get("www-authenticate")]).toEqual([401, 'Bearer error="invalid_token"']);
  });
});

it("an agent's token is shown only on request, and only to a visitor", async () => {
  expect((await testPortal().post("/portal/agent")).status).toBe(401);
  const browser = await visitor("acme");
  const { html } = await browser.get("/portal/agent");
  expect(html).not.toMatch(/eyJ/);
  expect(html).toContain('action="/portal/agent"');
  expect((await browser.get("/portal")).html).toContain('href="/portal/agent"');
});

it("an agent's token opens no page, and a visit's cookie or link no tool", async () => {
  const browser = await visitor("acme");
  const token = await tokenOf(browser);
  const { app } = testApi({ create: createMcp });
  expect(app).toBeDefined();
  const cookie = `breakwater-portal=${token}; __Host-breakwater-portal=${token}`;
  expect((await testPortal().get("/portal", { cookie })).status).toBe(401);
  const link = await testApi().call("POST", "/v1/portal-links", { tenant: "acme" });
  const linkToken = new URL(link.json.url).searchParams.get("token") ?? "";
  for (const other of [linkToken, `${token}x`, "eyJ", "eyJ.eyJ.x"])
    expect((await agentOf(other).request("tools/list")).status).toBe(401);
});
