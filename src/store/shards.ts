/**
 * Events and deliveries over several databases. The first has every table; further ones have events and their deliveries
 * alone, in the same tables. Usually there is only the first, and nothing here costs a call or a row.
 *
 * Queries about one event go to its database; queries about a destination's deliveries go to all.
 */
import { databaseNumberOf, databaseNumberOfBundle, furtherDatabaseNames } from "../core/placement.ts";

export type Databases = Readonly<{
  /** The first, which alone has destinations, API keys, replays and the sweep's heartbeat. */
  db: D1Database;
  /** The others, in the order of their numbers, from 1 on. */
  further?: readonly D1Database[] | undefined;
}>;

/** All databases, in the order of their numbers. */
export function allOf({ db, further = [] }: Databases): readonly D1Database[] {
  return [db, ...further];
}

/** The database of that number; throws when it is not bound. */
export function databaseAt(databases: Databases, number: number): D1Database {
  const db = allOf(databases)[number];
  if (db === undefined) throw new Error(`No database number ${number} is bound`);
  return db;
}

/** The database that the event lives in; undefined when it is not bound. */
export function homeOf(databases: Databases, event: number): D1Database | undefined {
  return allOf(databases)[databaseNumberOf(event)];
}

/** The database that the bundle lives in; undefined when it is not bound. */
export function homeOfBundle(databases: Databases, bundle: number): D1Database | undefined {
  return allOf(databases)[databaseNumberOfBundle(bundle)];
}

/** The items grouped by the databases that their events live in, without those whose database is not bound. */
export function sharesOf<T>(
  databases: Databases,
  items: readonly T[],
  eventOf: (item: T) => number,
): ReadonlyMap<D1Database, readonly T[]> {
  const shares = Map.groupBy(items, (item) => homeOf(databases, eventOf(item)));
  return new Map([...shares].flatMap(([db, share]) => (db ? [[db, share]] : [])));
}

/** Counts in all databases at once, and adds up. */
export async function sumOver(
  databases: Databases,
  count: (db: D1Database) => Promise<number>,
): Promise<number> {
  const counts = await Promise.all(allOf(databases).map(count));
  return counts.reduce((sum, one) => sum + one, 0);
}

/** The sums of the counts of each name. */
export function addedUp(counts: readonly (readonly [string, number])[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
  return sums;
}

type Counted = Readonly<{ db: D1Database; further: readonly D1Database[]; queries: () => number }>;

/**
 * The same databases; `queries` returns how many queries have been made through them. D1 allows an invocation 1,000,
 * counts each statement of a batch, and throws beyond that: so work that is not bounded otherwise checks whether it may
 * continue.
 */
export function countQueries({ db, further = [] }: Databases): Counted {
  let queries = 0;
  const inner = new WeakMap<D1PreparedStatement, D1PreparedStatement>();

  function statementOf(real: D1PreparedStatement): D1PreparedStatement {
    const counted =
      <A extends unknown[], R>(method: (...args: A) => R) =>
      (...args: A): R => {
        queries += 1;
        return method.apply(real, args);
      };
    const statement = {
      bind: (...values: unknown[]) => statementOf(real.bind(...values)),
      first: counted(real.first),
      run: counted(real.run),
      all: counted(real.all),
      raw: counted(real.raw),
    } as unknown as D1PreparedStatement;
    inner.set(statement, real);
    return statement;
  }

  const counting = (real: D1Database) =>
    ({
      prepare: (sql: string) => statementOf(real.prepare(sql)),
      batch: <T>(statements: D1PreparedStatement[]) => {
        queries += statements.length;
        return real.batch<T>(statements.map((statement) => inner.get(statement) ?? statement));
      },
    }) as unknown as D1Database;

  return { db: counting(db), further: further.map(counting), queries: () => queries };
}

/** Where a walk over the databases continues, and whether there is more to do then. */
type Walked = Readonly<{ next: number; more: boolean; failure?: unknown }>;

/**
 * Works in one database after the other, beginning with number `first`, while it may go on; in the first of them in any
 * case. A failure in one does not stop the others.
 * @param work returns whether there is more to do in that database
 */
export async function inTurn(
  databases: Databases,
  first: number,
  mayGoOn: () => boolean,
  work: (db: D1Database, number: number) => Promise<boolean>,
): Promise<Walked> {
  const all = allOf(databases);
  let next = first % all.length;
  let more = false;
  let failed: Pick<Walked, "failure"> = {};
  for (let i = 0; i < all.length; i++) {
    if (i > 0 && !mayGoOn()) return { next, more: true, ...failed };
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

/**
 * The databases that a deployment binds beyond the first (`DB`), in the order of their numbers; that there is no gap in
 * these is for the configuration to check.
 */
export function furtherDatabases(env: object): D1Database[] {
  const bindings = env as Readonly<Record<string, D1Database>>;
  return furtherDatabaseNames(env).flatMap((name) => bindings[name] ?? []);
}
