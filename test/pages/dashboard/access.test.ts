/**
 * The dashboard for persons who sign in by Cloudflare Access: who is admitted, what each role sees, and the origin of writes.
 */
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Role } from "../../../src/core/roles.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { accessWith, assertionOf, payloadFor, publishedKeys, signingKey } from "../../support/assertions.ts";
import { testConfig } from "../../support/config.ts";
import { ORIGIN, testDashboard } from "../../support/dashboard.ts";

const OWN_PAGE = { origin: ORIGIN, "sec-fetch-site": "same-origin" };
const { call } = testApi();

let key: Awaited<ReturnType<typeof signingKey>>;
beforeAll(async () => {
  key = await signingKey("first");
});

let destination: string;
let rivals: string;
beforeEach(async () => {
  await emptyDatabase();
  const ids = ["acme", "globex"].map(async (tenant) => {
    const url = `https://${tenant}.example/hook`;
    return (await call("POST", "/v1/destinations", { url, tenant })).json.id as string;
  });
  [destination = "", rivals = ""] = await Promise.all(ids);
});

type Options = Readonly<{ isDown?: boolean; anonymous?: RateLimit; write?: RateLimit }>;

/** A browser behind Access, of a person under these rules. */
async function behindAccess(rules: string, { isDown = false, anonymous, write }: Options = {}) {
  const published = publishedKeys([key]);
  published.state.isDown = isDown;
  const browser = testDashboard({
    services: {
      config: testConfig({ access: accessWith(rules) }),
      fetch: published.fetch,
      anonymousLimit: anonymous,
      writeLimit: write,
    },
  });
  const assertion = await assertionOf(key, payloadFor("ann@example.com"));
  const header = { "cf-access-jwt-assertion": assertion };
  return {
    ...browser,
    assertion,
    get: (path: string, headers: Record<string, string> = header) => browser.get(path, headers),
    post: (path: string, fields = {}, headers: Record<string, string> = OWN_PAGE) =>
      browser.post(path, fields, { ...header, ...headers }),
  };
}

const inRole = (role: Role) => behindAccess(`ann@example.com: ${role}`);
const trail = async () => (await call("GET", "/v1/audit")).json.data;

