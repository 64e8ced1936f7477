import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { eventId, eventNumber } from "../../../src/ids.ts";
import { CATALOGUE, RoutingCache } from "../../../src/ingest/routing-cache.ts";
import { countRows, emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { storedBodies } from "../../support/stored-bodies.ts";

const KIB = 1024;

beforeEach(emptyDatabase);

async function destination(call: ReturnType<typeof testApi>["call"], fields: object = {}): Promise<string> {
  const { json } = await call("POST", "/v1/destinations", { url: "https://example.com/hook", ...fields });
  return json.id;
}

async function storedBody(): Promise<string | undefined> {
  return (await storedBodies())[0];
}

describe("POST /v1/events", () => {
  it("stores the event, plans its deliveries and puts them on the queue", async () => {
    const { call, deliveries } = testApi();
    const wanted = await destination(call, { event_types: ["invoice.*"] });
    await destination(call, { event_types: ["order.placed"] });
    await destination(call, { tenant: "another" });

    const { status, json } = await call("POST", "/v1/events", { type: "invoice.paid", data: { n: 1 } });

    expect(status).toBe(202);
    expect(json).toEqual({
      id: expect.stringMatching(/^evt_[0-9a-z]{13}$/),
      deliveries: [{ id: expect.stringMatching(/^dlv_/), destination_id: wanted, state: "queued" }],
    });
    expect(await deliveries()).toEqual([{ eventId: eventNumber(json.id), destinationId: wanted }]);
    expect(await storedBody()).toBe(
      '{"type":"invoice.paid","timestamp":"2026-11-21T09:00:00.000Z","data":{"n":1}}',
    );
  });

  it.each([
    ["null"],
    ["0"],
    ['""'],
    ["[]"],
    ["false"],
    ['{"__proto__":{"a":1}}'],
  ])("accepts %s as data", async (data) => {
    const { call } = testApi();
    const { status } = await call("POST", "/v1/events", `{"type":"a","data":${data}}`);
    expect(status).toBe(202);
    expect(await storedBody()).toContain(`"data":${data}}`);
  });

  it.each([
    ["12345678901234567890"],
    ["1e400"],
    ["-0"],
    ["0.1234567890123456789"],
    ["1.50e3"],
    ["100.00"],
    ["1.0"],
    ["1E+2"],
    ["0.1000"],
    ["-0.0"],
    ["0.0000001"],
    ["[1,2.5,9007199254740993]"],
    ['{"text":"1e400","id":1e400}'],
  ])("preserves the number in %s, in the delivered body and when it is shown", async (data) => {
    const { call } = testApi();
    const { json } = await call("POST", "/v1/events", `{"type":"a","data":${data}}`);
    expect(await storedBody()).toContain(`"data":${data}}`);
    const { text } = await call("GET", `/v1/events/${json.id}`);
    expect(text).toContain(`"data":${data},`);
  });

  it.each([
    ["malformed JSON", '{"type":', 400, "not valid JSON"],
    ["no body", "", 400, "missing"],
    ["a list", "[]", 400, "not an object"],
    ["a string", '"event"', 400, "not an object"],
    ["a number", "1.0", 400, "not an object"],
    ["a value nested without end", `{"type":"a","data":${"[".repeat(600)}${"]".repeat(600)}}`, 400, "nested"],
  ])("refuses %s", async (_what, body, status, detail) => {
    const { call } = testApi();
    const answer = await call("POST", "/v1/events", body);
    expect(answer).toMatchObject({ status, json: { status, type: "/problems/malformed-request" } });
    expect(answer.json.detail).toContain(detail);
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
    expect(await countRows("events")).toBe(0);
  });

  it("names the line and the column at which a body is not JSON", async () => {
    const { json } = await testApi().call("POST", "/v1/events", '{\n  "type": "a",\n  "data": nope\n}');
    expect(json.detail).toBe("The body is not valid JSON at line 3 column 12: Unexpected token 'o'");
  });

  it("are no numbers in a batch, however these are written", async () => {
    for (const one of ["1", "1.0"]) {
      const { status, json } = await testApi().call("POST", "/v1/events/batch", `{"events": [${one}]}`);
      const [field, fault] = ["events[0]", `is ${one}`];
      expect([status, json.errors.at(-1)]).toEqual([422, { field, fault, expected: expect.any(String) }]);
    }
  });

  it("answers with a hint when no destination takes the event, and only then", async () => {
    const { call } = testApi();
    await call("POST", "/v1/destinations", { url: "https://example.com/", event_types: ["order.*"] });
    const nobody = await call("POST", "/v1/events", { type: "invoice.paid", data: 1 });
    const hint =
      "No destination of the tenant default takes this event: check their event_types, channels and filter, and the tenant";
    expect([nobody.status, nobody.json]).toEqual([202, { id: nobody.json.id, hint, deliveries: [] }]);
    const somebody = await call("POST", "/v1/events", { type: "order.paid", data: 1 });
    expect(Object.keys(somebody.json)).toEqual(["id", "deliveries"]);
    const events = [
      { type: "order.paid", data: 1 },
      { type: "order.paid", data: 1, tenant: "acme" },
    ];
    const batch = await call("POST", "/v1/events/batch", { events });
    const hints = batch.json.events.map((event: { hint?: string }) => event.hint?.slice(0, 33));
    expect(hints).toEqual([undefined, "No destination of the tenant acme"]);
    const keyed = { "idempotency-key": "k" };
    const first = await call("POST", "/v1/events", { type: "invoice.paid", data: 1 }, keyed);
    expect((await call("POST", "/v1/events", { type: "invoice.paid", data: 1 }, keyed)).json).toEqual(
      first.json,
    );
  });

  it("counts brackets in strings as text", async () => {
    const { call } = testApi();
    const data = `\\"${"[{".repeat(600)}`;
    expect(await call("POST", "/v1/events", `{"type":"a","data":"${data}"}`)).toMatchObject({ status: 202 });
  });

  it("refuses bytes that are not UTF-8", async () => {
    const { call } = testApi();
    const bytes = new Uint8Array([...new TextEncoder().encode('{"type":"a","data":"'), 0xff, 0x22, 0x7d]);
    const answer = await call("POST", "/v1/events", new Response(bytes).body);
    expect(answer.status).toBe(400);
    expect(await countRows("events")).toBe(0);
  });

  it.each([
    ["no type", { data: 1 }, "type", "is missing", "letters"],
    ["no data", { type: "a" }, "data", "is missing", "any JSON value"],
    ["a type with spaces", { type: "a b", data: 1 }, "type", 'is "a b"', "letters"],
    ["a type that ends in a dot", { type: "a.", data: 1 }, "type", 'is "a."', "letters"],
    ["a type of a wrong kind", { type: 7, data: 1 }, "type", "is 7", "letters"],
    ["a long type", { type: "a".repeat(129), data: 1 }, "type", "is a string of 129 characters", "128"],
    ["a bad tenant", { type: "a", data: 1, tenant: "a/b" }, "tenant", 'is "a/b"', "1 to 64"],
    ["an empty tenant", { type: "a", data: 1, tenant: "" }, "tenant", 'is ""', "1 to 64"],
    [
      "an unknown field",
      { type: "a", data: 1, payload: 2 },
      "payload",
      "is not a known field",
      "type, data, tenant, deliver_at",
    ],
  ])("refuses %s and names the field", async (_what, body, field, fault, expected) => {
    const { call } = testApi();
    const { status, json } = await call("POST", "/v1/events", body);
    expect(status).toBe(422);
    expect(json.errors).toEqual([{ field, fault, expected: expect.stringContaining(expected) }]);
    expect(await countRows("events")).toBe(0);
  });

  it("lists every invalid field at once", async () => {
    const { json } = await testApi().call("POST", "/v1/events", '{"type":"","x":1,"__proto__":2}');
    expect(json.errors.map(({ field }: { field: string }) => field).sort()).toEqual([
      "__proto__",
      "data",
      "type",
      "x",
    ]);
  });

  it("accepts a type of 128 characters", async () => {
    const { status } = await testApi().call("POST", "/v1/events", { type: "a".repeat(128), data: 1 });
    expect(status).toBe(202);
  });

  it.each([
    [null],
    ["text/plain"],
    ["application/x-www-form-urlencoded"],
    ["application/jsonp"],
  ])("refuses the content type %s", async (type) => {
    const answer = await testApi().call("POST", "/v1/events", '{"type":"a","data":1}', {
      "content-type": type,
    });
    expect(answer).toMatchObject({
      status: 415,
      json: {
        type: "/problems/unsupported-media-type",
        detail: expect.stringContaining("expected application/json"),
      },
    });
    expect(await countRows("events")).toBe(0);
  });

  it.each([
    ["application/json; charset=utf-8"],
    ["Application/JSON"],
    ["application/cloudevents+json"],
  ])("accepts the content type %s", async (type) => {
    const answer = await testApi().call("POST", "/v1/events", '{"type":"a","data":1}', {
      "content-type": type,
    });
    expect(answer.status).toBe(202);
  });

  it("accepts a body of 256 KiB and refuses a byte more", async () => {
    const { call } = testApi();
    const bodyOf = (bytes: number) => `{"type":"a","data":"${"x".repeat(bytes - 22)}"}`;
    expect(bodyOf(100).length).toBe(100);
    expect((await call("POST", "/v1/events", bodyOf(256 * KIB))).status).toBe(202);
    expect(await call("POST", "/v1/events", bodyOf(256 * KIB + 1))).toMatchObject({
      status: 413,
      json: { detail: expect.stringContaining("262144") },
    });
    expect(await countRows("events")).toBe(1);
  });

  it("refuses a long body of unknown length without reading all of it", async () => {
    let pulled = 0;
    const long = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(64 * KIB).fill(0x20));
        if (pulled === 1000) controller.close();
      },
    });
    expect((await testApi().call("POST", "/v1/events", long)).status).toBe(413);
    expect(pulled).toBeLessThan(300);
  });

  it("answers 503 without details after a second try, and logs both failures", async () => {
    let calls = 0;
    const fail = () => {
      calls += 1;
      return Promise.reject(new Error("D1_ERROR: secret detail"));
    };
    const statement = { bind: () => ({ all: fail, first: fail }), first: fail };
    const db = { batch: fail, prepare: () => statement } as unknown as D1Database;
    const routing = new RoutingCache();
    routing.raiseFloor(0, 0);
    await routing.read(env.DB, ["default", CATALOGUE]);
    const { call, log } = testApi({ services: { db, routing } });
    const { status, text, headers } = await call("POST", "/v1/events", { type: "a", data: 1 });
    expect([status, headers.get("retry-after"), calls]).toEqual([503, "5", 2]);
    expect(text).not.toContain("secret detail");
    expect(log.map(({ what }) => what)).toEqual(["commit_repeated", "commit_failed"]);
  });
});

