/** Changes that a person approves: what a key or a visit's token that needs approval may do, who decides, once, and by which rights. */
import { beforeEach, describe, expect, test } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { requestAction } from "../../../src/features/approvals/service.ts";
import { createMcp } from "../../../src/http/mcp/app.ts";
import { changingTools } from "../../../src/http/mcp/changing.ts";
import { messageHeaders, messageOf } from "../../support/agent.ts";
import { countRows, emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { signedIn, signedInWith, testDashboard } from "../../support/dashboard.ts";
import { type Things, thingsOf } from "../../support/operations.ts";
import { visitor } from "../../support/portal.ts";
import { inputFor } from "../../support/tool-inputs.ts";

const DAY_MS = 86_400_000;
const native = testApi();

let own: Things;
beforeEach(async () => {
  await emptyDatabase();
  own = await thingsOf(native.call, "acme");
});

type Key = Readonly<{ id: string; key: string }>;

async function agentKey(settings: object = {}): Promise<Key> {
  const body = { scopes: ["read", "admin"], tenant: "acme", confirm: "dashboard", ...settings };
  const { status, json } = await native.call("POST", "/v1/keys", body);
  expect([status, json.confirm]).toEqual([201, "dashboard"]);
  return json;
}

/** An agent with a bearer token, as the server authenticates it. */
function agentOf(token: string, now = NOW) {
  const { call } = testApi({ create: createMcp, services: { now: () => now } });
  return async (name: string, input: object = {}) => {
    const params = { name, arguments: input };
    const headers = { authorization: `Bearer ${token}`, ...messageHeaders("tools/call", params) };
    const { json } = await call("POST", "/mcp", messageOf("tools/call", params), headers);
    return { isError: json.result.isError === true, value: JSON.parse(json.result.content[0].text) };
  };
}

const pause = () => ({ destination_id: own.ids.destinations });
const statusNow = async () =>
  (await native.call("GET", `/v1/destinations/${own.ids.destinations}`)).json.status;
const pathOf = (url: string) => new URL(url).pathname;

describe("an agent whose key needs approval", () => {
  test("changes nothing until a person approves it at the dashboard, and both are in the audit trail", async () => {
    const { id, key } = await agentKey();
    const use = agentOf(key);
    const { isError, value } = await use("pause_destination", pause());
    expect([isError, value.state, value.expires_at]).toEqual([
      false,
      "pending",
      new Date(NOW + DAY_MS).toISOString(),
    ]);
    expect(pathOf(value.approve_at)).toBe(`/dashboard/actions/${value.action_id}`);
    expect(await statusNow()).toBe("active");
    const browser = await signedIn();
    const page = await browser.get(pathOf(value.approve_at));
    expect(page.html).toContain("Pause a destination");
    expect(page.html).toContain(own.ids.destinations);
    expect((await browser.get("/dashboard/actions")).html).toContain(value.action_id);
    const approved = await browser.post(`${pathOf(value.approve_at)}/approve`);
    expect([approved.status, approved.headers.get("location")]).toEqual([
      303,
      `/dashboard/actions/${value.action_id}?done=action-approved`,
    ]);
    expect(await statusNow()).toBe("paused");
    const after = (await use("get_action", { action_id: value.action_id })).value;
    expect(after).toMatchObject({ state: "done", result: { status: "paused" } });
    expect(after).not.toHaveProperty("approve_at");
    const { data } = (await native.call("GET", "/v1/audit?limit=4")).json;
    const agent = { kind: "agent", key: id, session: null, person: null };
    const operator = { kind: "dashboard", key: null, session: expect.any(String), person: null };
    expect(data.map(({ action, actor }: { action: string; actor: object }) => [action, actor])).toEqual([
      ["destination.paused", { ...agent, approver: operator }],
      ["agent_action.approved", operator],
      ["session.started", operator],
      ["agent_action.requested", agent],
    ]);
    expect((await browser.get("/dashboard/audit")).html).toMatch(
      /By an agent, key_\w+; approved at the dashboard/,
    );
  });

  describe("requests approval for every tool that changes something", () => {
    test.each(changingTools)("$name", async ({ name }) => {
      const { key } = await agentKey();
      const before = await countRows("agent_actions");
      const { value } = await agentOf(key)(name, inputFor(name, own));
      expect(value.state).toBe("pending");
      expect(await countRows("agent_actions")).toBe(before + 1);
      expect((await native.call("GET", "/v1/audit?limit=1")).json.data[0].action).toBe(
        "agent_action.requested",
      );
    });
  });

  test("reads at once, the audit trail too", async () => {
    const use = agentOf((await agentKey()).key);
    expect((await use("list_changes")).isError).toBe(false);
    expect((await use("get_destination", pause())).value.id).toBe(own.ids.destinations);
  });

  test("cannot change anything another way: not by the API, and not at the dashboard", async () => {
    const { key } = await agentKey();
    const { value } = await agentOf(key)("pause_destination", pause());
    const { call } = testApi();
    const headers = { authorization: `Bearer ${key}` };
    for (const [method, path, body] of [
      ["POST", `/v1/destinations/${own.ids.destinations}/pause`, undefined],
      ["POST", "/v1/keys", { scopes: ["admin"] }],
      ["POST", "/v1/portal-links", { tenant: "acme" }],
      ["DELETE", `/v1/keys/${own.ids.keys}`, undefined],
    ] as const) {
      const { status, json } = await call(method, path, body, headers);
      expect([path, status]).toEqual([path, 403]);
      expect(json.detail).toContain("by MCP, where a person approves each change");
    }
    expect((await call("GET", "/v1/destinations", undefined, headers)).status).toBe(200);
    const browser = testDashboard();
    expect((await browser.signIn(key)).status).toBe(303);
    await browser.post(`${pathOf(value.approve_at)}/approve`);
    await browser.post(`/dashboard/destinations/${own.ids.destinations}/pause`);
    expect(await statusNow()).toBe("active");
    expect((await browser.get("/dashboard/actions")).html).not.toContain("/dashboard/keys");
  });

  test("requests the same action once, and a limited number of actions", async () => {
    const use = agentOf((await agentKey()).key);
    const ids = [await use("pause_destination", pause()), await use("pause_destination", pause())];
    expect(ids[0]?.value.action_id).toBe(ids[1]?.value.action_id);
    const asked = (n: number) => use("set_limits", { ...pause(), max_concurrency: n });
    for (let n = 0; n < 97; n++)
      await insertRow("agent_actions", {
        ...{
          id: `act_${String(n).padStart(20, "0")}`,
          tenant: "acme",
          tool: "resume_destination",
          input: {},
        },
        ...{ state: "pending", created_at: NOW, expires_at: NOW + 1 },
      });
    // One of the fixtures waits too.
    expect((await asked(1)).isError).toBe(false);
    const { isError, value } = await asked(2);
    expect([isError, value.detail]).toEqual([true, expect.stringContaining("100 actions wait")]);
    const long = { tool: "set_filter", input: { filter: "x".repeat(9_000) } };
    const caller = { services: native.services, principal: { scopes } };
    expect(await requestAction(caller, long)).toMatchObject({
      kind: "conflict",
      detail: expect.stringMatching(/may have 8192/),
    });
  });

  test("requests nothing that its arguments or its scopes rule out", async () => {
    const use = agentOf((await agentKey()).key);
    expect((await use("pause_destination", { destination_id: "x" })).value.errors).toHaveLength(1);
    const reader = agentOf((await agentKey({ scopes: ["read"] })).key);
    expect((await reader("pause_destination", pause())).value.detail).toBe("The key lacks the scope admin");
    expect(await countRows("agent_actions")).toBe(1);
  });
});

describe("an action", () => {
  async function asked(settings: object = {}) {
    const made = await agentKey(settings);
    const { value } = await agentOf(made.key)("pause_destination", pause());
    return { ...made, at: pathOf(value.approve_at), action: value.action_id as string };
  }

  test("is decided once: a second decision changes nothing", async () => {
    const { at } = await asked();
    const browser = await signedIn();
    await browser.post(`${at}/approve`);
    await native.call("POST", `/v1/destinations/${own.ids.destinations}/resume`);
    for (const decision of ["approve", "refuse"])
      expect((await browser.post(`${at}/${decision}`)).status).toBe(422);
    expect(await statusNow()).toBe("active");
  });

  test("that two people approve at once is carried out once", async () => {
    const { at } = await asked();
    const [one, other] = [await signedIn(), await signedIn()];
    const both = await Promise.all([one.post(`${at}/approve`), other.post(`${at}/approve`)]);
    expect(both.map(({ status }) => status).sort()).toEqual([303, 422]);
    const { data } = (await native.call("GET", "/v1/audit?limit=20")).json;
    const paused = data.filter(({ action }: { action: string }) => action === "destination.paused");
    expect(paused).toHaveLength(1);
  });

  test("that is refused changes nothing, and its agent is informed", async () => {
    const { at, action, key } = await asked();
    const browser = await signedIn();
    expect((await browser.post(`${at}/refuse`)).status).toBe(303);
    expect((await browser.post(`${at}/approve`)).status).toBe(422);
    expect(await statusNow()).toBe("active");
    expect((await agentOf(key)("get_action", { action_id: action })).value.state).toBe("refused");
  });

  test("expires after a day, or with its agent's key", async () => {
    const { at, action, key } = await asked();
    expect((await agentOf(key, NOW + DAY_MS)("get_action", { action_id: action })).value.state).toBe(
      "expired",
    );
    const late = testDashboard({ services: { now: () => NOW + DAY_MS } });
    await late.signIn();
    expect((await late.post(`${at}/approve`)).status).toBe(422);
    expect(await statusNow()).toBe("active");
    const expires_at = new Date(NOW + 60_000).toISOString();
    const { value } = await agentOf((await agentKey({ expires_at })).key)("pause_destination", pause());
    expect(value.expires_at).toBe(expires_at);
  });

  test("is not carried out for a key that has been revoked since", async () => {
    const { id, at } = await asked();
    await native.call("DELETE", `/v1/keys/${id}`);
    const refused = await (await signedIn()).post(`${at}/approve`);
    expect([refused.status, await statusNow()]).toEqual([422, "active"]);
    expect(refused.html).toContain("has ended");
  });

  test("can be approved only by someone who may do the same", async () => {
    const { at } = await asked();
    const reader = await signedInWith({ tenant: "acme", scopes: ["read"] });
    expect((await reader.get(at)).html).not.toContain(`${at}/approve`);
    await reader.post(`${at}/approve`);
    const stranger = await signedInWith({ tenant: "rival", scopes: ["read", "admin"] });
    expect((await stranger.get(at)).status).toBe(404);
    expect((await stranger.get("/dashboard/actions")).html).not.toContain("act_");
    await stranger.post(`${at}/approve`);
    await stranger.post(`${at}/refuse`);
    expect(await statusNow()).toBe("active");
    const owner = await signedInWith({ tenant: "acme", scopes: ["read", "admin"] });
    expect((await owner.post(`${at}/approve`)).status).toBe(303);
    expect(await statusNow()).toBe("paused");
  });

  test("reaches nothing of another tenant, whoever approves it", async () => {
    const foreign = await thingsOf(native.call, "rival");
    const { key } = await agentKey();
    const use = agentOf(key);
    const { value } = await use("pause_destination", { destination_id: foreign.ids.destinations });
    const browser = await signedIn();
    await browser.post(`${pathOf(value.approve_at)}/approve`);
    const after = (await use("get_action", { action_id: value.action_id })).value;
    expect(after).toMatchObject({ state: "failed", result: { title: "Not found" } });
    const { json } = await native.call("GET", `/v1/destinations/${foreign.ids.destinations}`);
    expect(json.status).toBe("active");
    expect((await use("get_action", { action_id: foreign.ids.actions })).isError).toBe(true);
  });

  test("shows an agent's input as text", async () => {
    const { key } = await agentKey();
    const { value } = await agentOf(key)("set_filter", { ...pause(), filter: { a: "<script>x</script>" } });
    const { html } = await (await signedIn()).get(pathOf(value.approve_at));
    expect(html).toContain("&lt;script&gt;x");
    expect(html).not.toContain("<script>x");
  });
});

describe("in the portal", () => {
  async function tokenOf(browser: Awaited<ReturnType<typeof visitor>>, confirm = true): Promise<string> {
    const { html } = await browser.post("/portal/agent", confirm ? { confirm: "on" } : {});
    return /eyJ[\w-]+\.[\w-]+\.[\w-]+/.exec(html)?.[0] ?? "";
  }

  test("the visitor approves requests of an agent of the visit, in the visitor's language", async () => {
    const browser = await visitor("acme", { language: "de" });
    const use = agentOf(await tokenOf(browser));
    const { value } = await use("pause_destination", pause());
    expect(pathOf(value.approve_at)).toBe(`/portal/actions/${value.action_id}`);
    expect((await browser.get("/portal/agent")).html).toContain("Endpunkt anhalten");
    expect((await browser.get(pathOf(value.approve_at))).html).toContain("Noch ist nichts geändert");
    expect(await statusNow()).toBe("active");
    expect((await browser.post(`${pathOf(value.approve_at)}/approve`)).status).toBe(303);
    expect(await statusNow()).toBe("paused");
    const { data } = (await native.call("GET", "/v1/audit?limit=1")).json;
    expect(data[0].actor).toMatchObject({ kind: "agent", approver: { kind: "portal" } });
    expect((await agentOf(await tokenOf(browser, false))("resume_destination", pause())).value.status).toBe(
      "active",
    );
  });

  test("another visit of the same tenant neither sees nor decides it", async () => {
    const browser = await visitor("acme");
    const { value } = await agentOf(await tokenOf(browser))("pause_destination", pause());
    const other = await visitor("acme");
    const at = pathOf(value.approve_at);
    expect((await other.get(at)).status).toBe(404);
    expect((await other.post(`${at}/approve`)).status).toBe(404);
    expect((await other.get("/portal/agent")).html).not.toContain(value.action_id);
    expect(await statusNow()).toBe("active");
  });

  test("nothing is carried out after rights were removed or the visit has ended", async () => {
    const browser = await visitor("acme");
    const { value } = await agentOf(await tokenOf(browser))("pause_destination", pause());
    await native.call("PATCH", "/v1/tenants/acme", { portal: { may_edit_endpoints: false } });
    const at = pathOf(value.approve_at);
    expect((await browser.post(`${at}/approve`)).status).toBe(403);
    await native.call("PATCH", "/v1/tenants/acme", { portal: null });
    await browser.post("/portal/leave");
    expect((await (await signedIn()).post(`/dashboard/actions/${value.action_id}/approve`)).status).toBe(422);
    expect(await statusNow()).toBe("active");
  });
});

test("requests of a tenant's agents are removed with the tenant", async () => {
  await native.call("DELETE", "/v1/tenants/acme?confirm=acme");
  expect(await countRows("agent_actions")).toBe(0);
});
