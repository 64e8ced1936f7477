/** A test event is sent at once and shown in full, and changes nothing. */
import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { beforeEach, describe, expect, it } from "vitest";
import { parseConfig } from "../../../src/config.ts";
import { emptyDatabase, KEY, NOW, testApi } from "../../support/api.ts";
import { receivers, silence } from "../../support/receivers.ts";

const URL = "https://example.com/hook";
let receiver: ReturnType<typeof receivers>;
let gate: number | null | Error;
beforeEach(async () => {
  await emptyDatabase();
  receiver = receivers();
  gate = null;
});

function api(services: object = {}) {
  const claimTest = async () => {
    if (gate instanceof Error) throw gate;
    return gate;
  };
  const gates = {
    idFromName: (name: string) => name,
    get: () => ({ claimTest, scheduleDrain: async () => {}, resume: async () => {} }),
  };
  return testApi({ services: { fetch: receiver.fetch, gates, ...services } as never });
}

async function created(fields: object = {}) {
  const { json } = await api().call("POST", "/v1/destinations", { url: URL, ...fields });
  return json as { id: string; secret: string };
}

const run = async (id: string, from = api()) => from.call("POST", `/v1/destinations/${id}/test`);

it("a test sends a signed event, and shows the result", async () => {
  const { id, secret } = await created();
  const { status, json } = await run(id);
  expect(status).toBe(200);
  const [call] = receiver.calls;
  expect(json).toEqual({
    status: 204,
    latency_ms: 0,
    response_headers: {},
    sent: { url: URL, headers: Object.fromEntries(call?.headers ?? []), body: call?.body },
  });
  expect(JSON.parse(json.sent.body)).toMatchObject({
    type: "breakwater.test",
    timestamp: new Date(NOW).toISOString(),
  });
  expect(json.sent.headers["webhook-id"]).toMatch(/^test_/);
  const signed = new Webhook(secret).sign(json.sent.headers["webhook-id"], new Date(NOW), json.sent.body);
  expect(json.sent.headers["webhook-signature"]).toBe(signed);
});

it("a test has the example of its type, and shows the whole response, without secrets of the request", async () => {
  const { id } = await created({ headers: { "X-Api-Key": "very-secret" } });
  const schema = { type: "object", examples: [{ n: 2 }] };
  await api().call("PUT", "/v1/event-types/order.paid", { schema, example: { order: 7 } });
  await api().call("PUT", "/v1/event-types/order.sent", { schema });
  const headers = { "x-trace": "t-1", "x-echo": "very-secret" };
  receiver.script(URL, () => new Response("thanks, very-secret", { status: 200, headers }));
  const send = (type: unknown) => api().call("POST", `/v1/destinations/${id}/test`, { type });
  const { status, json: report, text } = await send("order.paid");
  expect(status).toBe(200);
  expect(JSON.parse(report.sent.body)).toMatchObject({ type: "order.paid", data: { order: 7 } });
  expect(report.response).toMatch(/^thanks, /);
  expect(report.response_headers).toMatchObject({ "x-trace": "t-1" });
  expect(text).not.toContain("very-secret");
  expect(JSON.parse((await send("order.sent")).json.sent.body)).toMatchObject({ data: { n: 2 } });
  expect(JSON.parse((await send("breakwater.test")).json.sent.body)).toMatchObject({
    type: "breakwater.test",
  });
});

it("a test has each digit of its type's example", async () => {
  const { id } = await created();
  const number = JSON.rawJSON("1187465291838226432");
  await api().call("PUT", "/v1/event-types/order.paid", { example: { number } });
  const { json } = await api().call("POST", `/v1/destinations/${id}/test`, { type: "order.paid" });
  expect(json.sent.body).toContain('"number":1187465291838226432');
});

it("a test of a type without an example is refused, and sends nothing", async () => {
  const { id } = await created();
  await api().call("PUT", "/v1/event-types/order.bare", {});
  for (const type of ["order.bare", "order.unknown", "a b", 5])
    expect(await api().call("POST", `/v1/destinations/${id}/test`, { type })).toMatchObject({
      status: 422,
      json: { errors: [{ field: "type" }] },
    });
  expect(receiver.calls).toEqual([]);
});