describe("POST /v1/events/batch", () => {
  it("accepts the events in order", async () => {
    const { call, messages, deliveries } = testApi();
    const [a, b] = [
      await destination(call, { event_types: ["a"] }),
      await destination(call, { event_types: ["b"] }),
    ];
    const events = ["b", "a", "c"].map((type) => ({ type, data: null }));
    const { status, json } = await call("POST", "/v1/events/batch", { events });
    expect(status).toBe(202);
    expect(
      json.events.map((event: { deliveries: { destination_id: string }[] }) =>
        event.deliveries.map((d) => d.destination_id),
      ),
    ).toEqual([[b], [a], []]);
    expect(await deliveries()).toHaveLength(2);
    expect(messages).toHaveLength(1);
  });

  it("accepts a thousand and refuses one more", async () => {
    const { call } = testApi();
    const many = (n: number) => ({ events: Array.from({ length: n }, () => ({ type: "a", data: 1 })) });
    expect((await call("POST", "/v1/events/batch", many(1000))).json.events).toHaveLength(1000);
    expect(await call("POST", "/v1/events/batch", many(1001))).toMatchObject({
      status: 422,
      json: {
        errors: [{ field: "events", fault: "is a list of 1001", expected: "a list of 1 to 1000 events" }],
      },
    });
    expect(await countRows("events")).toBe(1000);
  });

  it.each([
    [
      "no events",
      { events: [] },
      { field: "events", fault: "is a list of 0", expected: "a list of 1 to 1000 events" },
    ],
    [
      "no list",
      { events: {} },
      { field: "events", fault: "is an object", expected: "a list of 1 to 1000 events" },
    ],
    ["nothing", {}, { field: "events", fault: "is missing", expected: "a list of 1 to 1000 events" }],
    [
      "a number",
      { events: [3] },
      {
        field: "events[0]",
        fault: "is 3",
        expected:
          "an object of type, data, tenant, deliver_at, destination_ids, tags, channels, ttl, headers, ordering_key, validate, version",
      },
    ],
    [
      "an unknown field",
      { events: [{ type: "a", data: 1, x: 1 }] },
      {
        field: "events[0].x",
        fault: "is not a known field",
        expected:
          "one of type, data, tenant, deliver_at, destination_ids, tags, channels, ttl, headers, ordering_key, validate, version",
      },
    ],
  ])("refuses %s", async (_what, body, error) => {
    const { status, json } = await testApi().call("POST", "/v1/events/batch", body);
    expect(status).toBe(422);
    expect(json.errors).toEqual([error]);
  });

  it("stores nothing when one event is invalid, and names it", async () => {
    const events = Array.from({ length: 5 }, (_, i) => ({ type: i === 3 ? "a b" : "a", data: 1 }));
    const { status, json } = await testApi().call("POST", "/v1/events/batch", { events });
    expect(status).toBe(422);
    expect(json.errors[0]).toMatchObject({ field: "events[3].type", fault: 'is "a b"' });
    expect(await countRows("events")).toBe(0);
  });

  it("lists a bounded number of errors", async () => {
    const events = Array.from({ length: 1000 }, () => ({ type: "" }));
    const { json } = await testApi().call("POST", "/v1/events/batch", { events });
    expect(json.errors).toHaveLength(50);
    expect(json.detail).toContain("1999 more");
  });

  it("refuses an event larger than 256 KiB in a batch below 1 MiB, and a batch above it", async () => {
    const { call } = testApi();
    const events = [
      { type: "a", data: 1 },
      { type: "a", data: "x".repeat(300 * KIB) },
    ];
    expect(await call("POST", "/v1/events/batch", { events })).toMatchObject({
      status: 413,
      json: { errors: [{ field: "events[1]", expected: "at most 262144" }] },
    });
    const full = { events: Array.from({ length: 5 }, () => ({ type: "a", data: "x".repeat(250 * KIB) })) };
    expect((await call("POST", "/v1/events/batch", full)).status).toBe(413);
    expect(await countRows("events")).toBe(0);
  });
});

