/** Pausing and resuming, as often as somebody likes. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { emptyDatabase, NOW, testApi } from "../support/api.ts";

let id: string;
beforeEach(async () => {
  await emptyDatabase();
  id = (await testApi().call("POST", "/v1/destinations", { url: "https://example.com/" })).json.id;
});

const later = { services: { now: () => NOW + 60_000 } };
const row = () => env.DB.prepare("SELECT * FROM destinations").first();

it("pauses once, however often it is told to", async () => {
  const once = await testApi().call("POST", `/v1/destinations/${id}/pause`);
  expect(once).toMatchObject({ status: 200, json: { status: "paused", status_reason: "manual" } });
  const twice = await testApi(later).call("POST", `/v1/destinations/${id}/pause`);
  expect([twice.status, twice.json]).toEqual([200, once.json]);
  expect(await row()).toMatchObject({ status_changed_at: NOW, updated_at: NOW });
});

it("keeps the reason of one that has been paused for what it answered", async () => {
  await env.DB.prepare("UPDATE destinations SET status = 'paused', status_reason = 'gone'").run();
  const { json } = await testApi().call("POST", `/v1/destinations/${id}/pause`);
  expect(json).toMatchObject({ status: "paused", status_reason: "gone" });
});

it("resumes once, and rings without a new start when it is told to again", async () => {
  await testApi().call("POST", `/v1/destinations/${id}/pause`);
  const once = testApi(later);
  const { json } = await once.call("POST", `/v1/destinations/${id}/resume`);
  expect(json).toMatchObject({ status: "active", status_reason: null });
  expect(once.gateCalls).toEqual([`resume ${id}`]);
  const twice = testApi();
  expect((await twice.call("POST", `/v1/destinations/${id}/resume`)).json).toEqual(json);
  expect(twice.gateCalls).toEqual([`scheduleDrain ${id}`]);
  expect(await row()).toMatchObject({ status_changed_at: NOW + 60_000 });
});

it("knows no destination that is deleted", async () => {
  await testApi().call("DELETE", `/v1/destinations/${id}`);
  for (const turn of ["pause", "resume"]) {
    expect((await testApi().call("POST", `/v1/destinations/${id}/${turn}`)).status).toBe(404);
  }
});
