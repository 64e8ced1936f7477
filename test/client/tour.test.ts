/** The typed client, run against the Worker: what compiles works, and what does not is refused. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { emptyDatabase, KEY, testApi } from "../support/api.ts";
import { breakwaterAt, mistakes, reading, tour } from "./tour.ts";

const ORIGIN = "https://breakwater.example";

beforeEach(emptyDatabase);

function clientOf(key = KEY) {
  const { app } = testApi();
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
  return breakwaterAt(ORIGIN, key, async (request) => app.fetch(request, env, context as never));
}

test("the typed client works as it compiles", async () => {
  const { secret, event, changed, deliveries, removed } = await tour(clientOf());
  expect(secret).toMatch(/^whsec_/);
  expect(event.deliveries).toHaveLength(1);
  expect(changed.data).toMatchObject({ max_concurrency: 2, metadata: {}, retry: { preset: "svix" } });
  expect(deliveries.map(({ id }) => id)).toEqual(event.deliveries.map(({ id }) => id));
  expect(removed.response.status).toBe(204);
});

test("requests that do not compile are refused", async () => {
  expect(await mistakes(clientOf())).toEqual([415, 422, 422, 422, 422, 422, 422, 404, 405]);
});

test("a refusal is a typed problem", async () => {
  expect(await reading(clientOf())).toMatchObject({ status: 404, faults: [] });
  expect(await reading(clientOf("bw_nobody"))).toMatchObject({ status: 401, faults: [] });
});

test("the Worker serves the types that the client was compiled against", async () => {
  const { call } = testApi();
  const { status, text } = await call("GET", "/openapi.d.ts");
  expect(status).toBe(200);
  expect(text).toContain("export interface paths {");
  expect(text).toContain("export type NewEvent = {");
});
