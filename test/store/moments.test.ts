/** A range of time is found as a range of event rows, in a few steps whatever the number of events. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventRangeOf } from "../../src/store/moments.ts";
import { meteredD1 } from "../support/meter.ts";
import { newWorld } from "../support/world.ts";

const MINUTE = 60_000;
beforeEach(() => newWorld());

/** Events with these rows, each accepted at its row's minute. */
async function store(rows: readonly number[]): Promise<void> {
  await env.DB.prepare(
    `INSERT INTO events (id, tenant, type, accepted_at, plan, body)
     SELECT value, 't', 'a', value * ${MINUTE}, '[]', '{}' FROM json_each(?1)`,
  )
    .bind(JSON.stringify(rows))
    .run();
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);
const first = async (since: number) => (await eventRangeOf(env.DB, { since: since * MINUTE })).first;
const last = async (until: number) => (await eventRangeOf(env.DB, { until: until * MINUTE })).last;

describe("among a hundred events, one a minute", () => {
  beforeEach(() => store(upTo(100)));

  test.each(upTo(110).concat(0, -5))("begins a minute early for the time %i", async (minute) => {
    expect(await first(minute)).toBe(Math.min(101, Math.max(1, minute - 1)));
  });

  test.each([0, 1, 2, 50, 99, 100, 101, 200])("ends a minute late for the time %i", async (minute) => {
    expect(await last(minute)).toBe(Math.min(100, Math.max(0, minute)));
  });
});

test("gaps among the rows do no harm", async () => {
  const rows = [3, 10, 11, 40, 1000];
  await store(rows);
  for (let minute = 0; minute < 1010; minute += 7) {
    const found = await first(minute);
    // The first row from there on is the first that was accepted then.
    expect(rows.find((row) => row >= found)).toBe(rows.find((row) => row >= minute - 1));
  }
});

test("no events are no range", async () => {
  expect(await eventRangeOf(env.DB, { since: 5, until: 9 })).toEqual({ first: 1, last: 0 });
});

test("what is not asked for is open", async () => {
  await store([1]);
  expect(await eventRangeOf(env.DB, {})).toEqual({ first: 1, last: Number.MAX_SAFE_INTEGER });
});

test("reads a few rows, however many events there are", async () => {
  await store(upTo(5000));
  const { db, used } = meteredD1(env.DB);
  await eventRangeOf(db, { since: 2500 * MINUTE });
  expect(used().rowsRead).toBeLessThan(80);
});
