/** Links and the visits that they open: once, for a while, for one tenant; and what the pages' headers promise. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { signToken } from "../../../src/secrets/tokens.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";
import { ORIGIN, testDashboard } from "../../support/dashboard.ts";
import { enter, linkToken, testPortal, visitor } from "../../support/portal.ts";
import { keysOf, MASTER_KEYS } from "../../support/vault.ts";

const HOUR = 3_600_000;
const config = testConfig();
const guessed = testConfig({ adminKey: "guess-guess-guess-guess" });
const guessedMasterKey = testConfig({ masterKeys: keysOf(`test:${btoa("guess".repeat(8).slice(0, 32))}`) });
const visit = { rules: {}, language: null, theme: null, return_url: null };
const isIn = (answer: { status: number; html: string }) =>
  answer.status === 200 && answer.html.includes('action="/portal/leave"');

beforeEach(emptyDatabase);

describe("a link", () => {
  it("opens the portal of its tenant, and of no other", async () => {
    const { call } = testApi();
    await call("POST", "/v1/destinations", { url: "https://acme.example/hook", tenant: "acme" });
    const other = await call("POST", "/v1/destinations", {
      url: "https://other.example/hook",
      tenant: "other",
    });
    const browser = testPortal();
    const token = await linkToken({ tenant: "acme", expires_in_s: 600 });
    const shown = await browser.get(`/portal/enter?token=${token}`);
    expect([shown.status, browser.cookie()]).toEqual([200, ""]);
    expect((await enter(browser, token)).status).toBe(303);
    const { html } = await browser.get("/portal");
    expect([html.includes("acme.example"), html.includes("other.example")]).toEqual([true, false]);
    for (const page of ["", "/change", "/verify"])
      expect((await browser.get(`/portal/endpoints/${other.json.id}${page}`)).status).toBe(404);
  });

  it("leads to the portal, on the host that was requested", async () => {
    const { json } = await testApi().call("POST", "/v1/portal-links", { tenant: "acme" });
    expect(new URL(json.url).pathname).toBe("/portal/enter");
    expect((await testDashboard().get(json.url.replace(/^https?:\/\/[^/]+/, ""))).status).not.toBe(200);
  });

  it("opens one visit and no second one, also when it is opened twice at once", async () => {
    const token = await linkToken({ tenant: "acme" });
    const [first, second] = [testPortal(), testPortal()];
    const answers = await Promise.all([enter(first, token), enter(second, token)]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([303, 403]);
    const again = testPortal();
    expect(await enter(again, token)).toMatchObject({
      status: 403,
      html: expect.stringContaining("already been used"),
    });
    expect(again.cookie()).toBe("");
  });

  it("stays used after the visitor has signed out, and after other visits", async () => {
    const token = await linkToken({ tenant: "acme", expires_in_s: 7 * 24 * 3600 });
    const browser = testPortal();
    await enter(browser, token);
    await browser.post("/portal/leave");
    const later = testPortal({ services: { now: () => NOW + 6 * 24 * HOUR } });
    expect((await enter(later, token)).status).toBe(403);
  });

  it("and the visit that it opened end with the key that made it", async () => {
    const api = testApi();
    const { json: key } = await api.call("POST", "/v1/keys", { scopes: ["read", "admin"], tenant: "acme" });
    const authorization = `Bearer ${key.key}`;
    const makeOne = async () => {
      const { json } = await api.call("POST", "/v1/portal-links", { tenant: "acme" }, { authorization });
      return new URL(json.url).searchParams.get("token") ?? "";
    };
    const [browser, late] = [testPortal(), testPortal()];
    const [first, second] = [await makeOne(), await makeOne()];
    await enter(browser, first);
    expect(isIn(await browser.get("/portal"))).toBe(true);
    await api.call("DELETE", `/v1/keys/${key.id}`);
    expect(isIn(await browser.get("/portal"))).toBe(false);
    await enter(late, second);
    expect(isIn(await late.get("/portal"))).toBe(false);
  });

  it("expires", async () => {
    const token = await linkToken({ tenant: "acme", expires_in_s: 60 });
    const late = testPortal({ services: { now: () => NOW + 60_000 } });
    expect((await late.get(`/portal/enter?token=${token}`)).status).toBe(403);
    expect((await enter(late, token)).status).toBe(403);
  });

  it("works after a new master key was put in front, but not after the old one is removed", async () => {
    const newer = `k2:${btoa("2".repeat(32))}`;
    const token = await linkToken({ tenant: "acme" });
    const during = testConfig({ masterKeys: keysOf(`${newer},${MASTER_KEYS}`) });
    const after = testConfig({ masterKeys: keysOf(newer) });
    expect((await enter(testPortal({ services: { config: after } }), token)).status).toBe(403);
    expect((await enter(testPortal({ services: { config: during } }), token)).status).toBe(303);
  });

  it("cannot be forged, nor made of a session or of a token without a visitor", async () => {
    const scopes = ["read"] as const;
    const claims = { id: "x", keyId: null, tenant: "acme", scopes, expiresAt: NOW + HOUR, visit };
    const token = await linkToken({ tenant: "acme" });
    const forged = [
      "",
      `${token}x`,
      await signToken(guessed, "portal", claims),
      await signToken(guessedMasterKey, "portal", claims),
      await signToken(config, "session", claims),
      await signToken(config, "portal_session", claims),
      await signToken(config, "portal", { ...claims, tenant: null }),
      await signToken(config, "portal", { ...claims, visit: undefined }),
      await signToken(config, "portal", { ...claims, visit: { ...visit, rules: { may_fly: true } } }),
      await signToken(config, "portal", {
        ...claims,
        visit: { ...visit, return_url: "javascript:alert(1)" },
      }),
    ];
    for (const value of forged) {
      expect((await enter(testPortal(), value)).status).toBe(403);
      expect((await testPortal().get(`/portal/enter?token=${value}`)).status).toBe(403);
    }
  });

  it.each([
    [{}, "tenant"],
    [{ tenant: "a b" }, "tenant"],
    [{ tenant: "acme", expires_in_s: 59 }, "expires_in_s"],
    [{ tenant: "acme", expires_in_s: 604_801 }, "expires_in_s"],
    [{ tenant: "acme", read_only: "yes" }, "read_only"],
    [{ tenant: "acme", access: { may_rotate: 1 } }, "access.may_rotate"],
    [{ tenant: "acme", access: { max_endpoints: -1 } }, "access.max_endpoints"],
    [{ tenant: "acme", access: { rate_per_second: 0 } }, "access.rate_per_second"],
    [{ tenant: "acme", access: { admin: true } }, "access.admin"],
    [{ tenant: "acme", language: "fr" }, "language"],
    [{ tenant: "acme", theme: "pink" }, "theme"],
    [{ tenant: "acme", return_url: "http://shop.example/" }, "return_url"],
    [{ tenant: "acme", return_url: "javascript:alert(1)//https://shop.example" }, "return_url"],
    [{ tenant: "acme", return_url: "https://user:secret@shop.example/" }, "return_url"],
  ])("is not created from %j", async (body, field) => {
    const answer = await testApi().call("POST", "/v1/portal-links", body);
    expect(answer).toMatchObject({ status: 422, json: { errors: [{ field }] } });
  });

  it("is made only with the scope admin, and with a tenant's key only for that tenant", async () => {
    const as = (principal: object, body: object = {}) =>
      testApi({ authenticate: async () => principal as never }).call("POST", "/v1/portal-links", {
        tenant: "acme",
        ...body,
      });
    expect((await as({ scopes: ["read", "events:write"] })).status).toBe(403);
    expect((await as({ scopes: ["admin"], tenant: "other" })).status).toBe(403);
    expect((await as({ scopes: ["admin"], tenant: "acme" })).status).toBe(403);
    expect((await as({ scopes: ["admin", "read"], tenant: "acme" })).status).toBe(201);
    expect((await as({ scopes: ["admin", "read"], tenant: "acme" }, { read_only: true })).status).toBe(201);
  });
});

describe("a visit", () => {
  it("travels in a cookie that scripts cannot read and other sites cannot send", async () => {
    const { headers } = await enter(testPortal(), await linkToken({ tenant: "acme" }));
    expect(headers.get("set-cookie")).toMatch(
      /^__Host-breakwater-portal=[^;]+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
    );
  });

  const portalOrigins = ["https://shop.example"];
  const framing = { services: { config: testConfig({ portalOrigins }) } };

  it.each([
    ["the browser says so", { "sec-fetch-dest": "iframe" }, {}],
    ["the browser says nothing, and the page's script does", {}, { framed: "1" }],
  ])("in a frame travels in a partitioned cookie when %s", async (_, headers, fields) => {
    const token = await linkToken({ tenant: "acme" });
    const browser = testPortal(framing);
    const answer = await browser.post("/portal/enter", { token, ...fields }, headers);
    expect(answer.headers.get("set-cookie")).toMatch(
      /^__Host-breakwater-portal=[^;]+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=None; Partitioned$/,
    );
    expect(isIn(await browser.get("/portal"))).toBe(true);
  });

  it("has no such cookie if no page may show the portal in a frame", async () => {
    const token = await linkToken({ tenant: "acme" });
    const answer = await testPortal().post(
      "/portal/enter",
      { token, framed: "1" },
      { "sec-fetch-dest": "iframe" },
    );
    expect(answer.headers.get("set-cookie")).toContain("SameSite=Lax");
  });

  it("ends by itself after twelve hours, and at once for every copy of its cookie when the visitor signs out", async () => {
    const browser = await visitor("acme");
    const at = async (now: number) => {
      const later = testPortal({ services: { now: () => now } });
      later.setCookie(browser.cookie());
      return isIn(await later.get("/portal"));
    };
    expect([await at(NOW + 12 * HOUR - 1000), await at(NOW + 12 * HOUR)]).toEqual([true, false]);
    const thief = testPortal();
    thief.setCookie(browser.cookie());
    await browser.post("/portal/leave");
    expect(isIn(await thief.get("/portal"))).toBe(false);
  });

  it.each([
    "{",
    "null",
    '{"rules":{}}',
    '{"rules":{"may_fly":true}}',
  ])("edited into %s is invalid", async (portal) => {
    const browser = await visitor("acme");
    await env.DB.prepare("UPDATE sessions SET portal = ?1").bind(portal).run();
    expect((await browser.get("/portal")).status).toBe(401);
  });

  it("is shown in the language and the theme of its link, which the visitor may change", async () => {
    const browser = await visitor("acme", { language: "de", theme: "dark" });
    const first = await browser.get("/portal");
    expect(first.html).toContain('<html lang="de" data-theme="dark">');
    const { headers } = await browser.post("/portal/preferences", {
      language: "en",
      theme: "light",
      back: "/portal/event-types?after=a",
    });
    expect(headers.get("location")).toBe("/portal/event-types?after=a");
    expect((await browser.get("/portal")).html).toContain('<html lang="en" data-theme="light">');
  });

  it.each([
    "https://evil.example/",
    "//evil.example",
    "/portal@evil.example",
    "/portal/../dashboard",
    "/portal\\evil",
    "/portalx",
    "/dashboard",
    "",
  ])("returns only to its own pages: %j", async (back) => {
    const browser = await visitor("acme");
    const { headers } = await browser.post("/portal/preferences", { language: "fr", theme: "x", back });
    expect(headers.get("location")).toBe("/portal");
    expect((await browser.get("/portal")).html).toContain('<html lang="en" data-theme="auto">');
  });

  it.each([
    [undefined, "en"],
    ["de", "de"],
    ["fr, de-AT;q=0.8, en;q=0.9", "en"],
    ["fr, de-AT;q=0.8, en;q=0.7", "de"],
    ["de;q=0, en", "en"],
    ["*;q=1, ;;;, de;q=nonsense", "de"],
    ["x".repeat(10_000), "en"],
  ])("without a language setting has that of the browser: %j", async (header, language) => {
    const token = await linkToken({ tenant: "acme" });
    const accept: Record<string, string> = header === undefined ? {} : { "accept-language": header };
    const { html } = await testPortal().get(`/portal/enter?token=${token}`, accept);
    expect(html).toContain(`<html lang="${language}"`);
  });

  it("takes language and theme also from the address of the link", async () => {
    const browser = testPortal();
    const token = await linkToken({ tenant: "acme" });
    const { html } = await browser.get(`/portal/enter?token=${token}&language=de&theme=dark`);
    expect(html).toContain('<html lang="de" data-theme="dark">');
    await enter(browser, token, { language: "de", theme: "dark" });
    expect((await browser.get("/portal")).html).toContain('<html lang="de" data-theme="dark">');
  });
});

describe("posts", () => {
  it.each([
    ["another site", { origin: "https://evil.example", "sec-fetch-site": "cross-site" }],
    ["the page around the frame", { origin: "https://shop.example", "sec-fetch-site": "cross-site" }],
    ["a sibling of the site", { origin: "https://other.breakwater.example", "sec-fetch-site": "same-site" }],
    ["an unknown origin", { origin: "null", "sec-fetch-site": "cross-site" }],
    ["nowhere", { origin: "", "sec-fetch-site": "" }],
  ])("from %s are refused", async (_who, headers) => {
    const options = { services: { config: testConfig({ portalOrigins: ["https://shop.example"] }) } };
    const browser = await visitor("acme", {}, options);
    expect((await browser.post("/portal/leave", {}, headers)).status).toBe(403);
    const token = await linkToken({ tenant: "acme" });
    expect((await browser.post("/portal/enter", { token }, headers)).status).toBe(403);
    expect(isIn(await browser.get("/portal"))).toBe(true);
  });
});

describe("every page", () => {
  const paths = ["/portal", "/portal/nowhere", "/portal/enter?token=x", "/portal/endpoints/new"];
  const policyWith = (images: string, ancestors: string) =>
    `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'${images}; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors ${ancestors}`;

  it("forbids inline content, content of other hosts, and being framed", async () => {
    const browser = await visitor("acme");
    for (const path of paths) {
      const { headers, html } = await browser.get(path);
      expect(headers.get("content-security-policy")).toBe(policyWith("", "'none'"));
      expect(headers.get("referrer-policy")).toBe("same-origin");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(html).not.toMatch(/<script(?! src="\/portal\/)|<style|\sstyle=|\son\w+=/);
      for (const [, to = ""] of html.matchAll(/(?:src|href|action)="([^"]*)"/g))
        expect(new URL(to, ORIGIN).origin).toBe(ORIGIN);
    }
  });

  it("may be framed by the configured origins, and no other page may be framed", async () => {
    const portalOrigins = ["https://shop.example", "https://app.shop.example:8443"];
    const services = { config: testConfig({ portalOrigins }) };
    const browser = await visitor("acme", {}, { services });
    for (const path of paths) {
      const { headers } = await browser.get(path);
      expect(headers.get("content-security-policy")).toBe(policyWith("", portalOrigins.join(" ")));
      expect(headers.get("x-frame-options")).toBeNull();
    }
    const dashboard = testDashboard({ services });
    await dashboard.signIn();
    const { headers } = await dashboard.get("/dashboard");
    expect(headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    expect(headers.get("x-frame-options")).toBe("DENY");
  });

  const png = "data:image/png;base64,iVBORw0KGgo=";

  it.each([
    [{ name: "Shop", logo: "https://cdn.shop.example/logo.svg" }, " https://cdn.shop.example"],
    [{ name: "Shop", logo: png }, " data:"],
  ])("shows the tenant's name and logo, and allows only that image: %j", async (branding, source) => {
    await testApi().call("PATCH", "/v1/tenants/acme", { branding: { ...branding, accent: "#AA3366" } });
    const browser = await visitor("acme");
    const { headers, html } = await browser.get("/portal");
    expect(headers.get("content-security-policy")).toBe(policyWith(source, "'none'"));
    expect(html).toContain(`<img src="${branding.logo}" alt=""`);
    expect(html).toContain("<span>Shop</span>");
    const { html: css, headers: type } = await browser.get("/portal/accents/aa3366.css");
    expect(html).toContain('href="/portal/accents/aa3366.css"');
    expect([type.get("content-type"), css.includes("--accent:")]).toEqual(["text/css; charset=utf-8", true]);
    expect((await (await visitor("other")).get("/portal")).html).not.toContain("Shop");
  });

  it("has the deployment's branding if the tenant has none", async () => {
    const services = { config: testConfig({ portalBranding: { name: "Deployment", accent: "#0b6a72" } }) };
    await testApi().call("PATCH", "/v1/tenants/acme", { branding: { name: "Acme" } });
    const [own, other] = [await visitor("acme", {}, { services }), await visitor("other", {}, { services })];
    const [first, second] = [await own.get("/portal"), await other.get("/portal")];
    expect([first.html.includes("<span>Acme</span>"), first.html.includes("0b6a72.css")]).toEqual([
      true,
      true,
    ]);
    expect(second.html).toContain("<span>Deployment</span>");
  });

  it("ignores branding that was edited into nonsense", async () => {
    await testApi().call("PATCH", "/v1/tenants/acme", { branding: { name: "Shop" } });
    const hostile = { name: "x", logo: "javascript:alert(1)", accent: "red;}body{" };
    await env.DB.prepare("UPDATE tenant_settings SET branding = ?1").bind(JSON.stringify(hostile)).run();
    const { html, headers } = await (await visitor("acme")).get("/portal");
    expect(html).not.toMatch(/javascript:|<img|accents/);
    expect(headers.get("content-security-policy")).toBe(policyWith("", "'none'"));
  });

  it("links back to the sender's page", async () => {
    const browser = await visitor("acme", { return_url: "https://shop.example/settings?a=1&b=2" });
    expect((await browser.get("/portal")).html).toContain(
      'href="https://shop.example/settings?a=1&amp;b=2" target="_top" rel="noreferrer"',
    );
  });
});
