/**
 * Lines of ordered deliveries (core/order.ts): the places of deliveries, and which comes next.
 *
 * Triggers keep the table (migrations/0007_order.sql): a bundle's deliveries enter with it, each leaves in the
 * statement that ends it, and when a head leaves, the next one waits in a row of its own. So it follows every way to an
 * end, and a delivery behind another has neither a row nor a bit: it hides nothing from a drain.
 *
 * Raw SQL: places are read with the bundles, which costs unordered ones no row and no additional round trip.
 */
import { bundleOf, type DeliveryKey, deliveryName } from "../core/bundle.ts";
import { type LinePlace, ONE_LINE, type Ordering, REPLAYED } from "../core/order.ts";
import { homeOf, inShares } from "./bundles.ts";
import { addedUp, type Databases, select, selectInAll } from "./databases.ts";
import type { DeliveryRecord, DeliveryRow } from "./delivery.ts";
import { rowsIn } from "./packs.ts";
import { anyOf, bundleIdOf, countUpTo, hasBit, isInBundle } from "./sql.ts";

/** Deliveries of one line that one message names. */
const RUN = 50;

const BEFORE = `(SELECT max(p.event_id) FROM lines p
  WHERE p.destination_id = n.destination_id AND p.line = n.line AND p.event_id < n.event_id)`;

/**
 * SQL: where the open deliveries of a bundle stand, as JSON for `placesFrom`; null where none of its events has ever stood
 * in a line.
 * @param destinations SQL: a JSON list of those that are meant
 */
export function linePlaces(bundle: string, destinations: string): string {
  const header = `${bundle}.header`;
  return `iif(json_valid(${header}) AND json_type(${header}, '$.lines') = 'object', (
    SELECT json_group_array(json_array(n.destination_id, n.event_id, n.line, ${BEFORE}, n.holds))
    FROM json_each(${header}, '$.lines') d CROSS JOIN json_each(iif(d.type = 'array', d.value, '[]')) l
    CROSS JOIN lines n ON n.destination_id = d.key AND n.line = iif(l.type = 'array', l.value ->> 0, NULL) AND ${isInBundle("n.event_id", `${bundle}.id`)}
    WHERE d.key IN (SELECT value FROM json_each(${destinations}))), NULL)`;
}

type StoredPlace = readonly [
  destination: string,
  event: number,
  line: string,
  before: number | null,
  holds: number,
];

/**
 * The places by `event destination`. A dead delivery that holds its line and is replayed stands in two lines, and is sent
 * when it is the head of both: its place is the one in the line of the replay, which has nobody behind it in the other.
 * @param stored results of `linePlaces`
 */
export function placesFrom(stored: readonly (string | null)[]): ReadonlyMap<string, LinePlace> {
  const all = stored.flatMap((one): StoredPlace[] => (one === null ? [] : JSON.parse(one)));
  const places = new Map<string, LinePlace>();
  for (const [destination, event, line, before, isHolding] of all) {
    const key = `${event} ${destination}`;
    const other = places.get(key);
    const holds = isHolding === 1 || other?.holds === true;
    const isKept = other !== undefined && !line.endsWith(REPLAYED);
    places.set(key, isKept ? { ...other, holds } : { line, before, holds });
  }
  return places;
}

const NEXT = `
  SELECT n.destination_id AS destinationId, n.event_id AS eventId
  FROM json_each(?1) w CROSS JOIN lines n ON n.destination_id = w.value ->> 0 AND n.line = w.value ->> 1
  WHERE n.event_id IN (SELECT event_id FROM lines
    WHERE destination_id = w.value ->> 0 AND line = w.value ->> 1 ORDER BY event_id LIMIT ${RUN})`;

/**
 * The statement that returns, as `DeliveryKey`s, the first deliveries of the lines whose heads end with these rows; none
 * where no line moves up. To be run behind the statements that record them.
 */
