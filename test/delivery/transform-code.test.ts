/** Deliveries to destinations with a transformation in code: what is sent, what is stored, and what hostile code can do. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, type DeliveryKey, indexOf } from "../../src/core/bundle.ts";
import { functionStopped, functionUnavailable } from "../../src/core/transform/code.ts";
import { bodyOfText } from "../../src/delivery/http.ts";
import { transform, transformed } from "../../src/delivery/transform.ts";
import { changeDestination, findDestination } from "../../src/store/destinations.ts";
import { eraseFrom } from "../../src/store/erase.ts";
import { oldBundles, removeEnded } from "../../src/store/retention.ts";
import {
  calm,
  execute,
  newDestination,
  newWorld,
  rowOf,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

const BY = { kind: "admin_key", key: null, session: null } as const;
/** The isolate of a module stays, and counts its calls; another text is another module. */
let COUNTING = "";
let modules = 0;

let world: World;
beforeEach(async () => {
  world = await newWorld();
  modules += 1;
  COUNTING = `let n = 0; export default (event) => ({ body: { n: ++n, of: event.data.text } }); // ${modules}`;
});

const version = (code: string) => ({ version: 1, after: -1, at: 0, by: BY, code });
const coded = (code: string, columns: Parameters<typeof newDestination>[0] = {}) =>
  newDestination({ transform: version(code), ...columns });
const save = (id: string, code: string) =>
  changeDestination(env.DB, id, { transform: version(code) }, TENANT);
const sentTo = (destination: string) => world.receiver.to(urlOf(destination)).map(({ body }) => body);
const results = async () => (await env.DB.prepare("SELECT * FROM transform_results").all()).results;

/** Deliveries as an isolate has loaded them, whatever has happened to their events since. */
async function loaded(id: string, keys: readonly (DeliveryKey | undefined)[]) {
  const row = await findDestination(env.DB, id, TENANT);
  const facts = { tenant: TENANT, type: "order.paid", acceptedAt: 0, deliverAt: null };
  const body = bodyOfText('{"data":{"text":"a"}}');
  return keys.flatMap((key) =>
    row && key ? [{ event: { ...facts, body, id: key.eventId }, destination: row, row: undefined }] : [],
  );
}

async function consumed(count = 1, data: unknown = { text: "a" }) {
  const messages = await world.post(count, { data });
  await world.consume(messages);
  await world.settled();
  return messages;
}

test("the request is the function's", async () => {
  const id = await coded(`export default async ({ id, type, data }) => ({
    body: { total: data.a + 1, id }, headers: { "x-type": type }, path: "/orders", method: "PUT",
    content_type: "application/vnd.x+json" });`);
  await consumed(1, { a: 1 });
  const [call] = world.receiver.calls;
  expect([call?.url, call?.init.method]).toEqual([`${urlOf(id)}/orders`, "PUT"]);
  expect(JSON.parse(call?.body ?? "")).toEqual({ total: 2, id: call?.headers.get("webhook-id") });
  expect(call?.headers.get("x-type")).toBe("order.paid");
  expect(call?.headers.get("content-type")).toBe("application/vnd.x+json");
});

test("null ends the delivery as cancelled, and omitted parts stay the event's", async () => {
  const id = await coded(
    "export default ({ data }) => (data.text === 'no' ? null : { headers: { 'x-a': 'b' } });",
  );
  await consumed(1, { text: "no" });
  expect(await storedRows()).toMatchObject([{ state: "cancelled", reason: "transformed", attempts: 0 }]);
  await consumed(1, { text: "yes" });
  expect(sentTo(id)[0]).toContain('"type":"order.paid"');
});

