/** The parts of a replay in further databases: begun once each, counted where they are, and added up. */
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import { DAY_MS } from "../../src/core/retention.ts";
import { beginReplay, replayPartsOf } from "../../src/store/replay-steps.ts";
import { findReplay, listReplays, partsIn, type Replay } from "../../src/store/replays.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase, testDatabases } from "../support/databases.ts";
import { interceptedD1 } from "../support/intercept.ts";

const NOW = Date.parse("2026-11-21T09:00:00.000Z");
const HOUR = 3_600_000;
const PLACE = "dst_a";
const KEPT = { ms: 30 * DAY_MS, types: {} };
const ALL = { first: 1, last: Number.MAX_SAFE_INTEGER };
const [db = undefined as never, ...further] = testDatabases;
const DATABASES = { db, further };

async function begin(
  id: string,
  include: Replay["include"] = "dead",
  destinationId = PLACE,
  at = db,
): Promise<Replay> {
  const times = { since: NOW - HOUR, until: NOW, createdAt: NOW, updatedAt: NOW, nextStepAt: NOW };
  const rates = { ratePerMinute: 60, pace: 60 };
  const job = { id, tenant: "acme", destinationId, include, state: "running" as const, ...times, ...rates };
  const replay = await beginReplay(at, job, ALL, 1_000, KEPT);
  if (!replay) throw new Error("There is one under way");
  return replay;
}

/** In each database an old bundle and one of the replay's time, with as many dead deliveries as the database's number. */
beforeEach(async () => {
  await emptyDatabase();
  for (const [number, one] of testDatabases.entries()) {
    const events = Array.from({ length: 5 }, () => ({ tenant: "acme", destinations: [PLACE] }));
    const old = { acceptedAt: NOW - 9 * HOUR, events };
    const numbers = await insertBundles(one, [old, { acceptedAt: NOW - 1, events }], number);
    await one
      .prepare(
        `INSERT INTO deliveries (destination_id, event_id, state, give_up_at, ended_at)
         SELECT ?1, value, 'dead', 0, 1 FROM json_each(?2)`,
      )
      .bind(PLACE, JSON.stringify(numbers.slice(4, 5 + number)))
      .run();
  }
});

const statesIn = async (one: D1Database) =>
  Object.fromEntries(
    (await one.prepare("SELECT id, state FROM replays").all<{ id: string; state: string }>()).results.map(
      ({ id, state }) => [id, state],
    ),
  );

describe("the parts of a replay", () => {
  test("begin in every further database before its deliveries are read, and last in the first database", async () => {
    const job = await begin("rpl_1");
    const parts = await replayPartsOf(DATABASES, job, KEPT);
    expect(parts.map((part) => testDatabases.indexOf(part.db))).toEqual([1, 2, 0]);
    expect(parts.map(({ replay }) => [replay.id, replay.total, replay.state])).toEqual([
      ["rpl_1", 1, "running"],
      ["rpl_1", 2, "running"],
      ["rpl_1", 0, "running"],
    ]);
    const begins = [1, 2].map((number) => eventAt(beforeFirstBundleOf(number) + 2, 0) - 1);
    expect(parts.map(({ replay }) => replay.cursor)).toEqual([...begins, 0]);
  });

  test.each([
    "dead",
    "missing",
  ] as const)("are begun once, by steps at the same time as well (%s)", async (include) => {
    const job = await begin("rpl_1", include);
    const together = await Promise.all([1, 2, 3].map(() => replayPartsOf(DATABASES, job, KEPT)));
    for (const { replay } of together.flat()) expect(replay.id).toBe("rpl_1");
    await further[0]?.prepare("UPDATE replays SET cursor = 77, requeued = 9").run();
    await further[1]?.prepare("UPDATE replays SET state = 'completed'").run();
    const parts = await replayPartsOf(DATABASES, job, KEPT);
    expect(parts.map(({ replay }) => [replay.cursor, replay.state])).toMatchObject([
      [77, "running"],
      [expect.any(Number), "completed"],
      [0, "running"],
    ]);
    expect((await findReplay(DATABASES, "rpl_1", undefined))?.requeued).toBe(9);
  });

  test("are not ended by a step that comes too late to begin them", async () => {
    const job = await begin("rpl_1");
    const [second = db, third = db] = further;
    const late = interceptedD1(second, async (sql, work) => {
      if (sql.includes("'cancelled'")) await replayPartsOf(DATABASES, job, KEPT);
      return work();
    });
    await replayPartsOf({ db, further: [late, third] }, job, KEPT);
    for (const one of further) expect(await statesIn(one)).toEqual({ rpl_1: "running" });
  });

  test("end parts that an earlier replay of the destination has left, and nothing else", async () => {
    for (const one of further) {
      await begin("rpl_over", "dead", PLACE, one);
      await one.prepare("UPDATE replays SET state = 'completed'").run();
      await begin("rpl_left", "dead", PLACE, one);
      await begin("rpl_other", "dead", "dst_b", one);
    }
    await replayPartsOf(DATABASES, await begin("rpl_1"), KEPT);
    for (const one of further)
      expect(await statesIn(one)).toEqual({
        ...{ rpl_over: "completed", rpl_left: "cancelled", rpl_other: "running", rpl_1: "running" },
      });
  });

  test("are found by their ids, and added up in a list in which some replays have none", async () => {
    await replayPartsOf(DATABASES, await begin("rpl_1"), KEPT);
    await begin("rpl_2", "dead", "dst_b");
    const [second = db] = further;
    expect((await partsIn(second, ["rpl_1", "rpl_2"])).map(({ id }) => id)).toEqual(["rpl_1"]);
    expect(await partsIn(second, [])).toEqual([]);
    const filter = {
      tenant: "acme",
      destinationId: undefined,
      state: undefined,
      before: undefined,
      limit: 9,
    };
    const { replays } = await listReplays(DATABASES, filter);
    expect(replays.map(({ id, total }) => [id, total])).toEqual([
      ["rpl_2", 0],
      ["rpl_1", 3],
    ]);
  });
});
