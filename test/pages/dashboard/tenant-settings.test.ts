/** Operators' settings for a tenant, the export and import of its configuration, and its deletion. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { capabilities } from "../../../src/core/portal-access.ts";
import { linkIn } from "../../../src/pages/dashboard/pages/portal-links.tsx";
import { inputsOf, tenantSettingsIn } from "../../../src/pages/dashboard/pages/settings.tsx";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { signedIn, signedInWith } from "../../support/dashboard.ts";
import { hostileStrings } from "../../support/hostile-strings.ts";

const SETTINGS = "/dashboard/settings";
const { call } = testApi();
const textOf = (html: string) => html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
const settingsOf = async (tenant = "acme") => (await call("GET", `/v1/tenants/${tenant}`)).json;
const actions = async () =>
  (
    await env.DB.prepare(
      "SELECT action FROM audit_entries WHERE action NOT LIKE 'session%' ORDER BY id",
    ).all<{ action: string }>()
  ).results.map(({ action }) => action);
/** Saves the settings of acme by their form, as it is shown now. */
const save = (browser: Awaited<ReturnType<typeof signedIn>>, form: Record<string, string>) =>
  browser.save(SETTINGS, form, `${SETTINGS}?tenant=acme`);
const reader = () => signedInWith({ scopes: ["read"] });
const tenantsAdmin = () => signedInWith({ tenant: "acme", scopes: ["read", "admin"] });

const countRows = (table: "destinations" | "erasures" | "tenant_settings") =>
  env.DB.prepare(`SELECT count(*) n FROM ${table}`).first<number>("n");

/** All boxes of what visitors may do, as they are ticked at first. */
const boxes = Object.fromEntries(capabilities.map((name) => [name, "on"]));
/** The form of a tenant's settings at first: nothing is restricted, except that visitors write no code. */
const allowed = { ...boxes, may_write_code: "", functions: "on" };
const filled = {
  ...allowed,
  tenant: "acme",
  contact_email: "ops@acme.example",
  retention_days: "7",
  payload_free: "on",
  max_endpoints: "10",
  max_concurrency: "20",
  rate_per_second: "0.5",
  language: "de",
  theme: "dark",
  brand_name: "Acme",
  brand_logo: "https://cdn.acme.example/logo.svg",
  brand_accent: "#aa3366",
};

/** The fault that is shown at a field. */
const faultAt = (html: string, field: string) =>
  new RegExp(`id="f-${field}-fault"><p>([^<]*)<`).exec(html)?.[1];

async function destinationOf(tenant: string, more: object = {}): Promise<string> {
  const body = { url: "https://example.com/hook", tenant, ...more };
  return (await call("POST", "/v1/destinations", body)).json.id;
}

beforeEach(emptyDatabase);

describe("the form of settings", () => {
  it.each([
    {
      contact_email: null,
      retention_days: null,
      payload_free: false,
      functions: true,
      portal: null,
      branding: null,
    },
    {
      contact_email: "ops@acme.example",
      retention_days: 7,
      payload_free: true,
      functions: false,
      portal: {
        may_rotate: false,
        may_write_code: true,
        max_endpoints: 0,
        rate_per_second: 0.5,
        language: "de" as const,
      },
      branding: { name: "Acme", accent: "#aa3366" },
    },
  ])("has the same values as the settings that it was filled with: %j", (settings) => {
    expect(tenantSettingsIn(inputsOf(settings))).toEqual(settings);
  });
});

