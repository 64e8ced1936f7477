/**
 * D1 in virtual time: SQLite in memory with the production migrations, behind the part of D1's interface
 * that the delivery path uses. Every round trip takes its time, and happens in the middle of it.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { migrationFiles } from "../../../support/migration-files.ts";
import type { Engine } from "../engine.ts";

type Result = Readonly<{ results: readonly unknown[]; meta: Readonly<{ changes: number }> }>;
type Prepared = Readonly<{ execute: () => Result }>;

export type MemoryD1 = Readonly<{
  /** What production code sees. */
  binding: D1Database;
  /** Direct access for whoever sets up the scene and reads the end; takes no time. */
  direct: DatabaseSync;
}>;

export function memoryD1(engine: Engine, roundTripMs: number): MemoryD1 {
  const direct = new DatabaseSync(":memory:");
  migrate(direct);
  const statements = new Map<string, StatementSync>();

  function statementFor(sql: string): StatementSync {
    const known = statements.get(sql) ?? direct.prepare(sql);
    statements.set(sql, known);
    return known;
  }

  async function trip<T>(work: () => T): Promise<T> {
    await engine.sleep(roundTripMs / 2);
    const result = work();
    await engine.sleep(roundTripMs / 2);
    return result;
  }

  function bound(sql: string, values: readonly SQLInputValue[]) {
    const execute = () => executed(direct, statementFor(sql), values);
    return {
      execute,
      bind: (...given: SQLInputValue[]) => bound(sql, given),
      all: () => trip(execute),
      run: () => trip(execute),
      raw: () => trip(() => rowsAsArrays(direct, sql, values)),
      first: async (column: string) => {
        const { results } = await trip(execute);
        return (results[0] as Record<string, unknown> | undefined)?.[column] ?? null;
      },
    };
  }

  const batch = (prepared: readonly Prepared[]) =>
    trip(() => transaction(direct, () => prepared.map((statement) => statement.execute())));
  const binding = { prepare: (sql: string) => bound(sql, []), batch };
  return { binding: binding as unknown as D1Database, direct };
}

function migrate(db: DatabaseSync): void {
  for (const sql of migrationFiles()) db.exec(sql);
}

function executed(db: DatabaseSync, statement: StatementSync, values: readonly SQLInputValue[]): Result {
  const results = statement.all(...values);
  const changes = db.prepare("SELECT changes() AS changes").get() as { changes: number };
  return { results, meta: changes };
}

/** Columns of the same name stay apart. */
function rowsAsArrays(db: DatabaseSync, sql: string, values: readonly SQLInputValue[]): unknown[] {
  const statement = db.prepare(sql);
  statement.setReturnArrays(true);
  return statement.all(...values);
}

function transaction<T>(db: DatabaseSync, work: () => T): T {
  db.exec("BEGIN");
  const result = work();
  db.exec("COMMIT");
  return result;
}
