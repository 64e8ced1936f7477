/** The service binding: what the HTTP API does, for another Worker, which has neither a key nor a body of bytes. */
import { env, exports } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import {
  type BreakwaterEvents,
  BreakwaterProblem,
  type NewEvent,
  type Problem,
  type Result,
  unwrap,
} from "../../src/bindings/client.ts";
import { Events } from "../../src/bindings/entrypoint.ts";
import { eventsFor } from "../../src/bindings/events.ts";
import { testApi } from "../support/api.ts";
import { testConfig } from "../support/config.ts";
import { newDestination, newWorld, TENANT, urlOf, type World } from "../support/world.ts";

const BOTH = ["events:write", "read"];
const EVENT = { type: "order.paid", data: { order: 42 } };
const HOUR = 3_600_000;

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const bound = (props: unknown = { tenant: TENANT, scopes: BOTH }, services = world.services) =>
  eventsFor(services, props);

function problemIn(result: Result<unknown>): Problem {
  if (result.ok) throw new Error(`It was not refused: ${JSON.stringify(result.value)}`);
  return result.problem;
}

const storedBodies = async () =>
  (await env.DB.prepare("SELECT count FROM bundles").all<{ count: number }>()).results;

/** The requests that receivers get. */
async function deliverAll(): Promise<string[]> {
  await world.settled();
  await world.consume(world.deliveryQueue.taken().map(({ body }) => body));
  return world.receiver.calls.map(({ body }) => body);
}

describe("an event that is sent", () => {
  test("is stored for the binding's tenant, delivered, and shown with its delivery", async () => {
    const destination = await newDestination();
    await newDestination({ tenant: "another" });
    const { id, deliveries } = unwrap(await bound().send(EVENT));
    expect(deliveries).toMatchObject([{ destination_id: destination, state: "queued" }]);
    await deliverAll();
    expect(world.receiver.calls.map(({ url }) => url)).toEqual([urlOf(destination)]);
    const event = unwrap(await bound().event(id));
    expect(event).toMatchObject({ id, tenant: TENANT, ...EVENT, deliveries: [{ state: "delivered" }] });
    const delivery = unwrap(await bound().delivery(deliveries[0]?.id ?? ""));
    expect(delivery).toEqual(event.deliveries[0]);
  });

  test("is sent on as JSON once: dates as text, and whole numbers with all of their digits", async () => {
    await newDestination();
    const at = new Date(world.clock.now());
    const data = { at, id: 12345678901234567890n, cents: 100.5, nothing: undefined, list: [null] };
    const { id } = unwrap(await bound().send({ type: "a", data }));
    const [body] = await deliverAll();
    const expected = `{"at":"${at.toISOString()}","id":12345678901234567890,"cents":100.5,"list":[null]}`;
    expect(body).toBe(`{"type":"a","timestamp":"${at.toISOString()}","data":${expected}}`);
    const shown = unwrap(await bound().event(id)).data;
    expect(shown).toEqual({ ...data, at: at.toISOString(), nothing: undefined });
  });

  test("may have a delivery time, as a text or as a Date", async () => {
    const at = world.clock.now() + HOUR;
    for (const deliver_at of [new Date(at), new Date(at).toISOString()]) {
      const accepted = unwrap(await bound().send({ ...EVENT, deliver_at }));
      expect(accepted.deliver_at).toBe(new Date(at).toISOString());
    }
  });

  test("with an idempotency key is stored once, and refused with other content", async () => {
    const options = { idempotency_key: "order-42" };
    const first = await bound().send(EVENT, options);
    const second = await bound().send(EVENT, options);
    expect(second).toEqual({ ...first, idempotent_replayed: true });
    expect(first).not.toHaveProperty("idempotent_replayed");
    expect(await storedBodies()).toHaveLength(1);
    const other = problemIn(await bound().send({ ...EVENT, data: 1 }, options));
    expect(other).toMatchObject({ status: 409, errors: [{ field: "idempotency_key" }] });
  });

  test("is the same event as one that was posted over HTTP with the same key", async () => {
    const { call } = testApi({ services: { ...world.services, config: testConfig() } });
    const posted = await call(
      "POST",
      "/v1/events",
      { ...EVENT, tenant: TENANT },
      { "idempotency-key": "order-42" },
    );
    const sent = await bound().send(EVENT, { idempotency_key: "order-42" });
    expect(sent).toEqual({ ok: true, value: posted.json, idempotent_replayed: true });
  });
});