describe("the settings of a tenant", () => {
  it("are shown for a choice of tenants while none is chosen", async () => {
    await testApi().call("POST", "/v1/destinations", { url: "https://example.com/", tenant: "acme" });
    const { html } = await (await signedIn()).get(SETTINGS);
    expect(html).toContain(`<a class="button break" href="${SETTINGS}?tenant=acme">acme</a>`);
    expect(html).toContain('<input name="tenant" required');
  });

  it("are all changed by the operator, shown, and reset by empty fields", async () => {
    const browser = await signedIn();
    const { may_rotate: _, ...form }: Record<string, string> = filled;
    const { status, headers } = await save(browser, form);
    expect([status, headers.get("location")]).toEqual([303, `${SETTINGS}?done=settings&tenant=acme`]);
    expect(await settingsOf()).toMatchObject({
      contact_email: "ops@acme.example",
      retention_days: 7,
      payload_free: true,
      portal: {
        may_rotate: false,
        max_endpoints: 10,
        max_concurrency: 20,
        rate_per_second: 0.5,
        language: "de",
        theme: "dark",
      },
      branding: { name: "Acme", logo: "https://cdn.acme.example/logo.svg", accent: "#aa3366" },
    });
    const { html } = await browser.get(`${SETTINGS}?done=settings&tenant=acme`);
    expect(html).toContain('name="contact_email" value="ops@acme.example"');
    expect(html).toContain('name="brand_accent" value="#aa3366"');
    expect(html).toMatch(/name="may_test" value="on" checked/);
    expect(html).not.toMatch(/name="may_rotate" value="on" checked/);
    expect(html).toContain('<option value="de" selected="">');
    expect(await actions()).toEqual(["tenant.changed"]);
    await save(browser, { ...allowed, tenant: "acme" });
    expect(await settingsOf()).toMatchObject({
      contact_email: null,
      retention_days: null,
      payload_free: false,
      portal: null,
      branding: null,
    });
  });

  it("are not written by a form that changes nothing", async () => {
    const { headers } = await save(await signedIn(), { ...allowed, tenant: "acme" });
    expect(headers.get("location")).toBe(`${SETTINGS}?done=unchanged&tenant=acme`);
    expect([await countRows("tenant_settings"), await actions()]).toEqual([0, []]);
  });

  it("keep what somebody else has saved meanwhile, until the form is sent once more", async () => {
    const browser = await signedIn();
    const readAt = async () => {
      const { html } = await browser.get(`${SETTINGS}?tenant=acme`);
      return /name="read_at" value="([^"]+)"/.exec(html)?.[1] ?? "";
    };
    const mine = { ...allowed, tenant: "acme", contact_email: "a@acme.example", read_at: await readAt() };
    await call("PATCH", "/v1/tenants/acme", { retention_days: 7 });
    const { read_at: _, ...untimed } = mine;
    for (const form of [mine, untimed]) {
      const { status, html } = await browser.post(SETTINGS, form);
      expect([status, html.includes("was changed after you opened this form")]).toEqual([422, true]);
      expect(html).toContain('value="a@acme.example"');
    }
    expect(await settingsOf()).toMatchObject({ contact_email: null, retention_days: 7 });
    expect((await browser.post(SETTINGS, { ...mine, read_at: await readAt() })).status).toBe(303);
    expect(await settingsOf()).toMatchObject({ contact_email: "a@acme.example", retention_days: null });
  });

  it("keep unreadable rules when something else is saved", async () => {
    await call("PATCH", "/v1/tenants/acme", { portal: { may_rotate: false } });
    await env.DB.prepare(`UPDATE tenant_settings SET portal = '{"may_rotate": "no"}'`).run();
    await save(await signedIn(), { ...allowed, tenant: "acme", contact_email: "a@acme.example" });
    expect(await env.DB.prepare("SELECT portal, contact_email AS mail FROM tenant_settings").first()).toEqual(
      {
        portal: '{"may_rotate": "no"}',
        mail: "a@acme.example",
      },
    );
  });

  it.each([
    ["contact_email", "x", "Contact address is &quot;x&quot;; expected a mail address"],
    ["retention_days", "1.5", "Retention (days) is 1.5; expected a whole number of days"],
    ["max_endpoints", "-1", "Endpoints at most is -1; expected a whole number from 0 to 10000"],
    ["max_concurrency", "many", "Highest concurrency is &quot;many&quot;; expected"],
    ["rate_per_second", "0", "Highest rate per second is 0; expected"],
    ["brand_logo", "http://a.example/x.png", "Logo is"],
    ["brand_accent", "red", "Accent colour is &quot;red&quot;; expected a colour as #rrggbb"],
    ["brand_name", "x".repeat(81), "Name in the portal is"],
    ["language", "fr", "Language is &quot;fr&quot;; expected one of en, de"],
  ])("are not changed by %s %j: the fault is at the field", async (field, value, text) => {
    const { status, html } = await save(await signedIn(), { ...filled, [field]: value });
    expect(status).toBe(422);
    expect(faultAt(html, field)?.slice(0, text.length)).toBe(text);
    expect(faultAt(html, field)).not.toMatch(/[a-z]_[a-z]/);
    expect(html).toContain('name="contact_email"');
    expect(await countRows("tenant_settings")).toBe(0);
  });

  it.each(hostileStrings)("show %j as text, where it was typed and refused", async (hostile) => {
    const form = { ...filled, brand_accent: hostile, brand_logo: hostile, contact_email: hostile };
    const { status, html } = await save(await signedIn(), form);
    expect(status).toBe(422);
    expect(html).not.toMatch(/<script>|<img|<b>|onerror=alert\(1\)>/i);
  });

  it("can only be read with the tenant's key and with a read-only key, with the reason", async () => {
    const tenants = await tenantsAdmin();
    const shown = (await tenants.get(SETTINGS)).html;
    expect(shown).toContain("The operator of the deployment sets these");
    expect(shown).not.toMatch(/Save settings|Delete the tenant|\/import|name="secrets"/);
    for (const tenant of ["acme", "other"])
      expect((await tenants.post(SETTINGS, { ...filled, tenant })).status).toBe(422);
    const reads = await reader();
    const { html } = await reads.get(`${SETTINGS}?tenant=acme`);
    expect(html).toContain("This session can only read");
    expect(html).not.toMatch(/Save settings|Delete the tenant|\/import|\/export/);
    expect((await reads.post(SETTINGS, filled)).status).toBe(422);
    expect(await countRows("tenant_settings")).toBe(0);
  });
});

