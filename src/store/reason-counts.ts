/** How many deliveries are in which state for which reason, by the partial indexes of states, up to a bound for each. */
import { addedUp, allOf, type Databases } from "./databases.ts";
import { countIn, DEAD_ROWS, RETRYING_ROWS, WAITING_PACKS, WAITING_ROWS, waitingOf } from "./sql.ts";

const IS_LISTED = "destination_id IN (SELECT value FROM json_each(?1))";

/** The index of retries has no destinations: those that are read first are counted. */
const COUNTS = `
  SELECT state, reason, sum(count) AS count FROM (
    SELECT * FROM (SELECT state, reason, 1 AS count FROM ${WAITING_ROWS} AND ${IS_LISTED} LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT 'waiting', reason, ${countIn(waitingOf())} FROM ${WAITING_PACKS} AND ${IS_LISTED} LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT state, reason, 1 FROM ${DEAD_ROWS} AND ${IS_LISTED} LIMIT ?2)
    UNION ALL
    SELECT state, reason, 1 FROM (SELECT * FROM ${RETRYING_ROWS} LIMIT ?2) WHERE ${IS_LISTED})
  WHERE reason IS NOT NULL GROUP BY state, reason`;

export type ReasonCount = Readonly<{
  state: "waiting" | "dead" | "retrying";
  reason: string;
  /** At most the limit, which stands for more. */
  count: number;
}>;

/** @param limit the most rows and packs that are read of each state in each database */
export async function reasonCounts(
  databases: Databases,
  destinations: readonly string[],
  limit: number,
): Promise<readonly ReasonCount[]> {
  if (destinations.length === 0) return [];
  const read = await Promise.all(
    allOf(databases).map((db) =>
      db.prepare(COUNTS).bind(JSON.stringify(destinations), limit).all<ReasonCount>(),
    ),
  );
  const counted = read.flatMap(({ results }) => results);
  const sums = addedUp(counted.map(({ state, reason, count }) => [`${state} ${reason}`, count]));
  return [...sums].map(([key, count]) => {
    const [state = "", reason = ""] = key.split(" ");
    return { state: state as ReasonCount["state"], reason, count: Math.min(limit, count) };
  });
}