export function nextInLines(db: D1Database, rows: readonly DeliveryRecord[]): D1PreparedStatement[] {
  const lines = Map.groupBy(
    rows.filter(({ place }) => place),
    ({ destinationId, place }) => `${destinationId} ${place?.line}`,
  );
  const moving = [...lines.values()].flatMap((own) => {
    const isMoving = own.every(
      ({ state, endedAt, place, isFollowed }) =>
        endedAt !== null && !(state === "dead" && place?.holds) && !isFollowed,
    );
    const [first] = own;
    if (!isMoving || !first?.place) return [];
    const { line, holds } = first.place;
    const both = holds && line.endsWith(REPLAYED) ? [line, line.slice(0, -REPLAYED.length)] : [line];
    return both.map((one) => [first.destinationId, one]);
  });
  return moving.length > 0 ? [db.prepare(NEXT).bind(JSON.stringify(moving))] : [];
}

/** SQL: the lines of the event of a pair `[destination, event]` in a JSON list, as rows `n` of `lines`. */
export const STANDING = `(SELECT value FROM json_each(?1)
    WHERE EXISTS (SELECT 1 FROM lines WHERE destination_id = value ->> 0)) w
  CROSS JOIN bundles b ON b.id = ${bundleIdOf("(w.value ->> 1)")}
  CROSS JOIN json_each(iif(json_valid(b.header), b.header, '{}'), '$.lines.' || (w.value ->> 0)) l
  CROSS JOIN lines n ON n.destination_id = w.value ->> 0 AND n.line = l.value ->> 0 AND n.event_id = w.value ->> 1`;

const HEADS = `
  SELECT h.destination_id AS destinationId, h.event_id AS eventId, h.head, (SELECT state = 'dead' FROM deliveries
    WHERE destination_id = h.destination_id AND event_id = h.head) AS isHeld
  FROM (SELECT n.destination_id, n.event_id,
      (SELECT min(event_id) FROM lines WHERE destination_id = n.destination_id AND line = n.line) AS head
    FROM ${STANDING}) h WHERE h.head < h.event_id`;

/** The first of a line that a delivery stands in. Held: it is dead, and nothing follows until somebody decides. */
export type LineHead = Readonly<{ head: number; isHeld: boolean }>;

/** The first deliveries of the lines in which the given ones stand behind others, by `event destination`. */
export async function aheadOf(
  databases: Databases,
  keys: readonly DeliveryKey[],
): Promise<ReadonlyMap<string, LineHead>> {
  type Row = DeliveryKey & Readonly<{ head: number; isHeld: number | null }>;
  const rows = await inShares(databases, keys, (db, share) => select<Row>(db, HEADS, namesOf(share)));
  return new Map(rows.map((row) => [deliveryName(row), { head: row.head, isHeld: row.isHeld === 1 }]));
}

/** The deliveries as pairs, which statements take as a JSON list. */
export function namesOf(keys: readonly DeliveryKey[]): (readonly [destination: string, event: number])[] {
  return keys.map(({ destinationId, eventId }) => [destinationId, eventId]);
}

/** SQL: those of them that are dead, and hold their lines. */
const HELD = `${STANDING} CROSS JOIN deliveries d
  ON d.destination_id = n.destination_id AND d.event_id = n.event_id AND d.state = 'dead'`;

/** SQL: as `DeliveryKey`s, the entries of a JSON list of `[destination, event]` that are dead and hold their lines. */
export const HELD_KEYS = `SELECT n.destination_id AS destinationId, n.event_id AS eventId FROM ${HELD}`;

/** Dead deliveries of the list that hold their lines. */
export async function heldAmong(
  databases: Databases,
  keys: readonly DeliveryKey[],
): Promise<readonly DeliveryKey[]> {
  return inShares(databases, keys, (db, share) => select<DeliveryKey>(db, HELD_KEYS, namesOf(share)));
}

/** Only a dead one that holds its line; the trigger has the next one wait. */
const SKIP = `
  DELETE FROM lines WHERE (destination_id, line, event_id) IN (
    SELECT n.destination_id, n.line, n.event_id FROM ${HELD})
  RETURNING destination_id, line`;

