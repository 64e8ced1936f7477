/** Outcomes are written by guarded statements: a late or repeated write changes nothing. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import type { DeliveryRow } from "../../src/store/delivery.ts";
import { recordOutcomes } from "../../src/store/record.ts";
import { deliveryRow, storeDeliveries } from "../support/delivery-rows.ts";
import { meteredD1 } from "../support/meter.ts";
import { execute, newDestination, newWorld, statusOf, storedRows, TENANT, urlOf } from "../support/world.ts";

let destination: string;
beforeEach(async () => {
  await newWorld();
  destination = await newDestination();
});

function row(columns: Partial<DeliveryRow>): DeliveryRow {
  return {
    destinationId: destination,
    eventId: 1,
    state: "retrying",
    reason: "http_500",
    attempts: 1,
    nextAttemptAt: 2_000,
    generation: 0,
    firstAttemptAt: 1,
    giveUpAt: 9_000,
    endedAt: null,
    lastStatus: 500,
    lastError: "http_500",
    replay: null,
    log: [{ at: 1, latencyMs: 2, status: 500, note: 'a "note"', excerpt: "\u0000 ' 世" }],
    ...columns,
  };
}

const record = (...rows: DeliveryRow[]) => recordOutcomes({ db: env.DB }, rows, [], 1);

test("a row is stored exactly as it was recorded", async () => {
  const rows = [row({}), row({ eventId: 2, state: "delivered", reason: null, nextAttemptAt: null, log: [] })];
  await record(...rows);
  expect(await storedRows()).toEqual(rows);
});

test("a repeated write changes nothing", async () => {
  await record(row({}));
  await record(row({}));
  expect(await storedRows()).toEqual([row({})]);
});

describe("an outcome", () => {
  test.each(["delivered", "dead", "cancelled"] as const)("that is %s is final", async (state) => {
    const last = row({ state, attempts: 1 });
    await record(last);
    await record(row({ state: "retrying", attempts: 2 }), row({ state: "waiting", attempts: 1 }));
    await record(row({ state: "delivered", attempts: 3 }));
    expect(await storedRows()).toEqual([last]);
  });

  test("of a worker that knows fewer attempts is ignored", async () => {
    await record(row({ attempts: 2 }));
    await record(row({ state: "waiting", reason: "slow", attempts: 1 }));
    expect(await storedRows()).toEqual([row({ attempts: 2 })]);
  });

  test("of the first attempt fixes the age limit from then on", async () => {
    await record(row({ state: "waiting", attempts: 0, firstAttemptAt: null, giveUpAt: 99_000 }));
    await record(row({}));
    expect(await storedRows()).toMatchObject([{ attempts: 1, firstAttemptAt: 1, giveUpAt: 9_000 }]);
  });

  test("of an earlier generation is ignored, however many attempts it has", async () => {
    await record(
      row({ generation: 1, state: "waiting", attempts: 0, firstAttemptAt: null, giveUpAt: 9_000 }),
    );
    await record(row({ state: "dead", attempts: 7, giveUpAt: 99_000, endedAt: 8 }));
    expect(await storedRows()).toMatchObject([
      { generation: 1, state: "waiting", attempts: 0, giveUpAt: 9_000 },
    ]);
  });
});

describe("a destination that answers 410", () => {
  const pause = () => ({
    ...{ id: destination, tenant: TENANT, url: urlOf(destination), status: "paused", reason: "gone" },
    changedAt: 7,
  });
  const plain = (eventId: number) =>
    deliveryRow({ destinationId: destination, eventId, state: "waiting", reason: "paused", giveUpAt: 9 });

  test("is paused in the same write, which reports it, also when it is repeated", async () => {
    const gone = row({ state: "dead", reason: "gone" });
    for (const _ of [1, 2]) {
      const recorded = await recordOutcomes({ db: env.DB }, [gone, plain(2), plain(200)], [destination], 7);
      expect(recorded).toMatchObject({ paused: [pause()] });
      expect(await statusOf(destination)).toEqual(["paused", "gone"]);
      expect(await storedRows()).toEqual([gone, plain(2), plain(200)]);
    }
  });

  test("is paused also when nothing else is recorded", async () => {
    expect(await recordOutcomes({ db: env.DB }, [], [destination], 7)).toMatchObject({ paused: [pause()] });
    expect(await statusOf(destination)).toEqual(["paused", "gone"]);
  });

  test("does not affect others, which are not reported", async () => {
    const other = await newDestination();
    await recordOutcomes({ db: env.DB }, [], [destination], 7);
    for (const rows of [[plain(2), row({})], [plain(3)]])
      expect(await recordOutcomes({ db: env.DB }, rows, [], 7)).toEqual({ paused: [], next: [] });
    expect(await statusOf(other)).toEqual(["active", null]);
  });
});

test("outcomes cost one round trip, and a statement for each form of record", async () => {
  const d1 = meteredD1(env.DB);
  const packed = (eventId: number) =>
    row({ eventId, state: "waiting", reason: "slow", attempts: 0, log: [] });
  const bits = { ...packed(2), lastError: null, lastStatus: null, nextAttemptAt: null, firstAttemptAt: null };
  for (const [rows, roundTrips, queries] of [
    [[], 0, 0],
    [[row({})], 1, 1],
    [[bits], 1, 1],
    [[bits, { ...bits, eventId: 3 }, row({ eventId: 4 })], 1, 2],
  ] as const) {
    await execute("DELETE FROM packs");
    await recordOutcomes(d1, rows, [], 1);
    expect(d1.used()).toMatchObject({ roundTrips, queries });
  }
});

test("outcomes in more packs than one value holds cost one more statement, and no round trip", async () => {
  const events = Array.from({ length: 2_500 }, (_, i) => eventAt(2 + i, 99));
  const waiting = (eventId: number) =>
    deliveryRow({ destinationId: destination, eventId, state: "waiting", reason: "rate", giveUpAt: 9 });
  const rows = events.map(waiting);
  const d1 = meteredD1(env.DB);
  await recordOutcomes(d1, rows, [], 1);
  expect(d1.used()).toMatchObject({ roundTrips: 1, queries: 2 });
  expect(await storedRows()).toEqual(rows);

  await execute("DELETE FROM packs");
  const [first = 0, last = 0] = [events[0], events.at(-1)];
  await storeDeliveries(
    env.DB,
    [first, last].map((eventId) => ({ ...waiting(eventId), state: "retrying" })),
  );
  await recordOutcomes(d1, rows, [], 1);
  expect(await storedRows()).toEqual(rows);
});
