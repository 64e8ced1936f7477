/** The changes of forms and buttons, as the tables show them: the API's own routes do the work. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventId, eventNumber } from "../../../src/ids.ts";
import { countRows, emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { customer, signedIn, testDashboard } from "../../support/dashboard.ts";
import { receivers } from "../../support/receivers.ts";

beforeEach(emptyDatabase);

async function destinationOf(tenant = "default"): Promise<string> {
  const { json } = await testApi().call("POST", "/v1/destinations", {
    url: "https://example.com/hook",
    tenant,
  });
  return json.id;
}

const rowOf = (id: string) => env.DB.prepare("SELECT * FROM destinations WHERE id = ?1").bind(id).first();

async function deadDelivery(destination: string): Promise<string> {
  const { json } = await testApi().call("POST", "/v1/events", { type: "order.paid", data: 1 });
  const ended = { state: "dead", reason: "exhausted", attempts: 3, give_up_at: NOW, ended_at: NOW };
  await insertRow("deliveries", { destination_id: destination, event_id: eventNumber(json.id), ...ended });
  await env.DB.prepare("UPDATE bundles SET accepted_at = ?1")
    .bind(NOW - 1000)
    .run();
  return json.deliveries[0].id;
}

/** The hidden fields of a page's forms, as a browser would send them. */
function hiddenIn(html: string): Record<string, string> {
  const fields = [...html.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  expect(fields).not.toEqual([]);
  return Object.fromEntries(fields.map(([, name, value]) => [name, value]));
}

it("a delivery cannot be sent again if its event has been erased, and the page says why", async () => {
  const delivery = await deadDelivery(await destinationOf());
  const page = async () => {
    const event = await env.DB.prepare("SELECT event_id AS id FROM deliveries").first<number>("id");
    return (await (await signedIn()).get(`/dashboard/events/${eventId(event ?? 0)}`)).html;
  };
  expect(await page()).toContain(`/dashboard/deliveries/${delivery}/retry`);
  await env.DB.prepare("UPDATE bundles SET header = json_set(header, '$.erased', json('[0,0]'))").run();
  const html = await page();
  expect(html).not.toContain("/retry");
  expect(html).toContain("It cannot be sent again: the content of its event has been erased.");
});

describe("a destination", () => {
  it("is created by a form, and its secret is shown once", async () => {
    const browser = await signedIn();
    const { status, html } = await browser.post("/dashboard/destinations/new", {
      url: "https://example.com/hook",
      description: "Billing",
      event_types: "order.*, invoice.paid",
      tenant: "acme",
      max_concurrency: "",
    });
    expect([status, /whsec_[A-Za-z0-9+/=]{30,}/.test(html)]).toEqual([200, true]);
    const row = await env.DB.prepare("SELECT * FROM destinations").first<Record<string, unknown>>();
    expect(row).toMatchObject({
      url: "https://example.com/hook",
      description: "Billing",
      event_types: '["order.*","invoice.paid"]',
      tenant: "acme",
      max_concurrency: 10,
    });
    expect((await browser.get(`/dashboard/destinations/${row?.id}`)).html).not.toContain("whsec_");
  });

  it("is created once by a form that is sent twice, one after the other or at the same time", async () => {
    const browser = await signedIn();
    const page = await browser.get("/dashboard/destinations/new");
    const form = { url: "https://example.com/hook", ...hiddenIn(page.html) };
    const send = () => browser.post("/dashboard/destinations/new", form);
    const statuses = (await Promise.all([send(), send()])).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 303]);
    const row = await env.DB.prepare("SELECT * FROM destinations").first<Record<string, unknown>>();
    const again = await send();
    const then = `/dashboard/destinations/${row?.id}?done=created-before`;
    expect([again.status, again.headers.get("location")]).toEqual([303, then]);
    expect(await countRows("destinations")).toBe(1);
    expect(await rowOf(String(row?.id))).toEqual(row);
    expect((await browser.get(then)).html).toContain(
      "This form was sent twice. It created this destination the first time",
    );
    const anew = { ...form, ...hiddenIn((await browser.get("/dashboard/destinations/new")).html) };
    expect((await browser.post("/dashboard/destinations/new", anew)).status).toBe(200);
    expect(await countRows("destinations")).toBe(2);
  });

  it("is created by a form that was refused before, once its faults are fixed", async () => {
    const browser = await signedIn();
    const page = await browser.get("/dashboard/destinations/new");
    const refused = await browser.post("/dashboard/destinations/new", { url: "x", ...hiddenIn(page.html) });
    const form = { url: "https://example.com/hook", ...hiddenIn(refused.html) };
    expect((await browser.post("/dashboard/destinations/new", form)).status).toBe(200);
    expect(await countRows("destinations")).toBe(1);
  });

  it("is not created from invalid fields, which are all named, and the input stays", async () => {
    const browser = await signedIn();
    const typed = { url: "http://127.0.0.1/", event_types: "a b!", description: "My <name>" };
    const { status, html } = await browser.post("/dashboard/destinations/new", typed);
    expect(status).toBe(422);
    expect(html).toContain("URL is not encrypted; expected https");
    expect(html).toContain("Event types, entry 2,");
    expect(html).toContain('value="My &lt;name&gt;"');
    expect(await countRows("destinations")).toBe(0);
  });

  it("takes new limits, and defaults for empty fields", async () => {
    const id = await destinationOf();
    const browser = await signedIn();
    const fields = { max_concurrency: "3", rate_per_second: "0.5", rate_burst: "", timeout_ms: "2000" };
    const breaker = {
      failure_ratio: "0.25",
      min_attempts: "8",
      window_s: "",
      cooldown_s: "10",
      max_cooldown_s: "90",
    };
    const at = `/dashboard/destinations/${id}`;
    const { status, headers } = await browser.save(`${at}/limits`, { ...fields, ...breaker }, at);
    expect([status, headers.get("location")]).toEqual([
      303,
      `/dashboard/destinations/${id}?done=limits#limits`,
    ]);
    expect(await rowOf(id)).toMatchObject({
      max_concurrency: 3,
      rate_per_second: 0.5,
      rate_burst: null,
      timeout_ms: 2000,
      breaker_failure_ratio: 0.25,
      breaker_min_attempts: 8,
      breaker_cooldown_s: 10,
      breaker_max_cooldown_s: 90,
    });
  });

  it("keeps its limits when one of the new ones is invalid", async () => {
    const id = await destinationOf();
    const before = await rowOf(id);
    const fields = { max_concurrency: "3", timeout_ms: "soon" };
    const at = `/dashboard/destinations/${id}`;
    const { status, html } = await (await signedIn()).save(`${at}/limits`, fields, at);
    expect(status).toBe(422);
    expect(html).toContain("Timeout (ms) is &quot;soon&quot;; expected a whole number from 100 to 25000");
    expect(html).toContain('name="max_concurrency" value="3"');
    expect(await rowOf(id)).toEqual(before);
  });

  it("keeps limits that somebody else has set meanwhile, until the form is sent once more", async () => {
    const id = await destinationOf();
    const browser = await signedIn();
    const at = `/dashboard/destinations/${id}`;
    const typed = { max_concurrency: "3" };
    const opened = hiddenIn((await browser.get(at)).html);
    await testApi().call("PATCH", `/v1/destinations/${id}`, { rate_per_second: 7 });
    const theirs = await rowOf(id);
    for (const hidden of [opened, {}]) {
      const { status, html } = await browser.post(`${at}/limits`, { ...hidden, ...typed });
      expect([status, html.includes("was changed after you opened this form")]).toEqual([422, true]);
      expect(html).toContain('name="max_concurrency" value="3"');
      expect(await rowOf(id)).toEqual(theirs);
    }
    expect((await browser.save(`${at}/limits`, typed, at)).status).toBe(303);
    expect(await rowOf(id)).toMatchObject({ max_concurrency: 3, rate_per_second: 100 });
  });

  it("is paused and resumed", async () => {
    const id = await destinationOf();
    const browser = await signedIn();
    const press = (verb: string) => browser.post(`/dashboard/destinations/${id}/${verb}`);
    expect((await press("pause")).status).toBe(303);
    expect(await rowOf(id)).toMatchObject({ status: "paused", status_reason: "manual" });
    expect((await press("resume")).status).toBe(303);
    expect(await rowOf(id)).toMatchObject({ status: "active" });
    expect(browser.gateCalls).toEqual([`resume ${id}`]);
  });

  it("has its hold cleared by a button that is shown during the hold", async () => {
    const id = await destinationOf();
    const cleared: string[] = [];
    const gate = {
      clearHold: async () => {
        cleared.push(id);
        return [];
      },
    };
    const held = testDashboard({ gate, view: { heldUntil: NOW + 60_000 } });
    await held.signIn();
    const button = `action="/dashboard/destinations/${id}/clear-hold"`;
    expect((await held.get(`/dashboard/destinations/${id}`)).html).toContain(button);
    const { status, headers } = await held.post(`/dashboard/destinations/${id}/clear-hold`);
    expect([status, headers.get("location")]).toEqual([
      303,
      `/dashboard/destinations/${id}?done=hold-cleared`,
    ]);
    expect(cleared).toEqual([id]);
    expect((await (await signedIn()).get(`/dashboard/destinations/${id}`)).html).not.toContain(button);
  });

  it("gets a test event, whose result is shown as text", async () => {
    const id = await destinationOf();
    const receiver = receivers();
    receiver.script("https://example.com/hook", () => new Response("<b>no such hook</b>", { status: 404 }));
    const browser = testDashboard({
      services: { fetch: receiver.fetch },
      gate: { claimTest: async () => null },
    });
    await browser.signIn();
    const { status, html } = await browser.post(`/dashboard/destinations/${id}/test`);
    expect(status).toBe(200);
    expect(html).toContain("The receiver rejected it: HTTP 404");
    expect(html).toContain("&lt;b&gt;no such hook&lt;/b&gt;");
    expect(html).toContain(`webhook-signature: ${receiver.calls[0]?.headers.get("webhook-signature")}`);
    expect(await countRows("events")).toBe(0);
  });

  it.each([
    ["cf-mitigated", "challenge", 403, "Not delivered: challenged by a firewall", "Allow the sender in the"],
    ["server", "cloudflare", 526, "No response: TLS handshake or certificate failed", "HTTP 526"],
  ])("gets a test event that is answered in the receiver's place: %s: %s", async (name, value, status, headline, more) => {
    const id = await destinationOf();
    const receiver = receivers();
    const headers = { [name]: value, "content-type": "text/plain" };
    const answer = () => new Response(`error code: ${status}`, { status, headers });
    receiver.script("https://example.com/hook", answer);
    const browser = testDashboard({
      services: { fetch: receiver.fetch },
      gate: { claimTest: async () => null },
    });
    await browser.signIn();
    const { html } = await browser.post(`/dashboard/destinations/${id}/test`);
    expect(html).toContain(headline);
    expect(html).toContain(more);
  });

  it("gets a test event with the example of the type that was chosen on its page", async () => {
    const id = await destinationOf();
    await testApi().call("PUT", "/v1/event-types/order.paid", { example: { order: 7 } });
    await testApi().call("PUT", "/v1/event-types/order.bare", {});
    const receiver = receivers();
    const browser = testDashboard({
      services: { fetch: receiver.fetch },
      gate: { claimTest: async () => null },
    });
    await browser.signIn();
    const path = `/dashboard/destinations/${id}/test`;
    const form = (await browser.get(path)).html;
    const options = [...form.matchAll(/<option value="([^"]+)"/g)].map(([, type]) => type);
    expect(options).toEqual(["breakwater.test", "order.paid"]);
    const { html } = await browser.post(path, { type: "order.paid" });
    expect(JSON.parse(receiver.calls[0]?.body ?? "")).toMatchObject({ data: { order: 7 } });
    expect(html).toMatch(/<option value="order.paid" selected/);
    expect((await browser.post(path, { type: "order.bare" })).status).toBe(422);
    expect((await browser.get("/dashboard/destinations/dst_x/test")).status).toBe(404);
  });

  it("gets no second test event at once", async () => {
    const id = await destinationOf();
    const browser = testDashboard({ gate: { claimTest: async () => NOW + 3000 } });
    await browser.signIn();
    const { status, html } = await browser.post(`/dashboard/destinations/${id}/test`);
    expect([status, html.includes("again in 3 s")]).toEqual([422, true]);
  });

  it("gets a new secret, shown once, and the old one keeps signing too", async () => {
    const id = await destinationOf();
    const before = await rowOf(id);
    const browser = await signedIn();
    const form = { overlap_hours: "2", secret_version: "1" };
    const { status, html } = await browser.post(`/dashboard/destinations/${id}/rotate`, form);
    expect([status, /whsec_[A-Za-z0-9+/=]{30,}/.test(html)]).toEqual([200, true]);
    const previous = [{ secret: before?.secret, expires_at: NOW + 2 * 3_600_000 }];
    expect(await rowOf(id)).toMatchObject({ previous_secrets: JSON.stringify(previous) });
    const page = await browser.get(`/dashboard/destinations/${id}`);
    expect(page.html).toContain(
      "Two secrets are in use; the last of those that were replaced expires in 2 h.",
    );
  });

  it("gets one new secret from a page that is reloaded, and a notice about it", async () => {
    const id = await destinationOf();
    const browser = await signedIn();
    const page = await browser.get(`/dashboard/destinations/${id}`);
    const form = { overlap_hours: "24", ...hiddenIn(page.html) };
    expect((await browser.post(`/dashboard/destinations/${id}/rotate`, form)).status).toBe(200);
    const after = await rowOf(id);
    const again = await browser.post(`/dashboard/destinations/${id}/rotate`, form);
    const then = `/dashboard/destinations/${id}?done=rotated-before#secret-head`;
    expect([again.status, again.headers.get("location")]).toEqual([303, then]);
    expect(await rowOf(id)).toEqual(after);
    const { html } = await browser.get(then.replace(/#.*/, ""));
    expect(html).toContain("The secret was rotated the first time only");
  });

  it("keeps its secret when the overlap is invalid, which is named", async () => {
    const id = await destinationOf();
    const browser = await signedIn();
    const form = { overlap_hours: "9999", secret_version: "1" };
    const { status, html } = await browser.post(`/dashboard/destinations/${id}/rotate`, form);
    expect(status).toBe(422);
    expect(html).toContain(
      "Overlap (seconds) is 35996400; expected a whole number of seconds from 0 to 604800",
    );
    expect(html).not.toContain("Create destination");
    expect(html).toMatch(/<details open=""><summary>[^<]*<\/summary><form [^>]*rotate".*value="9999"/s);
  });

  it("keeps what was typed into the form of a replay that is refused", async () => {
    const id = await destinationOf();
    await deadDelivery(id);
    const browser = await signedIn();
    const typed = { days: "7", rate_per_minute: "9999" };
    const replayed = async (more: Record<string, string>) =>
      (await browser.post(`/dashboard/destinations/${id}/replay`, { ...typed, ...more })).html;
    const dead = await replayed({});
    expect(dead).toMatch(/value="7" selected.*value="9999".*Replay dead letters.*value="100"/s);
    const missing = await replayed({ include: "missing", matching: "false" });
    expect(missing).toMatch(
      /value="100".*Replay dead letters.*<details open="">.*value="7" selected.*value="9999"/s,
    );
    expect(missing).toContain('<option value="false" selected');
  });

  it("has its dead letters replayed", async () => {
    const id = await destinationOf();
    await deadDelivery(id);
    const browser = await signedIn();
    const { headers } = await browser.post(`/dashboard/destinations/${id}/replay`, {
      days: "1",
      rate_per_minute: "60",
    });
    expect(headers.get("location")).toBe(`/dashboard/destinations/${id}?done=replaying#replays`);
    const replay = await env.DB.prepare("SELECT * FROM replays").first<Record<string, unknown>>();
    expect(replay).toMatchObject({ destination_id: id, state: "running", rate_per_minute: 60, total: 1 });
    const { html } = await browser.get(`/dashboard/destinations/${id}`);
    expect(html).toMatch(/<progress value="0" max="1"/);
    await browser.post(`/dashboard/destinations/${id}/replays/${replay?.id}/cancel`);
    expect(await env.DB.prepare("SELECT state FROM replays").first()).toEqual({ state: "cancelled" });
  });
});

it.each([
  "abc",
  "1e20",
  "Infinity",
  "99999999",
  "-3",
])("a replay of the last %s days is refused, and not of everything", async (days) => {
  const id = await destinationOf();
  await deadDelivery(id);
  const browser = await signedIn();
  const { status, html } = await browser.post(`/dashboard/destinations/${id}/replay`, { days });
  expect([status, html.includes("Accepted in the last")]).toEqual([422, true]);
  expect(await env.DB.prepare("SELECT count(*) AS n FROM replays").first("n")).toBe(0);
});

it("waiting deliveries are cancelled, one or all of a destination", async () => {
  const id = await destinationOf();
  const delivery = await deadDelivery(id);
  await env.DB.prepare("UPDATE deliveries SET state = 'waiting', reason = 'paused', ended_at = NULL").run();
  const browser = await signedIn();
  expect((await browser.get(`/dashboard/destinations/${id}`)).html).toContain("1 delivery waits");
  const { status, headers } = await browser.post(`/dashboard/deliveries/${delivery}/cancel`);
  expect([status, headers.get("location")]).toEqual([
    303,
    expect.stringContaining("?done=delivery-cancelled"),
  ]);
  const page = `/dashboard/events/${delivery.replace("dlv", "evt").slice(0, 17)}`;
  const { html } = await browser.get(page);
  expect(html).toContain("Cancelled: by request");
  expect(html).toContain("It is sent after all");
  await browser.post(`/dashboard/deliveries/${delivery}/retry`);
  expect((await browser.get(page)).html).toContain(`action="/dashboard/deliveries/${delivery}/cancel"`);
  const all = await browser.post(`/dashboard/destinations/${id}/cancel-waiting`);
  expect(all.headers.get("location")).toBe(`/dashboard/destinations/${id}?done=waiting-cancelled`);
  expect(await env.DB.prepare("SELECT state FROM deliveries").first("state")).toBe("cancelled");
});

it("a destination gets the events that it never got, by a form that shows which", async () => {
  const id = await destinationOf();
  const browser = await signedIn();
  expect((await browser.get(`/dashboard/destinations/${id}`)).html).toContain("Send missing events");
  const form = { include: "missing", matching: "false", days: "7", rate_per_minute: "60" };
  const { headers } = await browser.post(`/dashboard/destinations/${id}/replay`, form);
  expect(headers.get("location")).toBe(`/dashboard/destinations/${id}?done=replaying#replays`);
  const replay = await env.DB.prepare("SELECT include, matching, state FROM replays").first();
  expect(replay).toEqual({ include: "missing", matching: 0, state: "running" });
  const { html } = await browser.get(`/dashboard/destinations/${id}`);
  expect(html).toContain("0 of 0 missing deliveries delivered");
  expect(html).not.toContain("Send missing events");
});

it.each([
  ["dead", "exhausted", "as many attempts and as much time as a new delivery"],
  ["delivered", null, "The receiver gets it once more, with the same id."],
])("a delivery that is %s has a button that sends it again, and explains it", async (state, reason, text) => {
  const delivery = await deadDelivery(await destinationOf());
  await env.DB.prepare("UPDATE deliveries SET state = ?1, reason = ?2").bind(state, reason).run();
  const browser = await signedIn();
  const page = `/dashboard/events/${delivery.replace("dlv", "evt").slice(0, 17)}`;
  const { html } = await browser.get(page);
  expect(html).toContain(`action="/dashboard/deliveries/${delivery}/retry"`);
  expect(html).toContain(text);
  await browser.post(`/dashboard/deliveries/${delivery}/retry`);
  expect((await browser.get(page)).html).not.toContain("Send again");
});

it("a dead delivery is sent again", async () => {
  const destination = await destinationOf();
  const delivery = await deadDelivery(destination);
  const browser = await signedIn();
  const { status, headers } = await browser.post(`/dashboard/deliveries/${delivery}/retry`);
  expect([status, headers.get("location")]).toEqual([303, expect.stringContaining("/dashboard/events/evt_")]);
  expect(await env.DB.prepare("SELECT state FROM deliveries").first()).toEqual({ state: "waiting" });
  const again = await browser.post(`/dashboard/deliveries/${delivery}/retry`);
  expect(again).toMatchObject({ status: 422, html: expect.stringContaining("Request refused") });
});

describe("a customer", () => {
  const verbs = ["pause", "resume", "test", "limits", "rotate", "replay"];

  it("changes nothing of another tenant", async () => {
    const id = await destinationOf("other");
    const before = await rowOf(id);
    const browser = await customer("acme");
    for (const verb of verbs) {
      const { status } = await browser.post(`/dashboard/destinations/${id}/${verb}`, {
        max_concurrency: "1",
      });
      expect([verb, status >= 400]).toEqual([verb, true]);
    }
    expect([await rowOf(id), await countRows("events")]).toEqual([before, 0]);
  });

  it("with a read-only link changes nothing, and is shown no buttons", async () => {
    const id = await destinationOf("acme");
    const before = await rowOf(id);
    const browser = await customer("acme", true);
    for (const verb of verbs) {
      expect((await browser.post(`/dashboard/destinations/${id}/${verb}`)).status).toBe(422);
    }
    expect((await browser.post("/dashboard/destinations/new", { url: "https://a.example/" })).status).toBe(
      422,
    );
    expect([await rowOf(id), await countRows("destinations")]).toEqual([before, 1]);
    const { html } = await browser.get(`/dashboard/destinations/${id}`);
    expect([...html.matchAll(/action="([^"]+)"/g)].map(([, to]) => to)).toEqual([
      "/dashboard/search",
      "/dashboard/sign-out",
      `/dashboard/destinations/${id}/limits`,
    ]);
    expect(html).not.toContain("Save limits");
  });

  it("creates destinations of its own tenant only", async () => {
    const browser = await customer("acme");
    const url = "https://example.com/";
    expect((await browser.post("/dashboard/destinations/new", { url, tenant: "other" })).status).toBe(422);
    expect((await browser.post("/dashboard/destinations/new", { url })).status).toBe(200);
    const { results } = await env.DB.prepare("SELECT tenant FROM destinations").all();
    expect(results).toEqual([{ tenant: "acme" }]);
  });
});

it("nothing is changed without a session, or from another site", async () => {
  const id = await destinationOf();
  const before = await rowOf(id);
  const stranger = testDashboard();
  expect((await stranger.post(`/dashboard/destinations/${id}/pause`)).status).toBe(401);
  const browser = await signedIn();
  const evil = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
  expect((await browser.post(`/dashboard/destinations/${id}/pause`, {}, evil)).status).toBe(403);
  expect(await rowOf(id)).toEqual(before);
});
