/** A time range is found as a range of event ids, in a few steps however many events there are. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt, indexOf } from "../../src/core/bundle.ts";
import { idRangeOf } from "../../src/store/time-ranges.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { meteredD1 } from "../support/meter.ts";
import { newWorld } from "../support/world.ts";

const MINUTE = 60_000;
beforeEach(() => newWorld());

/** Stores bundles of these ids, with one event each, accepted at the minute of their id. */
async function store(bundles: readonly number[]): Promise<void> {
  await insertBundles(
    env.DB,
    bundles.map((id) => ({ id, acceptedAt: id * MINUTE, events: [{}] })),
  );
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);
/** The range as ids of bundles: it begins with the first event of one, and ends with the last possible event of another. */
const first = async (since: number) => {
  const { first } = await idRangeOf(env.DB, { since: since * MINUTE });
  expect(indexOf(first)).toBe(0);
  return bundleOf(first);
};
const last = async (until: number) => {
  const { last } = await idRangeOf(env.DB, { until: until * MINUTE });
  expect(indexOf(last)).toBe(127);
  return bundleOf(last);
};

describe("among a hundred bundles, one a minute", () => {
  beforeEach(() => store(upTo(100)));

  test.each(upTo(110).concat(0, -5))("begins a minute early for the time %i", async (minute) => {
    expect(await first(minute)).toBe(Math.min(101, Math.max(1, minute - 1)));
  });

  test.each([0, 1, 2, 50, 99, 100, 101, 200])("ends a minute late for the time %i", async (minute) => {
    expect(await last(minute)).toBe(Math.min(100, Math.max(0, minute)));
  });
});

test("gaps between ids do not matter", async () => {
  const rows = [3, 10, 11, 40, 1000];
  await store(rows);
  for (let minute = 0; minute < 1010; minute += 7) {
    const found = await first(minute);
    // The next bundle after the gap is the first that was accepted then.
    expect(rows.find((row) => row >= found)).toBe(rows.find((row) => row >= minute - 1));
  }
});

test("without events the range is empty", async () => {
  expect(await idRangeOf(env.DB, { since: 5, until: 9 })).toEqual({
    first: eventAt(1, 0),
    last: eventAt(1, 0) - 1,
  });
});

test("a missing bound leaves the range open", async () => {
  await store([1]);
  expect(await idRangeOf(env.DB, {})).toEqual({ first: 1, last: Number.MAX_SAFE_INTEGER });
});

test("a range of time costs a few rows, however many events there are", async () => {
  await store(upTo(5000));
  const { db, used } = meteredD1(env.DB);
  await idRangeOf(db, { since: 2500 * MINUTE });
  expect(used().rowsRead).toBeLessThan(80);
});
