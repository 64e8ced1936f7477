/** Access to the portal in the Svix API: links to the portal of an application's tenant, and logging out. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { createPortal } from "../../../src/pages/portal/app.tsx";
import { emptyDatabase, testApi } from "../../support/api.ts";

const { call } = testApi({ create: createSvixApi });
const native = testApi();
const portal = testApi({ create: createPortal as unknown as typeof createSvixApi });

let app = "";
beforeEach(async () => {
  await emptyDatabase();
  app = (await call("POST", "/api/v1/app", { name: "Acme", uid: "acme" })).json.id;
});

const access = (body?: object, name = "acme") => call("POST", `/api/v1/auth/app-portal-access/${name}`, body);

describe("an access to the portal", () => {
  it("is a link of the application's tenant, with the token of the link", async () => {
    const { status, json, headers } = await access();
    expect([status, headers.get("cache-control")]).toEqual([200, "no-store"]);
    expect(new URL(json.url).searchParams.get("token")).toBe(json.token);
    const claims = JSON.parse(atob(json.token.split(".")[1]));
    const week = Date.parse("2026-11-28T09:00:00Z") / 1000;
    expect(claims).toMatchObject({ tenant: app, scopes: ["read", "admin"], exp: week });
  });

  it.each<[object, string[]]>([
    [{ readOnly: true }, ["read"]],
    [{ readOnly: false, capabilities: null }, ["read", "admin"]],
    [{ capabilities: ["ViewBase"] }, ["read"]],
    [{ capabilities: ["ViewBase", "ViewEndpointSecret", "CreateAttempts"] }, ["read", "admin"]],
    [{ capabilities: ["ViewBase", "ManageEndpoint", "CreateAttempts"] }, ["read", "admin"]],
    [{ featureFlags: [], sessionId: null, expiry: 3600 }, ["read", "admin"]],
  ])("with %j has the scopes %j", async (body, scopes) => {
    const { json } = await access(body);
    expect(JSON.parse(atob(json.token.split(".")[1])).scopes).toEqual(scopes);
  });

  it.each<[string[], string[]]>([
    [["ViewBase"], []],
    [
      ["ViewBase", "ManageEndpoint"],
      ["may_edit_endpoints", "may_rotate", "may_poll"],
    ],
    [["CreateAttempts"], ["may_resend", "may_test"]],
    [
      ["ManageEndpointSecret", "ManageEndpoint"],
      ["may_edit_endpoints", "may_rotate", "may_poll"],
    ],
  ])("with the capabilities %j permits the visitor %j", async (capabilities, expected) => {
    const { json } = await access({ capabilities });
    const { rules } = JSON.parse(atob(json.token.split(".")[1])).visit;
    const allowed = Object.entries(rules).filter(([, isAllowed]) => isAllowed);
    expect(allowed.map(([name]) => name)).toEqual(expected);
  });

  it.each<[object, string]>([
    [{ featureFlags: ["beta"] }, "featureFlags"],
    [{ sessionId: "one" }, "sessionId"],
    [{ expiry: 1 }, "expiry"],
    [{ expiry: "a" }, "expiry"],
    [{ capabilities: ["All"] }, "capabilities"],
    [{ readOnly: 1 }, "readOnly"],
  ])("is refused with %j", async (body, field) => {
    const { status, json } = await access(body);
    expect([status, json.detail[0].loc.slice(0, 2)]).toEqual([422, ["body", field]]);
  });

  it("creates an application that does not exist yet", async () => {
    expect((await access({}, "fresh")).status).toBe(404);
    const refused = await access({ application: { name: "Fresh" }, expiry: 1 }, "fresh");
    expect([refused.status, refused.json.detail[0].loc]).toEqual([422, ["body", "expiry"]]);
    expect((await call("GET", "/api/v1/app/fresh")).status).toBe(404);
    expect((await access({ application: { name: "Fresh" } }, "fresh")).status).toBe(200);
    expect((await call("GET", "/api/v1/app/fresh")).json.name).toBe("Fresh");
  });

  it("is only for the key's own tenant, and needs the scope admin", async () => {
    const keyed = async (body: object) => {
      const { key } = (await native.call("POST", "/v1/keys", body)).json;
      const headers = { authorization: `Bearer ${key}` };
      return (await call("POST", "/api/v1/auth/app-portal-access/acme", {}, headers)).status;
    };
    expect(await keyed({ scopes: ["admin"], tenant: "app_other" })).toBe(404);
    expect(await keyed({ scopes: ["read"], tenant: app })).toBe(403);
    // The link would grant what the key lacks.
    expect(await keyed({ scopes: ["admin"], tenant: app })).toBe(403);
    expect(await keyed({ scopes: ["admin", "read"], tenant: app })).toBe(200);
  });
});

describe("the capabilities of an access", () => {
  it.each<[string[], object]>([
    [[], { may_edit_endpoints: false, may_rotate: false, may_resend: false, may_test: false }],
    [["ManageEndpoint"], { may_edit_endpoints: true, may_rotate: true, may_resend: false, may_test: false }],
    [["ManageEndpointSecret"], { may_edit_endpoints: false, may_rotate: true, may_resend: false }],
    [["CreateAttempts"], { may_edit_endpoints: false, may_resend: true, may_test: true }],
  ])("are %j", async (given, rules) => {
    const { json } = await access({ capabilities: ["ViewBase", ...given] });
    expect(JSON.parse(atob(json.token.split(".")[1])).visit.rules).toMatchObject(rules);
  });
});

describe("logging out", () => {
  const logout = (token: string | null) =>
    call("POST", "/api/v1/auth/logout", {}, { authorization: token && `Bearer ${token}` });
  const open = (token: string) => {
    const headers = {
      "content-type": "application/x-www-form-urlencoded",
      origin: "http://localhost",
      "sec-fetch-site": "same-origin",
    };
    return portal.call("POST", "/portal/enter", `token=${token}`, headers);
  };

  it("makes an unopened link unusable", async () => {
    const { token } = (await access()).json;
    expect((await logout(token)).status).toBe(204);
    expect((await open(token)).headers.get("set-cookie")).toBeNull();
  });

  it("ends the session that the link has opened, and may be repeated", async () => {
    const { token } = (await access()).json;
    const cookie = (await open(token)).headers.get("set-cookie")?.split(";")[0] ?? "";
    const visit = () => portal.call("GET", "/portal", undefined, { cookie });
    expect((await visit()).status).toBe(200);
    for (const _ of [1, 2]) expect((await logout(token)).status).toBe(204);
    expect((await visit()).status).not.toBe(200);
    const { data } = (await native.call("GET", `/v1/audit?tenant=${app}`)).json;
    const ended = data.filter(({ action }: { action: string }) => action === "session.ended");
    expect(ended).toMatchObject([{ actor: { kind: "portal" } }]);
  });

  it("is refused without the token of an access", async () => {
    const { json } = await native.call("POST", "/v1/keys", { scopes: ["admin"], tenant: app });
    for (const token of [null, "", "a", json.key, `${"a".repeat(5_000)}`])
      expect((await logout(token)).status).toBe(401);
    const { token } = (await access()).json;
    const [head, body, signature] = token.split(".");
    const others = { ...JSON.parse(atob(body)), jti: "another" };
    const forged = [head, btoa(JSON.stringify(others)).replaceAll("=", ""), signature].join(".");
    expect((await logout(forged)).status).toBe(401);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM sessions").first("n")).toBe(0);
  });
});