describe("a batch", () => {
  test("is stored as a whole, in one bundle, and answered in order", async () => {
    await newDestination({ eventTypes: ["b"] });
    const accepted = unwrap(
      await bound().sendBatch([
        { type: "a", data: 1 },
        { type: "b", data: 2 },
      ]),
    );
    expect(accepted.map(({ deliveries }) => deliveries.length)).toEqual([0, 1]);
    expect(accepted[0]?.hint).toContain("No destination of the tenant acme");
    expect(await storedBodies()).toEqual([{ count: 2 }]);
  });

  test("costs the rows and round trips of a posted batch", async () => {
    await newDestination();
    const events = Array.from({ length: 100 }, () => EVENT);
    await bound().sendBatch(events);
    const { call } = testApi({ services: { ...world.services, config: testConfig() } });
    world.d1.used();
    const { status } = await call("POST", "/v1/events/batch", {
      events: events.map((event) => ({ ...event, tenant: TENANT })),
    });
    const posted = world.d1.used();
    unwrap(await bound().sendBatch(events));
    expect(status).toBe(202);
    expect(world.d1.used()).toEqual(posted);
    expect(posted).toMatchObject({ roundTrips: 1, rowsWritten: 1 });
  });

  test.each<[string, readonly unknown[], number, string]>([
    ["an event without a type", [EVENT, { data: 1 }], 422, "events[1].type is missing"],
    ["data that JSON cannot express", [{ ...EVENT, data: { by: new Map() } }], 422, "events[0].data.by"],
    ["no event", [], 422, "events is a list of 0; expected a list of 1 to 1000 events"],
    ["too many events", Array(1001).fill(EVENT), 422, "events is a list of 1001"],
    ["an event that is too large", [{ ...EVENT, data: "x".repeat(262_144) }], 413, "An event of the batch"],
    ["more than 1 MiB", Array(5).fill({ ...EVENT, data: "x".repeat(240_000) }), 413, "The batch is larger"],
    ["a time too far ahead", [{ ...EVENT, deliver_at: "2051-06-01T00:00:00Z" }], 422, "events[0].deliver_at"],
  ])("with %s is refused as a whole", async (_what, events, status, detail) => {
    const problem = problemIn(await bound().sendBatch(events as readonly NewEvent[]));
    expect(problem).toMatchObject({ status, detail: expect.stringContaining(detail) });
    expect(await storedBodies()).toEqual([]);
  });
});

describe("a call that cannot be used", () => {
  test.each<[string, unknown, unknown, number, string]>([
    ["without an event", undefined, undefined, 422, "event is undefined"],
    ["with a list for an event", [EVENT], undefined, 422, "event is a list of 1"],
    ["with an unknown field", { ...EVENT, tennant: "a" }, undefined, 422, "tennant is not a known field"],
    ["with an event that is too large", { ...EVENT, data: "x".repeat(262_144) }, undefined, 413, "The event"],
    ["with a key that is none", EVENT, { idempotency_key: "é" }, 422, "idempotency_key is"],
    ["with an unknown option", EVENT, { idempotencyKey: "a" }, 422, "idempotencyKey is not a known field"],
    ["with a text for options", EVENT, "order-42", 422, 'options is "order-42"'],
  ])("%s is refused with the field, and stores nothing", async (_what, event, options, status, detail) => {
    const problem = problemIn(await bound().send(event as NewEvent, options as object));
    expect(problem).toMatchObject({ status, detail: expect.stringContaining(detail) });
    expect(await storedBodies()).toEqual([]);
  });

  test("gets the same problem as over HTTP", async () => {
    const { call } = testApi({ services: { ...world.services, config: testConfig() } });
    const faulty = { type: "no spaces", data: 1, deliver_at: "tomorrow" };
    const { json } = await call("POST", "/v1/events", faulty);
    expect(problemIn(await bound().send(faulty))).toEqual(json);
  });
});

