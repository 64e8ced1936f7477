/**
 * Packs: bits and rows of deliveries, written in any order, by several at once, and repeatedly. A delivery is always in
 * one place, an ended one stays as it ended, and a repeat changes nothing.
 */

import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt, indexOf } from "../../src/core/bundle.ts";
import { endsText, type PackedEnd } from "../../src/core/pack.ts";
import { type DeliveryRow, loadedRow } from "../../src/store/delivery.ts";
import type { Destination } from "../../src/store/destination.ts";
import {
  knownOf,
  lastLookedAt,
  ownNames,
  packedRows,
  packedStateOf,
  rowsIn,
  settingBits,
} from "../../src/store/packs.ts";
import { recordOutcomes } from "../../src/store/record.ts";
import { execute, newDestination, newWorld, storedRows, type World } from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

const BUNDLE = 7;
const AT = 1_800_000_000_000;

function row(index: number, columns: Partial<DeliveryRow>): DeliveryRow {
  return {
    destinationId: destination,
    eventId: eventAt(BUNDLE, index),
    state: "waiting",
    reason: "rate",
    attempts: 0,
    nextAttemptAt: AT + 5,
    generation: 0,
    firstAttemptAt: null,
    giveUpAt: AT + 1_000_000,
    endedAt: null,
    lastStatus: null,
    lastError: null,
    replay: null,
    log: [],
    ...columns,
  };
}

const DELIVERED = { at: AT, latencyMs: 9, status: 204 };
const ended = { reason: null, nextAttemptAt: null };
const kinds = {
  waiting: (index: number) => row(index, {}),
  inFlight: (index: number) => row(index, { state: "in_flight", reason: null, nextAttemptAt: AT + 40_000 }),
  delivered: (index: number) =>
    row(index, {
      ...ended,
      state: "delivered",
      attempts: 1,
      firstAttemptAt: AT,
      endedAt: AT + 9,
      lastStatus: 204,
      log: [DELIVERED],
    }),
  cancelled: (index: number) =>
    row(index, { ...ended, state: "cancelled", reason: "destination_deleted", endedAt: AT + 3 }),
  retrying: (index: number) =>
    row(index, {
      state: "retrying",
      reason: "http_500",
      attempts: 1,
      firstAttemptAt: AT,
      lastStatus: 500,
      lastError: "http_500",
      log: [{ at: AT, latencyMs: 9, status: 500 }],
    }),
  dead: (index: number) => row(index, { ...ended, state: "dead", reason: "expired", endedAt: AT + 4 }),
} as const;
type Kind = keyof typeof kinds;

const record = (...rows: DeliveryRow[]) => recordOutcomes({ db: env.DB }, rows, [], AT);
const rowsNow = async () => (await storedRows()).map(loadedRow);
const statesNow = async () =>
  (await rowsNow()).map(({ eventId, state, reason }) => [indexOf(eventId), state, reason]);
const packRows = async () =>
  (await env.DB.prepare("SELECT * FROM packs").all<Record<string, number | null>>()).results;
const countOf = (table: string) => env.DB.prepare(`SELECT count(*) AS n FROM ${table}`).first("n");

