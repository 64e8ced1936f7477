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
  /**
   * The one of them that has been attempted least: an outage's probes are spread over many deliveries instead of
   * using up the attempts, and lengthening the backoff, of a few.
   */
  probe: number | undefined;
  /** Nothing else waits. */
  isAll: boolean;
}>;

type Found = Readonly<{ event_id: number; attempts: number }>;

/**
 * The destination, and the events that wait for it, in the order in which they should go. Four classes take turns:
 * what has never been attempted and what has, each from the oldest on and from the newest back. So neither what is
 * old nor what has failed starves beside new traffic, and what has just been turned away does not queue behind a
 * million others. Which class goes first is drawn, because a slow rate lets in one at a time. Databases take turns
 * too; what was found somewhere between the ends comes last.
 * @param random in [0, 1): draws the class, and the place between the ends where it is asked for
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
  const [oldest, newest, between] = [0, 1, 2].map((which) =>
    interleaved(lists.map((looks) => looks[which] ?? [])),
  );
  const each = inTurn(oldest ?? [], newest ?? [], between ?? [], random());
  const row = places?.results[0];
  return {
    destination: row && modelOf(destinations, row),
    events: each.map((one) => one.event_id),
    probe: each.reduce<Found | undefined>((a, b) => (a && a.attempts <= b.attempts ? a : b), undefined)
      ?.event_id,
    isAll: each.length < 2 * reach.perEnd,
  };
}

/** Each of them once: the four classes of the ends in turn, beginning with the one that is drawn. */
function inTurn(
  oldest: readonly Found[],
  newest: readonly Found[],
  between: readonly Found[],
  drawn: number,
): readonly Found[] {
  const isNew = ({ attempts }: Found) => attempts === 0;
  const isOld = ({ attempts }: Found) => attempts > 0;
  const classes = [oldest.filter(isNew), newest.filter(isNew), oldest.filter(isOld), newest.filter(isOld)];
  const some = classes.filter((list) => list.length > 0);
  const start = Math.floor(drawn * some.length);
  const ends = interleaved([...some.slice(start), ...some.slice(0, start)]);
  return [...new Map([...ends, ...between].map((one) => [one.event_id, one])).values()];
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
