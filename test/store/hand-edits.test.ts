/**
 * Operators may edit limits with `wrangler d1 execute`: they apply from the next batch, and nonsense stops nothing. The
 * statements of docs/data-model.md do what it says.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import page from "../../docs/data-model.md?raw";
import runbook from "../../docs/operations.md?raw";
import { type DeliveryKey, partsOf } from "../../src/core/bundle.ts";
import { loadDeliveries } from "../../src/store/deliveries.ts";
import { gateSettingsOf } from "../../src/store/destination.ts";
import { silence } from "../support/receivers.ts";
import {
  calm,
  execute,
  newDestination,
  newWorld,
  rowOf,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

/** The statement on the pages that contains this, about the event of that id, and of all times. */
function documented(part: string, event = 0): string {
  const found = [...page.matchAll(/^```sql\n([\s\S]*?)^```/gm), ...runbook.matchAll(/^d1 "([^"]*)"$/gm)];
  const statements = found.map(([, sql = ""]) => sql);
  const [statement, ...others] = statements.filter((sql) => sql.includes(part));
  if (statement === undefined || others.length > 0) throw new Error(`Not exactly one statement has ${part}`);
  return statement
    .replace("= 128 / 128", `= ${event} / 128`)
    .replace("= 128\n", `= ${event}\n`)
    .replace("(unixepoch() - 86400) * 1000", "0");
}

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

const edit = (column: string, value: unknown) =>
  execute(`UPDATE destinations SET ${column} = ?1 WHERE id = ?2`, value, destination);

async function settingsNow() {
  const { deliveries } = await loadDeliveries(world.services, partsOf(await world.post()));
  const [delivery] = deliveries;
  if (!delivery) throw new Error("The event is for the destination");
  return gateSettingsOf(delivery.destination);
}

describe("from the next batch on", () => {
  test("a concurrency limit applies", async () => {
    await world.earnTrust(destination);
    await edit("max_concurrency", 2);
    const { script, end } = silence();
    world.receiver.script(urlOf(destination), script);
    const before = world.receiver.calls.length;
    const delivered = world.consume(await world.post(10));
    await world.receiver.called(before + 2);
    await calm();
    expect(world.receiver.open()).toBe(2);
    end(204);
    await delivered;
    expect(world.receiver.mostOpen()).toBeLessThanOrEqual(6);
  });

  test("a pause applies", async () => {
    await edit("status", "paused");
    await world.consume(await world.post());
    expect(await storedRows()).toMatchObject([{ state: "waiting", reason: "paused" }]);
  });

  test("a retry policy applies", async () => {
    world.receiver.script(urlOf(destination), 500);
    await edit("retry", '{"schedule":[7],"jitter":"none"}');
    expect(await world.consume(await world.post())).toEqual([{ retryIn: 7 }]);
  });

  test("a URL applies", async () => {
    await edit("url", "https://new.example/hook");
    await world.consume(await world.post());
    expect(world.receiver.to("https://new.example/hook")).toHaveLength(1);
  });
});

describe("nonsense", () => {
  test.each([
    ["max_concurrency", "many", "maxConcurrency", 10],
    ["max_concurrency", -1, "maxConcurrency", 10],
    ["max_concurrency", 2.5, "maxConcurrency", 10],
    ["max_concurrency", 1_000_000, "maxConcurrency", 10],
    ["rate_per_second", 0, "ratePerSecond", 100],
    ["rate_burst", "", "rateBurst", 100],
    ["timeout_ms", 3_600_000, "timeoutMs", 15_000],
  ] as const)("in %s (%j) counts as its default", async (column, value, setting, expected) => {
    await edit(column, value);
    expect(await settingsNow()).toMatchObject({ [setting]: expected });
  });

  test("in one limit leaves the others as they are", async () => {
    await edit("max_concurrency", "many");
    await edit("timeout_ms", 5_000);
    expect(await settingsNow()).toMatchObject({ maxConcurrency: 10, timeoutMs: 5_000 });
  });

  test.each([
    ["max_concurrency", "many"],
    ["rate_per_second", -5],
    ["breaker_window_s", "soon"],
    ["breaker_failure_ratio", 17],
    ["retry", "{not json"],
    ["retry", '{"schedule":"never"}'],
    ["retry", "7"],
    ["headers", "{not json"],
    ["headers", '["a"]'],
    ["metadata", "{not json"],
    ["event_types", "{not json"],
    ["status", "who knows"],
  ])("in %s (%j) stops no delivery", async (column, value) => {
    await edit(column, value);
    const [message] = await world.post();
    if (!message) throw new Error("The event is for the destination");
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 1 });
  });

  test("in a retry policy counts as the default policy", async () => {
    world.receiver.script(urlOf(destination), 500);
    await edit("retry", "{not json");
    expect(await world.consume(await world.post())).toEqual([{ retryIn: 23 }]);
  });
});

