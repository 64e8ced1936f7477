/**
 * Cancels on request: one delivery that has not ended or holds its line, or the waiting deliveries of a destination, in
 * steps.
 *
 * A delivery that is in flight is not cancelled: only its sender knows how the attempt ends. D1 cannot know that a
 * lease holds a delivery, but its gate does: callers query the gate first and notify it afterwards (`recheck` in
 * core/admit.ts).
 *
 * Raw SQL: a row is inserted or changed by one statement under the condition that the delivery has not ended, and
 * waiting deliveries are read through their partial indexes.
 */

import { type DeliveryKey, eventAt, headerAt } from "../core/bundle.ts";
import { indexesIn } from "../core/pack.ts";
import type { CancelReason } from "../core/reasons.ts";
import { headerToShow } from "../core/stored-bundle.ts";
import { inShares } from "./bundles.ts";
import type { RawRow } from "./columns.ts";
import { type Databases, select } from "./databases.ts";
import type { DeliveryRow } from "./delivery.ts";
import { isEventWanted } from "./delivery-filter.ts";
import { STANDING } from "./lines.ts";
import { lastLookedAt, packsOf, rawDelivery } from "./packs.ts";
import {
  anyOf,
  bundleIdOf,
  eventTypeSql,
  hasBit,
  inFlightOf,
  jsonOrEmpty,
  WAITING_PACKS,
  WAITING_ROWS,
} from "./sql.ts";
import { endWaiting, type MeantPage } from "./waiting.ts";

const REASON = "cancelled_by_request" satisfies CancelReason;

/** Dead, and first in its line: the next delivery continues when it is cancelled. */
const HOLDS = `deliveries.state = 'dead' AND EXISTS (
  SELECT 1 FROM bundles b
    CROSS JOIN json_each(iif(json_valid(b.header), b.header, '{}'), '$.lines.' || deliveries.destination_id) l
    CROSS JOIN lines n ON n.destination_id = deliveries.destination_id AND n.line = l.value ->> 0
      AND n.event_id = deliveries.event_id
  WHERE b.id = ${bundleIdOf("deliveries.event_id")})`;

const IS_OPEN = "deliveries.state IN ('waiting', 'retrying') AND deliveries.reason IS NOT 'in_flight'";

/** Right before the row is cancelled, under the same condition. */
const COUNT = `
  UPDATE replays SET failed = failed + 1 WHERE id = (
    SELECT replay FROM deliveries WHERE destination_id = ?1 AND event_id = ?2 AND ${IS_OPEN})`;

/** One trigger clears the bit of a delivery that waits in a pack; another refuses the row of one that has ended in it. */
const CANCEL = `
  INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at, ended_at)
  SELECT ?1, ?2, 'cancelled', '${REASON}', ?3, ?4 WHERE NOT EXISTS (
    SELECT 1 FROM packs p WHERE p.destination_id = ?1 AND p.bundle_id = ${bundleIdOf("?2")}
      AND ${hasBit(inFlightOf("p"), "?2")})
  ON CONFLICT (destination_id, event_id) DO UPDATE SET state = excluded.state, reason = excluded.reason,
    next_attempt_at = NULL, ended_at = excluded.ended_at
  WHERE ${IS_OPEN} OR ${HOLDS} RETURNING *`;

type Ending = DeliveryKey &
  Readonly<{
    /** The time limit of one without a row, epoch ms. */
    giveUpAt: number;
  }>;

/**
 * Cancels planned deliveries, and dead ones that hold their lines, in one transaction for each database. Returns those that
 * it has cancelled: any other has ended, or is in flight.
 */
export async function cancelDeliveries(
  databases: Databases,
  all: readonly Ending[],
  now: number,
): Promise<readonly DeliveryRow[]> {
  return inShares(databases, all, async (db, share) => {
    const statements = share.flatMap(({ destinationId, eventId, giveUpAt }) => [
      db.prepare(COUNT).bind(destinationId, eventId),
      db.prepare(CANCEL).bind(destinationId, eventId, giveUpAt, now),
    ]);
    const results = await db.batch<RawRow>(statements);
    return results.flatMap(({ results }) => results).map(rawDelivery);
  });
}

/** Rows and packs that one page reads. */
const ROWS = 500;
const PACKS = 20;

const HEADER = jsonOrEmpty("b.header");

const NEXT_ROWS = `
  SELECT d.event_id AS event, b.accepted_at AS acceptedAt, ${eventTypeSql(HEADER, "d.event_id")} AS type
  FROM (SELECT event_id FROM ${WAITING_ROWS} AND destination_id = ?1 AND event_id > ?2 AND event_id <= ?3
    ORDER BY event_id LIMIT ${ROWS}) d LEFT JOIN bundles b ON b.id = ${bundleIdOf("d.event_id")}
  ORDER BY d.event_id`;

