/** What is not done, for many destinations at once. */
import { addedUp, allOf, type Databases } from "./shards.ts";
import { waitingCount } from "./waiting.ts";

/** Walks the partial indexes, `?2` entries of each at most: a million waiting cost no more than a page. */
const BACKLOG = `
  SELECT d.value AS id,
    ${waitingCount("d.value", "?2")} AS waiting,
    (SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY deliveries_dead
      WHERE destination_id = d.value AND state = 'dead' LIMIT ?2)) AS dead
  FROM json_each(?1) d`;

export type Backlog = Readonly<{ waiting: number; dead: number }>;

/** Waiting and dead deliveries of each of the destinations, each counted up to `limit`. */
export async function backlogOf(
  databases: Databases,
  destinations: readonly string[],
  limit: number,
): Promise<ReadonlyMap<string, Backlog>> {
  const ids = JSON.stringify(destinations);
  const counted = await Promise.all(
    allOf(databases).map((db) => db.prepare(BACKLOG).bind(ids, limit).all<{ id: string } & Backlog>()),
  );
  const rows = counted.flatMap(({ results }) => results);
  const waiting = addedUp(rows.map((row) => [row.id, row.waiting]));
  const dead = addedUp(rows.map((row) => [row.id, row.dead]));
  const upTo = (count = 0) => Math.min(limit, count);
  return new Map(rows.map(({ id }) => [id, { waiting: upTo(waiting.get(id)), dead: upTo(dead.get(id)) }]));
}