describe("a person of Cloudflare Access", () => {
  it("sees the dashboard without a key, with name, role and a sign-out by Access", async () => {
    const { status, html } = await (await inRole("look")).get("/dashboard");
    expect(status).toBe(200);
    expect(html).toContain("ann@example.com, role look");
    expect(html).toContain('<a href="/cdn-cgi/access/logout">Sign out</a>');
    expect(html).not.toContain("/dashboard/sign-out");
  });

  it("is recognized by the cookie if the header is absent", async () => {
    const browser = await inRole("look");
    browser.setCookie(`CF_Authorization=${browser.assertion}`);
    expect((await browser.get("/dashboard", {})).status).toBe(200);
  });

  it("has no session of Breakwater: without an assertion the key is needed", async () => {
    const browser = await inRole("own");
    await browser.get("/dashboard");
    expect(browser.cookie()).toBe("");
    expect(await browser.get("/dashboard", {})).toMatchObject({ status: 401 });
  });

  it("is named by the audit trail", async () => {
    const browser = await inRole("repair");
    expect((await browser.post(`/dashboard/destinations/${destination}/pause`)).status).toBe(303);
    const [entry] = await trail();
    expect(entry).toMatchObject({
      action: "destination.paused",
      actor: { kind: "dashboard", key: null, session: null, person: "ann@example.com" },
    });
    const owner = await inRole("own");
    expect((await owner.get("/dashboard/audit")).html).toContain("At the dashboard, ann@example.com");
  });

  it("signs out by Access, also with the form of a session", async () => {
    const { status, headers } = await (await inRole("look")).post("/dashboard/sign-out");
    expect([status, headers.get("location")]).toEqual([303, "/cdn-cgi/access/logout"]);
    expect(await trail()).toHaveLength(2);
  });

  it("whom no rule names has no role, and may sign in with a key", async () => {
    const browser = await behindAccess("bob@example.com: own");
    const refused = await browser.get("/dashboard");
    expect(refused.status).toBe(403);
    expect(refused.html).toContain("ann@example.com has no role here");
    await browser.signIn();
    expect((await browser.get("/dashboard")).status).toBe(200);
  });

  it("with an invalid assertion is not signed in, and learns why", async () => {
    const browser = await inRole("own");
    const other = await assertionOf(key, payloadFor("ann@example.com", { aud: ["0b".repeat(32)] }));
    const refused = await browser.get("/dashboard", { "cf-access-jwt-assertion": other });
    expect(refused.status).toBe(401);
    expect(refused.html).toContain("is for another application than that of ACCESS_AUDIENCE");
  });

  it("is temporarily refused while the team's keys cannot be read", async () => {
    const browser = await behindAccess("ann@example.com: own", { isDown: true });
    const { status, headers } = await browser.get("/dashboard");
    expect([status, headers.get("retry-after")]).toEqual([503, "5"]);
    await browser.signIn();
    expect((await browser.get("/dashboard")).status).toBe(200);
  });

  it("is rate-limited like a key, and an invalid assertion like an invalid key", async () => {
    const counted: string[] = [];
    const none = { limit: async (by: { key: string }) => ({ success: counted.push(by.key) === 0 }) };
    const limited = { anonymous: none, write: none } as unknown as Options;
    const person = await behindAccess("ann@example.com: own", limited);
    const from = { ...OWN_PAGE, "cf-connecting-ip": "192.0.2.1" };
    expect((await person.post(`/dashboard/destinations/${destination}/pause`, {}, from)).status).toBe(429);
    const stranger = await behindAccess("bob@example.com: own", limited);
    const header = { "cf-access-jwt-assertion": stranger.assertion, "cf-connecting-ip": "192.0.2.1" };
    expect((await stranger.get("/dashboard", header)).status).toBe(429);
    expect(counted).toEqual(["person:ann@example.com", "192.0.2.1"]);
  });
});

describe("a role", () => {
  it.each<[Role, readonly string[], readonly string[]]>([
    [
      "look",
      [],
      ["Pause", "Edit", "Replace the secret", "Send a test event", "/dashboard/keys", "/dashboard/audit"],
    ],
    ["repair", ["Pause", "Send a test event"], ["/edit", "/rotate", "/dashboard/keys", "/dashboard/audit"]],
    [
      "configure",
      ["Pause", "/edit", "/rotate"],
      ["/dashboard/keys", "/dashboard/portal-links", "/dashboard/audit"],
    ],
    [
      "own",
      ["Pause", "/edit", "/rotate", "/dashboard/keys", "/dashboard/portal-links", "/dashboard/audit"],
      [],
    ],
  ])("%s sees only what it may do", async (role, shown, hidden) => {
    const { html } = await (await inRole(role)).get(`/dashboard/destinations/${destination}`);
    for (const text of shown) expect([text, html.includes(text)]).toEqual([text, true]);
    for (const text of hidden) expect([text, html.includes(text)]).toEqual([text, false]);
  });

  it.each<[Role, string, string]>([
    ["look", "pause", "repair"],
    ["look", "cancel-waiting", "repair"],
    ["repair", "rotate", "configure"],
    ["repair", "limits", "configure"],
  ])("%s that posts %s is refused by the service, with the role that it needs", async (role, verb, least) => {
    const before = await trail();
    const fields = { overlap_hours: "1", secret_version: "1", max_concurrency: "3" };
    const path = `/dashboard/destinations/${destination}/${verb}`;
    const { status, html } = await (await inRole(role)).post(path, fields);
    expect(status).toBe(422);
    expect(html).toContain(`Your role is ${role}, and this needs the role ${least}`);
    expect(await trail()).toEqual(before);
  });

  it.each([
    "keys",
    "portal-links",
    "audit",
    "settings/delete?tenant=acme",
  ])("configure does not see /dashboard/%s", async (page) => {
    const { status, html } = await (await inRole("configure")).get(`/dashboard/${page}`);
    expect(status).toBe(403);
    expect(html).toContain("The role configure does not allow this");
  });
});