describe("a result is stored before it is sent, so that it stays the same", () => {
  test("on every attempt, in a new isolate, and after another version was saved", async () => {
    const id = await coded(COUNTING, { retry: { schedule: [60], max_attempts: 5 } });
    world.receiver.script(urlOf(id), 500, 204);
    const messages = await consumed();
    await save(id, COUNTING.replace("n:", "m:"));
    world.services.memory.formerTransforms.delete(id);
    world.clock.pass(120_000);
    await world.consume(messages);
    expect(sentTo(id)).toEqual(['{"n":1,"of":"a"}', '{"n":1,"of":"a"}']);
    expect(world.functions.calls).toHaveLength(1);
    // Replays and pages have them too.
    const event = { id: messages[0]?.eventId ?? 0, tenant: TENANT, type: "order.paid", acceptedAt: 0 };
    const row = await findDestination(env.DB, id, TENANT);
    const body = bodyOfText("{}");
    const shown = row && (await transform(world.services, { ...event, body }, row, "show"));
    expect(shown?.result?.kind === "request" && new TextDecoder().decode(shown.result.body)).toBe(
      '{"n":1,"of":"a"}',
    );
  });

  test("if the invocation dies between the function and the send", async () => {
    const id = await coded(COUNTING);
    const messages = await world.post(1, { data: { text: "a" } });
    const { gates } = world.services;
    Object.assign(world.services, {
      gates: { idFromName: () => "", get: () => ({}) },
    });
    await world.consume(messages).catch(() => {});
    expect(sentTo(id)).toEqual([]);
    expect(await results()).toHaveLength(1);
    Object.assign(world.services, { gates });
    await world.consume(messages);
    expect(sentTo(id)).toEqual(['{"n":1,"of":"a"}']);
    expect(world.functions.calls).toHaveLength(1);
  });

  test("if two isolates run the function at the same time: the first result counts", async () => {
    const id = await coded(COUNTING);
    const deliveries = await loaded(id, await world.post(1, { data: { text: "a" } }));
    const made = await Promise.all([1, 2].map(() => transformed(world.services, deliveries)));
    const [one, other] = made.map(([delivery]) => delivery?.transformed);
    expect(world.functions.calls).toHaveLength(2);
    expect(one?.kind).toBe("request");
    expect(other).toEqual(one);
    expect(await results()).toHaveLength(1);
  });

  test("with its path, and edits in the database pass the same guards", async () => {
    const code = COUNTING.replace("({ body:", '({ path: "/orders", body:');
    const id = await coded(code, { retry: { schedule: [60, 60], max_attempts: 5 } });
    world.receiver.script(`${urlOf(id)}/orders`, 500, 500, 204);
    const messages = await consumed();
    world.clock.pass(120_000);
    await world.consume(messages);
    const urls = world.receiver.calls.map(({ url }) => url);
    expect(urls).toEqual([`${urlOf(id)}/orders`, `${urlOf(id)}/orders`]);
    await execute("UPDATE transform_results SET made = json_set(made, '$.path', '/../admin')");
    world.clock.pass(120_000);
    await world.consume(messages);
    expect(world.receiver.calls).toHaveLength(2);
    expect(world.logged("transform_failed")).toMatchObject([
      { fault: expect.stringMatching(/^path: is not a path/) },
    ]);
  });

  test("and one that an edit by hand left unreadable waits alone, until another version makes it again", async () => {
    const id = await coded(COUNTING, { retry: { schedule: [60, 60], max_attempts: 5 } });
    world.receiver.script(urlOf(id), 500, 500, 204);
    const messages = await consumed(2);
    await execute("UPDATE transform_results SET made = '{' WHERE event_id = ?1", messages[0]?.eventId);
    world.clock.pass(120_000);
    await world.consume(messages);
    expect(sentTo(id)).toHaveLength(3);
    expect(await storedRows()).toMatchObject([
      { state: "waiting", reason: "transform_failed", attempts: 1 },
      { state: "delivered", attempts: 2 },
    ]);
    await save(id, COUNTING.replace("n:", "m:"));
    await world.answer([{ destination: id, drains: 1 }]);
    expect(sentTo(id).at(-1)).toBe('{"m":1,"of":"a"}');
  });

  test("and is loaded with others only as far as memory allows: the rest waits uncounted", async () => {
    const id = await coded(COUNTING);
    const deliveries = await loaded(id, await world.post(17, { data: { text: "a" } }));
    await transformed(world.services, deliveries);
    const body = `'"' || hex(zeroblob(249000)) || '"'`;
    await execute(`UPDATE transform_results SET made = json_set(made, '$.body', ${body})`);
    const kinds = (await transformed(world.services, deliveries)).map((one) => one.transformed?.kind);
    expect(kinds.filter((kind) => kind === "fault")).toHaveLength(1);
    const left = deliveries.filter((_, i) => kinds[i] === "fault");
    expect((await transformed(world.services, left))[0]?.transformed?.kind).toBe("request");
    expect(world.functions.calls).toHaveLength(1);
  });

  test("and nothing runs for a delivery that is only shown", async () => {
    const id = await coded(COUNTING);
    const [delivery] = await loaded(id, await world.post(1, { data: { text: "a" } }));
    const { event, destination } = delivery ?? {};
    const { result } =
      event && destination ? await transform(world.services, event, destination, "show") : {};
    expect(result).toMatchObject({ kind: "fault", fault: { fault: "has not run for this event yet" } });
    expect([world.functions.calls, await results()]).toEqual([[], []]);
  });

  test("until its event's content is erased, or its bundle is removed", async () => {
    const id = await coded(COUNTING);
    const [first, second] = await consumed(2);
    const { eventId = 0 } = first ?? {};
    const bundle = { id: bundleOf(eventId), plan: { [id]: [0, 1] }, indexes: [indexOf(eventId)] };
    await eraseFrom(env.DB, bundle, { cancels: true, tags: false, keys: "kept" }, 1);
    expect(await results()).toMatchObject([{ event_id: second?.eventId }]);
    // A result of an isolate that had read the content before is not stored.
    await env.DB.prepare("DELETE FROM transform_results").run();
    await transformed(world.services, await loaded(id, [first, second]));
    expect(await results()).toMatchObject([{ event_id: second?.eventId }]);
    await world.post(1);
    const bounds = { horizon: Number.MAX_SAFE_INTEGER, bundles: 10, deliveries: 100 };
    const old = await oldBundles(env.DB, 0, bounds);
    await removeEnded(env.DB, old.bundles, { gone: [id], replays: [] }, Number.MAX_SAFE_INTEGER);
    expect(await results()).toEqual([]);
  });
});

