/** Changes by visitors of the portal, as the tables show them, and refusals: at the field, in the form's words. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventNumber } from "../../../src/ids.ts";
import { createPortal } from "../../../src/pages/portal/app.tsx";
import { countRows, emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { everythingStored } from "../../support/operations.ts";
import { visitor } from "../../support/portal.ts";
import { receivers } from "../../support/receivers.ts";

beforeEach(emptyDatabase);

const URL_OF_HOOK = "https://example.com/hook";

async function endpointOf(tenant = "acme", settings: object = {}): Promise<string> {
  const { json } = await testApi().call("POST", "/v1/destinations", {
    url: URL_OF_HOOK,
    tenant,
    ...settings,
  });
  return json.id;
}

const rowOf = (id: string) =>
  env.DB.prepare("SELECT * FROM destinations WHERE id = ?1").bind(id).first<Record<string, unknown>>();
const anyRow = () => env.DB.prepare("SELECT * FROM destinations").first<Record<string, unknown>>();

async function deadDelivery(endpoint: string, tenant = "acme"): Promise<string> {
  const { json } = await testApi().call("POST", "/v1/events", { type: "order.paid", data: { n: 1 }, tenant });
  const ended = { state: "dead", reason: "exhausted", attempts: 3, give_up_at: NOW, ended_at: NOW };
  await insertRow("deliveries", { destination_id: endpoint, event_id: eventNumber(json.id), ...ended });
  await env.DB.prepare("UPDATE bundles SET accepted_at = ?1")
    .bind(NOW - 1000)
    .run();
  return json.deliveries[0].id;
}

function hiddenIn(html: string): Record<string, string> {
  const fields = [...html.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  return Object.fromEntries(fields.map(([, name, value]) => [name, value]));
}

/** The fault that is shown at a field. */
function faultAt(html: string, field: string): string | undefined {
  return new RegExp(`id="f-${field}-fault"><p>([^<]*)</p>`).exec(html)?.[1];
}

