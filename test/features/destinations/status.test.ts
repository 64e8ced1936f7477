/** Pausing and resuming a destination, repeatedly. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";

let id: string;
beforeEach(async () => {
  await emptyDatabase();
  id = (await testApi().call("POST", "/v1/destinations", { url: "https://example.com/" })).json.id;
});

const later = { services: { now: () => NOW + 60_000 } };
const row = () => env.DB.prepare("SELECT * FROM destinations").first();

it("a destination is paused once, however often that is requested", async () => {
  const once = await testApi().call("POST", `/v1/destinations/${id}/pause`);
  expect(once).toMatchObject({ status: 200, json: { status: "paused", status_reason: "manual" } });
  const twice = await testApi(later).call("POST", `/v1/destinations/${id}/pause`);
  expect([twice.status, twice.json]).toEqual([200, once.json]);
  expect(await row()).toMatchObject({ status_changed_at: NOW, updated_at: NOW });
});

it("a destination that was paused for its responses keeps the reason", async () => {
  await env.DB.prepare("UPDATE destinations SET status = 'paused', status_reason = 'gone'").run();
  const { json } = await testApi().call("POST", `/v1/destinations/${id}/pause`);
  expect(json).toMatchObject({ status: "paused", status_reason: "gone" });
});

it("a destination is resumed once; a repeated request only schedules a drain", async () => {
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

it("a deleted destination can be neither paused nor resumed", async () => {
  await testApi().call("DELETE", `/v1/destinations/${id}`);
  for (const action of ["pause", "resume"]) {
    expect((await testApi().call("POST", `/v1/destinations/${id}/${action}`)).status).toBe(404);
  }
});