const NEXT_PACKS = `
  SELECT p.*, b.accepted_at AS acceptedAt, b.header
  FROM (SELECT * FROM ${WAITING_PACKS} AND destination_id = ?1
    AND bundle_id BETWEEN ${bundleIdOf("(?2 + 1)")} AND ${bundleIdOf("?3")}
    ORDER BY bundle_id LIMIT ${PACKS}) p LEFT JOIN bundles b ON b.id = p.bundle_id ORDER BY p.bundle_id`;

/** The selection among the waiting deliveries of a destination. */
export type WaitingFilter = Readonly<{
  since?: number | undefined;
  until?: number | undefined;
  eventTypes?: readonly string[] | null | undefined;
}>;

type Found = Readonly<{ event: number; acceptedAt: number | null; type: string | null }>;

/** The next deliveries that wait for the destination, after an event and up to another. */
export async function waitingPage(
  db: D1Database,
  destination: string,
  { after, last }: Readonly<{ after: number; last: number }>,
  filter: WaitingFilter,
): Promise<MeantPage<number>> {
  const bounds = [destination, after, last];
  const [rows, packs] = await db.batch<RawRow>([
    db.prepare(NEXT_ROWS).bind(...bounds),
    db.prepare(NEXT_PACKS).bind(...bounds),
  ]);
  const own = (rows?.results ?? []) as unknown as Found[];
  const packed = packs?.results ?? [];
  const upto = lastLookedAt(own, ROWS, packed, PACKS);
  const found = [...own, ...packed.flatMap(foundIn)].filter(
    (one) => one.event > after && one.event <= Math.min(last, upto ?? last) && isMeant(one, filter),
  );
  return { events: found.map(({ event }) => event), upto };
}

const NEXT_BEHIND = `
  SELECT n.line, n.event_id AS event, b.accepted_at AS acceptedAt, ${eventTypeSql(HEADER, "n.event_id")} AS type
  FROM (SELECT line, event_id FROM lines WHERE destination_id = ?1 AND (line, event_id) > (?2, ?3)
    ORDER BY line, event_id LIMIT ${ROWS}) n LEFT JOIN bundles b ON b.id = ${bundleIdOf("n.event_id")}
  ORDER BY n.line, n.event_id`;

/** The end of a page of lines. */
type LineEnd = Readonly<{ line: string; event: number }>;

/** The next selected deliveries in the lines of a destination. */
export async function behindPage(
  db: D1Database,
  destination: string,
  { line, event }: LineEnd,
  filter: WaitingFilter,
): Promise<MeantPage<LineEnd>> {
  type Row = Found & Readonly<{ line: string }>;
  const rows = await select<Row>(db, NEXT_BEHIND, destination, line, event);
  return {
    events: rows.filter((one) => isMeant(one, filter)).map((one) => one.event),
    upto: rows.length < ROWS ? undefined : rows.at(-1),
  };
}

const CANCEL_BEHIND = `
  INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at, ended_at)
  SELECT n.destination_id, n.event_id, 'cancelled', '${REASON}', n.give_up_at, ?2 FROM ${STANDING}
  WHERE n.event_id > (SELECT min(event_id) FROM lines WHERE destination_id = n.destination_id AND line = n.line)
    AND NOT EXISTS (SELECT 1 FROM packs p WHERE p.destination_id = n.destination_id
      AND p.bundle_id = ${bundleIdOf("n.event_id")} AND ${hasBit(anyOf("p"), "n.event_id")})
  ON CONFLICT DO NOTHING RETURNING 1`;

/** Cancels the deliveries that stand behind others in their lines and have no other record; returns how many. */
export async function cancelBehind(
  db: D1Database,
  destination: string,
  events: readonly number[],
  now: number,
): Promise<number> {
  const names = events.map((event) => [destination, event]);
  return (await select(db, CANCEL_BEHIND, names, now)).length;
}

/** The waiting deliveries of a pack. If the header is missing, an operator has removed the bundle. */
function foundIn(raw: RawRow): Found[] {
  const header = headerToShow(String(raw.header));
  const acceptedAt = raw.acceptedAt === null ? null : Number(raw.acceptedAt);
  return packsOf([raw]).flatMap(({ bundleId, waiting0, waiting1 }) =>
    indexesIn([waiting0, waiting1]).map((index) => {
      const type = header ? (headerAt(header, index)?.type ?? null) : null;
      return { event: eventAt(bundleId, index), acceptedAt, type };
    }),
  );
}

function isMeant({ acceptedAt, type }: Found, { eventTypes, ...accepted }: WaitingFilter): boolean {
  return isEventWanted({ types: eventTypes, accepted }, { acceptedAt, type: type ?? "" });
}

/** Cancels those of the deliveries that still wait; returns how many. */
export function cancelEach(db: D1Database, destination: string, events: readonly number[], now: number) {
  const names: DeliveryKey[] = events.map((event) => ({ destinationId: destination, eventId: event }));
  return endWaiting(db, names, { state: "cancelled", reason: REASON }, now);
}
