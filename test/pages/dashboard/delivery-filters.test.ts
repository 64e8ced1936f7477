/** The log of deliveries: filters find what is stored however much else there is, and the page says what was searched. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import { encodeCursor } from "../../../src/features/parameters.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { customer, signedIn, testDashboard } from "../../support/dashboard.ts";
import { storeDeliveries } from "../../support/delivery-rows.ts";
import { meteredD1 } from "../../support/meter.ts";
import { newDestination } from "../../support/world.ts";

const { call } = testApi();
const LOG = "/dashboard/deliveries";

beforeEach(emptyDatabase);

async function destination(tenant: string, url: string, description?: string): Promise<string> {
  return (await call("POST", "/v1/destinations", { tenant, url, description })).json.id;
}

const MANY = 3_000;

/** Bundles a second after one another, of one event each; the newest was accepted now. */
async function bundlesOf(count: number): Promise<readonly number[]> {
  await insertBundles(
    env.DB,
    Array.from({ length: count }, (_, i) => ({
      acceptedAt: NOW - (count - 1 - i) * 1_000,
      events: [{ tenant: "acme" }],
    })),
  );
  const { results } = await env.DB.prepare("SELECT id FROM bundles ORDER BY id").all<{ id: number }>();
  return results.map(({ id }) => eventAt(id, 0));
}

/** One old delivery that waits behind thousands of newer ones that were delivered. */
async function oneBehindMany() {
  const destinationId = await destination("acme", "https://example.com/many");
  const events = await bundlesOf(MANY);
  const done = { state: "delivered" as const, lastStatus: 200, endedAt: NOW };
  await storeDeliveries(
    env.DB,
    events.map((eventId, i) => ({
      ...{ destinationId, eventId, giveUpAt: NOW + 1e9 },
      ...(i === 1 ? { state: "waiting" as const, reason: "circuit_open" as const } : done),
      ...(i === 0 && {
        state: "cancelled" as const,
        reason: "cancelled_by_request" as const,
        lastStatus: 418,
      }),
    })),
  );
  return { destinationId, events };
}

const numbered = (i: number) => `dst_${String(i).padStart(20, "0")}`;

/** Destinations of one tenant that are alike but for their numbers. */
async function manyDestinations(count: number): Promise<void> {
  await newDestination({ id: numbered(0), tenant: "acme", description: "No 0" });
  const row =
    (await env.DB.prepare("SELECT * FROM destinations WHERE id = ?1").bind(numbered(0)).first()) ?? {};
  const own: Record<string, string> = { id: "printf('dst_%020d', value)", description: "'No ' || value" };
  const columns = Object.keys(row);
  const numbers = JSON.stringify(Array.from({ length: count - 1 }, (_, i) => i + 1));
  await env.DB.prepare(
    `INSERT INTO destinations (${columns}) SELECT ${columns.map((name) => own[name] ?? `d.${name}`)}
      FROM destinations d, json_each(?2) WHERE d.id = ?1`,
  )
    .bind(numbered(0), numbers)
    .run();
}