describe("the form of a portal link", () => {
  it("has every field of a link", () => {
    const { may_test: _, ...others }: Record<string, string> = boxes;
    const form = {
      ...others,
      tenant: "acme",
      expires_in_s: "900",
      read_only: "on",
      max_endpoints: "3",
      language: "de",
      theme: "light",
      return_url: "https://app.example.com/settings",
    };
    expect(linkIn(form, undefined)).toEqual({
      tenant: "acme",
      expires_in_s: 900,
      read_only: true,
      access: { may_test: false, max_endpoints: 3 },
      language: "de",
      theme: "light",
      return_url: "https://app.example.com/settings",
    });
    expect(linkIn({ ...boxes, tenant: "acme" }, undefined)).toEqual({
      tenant: "acme",
      expires_in_s: undefined,
      read_only: false,
      access: {},
      return_url: null,
    });
  });

  it.each([
    ["return_url", "http://app.example.com/", "Page to return to is"],
    ["expires_in_s", "59", "Can be opened for (seconds) is 59; expected a whole number of seconds"],
    ["max_endpoints", "x", "Endpoints at most is"],
    ["rate_per_second", "0", "Highest rate per second is 0"],
    ["theme", "pink", "Theme is &quot;pink&quot;; expected one of auto, light, dark"],
  ])("creates no link from %s %j: the fault is at the field", async (field, value, text) => {
    const form = { ...allowed, tenant: "acme", [field]: value };
    const { status, html } = await (await signedIn()).post("/dashboard/portal-links", form);
    expect([status, html.includes("token=")]).toEqual([422, false]);
    expect(faultAt(html, field)?.slice(0, text.length)).toBe(text);
    expect(html).toMatch(/name="may_test" value="on" checked/);
  });
});

