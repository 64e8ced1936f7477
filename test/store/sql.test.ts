/** SQL fragments say the same of bundles and packs as the functions of src/core do, and lists fit into values. */
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import {
  bundleOf,
  channelsAt,
  type EventHeader,
  eventAt,
  headerAt,
  indexOf,
  isErased as isErasedInHeader,
  lengthOf,
  runsOf,
  type StoredHeader,
  storedHeader,
  tagsAt,
} from "../../src/core/bundle.ts";
import { indexesIn, type Mask, maskOf } from "../../src/core/pack.ts";
import {
  anyOf,
  bundleIdOf,
  cancelledOf,
  countIn,
  countInRuns,
  countUpTo,
  DEAD_ROWS,
  deliveredOf,
  endedOf,
  eventTypeSql,
  hasBit,
  hasChannel,
  hasTag,
  IN_FLIGHT_PACKS,
  IS_UNDER_WAY,
  inFlightOf,
  inPortions,
  isErasedSql,
  isInBundle,
  OWN_DESTINATIONS,
  RETRYING_ROWS,
  tenantOf,
  WAITING_PACKS,
  WAITING_ROWS,
  waitingOf,
} from "../../src/store/sql.ts";
import { emptyDatabase } from "../support/databases.ts";
import {
  insertDeliveries,
  insertDestinations,
  insertPacks,
  insertReplays,
} from "../support/stored-deliveries.ts";

/** The value of an expression for each value of a list, as `v` of the statement. */
async function saidOf(expression: string, values: readonly unknown[]): Promise<unknown[]> {
  const { results } = await env.DB.prepare(
    `SELECT ${expression} AS said FROM (SELECT value AS v FROM json_each(?1))`,
  )
    .bind(JSON.stringify(values))
    .all<{ said: unknown }>();
  return results.map(({ said }) => said);
}

const all = Array.from({ length: 100 }, (_, i) => i);

describe("the bits of a mask", () => {
  const masks: Mask[] = [
    ...[[], all, ...all.map((i) => [i])].map(maskOf),
    ...[2, 3, 5, 7, 11, 16].map((step) => maskOf(all.filter((i) => i % step === 0))),
    ...[2, 4, 8, 16, 32].map((size) => maskOf(all.filter((i) => Math.floor(i / size) % 2 === 0))),
    ...fc.sample(fc.subarray(all), { numRuns: 100, seed: 1 }).map(maskOf),
  ];

  test("are counted, however many there are", async () => {
    const counts = await saidOf(
      countIn((half) => `v ->> ${half}`),
      masks,
    );
    expect(counts).toEqual(masks.map((mask) => indexesIn(mask).length));
  });

  test.each([0, 1, 48, 49, 50, 51, 98, 99])("are those of events (%d)", async (index) => {
    const event = eventAt(7, index);
    const bits = await saidOf(
      hasBit((half) => `v ->> ${half}`, String(event)),
      masks,
    );
    expect(bits).toEqual(masks.map((mask) => Number(indexesIn(mask).includes(index))));
  });
});

test("runs count as many events as they have", async () => {
  const runs = [[], [0, 0], [0, 99], [3, 4, 6, 6, 90, 99], [99, 99]];
  expect(await saidOf(countInRuns("v"), runs)).toEqual(runs.map(lengthOf));
});

test("a bundle has the 128 events from its first on", async () => {
  const events = [0, 127, 128, 129, 255, 256, 257];
  expect(await saidOf(bundleIdOf("v"), events)).toEqual(events.map(bundleOf));
  expect(await saidOf(isInBundle("v", "1"), events)).toEqual(
    events.map((event) => Number(bundleOf(event) === 1)),
  );
});

describe("a header", () => {
  const event = (i: number): EventHeader => ({
    ...{ tenant: `t${i % 3}`, type: `type.${i % 4}`, bytes: i },
    tags: [...(i % 5 < 2 ? ["blue"] : []), ...(i > 40 && i < 60 ? ["eu"] : [])],
    channels: i % 7 < 3 ? ["eu"] : i % 7 < 5 ? ["blue", "at"] : [],
  });
  const header: StoredHeader = {
    ...storedHeader(all.map(event), { encoding: "plain" }),
    erased: runsOf([1, 2, 3, 10, 97, 98]),
  };
  const quoted = `'${JSON.stringify(header)}'`;
  const events = all.map((index) => eventAt(9, index));
  const ofEach = (said: (index: number) => unknown) => events.map((one) => said(indexOf(one)));

  test("has the tenant and the type of each event", async () => {
    expect(await saidOf(tenantOf(quoted, "v"), events)).toEqual(ofEach((i) => headerAt(header, i)?.tenant));
    expect(await saidOf(eventTypeSql(quoted, "v"), events)).toEqual(ofEach((i) => headerAt(header, i)?.type));
  });

  test.each(["blue", "eu", "at", "none"])("has the events with a tag or a channel (%s)", async (name) => {
    const tagged = ofEach((i) => Number(tagsAt(header, i).includes(name)));
    expect(await saidOf(hasTag(quoted, "v", `'${name}'`), events)).toEqual(tagged);
    const channelled = ofEach((i) => Number(channelsAt(header, i).includes(name)));
    expect(await saidOf(hasChannel(quoted, "v", `'${name}'`), events)).toEqual(channelled);
  });

  test("has the events with erased content, if there are any", async () => {
    expect(await saidOf(isErasedSql(quoted, "v"), events)).toEqual(
      ofEach((i) => Number(isErasedInHeader(header, i))),
    );
    expect(await saidOf(isErasedSql("'{}'", "v"), [events[0]])).toEqual([0]);
  });
});

