/** Outcomes are written by guarded statements: a late or repeated write changes nothing. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { inPortions, recordOutcomes } from "../../src/db/deliveries.ts";
import type { DeliveryRow } from "../../src/db/schema.ts";
import { newDestination, newWorld, statusOf, storedRows } from "../support/world.ts";

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

  test("of a worker that knows of fewer attempts is ignored", async () => {
    await record(row({ attempts: 2 }));
    await record(row({ state: "waiting", reason: "slow", attempts: 1 }));
    expect(await storedRows()).toEqual([row({ attempts: 2 })]);
  });

  test("of the first attempt fixes the age limit from then on", async () => {
    await record(row({ state: "waiting", attempts: 0, firstAttemptAt: null, giveUpAt: 99_000 }));
    await record(row({}));
    expect(await storedRows()).toMatchObject([{ attempts: 1, firstAttemptAt: 1, giveUpAt: 9_000 }]);
  });

  test("of an earlier generation is ignored, however many attempts it knows of", async () => {
    await record(
      row({ generation: 1, state: "waiting", attempts: 0, firstAttemptAt: null, giveUpAt: 9_000 }),
    );
    await record(row({ state: "dead", attempts: 7, giveUpAt: 99_000, endedAt: 8 }));
    expect(await storedRows()).toMatchObject([
      { generation: 1, state: "waiting", attempts: 0, giveUpAt: 9_000 },
    ]);
  });
});

test("a destination that answers 410 is paused in the same write", async () => {
  await recordOutcomes({ db: env.DB }, [row({ state: "dead", reason: "gone" })], [destination], 7);
  expect(await statusOf(destination)).toEqual(["paused", "gone"]);
});

test("rows with long logs are recorded in portions that D1 takes", async () => {
  const portions = inPortions(Array.from({ length: 300 }, (_, n) => ({ n, log: "\u0001".repeat(6_000) })));
  expect(portions.length).toBeGreaterThan(1);
  for (const portion of portions)
    expect(new TextEncoder().encode(portion).byteLength).toBeLessThan(2_000_000);
  expect(portions.flatMap((portion) => JSON.parse(portion).map(({ n }: { n: number }) => n))).toEqual(
    Array.from({ length: 300 }, (_, n) => n),
  );
  expect(inPortions([])).toEqual([]);
});
