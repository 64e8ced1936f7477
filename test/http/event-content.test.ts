/** Events whose content is not JSON: posted, stored, sent and shown byte for byte; and destinations that get only data. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { Content } from "../../src/core/content.ts";
import { parseExactly } from "../../src/core/json-value.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import { countRows, emptyDatabase, testApi } from "../support/api.ts";
import { storedBytes } from "../support/stored-bodies.ts";
import { utf8 } from "../support/utf8.ts";
import { newDestination, newWorld, SECRET, urlOf, type World } from "../support/world.ts";

const XML = "<?xml version='1.0'?>\r\n<invoice>\tGrüße</invoice>\n";
const BINARY = Uint8Array.from({ length: 256 }, (_, byte) => 255 - byte);

describe("POST /v1/events with a type in the query", () => {
  beforeEach(emptyDatabase);

  async function withDestination(fields: object = { body: "data" }, services: object = {}) {
    const api = testApi({ services });
    const { json } = await api.call("POST", "/v1/destinations", {
      url: "https://example.com/hook",
      ...fields,
    });
    return { ...api, destination: json.id as string };
  }

  const posting = (contentType: string) => ({ "content-type": contentType });

  test.each([
    ["XML", "application/xml; charset=utf-8", utf8(XML), { data: XML }],
    ["plain text", "text/plain", utf8("a,b\n1,2\n"), { data: "a,b\n1,2\n" }],
    ["bytes", "application/octet-stream", BINARY, { data_base64: BINARY.toBase64() }],
    ["a byte order mark", "text/csv", utf8("\ufeffa,b\n"), { data: "\ufeffa,b\n" }],
    ["JSON with white space", "application/json", utf8('{ "a" : 1.0 }\n'), { data: '{ "a" : 1.0 }\n' }],
  ])("stores %s to the byte, and shows it", async (_, contentType, content, shown) => {
    const { call, destination } = await withDestination();
    const posted = await call("POST", "/v1/events?type=invoice.paid", content, posting(contentType));
    expect(posted.status).toBe(202);
    expect(posted.json.deliveries).toMatchObject([{ destination_id: destination }]);
    expect((await storedBytes()).map((bytes) => bytes.toHex())).toEqual([content.toHex()]);
    const { json } = await call("GET", `/v1/events/${posted.json.id}`);
    expect(json).toMatchObject({ type: "invoice.paid", content_type: contentType, ...shown });
    expect("data" in json).toBe("data" in shown);
  });

  test("takes the other fields of an event from the query", async () => {
    const { call, destination } = await withDestination({ body: "data", tenant: "acme" });
    await call("POST", "/v1/destinations", { url: "https://example.com/2", body: "data", tenant: "acme" });
    const fields = `tenant=acme&deliver_at=2026-11-21T10:00:00Z&ttl=60&tags=x&tags=y&channels=b&channels=a&destination_ids=${destination}`;
    const { json } = await call("POST", `/v1/events?type=a&${fields}`, utf8("x"), posting("text/plain"));
    expect(json.deliveries).toMatchObject([{ destination_id: destination }]);
    const shown = (await call("GET", `/v1/events/${json.id}`)).json;
    expect(shown).toMatchObject({ deliver_at: "2026-11-21T10:00:00.000Z", tags: ["x", "y"], ttl: 60 });
    expect(shown.channels).toEqual(["a", "b"]);
  });

  test("recognizes repeats by their bytes", async () => {
    const { call } = await withDestination();
    const key = { ...posting("text/plain"), "idempotency-key": "k" };
    const first = await call("POST", "/v1/events?type=a", utf8("one"), key);
    expect((await call("POST", "/v1/events?type=a", utf8("one"), key)).json).toEqual(first.json);
    expect((await call("POST", "/v1/events?type=a", utf8("two"), key)).status).toBe(409);
    const other = { ...key, "content-type": "text/csv" };
    expect((await call("POST", "/v1/events?type=a", utf8("one"), other)).status).toBe(409);
  });

  test.each([
    ["no body", "type=a", new Uint8Array(), "text/plain", 400, undefined],
    ["no media type", "type=a", utf8("x"), "nonsense", 422, "content-type"],
    ["a type that is none", "type=a%20b", utf8("x"), "text/plain", 422, "type"],
    ["a time that is none", "type=a&deliver_at=soon", utf8("x"), "text/plain", 422, "deliver_at"],
    ["a time to live that is none", "type=a&ttl=soon", utf8("x"), "text/plain", 422, "ttl"],
    ["data beside it", "type=a&data=1", utf8("x"), "text/plain", 422, "data"],
    ["an unknown field", "type=a&colour=red", utf8("x"), "text/plain", 422, "colour"],
    ["too many bytes", "type=a", new Uint8Array(256 * 1024 + 1), "text/plain", 413, undefined],
  ])("refuses %s, and stores nothing", async (_, query, content, contentType, status, field) => {
    const { call } = await withDestination();
    const answer = await call("POST", `/v1/events?${query}`, content, posting(contentType));
    expect(answer.status).toBe(status);
    if (field) expect(answer.json.errors).toMatchObject([{ field: expect.stringContaining(field) }]);
    expect(await countRows("events")).toBe(0);
  });

  test.each([
    ["/v1/events", { type: "a", data: 1 }],
    ["/v1/events/batch", { events: [{ type: "a", data: 1 }] }],
  ])("without one refuses an event's other fields at %s, so that no event goes to another tenant", async (path, body) => {
    const { call } = await withDestination();
    const answer = await call("POST", `${path}?tenant=acme`, body);
    expect(answer).toMatchObject({
      status: 422,
      json: { errors: [{ field: "tenant", fault: "is in the query" }] },
    });
    expect(await countRows("events")).toBe(0);
    expect((await call("POST", `${path}?trace=1`, body)).status).toBe(202);
  });

  test("refuses content without a JSON content type and without a type in the query, and says how to post it", async () => {
    const { call } = await withDestination();
    const answer = await call("POST", "/v1/events", utf8(XML), posting("application/xml"));
    expect(answer).toMatchObject({
      status: 415,
      json: { detail: expect.stringContaining("`type` in the query") },
    });
  });

  test("refuses content that only destinations with envelopes would get, and stores nothing", async () => {
    const { call, destination } = await withDestination({});
    const answer = await call("POST", "/v1/events?type=a", BINARY, posting("application/octet-stream"));
    expect(answer).toMatchObject({
      status: 422,
      json: { errors: [{ field: "body", fault: expect.stringContaining(destination) }] },
    });
    expect(await countRows("events")).toBe(0);
    expect((await call("POST", "/v1/events", { type: "a", data: 1 })).status).toBe(202);
  });

  test("goes only to destinations that take data, if there are both kinds", async () => {
    const { call, destination } = await withDestination({ body: "data" });
    await call("POST", "/v1/destinations", { url: "https://example.com/other" });
    const { json } = await call("POST", "/v1/events?type=a", BINARY, posting("application/octet-stream"));
    expect(json.deliveries).toMatchObject([{ destination_id: destination }]);
  });

  test.each([
    ["the API", { body: "data" }],
    ["hand", undefined],
  ])("is accepted as soon as a destination has been changed by %s, even if its former form is cached", async (_, change) => {
    const { call, destination } = await withDestination({}, { routing: new RoutingCache() });
    await call("POST", "/v1/events", { type: "a", data: 1 });
    if (change) await call("PATCH", `/v1/destinations/${destination}`, change);
    else await env.DB.prepare("UPDATE destinations SET body = 'data'").run();
    const { json } = await call("POST", "/v1/events?type=a", BINARY, posting("image/png"));
    expect(json.deliveries).toMatchObject([{ destination_id: destination }]);
  });
});

describe("a delivery", () => {
  let world: World;
  beforeEach(async () => {
    world = await newWorld();
  });

  async function sent(data: unknown) {
    await world.consume(await world.post(1, { data }));
    const [call] = world.receiver.calls;
    if (!call) throw new Error("The event is for the destination");
    return call;
  }

  /** The signature of Standard Webhooks, for any bytes: its libraries take text. */
  async function signatureOf(headers: Headers, body: Uint8Array): Promise<string> {
    const how = { name: "HMAC", hash: "SHA-256" };
    const secret = Uint8Array.fromBase64(SECRET.replace("whsec_", ""));
    const key = await crypto.subtle.importKey("raw", secret, how, false, ["sign"]);
    const start = utf8(`${headers.get("webhook-id")}.${headers.get("webhook-timestamp")}.`);
    const signed = await crypto.subtle.sign("HMAC", key, new Uint8Array([...start, ...body]));
    return `v1,${new Uint8Array(signed).toBase64()}`;
  }

  test.each([
    ["binary content", BINARY, "application/octet-stream"],
    ["text", utf8(XML), "application/xml"],
  ])("of %s is sent and signed to the byte, with its content type", async (_, content, type) => {
    const destination = await newDestination({ body: "data" });
    const { url, headers, init } = await sent(new Content(type, content));
    expect(url).toBe(urlOf(destination));
    expect((init.body as Uint8Array).toHex()).toBe(content.toHex());
    expect(headers.get("content-type")).toBe(type);
    expect(headers.get("webhook-signature")).toBe(await signatureOf(headers, content));
  });

  test.each([
    ["{}"],
    ["null"],
    ['"}"'],
    ['{"a":[1.0,"é"],"data":2}'],
    ["12345678901234567890"],
  ])("of JSON to a destination that takes data is %s as it was posted", async (json) => {
    await newDestination({ body: "data" });
    const { body, headers } = await sent(parseExactly(json));
    expect(body).toBe(json);
    expect(headers.get("content-type")).toBe("application/json");
  });

  test("is an envelope if the form was edited into nonsense", async () => {
    await newDestination({ body: "nonsense" as "data" });
    const { body } = await sent({ n: 1 });
    expect(JSON.parse(body)).toMatchObject({ type: "order.paid", data: { n: 1 } });
  });
});