describe("an export", () => {
  it("is a file, without secrets unless requested, which the audit trail records", async () => {
    const id = await destinationOf("acme", { headers: { "X-Key": "canary-header" } });
    const browser = await signedIn();
    const plain = await browser.post(`${SETTINGS}/export`, { tenant: "acme" });
    expect([plain.status, plain.headers.get("content-disposition")]).toEqual([
      200,
      'attachment; filename="breakwater-acme.json"',
    ]);
    expect(plain.headers.get("cache-control")).toBe("no-store");
    expect(JSON.parse(plain.html)).toMatchObject({
      tenant: "acme",
      destinations: [{ id, omitted: ["secret", "headers"] }],
    });
    const open = await browser.post(`${SETTINGS}/export`, { tenant: "acme", secrets: "true" });
    expect(JSON.parse(open.html)).toMatchObject({
      destinations: [{ secret: expect.stringMatching(/^whsec_/), headers: { "X-Key": "canary-header" } }],
    });
    expect((await actions()).filter((one) => one === "tenant.exported")).toHaveLength(1);
  });

  it("is refused to a read-only key, and, with secrets or of another tenant, to a tenant's key", async () => {
    await destinationOf("acme");
    expect((await (await reader()).post(`${SETTINGS}/export`, { tenant: "acme" })).status).toBe(422);
    const tenants = await tenantsAdmin();
    expect((await tenants.post(`${SETTINGS}/export`, { tenant: "acme" })).status).toBe(200);
    for (const form of [{ tenant: "acme", secrets: "true" }, { tenant: "other" }])
      expect((await tenants.post(`${SETTINGS}/export`, form)).status).toBe(422);
  });
});

describe("an import", () => {
  const IMPORT = `${SETTINGS}/import`;
  const ID = "dst_00000000000000000001";
  const documentOf = (destination: object = {}, more: object = {}) =>
    JSON.stringify({
      version: 1,
      destinations: [{ id: ID, url: "https://example.com/in", ...destination }],
      ...more,
    });

  it("first shows what it would do without changes, and shows new secrets once when it is done", async () => {
    const browser = await signedIn();
    const document = documentOf({ omitted: ["secret", "auth"] }, { settings: { retention_days: 3 } });
    const tried = await browser.post(IMPORT, { tenant: "acme", document, action: "try" });
    expect(tried.status).toBe(200);
    expect(textOf(tried.html)).toContain("create 1 destination, change 0, leave 0 as they are");
    expect(tried.html).toContain("&quot;retention_days&quot;:3");
    expect([await countRows("destinations"), await actions()]).toEqual([0, []]);
    const done = await browser.post(IMPORT, { tenant: "acme", document, action: "import" });
    expect(done.status).toBe(200);
    expect(done.html).toMatch(new RegExp(`<code id="secret-${ID}">whsec_[^<]+<`));
    expect(textOf(done.html)).toContain("It is paused, because the configuration lacks its auth");
    expect(await settingsOf()).toMatchObject({ retention_days: 3 });
    expect(await actions()).toEqual(["tenant.imported", "destination.created"]);
    const again = await browser.post(IMPORT, { tenant: "acme", document, action: "import" });
    expect(textOf(again.html)).toContain("0 destinations created, 0 changed, 1 as before.");
  });

  it("prefers a file to pasted text", async () => {
    const browser = await signedIn();
    const body = new FormData();
    body.set("tenant", "acme");
    body.set("document", "not this");
    body.set("action", "try");
    body.set("file", new File([documentOf()], "breakwater-acme.json"));
    const { status, html } = await browser.send(IMPORT, body);
    expect([status, textOf(html).includes("create 1 destination")]).toEqual([200, true]);
    expect(html).toContain(ID);
  });

  it.each([
    ["", /is empty; expected the JSON of an export/],
    ["{", /is not JSON/],
    ["[]", /not an object/],
    [documentOf({ url: "ftp://x" }), /Destinations, entry 1, at url is not an http/],
    [documentOf({ max_concurrency: 0 }), /Destinations, entry 1, at max_concurrency is 0/],
    [
      documentOf({}, { settings: { portal: { max_endpoints: -1 } } }),
      /Settings at portal\.max_endpoints is -1/,
    ],
    [documentOf({}, { version: 2 }), /Version is 2; expected 1/],
  ])("of %j changes nothing, and names its fault", async (document, text) => {
    const browser = await signedIn();
    for (const action of ["try", "import"]) {
      const { status, html } = await browser.post(IMPORT, { tenant: "acme", document, action });
      expect([status, textOf(html)]).toEqual([422, expect.stringMatching(text)]);
    }
    expect([await countRows("destinations"), await countRows("tenant_settings")]).toEqual([0, 0]);
  });

  it("with secrets in it is not shown again", async () => {
    const browser = await signedIn();
    const document = documentOf({ headers: { "X-Key": "canary-header" }, max_concurrency: 0 });
    for (const given of [document, `${document}}`, documentOf({ headers: { "X-Key": "canary-header" } })]) {
      const { html } = await browser.post(IMPORT, { tenant: "acme", document: given, action: "try" });
      expect(html).not.toContain("canary-header");
      expect(html).toContain("It may contain secrets, so it is not shown again");
    }
  });

  it("is refused to a tenant's key and to a read-only key", async () => {
    const form = { tenant: "acme", document: documentOf(), action: "import" };
    const [tenants, reads] = [await tenantsAdmin(), await reader()];
    expect((await tenants.get(`${IMPORT}?tenant=acme`)).status).toBe(404);
    expect((await reads.get(`${IMPORT}?tenant=acme`)).status).toBe(403);
    for (const browser of [tenants, reads]) expect((await browser.post(IMPORT, form)).status).toBe(422);
    expect(await countRows("destinations")).toBe(0);
  });
});