test.each([
  "{}",
  "null",
  "[null]",
  '[7, {"at": 1, "latencyMs": 1, "excerpt": 7}]',
])("a log edited into %s stops no retry", async (log) => {
  world.receiver.script(urlOf(destination), 500, 204);
  const [message] = await world.post();
  if (!message) throw new Error("The event is for the destination");
  await world.consume([message]);
  await execute("UPDATE deliveries SET log = ?1", log);
  world.clock.pass(3_600_000);
  expect(await world.consume([message])).toEqual(["acked"]);
  expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 2 });
});

test("tokens of a bundle edited into something else stop no post", async () => {
  await world.post();
  await execute("UPDATE bundles SET tokens = 'oops'");
  await world.post();
  expect(await storedRows()).toEqual([]);
  expect(await env.DB.prepare("SELECT count(*) AS n FROM bundles").first<number>("n")).toBe(2);
});

describe("an event that an operator cancels", () => {
  const cancel = (event: number) => execute(documented("'event_removed'", event));

  test.each([
    ["has not been attempted", async () => {}],
    [
      "is to be retried",
      async (message: DeliveryKey) => {
        world.receiver.script(urlOf(destination), 500);
        await world.consume([message]);
        world.receiver.script(urlOf(destination), 204);
      },
    ],
    [
      "waits",
      async (message: DeliveryKey) => {
        await edit("status", "paused");
        await world.consume([message]);
        await edit("status", "active");
      },
    ],
  ])("is no longer sent when it %s, while its neighbours are", async (_, before) => {
    const messages = await world.post(3);
    const [, gone] = messages;
    if (!gone) throw new Error("Three were posted");
    await before(gone);
    const calls = world.receiver.calls.length;
    await cancel(gone.eventId);
    await cancel(gone.eventId);
    world.clock.pass(3_600_000);
    await world.consume(messages);
    await world.drain(destination);
    expect(world.receiver.calls).toHaveLength(calls + 2);
    expect((await storedRows()).map(({ state, reason }) => [state, reason])).toEqual([
      ["delivered", null],
      ["cancelled", "event_removed"],
      ["delivered", null],
    ]);
  });

  test("stays delivered when it has been delivered", async () => {
    const [message] = await world.post();
    await world.consume([message]);
    await cancel(message?.eventId ?? 0);
    expect(await storedRows()).toMatchObject([{ state: "delivered" }]);
  });
});

describe("what operators query", () => {
  const query = async (sql: string) => (await env.DB.prepare(sql).all()).results;

  test("returns dead, waiting and retrying deliveries, in rows and packs", async () => {
    const paused = await newDestination({ status: "paused" });
    world.receiver.script(urlOf(destination), 400, 400, 500, 204);
    await world.consume(await world.post(4));
    expect(await query(documented("state = 'dead' AND ended_at >"))).toMatchObject([
      { destination_id: destination, reason: "permanent", deliveries: 2 },
    ]);
    expect(await query(documented("IN ('waiting', 'retrying') GROUP BY 1, 2, 3"))).toMatchObject([
      { destination_id: paused, reason: "paused", deliveries: 4, next: null },
      { destination_id: destination, reason: "http_500", deliveries: 1, next: expect.any(String) },
    ]);
  });

  test("returns the deliveries of one event, queued ones too", async () => {
    const paused = await newDestination({ status: "paused" });
    const event = (await world.post(2)).at(-1)?.eventId ?? 0;
    const states = async () =>
      Object.fromEntries(
        (await query(documented("'queued'", event))).map((row) => [
          row.destination_id,
          [row.state, row.reason],
        ]),
      );
    expect(await states()).toEqual({ [destination]: ["queued", null], [paused]: ["queued", null] });
    await world.consume([{ eventId: event, destinationId: paused }]);
    expect(await states()).toEqual({ [destination]: ["queued", null], [paused]: ["waiting", "paused"] });
    world.receiver.script(urlOf(destination), 204);
    await world.consume([{ eventId: event, destinationId: destination }]);
    expect(await states()).toEqual({ [destination]: ["delivered", null], [paused]: ["waiting", "paused"] });
  });
});
