/** The page of replays: estimated and started over a range of time for several destinations, and stopped. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import { countRows, emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { customer } from "../../support/dashboard.ts";

const REPLAYS = "/dashboard/replays";
const HOUR = 3_600_000;
/** As a browser sends a field without a zone. */
const local = (at: number) => new Date(at).toISOString().slice(0, 19);

beforeEach(emptyDatabase);

/** A destination with so many dead deliveries, of events that were accepted an hour ago. */
async function destinationWith(dead: number, description: string, tenant = "acme"): Promise<string> {
  const given = { url: "https://example.com/", tenant, description };
  const { json } = await testApi().call("POST", "/v1/destinations", given);
  const events = Array.from({ length: dead }, () => ({ tenant, destinations: [json.id] }));
  await insertBundles(env.DB, [{ acceptedAt: NOW - HOUR, events }]);
  const bundle = await env.DB.prepare("SELECT max(id) AS id FROM bundles").first<number>("id");
  for (let i = 0; i < dead; i++)
    await insertRow("deliveries", {
      ...{ destination_id: json.id, event_id: eventAt(bundle ?? 0, i) },
      ...{ state: "dead", reason: "exhausted", give_up_at: NOW, ended_at: NOW - 9 },
    });
  return json.id;
}

function plan(destinations: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const range = { since: local(NOW - 2 * HOUR), until: local(NOW) };
  const form = new URLSearchParams({ ...range, rate_per_minute: "5", ...more });
  for (const id of destinations) form.append("destination_id", id);
  return form;
}

test("an estimate shows number and duration for each destination, and starts nothing", async () => {
  const destinations = [await destinationWith(10, "Billing"), await destinationWith(5, "Ledger")];
  const browser = await customer("acme");
  const { status, html } = await browser.get(`${REPLAYS}?${plan(destinations, { estimate: "1" })}`);
  expect(status).toBe(200);
  expect(html).toContain("At most 15 deliveries");
  expect(html).toMatch(/Billing<\/div><\/td><td class="num">10/);
  expect(html).toMatch(/Ledger<\/div><\/td><td class="num">5/);
  const before = await browser.get(
    `${REPLAYS}?${plan(destinations, { estimate: "1", until: local(NOW - 1.9 * HOUR) })}`,
  );
  expect(before.html).toContain("At most 0 deliveries");
  expect(await countRows("replays")).toBe(0);
});

test("a replay is started for each destination, and each can be stopped", async () => {
  const destinations = [await destinationWith(3, "Billing"), await destinationWith(2, "Ledger")];
  const browser = await customer("acme");
  const { status, html } = await browser.post(REPLAYS, plan(destinations));
  expect([status, await countRows("replays")]).toEqual([200, 2]);
  expect(html).toContain("2 of 2 replays started.");
  const again = await browser.post(REPLAYS, plan(destinations));
  expect(again.html).toContain("0 of 2 replays started.");
  expect(again.html).toContain("Billing: The destination already has a replay");
  const id = await env.DB.prepare("SELECT id FROM replays").first<string>("id");
  const stopped = await browser.post(`${REPLAYS}/${id}/cancel`);
  expect([stopped.status, stopped.headers.get("location")]).toEqual([
    303,
    `${REPLAYS}?done=replay-cancelled`,
  ]);
  expect(await env.DB.prepare("SELECT state FROM replays WHERE id = ?1").bind(id).first("state")).toBe(
    "cancelled",
  );
});

test("a plan with a fault starts nothing, and its input stays", async () => {
  const destination = await destinationWith(1, "Billing");
  const browser = await customer("acme");
  const faults: readonly [URLSearchParams, string][] = [
    [plan([]), "Destinations"],
    [plan([destination], { since: "soon" }), "Accepted since"],
    [plan([destination], { since: local(NOW), until: local(NOW - HOUR) }), "Accepted before"],
    [plan([destination], { rate_per_minute: "0" }), "Initial rate"],
    [plan(Array.from({ length: 26 }, () => destination)), "Destinations"],
  ];
  for (const [form, words] of faults) {
    for (const answer of [
      await browser.post(REPLAYS, form),
      await browser.get(`${REPLAYS}?${form}&estimate=1`),
    ]) {
      expect(answer.status).toBe(422);
      expect(answer.html).toMatch(new RegExp(`role="alert"[^>]*><ul><li>${words}`));
    }
  }
  expect(await countRows("replays")).toBe(0);
});

test("a customer neither estimates nor starts a replay of another tenant's destination", async () => {
  const foreign = await destinationWith(4, "Secret plans", "rival");
  const browser = await customer("acme");
  await destinationWith(1, "Own");
  const estimated = await browser.get(`${REPLAYS}?${plan([foreign], { estimate: "1" })}`);
  const started = await browser.post(REPLAYS, plan([foreign]));
  for (const { html } of [estimated, started]) expect(html).not.toContain("Secret plans");
  expect(started.html).toContain("0 of 1 replay started.");
  expect(await countRows("replays")).toBe(0);
});

test("a read-only session sees replays and starts none", async () => {
  const destination = await destinationWith(1, "Billing");
  const browser = await customer("acme", true);
  expect((await browser.get(REPLAYS)).html).not.toContain("Start replay");
  expect((await browser.post(REPLAYS, plan([destination]))).status).toBe(422);
  expect(await countRows("replays")).toBe(0);
});