describe("GET /v1/events/:id", () => {
  it("shows the event with every delivery of its plan", async () => {
    const { call } = testApi();
    const [queued, gone, done] = [await destination(call), await destination(call), await destination(call)];
    const { json: posted } = await call("POST", "/v1/events", { type: "a", data: { b: [1] } });
    await call("DELETE", `/v1/destinations/${gone}`);
    await insertRow("deliveries", {
      destination_id: done,
      event_id: eventNumber(posted.id),
      state: "delivered",
      attempts: 1,
      give_up_at: NOW + 1000,
      ended_at: NOW + 20,
      last_status: 204,
      log: [{ at: NOW, latencyMs: 20, status: 204, excerpt: "ok" }],
    });

    const { status, json } = await call("GET", `/v1/events/${posted.id}`);

    expect(status).toBe(200);
    expect(json).toMatchObject({
      id: posted.id,
      tenant: "default",
      type: "a",
      timestamp: "2026-11-21T09:00:00.000Z",
      data: { b: [1] },
    });
    const states = new Map(json.deliveries.map((d: { destination_id: string }) => [d.destination_id, d]));
    expect(states.size).toBe(3);
    expect(states.get(queued)).toMatchObject({
      state: "queued",
      attempts: 0,
      give_up_at: "2026-12-05T09:00:00.000Z",
      log: [],
    });
    expect(states.get(gone)).toMatchObject({ state: "cancelled", reason: "destination_deleted" });
    expect(states.get(done)).toEqual({
      id: expect.stringMatching(/^dlv_/),
      event_id: posted.id,
      destination_id: done,
      state: "delivered",
      attempts: 1,
      give_up_at: "2026-11-21T09:00:01.000Z",
      last_status: 204,
      delivered_at: "2026-11-21T09:00:00.020Z",
      log: [{ at: "2026-11-21T09:00:00.000Z", status: 204, latency_ms: 20, response: "ok" }],
    });
  });

  it("shows an event that no destination takes", async () => {
    const { call } = testApi();
    const { json } = await call("POST", "/v1/events", { type: "a", data: 1 });
    expect((await call("GET", `/v1/events/${json.id}`)).json.deliveries).toEqual([]);
  });

  it.each([[eventId(4711)], ["evt_nonsense"], ["%zz"]])("knows no event %s", async (id) => {
    expect(await testApi().call("GET", `/v1/events/${id}`)).toMatchObject({
      status: 404,
      json: { type: "/problems/not-found" },
    });
  });
});