describe("a plain state", () => {
  test.each([
    "waiting",
    "inFlight",
    "delivered",
    "cancelled",
  ] as const)("(%s) is a bit, and reads as it was written, even at the ends of the masks", async (kind) => {
    const rows = [0, 49, 50, 99].map(kinds[kind]);
    await record(...rows);
    expect(await countOf("deliveries")).toBe(0);
    expect(await countOf("packs")).toBe(1);
    const giveUpAt = expect.any(Number);
    expect(await rowsNow()).toEqual(rows.map((one) => ({ ...one, giveUpAt })));
  });

  test("costs one written row for a hundred deliveries, and none when it is repeated", async () => {
    const rows = Array.from({ length: 100 }, (_, i) => kinds.delivered(i));
    world.d1.used();
    await recordOutcomes({ db: world.d1.db }, rows, [], AT);
    expect(world.d1.used()).toMatchObject({ rowsWritten: 1, queries: 1 });
    const before = await packRows();
    await recordOutcomes({ db: world.d1.db }, rows, [], AT);
    expect(world.d1.used().rowsWritten).toBe(0);
    expect(await packRows()).toEqual(before);
  });

  test("of every kind, in both halves, is written by one query", async () => {
    const plain = ["waiting", "inFlight", "delivered", "cancelled"] as const;
    const rows = plain.flatMap((kind, i) => [kinds[kind](10 + i), kinds[kind](60 + i)]);
    world.d1.used();
    await recordOutcomes({ db: world.d1.db }, rows, [], AT);
    expect(world.d1.used().queries).toBe(1);
  });

  test.each([
    ["an attempt that failed before", { ...kinds.delivered(1), attempts: 2 }],
    ["another generation", { ...kinds.delivered(1), generation: 1 }],
    ["a row", { ...kinds.waiting(1), hasRow: true }],
    ["no request to send", { ...kinds.waiting(1), reason: "transform_failed" }],
    ["a replay that counts it", { ...kinds.waiting(1), replay: "rpl_a" }],
    ["an attempt before it", { ...kinds.waiting(1), attempts: 1 }],
    ["a replay that counts it, though delivered", { ...kinds.delivered(1), replay: "rpl_a" }],
    ["an earlier error", { ...kinds.waiting(1), lastError: "http_500" }],
    ["a log of an attempt that it does not count", { ...kinds.waiting(1), log: [{ at: AT, latencyMs: 9 }] }],
    ["a limit of its own", { ...kinds.waiting(1), hasOwnLimit: true }],
    ["a lost sender", { ...kinds.inFlight(1), hasLostSender: true }],
    ["a cause to be retried", { ...kinds.inFlight(1), state: "retrying", reason: "http_500" }],
    ["a state that is not in flight", { ...kinds.inFlight(1), state: "queued" }],
    ["the reason of a cancelled one, though dead", { ...kinds.dead(1), reason: "destination_deleted" }],
    ["no attempt in its log, though delivered", { ...kinds.delivered(1), log: [] }],
    ["a reason, though delivered", { ...kinds.delivered(1), reason: "rate" }],
    ["two attempts in its log", { ...kinds.delivered(1), log: [DELIVERED, DELIVERED] }],
    ["another status than its attempt's", { ...kinds.delivered(1), lastStatus: 200 }],
    ["another end than its attempt's", { ...kinds.delivered(1), endedAt: AT + 10 }],
    ["an attempt before 1970", { ...kinds.delivered(1), endedAt: 8, log: [{ ...DELIVERED, at: -1 }] }],
    ["an excerpt", { ...kinds.delivered(1), log: [{ ...DELIVERED, excerpt: "ok" }] }],
    ["a note", { ...kinds.delivered(1), log: [{ ...DELIVERED, note: "so" }] }],
    ["a cancel reason of its own", { ...kinds.cancelled(1), reason: "event_removed" }],
    ["an index beyond the hundred of a bundle", { ...kinds.delivered(1), eventId: eventAt(BUNDLE, 100) }],
  ])("does not fit a delivery with %s", (_, one) => {
    expect(packedStateOf(one as DeliveryRow)).toBeUndefined();
  });
});

