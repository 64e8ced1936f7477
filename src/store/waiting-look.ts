/**
 * A drain's look at what waits: along the indexes that hold nothing else, of rows and of packs, and the attempts that
 * it needs to know: what waits in a pack has none. The indexes are named, because the planner would rather walk the
 * tables, with all that was ever delivered.
 */
import { bundleOf, eventAt } from "../core/bundle.ts";
import { indexesIn } from "../core/pack.ts";
import type { DrainRange } from "../policy/reach.ts";
import type { Destination } from "./destination-settings.ts";
import { countIn, WAITS } from "./packs.ts";
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

const WAITING_PACKS = `packs INDEXED BY packs_waiting WHERE destination_id = ?1 AND ${WAITS}`;

/** As many packs from a place on as hold so many waiting deliveries: each is one step, and found from the one before. */
const packsFrom = (first: string, next: string) => `
  WITH RECURSIVE walk (bundle, waiting0, waiting1, before) AS (
    SELECT bundle_id, waiting0, waiting1, 0 FROM packs WHERE destination_id = ?1 AND bundle_id = (${first})
    UNION ALL
    SELECT p.bundle_id, p.waiting0, p.waiting1, walk.before + ${countIn((half) => `walk.waiting${half}`)}
    FROM walk JOIN packs p ON p.destination_id = ?1 AND p.bundle_id = (${next})
    WHERE walk.before + ${countIn((half) => `walk.waiting${half}`)} < ?2
  )
  SELECT bundle, waiting0, waiting1 FROM walk`;

const LATER = `SELECT min(bundle_id) FROM ${WAITING_PACKS} AND bundle_id > walk.bundle`;
const EARLIER = `SELECT max(bundle_id) FROM ${WAITING_PACKS} AND bundle_id < walk.bundle`;

const OLDEST_PACKS = packsFrom(`SELECT min(bundle_id) FROM ${WAITING_PACKS}`, LATER);
const NEWEST_PACKS = packsFrom(`SELECT max(bundle_id) FROM ${WAITING_PACKS}`, EARLIER);
const PACKS_BETWEEN = packsFrom(
  `SELECT min(bundle_id) FROM ${WAITING_PACKS} AND bundle_id >= (
    SELECT oldest + CAST((newest - oldest) * ?3 AS INTEGER) FROM (
      SELECT (SELECT min(bundle_id) FROM ${WAITING_PACKS}) AS oldest,
        (SELECT max(bundle_id) FROM ${WAITING_PACKS}) AS newest))`,
  LATER,
);

type FoundPack = Readonly<{ bundle: number; waiting0: number; waiting1: number }>;

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
  reach: DrainRange,
  random: () => number,
): Promise<Waiting> {
  const { db: first, further = [] } = databases;
  const look = (db: D1Database) => looksOf(db, destination, reach, random);
  const [[places, ...found], ...others] = await Promise.all([
    first.batch<RawRow>([first.prepare(DESTINATION).bind(destination), ...look(first)]),
    ...further.map((db) => db.batch<RawRow>(look(db))),
  ]);
  const lists = [found, ...others].map((looks) => looksIn(looks.map(({ results }) => results)));
  const [oldest = [], newest = [], between = []] = [0, 1, 2].map((which) =>
    interleaved(lists.map((looks) => looks[which]?.events ?? [])),
  );
  const each = inTurn(oldest, newest, between, random());
  const row = places?.results[0];
  return {
    destination: row && modelOf(destinations, row),
    events: each.map((one) => one.event_id),
    probe: each.reduce<Found | undefined>((a, b) => (a && a.attempts <= b.attempts ? a : b), undefined)
      ?.event_id,
    isAll: lists.every(([first]) => first && first.rows < reach.perEnd && first.packed < reach.perEnd),
  };
}

type LookedAt = Readonly<{ events: readonly Found[]; rows: number; packed: number }>;

/** What the looks have found, which are half of rows, and half of packs: at the oldest, the newest, and between. */
function looksIn(results: readonly (readonly RawRow[])[]): LookedAt[] {
  const count = results.length / 2;
  return results.slice(0, count).map((rows, which) => {
    const packed = foundIn((results[count + which] ?? []) as unknown as FoundPack[]);
    const signal = which === NEWEST_LOOK ? -1 : 1;
    const events = [...(rows as unknown as Found[]), ...packed];
    events.sort((a, b) => signal * (a.event_id - b.event_id));
    return { events, rows: rows.length, packed: packed.length };
  });
}

const NEWEST_LOOK = 1;

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
  const ends = interleaved([...some.slice(start), ...some.slice(0, start)].map(byBundle)).flat();
  return [...new Map([...ends, ...between].map((one) => [one.event_id, one])).values()];
}

/** Of rows, and then of packs. */
function looksOf(
  db: D1Database,
  destination: string,
  { perEnd, between }: DrainRange,
  random: () => number,
): D1PreparedStatement[] {
  const from = between > 0 ? random() : 0;
  const looks = (oldest: string, newest: string, middle: string) => [
    db.prepare(oldest).bind(destination, perEnd),
    db.prepare(newest).bind(destination, perEnd),
    ...(between > 0 ? [db.prepare(middle).bind(destination, between, from)] : []),
  ];
  return [...looks(OLDEST, NEWEST, BETWEEN), ...looks(OLDEST_PACKS, NEWEST_PACKS, PACKS_BETWEEN)];
}

/** What waits in the packs, in ascending order of the packs as they are. */
function foundIn(packs: readonly FoundPack[]): Found[] {
  return packs.flatMap(({ bundle, waiting0, waiting1 }) =>
    indexesIn([waiting0, waiting1]).map((index) => ({ event_id: eventAt(bundle, index), attempts: 0 })),
  );
}

/** Neighbours of one bundle together: it is loaded once for all of them that a lease takes. */
function byBundle(list: readonly Found[]): Found[][] {
  return [...Map.groupBy(list, ({ event_id }) => bundleOf(event_id)).values()];
}

/** The first of each list, then the second of each, and so on. */
function interleaved<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat();
}
