/** The results of a search, the log of all deliveries, and its tail: what they show, and to whom. */
import { beforeEach, describe, expect, test } from "vitest";
import { TAIL_EVERY_MS } from "../../../src/features/deliveries/tail.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { customer, signedIn, testDashboard } from "../../support/dashboard.ts";
import { type Things, thingsOf } from "../../support/operations.ts";

const { call } = testApi();

let own: Things;
let foreign: Things;
beforeEach(async () => {
  await emptyDatabase();
  own = await thingsOf(call, "acme");
  foreign = await thingsOf(call, "rival");
});

const found = (q: string) => `/dashboard/search?q=${encodeURIComponent(q)}`;

function showsNothingOf({ tenant, ids }: Things, html: string): void {
  for (const mark of [tenant, ...Object.values(ids)]) expect(html).not.toContain(mark);
}

describe("the search page", () => {
  test("leads from an id straight to its page", async () => {
    const browser = await customer("acme");
    const { events, deliveries, destinations, replays } = own.ids;
    const leads = async (id = "") => (await browser.get(found(id))).headers.get("location");
    expect(await leads(events)).toBe(`/dashboard/events/${events}`);
    expect(await leads(deliveries)).toBe(`/dashboard/events/${events}#${deliveries}`);
    expect(await leads(destinations)).toBe(`/dashboard/destinations/${destinations}`);
    expect(await leads(replays)).toBe(`/dashboard/destinations/${destinations}`);
  });

  test("finds nothing for another tenant's ids and words, and says what can be searched", async () => {
    const browser = await customer("acme");
    for (const [kind, id] of Object.entries(foreign.ids)) {
      const { status, html } = await browser.get(found(id));
      expect([kind, status]).toEqual([kind, 200]);
      expect(html).toContain("Nothing more was found.");
      expect(html).toContain("What can be searched");
      showsNothingOf(foreign, html.replaceAll(id, ""));
    }
    showsNothingOf(foreign, (await browser.get(found("order"))).html);
    expect((await browser.get(found("order"))).html).toContain(own.ids.events);
  });

  test("shows keys, which have no page, to visitors who may see them", async () => {
    const { status, html } = await (await signedIn()).get(found(own.ids.keys ?? ""));
    expect(status).toBe(200);
    expect(html).toContain("API key");
  });

  test("names the fault of a condition, and keeps the input as text", async () => {
    const browser = await signedIn();
    const { status, html } = await browser.get(found('status:9"><img src=x onerror=alert(1)>'));
    expect(status).toBe(422);
    expect(html).toContain("expected an HTTP status code");
    expect(html).not.toContain("<img");
    for (const q of ["<script>alert(1)</script>", '" autofocus x="', "\u202e\u0000"])
      expect((await browser.get(found(q))).html).not.toMatch(/<script>|" autofocus/);
    expect((await browser.get(found("x".repeat(10_000)))).status).toBe(422);
  });
});

describe("an event's tags and channels", () => {
  const labels = { tags: ["import", "a@b+c"], channels: ["eu"] };

  test("are in the results of a search, and each tag links to everything else with it", async () => {
    const event = { type: "labelled", data: {}, tenant: "acme", ...labels };
    await call("POST", "/v1/events", event);
    await call("POST", "/v1/events", { ...event, tags: ["import"], type: "another" });
    const browser = await signedIn();
    const { html } = await browser.get(found("labelled"));
    expect(html).toContain("Channels: eu");
    const links = [...html.matchAll(/href="(\/dashboard\/search\?q=tag[^"]+)">([^<]+)</g)];
    expect(links.map(([, , tag]) => tag)).toEqual(labels.tags);
    const [many, one] = await Promise.all(links.map(async ([, path = ""]) => (await browser.get(path)).html));
    expect([many, one].map((page) => page?.includes(">another<"))).toEqual([true, false]);
    expect(one).toContain(">labelled<");
  });

  test("are in the log of deliveries, where a tag links to the log filtered by it", async () => {
    const body = { tenant: "acme", url: "https://example.com/labelled" };
    const { id } = (await call("POST", "/v1/destinations", body)).json;
    await call("POST", "/v1/events", { type: "labelled", data: {}, tenant: "acme", ...labels });
    for (const browser of [await signedIn(), await customer("acme")]) {
      const { html } = await browser.get(`/dashboard/deliveries?destination_id=${id}`);
      expect(html).toContain("Channels: eu");
      const path = /href="(\/dashboard\/deliveries\?[^"]*tag=a[^"]*)"/.exec(html)?.[1] ?? "";
      const { status, html: log } = await browser.get(path.replaceAll("&amp;", "&"));
      expect([status, log.includes(">labelled<"), log.includes('name="tag" value="a@b+c"')]).toEqual([
        200,
        true,
        true,
      ]);
      expect(log).not.toContain(own.ids.deliveries);
    }
  });
});

describe("the log of deliveries", () => {
  test("has those of all destinations for operators, of one tenant on request, and of their own for customers", async () => {
    const operator = await signedIn();
    const both = (await operator.get("/dashboard/deliveries")).html;
    expect(both).toContain(own.ids.deliveries);
    expect(both).toContain(foreign.ids.deliveries);
    const one = (await operator.get("/dashboard/deliveries?tenant=acme&state=dead")).html;
    expect(one).toContain(own.ids.deliveries);
    expect(one).not.toContain(foreign.ids.deliveries);
    const { html } = await (await customer("acme")).get("/dashboard/deliveries?tenant=rival");
    expect(html).toContain(own.ids.deliveries);
    showsNothingOf(foreign, html);
    expect(html).not.toContain('name="tenant"');
  });

  test("names the fault of a filter", async () => {
    const { status, html } = await (await signedIn()).get("/dashboard/deliveries?status=9&reason=x");
    expect(status).toBe(422);
    expect(html).toContain("expected an HTTP status code");
  });

  test("is followed only on its newest page, with the filters that the tail has", async () => {
    const browser = await signedIn();
    const { html } = await browser.get("/dashboard/deliveries?type=order.*&state=dead&follow=1");
    expect(html).toContain('data-tail="/dashboard/deliveries/tail?type=order.*"');
    expect(html).toContain("filtered only by tenant, destination and event type");
    expect((await browser.get("/dashboard/deliveries")).html).not.toContain("data-tail");
  });
});

describe("the tail of the log", () => {
  /** Something is posted during the first pause. */
  const posting = () => {
    let pauses = 0;
    return testDashboard({
      services: {
        now: () => NOW,
        sleep: async (ms) => {
          if (ms !== TAIL_EVERY_MS || ++pauses > 1) return;
          for (const tenant of ["acme", "rival"])
            await call("POST", "/v1/events", { type: `of.${tenant}`, data: {}, tenant });
        },
      },
    });
  };

  test("needs a session, and streams only rows of its tenant", async () => {
    expect((await testDashboard().get("/dashboard/deliveries/tail")).status).toBe(401);
    const visitor = await customer("acme");
    const browser = posting();
    browser.setCookie(visitor.cookie());
    const { headers, html } = await browser.get("/dashboard/deliveries/tail?tenant=rival");
    expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(html).toContain('data: <tr id="dlv_');
    expect(html).toContain("of.acme");
    expect(html).not.toContain("of.rival");
    showsNothingOf(foreign, html);
  });

  test("shows operators the tenant of each delivery", async () => {
    const browser = posting();
    await browser.signIn();
    const { html } = await browser.get("/dashboard/deliveries/tail?tenant=rival");
    expect(html).toContain("of tenant rival");
    expect(html).not.toContain("of.acme");
  });
});
