/**
 * The databases of a deployment. Every call to one is counted, and repeated after transient errors (core/transient.ts).
 *
 * The first database has every table; further ones have only events and their deliveries, in the same tables. Usually
 * there is only the first, and nothing here costs a call or a row.
 *
 * Repeated calls, with pauses that grow and differ:
 * - reads, and writes marked as `repeatable`, after every transient error except an overload;
 * - every other write only when it has certainly not been executed. A write whose answer was lost may have been:
 *   counters would count twice, and a repeated `UPDATE … WHERE` or `ON CONFLICT DO NOTHING` would return nothing, as to
 *   a caller who comes too late. The commit and the recorder, whose writes are guarded, find out their results by
 *   themselves, and repeat them.
 *
 * An overload is never repeated here: the caller tries again later (a message with its delay, a sender with
 * Retry-After), which takes the load off. D1 repeats reads by itself, at once and twice at most; which is too soon for
 * a database that restarts.
 */
import { CHANGE_MARGIN_MS, type DatabaseCount, furtherDatabaseNames } from "../core/placement.ts";
import { type Transient, transientOf } from "../core/transient.ts";
import { repeatedly, type Sleep } from "../time.ts";

export type Databases = Readonly<{
  /** The first database, the only one with destinations, API keys, replays and the sweep's heartbeat. */
  db: D1Database;
  /** The others, in the order of their numbers, from 1 on. */
  further?: readonly D1Database[] | undefined;
}>;

type AllDatabases = Readonly<{ db: D1Database; further: readonly D1Database[] }>;

/** All databases, in the order of their numbers. */
export function allOf({ db, further = [] }: Databases): readonly D1Database[] {
  return [db, ...further];
}

export function databaseAt(databases: Databases, number: number): D1Database {
  const db = allOf(databases)[number];
  if (db === undefined) throw new Error(`No database number ${number} is bound`);
  return db;
}

/** The rows that a statement returns. Lists and objects are bound as JSON. */
export async function select<Row>(
  db: D1Database,
  sql: string,
  ...values: readonly unknown[]
): Promise<Row[]> {
  const isJson = (value: unknown) => typeof value === "object" && value !== null;
  const bound = values.map((value) => (isJson(value) ? JSON.stringify(value) : value));
  const statement = db.prepare(sql).bind(...bound);
  return (await statement.all<Row>()).results;
}

/** The same in all databases at once: the rows of each behind those of the one before. */
export async function selectInAll<Row>(
  databases: Databases,
  sql: string,
  ...values: readonly unknown[]
): Promise<Row[]> {
  return (await Promise.all(allOf(databases).map((db) => select<Row>(db, sql, ...values)))).flat();
}