it.each([
  [
    "a refusal",
    () => new Response("no such hook", { status: 404 }),
    { status: 404, response: "no such hook" },
  ],
  [
    "a redirect, which is not followed",
    () => new Response(null, { status: 301, headers: { location: "/there" } }),
    { status: 301, location: "/there" },
  ],
  ["no answer", new Error("Network connection lost."), { error: "connection_lost" }],
  [
    "an answer of Cloudflare's edge in the receiver's place",
    () =>
      new Response("error code: 1016", {
        status: 530,
        headers: { server: "cloudflare", "content-type": "text/plain" },
      }),
    { error: "dns", status: 530, response: "error code: 1016" },
  ],
  [
    "a challenge",
    () => new Response("prove it", { status: 403, headers: { "cf-mitigated": "challenge" } }),
    { error: "challenged", status: 403, response: "prove it" },
  ],
] as const)("shows %s", async (_, script, shown) => {
  const { id } = await created();
  receiver.script(URL, script);
  expect(await run(id)).toMatchObject({ status: 200, json: shown });
});

it.each([
  "http://169.254.169.254/latest/meta-data/",
  "http://[fd00:ec2::254]/",
  "http://metadata.google.internal/",
])("never reaches a metadata service, even if private addresses are allowed and the row was edited: %s", async (url) => {
  const local = api({ config: { ...parseConfig(env), adminKey: KEY, allowPrivateDestinations: true } });
  const { id } = await created();
  await env.DB.prepare("UPDATE destinations SET url = ?").bind(url).run();
  expect((await run(id, local)).text).toContain("a link-local address or a metadata service");
  expect(receiver.calls).toEqual([]);
  expect(await local.call("POST", "/v1/destinations", { url })).toMatchObject({ status: 422 });
});

it("a test ends after the destination's timeout", async () => {
  const { id } = await created({ timeout_ms: 100 });
  receiver.script(URL, silence().script);
  expect((await run(id)).json).toMatchObject({ error: "timeout" });
});

it("a test does not show the values of the destination's own headers", async () => {
  const { id } = await created({ headers: { "X-Api-Key": "very-secret" } });
  const { json, text } = await run(id);
  expect(receiver.calls[0]?.headers.get("x-api-key")).toBe("very-secret");
  expect(json.sent.headers["x-api-key"]).toBe("***");
  expect(text).not.toContain("very-secret");
});

it("a test is not a delivery, and can be sent to a paused destination", async () => {
  const { id } = await created();
  await api().call("POST", `/v1/destinations/${id}/pause`);
  expect((await run(id)).json).toMatchObject({ status: 204 });
  for (const table of ["events", "deliveries"]) {
    expect(await env.DB.prepare(`SELECT count(*) AS n FROM ${table}`).first("n")).toBe(0);
  }
});

describe("a test is refused", () => {
  it("when there was one just before", async () => {
    const { id } = await created();
    gate = NOW + 3_200;
    const { status, headers } = await run(id);
    expect([status, headers.get("retry-after")]).toEqual([429, "4"]);
    expect(receiver.calls).toEqual([]);
  });

  it("while the gate cannot be reached", async () => {
    const { id } = await created();
    gate = new Error("away");
    expect((await run(id)).status).toBe(503);
    expect(receiver.calls).toEqual([]);
  });

  it("by the guard of targets, also for a row that was edited in the database", async () => {
    const { id } = await created();
    await env.DB.prepare("UPDATE destinations SET url = 'https://169.254.169.254/'").run();
    expect((await run(id)).status).toBe(409);
    expect(receiver.calls).toEqual([]);
  });

  it("for a destination that does not exist", async () => {
    expect((await run("dst_x")).status).toBe(404);
  });
});

it("the gate admits a test once in five seconds", async () => {
  const { id } = await created();
  const real = testApi({ services: { fetch: receiver.fetch, gates: env.GATES } });
  expect((await run(id, real)).status).toBe(200);
  expect((await run(id, real)).status).toBe(429);
});

it("a test is not sent to the deployment itself, even if the row was edited in the database", async () => {
  const own = api({ config: { ...parseConfig(env), adminKey: KEY, ownHosts: ["breakwater.example.com"] } });
  const { id } = await created();
  await env.DB.prepare("UPDATE destinations SET url = 'https://breakwater.example.com/'").run();
  expect(await run(id, own)).toMatchObject({
    status: 409,
    json: { detail: expect.stringContaining("this deployment itself") },
  });
  expect(receiver.calls).toEqual([]);
});
