/** The catalogue of event types: changed by the operator, read by all; and data that does not fit is refused. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, test } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { RoutingCache } from "../../../src/ingest/routing-cache.ts";
import type { DeliveryMessage } from "../../../src/queue-messages.ts";
import { servicesOf } from "../../../src/services.ts";
import { acceptOperational } from "../../support/accept.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";
import { meteredD1 } from "../../support/meter.ts";
import { fakeQueue } from "../../support/queues.ts";

const { call } = testApi();
const schema = {
  type: "object",
  required: ["total"],
  properties: { total: { type: "number", minimum: 0 }, lines: { items: { required: ["sku"] } } },
};

beforeEach(emptyDatabase);

const put = (name: string, body: object) => call("PUT", `/v1/event-types/${name}`, body);
const event = { type: "order.paid", data: { total: 1 }, tenant: "acme" };
const bundles = () => env.DB.prepare("SELECT count(*) AS n FROM bundles").first<number>("n");

describe("the catalogue", () => {
  it("stores a type by its name, and replaces it as a whole", async () => {
    const rest = { validate: true, archived: false, retention_days: 7 };
    const full = { description: "Paid", schema, example: { total: 5 }, ...rest };
    const { status, json } = await put("order.paid", full);
    expect(status).toBe(200);
    expect(json).toEqual({
      name: "order.paid",
      ...full,
      version: 1,
      created_at: "2026-11-21T09:00:00.000Z",
      updated_at: "2026-11-21T09:00:00.000Z",
    });
    expect((await call("GET", "/v1/event-types/order.paid")).json).toEqual(json);
    const replaced = (await put("order.paid", { archived: true })).json;
    expect(replaced).toMatchObject({
      description: null,
      schema: null,
      example: null,
      validate: false,
      archived: true,
    });
    expect((await call("DELETE", "/v1/event-types/order.paid")).status).toBe(204);
    expect((await call("GET", "/v1/event-types/order.paid")).status).toBe(404);
    expect((await call("DELETE", "/v1/event-types/order.paid")).status).toBe(404);
  });

  it("keeps each digit of an example and of examples in a schema, and checks them", async () => {
    const text = '{"id":1187465291838226432,"total":1.10}';
    const example = { id: JSON.rawJSON("1187465291838226432"), total: JSON.rawJSON("1.10") };
    const exact = { ...schema, examples: [example] };
    const stored = async (path: string) => (await call("GET", path)).text;
    const { text: answer, status } = await put("order.paid", { schema: exact, example, retention_days: 7 });
    expect([status, answer]).toEqual([200, expect.stringContaining(`"example":${text}`)]);
    const shown = [`"example":${text}`, `"examples":[${text}]`];
    for (const one of shown) expect(await stored("/v1/event-types/order.paid")).toContain(one);
    for (const one of shown) expect(await stored("/v1/event-types")).toContain(one);
    const next = "/v1/event-types/order.paid/versions/2";
    expect((await call("PUT", next, { schema: exact, example })).text).toContain(shown[0]);
    for (const one of shown) expect(await stored("/v1/event-types/order.paid/versions")).toContain(one);
    const refused = await put("a", { schema, example: { total: JSON.rawJSON("-1.0") } });
    expect(refused.json.errors).toMatchObject([{ field: "example#/total" }]);
    const zeros = JSON.rawJSON(`0.${"0".repeat(20_000)}`);
    const long = await put("a", { schema: { ...schema, examples: [zeros] } });
    expect(long.json.errors).toMatchObject([{ field: "schema#", expected: "at most 16384" }]);
    expect((await put("a", { schema: { minimum: JSON.rawJSON("1.0") }, example: 2 })).status).toBe(200);
  });

  it("is listed by name, page by page, archived ones only on demand", async () => {
    for (const name of ["c", "a", "b.x", "old"]) await put(name, { archived: name === "old" });
    const namesOf = (json: { data: { name: string }[] }) => json.data.map(({ name }) => name);
    expect(namesOf((await call("GET", "/v1/event-types")).json)).toEqual(["a", "b.x", "c"]);
    expect(namesOf((await call("GET", "/v1/event-types?archived=true")).json)).toEqual([
      "a",
      "b.x",
      "c",
      "old",
    ]);
    const { json } = await call("GET", "/v1/event-types?limit=2");
    const rest = await call("GET", `/v1/event-types?limit=2&cursor=${json.next_cursor}`);
    expect([namesOf(json), namesOf(rest.json), rest.json.next_cursor]).toEqual([["a", "b.x"], ["c"], null]);
  });

  it("is read with keys of tenants, and changed only with the operator's", async () => {
    await put("order.paid", { schema });
    const acme = testApi({ authenticate: async () => ({ tenant: "acme", scopes }) });
    expect((await acme.call("GET", "/v1/event-types/order.paid")).status).toBe(200);
    expect((await acme.call("PUT", "/v1/event-types/order.paid", {})).status).toBe(403);
    expect((await acme.call("DELETE", "/v1/event-types/order.paid")).status).toBe(403);
    expect((await call("GET", "/v1/event-types/order.paid")).json.schema).toEqual(schema);
  });

  it.each<[string, object, string, string]>([
    ["a b", {}, "name", "letters, digits, _ and -"],
    ["a", { validate: true }, "validate", "a schema beside it"],
    ["a", { schema: 7 }, "schema#", "a schema: an object, true or false"],
    [
      "a",
      { schema: { properties: { "x/y": { type: "date" } } } },
      "schema#/properties/x~1y/type",
      "one of null",
    ],
    ["a", { schema: { $ref: "https://example.com" } }, "schema#/$ref", "other documents are not fetched"],
    ["a", { schema: { pattern: "^(a+)+$" } }, "schema#/pattern", "without groups"],
    ["a", { schema: { description: "x".repeat(20_000) } }, "schema#", "at most 16384"],
    ["a", { schema, example: { total: -1 } }, "example#/total", "at least 0"],
    ["a", { schema, example: { total: 1, x: "x".repeat(17_000) } }, "example", "at most 16384"],
    ["a", { example: "x".repeat(17_000) }, "example", "at most 16384"],
    ["a", { description: 7 }, "description", "a string of at most 1000 characters"],
    ["a", { unknown: 1 }, "unknown", "one of description, schema, example, validate, archived"],
  ])("refuses %s with %j", async (name, body, field, expected) => {
    const { status, json } = await put(encodeURIComponent(name), body);
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      { field, fault: expect.any(String), expected: expect.stringContaining(expected) },
    ]);
  });

  it("has limits for all types and for validated types, and can change types when it is full", async () => {
    const fill = (from: number, count: number, validates: 0 | 1) =>
      env.DB.prepare(
        `WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + ?2 - 1)
         INSERT INTO event_types (name, schema, validates, created_at, updated_at)
         SELECT 't' || CAST(i AS INTEGER), 'true', ?3, 0, 0 FROM n`,
      )
        .bind(from, count, validates)
        .run();
    await fill(0, 100, 1);
    expect((await put("more", { schema, validate: true })).json.errors).toMatchObject([{ field: "name" }]);
    expect((await put("t1", { schema, validate: true })).status).toBe(200);
    await fill(100, 400, 0);
    expect((await put("more", {})).status).toBe(422);
    expect((await put("t1", {})).status).toBe(200);
  });
});

describe("an event of a validated type", () => {
  beforeEach(async () => {
    await put("order.paid", { schema, validate: true });
  });

  it("is refused when its data does not fit, naming the place as a JSON Pointer, and nothing is stored", async () => {
    const data = { total: "5", lines: [{ sku: 1 }, {}] };
    const { status, json } = await call("POST", "/v1/events", { ...event, data });
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      { field: "data#/total", fault: 'is "5"', expected: "a value of the type number" },
      { field: "data#/lines/1/sku", fault: "is missing", expected: "it to be there" },
    ]);
    const batch = await call("POST", "/v1/events/batch", { events: [event, { ...event, data: [] }] });
    expect(batch.json.errors).toMatchObject([{ field: "events[1].data#" }]);
    const lines = [event, { ...event, data: {} }].map((one) => JSON.stringify(one));
    const ndjson = await call("POST", "/v1/events/batch", lines.join("\n"), {
      "content-type": "application/x-ndjson",
    });
    expect(ndjson.json.errors).toMatchObject([{ line: 2, field: "data#/total" }]);
    expect(await bundles()).toBe(0);
  });

  it("is taken when it fits, also with numbers that only text can hold", async () => {
    const exact = `{"type":"order.paid","tenant":"acme","data":{"total":12345678901234567890.10}}`;
    expect((await call("POST", "/v1/events", exact)).status).toBe(202);
    expect((await call("POST", "/v1/events", { ...event, type: "other", data: 7 })).status).toBe(202);
  });

  it("is validated against the current schema, whatever an isolate has cached", async () => {
    const wrong = { ...event, data: {} };
    const statusNow = async () => (await call("POST", "/v1/events", wrong)).status;
    expect(await statusNow()).toBe(422);
    await put("order.paid", { schema: { type: "object" }, validate: true });
    expect(await statusNow()).toBe(202);
    await put("order.paid", { schema, validate: true });
    expect(await statusNow()).toBe(422);
    await put("order.paid", { schema });
    expect(await statusNow()).toBe(202);
    await env.DB.prepare("UPDATE event_types SET validates = 1").run();
    expect(await statusNow()).toBe(422);
    await env.DB.prepare("UPDATE event_types SET schema = 'nonsense'").run();
    expect(await statusNow()).toBe(202);
    const replace = "REPLACE INTO event_types (name, schema, validates, created_at, updated_at) VALUES ";
    await env.DB.prepare(`${replace} ('order.paid', 'false', 1, 0, 0)`).run();
    expect(await statusNow()).toBe(422);
    await env.DB.prepare(`${replace} ('order.paid', 'false', 0, 0, 0)`).run();
    expect(await statusNow()).toBe(202);
    await put("order.paid", { schema, validate: true, archived: true });
    expect(await statusNow()).toBe(422);
    await call("DELETE", "/v1/event-types/order.paid");
    expect(await statusNow()).toBe(202);
  });

  it("that repeats an idempotency key gets its first answer, although the schema has changed", async () => {
    const key = { "idempotency-key": "k" };
    const first = await call("POST", "/v1/events", event, key);
    await put("order.paid", { schema: false, validate: true });
    const again = await call("POST", "/v1/events", event, key);
    expect([again.status, again.json.id]).toEqual([202, first.json.id]);
  });

  it("is refused when it is content that is not JSON", async () => {
    await put("order.paid", { schema, validate: true });
    const type = { "content-type": "text/csv" };
    const { status, json } = await call("POST", "/v1/events?type=order.paid", new Uint8Array([49]), type);
    expect([status, json.errors]).toMatchObject([
      422,
      [{ field: "body", fault: expect.stringContaining("text/csv") }],
    ]);
    expect(await bundles()).toBe(0);
  });

  it("that Breakwater itself reports is not validated against it", async () => {
    await put("destination.paused", { schema: false, validate: true });
    await call("POST", "/v1/destinations", { url: "https://example.com/hook", tenant: "operator" });
    const services = {
      ...servicesOf(env, { waitUntil: () => {} }),
      config: testConfig(),
      deliveries: fakeQueue<DeliveryMessage>().queue,
    };
    await acceptOperational(services, [
      { tenant: "operator", type: "destination.paused", data: {}, key: "k" },
    ]);
    expect(await bundles()).toBe(1);
  });
});

test("the first type that is ever validated counts from the next event on, in an isolate that has accepted events before", async () => {
  await env.DB.prepare("DELETE FROM tenants").run();
  const fresh = testApi();
  const post = async () => (await fresh.call("POST", "/v1/events", { ...event, data: {} })).status;
  expect(await post()).toBe(202);
  await put("order.paid", { schema, validate: true });
  expect(await post()).toBe(422);
});

describe("`validate: true` on an event", () => {
  it("has its data checked, even if the type does not require it", async () => {
    await put("order.paid", { schema });
    const wrong = { ...event, data: {} };
    expect((await call("POST", "/v1/events", wrong)).status).toBe(202);
    const { status, json } = await call("POST", "/v1/events", { ...wrong, validate: true });
    expect(status).toBe(422);
    expect(json.errors).toMatchObject([{ field: "data#/total" }]);
    expect((await call("POST", "/v1/events", { ...event, validate: true })).status).toBe(202);
  });

  it("is refused for a type without a schema", async () => {
    await put("order.paid", {});
    for (const type of ["order.paid", "unknown"]) {
      const { json } = await call("POST", "/v1/events", { ...event, type, validate: true });
      expect(json.errors).toEqual([
        {
          field: "type",
          fault: `is ${type}, which has no schema in the catalogue`,
          expected: "a type with a schema: see /v1/event-types",
        },
      ]);
    }
  });
});

describe("a post", () => {
  async function costOf(body: object) {
    const d1 = meteredD1(env.DB);
    const api = testApi({ services: { db: d1.db, routing: new RoutingCache() } });
    await api.call("POST", "/v1/events", { ...event, type: "warm.up", data: {} });
    d1.used();
    expect((await api.call("POST", "/v1/events", body)).status).toBe(202);
    return d1.used();
  }

  it("costs the same with a catalogue as without, and three more rows read if types are validated", async () => {
    const before = await costOf(event);
    await put("order.paid", { schema });
    const described = await costOf(event);
    await put("order.paid", { schema, validate: true });
    const validated = await costOf(event);
    expect(before).toMatchObject({ queries: 2, rowsWritten: 1 });
    expect(described).toEqual(before);
    expect(validated).toMatchObject({ queries: 2, rowsWritten: 1 });
    expect(validated.rowsRead - before.rowsRead).toBeLessThanOrEqual(3);
  });
});
