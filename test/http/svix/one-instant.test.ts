/** When an event was accepted is one instant, wherever it is shown, however long its commit has taken. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";

let time = NOW;
/** Each reading of the clock takes 12 ms. */
const now = () => {
  time += 12;
  return time;
};
const svix = testApi({ create: createSvixApi, services: { now } });
const native = testApi({ services: { now } });

beforeEach(emptyDatabase);

test("the API, its lists, the Svix API and deliveries have the same time of an event", async () => {
  const { id: app } = (await svix.call("POST", "/api/v1/app", { name: "A" })).json;
  const message = { eventType: "order.paid", payload: { n: 1 } };
  const { id, timestamp } = (await svix.call("POST", `/api/v1/app/${app}/msg`, message)).json;
  expect((await native.call("GET", `/v1/events/${id}`)).json.timestamp).toBe(timestamp);
  expect((await native.call("GET", `/v1/events?tenant=${app}`)).json.data[0].timestamp).toBe(timestamp);
  expect((await svix.call("GET", `/api/v1/app/${app}/msg`)).json.data[0].timestamp).toBe(timestamp);
  const stored = await env.DB.prepare("SELECT accepted_at AS at, body FROM bundles").first<{
    at: number;
    body: ArrayBuffer;
  }>();
  expect(new Date(stored?.at ?? 0).toISOString()).toBe(timestamp);
  const { data, timestamp: sent } = await bodyOf(stored?.body ?? new ArrayBuffer(0));
  expect([sent, data]).toEqual([timestamp, { n: 1 }]);
});

async function bodyOf(bytes: ArrayBuffer): Promise<{ timestamp: string; data: unknown }> {
  const raw = new Uint8Array(bytes);
  const isPacked = raw[0] === 0x1f && raw[1] === 0x8b;
  const plain = isPacked
    ? new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"))
    : new Blob([raw]).stream();
  return JSON.parse(await new Response(plain).text());
}