describe("after two writes", () => {
  const over: readonly [first: Kind, second: Kind, then: Kind][] = [
    ["waiting", "inFlight", "inFlight"],
    ["waiting", "delivered", "delivered"],
    ["waiting", "cancelled", "cancelled"],
    ["waiting", "retrying", "retrying"],
    ["waiting", "dead", "dead"],
    ["inFlight", "waiting", "inFlight"],
    ["inFlight", "delivered", "delivered"],
    ["inFlight", "cancelled", "inFlight"],
    ["inFlight", "retrying", "retrying"],
    ["delivered", "waiting", "delivered"],
    ["delivered", "inFlight", "delivered"],
    ["delivered", "cancelled", "delivered"],
    ["delivered", "retrying", "delivered"],
    ["delivered", "dead", "delivered"],
    ["cancelled", "waiting", "cancelled"],
    ["cancelled", "delivered", "cancelled"],
    ["cancelled", "retrying", "cancelled"],
    ["retrying", "delivered", "delivered"],
    ["retrying", "waiting", "retrying"],
    ["dead", "delivered", "dead"],
    ["dead", "waiting", "dead"],
  ];

  test.each(
    over,
  )("%s, then %s: the delivery is %s, and its neighbours are unchanged", async (first, second, then) => {
    await record(kinds[first](60), kinds.waiting(59), kinds.delivered(61));
    // With a new delivery beside it, so that the pack is written in any case.
    await record(kinds[second](60), kinds.waiting(62));
    const { state, reason } = kinds[then](60);
    expect(await statesNow()).toEqual([
      [59, "waiting", "rate"],
      [60, state, reason],
      [61, "delivered", null],
      [62, "waiting", "rate"],
    ]);
  });

  const packed = new Set<Kind>(["waiting", "inFlight", "delivered", "cancelled"]);
  const alone = over.filter((kindsOf) => kindsOf.every((kind) => packed.has(kind)));

  test.each(
    alone,
  )("%s, then %s, of no other delivery: it is %s, and a row is written only for a change", async (first, second, then) => {
    for (const index of [9, 60]) {
      await record(kinds[first](index));
      world.d1.used();
      await recordOutcomes({ db: world.d1.db }, [kinds[second](index)], [], AT);
      expect(world.d1.used().rowsWritten > 0).toBe(then !== first);
    }
    const { state, reason } = kinds[then](0);
    expect(await statesNow()).toEqual([9, 60].map((index) => [index, state, reason]));
  });

  test("the times of a pack are the latest, whichever write comes first", async () => {
    const late = (index: number) => row(index, { ...kinds.inFlight(index), nextAttemptAt: AT + 90_000 });
    await record(late(1), kinds.cancelled(2));
    await record(kinds.inFlight(3), kinds.delivered(4));
    await record(row(5, { ...kinds.cancelled(5), endedAt: AT + 1 }));
    expect(await packRows()).toMatchObject([{ recover_at: AT + 90_000, ended_at: AT + 9 }]);
  });

  test("waiting deliveries have the reason and the time of the last one", async () => {
    await record(kinds.waiting(1));
    await record(row(2, { reason: "hold", nextAttemptAt: AT + 700 }));
    expect(await packRows()).toMatchObject([{ reason: "hold", next_attempt_at: AT + 700 }]);
    await record(kinds.delivered(3));
    expect(await packRows()).toMatchObject([{ reason: "hold", next_attempt_at: AT + 700 }]);
  });

  test("waiting deliveries, or those in flight if none wait, have a time of giving up", async () => {
    await record(kinds.inFlight(1));
    await record({ ...kinds.waiting(2), eventId: eventAt(BUNDLE + 1, 2), giveUpAt: AT + 7 });
    await record(
      { ...kinds.inFlight(3), eventId: eventAt(BUNDLE + 2, 3) },
      { ...kinds.waiting(4), eventId: eventAt(BUNDLE + 2, 4), giveUpAt: AT + 8 },
    );
    const limits = (await packRows()).map(({ give_up_at: limit }) => limit);
    expect(limits).toEqual([AT + 1_000_000, AT + 7, AT + 8]);
  });

  test("recover_at is cleared with the last delivery in flight", async () => {
    await record(kinds.inFlight(1), kinds.inFlight(70));
    await record(kinds.delivered(1));
    expect(await packRows()).toMatchObject([{ recover_at: AT + 40_000 }]);
    await record(kinds.retrying(70));
    expect(await packRows()).toMatchObject([{ recover_at: null, in_flight0: 0, in_flight1: 0 }]);
  });

  test("an outcome goes into the row that an operator has inserted", async () => {
    await record(kinds.waiting(3));
    await execute(
      "INSERT INTO deliveries (destination_id, event_id, state, give_up_at) VALUES (?1, ?2, 'waiting', 0)",
      destination,
      eventAt(BUNDLE, 3),
    );
    await record(kinds.delivered(3));
    expect(await statesNow()).toEqual([[3, "delivered", null]]);
    expect(await packRows()).toMatchObject([{ waiting0: 0, delivered0: 0 }]);
  });
});

