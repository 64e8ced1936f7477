/**
 * Databases whose queries are counted. D1 allows an invocation 1,000 of them, counts each statement of a batch, and
 * throws beyond that: so whoever does as much as there is to do asks here whether it may go on.
 */
import { allOf, type Databases } from "./shards.ts";

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