describe("a binding", () => {
  test.each<[string, unknown, string]>([
    ["no props", null, "props.scopes is missing"],
    ["empty props", {}, "props.scopes is missing; expected a list of events:write and read"],
    ["no scopes", { tenant: TENANT, scopes: [] }, "props.scopes is a list of 0"],
    [
      "the scope admin",
      { scopes: ["admin"] },
      'props.scopes[0] is "admin"; expected one of events:write, read',
    ],
    ["a tenant that is no name", { tenant: "a b", scopes: BOTH }, 'props.tenant is "a b"'],
    ["a mistyped tenant", { tennant: "acme", scopes: BOTH }, "props.tennant is not a known field"],
    ["a text for props", "acme", 'props is "acme"'],
  ])("with %s may do nothing, and the error says what its props need", async (_what, props, detail) => {
    const events = bound(props);
    const calls = [
      events.send(EVENT),
      events.sendBatch([EVENT]),
      events.event("evt_1"),
      events.delivery("dlv_1"),
    ];
    for (const result of await Promise.all(calls))
      expect(problemIn(result)).toMatchObject({ status: 401, detail: expect.stringContaining(detail) });
    expect(await storedBodies()).toEqual([]);
  });

  test("may do only what its scopes say", async () => {
    const { id } = unwrap(await bound({ scopes: ["events:write"] }).send(EVENT));
    expect(problemIn(await bound({ scopes: ["events:write"] }).event(id))).toMatchObject({
      status: 403,
      detail: "The binding lacks the scope read",
    });
    expect(problemIn(await bound({ scopes: ["read"] }).sendBatch([EVENT]))).toMatchObject({
      status: 403,
      detail: "The binding lacks the scope events:write",
    });
  });

  test("of a tenant neither posts for another tenant nor sees anything of one", async () => {
    const refused = problemIn(await bound().sendBatch([EVENT, { ...EVENT, tenant: "another" }]));
    expect(refused).toMatchObject({ status: 403, detail: expect.stringMatching(/^The binding is bound to/) });
    expect(await storedBodies()).toEqual([]);
    await newDestination({ tenant: "another" });
    const { id, deliveries } = unwrap(await bound({ scopes: BOTH }).send({ ...EVENT, tenant: "another" }));
    expect(problemIn(await bound().event(id)).status).toBe(404);
    expect(problemIn(await bound().delivery(deliveries[0]?.id ?? "")).status).toBe(404);
  });

  test("without a tenant posts for every tenant but the operator, and for `default` if none is named", async () => {
    const events = bound({ scopes: BOTH });
    const { id } = unwrap(await events.send(EVENT));
    expect(unwrap(await events.event(id)).tenant).toBe("default");
    expect(problemIn(await events.send({ ...EVENT, tenant: "operator" })).status).toBe(403);
  });

  test("of a tenant is limited like a key; the operator's own is not", async () => {
    const asked: unknown[] = [];
    const limit = {
      limit: async (by: unknown) => {
        asked.push(by);
        return { success: false };
      },
    } as RateLimit;
    const services = { ...world.services, ingestLimit: limit, readLimit: limit };
    const refused = problemIn(await bound({ tenant: TENANT, scopes: BOTH }, services).send(EVENT));
    expect(refused).toMatchObject({ status: 429, retry_after_s: 10 });
    expect(refused.detail).toBe(
      "The binding posts more often than its limit. Post in batches, or less often",
    );
    expect(asked).toEqual([{ key: "binding:acme" }]);
    expect((await bound({ scopes: BOTH }, services).send(EVENT)).ok).toBe(true);
  });
});

describe("a temporary fault of the deployment", () => {
  test("is a problem that says when to retry", async () => {
    world.d1.failing(() => "before");
    expect(problemIn(await bound().send(EVENT))).toMatchObject({
      status: 503,
      type: "/problems/unavailable",
      retry_after_s: 5,
    });
  });

  test("is logged once, is not described to the caller, and says when to retry", async () => {
    const { id } = unwrap(await bound().send(EVENT));
    world.d1.failing(() => "before");
    const problem = problemIn(await bound().event(id));
    expect(problem).toMatchObject({ status: 503, type: "/problems/unavailable", retry_after_s: 5 });
    expect(JSON.stringify(problem)).not.toContain("D1_ERROR");
    expect(world.logged("call_failed")).toMatchObject([
      { method: "event", fault: expect.stringContaining("D1_ERROR") },
    ]);
  });
});

test("the calling Worker can throw a problem", async () => {
  const result = await bound().event("evt_none");
  expect(() => unwrap(result)).toThrow(BreakwaterProblem);
  expect(() => unwrap(result)).toThrow("404 Not found: There is no event evt_none");
});

/** The entrypoint over RPC, as another Worker has it. */
describe("over RPC", () => {
  const remote = (props: object) =>
    (exports as unknown as { Events: (options: object) => BreakwaterEvents }).Events({ props });

  test("events arrive, and problems and values are returned unchanged", async () => {
    const events = remote({ tenant: "acme", scopes: BOTH });
    const { id } = unwrap(await events.send({ type: "a", data: { at: new Date(0), id: 2n ** 64n } }));
    const [first] = unwrap(await events.sendBatch([EVENT]));
    expect(unwrap(await events.event(id)).data).toEqual({ at: "1970-01-01T00:00:00.000Z", id: 2n ** 64n });
    expect(first?.id).toMatch(/^evt_/);
    const problem = problemIn(await events.send({ type: "a", data: { call: () => 1 } }));
    expect(problem).toMatchObject({ status: 422, errors: [{ field: "data.call", fault: "is a function" }] });
    expect(problemIn(await remote({}).send(EVENT)).status).toBe(401);
  });

  test("a misconfigured deployment answers 503 with the variable's name", async () => {
    const context = { waitUntil: () => {}, props: { scopes: BOTH } } as unknown as ExecutionContext;
    const events = new Events(context, { ...env, ADMIN_KEY: "short" });
    expect(problemIn(await events.send(EVENT))).toMatchObject({
      status: 503,
      detail: expect.stringContaining("ADMIN_KEY is too short"),
      retry_after_s: 60,
    });
  });
});
