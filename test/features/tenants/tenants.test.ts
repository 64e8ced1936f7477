/** A tenant's settings: only the operator changes them, and the tenant's keys read them too. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

const { call } = testApi();

beforeEach(emptyDatabase);

const patch = (body: unknown, tenant = "acme") => call("PATCH", `/v1/tenants/${tenant}`, body);

const nothing = {
  tenant: "acme",
  contact_email: null,
  retention_days: null,
  payload_free: false,
  functions: true,
  portal: null,
  branding: null,
  updated_at: null,
};

describe("the settings of a tenant", () => {
  it("are those of the deployment until something is set", async () => {
    expect(await call("GET", "/v1/tenants/acme")).toMatchObject({ status: 200, json: nothing });
  });

  it("change field by field, and null resets a setting", async () => {
    await patch({ retention_days: 7, payload_free: true });
    const { status, json } = await patch({ contact_email: "ops+hooks@acme.example" });
    expect(status).toBe(200);
    expect(json).toEqual({
      tenant: "acme",
      contact_email: "ops+hooks@acme.example",
      retention_days: 7,
      payload_free: true,
      functions: true,
      portal: null,
      branding: null,
      updated_at: "2026-11-21T09:00:00.000Z",
    });
    expect((await call("GET", "/v1/tenants/acme")).json).toEqual(json);
    const cleared = await patch({ contact_email: null, retention_days: null, payload_free: false });
    expect(cleared.json).toEqual({ ...nothing, updated_at: json.updated_at });
    expect((await call("GET", "/v1/tenants/rival")).json).toEqual({ ...nothing, tenant: "rival" });
  });

  it("can be read with the tenant's keys, but not changed", async () => {
    await patch({ retention_days: 7 });
    const acme = testApi({ authenticate: async () => ({ tenant: "acme", scopes }) });
    expect((await acme.call("GET", "/v1/tenants/acme")).json.retention_days).toBe(7);
    expect((await acme.call("PATCH", "/v1/tenants/acme", { retention_days: null })).status).toBe(403);
    expect((await acme.call("GET", "/v1/tenants/rival")).status).toBe(404);
    expect((await acme.call("PATCH", "/v1/tenants/rival", {})).status).toBe(404);
    expect((await call("GET", "/v1/tenants/acme")).json.retention_days).toBe(7);
  });

  it.each<[object, string, string]>([
    [{ retention_days: 31 }, "retention_days", "at most 30, the RETENTION_DAYS"],
    [{ retention_days: 0 }, "retention_days", "at least 1"],
    [{ retention_days: 1.5 }, "retention_days", "a whole number of days"],
    [{ retention_days: "7" }, "retention_days", "a whole number of days"],
    [{ payload_free: 1 }, "payload_free", "true or false"],
    [{ functions: "no" }, "functions", "true or false"],
    [{ payload_free: null }, "payload_free", "true or false"],
    [{ contact_email: "ops" }, "contact_email", "a mail address"],
    [{ contact_email: "a@b@c" }, "contact_email", "a mail address"],
    [{ contact_email: "a@b.example\r\nBcc: c@d.example" }, "contact_email", "a mail address"],
    [{ contact_email: "<a>@b.example" }, "contact_email", "a mail address"],
    [{ contact_email: `${"a".repeat(65)}@b.example` }, "contact_email", "a mail address"],
    [
      { retention: 7 },
      "retention",
      "one of contact_email, retention_days, payload_free, functions, portal, branding",
    ],
    [{ portal: { may_rotate: "no" } }, "portal.may_rotate", "true or false"],
    [{ portal: { may_fly: true } }, "portal.may_fly", "one of may_edit_endpoints"],
    [{ portal: { max_concurrency: 0 } }, "portal.max_concurrency", "1 to 1000"],
    [{ portal: { language: "fr" } }, "portal.language", "one of en, de"],
    [{ branding: { accent: "red" } }, "branding.accent", "#rrggbb"],
    [{ branding: { logo: "http://acme.example/logo.png" } }, "branding.logo", "an https URL"],
  ])("refuse %j and name the field", async (body, field, expected) => {
    const { status, json } = await patch(body);
    expect(status).toBe(422);
    expect(json.errors[0]).toMatchObject({ field, expected: expect.stringContaining(expected) });
    expect((await call("GET", "/v1/tenants/acme")).json).toEqual(nothing);
  });

  it.each([
    "a%20b",
    "%00",
    "x".repeat(65),
    "%F0%9F%92%A9",
  ])("are 404 for %s, which is not a name", async (name) => {
    expect((await call("GET", `/v1/tenants/${name}`)).status).toBe(404);
    expect((await patch({ retention_days: 7 }, name)).status).toBe(404);
  });

  it("edited into nonsense fail no request", async () => {
    await patch({ retention_days: 7 });
    await env.DB.prepare(
      "UPDATE tenant_settings SET retention_days = -3, contact_email = 'x', payload_free = 'maybe', portal = '{'",
    ).run();
    expect((await call("GET", "/v1/tenants/acme")).json).toMatchObject({
      ...nothing,
      updated_at: expect.any(String),
    });
    expect((await patch({ payload_free: true })).json.payload_free).toBe(true);
  });
});