describe("a tenant", () => {
  const DELETE = `${SETTINGS}/delete`;

  it("is deleted after its name has been typed, and the erasure is shown in progress and as a receipt", async () => {
    const id = await destinationOf("acme");
    const browser = await signedIn();
    const asked = await browser.get(`${DELETE}?tenant=acme`);
    expect([asked.status, asked.html.includes("Type acme to confirm.")]).toEqual([200, true]);
    const { status, headers } = await browser.post(DELETE, { tenant: "acme", confirm: "acme" });
    const receipt = headers.get("location") ?? "";
    expect([status, receipt]).toEqual([303, expect.stringMatching(/^\/dashboard\/erasures\/era_\w+$/)]);
    const running = await browser.get(receipt);
    expect(running.html).toContain("data-live");
    expect(textOf(running.html)).toContain("Running All events are processed twice");
    await env.DB.prepare("UPDATE erasures SET state = 'completed', ended_at = ?1, events = 1234")
      .bind(NOW)
      .run();
    const ended = await browser.get(receipt);
    expect(ended.html).not.toContain("data-live");
    expect(textOf(ended.html)).toContain("This page is the receipt.");
    expect(textOf(ended.html)).toContain("Events erased 1,234");
    expect((await browser.get("/dashboard/erasures")).html).toContain(`href="${receipt}"`);
    expect((await call("GET", `/v1/destinations/${id}`)).status).toBe(404);
    expect(await actions()).toContain("tenant.deleted");
  });

  it.each(["", "Acme", "acme2", "other"])("is not deleted by the name %j", async (confirm) => {
    const id = await destinationOf("acme");
    await destinationOf("other");
    const { status, html } = await (await signedIn()).post(DELETE, { tenant: "acme", confirm });
    expect([status, faultAt(html, "confirm")]).toEqual([
      422,
      expect.stringContaining("is not that of the tenant to delete"),
    ]);
    expect((await call("GET", `/v1/destinations/${id}`)).status).toBe(200);
    expect(await countRows("erasures")).toBe(0);
  });

  it("cannot be deleted with its own key, with a read-only key, or from another site", async () => {
    await destinationOf("acme");
    const form = { tenant: "acme", confirm: "acme" };
    const [tenants, reads] = [await tenantsAdmin(), await reader()];
    expect((await tenants.get(`${DELETE}?tenant=acme`)).status).toBe(404);
    expect((await reads.get(`${DELETE}?tenant=acme`)).status).toBe(403);
    for (const browser of [tenants, reads]) expect((await browser.post(DELETE, form)).status).toBe(422);
    const foreign = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
    const operator = await signedIn();
    for (const path of [DELETE, `${SETTINGS}/import`, `${SETTINGS}/export`])
      expect([path, (await operator.post(path, form, foreign)).status]).toEqual([path, 403]);
    expect(await countRows("erasures")).toBe(0);
  });

  it("has erasures that no other tenant sees", async () => {
    await destinationOf("other");
    const operator = await signedIn();
    const form = { tenant: "other", confirm: "other" };
    const receipt = (await operator.post(DELETE, form)).headers.get("location") ?? "";
    const tenants = await tenantsAdmin();
    expect((await tenants.get(receipt)).status).toBe(404);
    expect((await tenants.get("/dashboard/erasures")).html).not.toContain("era_");
    expect((await operator.get(`${receipt}?tenant=acme`)).status).toBe(404);
  });
});
