/**
 * Events and deliveries over several databases. The first has everything; what there is beyond it has
 * events and their deliveries alone, in the same tables. Usually there is no other, and nothing here costs
 * a call or a row.
 *
 * What is about one event is asked of its database; what is about a destination's deliveries, of all.
 */
import { databaseNumberOf, databaseNumberOfBundle, MOST_DATABASES } from "../core/placement.ts";

export type Databases = Readonly<{
  /** The first: destinations, keys, replays and the sweep's heartbeat are here alone. */
  db: D1Database;
  /** The others, in the order of their numbers, from 1 on. */
  further?: readonly D1Database[] | undefined;
}>;

/** All of them, in the order of their numbers. */
export function allOf({ db, further = [] }: Databases): readonly D1Database[] {
  return [db, ...further];
}

/** The one of that number; throws when it is not bound. */
export function databaseAt(databases: Databases, number: number): D1Database {
  const db = allOf(databases)[number];
  if (db === undefined) throw new Error(`No database number ${number} is bound`);
  return db;
}

/** The database that the event lives in; undefined when it is not bound. */
export function homeOf(databases: Databases, event: number): D1Database | undefined {
  return allOf(databases)[databaseNumberOf(event)];
}

/** The one that the bundle lives in; undefined when it is not bound. */
export function homeOfBundle(databases: Databases, bundle: number): D1Database | undefined {
  return allOf(databases)[databaseNumberOfBundle(bundle)];
}

/** The items by the databases that their events live in. Those whose database is not bound are left out. */
export function sharesOf<T>(
  databases: Databases,
  items: readonly T[],
  eventOf: (item: T) => number,
): ReadonlyMap<D1Database, readonly T[]> {
  const shares = Map.groupBy(items, (item) => homeOf(databases, eventOf(item)));
  return new Map([...shares].flatMap(([db, share]) => (db ? [[db, share]] : [])));
}

/** Asks all of them at once, and adds up what they count. */
export async function sumOver(
  databases: Databases,
  count: (db: D1Database) => Promise<number>,
): Promise<number> {
  const counts = await Promise.all(allOf(databases).map(count));
  return counts.reduce((sum, one) => sum + one, 0);
}

/** The sums of the counts by what they count. */
export function addedUp(counts: readonly (readonly [string, number])[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const [what, count] of counts) sums.set(what, (sums.get(what) ?? 0) + count);
  return sums;
}

// §§ Databases whose queries are counted. D1 allows an invocation 1,000 of them, counts each statement of a batch, and
// throws beyond that: so whoever does as much as there is to do asks here whether it may go on.

type Counted = Readonly<{ db: D1Database; further: readonly D1Database[]; queries: () => number }>;

/** The same databases; `queries` says how many have been made through them since. */
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

/** Where a walk over the databases goes on, and whether it has left something for then. */
export type Walked = Readonly<{ next: number; more: boolean; failure?: unknown }>;

/**
 * Works in one database after the other, beginning with number `first`, as long as it may go on; in one of them in
 * any case. One that fails keeps the others from nothing.
 * @param work says whether it has left something undone
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
 * The databases that a deployment binds beyond the first (`DB`), in the order of their numbers, and what is wrong with
 * their names. The numbers are part of the events' ids, so there is no gap in them.
 */
export function furtherDatabases(env: object): { further: D1Database[]; faults: string[] } {
  const named = Object.entries(env).flatMap(([name, binding]) => {
    const number = /^DB_(\d+)$/.exec(name)?.[1];
    return number === undefined ? [] : [{ name, number: Number(number), binding: binding as D1Database }];
  });
  const sorted = named.toSorted((a, b) => a.number - b.number);
  const misplaced = sorted.find(({ name }, i) => name !== `DB_${i + 1}`);
  const expected = `expected DB, DB_1, DB_2 and so on, ${MOST_DATABASES} at most`;
  const isTooMany = sorted.length >= MOST_DATABASES;
  const fault = misplaced
    ? `${misplaced.name} is bound out of turn`
    : isTooMany && `${sorted.length + 1} databases are bound`;
  return { further: sorted.map(({ binding }) => binding), faults: fault ? [`${fault}; ${expected}`] : [] };
}
