/** The log's buttons send deliveries again or cancel them: those that are selected, or all that its filters find. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { eventAt } from "../../../src/core/bundle.ts";
import { deliveryId } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { customer, signedIn } from "../../support/dashboard.ts";

const LOG = "/dashboard/deliveries";
const REPAIR = `${LOG}/repair`;

beforeEach(emptyDatabase);

/** Dead deliveries of events of ten bundles, in ids and in the database. */
async function deadDeliveries(count: number, tenant = "acme") {
  const { json } = await testApi().call("POST", "/v1/destinations", { url: "https://example.com/", tenant });
  const destination: string = json.id;
  const events = Array.from({ length: Math.min(50, count) }, () => ({ tenant, destinations: [destination] }));
  const bundles = Array.from({ length: Math.ceil(count / 50) }, () => ({ acceptedAt: NOW - 1000, events }));
  await insertBundles(env.DB, bundles);
  const { results } = await env.DB.prepare("SELECT id FROM bundles ORDER BY id").all<{ id: number }>();
  const ids = results
    .flatMap(({ id }) => Array.from({ length: 50 }, (_, i) => eventAt(id, i)))
    .slice(0, count);
  const dead = {
    destination_id: destination,
    state: "dead",
    reason: "exhausted",
    give_up_at: NOW,
    ended_at: NOW,
  };
  for (const event_id of ids) await insertRow("deliveries", { ...dead, event_id });
  return { destination, deliveries: ids.map((id) => deliveryId(id, destination)) };
}

const count = (state: string) =>
  env.DB.prepare("SELECT count(*) AS n FROM deliveries WHERE state = ?1").bind(state).first<number>("n");

/** The hidden fields of the form that has this button. */
function formWith(html: string, button: string): Record<string, string> {
  const form = html.match(/<form[\s\S]*?<\/form>/g)?.find((one) => one.includes(button)) ?? "";
  const fields = [...form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  return Object.fromEntries(fields.map(([, name, value]) => [name, value]));
}

test("selected rows are sent again, and the page says how many", async () => {
  const { deliveries } = await deadDeliveries(3);
  const browser = await customer("acme");
  const log = await browser.get(LOG);
  for (const id of deliveries) expect(log.html).toContain(`name="delivery" value="${id}"`);
  const form = new URLSearchParams({ action: "retry" });
  for (const id of deliveries.slice(0, 2)) form.append("delivery", id);
  const { status, html } = await browser.post(REPAIR, form);
  expect([status, await count("waiting")]).toEqual([200, 2]);
  expect(html).toContain("<h1>2 sent again</h1>");
});

test("all deliveries that a filter finds are sent again after a confirmation, continuing with each click", async () => {
  const { destination } = await deadDeliveries(350);
  const browser = await customer("acme");
  const filter = `state=dead&destination_id=${destination}`;
  expect((await browser.get(`${LOG}?${filter}`)).html).toContain(`${REPAIR}?state=dead&amp;`);
  const confirm = await browser.get(`${REPAIR}?${filter}&action=retry`);
  expect(confirm.html).toContain("Each press handles up to 300.");
  const first = await browser.post(REPAIR, formWith(confirm.html, "Send them again"));
  expect(first.html).toContain("<h1>300 sent again</h1>");
  expect(await count("waiting")).toBe(300);
  const second = await browser.post(REPAIR, formWith(first.html, "Continue"));
  expect(second.html).toContain("<h1>50 sent again</h1>");
  expect(await count("waiting")).toBe(350);
});

test("a page that would change nothing says why, and has no button", async () => {
  const { destination } = await deadDeliveries(2);
  const browser = await customer("acme");
  const none = await browser.get(`${REPAIR}?state=waiting&action=cancel`);
  expect(none.html).toContain("<h1>Nothing can be cancelled</h1>");
  expect(none.html).toContain("The log has no delivery with these filters.");
  const ended = await browser.get(`${REPAIR}?destination_id=${destination}&action=cancel`);
  expect(ended.html).toContain("The log finds 2 deliveries, of which none can be cancelled.");
  expect(ended.html).toContain("2: The delivery has ended: it is dead.");
  for (const { html } of [none, ended]) expect(html).not.toContain("Cancel them");
});

test("a page counts the deliveries that can be changed, and the reasons of the others", async () => {
  const { destination, deliveries } = await deadDeliveries(3);
  const browser = await customer("acme");
  await browser.post(REPAIR, { action: "retry", delivery: deliveries[0] ?? "" });
  const some = await browser.get(`${REPAIR}?destination_id=${destination}&action=retry`);
  expect(some.html).toContain("The log finds 3 deliveries, of which 2 can be sent again.");
  expect(some.html).toContain("1: The delivery has not ended");
  expect(some.html).toContain("Send them again");
});

test("the page of a destination has the selections of the log, for visitors who may use them", async () => {
  const { destination, deliveries } = await deadDeliveries(2);
  const path = `/dashboard/destinations/${destination}?state=dead`;
  const browser = await customer("acme");
  const { html } = await browser.get(path);
  for (const id of deliveries) expect(html).toContain(`name="delivery" value="${id}"`);
  const fields = formWith(html, "Send selected again");
  expect(fields).toEqual({ state: "dead", destination_id: destination });
  const done = await browser.post(REPAIR, { ...fields, action: "retry", delivery: deliveries[0] ?? "" });
  expect(done.html).toContain("<h1>1 sent again</h1>");
  expect(done.html).toContain(`href="/dashboard/destinations/${destination}"`);
  for (const action of ["retry", "cancel"])
    expect(html).toContain(
      `href="${REPAIR}?state=dead&amp;destination_id=${destination}&amp;action=${action}"`,
    );
  expect((await (await customer("acme", true)).get(path)).html).not.toContain('name="delivery"');
});

test("a customer changes nothing of another tenant, by ids or by filters", async () => {
  const { deliveries, destination } = await deadDeliveries(2, "rival");
  const browser = await customer("acme");
  for (const form of [
    { action: "cancel", delivery: deliveries[0] ?? "" },
    { action: "retry", delivery: deliveries[0] ?? "" },
    { action: "retry", all: "1", tenant: "rival" },
    { action: "retry", all: "1", destination_id: destination },
  ])
    expect((await browser.post(REPAIR, form)).html).toMatch(/<h1>0 (sent again|cancelled)<\/h1>/);
  expect(await count("dead")).toBe(2);
});

test("a read-only session sees no actions, and is refused", async () => {
  const { deliveries } = await deadDeliveries(1);
  const browser = await customer("acme", true);
  const { html } = await browser.get(LOG);
  expect(html).not.toContain(REPAIR);
  expect((await browser.get(`${REPAIR}?action=retry`)).status).toBe(403);
  const refused = await browser.post(REPAIR, { action: "retry", delivery: deliveries[0] ?? "" });
  expect([refused.status, await count("dead")]).toEqual([422, 1]);
});

test("an unknown action does nothing, and neither does a form without a delivery", async () => {
  const { deliveries } = await deadDeliveries(1);
  const browser = await signedIn();
  expect((await browser.post(REPAIR, { action: "erase", delivery: deliveries[0] ?? "" })).status).toBe(404);
  expect((await browser.get(`${REPAIR}?action=erase`)).status).toBe(404);
  const none = await browser.post(REPAIR, { action: "retry" });
  expect([none.status, none.html]).toEqual([422, expect.stringContaining("No delivery is selected")]);
  const wrong = await browser.post(REPAIR, { action: "retry", all: "1", state: "gone" });
  expect([wrong.status, await count("dead")]).toEqual([422, 1]);
});
