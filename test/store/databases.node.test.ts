/** Which databases are queried, in which order, and how many queries that takes. */

import { describe, expect, test } from "vitest";
import { beforeFirstBundleOf, beforeFirstOf } from "../../src/core/placement.ts";
import { homeOf, homeOfBundle, sharesOf } from "../../src/store/bundles.ts";
import {
  addedUp,
  allOf,
  countQueries,
  databaseAt,
  furtherDatabases,
  inTurn,
  sumOver,
} from "../../src/store/databases.ts";

/** A database by its name, which is all that it has. */
const named = (name: string) => name as unknown as D1Database;
const [a, b, c] = ["a", "b", "c"].map(named) as [D1Database, D1Database, D1Database];
const three = { db: a, further: [b, c] };

describe("databases", () => {
  test("come in the order of their numbers, however many there are", () => {
    expect(allOf({ db: a })).toEqual([a]);
    expect(allOf(three)).toEqual([a, b, c]);
    expect([databaseAt(three, 0), databaseAt(three, 2)]).toEqual([a, c]);
    expect(() => databaseAt(three, 3)).toThrow("No database number 3 is bound");
  });

  test("are the home of the events and bundles with their numbers, and of no others", () => {
    for (const [number, db] of [a, b, c, undefined].entries()) {
      expect(homeOf(three, beforeFirstOf(number) + 128)).toBe(db);
      expect(homeOfBundle(three, beforeFirstBundleOf(number) + 1)).toBe(db);
    }
  });

  test("have their shares of a list in its order, without entries that have no home", () => {
    const items = [2, 0, 3, 2, 1].map((number, i) => ({ event: beforeFirstOf(number) + 128 + i }));
    const shares = sharesOf(three, items, ({ event }) => event);
    expect(shares).toEqual(
      new Map([
        [c, [items[0], items[3]]],
        [a, [items[1]]],
        [b, [items[4]]],
      ]),
    );
  });

  test("are counted together, by name if there are names", async () => {
    const counts = new Map([
      [a, 1],
      [b, 20],
      [c, 300],
    ]);
    expect(await sumOver(three, async (db) => counts.get(db) ?? 0)).toBe(321);
    const sums = addedUp([
      ["x", 1],
      ["y", 5],
      ["x", 20],
      ["x", 300],
    ]);
    expect(sums).toEqual(
      new Map([
        ["x", 321],
        ["y", 5],
      ]),
    );
  });

  test("beyond the first are those that are bound", () => {
    expect(furtherDatabases({ DB: a, DB_2: c, DB_1: b, DB_X: a })).toEqual([b, c]);
    expect(furtherDatabases({ DB: a, DB_1: undefined, DB_2: c })).toEqual([c]);
  });
});

describe("work in one database after the other", () => {
  type Case = Readonly<{
    first?: number;
    /** How often it may continue. */
    steps?: number;
    /** The numbers of the databases with more to do, and of those that fail. */
    more?: readonly number[];
    failing?: readonly number[];
  }>;

  /** The databases worked in, with what comes back. */
  async function worked(databases: typeof three | { db: D1Database }, given: Case) {
    const { first = 0, steps = 9, more = [], failing = [] } = given;
    const visited: unknown[] = [];
    let left = steps;
    const mayGoOn = () => left-- > 0;
    const result = await inTurn(databases, first, mayGoOn, async (db, number) => {
      expect(db).toBe(databaseAt(databases, number));
      visited.push(number);
      if (failing.includes(number)) throw new Error(`Of ${number}`);
      return more.includes(number);
    });
    return { visited, ...result };
  }

  test.each<[why: string, given: Case, result: object]>([
    ["goes round once", {}, { visited: [0, 1, 2], next: 0, more: false }],
    ["begins with a number", { first: 2 }, { visited: [2, 0, 1], next: 2, more: false }],
    [
      "begins with a database that is there, by any number",
      { first: 4 },
      { visited: [1, 2, 0], next: 1, more: false },
    ],
    ["works in the first in any case", { steps: 0 }, { visited: [0], next: 1, more: true }],
    ["goes on while it may", { first: 1, steps: 1 }, { visited: [1, 2], next: 0, more: true }],
    ["reports whether the first has more", { more: [0] }, { visited: [0, 1, 2], next: 0, more: true }],
    ["reports whether the last has more", { more: [2] }, { visited: [0, 1, 2], next: 0, more: true }],
    [
      "fails in one without stopping",
      { failing: [1], more: [0] },
      { visited: [0, 1, 2], next: 0, more: true, failure: new Error("Of 1") },
    ],
    [
      "reports a failure although it may not continue",
      { failing: [0], steps: 1 },
      { visited: [0, 1], next: 2, more: true, failure: new Error("Of 0") },
    ],
  ])("%s", async (_, given, result) => {
    expect(await worked(three, given)).toEqual(result);
  });

  test("is over after the only one", async () => {
    expect(await worked({ db: a }, { steps: 0 })).toEqual({ visited: [0], next: 0, more: false });
  });
});

describe("counted queries", () => {
  /** A database that records its queries. */
  function recording(name: string) {
    const asked: unknown[] = [];
    const statementOf = (text: string): D1PreparedStatement => {
      const answer = (how: string) =>
        async function (this: unknown, ...args: unknown[]) {
          expect(this).toBe(statement);
          asked.push([text, how, ...args]);
          return `${name} ${text}`;
        };
      const statement = {
        text,
        bind: (...values: unknown[]) => statementOf(`${text} ${values}`),
        ...{ first: answer("first"), run: answer("run"), all: answer("all"), raw: answer("raw") },
      } as unknown as D1PreparedStatement;
      return statement;
    };
    const db = {
      prepare: statementOf,
      batch: async (statements: { text: string }[]) => statements.map(({ text }) => text),
    } as unknown as D1Database;
    return { db, asked };
  }

  test("are those of statements and of batches, in all databases, which answer as they would", async () => {
    const [one, two] = [recording("one"), recording("two")];
    const { db, further, queries } = countQueries({ db: one.db, further: [two.db] });
    expect(queries()).toBe(0);
    const bound = db.prepare("A").bind(1, "x");
    expect(queries()).toBe(0);
    expect(await bound.first("column")).toBe("one A 1,x");
    expect([await bound.run(), await bound.all(), await bound.raw()]).toEqual(Array(3).fill("one A 1,x"));
    expect(one.asked).toEqual([
      ["A 1,x", "first", "column"],
      ...["run", "all", "raw"].map((how) => ["A 1,x", how]),
    ]);
    expect(queries()).toBe(4);
    await further[0]?.prepare("B").run();
    expect(two.asked).toEqual([["B", "run"]]);
    expect(queries()).toBe(5);
    const uncounted = one.db.prepare("C");
    expect(await db.batch([db.prepare("A").bind(2), db.prepare("B"), uncounted])).toEqual(["A 2", "B", "C"]);
    expect(queries()).toBe(8);
  });
});