describe("a person who is bound to tenants", () => {
  it("sees only one tenant, whatever the address says", async () => {
    const browser = await behindAccess("ann@example.com: own in acme");
    for (const path of ["/dashboard", "/dashboard?tenant=globex", "/dashboard/deliveries?tenant=globex"]) {
      const { html } = await browser.get(path);
      expect(html).not.toContain("globex.example");
    }
    expect((await browser.get(`/dashboard/destinations/${rivals}`)).status).toBe(404);
    expect((await browser.post(`/dashboard/destinations/${rivals}/pause`)).status).toBe(422);
    const made = await browser.post("/dashboard/keys", { scope_read: "on", tenant: "globex" });
    expect(made.html).toContain("The person is bound to another tenant");
  });

  it("chooses among several, and reaches no other", async () => {
    const browser = await behindAccess("ann@example.com: configure in globex, acme");
    const first = await browser.get("/dashboard");
    expect([first.html.includes("globex.example"), first.html.includes("acme.example")]).toEqual([
      true,
      false,
    ]);
    expect((await browser.get("/dashboard/tenants")).html).toContain("Your tenants");
    const second = await browser.get("/dashboard?tenant=acme");
    expect([second.html.includes("globex.example"), second.html.includes("acme.example")]).toEqual([
      false,
      true,
    ]);
    expect((await browser.get(`/dashboard/destinations/${destination}`)).status).toBe(200);
    expect((await browser.get(`/dashboard/destinations/${rivals}`)).status).toBe(404);
    await call("POST", "/v1/destinations", { url: "https://third.example/hook", tenant: "third" });
    for (const name of ["third", "", "operator"])
      expect((await browser.get(`/dashboard?tenant=${name}`)).html).not.toContain("third.example");
  });

  it("acts in the tenant that a form names, whatever another tab has chosen since", async () => {
    const browser = await behindAccess("ann@example.com: configure in globex, acme");
    await browser.get("/dashboard?tenant=globex");
    const form = { url: "https://new.example/hook", tenant: "acme" };
    expect((await browser.post("/dashboard/destinations/new", form)).status).toBe(200);
    const refused = await browser.post("/dashboard/destinations/new", { ...form, tenant: "third" });
    expect(refused.html).toContain("bound to another tenant");
    const [made] = await trail();
    expect(made).toMatchObject({ action: "destination.created", tenant: "acme" });
  });
});

describe("a write that does not come from a page of the dashboard", () => {
  it.each<[string, Record<string, string>]>([
    ["another site", { origin: "https://evil.example", "sec-fetch-site": "cross-site" }],
    [
      "another host of the site",
      { origin: "https://other.breakwater.example", "sec-fetch-site": "same-site" },
    ],
    ["nowhere", { origin: "null", "sec-fetch-site": "cross-site" }],
    ["no browser", {}],
    ["another site as JSON", { origin: "https://evil.example", "content-type": "application/json" }],
    ["another site without a type", { origin: "https://evil.example", "content-type": "" }],
  ])("is refused with the assertion that Access adds, when it comes from %s", async (_, headers) => {
    const browser = testDashboard({
      services: {
        config: testConfig({ access: accessWith("ann@example.com: own") }),
        fetch: publishedKeys([key]).fetch,
      },
    });
    const before = await trail();
    const assertion = await assertionOf(key, payloadFor("ann@example.com"));
    const all = { "cf-access-jwt-assertion": assertion, "sec-fetch-site": "", origin: "", ...headers };
    const { status } = await browser.post(`/dashboard/destinations/${destination}/pause`, {}, all);
    expect(status).toBe(403);
    expect(await trail()).toEqual(before);
  });
});
