/** The notice channel on the pages of portal and dashboard. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";
import { signedIn } from "../../support/dashboard.ts";
import { visitor } from "../../support/portal.ts";
import { receivers } from "../../support/receivers.ts";

beforeEach(emptyDatabase);

const CHAT = "https://hooks.slack.example/services/very-secret";

async function endpointOf(tenant = "acme"): Promise<string> {
  const { json } = await testApi().call("POST", "/v1/destinations", {
    url: "https://example.com/hook",
    tenant,
  });
  return json.id;
}

const rowOf = (id: string) =>
  env.DB.prepare("SELECT notice_channel, notice_target FROM destinations WHERE id = ?1")
    .bind(id)
    .first<Record<string, string | null>>();

const form = { kind: "slack", target: CHAT, on_dead: "on", open_after_minutes: "5", language: "de" };

describe("a visitor of the portal", () => {
  it("sets a channel, whose URL is not shown again, tests it and removes it", async () => {
    const id = await endpointOf();
    const receiver = receivers();
    const options = { services: { fetch: receiver.fetch }, gate: { claimTest: async () => null } };
    const browser = await visitor("acme", {}, options);
    const path = `/portal/endpoints/${id}/notices`;
    expect((await browser.get(`/portal/endpoints/${id}`)).html).toContain(path);
    const set = await browser.post(path, form);
    expect([set.status, set.headers.get("location")]).toEqual([303, `/portal/endpoints/${id}?done=saved`]);
    expect(JSON.parse((await rowOf(id))?.notice_channel ?? "")).toEqual({
      kind: "slack",
      target: "https://hooks.slack.example/…",
      on: ["dead"],
      open_after_minutes: 5,
      language: "de",
    });
    const { html } = await browser.get(path);
    expect(html).toContain("https://hooks.slack.example/…");
    expect(html).not.toContain("very-secret");
    const tested = await browser.post(`${path}/test`);
    expect([tested.status, receiver.calls[0]?.url]).toEqual([200, CHAT]);
    expect(tested.html).toContain("The test notice was accepted.");
    // Without a target, the channel's current one stays.
    const { target: _, ...rest } = form;
    expect((await browser.post(path, { ...rest, language: "en" })).status).toBe(303);
    expect((await browser.post(`${path}/remove`)).status).toBe(303);
    expect(await rowOf(id)).toEqual({ notice_channel: null, notice_target: null });
  });

  it("sees each fault at the field, in its language, and keeps the input", async () => {
    const id = await endpointOf();
    const browser = await visitor("acme", { language: "de" });
    const { status, html } = await browser.post(`/portal/endpoints/${id}/notices`, {
      ...form,
      target: 'https://10.0.0.1/"><script>',
    });
    expect(status).toBe(422);
    expect(html).toMatch(/id="f-target-fault"><p>Geben Sie eine öffentliche URL an/);
    expect(html).toContain("https://10.0.0.1/&quot;&gt;&lt;script&gt;");
    expect(await rowOf(id)).toEqual({ notice_channel: null, notice_target: null });
  });

  it("is offered mail only if the deployment sends mails", async () => {
    const id = await endpointOf();
    const path = `/portal/endpoints/${id}/notices`;
    const without = await visitor("acme");
    expect((await without.get(path)).html).not.toContain('value="mail"');
    const alertEmail = { from: "a@example.com", to: "b@example.com" };
    const services = { config: testConfig({ alertEmail }), mailer: { send: async () => {} } as never };
    const browser = await visitor("acme", {}, { services });
    expect((await browser.get(path)).html).toContain('value="mail"');
  });

  it("without the right to edit sees the channel, and no form", async () => {
    const id = await endpointOf();
    await (await visitor("acme")).post(`/portal/endpoints/${id}/notices`, form);
    const before = await rowOf(id);
    const browser = await visitor("acme", { read_only: true });
    const path = `/portal/endpoints/${id}/notices`;
    const { html } = await browser.get(path);
    expect(html).toContain("https://hooks.slack.example/…");
    expect(html).not.toContain(`action="${path}`);
    for (const more of ["", "/remove", "/test"])
      expect((await browser.post(path + more, form)).status).toBe(403);
    expect(await rowOf(id)).toEqual(before);
  });

  it("finds no channel of another tenant's endpoint", async () => {
    const id = await endpointOf("other");
    const browser = await visitor("acme");
    const path = `/portal/endpoints/${id}/notices`;
    expect((await browser.get(path)).status).toBe(404);
    for (const more of ["", "/remove", "/test"])
      expect((await browser.post(path + more, form)).status).toBe(404);
    expect(await rowOf(id)).toEqual({ notice_channel: null, notice_target: null });
  });
});

describe("an operator at the dashboard", () => {
  it("sets a channel and removes it, and returns to the destination, which says so", async () => {
    const id = await endpointOf();
    const browser = await signedIn();
    const path = `/dashboard/destinations/${id}`;
    expect((await browser.get(`${path}/notices`)).html).toContain("The tenant acme gets a notice");
    for (const more of ["", "/remove"]) {
      const { status, headers } = await browser.post(`${path}/notices${more}`, form);
      expect([status, headers.get("location")]).toEqual([303, `${path}?done=saved`]);
    }
    expect((await browser.get(`${path}?done=saved`)).html).toContain("Saved. It applies from now on.");
    expect(await rowOf(id)).toEqual({ notice_channel: null, notice_target: null });
  });
});
