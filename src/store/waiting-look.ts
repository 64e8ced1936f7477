/**
 * A drain's look at what waits: along the index that holds nothing else, and the attempts that it needs to
 * know. The index is named, because the planner would rather walk the table, with all that was ever delivered.
 */
import type { Reach } from "../policy/reach.ts";
import type { Destination } from "./destination-settings.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { destinations } from "./schema.ts";
import type { Databases } from "./shards.ts";

const DESTINATION = "SELECT * FROM destinations WHERE id = ?1";

const WAITING = "deliveries INDEXED BY deliveries_waiting WHERE destination_id = ?1 AND state = 'waiting'";

const OLDEST = `SELECT event_id, attempts FROM ${WAITING} ORDER BY event_id LIMIT ?2`;
const NEWEST = `SELECT event_id, attempts FROM ${WAITING} ORDER BY event_id DESC LIMIT ?2`;

/** From so far on between the oldest and the newest: 0 is the one, 1 the other. */
const BETWEEN = `
  SELECT event_id, attempts FROM ${WAITING} AND event_id >= (
    SELECT oldest + CAST((newest - oldest) * ?3 AS INTEGER) FROM (
      SELECT (SELECT min(event_id) FROM ${WAITING}) AS oldest, (SELECT max(event_id) FROM ${WAITING}) AS newest))
  ORDER BY event_id LIMIT ?2`;

export type Waiting = Readonly<{
  destination: Destination | undefined;
  events: readonly number[];
  /** Nothing else waits. */
  isAll: boolean;
}>;

type Found = Readonly<{ event_id: number; attempts: number }>;

/**
 * The destination, and the events that wait for it from both ends, the oldest and the newest in turn: so
 * the oldest cannot starve, and what has just been turned away does not queue behind a million others; then
 * those from somewhere between. Of these, what has been attempted least goes first: an outage's probes are
 * spread over many deliveries instead of using up the attempts, and lengthening the backoff, of the oldest.
 * Databases take turns too.
 * @param random in [0, 1): the place between the ends, where it is asked for
 */
export async function lookAtWaiting(
  databases: Databases,
  destination: string,
  reach: Reach,
  random: () => number,
): Promise<Waiting> {
  const { db: first, further = [] } = databases;
  const look = (db: D1Database) => looksOf(db, destination, reach, random);
  const [[places, ...found], ...others] = await Promise.all([
    first.batch<RawRow>([first.prepare(DESTINATION).bind(destination), ...look(first)]),
    ...further.map((db) => db.batch<RawRow>(look(db))),
  ]);
  const lists = [found, ...others].map((looks) => looks.map(({ results }) => results as unknown as Found[]));
  const ends = interleaved(lists.map(([oldest = [], newest = []]) => interleaved([oldest, newest])));
  const between = interleaved(lists.map(([, , some = []]) => some));
  const each = new Map([...ends, ...between].map((one) => [one.event_id, one]));
  const leastFirst = [...each.values()].sort((a, b) => a.attempts - b.attempts);
  const row = places?.results[0];
  return {
    destination: row && modelOf(destinations, row),
    events: leastFirst.map((one) => one.event_id),
    isAll: each.size < 2 * reach.perEnd,
  };
}

function looksOf(
  db: D1Database,
  destination: string,
  { perEnd, between }: Reach,
  random: () => number,
): D1PreparedStatement[] {
  const ends = [OLDEST, NEWEST].map((end) => db.prepare(end).bind(destination, perEnd));
  return between > 0 ? [...ends, db.prepare(BETWEEN).bind(destination, between, random())] : ends;
}

/** The first of each list, then the second of each, and so on. */
function interleaved<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat();
}