test("a batch is one call of the function's object, and without code there is none, and no query", async () => {
  const id = await newDestination({
    transform: { ...version(""), code: undefined, template: { body: "{}" } },
  });
  await consumed(10);
  expect(world.functions.calls).toEqual([]);
  const queries: string[] = [];
  const { db } = world.services;
  Object.assign(world.services, {
    db: new Proxy(db, {
      get: (target, name) => {
        const value = Reflect.get(target, name);
        if (name !== "prepare") return typeof value === "function" ? value.bind(target) : value;
        return (sql: string) => {
          queries.push(sql);
          return target.prepare(sql);
        };
      },
    }),
  });
  await consumed(10);
  expect(queries.filter((sql) => /transform|tenant_settings/.test(sql))).toEqual([]);
  await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", id);
  await coded(COUNTING);
  const bundles = await world.postBundles(10, { data: { text: "a" } });
  await world.consume(bundles);
  expect(world.functions.calls.map(({ events }) => events.length)).toEqual([10]);
});

const LONG = "'x'.repeat(600_000)";

describe("hostile code harms only its own destination", () => {
  test.each([
    [
      "throws each time",
      "export default () => {\n\n  throw new Error('no\\nway') }",
      /^code \(line 3, column \d+\): threw no way$/,
    ],
    ["throws nothing", "export default () => { throw undefined }", /^code: threw undefined/],
    [
      "throws an error with lying getters",
      "export default () => { throw { get message() { throw 1 } } }",
      /^code: threw an error without a message/,
    ],
    [
      "throws while it is loaded",
      "export default (() => {})();\nnonsense.x",
      /^code \(line 2, column \d+\): threw nonsense is not defined/,
    ],
    ["is no JavaScript", "export default (", /^code.*: threw .*(Unexpected|SyntaxError)/],
    ["exports no function", "export default 7", /threw The default export is not a function/],
    ["returns nothing", "export default () => {}", /returned nothing/],
    ["returns a text", "export default () => 'x'", /returned neither/],
    [
      "returns unknown fields",
      "export default () => ({ url: 'https://evil.example' })",
      /an object with url/,
    ],
    [
      "has a getter that throws",
      "export default () => ({ get body() { throw new Error('got') } })",
      /threw got/,
    ],
    [
      "returns a proxy that lies",
      "export default () => new Proxy({}, { ownKeys: () => { throw new Error('p') } })",
      /threw p/,
    ],
    [
      "returns a cycle",
      "export default () => { const a = {}; a.a = a; return { body: a } }",
      /threw .*circular/i,
    ],
    ["returns a number that is no JSON", "export default () => ({ body: 1n })", /threw .*BigInt/],
    [
      "pollutes prototypes",
      "export default () => { Object.prototype.toJSON = () => 'x'; Object.prototype.path = '//evil'; return {} }",
      /returned no result/,
    ],
    [
      "makes too large a body",
      `export default () => ({ body: { a: ${LONG} } })`,
      /^body: is larger than 524288 bytes/,
    ],
    ["answers without end", "export default () => ({ body: 'x'.repeat(3e6) })", /returned too much/],
    [
      "makes a text that is no JSON",
      "export default () => ({ body: 'a' })",
      /^body: is a text that is not JSON/,
    ],
    [
      "breaks a header's line",
      "export default () => ({ headers: { 'x-a': 'b\\r\\nhost: evil' } })",
      /^headers\.x-a: has line breaks/,
    ],
    [
      "sets a reserved header",
      "export default () => ({ headers: { 'webhook-signature': 'x' } })",
      /^headers.webhook-signature: may not be set/,
    ],
    [
      "sets a header that is not a text",
      "export default () => ({ headers: { 'x-a': ['b'] } })",
      /^headers\.x-a: is not a text/,
    ],
    ["leaves the path", "export default () => ({ path: '/../admin' })", /^path: is not a path/],
    ["leaves the origin", "export default () => ({ path: '@evil.example' })", /^path: is not a path/],
    ["names another method", "export default () => ({ method: 'DELETE' })", /^method: is not one of/],
    [
      "reaches for the network",
      "export default async () => { await fetch('https://evil.example'); return {} }",
      /threw/,
    ],
    [
      "opens a socket",
      "export default async () => { const { connect } = await import('cloudflare:sockets'); const s = connect('evil.example:443'); await s.opened; return {} }",
      /threw/,
    ],
    [
      "reaches for bindings",
      "export default async () => { const { env } = await import('cloudflare:workers'); return { body: 'env ' + env.DB.x } }",
      /threw/,
    ],
  ])("that %s", async (_, code, fault) => {
    const id = await coded(code);
    const neighbour = await newDestination();
    await consumed();
    expect(sentTo(id)).toEqual([]);
    expect(sentTo(neighbour)).toHaveLength(1);
    const rows = (await storedRows()).filter(({ destinationId }) => destinationId === id);
    expect(rows).toMatchObject([{ state: "waiting", reason: "transform_failed", attempts: 0 }]);
    const [line] = world.logged("transform_failed");
    expect(line).toMatchObject({
      destination: id,
      version: 1,
      deliveries: 1,
      fault: expect.stringMatching(fault),
    });
    expect(world.logged("functions_unreachable")).toEqual([]);
  });

  test("that never answers, loops without end or takes all memory is ended, runs again, and does not delay a neighbour", async () => {
    const id = await coded(COUNTING);
    const neighbour = await newDestination();
    const answer = Promise.withResolvers<void>();
    world.functions.script(async ({ events }) => {
      await answer.promise;
      return events.map(() => functionStopped("takes longer than 1000 ms"));
    });
    const messages = await world.post(1, { data: { text: "a" } });
    const consuming = world.consume(messages);
    await calm();
    expect(sentTo(neighbour)).toHaveLength(1);
    answer.resolve();
    await consuming;
    await world.settled();
    expect((await storedRows()).filter(({ destinationId }) => destinationId === id)).toMatchObject([
      { state: "waiting", reason: "transform_failed", attempts: 0 },
    ]);
    world.functions.script(undefined);
    await world.answer([{ destination: id, drains: 1 }]);
    await world.settled();
    expect(sentTo(id)).toEqual(['{"n":1,"of":"a"}']);
  });

  test("that always fails is not run again for the event before another version is saved", async () => {
    const id = await coded("export default () => { throw new Error('x') }");
    const [message] = await consumed();
    await world.answer([{ destination: id, drains: 1 }]);
    expect(world.functions.calls).toHaveLength(1);
    await save(id, COUNTING);
    await world.answer([{ destination: id, drains: 1 }]);
    await world.settled();
    expect(sentTo(id)).toEqual(['{"n":1,"of":"a"}']);
    expect(message && (await rowOf(message))).toMatchObject({ state: "delivered" });
  });

  test("that fails for more than forty deliveries pauses its destination", async () => {
    const id = await coded("export default () => { throw new Error('x') }");
    await world.consume(await world.postBundles(41, { data: {} }));
    await world.settled();
    expect((await findDestination(env.DB, id, TENANT))?.statusReason).toBe("transform_failing");
  });
});

