/**
 * A database that is asked again after transient errors (core/transient.ts).
 *
 * What is repeated, with pauses that grow and differ:
 * - reads, and writes marked as `repeatable`, after every transient error but an overload;
 * - every other write only when it has certainly not been executed. A write whose answer got lost may have been: counters
 *   would count twice, and what a repeated `UPDATE … WHERE` or `ON CONFLICT DO NOTHING` returns would be that of a caller
 *   who comes too late. The commit and the recorder, whose writes are guarded, find out by themselves what became of
 *   them, and repeat them.
 *
 * An overload is never repeated here: who asked comes again later (a message with its delay, a sender with Retry-After),
 * which takes the load off. D1 repeats reads by itself, at once and twice at most; that is too soon for a database
 * that restarts.
 */
import { type Transient, transientOf } from "../core/transient.ts";
import { repeatedly, type Sleep } from "../time.ts";
import type { Databases } from "./shards.ts";

const MARK = "/* repeatable */";

/**
 * Marks a write that leaves the same rows, and returns what its caller needs, when the call that it is in is made again right
 * after itself. A batch is repeated when all of its statements are marked, or reads.
 */
export function repeatable(sql: string): string {
  return `${sql} ${MARK}`;
}

/** Repeats of one call. */
const REPEATS = 4;
const PAUSE_MS = 100;
/** No repeat begins later than this after the first call: whoever waits for the answer has a deadline of some seconds. */
const WITHIN_MS = 3_000;
/**
 * Statements repeated by one invocation, whose queries are limited: the sweep and retention leave that many unused. It
 * grows again with time, for the objects that live long.
 */
const STATEMENTS = 100;
const STATEMENTS_PER_SECOND = 1;

type Services = Readonly<{
  /** Epoch ms. */
  now: () => number;
  /** Uniform in [0, 1). */
  random: () => number;
  sleep: Sleep;
  /** Called before each repeat. */
  onRepeat: (error: unknown, statement: string) => void;
}>;

type Statement = Readonly<{ real: D1PreparedStatement; isRepeatable: boolean; sql: string }>;

/** The same databases, asked again after transient errors. They share what may be repeated. */
export function repeatingDatabases(
  { db, further = [] }: Databases,
  services: Services,
): Readonly<{ db: D1Database; further: readonly D1Database[] }> {
  const { now, onRepeat } = services;
  const known = new WeakMap<D1PreparedStatement, Statement>();
  let left = STATEMENTS;
  let countedAt = now();

  /** Whether so many statements may be repeated; takes them. */
  function takes(statements: number): boolean {
    const at = now();
    left = Math.min(STATEMENTS, left + ((at - countedAt) / 1_000) * STATEMENTS_PER_SECOND);
    countedAt = at;
    if (statements > left) return false;
    left -= statements;
    return true;
  }

  function run<T>(statements: readonly Statement[], call: () => Promise<T>): Promise<T> {
    const isRepeatable = statements.every((statement) => statement.isRepeatable);
    const isWorthwhile = (error: unknown) => {
      if (!mayRepeat(transientOf(error), isRepeatable) || !takes(statements.length)) return false;
      onRepeat(error, (statements[0]?.sql ?? "").trim().replace(/\s+/g, " "));
      return true;
    };
    const repeats = { most: REPEATS, until: now() + WITHIN_MS, pauseMs: PAUSE_MS, isWorthwhile };
    return repeatedly(services, repeats, call);
  }

  function statementOf(statement: Statement): D1PreparedStatement {
    const { real } = statement;
    const repeating =
      <A extends unknown[], R>(method: (...args: A) => Promise<R>) =>
      (...args: A): Promise<R> =>
        run([statement], () => method.apply(real, args));
    const wrapped = {
      bind: (...values: unknown[]) => statementOf({ ...statement, real: real.bind(...values) }),
      first: repeating(real.first),
      run: repeating(real.run),
      all: repeating(real.all),
      raw: repeating(real.raw as (...args: unknown[]) => Promise<unknown>),
    } as unknown as D1PreparedStatement;
    known.set(wrapped, statement);
    return wrapped;
  }

  const repeating = (real: D1Database) =>
    ({
      prepare: (sql: string) =>
        statementOf({ real: real.prepare(sql), isRepeatable: isSafeToRepeat(sql), sql }),
      batch: <T>(given: D1PreparedStatement[]) => {
        const statements = given.map((one) => known.get(one) ?? { real: one, isRepeatable: false, sql: "" });
        return run(statements, () => real.batch<T>(statements.map((statement) => statement.real)));
      },
    }) as unknown as D1Database;

  return { db: repeating(db), further: further.map(repeating) };
}

function mayRepeat(transient: Transient | undefined, isRepeatable: boolean): boolean {
  return transient === "not_reached" || (transient === "interrupted" && isRepeatable);
}

/** Whether a statement is a read, or marked. What contains the word of a write counts as one. */
function isSafeToRepeat(sql: string): boolean {
  if (sql.endsWith(MARK)) return true;
  return /^\s*(SELECT|WITH)\b/i.test(sql) && !/\b(INSERT|UPDATE|DELETE|REPLACE)\b/i.test(sql);
}