/** Lets the line of a dead delivery continue; returns the deliveries to send next, or undefined if it held none. */
export async function skipHeld(
  databases: Databases,
  key: DeliveryKey,
): Promise<readonly DeliveryKey[] | undefined> {
  const db = homeOf(databases, key.eventId);
  if (!db) return undefined;
  const [left] = await select<Record<"destination_id" | "line", string>>(db, SKIP, namesOf([key]));
  return left && select(db, NEXT, [[left.destination_id, left.line]]);
}

/** The version of a header with lines. */
const LINES_VERSION = 3;

/** SQL: the lines of the destination `?2` in the header of a bundle, as rows of a JSON list. */
const LINES_IN = (header: string) =>
  `json_each(iif(json_valid(${header}), ${header}, '{}'), '$.lines.' || ?2)`;

/**
 * Names the lines of replays in the headers, by which triggers find the line that a delivery leaves. Once for each bundle,
 * which is written whole.
 */
const NAME_LINES = `
  UPDATE bundles SET header = json_set(json_set(json_insert(header, '$.lines', json('{}')), '$.version', max(header ->> '$.version', ${LINES_VERSION})),
    '$.lines.' || ?2, json((SELECT json_group_array(json(one)) FROM (
      SELECT value AS one FROM ${LINES_IN("header")}
      UNION SELECT json_array((value ->> 0) || '${REPLAYED}', 0, 0) FROM ${LINES_IN("header")}
        WHERE substr(value ->> 0, -1) <> '${REPLAYED}'
      UNION SELECT json_array(?3, 0, 0) WHERE ?3 IS NOT NULL))))
  WHERE id IN (SELECT ${bundleIdOf("value")} FROM json_each(?1)) AND json_valid(header)
    AND (?3 IS NOT NULL OR json_type(header, '$.lines.' || ?2) IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM ${LINES_IN("header")}
      WHERE iif(?3 IS NULL, substr(value ->> 0, -1) = '${REPLAYED}', value ->> 0 = ?3))`;

/** Requeued deliveries enter their lines in the transaction that requeues them. */
const ENTER_LINES = `
  INSERT INTO lines (destination_id, line, event_id, give_up_at, holds)
  SELECT d.destination_id, l.line || '${REPLAYED}', d.event_id, d.give_up_at, 0
  FROM (SELECT w.value AS event, coalesce((
      SELECT l.value ->> 0 FROM ${LINES_IN("b.header")} l CROSS JOIN json_each(l.value) i
      WHERE i.key > 2 AND i.value = w.value % 128), ?3) AS line
    FROM json_each(?1) w CROSS JOIN bundles b ON b.id = ${bundleIdOf("w.value")}) l
  CROSS JOIN deliveries d ON d.destination_id = ?2 AND d.event_id = l.event AND d.state = 'waiting' AND d.replay = ?4
  WHERE l.line IS NOT NULL ON CONFLICT DO NOTHING`;

/**
 * The statements by which deliveries that a replay has requeued stand in lines; none where the destination has no order.
 * @param events their numbers
 */
export function enteringLines(
  db: D1Database,
  { id, destinationId }: Readonly<{ id: string; destinationId: string }>,
  events: readonly number[],
  ordering: Ordering | null,
): readonly D1PreparedStatement[] {
  if (ordering === null || events.length === 0) return [];
  const list = JSON.stringify(events);
  const line = ordering === "destination" ? ONE_LINE : null;
  return [
    db.prepare(NAME_LINES).bind(list, destinationId, line && line + REPLAYED),
    db.prepare(ENTER_LINES).bind(list, destinationId, line, id),
  ];
}

/** Lines that a page reads, and deliveries that are counted of each. */
const LOOKED_AT = 100;
export const COUNTED_BEHIND = 100;

