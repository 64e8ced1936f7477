/** Deliveries to destinations with a transformation: what is sent, in which version, and what waits. */
import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { beforeEach, describe, expect, test } from "vitest";
import type { TransformTemplate } from "../../src/core/transform/template.ts";
import { changeDestination, findDestination } from "../../src/store/destinations.ts";
import { isoTime } from "../../src/time.ts";
import {
  execute,
  newDestination,
  newWorld,
  rowOf,
  SECRET,
  START,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

const BY = { kind: "admin_key", key: null, session: null } as const;

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const version = (template: TransformTemplate | null) => ({ version: 1, after: -1, at: 0, by: BY, template });

async function shaping(
  template: TransformTemplate,
  columns: Parameters<typeof newDestination>[0] = {},
): Promise<string> {
  return newDestination({ transform: version(template), ...columns });
}

async function save(id: string, template: TransformTemplate | null): Promise<void> {
  await changeDestination(env.DB, id, { transform: version(template) }, TENANT);
}

const sentTo = (destination: string) => world.receiver.to(urlOf(destination)).map(({ body }) => body);
const FAULTY = { body: '{"a": {{ data.text }} }' };

test("the request is the transformation's, and the signature covers it", async () => {
  const id = await shaping({
    body: '{"n":"{{ data.n }}","id":"{{ id }}"}',
    content_type: "application/vnd.x+json",
    headers: { "X-Type": "{{ type }}", "x-empty": "{{ data.no }}" },
    method: "PUT",
    path: "/orders/{{ data.n }}",
    query: { at: "{{ timestamp }}" },
  });
  await world.consume(await world.post(1, { data: { n: 7 } }));
  const [call] = world.receiver.calls;
  expect(call?.url).toBe(`${urlOf(id)}/orders/7?at=${encodeURIComponent(isoTime(START))}`);
  expect(call?.init.method).toBe("PUT");
  expect(JSON.parse(call?.body ?? "")).toEqual({ n: 7, id: call?.headers.get("webhook-id") });
  expect(call?.headers.get("content-type")).toBe("application/vnd.x+json");
  expect(call?.headers.get("x-type")).toBe("order.paid");
  expect(call?.headers.has("x-empty")).toBe(false);
  expect(call && verified(call.headers, call.body)).toBe(true);
});

test("the destination's own headers replace those of its transformation", async () => {
  await shaping(
    { headers: { authorization: "event {{ data.n }}" } },
    { headers: { Authorization: "Bearer own" } },
  );
  await world.consume(await world.post(1, { data: { n: 7 } }));
  expect(world.receiver.calls[0]?.headers.get("authorization")).toBe("Bearer own");
});

test("a destination without one costs no row, no call and no interpreter", async () => {
  await newDestination();
  const messages = await world.post(10);
  world.d1.used();
  await world.consume(messages);
  const plain = world.d1.used();
  expect(world.services.memory.templates.get(JSON.stringify(FAULTY))).toBeUndefined();
  await execute("DELETE FROM destinations");
  await shaping({ body: '{"n":"{{ data.n }}"}' });
  const shaped = await world.post(10);
  world.d1.used();
  await world.consume(shaped);
  expect(world.d1.used()).toEqual(plain);
});

test("an event that is left out ends as cancelled, without an attempt and without its gate", async () => {
  const id = await shaping({ body: "{% if data.n > 1 %}{{ data | json }}{% endif %}" });
  const [first, second] = await world.post(2, { data: { n: 1 } });
  world.gates.called();
  await world.consume([first, second]);
  expect(world.gates.called()).toEqual([]);
  expect(sentTo(id)).toEqual([]);
  expect(await storedRows()).toMatchObject([
    { state: "cancelled", reason: "transformed", attempts: 0 },
    { state: "cancelled", reason: "transformed", attempts: 0 },
  ]);
});

describe("the version", () => {
  test("of an event is that of its acceptance, at every attempt", async () => {
    const id = await shaping({ body: '{"v":1}' }, { retry: { schedule: [60], max_attempts: 5 } });
    const [early] = await world.post(1);
    await save(id, { body: '{"v":2}' });
    const [late] = await world.post(1);
    world.receiver.script(urlOf(id), 500, 500, 204);
    await world.consume([early, late]);
    await save(id, { body: '{"v":3}' });
    world.clock.pass(120_000);
    await world.consume([early, late]);
    expect(sentTo(id).toSorted()).toEqual(['{"v":1}', '{"v":1}', '{"v":2}', '{"v":2}']);
  });

  test("of an event from before the first one is none", async () => {
    const id = await newDestination();
    const messages = await world.post(1);
    await save(id, { body: '{"v":1}' });
    await world.consume(messages);
    expect(sentTo(id)[0]).toContain('"type":"order.paid"');
  });

  test("of an event is the oldest that is kept, where its own has been removed", async () => {
    const id = await shaping({ body: '{"v":1}' });
    const messages = await world.post(1);
    for (let v = 2; v <= 102; v++) await save(id, { body: `{"v":${v}}` });
    await world.consume(messages);
    expect(sentTo(id)).toEqual(['{"v":2}']);
  });

  test("stays the same if the same template is saved again", async () => {
    const id = await shaping({ body: '{"v":1}' });
    await save(id, { body: '{"v":1}' });
    expect((await findDestination(env.DB, id, TENANT))?.transform).toMatchObject({ version: 1, after: -1 });
    await save(id, { body: '{"v":2}' });
    await save(id, null);
    expect((await findDestination(env.DB, id, TENANT))?.transform).toMatchObject({
      version: 3,
      template: null,
    });
    const { results } = await env.DB.prepare("SELECT version FROM transforms").all();
    expect(results).toEqual([{ version: 1 }, { version: 2 }]);
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", id);
    expect((await env.DB.prepare("SELECT version FROM transforms").all()).results).toEqual([]);
  });
});

describe("a delivery for which the transformation fails", () => {
  test("waits with its reason: no attempt, no lease, no circuit; the same version's neighbours are sent", async () => {
    const id = await shaping(FAULTY);
    const [faulty] = await world.post(1, { data: { text: "no json" } });
    const [sound] = await world.post(1, { data: { text: 5 } });
    await world.consume([faulty, sound]);
    await world.settled();
    expect(sentTo(id)).toEqual(['{"a": 5 }']);
    expect(faulty && (await rowOf(faulty))).toMatchObject({
      state: "waiting",
      reason: "transform_failed",
      attempts: 0,
      nextAttemptAt: null,
    });
    expect(world.logged("transform_failed")).toEqual([
      expect.objectContaining({
        destination: id,
        version: 1,
        deliveries: 1,
        fault: expect.stringMatching(/^body/),
      }),
    ]);
    // A drain neither requests it from the gate nor counts it again.
    world.gates.called();
    await world.answer([{ destination: id, drains: 1 }]);
    expect(world.gates.called()).toEqual(["reportEmptyDrain"]);
    expect(world.logged("transform_failed")).toHaveLength(1);
  });

  test("is sent by the next version that makes a request from it", async () => {
    const id = await shaping(FAULTY);
    const messages = await world.post(1, { data: { text: "no json" } });
    await world.consume(messages);
    await world.settled();
    await save(id, { body: '{"a": "{{ data.text }}" }' });
    await save(id, { body: '{"b": "{{ data.text }}" }' });
    await world.answer([{ destination: id, drains: 1 }]);
    await world.settled();
    expect(sentTo(id)).toEqual(['{"a":"no json"}']);
    expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
  });

  test("pauses the destination with the forty-first of one version, but not of two", async () => {
    const id = await shaping(FAULTY);
    const statusOf = async () => (await findDestination(env.DB, id, TENANT))?.statusReason;
    await world.consume(await world.post(40, { data: { text: "no" } }));
    await world.settled();
    expect(await statusOf()).toBeNull();
    await save(id, { body: "{{ data.text }}" });
    await world.consume(await world.post(40, { data: { text: "no" } }));
    await world.settled();
    expect(await statusOf()).toBeNull();
    await world.consume(await world.post(1, { data: { text: "no" } }));
    await world.settled();
    expect(await statusOf()).toBe("transform_failing");
  });

  test("does not block the probe of a half-open circuit", async () => {
    const id = await shaping(FAULTY);
    await world.consume(await world.post(1, { data: { text: "no" } }));
    await world.settled();
    world.receiver.script(urlOf(id), 500);
    await world.consume(await world.post(10, { data: { text: 1 } }));
    await world.settled();
    world.receiver.script(urlOf(id), 204);
    await world.consume(await world.post(3, { data: { text: 2 } }));
    world.clock.pass(10 * 60_000);
    for (let i = 0; i < 6; i++) {
      await world.answer([{ destination: id, drains: 1 }]);
      await world.settled();
    }
    expect(sentTo(id).filter((body) => body === '{"a": 2 }')).toHaveLength(3);
  });

  test("also waits if an edit in the database has left no transformation", async () => {
    const id = await shaping({ body: '{"v":1}' });
    await execute("UPDATE destinations SET transform = 'nonsense' WHERE id = ?1", id);
    await world.consume(await world.post(1));
    expect(sentTo(id)).toEqual([]);
    expect(await storedRows()).toMatchObject([{ state: "waiting", reason: "transform_failed" }]);
    await world.settled();
  });

  test("waits for the transformation from then on, even if it has waited for its destination before", async () => {
    const id = await shaping({ body: '{"v":1}' }, { status: "paused" });
    const [message] = await world.post(1);
    await world.consume(message ? [message] : []);
    expect(message && (await rowOf(message))).toMatchObject({ state: "waiting", reason: "paused" });
    await execute("UPDATE destinations SET transform = 'nonsense', status = 'active' WHERE id = ?1", id);
    await world.answer([{ destination: id, drains: 1 }]);
    expect(message && (await rowOf(message))).toMatchObject({ state: "waiting", reason: "transform_failed" });
    await world.settled();
  });
});

function verified(headers: Headers, body: string): boolean {
  new Webhook(SECRET).verify(body, Object.fromEntries(headers));
  return true;
}
