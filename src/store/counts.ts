/** Counts of what leaves no other trace, kept in D1 because isolates come and go. Written only when it happens. */

const ADD = `
  INSERT INTO counts (name, count) VALUES (?1, ?2)
  ON CONFLICT (name) DO UPDATE SET count = count + excluded.count`;

/** What is counted: `deduplicated` requests were answered from what is stored. */
export type CountName = "deduplicated";

export async function addToCount(db: D1Database, name: CountName, by: number): Promise<void> {
  await db.prepare(ADD).bind(name, by).run();
}

/** Every count that is not zero, by its name. */
export async function readCounts(db: D1Database): Promise<Readonly<Partial<Record<CountName, number>>>> {
  const { results } = await db
    .prepare("SELECT name, count FROM counts")
    .all<{ name: CountName; count: number }>();
  return Object.fromEntries(results.map(({ name, count }) => [name, count]));
}
