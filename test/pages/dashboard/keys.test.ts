/** The pages of API keys and of portal links. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { keyIn } from "../../../src/pages/dashboard/pages/keys.tsx";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { signedIn, signedInWith, testDashboard } from "../../support/dashboard.ts";

const KEYS = "/dashboard/keys";
const LINKS = "/dashboard/portal-links";
const { call } = testApi();

beforeEach(emptyDatabase);

const rowsOf = (table: "api_keys" | "event_types") =>
  env.DB.prepare(`SELECT count(*) n FROM ${table}`).first<number>("n");
const textOf = (html: string) => html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

describe("the form of a key", () => {
  it.each<[Record<string, string>, object]>([
    [{}, { scopes: [] }],
    [
      { name: " Shop ", scope_read: "on", scope_events_write: "on", tenant: "acme" },
      { name: "Shop", scopes: ["events:write", "read"], tenant: "acme" },
    ],
    [
      { scope_admin: "on", expires_at: "2027-01-31T12:30" },
      { scopes: ["admin"], expires_at: "2027-01-31T12:30:00Z" },
    ],
    [{ expires_at: "soon" }, { scopes: [], expires_at: "soon" }],
  ])("%j is sent as %j", (form, input) => {
    expect(keyIn(form)).toEqual(input);
  });
});

describe("API keys", () => {
  it("are created by a form that shows the key once, and the key works", async () => {
    const browser = await signedIn();
    const form = { name: "<b>Shop", scope_read: "on", tenant: "acme", expires_at: "2027-01-31T12:30" };
    const { status, html } = await browser.post(KEYS, form);
    const key = /id="key">(bw_[a-z0-9_]+)</.exec(html)?.[1] ?? "";
    expect([status, (await testDashboard().signIn(key)).status]).toEqual([200, 303]);
    const list = await browser.get(KEYS);
    expect(list.html).not.toContain(key);
    expect(textOf(list.html)).toMatch(/&lt;b&gt;Shop of tenant acme · key_[a-z0-9]+ read 31 Jan, 12:30/);
  });

  it("do not outlive the key that the session was opened with", async () => {
    const expires_at = "2026-11-22T09:00:00.000Z";
    const browser = await signedInWith({ scopes: ["read", "admin"], expires_at });
    expect((await browser.post(KEYS, { name: "Heir", scope_read: "on" })).status).toBe(200);
    const later = { name: "Later", scope_read: "on", expires_at: "2026-11-22T09:01" };
    expect((await browser.post(KEYS, later)).status).toBe(422);
    const { results } = await env.DB.prepare("SELECT expires_at AS at FROM api_keys").all<{ at: number }>();
    expect(results.map(({ at }) => at)).toEqual([Date.parse(expires_at), Date.parse(expires_at)]);
    const sessions = "SELECT max(expires_at) FROM sessions";
    expect(await env.DB.prepare(sessions).first("max(expires_at)")).toBeLessThanOrEqual(
      Date.parse(expires_at),
    );
  });

  it("are not created without a scope, with the fault at the scopes", async () => {
    const { status, html } = await (await signedIn()).post(KEYS, { name: "Shop" });
    expect([status, await rowsOf("api_keys")]).toEqual([422, 0]);
    expect(html).toContain('id="f-scope_read-fault"><p>Scopes is');
    expect(html).toContain('name="name" value="Shop"');
  });

  it("are revoked after a confirmation, which warns if it is the visitor's own", async () => {
    const browser = await signedInWith({ scopes: ["read", "admin"] });
    const id = await env.DB.prepare("SELECT id FROM api_keys").first<string>("id");
    const asked = await browser.get(`${KEYS}/${id}/revoke`);
    expect([asked.status, asked.html.includes("revoking it signs you out")]).toEqual([200, true]);
    const { status, headers } = await browser.post(`${KEYS}/${id}/revoke`);
    expect([status, headers.get("location")]).toEqual([303, `${KEYS}?done=revoked`]);
    expect((await browser.get(KEYS)).status).toBe(401);
    expect((await (await signedIn()).get(`${KEYS}/${id}/revoke`)).status).toBe(404);
  });

  it("of other tenants are neither shown to a tenant's key, nor made or revoked by it", async () => {
    const { json: other } = await call("POST", "/v1/keys", {
      name: "Theirs",
      tenant: "other",
      scopes: ["read"],
    });
    const { json: operators } = await call("POST", "/v1/keys", { name: "Operators", scopes: ["read"] });
    const browser = await signedInWith({ tenant: "acme", scopes: ["read", "admin"] });
    for (const path of [KEYS, `${KEYS}?tenant=other`, `${KEYS}?tenant=`]) {
      const { html } = await browser.get(path);
      expect([path, html.includes("Theirs"), html.includes("Operators")]).toEqual([path, false, false]);
    }
    for (const { id } of [other, operators]) {
      expect((await browser.get(`${KEYS}/${id}/revoke`)).status).toBe(404);
      expect((await browser.post(`${KEYS}/${id}/revoke`)).status).toBe(422);
    }
    expect((await browser.post(KEYS, { scope_read: "on", tenant: "other" })).status).toBe(422);
    expect(await env.DB.prepare("SELECT count(*) n FROM api_keys WHERE revoked_at IS NULL").first("n")).toBe(
      3,
    );
  });

  it("are listed page by page", async () => {
    const rows = Array.from(
      { length: 51 },
      (_, i) => `('key_${String(i).padStart(20, "0")}', 'No. ${i}!', '["read"]', x'00', ${NOW})`,
    );
    await env.DB.prepare(
      `INSERT INTO api_keys (id, name, scopes, hash, created_at) VALUES ${rows.join(",")}`,
    ).run();
    const browser = await signedIn();
    const first = await browser.get(KEYS);
    const next = /href="(\/dashboard\/keys\?cursor=[^"]+)"/.exec(first.html)?.[1] ?? "";
    const second = await browser.get(next.replaceAll("&amp;", "&"));
    expect([first, second].map(({ html }) => [html.includes("No. 49!"), html.includes("No. 50!")])).toEqual([
      [true, false],
      [false, true],
    ]);
  });
});

describe("portal links", () => {
  it("are made by a form and shown once", async () => {
    const browser = await signedIn();
    const form = { tenant: "acme", expires_in_s: "900", read_only: "on" };
    const { status, html } = await browser.post(LINKS, form);
    expect(status).toBe(200);
    expect(html).toMatch(/id="link">https:\/\/breakwater\.example\/[^<]*token=/);
    expect(textOf(html)).toContain("opens the portal of acme, to read only, once, until");
    expect((await browser.get(LINKS)).html).not.toContain("token=");
  });

  it("are not created for an invalid tenant, nor with a tenant's key for another tenant", async () => {
    const refused = await (await signedIn()).post(LINKS, { tenant: "<b>" });
    expect([refused.status, refused.html.includes('id="f-tenant-fault"')]).toEqual([422, true]);
    expect(refused.html).toContain('value="&lt;b&gt;"');
    const browser = await signedInWith({ tenant: "acme", scopes: ["read", "admin"] });
    expect((await browser.get(LINKS)).html).not.toContain('name="tenant"');
    expect(textOf((await browser.post(LINKS, { tenant: "other" })).html)).toContain("the portal of acme");
  });
});

it.each([
  KEYS,
  LINKS,
  "/dashboard/audit",
  "/dashboard/audit/export",
  "/dashboard/destinations/new",
])("%s is refused to a read-only key, which sees no link to it", async (path) => {
  const browser = await signedInWith({ tenant: "acme", scopes: ["read"] });
  const { status, html } = await browser.get(path);
  expect([status, html.includes("This session can only read")]).toEqual([403, true]);
  expect((await browser.get("/dashboard")).html).not.toContain(`href="${path}"`);
});

it.each([
  KEYS,
  `${KEYS}/key_00000000000000000000/revoke`,
  LINKS,
  "/dashboard/settings",
  "/dashboard/event-types/new",
])("a form for %s from another site is refused", async (path) => {
  const foreign = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
  const form = { scope_read: "on", tenant: "acme", name: "order.paid" };
  expect((await (await signedIn()).post(path, form, foreign)).status).toBe(403);
  expect([await rowsOf("api_keys"), await rowsOf("event_types")]).toEqual([0, 0]);
});