describe("several bundles and destinations", () => {
  let other: string;
  beforeEach(async () => {
    other = await newDestination();
    const at = (kind: Kind, bundle: number, index: number, destinationId: string) => ({
      ...kinds[kind](index),
      eventId: eventAt(bundle, index),
      destinationId,
    });
    await record(
      at("waiting", BUNDLE, 1, destination),
      at("retrying", BUNDLE, 2, destination),
      at("delivered", BUNDLE, 1, other),
      at("retrying", BUNDLE, 3, other),
      at("waiting", BUNDLE + 1, 4, destination),
      at("retrying", BUNDLE + 1, 5, destination),
    );
  });
  const PAIRS = () => [[BUNDLE, destination]] as const;
  const name = (index: number) => `${eventAt(BUNDLE, index)} ${destination}`;

  test("written together are a pack for each pair", async () => {
    const packs = (await packRows()).map((pack) => [pack.bundle_id, pack.destination_id, pack.waiting0]);
    expect(packs).toHaveLength(3);
    expect(packs).toEqual(
      expect.arrayContaining([
        [BUNDLE, destination, 2],
        [BUNDLE, other, 0],
        [BUNDLE + 1, destination, 16],
      ]),
    );
  });

  test("are read by the pairs that are named, and no others", async () => {
    expect(await knownOf(env.DB, PAIRS())).toEqual(new Set([name(1), name(2)]));
    expect(await ownNames(env.DB, PAIRS())).toEqual(new Set([name(2)]));
    const rows = await rowsIn(env.DB, PAIRS());
    expect(rows.map(({ eventId, destinationId, state }) => [eventId, destinationId, state])).toEqual([
      [eventAt(BUNDLE, 1), destination, "waiting"],
      [eventAt(BUNDLE, 2), destination, "retrying"],
    ]);
  });

  test("have the age limits of their destination's policy if that is given", async () => {
    const target = { id: other, retry: { give_up_after: 60 } };
    const limitOf = async (...given: Parameters<typeof rowsIn>) =>
      (await rowsIn(...given)).find(({ state }) => state === "delivered")?.giveUpAt;
    const pair = [[BUNDLE, other]] as const;
    expect(await limitOf(env.DB, pair, new Map([[other, target as unknown as Destination]]))).toBe(
      AT + 60_000,
    );
    expect(await limitOf(env.DB, pair)).toBeGreaterThan(AT + 60_000);
  });

  test("are read once if a pair is named twice", async () => {
    expect(await rowsIn(env.DB, [...PAIRS(), ...PAIRS()])).toHaveLength(2);
  });
});

describe("the rows that a pack stands for", () => {
  const none = { waiting0: 0, waiting1: 0, inFlight0: 0, inFlight1: 0, delivered1: 0, cancelled1: 0 };
  const pack = {
    ...none,
    destinationId: "dst_a",
    bundleId: BUNDLE,
    delivered0: 1,
    cancelled0: 2,
    reason: null,
    nextAttemptAt: null,
    recoverAt: null,
    giveUpAt: null,
    endedAt: AT + 5,
    ends: "",
  };
  const rowsOf = (ends: readonly PackedEnd[]) => packedRows({ ...pack, ends: endsText(ends) }, null);
  const first = { index: 0, at: AT, latencyMs: 9, status: 204 };
  const cancelled = { index: 1, at: AT + 3, latencyMs: 0, status: undefined };

  test("end as their ends say, each by its own kind, and the first if there are several", () => {
    const later = { index: 0, at: AT + 50, latencyMs: 1, status: 299 };
    const others = [
      { ...cancelled, index: 0 },
      { ...first, index: 1 },
    ];
    for (const ends of [
      [first, cancelled],
      [first, later, cancelled],
      [...others, first, cancelled],
      [first, cancelled, ...others],
    ])
      expect(rowsOf(ends)).toMatchObject([
        {
          state: "delivered",
          endedAt: AT + 9,
          lastStatus: 204,
          log: [DELIVERED],
          giveUpAt: expect.any(Number),
        },
        { state: "cancelled", endedAt: AT + 3, giveUpAt: 0, log: [] },
      ]);
  });

  test("have ended even if their ends are lost", () => {
    expect(rowsOf([])).toMatchObject([
      { state: "delivered", lastStatus: null, log: [{ at: 0, latencyMs: 0 }] },
      { state: "cancelled", endedAt: AT + 5 },
    ]);
    expect(rowsOf([])[0]?.log[0]).not.toHaveProperty("status");
  });

  test("are given up when the policy of their destination says so", () => {
    const [short] = packedRows({ ...pack, ends: endsText([first]) }, { retry: { give_up_after: 60 } });
    const [usual] = rowsOf([first]);
    expect(short?.giveUpAt).toBe(AT + 60_000);
    expect(usual?.giveUpAt).toBeGreaterThan(AT + 60_000);
  });

  test("that wait are given up when the pack says so", () => {
    const [one] = packedRows({ ...pack, waiting0: 4, delivered0: 0, cancelled0: 0, giveUpAt: AT + 7 }, null);
    expect(one).toMatchObject({ state: "waiting", giveUpAt: AT + 7 });
  });
});

