/** Keys that visitors of the portal make for a polled endpoint, and what they may do. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { accessUnder, type PortalRules } from "../../../src/core/portal-access.ts";
import {
  createPollKey,
  getPollKeys,
  MOST_POLL_KEYS,
  removePollKey,
} from "../../../src/features/keys/service.ts";
import { countRows, emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { testDashboard } from "../../support/dashboard.ts";
import { everythingStored } from "../../support/operations.ts";
import { enter, linkToken, testPortal, visitor } from "../../support/portal.ts";

const { call, services } = testApi({ services: { gates: env.GATES } });

beforeEach(emptyDatabase);

async function inboxOf(tenant = "acme"): Promise<string> {
  return (await call("POST", "/v1/destinations", { kind: "poll", tenant })).json.id;
}

async function keyOf(fields: object): Promise<string> {
  return (await call("POST", "/v1/keys", { scopes: ["poll"], ...fields })).json.id;
}

const withKey = (key: string) => ({ authorization: `Bearer ${key}` });
const keyIn = (html: string) => /<code id="key">(bw_[0-9a-z_]+)<\/code>/.exec(html)?.[1] ?? "";
const rows = async () => (await env.DB.prepare("SELECT * FROM api_keys").all()).results;

describe("a key that a visitor makes", () => {
  it("is shown once, polls the endpoint that it was made for, and does nothing else", async () => {
    const [id, other] = [await inboxOf(), await inboxOf()];
    const browser = await visitor("acme");
    const page = (await browser.get(`/portal/endpoints/${id}`)).html;
    expect(page).toContain(`/portal/endpoints/${id}/poll`);
    expect(page).toContain(`>Inbox ${id}</h1>`);
    // An inbox takes no test event, and nothing is sent to it.
    expect(page).not.toContain("Send a test event");
    expect(page).not.toMatch(/Nothing was sent|24 hours/);
    expect(page).toContain("your programs fetch its events");
    expect((await browser.get("/portal")).html).not.toMatch(/\d requests?, \d failed/);
    const made = await browser.post(`/portal/endpoints/${id}/poll`, { name: "Night <job>" });
    const key = keyIn(made.html);
    expect([made.status, made.headers.get("cache-control")]).toEqual([200, "no-store"]);
    const [row] = await rows();
    expect(row).toMatchObject({ tenant: "acme", scopes: '["poll"]', destination: id, made_in: "portal" });
    const polled = await call("GET", `/v1/destinations/${id}/poll`, undefined, withKey(key));
    expect([polled.status, polled.json.data]).toEqual([200, []]);
    for (const [method, path, body] of [
      ["GET", `/v1/destinations/${other}/poll`],
      ["POST", `/v1/destinations/${other}/poll/seek`, { since: null }],
    ] as const)
      expect((await call(method, path, body, withKey(key))).status).toBe(404);
    for (const path of [`/v1/destinations/${id}`, "/v1/keys", "/v1/deliveries", "/v1/events"])
      expect((await call("GET", path, undefined, withKey(key))).status).toBe(403);
    const { html } = await browser.get(`/portal/endpoints/${id}/poll`);
    expect(html).toContain("Night &lt;job&gt;");
    expect(html).not.toContain(key);
    const entry = (await call("GET", "/v1/audit?limit=1")).json.data[0];
    expect(entry).toMatchObject({ action: "api_key.created", tenant: "acme", actor: { kind: "portal" } });
  });

  it("comes with commands for the deployment and the endpoint, none of which contains the key", async () => {
    const id = await inboxOf();
    const browser = await visitor("acme", { language: "de" });
    const { html } = await browser.get(`/portal/endpoints/${id}/poll`);
    expect(html).toContain("Noch keine Schlüssel");
    expect(html).toContain(`breakwater listen 3000 --destination ${id}`);
    const made = await browser.post(`/portal/endpoints/${id}/poll`, {});
    expect(made.html.split(keyIn(made.html))).toHaveLength(2);
    expect(made.html).toContain(`/v1/destinations/${id}/poll/commit`);
  });

  it("expires with the key that made the link of the visit", async () => {
    const id = await inboxOf();
    const expires_at = new Date(NOW + 3_600_000).toISOString();
    const { key } = (await call("POST", "/v1/keys", { scopes: ["read", "admin"], expires_at })).json;
    const link = await call("POST", "/v1/portal-links", { tenant: "acme" }, withKey(key));
    const browser = testPortal();
    await enter(browser, new URL(link.json.url).searchParams.get("token") ?? "");
    expect(keyIn((await browser.post(`/portal/endpoints/${id}/poll`, {})).html)).not.toBe("");
    const row = (await rows()).find(({ made_in }) => made_in === "portal");
    expect(row?.expires_at).toBe(NOW + 3_600_000);
  });

  it("is revoked by a later visit of the tenant", async () => {
    const id = await inboxOf();
    const first = await visitor("acme");
    const key = keyIn((await first.post(`/portal/endpoints/${id}/poll`, {})).html);
    const [row] = await rows();
    const later = await visitor("acme");
    const revoked = await later.post(`/portal/endpoints/${id}/poll/keys/${row?.id}/revoke`);
    expect(revoked.headers.get("location")).toBe(`/portal/endpoints/${id}/poll?done=key-revoked`);
    const fresh = testApi({ services: { gates: env.GATES } });
    const polled = await fresh.call("GET", `/v1/destinations/${id}/poll`, undefined, withKey(key));
    expect(polled.status).toBe(401);
    expect((await later.get(`/portal/endpoints/${id}/poll`)).html).not.toContain(String(row?.id));
    expect((await later.post(`/portal/endpoints/${id}/poll/keys/${row?.id}/revoke`)).status).toBe(404);
  });

  it.each([
    ["x".repeat(101), /100 characters/],
  ])("cannot have a name that is too long, and the input stays", async (name, fault) => {
    const id = await inboxOf();
    const browser = await visitor("acme");
    const { status, html } = await browser.post(`/portal/endpoints/${id}/poll`, { name });
    expect([status, fault.test(html), html.includes(name)]).toEqual([422, true, true]);
    expect(await countRows("api_keys")).toBe(0);
  });

  it(`is one of ${MOST_POLL_KEYS} of the endpoint, those of the API among them, and revoked ones make room`, async () => {
    const id = await inboxOf();
    for (let i = 0; i < MOST_POLL_KEYS - 1; i++) {
      const made = { scopes: ["poll"], created_at: NOW, hash: "x", tenant: "acme", destination: id };
      await insertRow("api_keys", { id: `key_${String(i).padStart(20, "0")}`, ...made });
    }
    const browser = await visitor("acme");
    const post = () => browser.post(`/portal/endpoints/${id}/poll`, {});
    expect((await post()).status).toBe(200);
    const full = await post();
    expect([full.status, full.html.includes("the maximum number of keys")]).toEqual([422, true]);
    const refused = await call("POST", "/v1/keys", { scopes: ["poll"], destination_id: id });
    expect(refused).toMatchObject({ status: 409, json: { detail: expect.stringContaining("50 keys") } });
    const own = (await rows()).find(({ made_in }) => made_in === "portal");
    await browser.post(`/portal/endpoints/${id}/poll/keys/${own?.id}/revoke`);
    expect((await post()).status).toBe(200);
  });
});

describe("a visitor", () => {
  it("neither sees nor revokes a key of the endpoint that no visitor of its tenant has created", async () => {
    const [id, second, foreign] = [await inboxOf(), await inboxOf(), await inboxOf("globex")];
    const other = await visitor("globex");
    await other.post(`/portal/endpoints/${foreign}/poll`, {});
    const browser = await visitor("acme");
    await browser.post(`/portal/endpoints/${second}/poll`, {});
    const made = async (destination: string) =>
      String((await rows()).find((row) => row.destination === destination && row.made_in)?.id);
    const ids = [
      await keyOf({ destination_id: id }),
      await keyOf({ scopes: ["read", "admin"], tenant: "acme" }),
      await keyOf({ scopes: ["read", "admin"] }),
      await made(second),
      await made(foreign),
    ];
    const { html } = await browser.get(`/portal/endpoints/${id}/poll`);
    const before = await everythingStored();
    for (const key of ids) {
      expect(html).not.toContain(key);
      const revoked = await browser.post(`/portal/endpoints/${id}/poll/keys/${key}/revoke`);
      expect([key, revoked.status]).toEqual([key, 404]);
    }
    for (const path of [`/portal/endpoints/${foreign}/poll`, `/portal/endpoints/${foreign}/poll/`])
      expect((await browser.get(path)).status).toBe(404);
    expect((await browser.post(`/portal/endpoints/${foreign}/poll`, {})).status).toBe(404);
    const revoked = await browser.post(`/portal/endpoints/${foreign}/poll/keys/${ids[4]}/revoke`);
    expect(revoked.status).toBe(404);
    expect(await everythingStored()).toBe(before);
  });

  it("cannot create a key for an endpoint that is not polled, nor with fields of another key", async () => {
    const { json } = await call("POST", "/v1/destinations", { url: "https://example.com", tenant: "acme" });
    const browser = await visitor("acme");
    expect((await browser.get(`/portal/endpoints/${json.id}`)).html).not.toContain("/poll");
    expect((await browser.get(`/portal/endpoints/${json.id}/poll`)).status).toBe(404);
    expect((await browser.post(`/portal/endpoints/${json.id}/poll`, {})).status).toBe(404);
    expect(await countRows("api_keys")).toBe(0);
    const id = await inboxOf();
    const wanted = {
      name: "a",
      scopes: "admin",
      tenant: "globex",
      destination_id: json.id,
      expires_at: "2027",
    };
    expect((await browser.post(`/portal/endpoints/${id}/poll`, wanted)).status).toBe(200);
    expect(await rows()).toMatchObject([{ scopes: '["poll"]', tenant: "acme", destination: id }]);
  });

  it.each<[PortalRules]>([
    [{ may_poll: false }],
    [{ may_see_payloads: false }],
  ])("with %j is refused every service and page of keys", async (rules) => {
    const id = await inboxOf();
    const mine = await visitor("acme");
    await mine.post(`/portal/endpoints/${id}/poll`, {});
    const [row] = await rows();
    const browser = await visitor("acme", { access: rules });
    const before = await everythingStored();
    expect((await browser.get(`/portal/endpoints/${id}`)).html).not.toContain(`${id}/poll`);
    expect((await browser.get(`/portal/endpoints/${id}/poll`)).status).toBe(403);
    expect((await browser.post(`/portal/endpoints/${id}/poll`, {})).status).toBe(403);
    const revoke = `/portal/endpoints/${id}/poll/keys/${row?.id}/revoke`;
    expect((await browser.post(revoke)).status).toBe(403);
    const principal = { scopes: ["read", "admin"], tenant: "acme", visit: accessUnder(rules) } as const;
    const caller = { services, principal };
    for (const result of [
      await getPollKeys(caller, id),
      await createPollKey(caller, { destination: id, input: {} }),
      await removePollKey(caller, { destination: id, id: String(row?.id) }),
    ])
      expect(result.kind).toBe("forbidden");
    expect(await everythingStored()).toBe(before);
  });

  it("with a read-only link is redirected to the endpoint's page, which offers no keys", async () => {
    const id = await inboxOf();
    const browser = testPortal();
    await enter(browser, await linkToken({ tenant: "acme", read_only: true }));
    const { html } = await browser.get(`/portal/endpoints/${id}`);
    expect(html).not.toContain(`${id}/poll`);
    expect(html).toContain("your programs fetch its events");
  });
});

describe("the page of a polled endpoint", () => {
  it("shows its consumers, and how far each is behind", async () => {
    const id = await inboxOf();
    const options = { services: { gates: env.GATES } };
    const browser = await visitor("acme", { language: "de" }, options);
    const path = `/portal/endpoints/${id}`;
    expect((await browser.get(path)).html).toContain("noch niemand abgeholt");
    await call("GET", `/v1/destinations/${id}/poll?consumer=nightly`);
    const { html } = await browser.get(path);
    expect(html).toMatch(/<td class="main">nightly<\/td><td>0<\/td><td>–<\/td>/);
  });
});

describe("the dashboard", () => {
  it("lists the keys of a polled destination, and creates one that can only poll it", async () => {
    const id = await inboxOf();
    await keyOf({ scopes: ["read"], name: "Unrelated" });
    const portal = await visitor("acme");
    await portal.post(`/portal/endpoints/${id}/poll`, { name: "Theirs" });
    const browser = testDashboard();
    await browser.signIn();
    const page = `/dashboard/keys?destination=${id}`;
    const { html } = await browser.get(page);
    expect(html).toContain("Theirs");
    expect(html).toContain("made in the portal");
    expect(html).not.toContain("Unrelated");
    expect(html).toContain(`name="destination_id" value="${id}"`);
    const made = await browser.post("/dashboard/keys", { scope_poll: "on", destination_id: id });
    expect([made.status, keyIn(made.html) !== ""]).toEqual([200, true]);
    const listed = (await call("GET", `/v1/keys?destination_id=${id}`)).json.data;
    expect(listed.map((one: { made_in: string }) => one.made_in).sort()).toEqual([null, "portal"]);
  });
});
