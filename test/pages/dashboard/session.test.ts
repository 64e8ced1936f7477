import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { readToken, signToken } from "../../../src/secrets/tokens.ts";
import { emptyDatabase, KEY, NOW, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";
import { ORIGIN, testDashboard } from "../../support/dashboard.ts";
import { visitor } from "../../support/portal.ts";
import { keysOf, MASTER_KEYS } from "../../support/vault.ts";

const HOUR = 3_600_000;
const config = testConfig();
const guessed = testConfig({ adminKey: "guess-guess-guess-guess" });
const guessedMasterKey = testConfig({ masterKeys: keysOf(`test:${btoa("guess".repeat(8).slice(0, 32))}`) });
const isIn = (answer: { status: number; html: string }) =>
  answer.status === 200 && answer.html.includes("Sign out");

beforeEach(emptyDatabase);

describe("a session", () => {
  it("is opened by a key, and shows the dashboard", async () => {
    const browser = testDashboard();
    expect(await browser.get("/dashboard")).toMatchObject({
      status: 401,
      html: expect.stringContaining("API key"),
    });
    const answer = await browser.signIn();
    expect([answer.status, answer.headers.get("location")]).toEqual([303, "/dashboard"]);
    expect(isIn(await browser.get("/dashboard"))).toBe(true);
  });

  it("travels in a cookie that scripts cannot read and other sites cannot send", async () => {
    const { headers } = await testDashboard().signIn();
    const cookie = headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(
      /^__Host-breakwater=[^;]+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
    );
    expect(cookie).not.toContain(KEY);
  });

  it.each(["", "wrong-wrong-wrong-wrong", `${KEY}x`])("is not opened by the key %j", async (key) => {
    const browser = testDashboard();
    expect(await browser.signIn(key)).toMatchObject({
      status: 401,
      html: expect.stringContaining("not valid"),
    });
    expect(browser.cookie()).toBe("");
  });

  it("ends by itself after twelve hours", async () => {
    const browser = testDashboard();
    await browser.signIn();
    const at = async (now: number) => {
      const later = testDashboard({ services: { now: () => now } });
      later.setCookie(browser.cookie());
      return isIn(await later.get("/dashboard"));
    };
    expect([await at(NOW + 12 * HOUR - 1000), await at(NOW + 12 * HOUR)]).toEqual([true, false]);
  });

  it("ends at sign-out for every copy of its cookie", async () => {
    const [browser, thief] = [testDashboard(), testDashboard()];
    await browser.signIn();
    thief.setCookie(browser.cookie());
    expect(isIn(await thief.get("/dashboard"))).toBe(true);
    await browser.post("/dashboard/sign-out");
    expect([isIn(await thief.get("/dashboard")), isIn(await browser.get("/dashboard"))]).toEqual([
      false,
      false,
    ]);
  });

  it("ends when ADMIN_KEY changes", async () => {
    const browser = testDashboard();
    await browser.signIn();
    const rekeyed = testDashboard({ adminKey: "another-key-0123456789" });
    rekeyed.setCookie(browser.cookie());
    expect(isIn(await rekeyed.get("/dashboard"))).toBe(false);
  });

  it("survives a new master key in front of the old one, and ends when the old one is removed", async () => {
    const newer = `k2:${btoa("2".repeat(32))}`;
    const browser = testDashboard();
    await browser.signIn();
    const later = (keys: string) => {
      const config = testConfig({ masterKeys: keysOf(keys) });
      const copy = testDashboard({ services: { config } });
      copy.setCookie(browser.cookie());
      return copy;
    };
    expect(isIn(await later(`${newer},${MASTER_KEYS}`).get("/dashboard"))).toBe(true);
    expect(isIn(await later(newer).get("/dashboard"))).toBe(false);
    const between = later(`${newer},${MASTER_KEYS}`);
    await between.signIn();
    browser.setCookie(between.cookie());
    expect(isIn(await later(newer).get("/dashboard"))).toBe(true);
  });

  it("ends with the key that opened it, and shows only that key's tenant", async () => {
    const api = testApi();
    for (const tenant of ["acme", "other"]) {
      await api.call("POST", "/v1/destinations", { url: `https://${tenant}.example/hook`, tenant });
    }
    const { json: key } = await api.call("POST", "/v1/keys", { scopes: ["read"], tenant: "acme" });
    const browser = testDashboard();
    await browser.signIn(key.key);
    const { html } = await browser.get("/dashboard");
    expect([html.includes("acme.example"), html.includes("other.example")]).toEqual([true, false]);
    await api.call("DELETE", `/v1/keys/${key.id}`);
    expect(isIn(await browser.get("/dashboard"))).toBe(false);
    await env.DB.prepare("DELETE FROM api_keys").run();
    expect(isIn(await browser.get("/dashboard"))).toBe(false);
  });

  it("is not opened by a visit of the portal, and its cookie does not open the portal", async () => {
    const portal = await visitor("acme");
    const [, token = ""] = portal.cookie().split("=");
    const browser = testDashboard();
    for (const name of ["__Host-breakwater", "__Host-breakwater-portal"]) {
      browser.setCookie(`${name}=${token}`);
      expect(isIn(await browser.get("/dashboard"))).toBe(false);
    }
    await browser.signIn();
    const [, own = ""] = /__Host-breakwater=([^;]*)/.exec(browser.cookie()) ?? [];
    expect(own).not.toBe("");
    portal.setCookie(`__Host-breakwater-portal=${own}`);
    expect((await portal.get("/portal")).status).toBe(401);
  });

  it("is not opened by a key without the scope read", async () => {
    const { json: key } = await testApi().call("POST", "/v1/keys", { scopes: ["events:write"] });
    const answer = await testDashboard().signIn(key.key);
    expect(answer).toMatchObject({ status: 401, html: expect.stringContaining("lacks the scope read") });
  });

  it("cannot be forged", async () => {
    const browser = testDashboard();
    await browser.signIn();
    const [name, token = ""] = browser.cookie().split("=");
    const [head, body = "", signature] = token.split(".");
    const claims = JSON.parse(atob(body.replaceAll("-", "+").replaceAll("_", "/")));
    const encode = (value: object) => btoa(JSON.stringify(value)).replace(/=+$/, "");
    const { id } = (await readToken(config, "session", token, NOW)) ?? { id: "" };
    const own = { id, keyId: null, tenant: null, scopes: ["read"] as const, expiresAt: NOW + HOUR };
    const forged = [
      "",
      "nonsense",
      id,
      `${head}.${body}.`,
      `${head}.${encode({ ...claims, exp: claims.exp + 1 })}.${signature}`,
      `${encode({ alg: "none", typ: "JWT" })}.${body}.`,
      await signToken(guessed, "session", own),
      await signToken(guessedMasterKey, "session", own),
      await signToken(config, "portal", own),
      await signToken(config, "session", { ...own, id: "never-opened" }),
    ];
    for (const value of forged) {
      browser.setCookie(`${name}=${value}`);
      expect([value, isIn(await browser.get("/dashboard"))]).toEqual([value, false]);
    }
    browser.setCookie(`${name}=${token}`);
    expect(isIn(await browser.get("/dashboard"))).toBe(true);
  });
});

describe("posts", () => {
  it.each([
    ["another site", { origin: "https://evil.example", "sec-fetch-site": "cross-site" }],
    ["a sibling of the site", { origin: "https://other.breakwater.example", "sec-fetch-site": "same-site" }],
    ["an unknown origin", { origin: "null", "sec-fetch-site": "cross-site" }],
  ])("from %s are refused", async (_who, headers) => {
    const browser = testDashboard();
    await browser.signIn();
    expect((await browser.post("/dashboard/sign-out", {}, headers)).status).toBe(403);
    expect((await browser.post("/dashboard/sign-in", { key: KEY }, headers)).status).toBe(403);
    expect(isIn(await browser.get("/dashboard"))).toBe(true);
  });

  it("without an origin are refused", async () => {
    const browser = testDashboard();
    await browser.signIn();
    const { status } = await browser.post("/dashboard/sign-out", {}, { origin: "", "sec-fetch-site": "" });
    expect(status).toBe(403);
  });
});

describe("every page", () => {
  it("forbids inline content, content of other hosts, and being framed", async () => {
    const browser = testDashboard();
    await browser.signIn();
    for (const path of ["/dashboard", "/dashboard/nowhere", "/dashboard/enter"]) {
      const { headers, html } = await browser.get(path);
      const policy = headers.get("content-security-policy") ?? "";
      expect(policy).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      );
      expect(headers.get("referrer-policy")).toBe("same-origin");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(html).not.toMatch(/<script(?! src="\/dashboard\/)|<style|\sstyle=|\son\w+=/);
      for (const [, to = ""] of html.matchAll(/(?:src|href|action)="([^"]*)"/g)) {
        expect(new URL(to, ORIGIN).origin).toBe(ORIGIN);
      }
    }
  });

  it("is cached by no browser and no proxy", async () => {
    const browser = testDashboard();
    await browser.signIn();
    expect((await browser.get("/dashboard")).headers.get("cache-control")).toBe("no-store");
  });
});
