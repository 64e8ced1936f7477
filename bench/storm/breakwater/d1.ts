/**
 * D1 in virtual time: SQLite in memory with the production migrations, behind the part of D1's interface that
 * production code uses. Every round trip is a call of an invocation, which decides how long it takes and whether its
 * answer arrives.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { migrationFiles } from "../../../test/support/migration-files.ts";

type Meta = Readonly<{ changes: number; rows_read: number; rows_written: number; duration: number }>;
type Result = Readonly<{ success: true; results: readonly unknown[]; meta: Meta }>;
type Prepared = Readonly<{ sql: string; execute: () => Result }>;

/** Makes the round trip of these statements by calling `work`, at most once. */
export type Trip = <T>(sql: string, work: () => T) => Promise<T>;

export type MemoryD1 = Readonly<{
  /** The binding for production code; `trip` makes each round trip. */
  bindingFor: (trip: Trip) => D1Database;
  /** Direct access, for setting up a scenario and reading its result; takes no time. */
  direct: DatabaseSync;
}>;

const READS = /^\s*select\b/i;

export function memoryD1(): MemoryD1 {
  const direct = new DatabaseSync(":memory:");
  migrate(direct);
  const statementFor = preparedIn(direct);
  const rowsAsArraysFor = preparedIn(direct, true);
  const changes = direct.prepare("SELECT changes() AS changes");

  function executed(sql: string, values: readonly SQLInputValue[]): Result {
    const results = statementFor(sql).all(...values);
    // A read changes nothing.
    const changed = READS.test(sql) ? 0 : (changes.get() as { changes: number }).changes;
    return { success: true, results, meta: { changes: changed, rows_read: 0, rows_written: 0, duration: 0 } };
  }

  function bindingFor(trip: Trip): D1Database {
    function bound(sql: string, values: readonly SQLInputValue[]) {
      const execute = () => executed(sql, values);
      return {
        sql,
        execute,
        bind: (...given: SQLInputValue[]) => bound(sql, given),
        all: () => trip(sql, execute),
        run: () => trip(sql, execute),
        raw: () => trip(sql, () => rowsAsArraysFor(sql).all(...values)),
        first: async (column?: string) => {
          const { results } = await trip(sql, execute);
          const row = results[0] as Record<string, unknown> | undefined;
          return row === undefined || column === undefined ? (row ?? null) : (row[column] ?? null);
        },
      };
    }

    const batch = (prepared: readonly Prepared[]) =>
      trip(prepared.map(({ sql }) => sql).join(";"), () =>
        transaction(direct, () => prepared.map((statement) => statement.execute())),
      );
    return { prepare: (sql: string) => bound(sql, []), batch } as unknown as D1Database;
  }

  return { bindingFor, direct };
}

function migrate(db: DatabaseSync): void {
  for (const sql of migrationFiles()) db.exec(sql);
}

/**
 * Prepares each statement once.
 * @param asArrays whether rows are arrays, which keep columns of the same name apart
 */
function preparedIn(db: DatabaseSync, asArrays = false): (sql: string) => StatementSync {
  const statements = new Map<string, StatementSync>();
  return (sql) => {
    const known = statements.get(sql);
    if (known) return known;
    const statement = db.prepare(sql);
    statement.setReturnArrays(asArrays);
    statements.set(sql, statement);
    return statement;
  };
}

function transaction<T>(db: DatabaseSync, work: () => T): T {
  db.exec("BEGIN");
  try {
    const result = work();
    db.exec("COMMIT");
    return result;
  } catch (error) {
    db.exec("ROLLBACK");
    throw error;
  }
}
