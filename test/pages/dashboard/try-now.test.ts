/** A delivery's panel offers to try it now, says what that costs, and says why not where its gate refuses. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { deliveryId, eventNumber } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { type BrowserOptions, testDashboard } from "../../support/dashboard.ts";

beforeEach(emptyDatabase);

async function retrying() {
  const { call } = testApi();
  const destination = (await call("POST", "/v1/destinations", { url: "https://example.com/" })).json.id;
  const event: string = (await call("POST", "/v1/events", { type: "a.b", data: 1 })).json.id;
  await insertRow("deliveries", {
    ...{ destination_id: destination, event_id: eventNumber(event), state: "retrying", reason: "http_503" },
    ...{ attempts: 2, next_attempt_at: NOW + 3_600_000, give_up_at: NOW + 7_200_000 },
    log: [{ at: NOW - 1000, latencyMs: 5, status: 503 }],
  });
  return { event, id: deliveryId(eventNumber(event) ?? 0, destination) };
}

async function browserOf(options: BrowserOptions) {
  const browser = testDashboard(options);
  await browser.signIn();
  return browser;
}

const state = () => env.DB.prepare("SELECT state FROM deliveries").first("state");

test("a retry is brought forward, and its attempts link to their requests and responses", async () => {
  const { event, id } = await retrying();
  const browser = await browserOf({});
  const { html } = await browser.get(`/dashboard/events/${event}`);
  expect(html).toContain(`action="/dashboard/deliveries/${id}/try-now"`);
  expect(html).toContain("It counts as one of its attempts.");
  const attempt = `/dashboard/deliveries/${id}/attempts/${encodeURIComponent(new Date(NOW - 1000).toISOString())}`;
  expect(html).toContain(`href="${attempt}"`);
  expect((await browser.get(attempt)).html).toContain("POST https://example.com/");
  const tried = await browser.post(`/dashboard/deliveries/${id}/try-now`);
  expect([tried.status, tried.headers.get("location")]).toEqual([
    303,
    `/dashboard/events/${event}?done=tried-now`,
  ]);
  expect(await state()).toBe("waiting");
});

test("a refusal of the gate is shown with its end, and a probe as such", async () => {
  const { event, id } = await retrying();
  const refusal = { reason: "circuit_open" as const, until: NOW + 60_000 };
  const refused = await (await browserOf({ view: { refusal } })).post(`/dashboard/deliveries/${id}/try-now`);
  expect([refused.status, await state()]).toEqual([422, "retrying"]);
  expect(refused.html).toContain(`(circuit open), until ${new Date(NOW + 60_000).toISOString()}`);
  const probing = await browserOf({ view: { circuit: "half_open" } });
  const tried = await probing.post(`/dashboard/deliveries/${id}/try-now`);
  expect(tried.headers.get("location")).toBe(`/dashboard/events/${event}?done=tried-now-probe`);
});
