/** Counts of what leaves no other trace, kept in D1 because isolates come and go. Written only when it happens. */
import { OPERATOR } from "./notices.ts";
import { allOf, type Databases } from "./shards.ts";

const ADD = `
  INSERT INTO counts (name, count) VALUES (?1, ?2)
  ON CONFLICT (name) DO UPDATE SET count = count + excluded.count`;

/**
 * What is counted: `deduplicated` requests were answered from what is stored, `keyed` ones were stored under a key.
 * All requests with a key that were answered are both together.
 */
export type CountName = "deduplicated" | "keyed";

export async function addToCount(db: D1Database, name: CountName, by: number): Promise<void> {
  await db.prepare(ADD).bind(name, by).run();
}

/** Every count that is not zero, by its name, over all databases. */
export async function readCounts(
  databases: Databases,
): Promise<Readonly<Partial<Record<CountName, number>>>> {
  const answers = await Promise.all(
    allOf(databases).map((db) =>
      db.prepare("SELECT name, count FROM counts").all<{ name: CountName; count: number }>(),
    ),
  );
  const counts: Partial<Record<CountName, number>> = {};
  for (const { name, count } of answers.flatMap(({ results }) => results))
    counts[name] = (counts[name] ?? 0) + count;
  return counts;
}

/** Events looked at in one call, in each database: more than one can take in a minute. */
const LOOKED_AT = 100_000;

/** The events that come next: after `since`, up to `until`. Ids have no gaps but where events were removed. */
const NEXT = `
  WITH begin (since) AS (
    SELECT coalesce((SELECT event_id FROM cursors WHERE name = 'keyed'), (SELECT min(id) - 1 FROM events))
  ), next (since, until) AS (
    SELECT since, min(since + ${LOOKED_AT}, (SELECT max(id) FROM events)) FROM begin
  )`;

const COUNT_KEYED = `
  INSERT INTO counts (name, count) ${NEXT}
  SELECT 'keyed', keyed.n FROM (
    SELECT count(*) AS n FROM next JOIN events e ON e.id > next.since AND e.id <= next.until
    WHERE e.idempotency_key IS NOT NULL AND e.tenant <> '${OPERATOR}') keyed
  WHERE keyed.n > 0
  ON CONFLICT (name) DO UPDATE SET count = count + excluded.count`;

const MOVE = `
  INSERT INTO cursors (name, at, event_id) ${NEXT}
  SELECT 'keyed', 0, until FROM next WHERE until > since
  ON CONFLICT (name) DO UPDATE SET event_id = excluded.event_id`;

/**
 * Counts the requests that were stored under a key since the last time: from what is stored, so that a request costs
 * no row for it. Exact, as of the call: the count and the place where the next call begins are one transaction.
 */
export async function countKeyed(databases: Databases): Promise<void> {
  await Promise.all(allOf(databases).map((db) => db.batch([db.prepare(COUNT_KEYED), db.prepare(MOVE)])));
}
