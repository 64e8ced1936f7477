/**
 * Production code over SQLite as a part of a model. The contents of the database are a value, and a statement makes
 * another value of it. An invocation is a value too: the production's own asynchronous function, and the answers that
 * it has got so far. To know what it does next it is run again from its beginning with these answers.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import "../../bench/storm/runtime-in-node.ts";
import { migrationFiles } from "../support/migration-files.ts";

export type Statement = Readonly<{ sql: string; values: readonly SQLInputValue[] }>;

/** The rows of each table, as JSON. */
export type Content = string;

/** The rows of each statement of one call; or the error that the caller gets. */
export type Answer = readonly (readonly Row[])[] | "lost";

type Row = Readonly<Record<string, unknown>>;

type Executed = Readonly<{ content: Content; answer: Answer }>;

export type Sqlite = Readonly<{
  empty: Content;
  /** One call of D1: a transaction. */
  execute: (content: Content, statements: readonly Statement[]) => Executed;
  query: <T>(content: Content, sql: string) => readonly T[];
}>;

/** Changes a statement's text, for variants that are broken on purpose. */
export type Edit = (sql: string) => string;

/** The clock of triggers, seconds. */
const CLOCK_S = 1_000_000;

/**
 * @param tables whose rows are the content, in an order in which they can be filled
 * @param edit changes statements
 * @param setUp changes the schema
 */
export function sqlite(tables: readonly string[], edit: Edit = (sql) => sql, setUp = ""): Sqlite {
  const db = new DatabaseSync(":memory:");
  db.function("unixepoch", { varargs: true }, () => CLOCK_S);
  for (const sql of migrationFiles()) db.exec(sql);
  db.exec(setUp);
  const prepared = new Map<string, StatementSync>();
  const known = new Map<string, Executed>();
  let loaded = "";

  function statement(sql: string): StatementSync {
    const one = prepared.get(sql) ?? db.prepare(sql);
    prepared.set(sql, one);
    return one;
  }

  function dump(): Content {
    return JSON.stringify(tables.map((table) => statement(`SELECT * FROM ${table}`).all().map(plainRow)));
  }

  function load(content: Content): void {
    if (content === loaded) return;
    for (const table of tables) statement(`DELETE FROM ${table}`).run();
    const filled: Row[][] = JSON.parse(content);
    for (const [i, table] of tables.entries()) {
      // Triggers of the tables before have written into it.
      statement(`DELETE FROM ${table}`).run();
      for (const row of filled[i] ?? []) {
        const names = Object.keys(row);
        const values = names.map((name) => storedValue(row[name]));
        statement(`INSERT INTO ${table} (${names.join()}) VALUES (${names.map(() => "?").join()})`).run(
          ...values,
        );
      }
    }
    loaded = content;
  }

  function execute(content: Content, statements: readonly Statement[]): Executed {
    const key = `${content} ${JSON.stringify(statements)}`;
    const before = known.get(key);
    if (before) return before;
    load(content);
    db.exec("BEGIN");
    const answer = statements.map(({ sql, values }) =>
      statement(edit(sql))
        .all(...values)
        .map(plainRow),
    );
    db.exec("COMMIT");
    loaded = dump();
    const executed = { content: loaded, answer };
    known.set(key, executed);
    return executed;
  }

  const query = <T>(content: Content, sql: string) => {
    load(content);
    return statement(sql).all() as T[];
  };

  loaded = dump();
  return { empty: loaded, execute, query };
}

/** Bytes as a list in an object, which JSON can represent. */
function plainRow(row: Record<string, unknown>): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? { hex: Buffer.from(value).toString("hex") } : value,
    ]),
  );
}

function storedValue(value: unknown): SQLInputValue {
  const { hex } = (value ?? {}) as { hex?: string };
  return hex === undefined ? (value as SQLInputValue) : new Uint8Array(Buffer.from(hex, "hex"));
}

/** Production code with its database. */
export type Program<T> = Readonly<{ name: string; run: (db: D1Database) => Promise<T> }>;

/** The state of a program: it waits for the answer of a call, or has ended. */
export type Standing<T> =
  | Readonly<{ kind: "calls"; statements: readonly Statement[] }>
  | Readonly<{ kind: "ended"; value: T }>
  | Readonly<{ kind: "failed" }>;

const standings = new Map<string, Standing<unknown>>();

export async function standingOf<T>(program: Program<T>, answers: readonly Answer[]): Promise<Standing<T>> {
  const key = `${program.name} ${JSON.stringify(answers)}`;
  const known = standings.get(key);
  if (known) return known as Standing<T>;
  const calls: (readonly Statement[])[] = [];
  let standing: Standing<T> | undefined;
  const db = recordingDb((statements) => {
    const answer = answers[calls.length];
    calls.push(statements);
    if (answer === undefined) return new Promise(() => {});
    if (answer === "lost") return Promise.reject(new Error("Network connection lost"));
    return Promise.resolve(answer);
  });
  program.run(db).then(
    (value) => {
      standing = { kind: "ended", value };
    },
    () => {
      standing = { kind: "failed" };
    },
  );
  // Nothing that it waits for takes longer than this, except answers.
  await new Promise((resolve) => setImmediate(resolve));
  const statements = calls[answers.length];
  const found: Standing<T> = standing ?? { kind: "calls", statements: statements ?? [] };
  standings.set(key, found);
  return found;
}

function recordingDb(
  call: (statements: readonly Statement[]) => Promise<readonly (readonly Row[])[]>,
): D1Database {
  const bound = (sql: string, values: readonly SQLInputValue[]) => {
    const one = async () => {
      const [results = []] = await call([{ sql, values }]);
      return { results, success: true, meta: {} };
    };
    return {
      sql,
      values,
      bind: (...given: SQLInputValue[]) => bound(sql, given),
      all: one,
      run: one,
      first: async (column?: string) => {
        const [row] = (await one()).results;
        return column === undefined ? (row ?? null) : (row?.[column] ?? null);
      },
    };
  };
  const batch = async (statements: readonly Statement[]) =>
    (await call(statements.map(({ sql, values }) => ({ sql, values })))).map((results) => ({ results }));
  return { prepare: (sql: string) => bound(sql, []), batch } as unknown as D1Database;
}