describe("deliver_at", () => {
  const at = (time: unknown) => ({ type: "a", data: 1, deliver_at: time });
  const stored = () => env.DB.prepare("SELECT deliver_at FROM events").first("deliver_at");

  it("is stored, answered and shown, and explains why the delivery is queued", async () => {
    const { call, messages } = testApi();
    await destination(call);
    const { status, json } = await call("POST", "/v1/events", at("2026-11-22T10:30:00+01:30"));
    expect(status).toBe(202);
    expect(json).toMatchObject({ deliver_at: "2026-11-22T09:00:00.000Z", deliveries: [{ state: "queued" }] });
    expect(await stored()).toBe(NOW + 86_400_000);
    expect(messages).toEqual([]);

    const { json: shown } = await call("GET", `/v1/events/${json.id}`);
    expect(shown).toMatchObject({
      timestamp: "2026-11-21T09:00:00.000Z",
      deliver_at: "2026-11-22T09:00:00.000Z",
      deliveries: [
        {
          state: "queued",
          reason: "scheduled",
          waiting_until: "2026-11-22T09:00:00.000Z",
          give_up_at: "2026-12-06T09:00:00.000Z",
        },
      ],
    });
    const later = testApi({ services: { now: () => NOW + 86_400_000 } });
    const { json: due } = await later.call("GET", `/v1/deliveries/${json.deliveries[0].id}`);
    expect(due).toMatchObject({ state: "queued" });
    expect(due).not.toHaveProperty("reason");
  });

  it("in the past means at once", async () => {
    const { call, messages } = testApi();
    await destination(call);
    const { status, json } = await call("POST", "/v1/events", at("1999-12-31T23:59:59Z"));
    expect(status).toBe(202);
    expect(json).not.toHaveProperty("deliver_at");
    expect(messages).toHaveLength(1);
  });

  it.each([
    ["2026-11-22"],
    ["2026-11-22T09:00:00"],
    ["2026-02-30T09:00:00Z"],
    ["tomorrow"],
    [1_800_000_000],
    [null],
    [""],
  ])("is refused when it is %j", async (time) => {
    const { status, json } = await testApi().call("POST", "/v1/events", at(time));
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      {
        field: "deliver_at",
        fault: `is ${JSON.stringify(time)}`,
        expected: "a time in ISO 8601 with Z or an offset",
      },
    ]);
  });

  it("is at most 30 days ahead", async () => {
    const { call } = testApi();
    expect((await call("POST", "/v1/events", at("2026-12-21T09:00:00Z"))).status).toBe(202);
    const far = await call("POST", "/v1/events", at("2026-12-21T09:00:00.001Z"));
    expect(far).toMatchObject({ status: 422, json: { errors: [{ field: "deliver_at" }] } });
    const batch = await call("POST", "/v1/events/batch", {
      events: [at(undefined), at("9999-12-31T00:00:00Z")],
    });
    expect(batch).toMatchObject({ status: 422, json: { errors: [{ field: "events[1].deliver_at" }] } });
    expect(await countRows("events")).toBe(1);
  });

  it("is covered by an idempotency key; a repeat gets the first answer also after the time", async () => {
    const headers = { "idempotency-key": "k" };
    const event = at("2026-11-21T10:00:00Z");
    const { text } = await testApi().call("POST", "/v1/events", event, headers);
    const later = testApi({ services: { now: () => NOW + 86_400_000 } });
    const again = await later.call("POST", "/v1/events", event, headers);
    expect([again.status, again.text]).toEqual([202, text]);
    const other = await later.call("POST", "/v1/events", at("2026-11-21T10:00:01Z"), headers);
    expect(other.status).toBe(409);
  });
});
