/** The one tenant that an operator has chosen to see, and the audit trail. */
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { signedIn, signedInWith } from "../../support/dashboard.ts";

const { call } = testApi();
const textOf = (html: string) => html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

beforeEach(emptyDatabase);

async function destinationOf(tenant: string): Promise<string> {
  const body = { url: "https://example.com/hook", description: `Hook of ${tenant}!`, tenant };
  return (await call("POST", "/v1/destinations", body)).json.id;
}

describe("an operator", () => {
  it("chooses a tenant by its address, and all pages show it until all are chosen again", async () => {
    const [acme, other] = [await destinationOf("acme"), await destinationOf("other")];
    await call("POST", "/v1/events", { type: "order.paid", data: "hello", tenant: "acme" });
    await call("POST", "/v1/events", { type: "cart.left", data: "hello", tenant: "other" });
    const browser = await signedIn();
    const shown = async (path: string) => {
      const { html } = await browser.get(path);
      const text = textOf(html);
      return ["acme!", "other!"].map((name) => text.includes(`Hook of ${name}`));
    };
    expect(await shown("/dashboard")).toEqual([true, true]);
    expect(await shown("/dashboard?tenant=acme")).toEqual([true, false]);
    const pages = ["/dashboard", "/dashboard/destinations", "/dashboard/deliveries", "/dashboard/simulator"];
    for (const path of pages) expect([path, await shown(path)]).toEqual([path, [true, false]]);
    const found = await browser.get("/dashboard/search?q=hello");
    expect([found.html.includes("order.paid"), found.html.includes("cart.left")]).toEqual([true, false]);
    expect((await browser.get(`/dashboard/destinations/${acme}`)).status).toBe(200);
    for (const page of ["", "/certification"]) {
      const hidden = await browser.get(`/dashboard/destinations/${other}${page}`);
      expect([hidden.status, hidden.html.includes("You see only the tenant acme.")]).toEqual([404, true]);
    }
    expect((await browser.get(`/dashboard/destinations/${other}?tenant=`)).status).toBe(200);
    for (const path of pages) expect([path, await shown(path)]).toEqual([path, [true, true]]);
  });

  it("acts on the tenant that a form names, whatever tenant has been chosen meanwhile", async () => {
    const other = await destinationOf("other");
    const browser = await signedIn();
    await browser.get("/dashboard?tenant=acme");
    expect((await browser.post(`/dashboard/destinations/${other}/pause`)).status).toBe(303);
    const refused = await browser.post(`/dashboard/destinations/${other}/limits`, { timeout_ms: "x" });
    expect([refused.status, refused.html.includes("Hook of other!")]).toEqual([422, true]);
  });

  it("sees the tenant at the top and in the forms, and the existing tenants", async () => {
    await destinationOf("acme");
    const browser = await signedIn();
    expect(textOf((await browser.get("/dashboard/tenants")).html)).toMatch(/Tenants with destinations acme/);
    await browser.get("/dashboard?tenant=acme");
    expect((await browser.get("/dashboard")).html).toMatch(/href="\/dashboard\/tenants"[^>]*>.*?acme<\/a>/);
    expect((await browser.get("/dashboard/destinations/new")).html).toContain('name="tenant" value="acme"');
    expect((await browser.get("/dashboard/portal-links")).html).toContain('name="tenant" value="acme"');
  });

  it("forgets the tenant on signing out", async () => {
    const browser = await signedIn();
    await browser.get("/dashboard?tenant=acme");
    expect(browser.cookie()).toContain("acme");
    await browser.post("/dashboard/sign-out");
    expect(browser.cookie()).toBe("");
  });

  it.each([
    "<script>alert(1)</script>",
    "a".repeat(5_000),
    "no such",
    "a;b=c\r\nx: y",
  ])("sees nothing for %j, which is not a tenant, and the choice is not stored", async (name) => {
    await destinationOf("acme");
    const browser = await signedIn();
    const before = browser.cookie();
    for (const path of [
      "/dashboard",
      "/dashboard/audit",
      "/dashboard/keys",
      "/dashboard/settings",
      "/dashboard/search",
    ]) {
      const { status, html } = await browser.get(
        `${path}?${new URLSearchParams({ tenant: name, q: "order" })}`,
      );
      expect([path, status < 500, html.includes("<script>alert"), html.includes("Hook of")]).toEqual([
        path,
        true,
        false,
        false,
      ]);
    }
    expect(browser.cookie()).toBe(before);
  });
});

describe("a tenant's key", () => {
  it("sees its own tenant, whatever is requested", async () => {
    await destinationOf("acme");
    const other = await destinationOf("other");
    const browser = await signedInWith({ tenant: "acme", scopes: ["read", "admin"] });
    browser.setCookie(`${browser.cookie()}; __Host-breakwater-tenant=other`);
    const pages = ["", "/destinations", "/deliveries", "/simulator", "/audit", "/settings", "/search?q=hook"];
    for (const page of pages)
      for (const query of ["", "tenant=other", "tenant="]) {
        const { html } = await browser.get(`/dashboard${page}${page.includes("?") ? "&" : "?"}${query}`);
        expect([page, query, html.includes("other")]).toEqual([page, query, false]);
      }
    expect((await browser.get(`/dashboard/destinations/${other}?tenant=other`)).status).toBe(404);
    expect((await browser.get("/dashboard/tenants")).status).toBe(404);
  });
});

describe("the audit page", () => {
  it("shows changes with old and new values, and exports them, of the chosen tenant", async () => {
    const id = await destinationOf("acme");
    await destinationOf("other");
    await call("PATCH", `/v1/destinations/${id}`, { timeout_ms: 2000, description: "<b>New" });
    const browser = await signedIn();
    const { html } = await browser.get("/dashboard/audit?tenant=acme");
    expect(html).toContain("&lt;b&gt;New");
    expect(textOf(html)).toContain("timeout ms: 15000 , now → 2000");
    expect(textOf(html)).toContain("Destination: created");
    const only = await browser.get(`/dashboard/audit?subject=${id}&since=2020-01-01T00:00`);
    expect(only.html).toContain(`/dashboard/audit/export?subject=${id}&amp;since=2020-01-01T00%3A00`);
    const file = await browser.get(`/dashboard/audit/export?subject=${id}`);
    expect(file.headers.get("content-disposition")).toContain("audit.ndjson");
    const lines = file.html
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map(({ action, tenant }) => [action, tenant])).toEqual([
      ["destination.changed", "acme"],
      ["destination.created", "acme"],
    ]);
    const none = await browser.get("/dashboard/audit?since=2030-01-01T00:00");
    expect(none.html).toContain("No changes match");
    const faulty = await browser.get("/dashboard/audit?since=soon");
    expect([faulty.status, faulty.html.includes('id="f-since-fault"')]).toEqual([422, true]);
  });
});
