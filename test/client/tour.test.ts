/** The typed client, run against the Worker: requests that compile work, and the others are refused. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { breakwaterClient } from "../../client/src/breakwater.ts";
import { emptyDatabase, KEY, testApi } from "../support/api.ts";
import { listing, mistakes, reading, tour } from "./tour.ts";

const ORIGIN = "https://breakwater.example";

beforeEach(emptyDatabase);

function clientOf(key = KEY) {
  const { app } = testApi();
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
  const send = async (request: Request) => app.fetch(request, env, context as never);
  return breakwaterClient({ url: ORIGIN, key, fetch: send });
}

test("requests of the typed client that compile work", async () => {
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

test("a list is read to its end, whatever the size of its pages", async () => {
  const breakwater = clientOf();
  const events = ["a", "b", "c"].map((type) => ({ type, data: null }));
  await breakwater.POST("/v1/events/batch", { body: { events } });
  const types: string[] = [];
  for await (const { type } of breakwater.list("/v1/events", { limit: "2" })) types.push(type);
  expect(types.sort()).toEqual(["a", "b", "c"]);
  expect(await listing(breakwater)).toBe(1);
});

test("a list that is refused throws the problem", async () => {
  const pages = clientOf("bw_nobody").pages("/v1/events");
  await expect(pages.next()).rejects.toMatchObject({ name: "ProblemError", problem: { status: 401 } });
});

test("the Worker serves the types that the client was compiled against", async () => {
  const { call } = testApi();
  const { status, text } = await call("GET", "/openapi.d.ts");
  expect(status).toBe(200);
  expect(text).toContain("export interface paths {");
  expect(text).toContain("export type NewEvent = {");
});