export function addedUp(counts: readonly (readonly [string, number])[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
  return sums;
}

/**
 * The databases that a deployment binds beyond the first (`DB`), in the order of their numbers; the configuration
 * checks that the numbers have no gap.
 */
export function furtherDatabases(env: object): D1Database[] {
  const bindings = env as Readonly<Record<string, D1Database>>;
  return furtherDatabaseNames(env).flatMap((name) => bindings[name] ?? []);
}

/** Counts in all databases at once, and returns the sum. */
export async function sumOver(
  databases: Databases,
  count: (db: D1Database) => Promise<number>,
): Promise<number> {
  const counts = await Promise.all(allOf(databases).map(count));
  return counts.reduce((sum, one) => sum + one, 0);
}

/** Where a walk over the databases continues, and whether there is more to do then. */
type Walked = Readonly<{ next: number; more: boolean; failure?: unknown }>;

/**
 * Works in one database after the other, beginning with number `first`, while it may continue; in the first of them in any
 * case. A failure in one does not stop the others.
 * @param work returns whether there is more to do in that database
 */
export async function inTurn(
  databases: Databases,
  first: number,
  mayContinue: () => boolean,
  work: (db: D1Database, number: number) => Promise<boolean>,
): Promise<Walked> {
  const all = allOf(databases);
  let next = first % all.length;
  let more = false;
  let failed: Pick<Walked, "failure"> = {};
  for (let i = 0; i < all.length; i++) {
    if (i > 0 && !mayContinue()) return { next, more: true, ...failed };
    const db = all[next];
    try {
      if (db && (await work(db, next))) more = true;
    } catch (error) {
      failed = { failure: error };
    }
    next = (next + 1) % all.length;
  }
  return { next, more, ...failed };
}

/** Makes a call with statements of this SQL. */
type Around = <T>(sql: readonly string[], call: () => Promise<T>) => Promise<T>;

/** The same databases, with every call made through `around`. */
function wrapped({ db, further = [] }: Databases, around: Around): AllDatabases {
  type Statement = Readonly<{ real: D1PreparedStatement; sql: string }>;
  const known = new WeakMap<D1PreparedStatement, Statement>();

  function statementOf({ real, sql }: Statement): D1PreparedStatement {
    const through =
      <A extends unknown[], R>(method: (...args: A) => Promise<R>) =>
      (...args: A): Promise<R> =>
        around([sql], () => method.apply(real, args));
    const statement = {
      bind: (...values: unknown[]) => statementOf({ real: real.bind(...values), sql }),
      first: through(real.first),
      run: through(real.run),
      all: through(real.all),
      raw: through(real.raw as (...args: unknown[]) => Promise<unknown>),
    } as unknown as D1PreparedStatement;
    known.set(statement, { real, sql });
    return statement;
  }

  const databaseOf = (real: D1Database) =>
    ({
      prepare: (sql: string) => statementOf({ real: real.prepare(sql), sql }),
      batch: <T>(given: D1PreparedStatement[]) => {
        const statements = given.map((one) => known.get(one) ?? { real: one, sql: "" });
        const call = () => real.batch<T>(statements.map((statement) => statement.real));
        return around(
          statements.map(({ sql }) => sql),
          call,
        );
      },
    }) as unknown as D1Database;

  return { db: databaseOf(db), further: further.map(databaseOf) };
}

/**
 * The same databases; `queries` returns how many queries have been made through them. D1 allows an invocation 1,000,
 * counts each statement of a batch, and throws beyond that: so work that is not bounded otherwise checks whether it may
 * continue.
 */
export function countQueries(databases: Databases): AllDatabases & Readonly<{ queries: () => number }> {
  let queries = 0;
  const counted = wrapped(databases, (sql, call) => {
    queries += sql.length;
    return call();
  });
  return { ...counted, queries: () => queries };
}

const MARK = "/* repeatable */";

/**
 * Marks a write that leaves the same rows, and returns what its caller needs, if its call is repeated at once. A batch
 * is repeated when all of its statements are marked, or reads.
 */
export function repeatable(sql: string): string {
  return `${sql} ${MARK}`;
}

/** The most repeats of one call. */
const REPEATS = 4;
const PAUSE_MS = 100;
/** No repeat begins later than this after the first call: the caller has a deadline of some seconds. */
const WITHIN_MS = 3_000;
/**
 * The most statements that one invocation repeats, because its queries are limited: the sweep and retention leave that
 * many unused. The allowance grows again with time, for long-lived objects.
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

/** The same databases, called again after transient errors. They share what may be repeated. */
export function repeatingDatabases(databases: Databases, services: Services): AllDatabases {
  const { now, onRepeat } = services;
  let left = STATEMENTS;
  let countedAt = now();

  /** Whether this many statements may be repeated; if so, they are counted. */
  function takes(statements: number): boolean {
    const at = now();
    left = Math.min(STATEMENTS, left + ((at - countedAt) / 1_000) * STATEMENTS_PER_SECOND);
    countedAt = at;
    if (statements > left) return false;
    left -= statements;
    return true;
  }

  return wrapped(databases, (sql, call) => {
    const isWorthwhile = (error: unknown) => {
      if (!mayRepeat(transientOf(error), sql) || !takes(sql.length)) return false;
      onRepeat(error, (sql[0] ?? "").trim().replace(/\s+/g, " "));
      return true;
    };
    const repeats = { most: REPEATS, until: now() + WITHIN_MS, pauseMs: PAUSE_MS, isWorthwhile };
    return repeatedly(services, repeats, call);
  });
}

function mayRepeat(transient: Transient | undefined, sql: readonly string[]): boolean {
  return transient === "not_reached" || (transient === "interrupted" && sql.every(isSafeToRepeat));
}

/** Whether a statement is a read, or marked. A statement with the word of a write counts as one. */
function isSafeToRepeat(sql: string): boolean {
  if (sql.endsWith(MARK)) return true;
  return /^\s*(SELECT|WITH)\b/i.test(sql) && !/\b(INSERT|UPDATE|DELETE|REPLACE)\b/i.test(sql);
}

// ── The history of how many databases take new events, in the first database. Where a key or a repeated message was
// stored follows from it, so no other database is queried. The cron writes it; a change comes into effect some time
// after it was stored, in all isolates at the same moment, whatever their configuration says. ──

const HISTORY = "SELECT count, since FROM database_history ORDER BY since";

/** In order of time; empty until it is first written. */
export async function databaseHistory(db: D1Database): Promise<readonly DatabaseCount[]> {
  return select(db, HISTORY);
}

/** Only if another number was stored last, and is in effect: so two versions that run side by side add few rows. */
const CHANGE_COUNT = `
  INSERT INTO database_history (since, count) SELECT ?2 + ${CHANGE_MARGIN_MS}, ?1 FROM database_history
  WHERE since = (SELECT max(since) FROM database_history) AND since <= ?2 AND count <> ?1 ON CONFLICT DO NOTHING`;

const BEGIN_HISTORY = `
  INSERT INTO database_history (since, count) SELECT ?2, ?1
  WHERE NOT EXISTS (SELECT 1 FROM database_history) ON CONFLICT DO NOTHING`;

/** Forgets counts that were followed by another before the time. */
const FORGET_COUNTS = `
  DELETE FROM database_history WHERE since < (SELECT max(since) FROM database_history WHERE since <= ?1)`;

/**
 * Stores how many databases are to take new events. Costs a row if that has changed.
 * @param forgottenAt what was in effect only before is removed, epoch ms
 */
export async function storeDatabaseCount(
  databases: Databases,
  count: number,
  now: number,
  forgottenAt: number,
): Promise<void> {
  const { db } = databases;
  const [last] = await db.batch<DatabaseCount>([
    db.prepare("SELECT count, since FROM database_history ORDER BY since DESC LIMIT 1"),
    db.prepare(CHANGE_COUNT).bind(count, now),
    db.prepare(FORGET_COUNTS).bind(forgottenAt),
  ]);
  if (last?.results.length) return;
  const since = (await isEmpty(databases)) ? 0 : now;
  await db.prepare(BEGIN_HISTORY).bind(count, since).run();
}

/** Whether nothing has ever been stored: then the history is known from its beginning. */
async function isEmpty(databases: Databases): Promise<boolean> {
  const found = await Promise.all(
    allOf(databases).map((db) => db.prepare("SELECT max(id) AS id FROM bundles").first<number>("id")),
  );
  return found.every((id) => id === null);
}
