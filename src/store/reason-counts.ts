/** How many deliveries are in which state for which reason, by the partial indexes of states, up to a bound for each. */
import { addedUp, allOf, type Databases, select } from "./databases.ts";
import {
  countIn,
  DEAD_ROWS,
  IN_FLIGHT_PACKS,
  inFlightOf,
  RETRYING_ROWS,
  WAITING_PACKS,
  WAITING_ROWS,
  waitingOf,
} from "./sql.ts";

const states = ["waiting", "dead", "retrying"] as const;

type State = (typeof states)[number];

/**
 * Entries of the indexes, which are added up outside of the statement: to group them would read each of them twice.
 * `own` leads to the entries of listed destinations. The indexes of retries have no destinations, so the entries of all
 * that are due first are read, with their ids.
 */
function statementOf(list: string, own: string): string {
  const sources = [
    `SELECT 'waiting' AS state, reason, 1 AS count, NULL AS id FROM ${list} ${WAITING_ROWS} ${own}`,
    `SELECT 'waiting', reason, ${countIn(waitingOf())}, NULL FROM ${list} ${WAITING_PACKS} ${own}`,
    `SELECT 'dead', reason, 1, NULL FROM ${list} ${DEAD_ROWS} ${own}`,
    `SELECT 'retrying', reason, 1, destination_id FROM ${RETRYING_ROWS}`,
    `SELECT 'retrying', 'in_flight', ${countIn(inFlightOf())}, destination_id FROM ${IN_FLIGHT_PACKS}`,
  ];
  return sources
    .map((source, place) => `SELECT ${place} AS source, * FROM (${source} LIMIT ?1)`)
    .join(" UNION ALL ");
}

const COUNT_OF_ALL = statementOf("", "");
const COUNT_OF_LISTED = statementOf("json_each(?2) own CROSS JOIN", "AND destination_id = own.value");

export type ReasonCounts = Readonly<{
  counts: readonly Readonly<{ state: State; reason: string; count: number }>[];
  /** The states of which all deliveries are counted; of the others there are at least as many. */
  exact: readonly State[];
}>;

type Entry = Readonly<{
  source: number;
  state: State;
  reason: string | null;
  count: number;
  id: string | null;
}>;

/**
 * @param destinations undefined: all of all tenants
 * @param limit the most rows, and again packs, that are read of each state in each database
 */
export async function reasonCounts(
  databases: Databases,
  destinations: readonly string[] | undefined,
  limit: number,
): Promise<ReasonCounts> {
  if (destinations?.length === 0) return { counts: [], exact: states };
  const [sql, ...listed] =
    destinations === undefined ? ([COUNT_OF_ALL] as const) : ([COUNT_OF_LISTED, destinations] as const);
  const answers = await Promise.all(allOf(databases).map((db) => select<Entry>(db, sql, limit, ...listed)));
  const own = destinations && new Set(destinations);
  const sums = addedUp(
    answers
      .flat()
      .flatMap(({ state, reason, count, id }) =>
        reason === null || (own && id !== null && !own.has(id))
          ? []
          : [[`${state} ${reason}`, count] as const],
      ),
  );
  const counts = [...sums].map(([key, count]) => {
    const [state = "", reason = ""] = key.split(" ");
    return { state: state as State, reason, count };
  });
  const isFull = (state: State) =>
    answers.some((entries) =>
      [...Map.groupBy(entries, ({ source }) => source)].some(
        ([, read]) => read[0]?.state === state && read.length === limit,
      ),
    );
  return { counts, exact: states.filter((state) => !isFull(state)) };
}
