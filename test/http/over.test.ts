/**
 * An event past its retention is neither shown nor sent again, although the row of its bundle remains because of a
 * neighbour.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { deliveryId, eventId } from "../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { signedIn } from "../support/dashboard.ts";

const [A, B] = ["dst_aaaaaaaaaaaaaaaaaaaa", "dst_bbbbbbbbbbbbbbbbbbbb"] as const;
const HOUR = 3_600_000;
const KEPT = 30 * 24 * HOUR;
/** The events of one bundle: over, still retried, with one of two deliveries ended, and without destinations. */
const [OVER, OPEN, HALF, UNWANTED] = [0, 1, 2, 3].map((index) => eventAt(1, index)) as [
  number,
  number,
  number,
  number,
];

beforeEach(async () => {
  await emptyDatabase();
  for (const id of [A, B]) {
    const place = { id, tenant: "default", url: "https://example.com/", secret: "whsec_" };
    await insertRow("destinations", { ...place, created_at: 0, updated_at: 0 });
  }
});

async function store(ageMs: number, { endedAgoMs = 2 * HOUR, dueInMs = 0 } = {}): Promise<void> {
  const acceptedAt = NOW - ageMs;
  const plans = [[A], [A], [A, B], []];
  const events = plans.map((destinations) => ({ tenant: "default", type: "a", destinations }));
  const deliverAt = dueInMs > 0 ? acceptedAt + dueInMs : undefined;
  await insertBundles(env.DB, [{ acceptedAt, deliverAt, events }]);
  const row = { give_up_at: NOW + HOUR, attempts: 1 };
  const dead = { ...row, state: "dead", ended_at: NOW - endedAgoMs };
  const retrying = { ...row, state: "retrying", next_attempt_at: NOW + HOUR };
  await insertRow("deliveries", { destination_id: A, event_id: OVER, ...dead });
  await insertRow("deliveries", { destination_id: A, event_id: OPEN, ...retrying });
  await insertRow("deliveries", { destination_id: A, event_id: HALF, ...dead });
  await insertRow("deliveries", { destination_id: B, event_id: HALF, ...retrying });
}

const status = async (path: string, method = "GET") => (await testApi().call(method, path)).status;
const listed = async (query = "") =>
  (await testApi().call("GET", `/v1/deliveries${query}`)).json.data.map((d: { id: string }) => d.id).sort();
const of = (...names: [number, string][]) => names.map(([event, place]) => deliveryId(event, place)).sort();

describe("an event that is older than the retention, and whose deliveries have all ended", () => {
  beforeEach(() => store(KEPT));

  it("is not shown, nor is its delivery, unlike its neighbours in the bundle", async () => {
    const events = [OVER, UNWANTED, OPEN, HALF].map((event) => status(`/v1/events/${eventId(event)}`));
    expect(await Promise.all(events)).toEqual([404, 404, 200, 200]);
    const deliveries = [OVER, OPEN, HALF].map((event) => status(`/v1/deliveries/${deliveryId(event, A)}`));
    expect(await Promise.all(deliveries)).toEqual([404, 200, 200]);
  });

  it("is in no list", async () => {
    expect(await listed()).toEqual(of([OPEN, A], [HALF, A], [HALF, B]));
    expect(await listed("?state=dead")).toEqual(of([HALF, A]));
    expect(await listed(`?destination_id=${A}`)).toEqual(of([OPEN, A], [HALF, A]));
  });

  it("is on no page of the dashboard", async () => {
    const browser = await signedIn();
    const { html } = await browser.get(`/dashboard/destinations/${A}`);
    expect(html).toContain(eventId(OPEN));
    expect(html).not.toContain(eventId(OVER));
    expect((await browser.get(`/dashboard/events/${eventId(OVER)}`)).status).toBe(404);
  });

  it("is not sent again, by a retry or by a replay", async () => {
    expect(await status(`/v1/deliveries/${deliveryId(OVER, A)}/retry`, "POST")).toBe(404);
    const range = { since: new Date(NOW - 2 * KEPT).toISOString(), until: new Date(NOW).toISOString() };
    const { json } = await testApi().call("POST", "/v1/replays", { destination_id: A, ...range });
    expect(json).toMatchObject({ total: 0 });
  });
});

it.each([
  ["that is a millisecond younger", KEPT - 1, {}],
  ["whose last delivery ended within the hour", KEPT, { endedAgoMs: HOUR - 1 }],
  ["that was due later", KEPT + HOUR, { dueInMs: HOUR + 1 }],
])("an event %s is shown", async (_, ageMs, times) => {
  await store(ageMs, times);
  expect(await status(`/v1/events/${eventId(OVER)}`)).toBe(200);
  expect(await listed()).toContain(deliveryId(OVER, A));
});
