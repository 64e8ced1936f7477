/** The overview, the list of all destinations, and the figures on a destination's page. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { metric } from "../../support/attempt-metrics.ts";
import { customer, signedIn, signedInWith, testDashboard } from "../../support/dashboard.ts";

beforeEach(emptyDatabase);

async function destinationOf(description: string, tenant = "default"): Promise<string> {
  const body = { url: "https://example.com/hook", description, tenant };
  return (await testApi().call("POST", "/v1/destinations", body)).json.id;
}

async function browserWith(options: Parameters<typeof testDashboard>[0]) {
  const browser = testDashboard(options);
  await browser.signIn();
  return browser;
}

/** The text of the page, without its markup. */
const textOf = (html: string) => html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

const metrics = [
  ...Array.from({ length: 18 }, () => metric({ tookMs: 90 })),
  ...Array.from({ length: 2 }, () => metric({ attempt: 2, result: "5xx", end: "again", tookMs: 900 })),
];

it("a destination that was paused by a 410 has the pause in its history", async () => {
  const id = await destinationOf("Billing");
  const paused = { status: "paused", status_reason: "gone", status_changed_at: NOW - 90_000 };
  await env.DB.prepare("UPDATE destinations SET status = ?1, status_reason = ?2, status_changed_at = ?3")
    .bind(...Object.values(paused))
    .run();
  const text = textOf((await (await signedIn()).get(`/dashboard/destinations/${id}`)).html);
  expect(text).toMatch(/Paused 1 min ago ?, because the receiver answered 410 Gone/);
  expect(text).not.toContain("Never interrupted");
});

describe("the overview", () => {
  it("shows the two commands of the first steps while there is no destination", async () => {
    const { html } = await (await signedIn()).get("/dashboard");
    expect(textOf(html)).toContain("No destinations yet");
    expect(html).toContain("curl https://breakwater.example/v1/events");
  });

  it.each([
    [{ heldUntil: NOW + 60_000 }, "On hold the receiver sent Retry-After; for another 1 min"],
    [{ circuit: "half_open", trips: 1 }, "Probing the circuit opened once; until the probe has succeeded"],
  ] as const)("says why a destination waits and until when: %j", async (view, text) => {
    await destinationOf("Billing");
    expect(textOf((await browserWith({ view }).then((browser) => browser.get("/dashboard"))).html)).toContain(
      text,
    );
  });

  it("shows that a paused destination waits until it is resumed", async () => {
    const id = await destinationOf("Billing");
    await testApi().call("POST", `/v1/destinations/${id}/pause`);
    expect(textOf((await (await signedIn()).get("/dashboard")).html)).toContain("Paused until you resume it");
  });

  it("tells a read-only visitor which key creates destinations, without commands", async () => {
    const browser = await signedInWith({ tenant: "acme", scopes: ["read"] });
    for (const path of ["/dashboard", "/dashboard/destinations"]) {
      const { html } = await browser.get(path);
      expect([path, html.includes("curl"), html.includes("needs a key with the scope admin")]).toEqual([
        path,
        false,
        true,
      ]);
      expect(html).not.toContain("/dashboard/destinations/new");
    }
  });

  it("adds up the counts of gates within the window", async () => {
    await destinationOf("Billing");
    await destinationOf("Warehouse");
    const browser = await browserWith({ metrics, view: { inFlight: 3 } });
    for (const window of ["15m", "1h", "7d"]) {
      const { html } = await browser.get(`/dashboard?window=${window}`);
      expect(textOf(html)).toContain("Attempts 40 Succeeded 90 % Retry ratio 0.1");
      expect(textOf(html)).toContain("In flight 6");
      expect(html).toContain(
        `40 attempts in the last ${{ "15m": "15 minutes", "1h": "hour" }[window] ?? "7 days"}, 4 of them failed.`,
      );
    }
  });

  it("shows the shortest window when the requested one is unknown", async () => {
    await destinationOf("Billing");
    const { status, html } = await (await signedIn()).get("/dashboard?window=%3Cscript%3E");
    expect([status, html.includes("0 attempts in the last 15 minutes")]).toEqual([200, true]);
  });

  it("lists destinations that need attention first", async () => {
    const [calm, sick] = [await destinationOf("Calm"), await destinationOf("Sick")];
    const waiting = {
      destination_id: sick,
      event_id: 1,
      state: "waiting",
      reason: "circuit_open",
      give_up_at: NOW,
    };
    await insertRow("deliveries", waiting);
    const open = { circuit: "open", circuitUntil: NOW + 42_000, trips: 2 } as const;
    const { html } = await browserWith({ view: open }).then((browser) => browser.get("/dashboard"));
    expect(html.indexOf(sick)).toBeLessThan(html.indexOf(calm));
    expect(textOf(html)).toContain("All 2 destinations need attention 1 delivery is waiting in the backlog.");
    expect(textOf(html)).toContain("Circuit open the circuit opened 2 times in a row; next probe in 42 s");
  });

  it("is shown when no gate responds", async () => {
    await destinationOf("Billing");
    const gate = { figures: async () => Promise.reject(new Error("away")) };
    const { status, html } = await browserWith({ gate }).then((browser) => browser.get("/dashboard"));
    expect([status, textOf(html).includes("Unknown")]).toEqual([200, true]);
  });
});