const rowsIn = (html: string) => [...html.matchAll(/<tr id="dlv_/g)].length;
describe("a filter", () => {
  test("by a reason with a state finds its delivery behind thousands of others on the first page", async () => {
    await oneBehindMany();
    const d1 = meteredD1(env.DB);
    const browser = testDashboard({ services: { db: d1.db } });
    await browser.signIn();
    d1.used();
    const { status, html } = await browser.get(`${LOG}?reason=circuit_open`);
    expect([status, rowsIn(html)]).toEqual([200, 1]);
    expect(html).toContain("Circuit open (1)");
    expect(d1.used().rowsRead).toBeLessThan(300);
  });

  test("without an index continues from page to page within a ceiling of rows, and shows its progress", async () => {
    const { destinationId } = await oneBehindMany();
    const d1 = meteredD1(env.DB);
    const browser = testDashboard({ services: { db: d1.db } });
    await browser.signIn();
    d1.used();
    const found = await browser.get(`${LOG}?status=418`);
    expect([found.status, rowsIn(found.html)]).toEqual([200, 1]);
    expect(d1.used().rowsRead).toBeLessThan(8 * 700 * 5);

    d1.used();
    const type = await browser.get(`${LOG}?type=nothing.like.it&destination_id=${destinationId}`);
    expect(rowsIn(type.html)).toBe(0);
    expect(d1.used().rowsRead).toBeLessThan(8 * 4_500);
    expect(type.html).toContain("No deliveries match.");
  });

  test("by destinations names the destination that it has reached", async () => {
    const { events } = await oneBehindMany();
    const destinationId = await destination("acme", "https://example.com/more", "More");
    await storeDeliveries(
      env.DB,
      events.map((eventId) => ({
        destinationId,
        eventId,
        state: "delivered",
        lastStatus: 200,
        endedAt: NOW,
      })),
    );
    const { html } = await (await signedIn()).get(`${LOG}?status=599`);
    expect(html).toMatch(
      /Looked through the destinations in their order to (More|example\.com\/many), there back to 0\d/,
    );
    const foreign = await newDestination({
      id: `dst_${"z".repeat(20)}`,
      tenant: "rival",
      description: "Secret plans",
    });
    const cursor = encodeCursor([foreign, Number.MAX_SAFE_INTEGER]);
    const forged = await (await customer("acme")).get(`${LOG}?status=599&cursor=${cursor}`);
    expect(forged.html).toContain("Looked through the destinations in their order to");
    expect(forged.html).not.toContain("Secret plans");
  });
});

describe("the filters", () => {
  test("offer existing values with counts, without other tenants'", async () => {
    const own = await destination("acme", "https://example.com/own", "Orders");
    const foreign = await destination("rival", "https://rival.example/", "Secret plans");
    const events = await bundlesOf(4);
    const dead = { state: "dead", reason: "exhausted", endedAt: NOW } as const;
    await storeDeliveries(env.DB, [
      ...events.slice(0, 3).map((eventId) => ({ destinationId: own, eventId, ...dead })),
      { destinationId: foreign, eventId: events[3] ?? 0, ...dead },
    ]);
    const { html } = await (await customer("acme")).get(LOG);
    expect(html).toContain("Dead (3)");
    expect(html).toContain("Exhausted (3)");
    expect(html).toContain("Orders (example.com/own)");
    for (const mark of [foreign, "Secret plans", "rival"]) expect(html).not.toContain(mark);
    const { html: all } = await (await signedIn()).get(LOG);
    expect(all).toContain("Dead (4)");
    const { html: none } = await (await customer("acme")).get(`${LOG}?destination_id=${foreign}`);
    expect(none).toContain("Dead (0)");
    expect(none).not.toContain("Secret plans");
  });

  test.each([
    ["dns", "DNS"],
    ["tls", "TLS"],
    ["http_503", "HTTP 503"],
    ["circuit_open", "Circuit open"],
  ])("name the reason %s as %s", async (reason, text) => {
    await destination("acme", "https://example.com/own");
    const { html } = await (await customer("acme")).get(`${LOG}?reason=${reason}`);
    expect(html).toContain(`: ${text}"`);
  });

  test("of a form become an address with only these, with times as datetime-local fields send them", async () => {
    await destination("acme", "https://example.com/own");
    const browser = await customer("acme");
    const typed = "state=dead&reason=&destination_id=&type=&tag=&status=&since=2026-11-20T10:00&until=";
    const { status, headers } = await browser.get(`${LOG}?${typed}`);
    expect([status, headers.get("location")]).toEqual([
      302,
      `${LOG}?${new URLSearchParams({ state: "dead", since: "2026-11-20T10:00:00Z" })}`,
    ]);
    const { html } = await browser.get(headers.get("location") ?? "");
    expect(html).toContain('value="2026-11-20T10:00:00"');
    expect(html).toContain('aria-label="Remove the filter State: Dead"');
    const without = `${LOG}?${new URLSearchParams({ since: "2026-11-20T10:00:00Z" })}`;
    expect(html).toContain(`href="${without}" aria-label="Remove the filter State: Dead"`);
  });

  test("take a destination by its name or its URL, and list the matching ones to choose from", async () => {
    const orders = await destination("acme", "https://example.com/orders", "Orders");
    await destination("acme", "https://example.com/invoices", "Invoices");
    await destination("rival", "https://rival.example/hooks", "Rival");
    const browser = await customer("acme");
    for (const name of ["orders", "Orders", "https://example.com/orders", "com/ord", orders]) {
      const { headers } = await browser.get(`${LOG}?${new URLSearchParams({ destination: name })}`);
      expect([name, headers.get("location")]).toEqual([name, `${LOG}?destination_id=${orders}`]);
    }
    const several = await browser.get(`${LOG}?destination=example&state=dead`);
    expect(several.status).toBe(200);
    expect(several.html).toContain("2 destinations with “example” in name or URL");
    expect(several.html).toContain(`href="${LOG}?state=dead&amp;destination_id=${orders}">Orders</a>`);
    expect(several.html).not.toContain("Rival");
    for (const name of ["Rival", '"><img src=x>', "x".repeat(5_000)]) {
      const { status, html } = await browser.get(`${LOG}?${new URLSearchParams({ destination: name })}`);
      expect([status, html.includes("which no destination has in name or URL")]).toEqual([422, true]);
      expect(html).not.toContain("<img");
    }
  });

  test("of a text are compared with a thousand destinations at a time, and continue with the next ones", async () => {
    await manyDestinations(1_001);
    const browser = await customer("acme");
    const first = await browser.get(`${LOG}?destination=no+1000`);
    expect(first.html).toContain("1,000 destinations were compared, and there are more.");
    const [, next = ""] = first.html.match(/href="([^"]+)">Continue/) ?? [];
    const second = await browser.get(next.replaceAll("&amp;", "&"));
    expect(second.headers.get("location")).toBe(`${LOG}?destination_id=${numbered(1_000)}`);
    const many = await browser.get(`${LOG}?destination=no`);
    expect(many.html).toContain("The first 50 are shown.");
  });

  test.each([
    "acme",
    undefined,
  ])("count deliveries of %s with more destinations than can be listed, and mark inexact counts", async (tenant) => {
    const own = numbered(0);
    const foreign = await newDestination({ id: `dst_${"z".repeat(20)}`, tenant: "rival" });
    await manyDestinations(101);
    const events = await bundlesOf(502);
    const dead = { state: "dead", reason: "exhausted", endedAt: NOW } as const;
    const waiting = { state: "waiting", reason: "paused" } as const;
    await storeDeliveries(env.DB, [
      ...events.slice(0, 2).map((eventId) => ({ destinationId: own, eventId, ...dead })),
      ...events.slice(2).map((eventId) => ({ destinationId: own, eventId, ...waiting })),
      { destinationId: foreign, eventId: events[0] ?? 0, ...dead },
    ]);
    const d1 = meteredD1(env.DB);
    const browser = testDashboard({ services: { db: d1.db } });
    const key = { tenant, scopes: ["read", "admin"] };
    await browser.signIn(tenant && (await call("POST", "/v1/keys", key)).json.key);
    d1.used();
    const { html } = await browser.get(`${LOG}?state=dead`);
    expect(d1.used().rowsRead).toBeLessThan(5_000);
    for (const text of ["Waiting (500+)", "Paused (500+)", "Retrying (0)", "and + marks a minimum"])
      expect(html).toContain(text);
    expect(html).toContain(tenant === undefined ? "Exhausted (3)" : "Exhausted (2)");
  });

  test.each([
    "state=lost",
    "reason=because",
    "since=yesterday",
    "since=2026-11-20T10:00:00Z&until=2026-11-19T10:00:00Z",
    "cursor=!!!",
    "cursor=eyJ4IjoxfQ",
    "type=%00",
    "status=1e3",
    "tag=import",
  ])("name the fault of %s instead of failing", async (query) => {
    const { status, html } = await (await signedIn()).get(`${LOG}?${query}`);
    expect([status, html.includes('role="alert"')]).toEqual([422, true]);
  });
});

test("counts of the overview and of a destination link to the list of the counted deliveries", async () => {
  const id = await destination("acme", "https://example.com/own");
  const [event = 0] = await bundlesOf(1);
  await storeDeliveries(env.DB, [{ destinationId: id, eventId: event, state: "waiting", reason: "paused" }]);
  const browser = await signedIn();
  const overview = (await browser.get("/dashboard")).html;
  for (const path of ["state=dead", "state=waiting", `state=waiting&amp;destination_id=${id}`])
    expect(overview).toContain(`href="${LOG}?${path}"`);
  const page = (await browser.get(`/dashboard/destinations/${id}`)).html;
  for (const state of ["waiting", "retrying", "dead"])
    expect(page).toContain(`href="${LOG}?state=${state}&amp;destination_id=${id}"`);
});