/** The next lines of destinations. */
const WALK = `
  WITH RECURSIVE walk (destination, line, place) AS (
    SELECT value, (SELECT min(line) FROM lines WHERE destination_id = value AND line > ?2), 1 FROM json_each(?1)
    UNION ALL SELECT destination, (SELECT min(line) FROM lines WHERE destination_id = walk.destination AND line > walk.line), place + 1
    FROM walk WHERE walk.line IS NOT NULL AND place < ${LOOKED_AT})`;
const OF_WALK = "lines WHERE destination_id = walk.destination AND line = walk.line";

const LINES = `${WALK}
  SELECT line, (SELECT min(event_id) FROM ${OF_WALK}) AS head, ${countUpTo(COUNTED_BEHIND + 1, OF_WALK)} - 1 AS behind
  FROM walk WHERE line IS NOT NULL`;

const HELD_LINES = `${WALK}
  SELECT destination AS id, count(*) AS held FROM walk
  WHERE line IS NOT NULL AND EXISTS (SELECT 1 FROM deliveries d
    WHERE d.destination_id = walk.destination AND d.event_id = (SELECT min(event_id) FROM ${OF_WALK}) AND d.state = 'dead')
  GROUP BY destination`;

/** How many of the first lines of each destination, up to a hundred, are held by a dead delivery; those without one are left out. */
export async function heldLines(
  databases: Databases,
  destinations: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (destinations.length === 0) return new Map();
  const rows = await selectInAll<{ id: string; held: number }>(databases, HELD_LINES, destinations, "");
  return addedUp(rows.map(({ id, held }) => [id, held]));
}

/** A line with deliveries that wait for its first one. */
export type BlockedLine = Readonly<{
  head: DeliveryRow | DeliveryKey;
  /** Whether the head is dead, and the line waits for a decision. */
  isHeld: boolean;
  /** Deliveries that stand behind it; `COUNTED_BEHIND` means that there may be more. */
  behind: number;
}>;

type LinePage = Readonly<{ lines: readonly BlockedLine[]; upto: string | undefined }>;

/** The blocked ones among the destination's next lines after one; `upto`: where more may come after. */
export async function blockedLines(db: D1Database, destination: string, after: string): Promise<LinePage> {
  type Row = Readonly<{ line: string; head: number; behind: number }>;
  const results = await select<Row>(db, LINES, [destination], after);
  const rows = await rowsIn(
    db,
    results.map(({ head }) => [bundleOf(head), destination]),
  );
  const byEvent = new Map(rows.map((row) => [row.eventId, row]));
  const lines = results.map(({ head, behind }): BlockedLine => {
    const row = byEvent.get(head) ?? { eventId: head, destinationId: destination };
    return { head: row, isHeld: "state" in row && row.state === "dead", behind };
  });
  return {
    lines: lines.filter(({ isHeld, behind }) => isHeld || behind > 0),
    upto: results.length < LOOKED_AT ? undefined : results.at(-1)?.line,
  };
}

const WITHOUT_ROWS = `
  SELECT event_id AS eventId, give_up_at AS giveUpAt FROM lines n
  WHERE destination_id = ?1 AND NOT EXISTS (
    SELECT 1 FROM deliveries d WHERE d.destination_id = ?1 AND d.event_id = n.event_id)`;

/** The statement that returns the first deliveries in a destination's lines that have no rows of their own. */
export function parkedIn(db: D1Database, destination: string, limit: number): D1PreparedStatement {
  return db.prepare(`${WITHOUT_ROWS} LIMIT ?2`).bind(destination, limit);
}

const BEHIND = `${WITHOUT_ROWS}
    AND event_id > (SELECT min(event_id) FROM lines WHERE destination_id = ?1 AND line = n.line)
    AND NOT EXISTS (SELECT 1 FROM packs p WHERE p.destination_id = ?1
      AND p.bundle_id = ${bundleIdOf("n.event_id")} AND ${hasBit(anyOf("p"), "n.event_id")}) LIMIT ?2`;

/** The same of those that stand behind others and have no bits either: a head without a row may be in flight. */
export function behindIn(db: D1Database, destination: string, limit: number): D1PreparedStatement {
  return db.prepare(BEHIND).bind(destination, limit);
}
