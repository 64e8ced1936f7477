/** Pages of ordered destinations show which keys wait for what; on the dashboard a dead delivery can be skipped. */
import { beforeEach, expect, test } from "vitest";
import { deliveryId, eventNumber } from "../../src/ids.ts";
import { agentWith } from "../support/agent.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../support/api.ts";
import { testDashboard } from "../support/dashboard.ts";
import { visitor } from "../support/portal.ts";

beforeEach(emptyDatabase);

const { call } = testApi();

async function destinationWith(settings: object): Promise<string> {
  return (await call("POST", "/v1/destinations", { url: "https://example.com/", ...settings })).json.id;
}

/** Two events of one key, of which the first is dead. */
async function heldKey() {
  const destination = await destinationWith({ ordering: "key", on_dead: "hold", tenant: "acme" });
  const post = async (data: number): Promise<string> =>
    (await call("POST", "/v1/events", { type: "a.b", data, ordering_key: "order 42", tenant: "acme" })).json
      .id;
  const [first, second] = [await post(1), await post(2)];
  const event = eventNumber(first) ?? 0;
  await insertRow("deliveries", {
    ...{ destination_id: destination, event_id: event, state: "dead", reason: "http_4xx", attempts: 1 },
    ...{ give_up_at: NOW + 7_200_000, ended_at: NOW, log: [{ at: NOW - 1000, latencyMs: 5, status: 400 }] },
  });
  return { destination, first, second, dead: deliveryId(event, destination) };
}

async function browserOf(key?: string) {
  const browser = testDashboard();
  await browser.signIn(key);
  return browser;
}

const stateOf = async (event: string) => (await call("GET", `/v1/events/${event}`)).json.deliveries[0];

test("a dead delivery that holds its key is shown with its waiting events, and can be skipped once", async () => {
  const { destination, first, second, dead } = await heldKey();
  expect(await stateOf(second)).toMatchObject({ state: "queued", reason: "order_held", waits_for: first });
  const browser = await browserOf();
  const page = `/dashboard/destinations/${destination}`;
  const { html } = await browser.get(page);
  expect(html).toContain(`<a href="/dashboard/events/${first}">`);
  expect(html).toContain("dead, holds the key");
  expect(html).toContain(`action="/dashboard/deliveries/${dead}/skip"`);

  const skipped = await browser.post(`/dashboard/deliveries/${dead}/skip`);
  expect([skipped.status, skipped.headers.get("location")]).toEqual([
    303,
    `/dashboard/events/${first}?done=delivery-skipped`,
  ]);
  expect(await stateOf(first)).toMatchObject({ state: "dead" });
  expect(await stateOf(second)).toMatchObject({ state: "waiting", reason: "order" });
  expect((await browser.get(page)).html).toContain("No key is blocked");
  expect((await browser.post(`/dashboard/deliveries/${dead}/skip`)).status).toBe(422);
});

test("a destination with a key held by a dead delivery needs attention until that is skipped", async () => {
  const { dead } = await heldKey();
  const browser = await browserOf();
  const { html } = await browser.get("/dashboard");
  expect(html).toContain("<h1>1 of 1 destination needs attention</h1>");
  expect(html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ")).toContain("Key held its first delivery is dead");
  expect(html).toContain("The backlog is empty.");
  expect(html).not.toContain("New events are sent within seconds");
  const failing = async () => (await agentWith().use("list_failing_destinations")).value;
  expect(await failing()).toMatchObject({ failing: 1, destinations: [{ state: "Key held", held: 1 }] });
  await browser.post(`/dashboard/deliveries/${dead}/skip`);
  expect((await browser.get("/dashboard")).html).toContain("No destination needs attention");
  expect(await failing()).toMatchObject({ failing: 0, destinations: [] });
});

test.each([
  ["order_held", "blocked-keys"],
  ["scheduled", "state=queued"],
])("a list cannot be filtered by the reason %s, and says where to find it", async (reason, where) => {
  await heldKey();
  const { status, json } = await call("GET", `/v1/deliveries?reason=${reason}`);
  expect([status, json.errors]).toMatchObject([
    422,
    [{ field: "reason", expected: expect.stringContaining(where) }],
  ]);
});

test("a read-only visitor sees blocked keys without a button, and skips nothing", async () => {
  const { destination, second, dead } = await heldKey();
  const { json } = await call("POST", "/v1/keys", { name: "look", scopes: ["read"] });
  const browser = await browserOf(json.key);
  const { html } = await browser.get(`/dashboard/destinations/${destination}`);
  expect(html).toContain("dead, holds the key");
  expect(html).not.toContain('/skip"');
  expect((await browser.post(`/dashboard/deliveries/${dead}/skip`)).status).toBe(422);
  expect(await stateOf(second)).toMatchObject({ reason: "order_held" });
});

test("a visitor of the portal sees its own blocked keys, in its language", async () => {
  const { destination, dead } = await heldKey();
  const path = `/portal/endpoints/${destination}`;
  const { html } = await (await visitor("acme", { language: "de" })).get(path);
  expect(html).toContain("Blockierte Schlüssel");
  expect(html).toContain(`href="/portal/deliveries/${dead}"`);
  expect(html).toContain("aufgegeben, hält seinen Schlüssel an");
  expect((await (await visitor("rival")).get(path)).status).toBe(404);
});

test("an unordered destination has no section of blocked keys", async () => {
  const destination = await destinationWith({});
  expect((await (await browserOf()).get(`/dashboard/destinations/${destination}`)).html).not.toContain(
    "blocked-keys",
  );
});