describe("all destinations", () => {
  it("are listed page by page, and a tenant sees only its own", async () => {
    const row = { url: "https://example.com/hook", secret: "s", created_at: NOW, updated_at: NOW };
    for (let i = 0; i < 53; i++) {
      const tenant = i < 51 ? "acme" : "other";
      await insertRow("destinations", {
        id: `dst_${String(i).padStart(20, "0")}`,
        tenant,
        description: `No. ${i}!`,
        ...row,
      });
    }
    const browser = await customer("acme");
    const first = await browser.get("/dashboard/destinations");
    expect([first.html.includes("No. 49!"), first.html.includes("No. 50!")]).toEqual([true, false]);
    const more = /href="(\/dashboard\/destinations\?after=[^"]+)"/.exec(first.html)?.[1] ?? "";
    const second = await browser.get(more);
    expect(["No. 49!", "No. 50!", "No. 51!"].map((name) => second.html.includes(name))).toEqual([
      false,
      true,
      false,
    ]);
  });
});

describe("a destination", () => {
  it("shows its filter in words, and the tags and channels of its events", async () => {
    const filter = { "order.total": { gte: 100 }, test: { not: true } };
    const { json } = await testApi().call("POST", "/v1/destinations", {
      url: "https://example.com/",
      filter,
    });
    const data = { order: { total: 100 } };
    const labels = { tags: ["import"], channels: ["eu", "us"] };
    await testApi().call("POST", "/v1/events", { type: "order.paid", data, ...labels });
    const browser = await signedIn();
    const text = textOf((await browser.get(`/dashboard/destinations/${json.id}?state=queued`)).html);
    expect(text).toContain("Takes events whose data order.total is at least 100 and test is not true");
    expect(text).toContain("Tags: import Channels: eu, us");
    expect(textOf((await browser.get("/dashboard/deliveries")).html)).toContain(
      "Tags: import Channels: eu, us",
    );
  });

  it("shows its figures, its interruptions over time, and when its deliveries are given up", async () => {
    const id = await destinationOf("Billing");
    const history = [
      { at: NOW - 300_000, what: "circuit_opened", times: 4 },
      { at: NOW - 120_000, what: "circuit_closed" },
      { at: NOW - 60_000, what: "held", until: NOW - 20_000 },
    ] as const;
    const browser = await browserWith({ metrics, view: { history } });
    const text = textOf((await browser.get(`/dashboard/destinations/${id}?window=1h`)).html);
    expect(text).toContain("Status in this period: circuit open for 3 min, on hold for 40 s");
    expect(text).toContain("Circuit opened 5 min ago , 4 times in a row");
    expect(text).toContain("Gives up 3 d 2 h after the first attempt");
    expect(text).toContain("Healthy : 18 of 20 attempts in the last 15 minutes succeeded.");
  });
});
