/** What is not done, for many destinations at once. */

/** Walks the partial indexes, `?2` entries of each at most: a million waiting cost no more than a page. */
const BACKLOG = `
  SELECT d.value AS id,
    (SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY deliveries_waiting
      WHERE destination_id = d.value AND state = 'waiting' LIMIT ?2)) AS waiting,
    (SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY deliveries_dead
      WHERE destination_id = d.value AND state = 'dead' LIMIT ?2)) AS dead
  FROM json_each(?1) d`;

export type Backlog = Readonly<{ waiting: number; dead: number }>;

/** Waiting and dead deliveries of each of the destinations, each counted up to `limit`. */
export async function backlogOf(
  db: D1Database,
  destinations: readonly string[],
  limit: number,
): Promise<ReadonlyMap<string, Backlog>> {
  const { results } = await db
    .prepare(BACKLOG)
    .bind(JSON.stringify(destinations), limit)
    .all<{ id: string } & Backlog>();
  return new Map(results.map(({ id, waiting, dead }) => [id, { waiting, dead }]));
}
