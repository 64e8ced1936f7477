/**
 * The D1 databases that a deployment binds: `DB` is number 0, and events go to `DB_1`, `DB_2` and so on as
 * well where they are bound. The numbers are part of the events' ids, so there is no gap in them.
 */
import { MOST_DATABASES } from "./policy/placement.ts";

/** Those beyond the first, in the order of their numbers, and what is wrong with their names. */
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
