/** Which calls of D1 are made again after which errors, when, and how often. */

import { describe, expect, test } from "vitest";
import { countQueries, repeatable, repeatingDatabases } from "../../src/store/databases.ts";

const READ = "SELECT updated_at FROM destinations WHERE id = ?1";
const WRITE = "UPDATE counts SET count = count + 1";
const MARKED = repeatable("UPDATE cursors SET row_id = ?1");

const LOST = "D1_ERROR: Network connection lost.";
const UNREACHED = "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.";
const OVERLOADED = "D1_ERROR: D1 DB is overloaded. Requests queued for too long.";
const FAULTY = "D1_ERROR: no such table: x: SQLITE_ERROR";

/** A database whose calls fail so often with that error, at a clock that only pauses advance. */
function world(message: string, failures = Number.POSITIVE_INFINITY, random = 0) {
  const clock = { at: 0 };
  const pauses: number[] = [];
  const repeats: string[] = [];
  let calls = 0;
  const answer = async () => {
    calls += 1;
    if (calls <= failures) throw new Error(message);
    return "answer";
  };
  const statement = { bind: () => statement, first: answer, run: answer, all: answer, raw: answer };
  const real = { prepare: () => statement, batch: answer } as unknown as D1Database;
  const { db } = repeatingDatabases(
    { db: real },
    {
      now: () => clock.at,
      random: () => random,
      sleep: async (ms) => {
        pauses.push(ms);
        clock.at += ms;
      },
      onRepeat: (_error, sql) => repeats.push(sql),
    },
  );
  return { db, clock, pauses, repeats, calls: () => calls };
}

describe("a call that fails", () => {
  test.each([
    ["a read", LOST, READ, true],
    ["a read of Drizzle", LOST, 'select "id", "updated_at" from "destinations"', true],
    ["a read WITH", LOST, "\n  WITH a AS (SELECT 1) SELECT * FROM a", true],
    ["a marked write", LOST, MARKED, true],
    ["a write, of which nobody knows whether it was made", LOST, WRITE, false],
    ["a write behind WITH", LOST, "WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a", false],
    ["a write that was certainly not made", UNREACHED, WRITE, true],
    ["a read of an overloaded database", OVERLOADED, READ, false],
    ["a write to an overloaded database", OVERLOADED, MARKED, false],
    ["a read that is faulty", FAULTY, READ, false],
  ])("%s (%s) is repeated: %s %s", async (_what, message, sql, isRepeated) => {
    for (const method of ["first", "run", "all", "raw"] as const) {
      const { db, calls } = world(message, 1);
      const statement = db.prepare(sql).bind(1) as unknown as Record<typeof method, () => Promise<unknown>>;
      const made = statement[method]();
      if (isRepeated) expect(await made).toBe("answer");
      else await expect(made).rejects.toThrow(message);
      expect(calls()).toBe(isRepeated ? 2 : 1);
    }
  });

  test("as a batch is repeated if all of it is safe to repeat, and not if one statement is unsafe", async () => {
    const safe = world(LOST, 1);
    await safe.db.batch([safe.db.prepare(READ), safe.db.prepare(MARKED).bind(1)]);
    expect(safe.calls()).toBe(2);
    const unsafe = world(LOST, 1);
    const batch = unsafe.db.batch([unsafe.db.prepare(READ), unsafe.db.prepare(WRITE)]);
    await expect(batch).rejects.toThrow(LOST);
    expect(unsafe.calls()).toBe(1);
  });

  test.each([
    ["longest", 0, [100, 200, 400, 800]],
    ["shortest", 0.999, [50, 100, 200, 400]],
  ])("for good is made five times, with the %s pauses of its jitter, and fails like the last", async (_, random, pauses) => {
    const failing = world(LOST, undefined, random);
    await expect(failing.db.prepare(READ).first()).rejects.toThrow(LOST);
    expect(failing.calls()).toBe(5);
    expect(failing.pauses).toEqual(pauses);
    expect(failing.repeats).toEqual(Array(4).fill(READ));
  });

  test("is not repeated later than three seconds after it began", async () => {
    const slow = world(LOST);
    slow.clock.at = 10_000;
    const made = slow.db.prepare(READ).first();
    slow.clock.at += 3_000;
    await expect(made).rejects.toThrow(LOST);
    expect(slow.calls()).toBe(1);
  });
});

test("an invocation repeats a hundred statements, and then at most one a second", async () => {
  const { db, clock, calls } = world(UNREACHED);
  const batch = Array.from({ length: 30 }, () => db.prepare(WRITE));
  // One call and three repeats of thirty: a fourth would be beyond a hundred, but for the time that has passed.
  await expect(db.batch(batch)).rejects.toThrow(UNREACHED);
  expect(calls()).toBe(4);
  clock.at += 20_000;
  await expect(db.batch(batch)).rejects.toThrow(UNREACHED);
  expect(calls()).toBe(6);
  await expect(db.batch(batch)).rejects.toThrow(UNREACHED);
  expect(calls()).toBe(7);
});

test("a batch of a hundred statements is repeated once, and a larger one not at all", async () => {
  const callsFor = async (statements: number) => {
    const { db, calls } = world(UNREACHED);
    const batch = db.batch(Array.from({ length: statements }, () => db.prepare(WRITE)));
    await expect(batch).rejects.toThrow(UNREACHED);
    return calls();
  };
  expect([await callsFor(100), await callsFor(101)]).toEqual([2, 1]);
});

test("a repeat is reported with the text of the first statement in one line", async () => {
  const { db, repeats } = world(LOST, 1);
  await db.batch([db.prepare(`\n  SELECT *\n    FROM counts  `), db.prepare(READ)]);
  expect(repeats).toEqual(["SELECT * FROM counts"]);
});

test("a batch without statements is repeated like a read, and reported without a text", async () => {
  const { db, calls, repeats } = world(LOST, 1);
  await db.batch([]);
  expect([calls(), repeats]).toEqual([2, [""]]);
});

test("a statement that another wrapper has prepared counts as a write", async () => {
  const [lost, unreached] = [world(LOST, 1), world(UNREACHED, 1)];
  const foreign = world(LOST).db.prepare(READ);
  await expect(lost.db.batch([lost.db.prepare(READ), foreign])).rejects.toThrow(LOST);
  await unreached.db.batch([foreign]);
  expect([lost.calls(), unreached.calls(), unreached.repeats]).toEqual([1, 2, [""]]);
});

test.each([
  "PRAGMA optimize",
  "CREATE TABLE a (b)",
  "DROP TABLE a",
])("a statement that is neither a read nor marked is not repeated: %s", async (sql) => {
  const { db, calls } = world(LOST, 1);
  await expect(db.prepare(sql).run()).rejects.toThrow(LOST);
  expect(calls()).toBe(1);
});

test("a statement of a wrapped database keeps its mark through the count of queries", async () => {
  const { db, calls } = world(LOST, 1);
  const counted = countQueries({ db });
  await counted.db.batch([counted.db.prepare(MARKED).bind(1)]);
  expect(calls()).toBe(2);
  expect(counted.queries()).toBe(1);
});
