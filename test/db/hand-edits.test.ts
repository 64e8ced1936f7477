/** A person may change limits with `wrangler d1 execute`: it holds from the next batch, and nonsense stops nothing. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { type DeliveryName, partsOf } from "../../src/core/bundle.ts";
import { loadDeliveries } from "../../src/db/deliveries.ts";
import { gateSettingsOf } from "../../src/db/destinations.ts";
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

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

const edit = (column: string, value: unknown) =>
  execute(`UPDATE destinations SET ${column} = ?1 WHERE id = ?2`, value, destination);

async function settingsNow() {
  const { works } = await loadDeliveries(world.services, partsOf(await world.post()));
  const [work] = works;
  if (!work) throw new Error("The event is for the destination");
  return gateSettingsOf(work.destination);
}

describe("from the next batch", () => {
  test("a concurrency limit holds", async () => {
    await world.earnTrust(destination);
    await edit("max_concurrency", 2);
    const { script, end } = silence();
    world.receiver.script(urlOf(destination), script);
    const before = world.receiver.calls.length;
    const brought = world.bring(await world.post(10));
    await world.receiver.called(before + 2);
    await calm();
    expect(world.receiver.open()).toBe(2);
    end(204);
    await brought;
    expect(world.receiver.mostOpen()).toBeLessThanOrEqual(6);
  });

  test("a pause holds", async () => {
    await edit("status", "paused");
    await world.bring(await world.post());
    expect(await storedRows()).toMatchObject([{ state: "waiting", reason: "paused" }]);
  });

  test("a retry policy holds", async () => {
    world.receiver.script(urlOf(destination), 500);
    await edit("retry", '{"schedule":[7],"jitter":"none"}');
    expect(await world.bring(await world.post())).toEqual([{ retryIn: 7 }]);
  });

  test("an address holds", async () => {
    await edit("url", "https://new.example/hook");
    await world.bring(await world.post());
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
    expect(await world.bring([message])).toEqual(["acked"]);
    expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 1 });
  });

  test("in a retry policy counts as the default one", async () => {
    world.receiver.script(urlOf(destination), 500);
    await edit("retry", "{not json");
    expect(await world.bring(await world.post())).toEqual([{ retryIn: 23 }]);
  });
});

describe("an event that somebody removes", () => {
  /** As the README has it. */
  const remove = (event: number) =>
    execute(`
      INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at, ended_at)
      SELECT p.value, e.id, 'cancelled', 'event_removed', 0, unixepoch() * 1000
      FROM events e, json_each(e.plan) p WHERE e.bundle_id = ${event} / 128 AND e.id = ${event}
      ON CONFLICT DO UPDATE SET state = 'cancelled', reason = 'event_removed', next_attempt_at = NULL,
        ended_at = excluded.ended_at WHERE state IN ('waiting', 'retrying')`);

  test.each([
    ["has not been tried", async () => {}],
    [
      "is to be tried again",
      async (message: DeliveryName) => {
        world.receiver.script(urlOf(destination), 500);
        await world.bring([message]);
        world.receiver.script(urlOf(destination), 204);
      },
    ],
    [
      "waits",
      async (message: DeliveryName) => {
        await edit("status", "paused");
        await world.bring([message]);
        await edit("status", "active");
      },
    ],
  ])("is not sent any more when it %s, and its neighbours are", async (_, before) => {
    const messages = await world.post(3);
    const [, gone] = messages;
    if (!gone) throw new Error("Three were posted");
    await before(gone);
    const calls = world.receiver.calls.length;
    await remove(gone.event);
    await remove(gone.event);
    world.clock.pass(3_600_000);
    await world.bring(messages);
    await world.drain(destination);
    expect(world.receiver.calls).toHaveLength(calls + 2);
    expect((await storedRows()).map(({ state, reason }) => [state, reason])).toEqual([
      ["delivered", null],
      ["cancelled", "event_removed"],
      ["delivered", null],
    ]);
  });

  test("stays as it was when it has been delivered", async () => {
    const [message] = await world.post();
    await world.bring([message]);
    await remove(message?.event ?? 0);
    expect(await storedRows()).toMatchObject([{ state: "delivered" }]);
  });
});

describe("what a person asks D1, as the README has it", () => {
  const ask = async (sql: string) => (await env.DB.prepare(sql).all()).results;

  test("tells what is dead, and what waits or is retried, of rows and packs", async () => {
    const shut = await newDestination({ status: "paused" });
    world.receiver.script(urlOf(destination), 400, 400, 500, 204);
    await world.bring(await world.post(4));
    const dead = await ask(`
      SELECT destination_id, reason, count(*) AS deliveries, datetime(max(ended_at) / 1000, 'unixepoch') AS last
      FROM delivery_states WHERE state = 'dead' GROUP BY 1, 2 ORDER BY deliveries DESC`);
    expect(dead).toMatchObject([{ destination_id: destination, reason: "permanent", deliveries: 2 }]);
    const open = await ask(`
      SELECT destination_id, reason, count(*) AS deliveries, datetime(min(next_attempt_at) / 1000, 'unixepoch') AS until
      FROM delivery_states WHERE state IN ('waiting', 'retrying') GROUP BY 1, 2 ORDER BY deliveries DESC`);
    expect(open).toMatchObject([
      { destination_id: shut, reason: "paused", deliveries: 4, until: null },
      { destination_id: destination, reason: "http_500", deliveries: 1, until: expect.any(String) },
    ]);
  });
});
