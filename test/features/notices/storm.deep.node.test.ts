/** Notices in an outage, in virtual time: hundreds of endpoints for an hour, at night a thousand, and a few while everything goes wrong. */
import { describe, expect, test } from "vitest";
import { noticeEvents } from "../../../src/core/notices.ts";
import { isNightly, runs } from "../../support/effort.ts";
import { type DestinationColumns, type VirtualWorld, virtualWorld } from "../../support/virtual-world.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const MANY = runs(250, 1_000);
const CHAT = "https://chat.example/hook";

/** Endpoints whose notices go to one chat, which is no destination for events. */
function endpoints(world: VirtualWorld, count: number, columns: DestinationColumns = {}) {
  const chat = world.destination({ url: CHAT, eventTypes: ["never"], maxConcurrency: 10_000 });
  const noticeChannel = {
    kind: "webhook",
    target: "…",
    on: noticeEvents,
    open_after_minutes: 10,
    language: "en",
  };
  const own = { breakerMinAttempts: 1, noticeChannel, noticeTarget: CHAT, ...columns };
  const ids = Array.from({ length: count }, () => world.destination(own));
  return { chat, ids };
}

type Told = Readonly<{ at: number; events: readonly string[] }>;

/** The notices that the chat has taken, by endpoint. */
function toldBy(world: VirtualWorld, chat: string): ReadonlyMap<string, readonly Told[]> {
  const taken = world.requestsTo(chat).filter(({ status = 500 }) => status < 300);
  const notified = taken.map(({ at, body }) => ({ at, ...JSON.parse(body).data }));
  return Map.groupBy(notified, ({ endpoint_id }) => endpoint_id);
}

function expectHourly(notified: ReadonlyMap<string, readonly Told[]>): void {
  // A claim is made an hour after the one before; the request follows it by up to two round trips and a clock's skew.
  for (const list of notified.values())
    for (const [i, { at }] of list.entries())
      if (i > 0) expect(at - (list[i - 1]?.at ?? 0)).toBeGreaterThan(HOUR - 5_000);
}

test("in an hour's storm hundreds of endpoints are notified once each, and of the end an hour later", async () => {
  const world = virtualWorld({ seed: 5 });
  const { chat, ids } = endpoints(world, MANY, { breakerCooldownS: 600, breakerMaxCooldownS: 600 });
  for (const id of ids) world.script(id, 500);
  void world.post(1);
  await world.run(HOUR);
  const during = toldBy(world, chat);
  expect(during.size).toBe(MANY);
  expect(new Set([...during.values()].map((list) => list.length))).toEqual(new Set([1]));
  const firsts = [...during.values()].map(([first]) => first);
  expect(new Set(firsts.map((first) => first?.events.join(" ")))).toEqual(new Set(["circuit_open"]));
  // Ten minutes of an open circuit, and the time for messages and their loss.
  for (const [id, [first]] of during)
    expect((first?.at ?? 0) - (world.requestsTo(id)[0]?.at ?? 0)).toBeLessThan(13 * MINUTE);

  for (const id of ids) world.script(id, 204);
  await world.run(HOUR + 10 * MINUTE);
  const all = toldBy(world, chat);
  expectHourly(all);
  expect(
    new Set([...all.values()].map((list) => list.map(({ events }) => events.join(" ")).join(", "))),
  ).toEqual(new Set(["circuit_open, recovered"]));
  await world.run(2 * HOUR);
  expect(world.sql("SELECT * FROM notices")).toEqual([]);
  expect(world.broken()).toEqual([]);
});

describe.each(
  isNightly ? [1, 2, 3] : [1],
)("while calls fail, answers get lost and invocations die (%d),", (seed) => {
  test("there is at most one notice for each hour and endpoint, the first about trouble", async () => {
    const world = virtualWorld({ seed });
    const { chat, ids } = endpoints(world, 20, { breakerMaxCooldownS: 45 });
    world.trouble({ failing: 0.03, unanswered: 0.03, crashing: 0.03 });
    // Down for fifty minutes, up for ten.
    for (let hour = 0; hour < 4; hour++) {
      for (const id of ids) world.script(id, 500);
      void world.post(3);
      await world.run(50 * MINUTE);
      for (const id of ids) world.script(id, 204);
      await world.run(10 * MINUTE);
    }
    world.trouble();
    await world.run(3 * HOUR);
    const notified = toldBy(world, chat);
    // A report or a claim is lost with the invocation that makes it.
    expect(notified.size).toBeGreaterThanOrEqual(18);
    expectHourly(notified);
    for (const list of notified.values()) expect(list[0]?.events).not.toContain("recovered");
    expect(world.sql("SELECT * FROM notices")).toEqual([]);
  });
});

test("a chat that refuses gets the notice later, and one that may have taken it only in the next hour", async () => {
  const world = virtualWorld({ seed: 9 });
  const { chat, ids } = endpoints(world, 1);
  world.script(ids[0] ?? "", 500);
  world.script(chat, 500, 503, new Error("Network connection lost."), 204);
  void world.post(2);
  await world.run(3 * HOUR);
  const [first = 0, second = 0, third = 0, fourth = 0, ...more] = world.requestsTo(chat).map(({ at }) => at);
  expect(second - first).toBeLessThan(2 * MINUTE);
  expect(third - second).toBeLessThan(3 * MINUTE);
  expect(fourth - third).toBeGreaterThanOrEqual(HOUR - 5_000);
  expect(more).toEqual([]);
});

test("destinations without a channel cost no additional query, row or message", async () => {
  const cost = async (columns: DestinationColumns) => {
    const world = virtualWorld({
      seed: 3,
      travel: { twice: 0, late: 0 },
      cron: false,
      isolates: { count: 1 },
    });
    const id = world.destination({ breakerMinAttempts: 1, ...columns });
    world.script(id, 500);
    void world.post(2);
    await world.run(5 * MINUTE);
    return { calls: world.calls(), notices: world.sql("SELECT * FROM notices") };
  };
  const without = await cost({});
  expect(without.notices).toEqual([]);
  expect(Object.keys(without.calls).filter((name) => name.startsWith("upkeep"))).toEqual([]);
  const unreadable = await cost({ noticeChannel: { kind: "pigeon" }, noticeTarget: "sealed" });
  expect(unreadable).toEqual(without);
});
