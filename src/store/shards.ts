/** Which database an event or a bundle lives in: its number says it (core/placement.ts). */
import { databaseNumberOf, databaseNumberOfBundle } from "../core/placement.ts";
import { allOf, type Databases } from "./databases.ts";

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

/** The sums of the counts of each name. */
export function addedUp(counts: readonly (readonly [string, number])[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
  return sums;
}