describe("the sources of rows", () => {
  beforeAll(async () => {
    await emptyDatabase();
    await insertDestinations(env.DB, [
      { id: "dst_a" },
      { id: "dst_b", deletedAt: 1 },
      { id: "dst_c" },
      { id: "dst_d", tenant: "other" },
    ]);
    const states = [
      "waiting",
      "waiting",
      "waiting",
      "retrying",
      "retrying",
      "dead",
      "delivered",
      "cancelled",
    ] as const;
    await insertDeliveries(
      env.DB,
      states.map((state, i) => ({ destination: "dst_a", event: 130 + i, state })),
    );
    await insertPacks(env.DB, [
      { destination: "dst_a", bundle: 2, waiting: [1] },
      { destination: "dst_a", bundle: 3, waiting: [60], inFlight: [2], recoverAt: 5 },
      ...[4, 5, 6].map((bundle) => ({ destination: "dst_a", bundle, delivered: [1] })),
      { destination: "dst_a", bundle: 7, cancelled: [60] },
    ]);
    await insertReplays(
      env.DB,
      ["running", "completed", "paused", "cancelled"].map((state, i) => ({
        ...{ id: `rpl_${i}`, destination: `dst_${i}`, state },
      })),
    );
  });

  test.each<[name: string, source: () => string, count: number]>([
    ["waiting rows", () => WAITING_ROWS, 3],
    ["packs with something waiting", () => WAITING_PACKS, 2],
    ["retrying rows", () => RETRYING_ROWS, 2],
    ["packs with something in flight", () => IN_FLIGHT_PACKS, 1],
    ["dead rows", () => DEAD_ROWS, 1],
    ["destinations of a tenant", () => `${OWN_DESTINATIONS} AND tenant = 'acme'`, 2],
    ["replays under way", () => `replays WHERE ${IS_UNDER_WAY}`, 2],
    ["packs with a waiting bit", () => `packs WHERE ${countIn(waitingOf())} > 0`, 2],
    ["packs with a bit in flight", () => `packs WHERE ${countIn(inFlightOf())} > 0`, 1],
    ["packs with a delivered bit", () => `packs WHERE ${countIn(deliveredOf())} > 0`, 3],
    ["packs with a cancelled bit", () => `packs WHERE ${countIn(cancelledOf())} > 0`, 1],
    ["packs with a bit that has ended", () => `packs WHERE ${countIn(endedOf())} > 0`, 4],
    ["packs with any bit", () => `packs WHERE ${countIn(anyOf())} > 0`, 6],
  ])("have the rows that they are named after, counted up to a limit (%s)", async (_, source, count) => {
    expect(await saidOf(countUpTo(10, source()), [0])).toEqual([count]);
    expect(await saidOf(countUpTo(1, source()), [0])).toEqual([1]);
  });
});

test.each([
  ["two rows of half a portion are one", [250_000, 250_000], [2]],
  ["a portion has no more", [250_000, 250_001], [1, 1]],
  ["a portion is filled before the next begins", [200_000, 200_000, 200_000, 200_000], [2, 2]],
  ["a row that is larger has a portion of its own", [9, 500_001, 9], [1, 1, 1]],
])("%s", (_, sizes, expected) => {
  const around = JSON.stringify({ log: "" }).length;
  const portions = inPortions(sizes.map((size) => ({ log: "x".repeat(Math.max(0, size - around)) })));
  expect(portions.map((portion) => JSON.parse(portion).length)).toEqual(expected);
});

test("rows with long logs are recorded in portions that fit into D1's limits", async () => {
  const portions = inPortions(Array.from({ length: 300 }, (_, n) => ({ n, log: "\u0001".repeat(6_000) })));
  expect(portions.length).toBeGreaterThan(1);
  for (const portion of portions)
    expect(new TextEncoder().encode(portion).byteLength).toBeLessThan(2_000_000);
  expect(portions.flatMap((portion) => JSON.parse(portion).map(({ n }: { n: number }) => n))).toEqual(
    Array.from({ length: 300 }, (_, n) => n),
  );
  expect(inPortions([])).toEqual([]);
});
