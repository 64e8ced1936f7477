/**
 * Events and deliveries over several databases. The first has everything; what there is beyond it has
 * events and their deliveries alone, in the same tables. Usually there is no other, and nothing here costs
 * a call or a row.
 *
 * What is about one event is asked of its database; what is about a destination's deliveries, of all.
 */
import { databaseNumberOf, databaseNumberOfBundle } from "../policy/placement.ts";

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