test("code that replaces the globals of its isolate changes nothing", async () => {
  const id = await coded(`export default () => {
    JSON.stringify = () => '{"made":{"path":"//evil.example"}}';
    globalThis.Response = class {};
    return { body: { a: 1 } };
  };`);
  await consumed();
  expect(sentTo(id)).toEqual(['{"a":1}']);
});

test("a promise that never resolves is ended by the platform or by its time", async () => {
  const id = await coded("export default () => new Promise(() => {})");
  await consumed();
  expect(sentTo(id)).toEqual([]);
  expect(await storedRows()).toMatchObject([{ state: "waiting", reason: "transform_failed" }]);
});

test("if functions cannot run, deliveries wait uncounted, and are sent once they can", async () => {
  const id = await coded(COUNTING);
  world.functions.script(async ({ events }) => events.map(() => functionUnavailable("busy")));
  await world.consume(await world.postBundles(41, { data: { text: "a" } }));
  await world.settled();
  expect((await findDestination(env.DB, id, TENANT))?.statusReason).toBeNull();
  expect(await results()).toEqual([]);
  world.functions.script(undefined);
  await world.answer([{ destination: id, drains: 1 }]);
  await world.settled();
  expect(sentTo(id).length).toBeGreaterThan(0);
});

test("deliveries that first wait uncounted count once the code fails for them, and each of them once", async () => {
  const id = await coded("export default () => { throw new Error('x') }");
  world.functions.script(async ({ events }) => events.map(() => functionUnavailable("busy")));
  await world.consume(await world.postBundles(41, { data: {} }));
  await world.settled();
  world.functions.script(async ({ events }) => events.map(() => functionStopped("takes too long")));
  const isPaused = async () => {
    await world.answer([{ destination: id, drains: 1 }]);
    await world.settled();
    return (await findDestination(env.DB, id, TENANT))?.statusReason === "transform_failing";
  };
  expect(await isPaused()).toBe(true);
  expect(world.logged("transform_failed").map(({ deliveries }) => deliveries)).toEqual([41, 41]);
  await execute("UPDATE destinations SET status = 'active', status_reason = NULL WHERE id = ?1", id);
  expect(await isPaused()).toBe(false);
});

test("an operator switches a tenant's functions off at once", async () => {
  const id = await coded(COUNTING);
  await execute(
    "INSERT INTO tenant_settings (tenant, functions_off, created_at, updated_at) VALUES (?1, 1, 0, 0)",
    TENANT,
  );
  await consumed();
  expect([sentTo(id), world.functions.calls]).toEqual([[], []]);
  expect(world.logged("transform_failed")).toMatchObject([{ fault: expect.stringContaining("switched") }]);
  await execute("UPDATE tenant_settings SET functions_off = 0");
  await world.answer([{ destination: id, drains: 1 }]);
  await world.settled();
  expect(sentTo(id)).toHaveLength(1);
});