test("deliveries of one line that end together are bits, in whatever bundles they are", async () => {
  for (const id of [1, 2, 3])
    await execute(
      `INSERT INTO bundles (id, tokens, accepted_at, count, planned, plan, header, body)
       VALUES (?1, '[' || ?1 || ']', 0, 1, 1, '{}', json_object('lines', json_object(?2, json('[["x", 9, 0, 0]]'))), x'')`,
      id,
      destination,
    );
  await record(...[1, 2, 3].map((id) => ({ ...kinds.delivered(0), eventId: eventAt(id, 0) })));
  expect(await countOf("deliveries")).toBe(0);
  expect((await packRows()).map((pack) => [pack.bundle_id, pack.delivered0])).toEqual([
    [1, 1],
    [2, 1],
    [3, 1],
  ]);
});

test.each<[rows: number[], mostRows: number, packs: number[], mostPacks: number, upto: number | undefined]>([
  [[], 2, [], 2, undefined],
  [[300], 2, [1], 2, undefined],
  [[300, 301], 2, [1], 2, 301],
  [[300], 2, [1, 2], 2, eventAt(3, 0) - 1],
  [[300, 301], 2, [1, 2], 2, 301],
  [[400, 401], 2, [1, 2], 2, eventAt(3, 0) - 1],
])("a page of rows %j of %d and of packs %j of %d reaches to %d", (rows, mostRows, packs, mostPacks, upto) => {
  const events = rows.map((event) => ({ event }));
  const raw = packs.map((bundle_id) => ({ bundle_id }));
  expect(lastLookedAt(events, mostRows, raw, mostPacks)).toBe(upto);
});

describe("in any order of writes, and repeated", () => {
  const write = fc.uniqueArray(
    fc.record({
      index: fc.constantFrom(0, 1, 49, 50, 99),
      kind: fc.constantFrom(...(Object.keys(kinds) as Kind[])),
    }),
    { selector: ({ index }) => index, minLength: 1 },
  );

  test("each delivery is in one place, ended ones stay ended, and counts are those of the bits", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(write, { maxLength: 8 }), async (writes) => {
        await execute("DELETE FROM deliveries");
        await execute("DELETE FROM packs");
        const ends = new Map<number, string>();
        for (const some of writes) {
          const rows = some.map(({ index, kind }) => kinds[kind](index));
          await record(...rows);
          await record(...rows);
          const stored = await statesNow();
          expect(new Set(stored.map(([index]) => index)).size).toBe(stored.length);
          for (const [index, state] of stored) {
            const end = ends.get(Number(index));
            if (end) expect(state).toBe(end);
            if (["delivered", "dead", "cancelled"].includes(String(state)))
              ends.set(Number(index), String(state));
          }
          const known = await knownOf(env.DB, [[BUNDLE, destination]]);
          expect(known.size).toBe(stored.length);
          expect(await countOf("delivery_states")).toBe(stored.length);
        }
      }),
      { numRuns: 40 },
    );
  });

  test("no bit is set for a delivery that has a row", async () => {
    await record(...[0, 49, 50, 99].map(kinds.retrying));
    await env.DB.batch(settingBits(env.DB, [0, 1, 49, 50, 51, 99].map(kinds.waiting)));
    expect(await statesNow()).toEqual([
      [0, "retrying", "http_500"],
      [1, "waiting", "rate"],
      [49, "retrying", "http_500"],
      [50, "retrying", "http_500"],
      [51, "waiting", "rate"],
      [99, "retrying", "http_500"],
    ]);
  });

  test("rows of another destination, and of the bundles before and after, do not prevent a bit from being set", async () => {
    const other = await newDestination();
    const neighbours = [eventAt(BUNDLE - 1, 6), eventAt(BUNDLE + 1, 6), eventAt(BUNDLE + 1, 0)];
    await record(
      { ...kinds.retrying(6), destinationId: other },
      ...neighbours.map((eventId) => ({ ...kinds.retrying(0), eventId })),
    );
    await record(kinds.waiting(0), kinds.waiting(6), kinds.waiting(99));
    const [pack] = await packRows();
    expect(pack).toMatchObject({ bundle_id: BUNDLE, waiting0: 1 + 2 ** 6, waiting1: 2 ** 49 });
  });

  test("writing only bits that are already set writes no pack", async () => {
    await record(kinds.retrying(5));
    await env.DB.batch(settingBits(env.DB, [kinds.waiting(5)]));
    expect(await packRows()).toEqual([]);
  });
});