describe("an endpoint", () => {
  it("is added with types, a filter, headers and limits, and its secret is shown once", async () => {
    const browser = await visitor("acme");
    const { status, html } = await browser.post("/portal/endpoints/new", {
      url: URL_OF_HOOK,
      description: "Billing",
      which: "some",
      type: "invoice.paid",
      other_types: "order.*, invoice.paid",
      filter: '{"order.total": {"gte": 100}}',
      headers: "X-Api-Key: canary-header-value\r\nX-Two: 2",
      max_concurrency: "3",
      rate_per_second: "0.5",
    });
    expect([status, /whsec_[A-Za-z0-9+/=]{30,}/.test(html)]).toEqual([200, true]);
    const row = await anyRow();
    expect(row).toMatchObject({
      tenant: "acme",
      url: URL_OF_HOOK,
      description: "Billing",
      event_types: '["invoice.paid","order.*"]',
      filter: '{"order.total":{"gte":100}}',
      max_concurrency: 3,
      rate_per_second: 0.5,
    });
    expect(Object.keys(JSON.parse(String(row?.sealed_headers)))).toEqual(["X-Api-Key", "X-Two"]);
    for (const page of ["", "/change"]) {
      const { html } = await browser.get(`/portal/endpoints/${row?.id}${page}`);
      expect(html).not.toMatch(/whsec_[A-Za-z0-9]|canary-header-value/);
    }
  });

  it("is added once by a form that is sent twice", async () => {
    const browser = await visitor("acme");
    const form = {
      url: URL_OF_HOOK,
      which: "all",
      ...hiddenIn((await browser.get("/portal/endpoints/new")).html),
    };
    expect((await browser.post("/portal/endpoints/new", form)).status).toBe(200);
    const again = await browser.post("/portal/endpoints/new", form);
    const row = await anyRow();
    expect([again.status, again.headers.get("location")]).toEqual([
      303,
      `/portal/endpoints/${row?.id}?done=created-before`,
    ]);
    expect(await countRows("destinations")).toBe(1);
  });

  it.each<[Record<string, string>, string, RegExp]>([
    [{ url: "http://127.0.0.1/" }, "url", /public address/],
    [{ url: "ftp://x" }, "url", /public address/],
    [{ url: "https://breakwater.example/hook" }, "url", /public address/],
    [{ which: "some" }, "event_types", /at least one type/],
    [{ which: "some", other_types: "a b!" }, "event_types", /exact names.*\(2\)/],
    [{ filter: "{" }, "filter", /not valid JSON/],
    [{ filter: '{"total": {"between": 1}}' }, "filter", /not valid.*\(total/],
    [{ headers: "no colon" }, "headers", /one header on each line/],
    [{ headers: "Host: evil.example" }, "headers", /cannot be set.*\(Host\)/],
    [{ headers: "X-A: a\u0001b" }, "headers", /cannot be set/],
    [{ max_concurrency: "many" }, "max_concurrency", /whole number/],
    [{ rate_per_second: "0" }, "rate_per_second", /0\.01/],
    [{ description: "x".repeat(501) }, "description", /500 characters/],
  ])("is not added from %j: the fault is at the field", async (fields, field, text) => {
    const browser = await visitor("acme");
    const form = { url: URL_OF_HOOK, which: "all", description: "My <name>", ...fields };
    const { status, html } = await browser.post("/portal/endpoints/new", form);
    expect(status).toBe(422);
    expect(faultAt(html, field)).toMatch(text);
    expect(html).toContain('role="alert"');
    if (field !== "description") expect(html).toContain('value="My &lt;name&gt;"');
    expect(await countRows("destinations")).toBe(0);
  });

  it("has its faults named in the visitor's language", async () => {
    const browser = await visitor("acme", { language: "de" });
    const { html } = await browser.post("/portal/endpoints/new", { url: "http://127.0.0.1/", which: "all" });
    expect(faultAt(html, "url")).toMatch(/^Geben Sie eine öffentliche Adresse an/);
  });

  it("is changed, and keeps its headers when none are entered", async () => {
    const id = await endpointOf("acme", { headers: { "X-Api-Key": "canary-kept" } });
    const before = await rowOf(id);
    const browser = await visitor("acme");
    const form = { url: URL_OF_HOOK, which: "all", description: "New", max_concurrency: "4" };
    const { status, headers } = await browser.save(`/portal/endpoints/${id}/change`, form);
    expect([status, headers.get("location")]).toEqual([303, `/portal/endpoints/${id}?done=saved`]);
    const after = await rowOf(id);
    expect(after).toMatchObject({ description: "New", max_concurrency: 4, rate_per_second: 100 });
    expect(after?.sealed_headers).toBe(before?.sealed_headers);
    await browser.save(`/portal/endpoints/${id}/change`, { ...form, headers: "X-New: 1" });
    expect(Object.keys(JSON.parse(String((await rowOf(id))?.sealed_headers)))).toEqual(["X-New"]);
    await browser.save(`/portal/endpoints/${id}/change`, { ...form, headers_remove: "on" });
    expect((await rowOf(id))?.sealed_headers).toBeNull();
  });

  it("of another kind keeps its target", async () => {
    const id = await endpointOf();
    await env.DB.prepare("UPDATE destinations SET url = 'service:BILLING /hook' WHERE id = ?1")
      .bind(id)
      .run();
    const browser = await visitor("acme");
    const form = { url: "https://evil.example/", which: "all", description: "x" };
    await browser.save(`/portal/endpoints/${id}/change`, form);
    expect((await rowOf(id))?.url).toBe("service:BILLING /hook");
  });

  it("is paused, resumed and deleted", async () => {
    const id = await endpointOf();
    const browser = await visitor("acme");
    const press = (verb: string) => browser.post(`/portal/endpoints/${id}/${verb}`);
    expect((await press("pause")).headers.get("location")).toBe(`/portal/endpoints/${id}?done=paused`);
    expect(await rowOf(id)).toMatchObject({ status: "paused", status_reason: "manual" });
    expect((await press("resume")).status).toBe(303);
    expect(browser.gateCalls).toEqual([`resume ${id}`]);
    expect((await press("delete")).headers.get("location")).toBe("/portal?done=deleted");
    expect((await rowOf(id))?.deleted_at).toBe(NOW);
    expect((await browser.get(`/portal/endpoints/${id}`)).status).toBe(404);
  });

  it("gets a test event, whose result is shown as text", async () => {
    const id = await endpointOf();
    const receiver = receivers();
    receiver.script(URL_OF_HOOK, () => new Response("<b>no such hook</b>", { status: 404 }));
    const browser = await visitor(
      "acme",
      {},
      { services: { fetch: receiver.fetch }, gate: { claimTest: async () => null } },
    );
    const { status, html } = await browser.post(`/portal/endpoints/${id}/test`);
    expect(status).toBe(200);
    expect(html).toContain("Your server rejected it: HTTP 404");
    expect(html).toContain("&lt;b&gt;no such hook&lt;/b&gt;");
    expect(html).toContain(`webhook-signature: ${receiver.calls[0]?.headers.get("webhook-signature")}`);
  });

  it("gets a test event with the example of the type that was chosen on its page", async () => {
    const id = await endpointOf();
    await testApi().call("PUT", "/v1/event-types/order.paid", { example: { order: 7 } });
    const receiver = receivers();
    const browser = await visitor(
      "acme",
      {},
      { services: { fetch: receiver.fetch }, gate: { claimTest: async () => null } },
    );
    const path = `/portal/endpoints/${id}/test`;
    expect((await browser.get(path)).html).toContain('<option value="order.paid"');
    expect((await browser.post(path, { type: "order.paid" })).status).toBe(200);
    expect(JSON.parse(receiver.calls[0]?.body ?? "")).toMatchObject({ data: { order: 7 } });
    const refused = await browser.post(path, { type: "order.unknown" });
    expect([refused.status, refused.html.includes("This event type has no example")]).toEqual([422, true]);
    const foreign = await endpointOf("other");
    expect((await browser.get(`/portal/endpoints/${foreign}/test`)).status).toBe(404);
  });

  it("gets no second test event at once, and says when", async () => {
    const id = await endpointOf();
    const browser = await visitor("acme", {}, { gate: { claimTest: async () => NOW + 3000 } });
    const { status, html } = await browser.post(`/portal/endpoints/${id}/test`);
    expect([status, html.includes("Try again in 3 s")]).toEqual([422, true]);
  });

  it("gets one new secret from a form that is sent twice, and the old one still signs", async () => {
    const id = await endpointOf();
    const before = await rowOf(id);
    const browser = await visitor("acme");
    const form = {
      overlap_hours: "2",
      ...hiddenIn((await browser.get(`/portal/endpoints/${id}`)).html.split('action="/portal/pref')[0] ?? ""),
    };
    const { status, html } = await browser.post(`/portal/endpoints/${id}/rotate`, form);
    expect([status, /whsec_[A-Za-z0-9+/=]{30,}/.test(html)]).toEqual([200, true]);
    const previous = [{ secret: before?.secret, expires_at: NOW + 2 * 3_600_000 }];
    expect((await rowOf(id))?.previous_secrets).toBe(JSON.stringify(previous));
    const again = await browser.post(`/portal/endpoints/${id}/rotate`, form);
    expect(again.headers.get("location")).toBe(`/portal/endpoints/${id}?done=rotated-before#secret-head`);
  });

  it.each(["-1", "169", "soon"])("keeps its secret when the overlap is %s", async (hours) => {
    const id = await endpointOf();
    const browser = await visitor("acme");
    const form = { overlap_hours: hours, secret_version: "1" };
    const { status, html } = await browser.post(`/portal/endpoints/${id}/rotate`, form);
    expect([status, faultAt(html, "overlap_hours")]).toEqual([422, "Enter a number of hours from 0 to 168."]);
    expect(html).toContain(`name="overlap_hours" value="${hours}"`);
    expect((await rowOf(id))?.secret_version).toBe(1);
  });
});

describe("deliveries", () => {
  it("are sent again, one and several", async () => {
    const id = await endpointOf();
    const [first, second] = [await deadDelivery(id), await deadDelivery(id)];
    const browser = await visitor("acme");
    const states = async () =>
      (await env.DB.prepare("SELECT state FROM deliveries ORDER BY event_id").all()).results.map(
        ({ state }) => state,
      );
    const answer = await browser.post(`/portal/deliveries/${first}/resend`);
    expect(answer.headers.get("location")).toBe(`/portal/deliveries/${first}?done=resent`);
    expect(await states()).toEqual(["waiting", "dead"]);
    const body = new URLSearchParams([
      ["delivery", first],
      ["delivery", second],
      ["delivery", "dlv_nonsense"],
    ]);
    const { status, html } = await browser.post(`/portal/endpoints/${id}/resend`, body);
    expect([status, html.includes("Sending 1 of 3 again.")]).toEqual([200, true]);
    expect(await states()).toEqual(["waiting", "waiting"]);
    const none = await browser.post(`/portal/endpoints/${id}/resend`);
    expect(none.headers.get("location")).toBe(`/portal/endpoints/${id}?done=none-selected#deliveries`);
  });

  it("are sent again since a time, which can be stopped", async () => {
    const id = await endpointOf();
    await deadDelivery(id);
    const browser = await visitor("acme");
    const since = new Date(NOW - 3_600_000).toISOString().slice(0, 16);
    const { headers } = await browser.post(`/portal/endpoints/${id}/replay`, { include: "dead", since });
    expect(headers.get("location")).toBe(`/portal/endpoints/${id}?done=replaying#replays`);
    const replay = await env.DB.prepare("SELECT * FROM replays").first<Record<string, unknown>>();
    expect(replay).toMatchObject({ destination_id: id, tenant: "acme", include: "dead", total: 1 });
    expect((await browser.get(`/portal/endpoints/${id}`)).html).toMatch(/<progress value="0" max="1"/);
    const second = await browser.post(`/portal/endpoints/${id}/replay`, { include: "dead", since });
    expect([second.status, faultAt(second.html, "since")]).toEqual([422, undefined]);
    await browser.post(`/portal/endpoints/${id}/replays/${replay?.id}/cancel`);
    expect(await env.DB.prepare("SELECT state FROM replays").first()).toEqual({ state: "cancelled" });
  });

  it("that were never sent are sent with a progress without a share, because their number is unknown", async () => {
    const id = await endpointOf();
    const browser = await visitor("acme");
    const since = new Date(NOW - 3_600_000).toISOString().slice(0, 16);
    await browser.post(`/portal/endpoints/${id}/replay`, { include: "missing", since });
    expect((await browser.get(`/portal/endpoints/${id}`)).html).toMatch(/<progress aria-label="/);
  });

  it.each([
    "",
    "yesterday",
    "2026-13-45T99:99",
    "2027-01-01T00:00",
  ])("are not sent again since %j", async (since) => {
    const id = await endpointOf();
    const browser = await visitor("acme");
    const { status, html } = await browser.post(`/portal/endpoints/${id}/replay`, { since });
    expect([status, faultAt(html, "since")]).toEqual([422, expect.stringContaining("time in the past")]);
    if (since !== "") expect(html).toContain(`name="since" value="${since}"`);
    expect(await countRows("replays")).toBe(0);
  });

  it("show their attempts, with the answer and the request without its secrets", async () => {
    const id = await endpointOf("acme", { headers: { "X-Api-Key": "canary-own-header" } });
    const delivery = await deadDelivery(id);
    const log = [{ at: NOW - 500, latencyMs: 120, status: 500, excerpt: "<i>boom</i>" }];
    await env.DB.prepare("UPDATE deliveries SET attempts = 1, log = ?1").bind(JSON.stringify(log)).run();
    const { html } = await (await visitor("acme")).get(`/portal/deliveries/${delivery}`);
    expect(html).toContain("&lt;i&gt;boom&lt;/i&gt;");
    expect(html).toMatch(/POST https:\/\/example\.com\/hook\nx-api-key: \*\*\*\n/);
    expect(html).toContain("webhook-attempt: 1");
    expect(html).toContain("webhook-signature: v1,***");
    expect(html).toContain("&quot;n&quot;: 1");
    // One attempt since it was sent again, and one before that.
    const all = [{ ...log[0], at: NOW - 9_000 }, ...log];
    await env.DB.prepare("UPDATE deliveries SET attempts = 1, log = ?1").bind(JSON.stringify(all)).run();
    const again = await (await visitor("acme")).get(`/portal/deliveries/${delivery}`);
    expect(again.html.match(/webhook-attempt: \d+/g)).toEqual(["webhook-attempt: 1"]);
    expect(again.html.match(/Attempt \d+: /g)).toEqual(["Attempt 1: "]);
    const hidden = await visitor("acme", { access: { may_see_payloads: false } });
    const without = await hidden.get(`/portal/deliveries/${delivery}`);
    expect(without.html).not.toContain("&quot;n&quot;:1");
    // A receiver may repeat in its answer what it was sent.
    expect(without.html).not.toContain("boom");
    expect(without.html).toContain("You may not see the contents of events here.");
  });
});

/** Every route that changes something of the tenant, from the app itself: a new one is tested as soon as it is there. */
const changing = createPortal()
  .routes.filter(({ method, path }) => method === "POST" && path.split("/").length > 3)
  .map(({ path }) => path)
  .filter((path, i, all) => all.indexOf(path) === i);

describe("a read-only visitor", () => {
  it("is stopped by every route that changes something", async () => {
    expect(changing.length).toBeGreaterThanOrEqual(11);
    const id = await endpointOf();
    const delivery = await deadDelivery(id);
    const browser = await visitor("acme", { read_only: true });
    const before = await everythingStored();
    for (const path of changing) {
      const place = path
        .replace("/portal/deliveries/:id", `/portal/deliveries/${delivery}`)
        .replace("/portal/actions/:id", `/portal/actions/act_${"0".repeat(20)}`)
        .replace(":id", id)
        .replace(":replay", "rpl_00000000000000000000")
        .replace(":key", "key_00000000000000000000");
      const { status, html } = await browser.post(place, {
        url: URL_OF_HOOK,
        which: "all",
        secret_version: "1",
      });
      // Which right a decision needs depends on what it decides.
      const isSaid = path.startsWith("/portal/actions/") || html.includes("You may not");
      expect([place, status, isSaid]).toEqual([place, 403, true]);
    }
    expect(await everythingStored()).toBe(before);
  });

  it("sees no buttons, and fitting texts on empty pages", async () => {
    const browser = await visitor("acme", { read_only: true });
    const empty = await browser.get("/portal");
    expect(empty.html).toContain("You can view endpoints, but not add any");
    expect(empty.html).not.toContain("/portal/endpoints/new");
    expect((await browser.get("/portal/endpoints/new")).status).toBe(403);
    const id = await endpointOf();
    await deadDelivery(id);
    const { html } = await browser.get(`/portal/endpoints/${id}`);
    expect(html).toContain("You can see everything here, but cannot change anything.");
    const posts = [...html.matchAll(/<form[^>]* action="([^"]+)"/g)].map(([, action]) => action);
    expect(posts).toEqual(["/portal/leave", "/portal/preferences"]);
  });
});

describe("a visitor that requests more than permitted", () => {
  it("gets the fault at the field, whether the limit is the tenant's or the link's", async () => {
    await testApi().call("PATCH", "/v1/tenants/acme", { portal: { max_concurrency: 20 } });
    const browser = await visitor("acme", { access: { rate_per_second: 5 } });
    const form = { url: URL_OF_HOOK, which: "all", max_concurrency: "21", rate_per_second: "6" };
    const { status, html } = await browser.post("/portal/endpoints/new", form);
    expect(status).toBe(422);
    expect(faultAt(html, "max_concurrency")).toBe("You may set at most 20.");
    expect(faultAt(html, "rate_per_second")).toBe("You may set at most 5.");
    expect(await countRows("destinations")).toBe(0);
    const allowed = { ...form, max_concurrency: "20", rate_per_second: "" };
    expect((await browser.post("/portal/endpoints/new", allowed)).status).toBe(200);
    expect(await anyRow()).toMatchObject({ max_concurrency: 20, rate_per_second: 5 });
  });

  it("gets no more by a link that exceeds the tenant's settings", async () => {
    await testApi().call("PATCH", "/v1/tenants/acme", { portal: { max_concurrency: 2, may_rotate: false } });
    const id = await endpointOf();
    const browser = await visitor("acme", { access: { max_concurrency: 1000, may_rotate: true } });
    const rotated = await browser.post(`/portal/endpoints/${id}/rotate`, { secret_version: "1" });
    expect(rotated.status).toBe(403);
    const form = { url: URL_OF_HOOK, which: "all", max_concurrency: "3", rate_per_second: "100" };
    const { status } = await browser.save(`/portal/endpoints/${id}/change`, form);
    expect([status, (await rowOf(id))?.max_concurrency]).toEqual([422, 10]);
  });

  it("keeps what an operator has raised, and cannot raise it further", async () => {
    const id = await endpointOf("acme", { max_concurrency: 50 });
    const browser = await visitor("acme", { access: { max_concurrency: 20 } });
    const form = { url: URL_OF_HOOK, which: "all", rate_per_second: "100", description: "Renamed" };
    const change = (most: string) =>
      browser.save(`/portal/endpoints/${id}/change`, { ...form, max_concurrency: most });
    expect((await change("50")).status).toBe(303);
    expect(await rowOf(id)).toMatchObject({ max_concurrency: 50, description: "Renamed" });
    expect((await change("51")).status).toBe(422);
    expect((await change("")).status).toBe(303);
    expect((await rowOf(id))?.max_concurrency).toBe(10);
  });

  it("adds as many endpoints as permitted, and no more, also when two forms are sent at once", async () => {
    const browser = await visitor("acme", { access: { max_endpoints: 2 } });
    await endpointOf();
    const send = () => browser.post("/portal/endpoints/new", { url: URL_OF_HOOK, which: "all" });
    const answers = await Promise.all([send(), send()]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 422]);
    expect(answers.find(({ status }) => status === 422)?.html).toContain(
      "You have reached your limit of 2 endpoints.",
    );
    expect(await countRows("destinations")).toBe(2);
    expect((await browser.get("/portal")).html).not.toContain("/portal/endpoints/new");
  });

  it("is bound by the current settings, not by those at the beginning of the visit", async () => {
    const id = await endpointOf();
    const browser = await visitor("acme");
    await testApi().call("PATCH", "/v1/tenants/acme", { portal: { may_edit_endpoints: false } });
    expect((await browser.post(`/portal/endpoints/${id}/pause`)).status).toBe(403);
    expect((await rowOf(id))?.status).toBe("active");
  });
});

it("a visitor changes nothing of another tenant", async () => {
  const id = await endpointOf("other");
  const delivery = await deadDelivery(id, "other");
  const browser = await visitor("acme");
  const before = await everythingStored();
  for (const path of changing.filter((path) => path.includes(":"))) {
    const place = path
      .replace("/portal/deliveries/:id", `/portal/deliveries/${delivery}`)
      .replace(":id", id)
      .replace(":replay", "rpl_00000000000000000000");
    const typed = { url: URL_OF_HOOK, which: "all", secret_version: "1", since: "2026-11-21T08:00" };
    const form = { ...typed, delivery, consent: "true" };
    const { status } = await browser.post(place, form);
    expect([place, status]).toEqual([place, 404]);
  }
  for (const path of [`/portal/deliveries/${delivery}`, `/portal/endpoints/${id}`])
    expect((await browser.get(path)).status).toBe(404);
  expect(await everythingStored()).toBe(before);
});
