/** The faults of transformations on the page of the event whose deliveries wait because of them. */
import { beforeEach, expect, test } from "vitest";
import { eventNumber } from "../../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { signedIn } from "../../support/dashboard.ts";

beforeEach(emptyDatabase);

const api = testApi();
const FAULTY = { body: '{"a": {{ data.text }} }', content_type: "application/json" };

async function waiting(count: number, data: unknown = { text: "<b>no json" }): Promise<string> {
  const ids: string[] = [];
  for (let i = 0; i < count; i++) {
    const made = await api.call("POST", "/v1/destinations", {
      url: `https://example.com/${i}`,
      transform: { template: FAULTY },
    });
    ids.push(made.json.id);
  }
  const { json } = await api.call("POST", "/v1/events", { type: "a.b", data });
  for (const id of ids) {
    await insertRow("deliveries", {
      ...{ destination_id: id, event_id: eventNumber(json.id), state: "waiting", reason: "transform_failed" },
      ...{ attempts: 0, give_up_at: NOW + 7_200_000, log: [] },
    });
  }
  return json.id;
}

async function faultsOn(event: string) {
  const { status, html } = await (await signedIn()).get(`/dashboard/events/${event}`);
  return { status, html, faults: html.match(/<p class="break">body[(:\s][^<]*<\/p>/g) ?? [] };
}

test("an event's page shows the fault that keeps a delivery waiting, with its text escaped", async () => {
  const { status, html, faults } = await faultsOn(await waiting(1));
  expect([status, faults.length]).toEqual([200, 1]);
  expect(html).not.toContain("<b>no json");
});

test("an event's page computes the faults of three deliveries, however many wait", async () => {
  expect((await faultsOn(await waiting(5))).faults).toHaveLength(3);
});

test("an event's page shows no fault once the transformation fits", async () => {
  expect((await faultsOn(await waiting(1, { text: 1 }))).faults).toEqual([]);
});
