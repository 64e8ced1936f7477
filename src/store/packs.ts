/**
 * Packs in D1 (core/pack.ts): one row for all deliveries of a bundle to a destination whose outcome is plain, a bit for
 * each. The files above this one see deliveries as if each had a row.
 *
 * The state of a delivery is in its own row, else in its bit, else it is queued; never in two of them. A trigger clears
 * the bit whenever a row is inserted; another trigger refuses the row when the bit says that the delivery has ended;
 * and no bit is set for a delivery that has a row. Writes only set bits, and only those that nothing later has
 * replaced, so they may be repeated and may come in any order: delivered and cancelled are final, in flight replaces
 * waiting, and each of them replaces queued. So no bit can take back that a delivery is in flight, as has to be done
 * when its sender is lost: it gets a row.
 *
 * All of it is raw SQL: Drizzle has no words for bit masks, and one upsert for all packs of a batch saves a read before
 * each write, and writes no row where nothing changes.
 */

import {
  bundleOf,
  type DeliveryKey,
  deliveryName,
  eventAt,
  indexOf,
  lastEventOf,
  MAX_EVENTS,
} from "../core/bundle.ts";
import { endsIn, endsText, HALF, indexesIn, maskOf, type PackedEnd } from "../core/pack.ts";
import { ageLimitOf, type RetryPolicy } from "../core/retry/policy.ts";
import { modelOf, type RawRow } from "./columns.ts";
import { select } from "./databases.ts";
import { type DeliveryRecord, type DeliveryRow, loadedRow } from "./delivery.ts";
import { type Destination, retryPolicyOf } from "./destination.ts";
import { anyOf, both, type Half, inPortions, isInBundle } from "./sql.ts";
import { deliveries, type PackRow, packs } from "./tables.ts";

/** The masks of a pack, as their columns are named. */
const MASKS = ["waiting", "in_flight", "delivered", "cancelled"] as const;

type PackedState = (typeof MASKS)[number];

/** The bit that is equivalent to the row; undefined when the delivery needs a row of its own. */
export function packedStateOf(row: DeliveryRecord): PackedState | undefined {
  const { state, reason, attempts, generation, replay, log, lastError } = row;
  if (row.hasRow || reason === "transform_failed") return undefined;
  if (generation !== 0 || replay !== null || lastError !== null || indexOf(row.eventId) >= MAX_EVENTS)
    return undefined;
  if (state === "delivered") return attempts === 1 && isPlainSuccess(row) ? "delivered" : undefined;
  if (attempts > 0 || log.length > 0 || row.hasOwnLimit || row.hasLostSender) return undefined;
  if (state === "waiting") return "waiting";
  if (state === "in_flight") return "in_flight";
  return state === "cancelled" && reason === CANCELLED ? "cancelled" : undefined;
}

const CANCELLED = "destination_deleted";

function isPlainSuccess({ reason, lastStatus, endedAt, log: [first, ...others] }: DeliveryRow): boolean {
  if (!first || others.length > 0 || first.note || first.excerpt || reason !== null) return false;
  return first.status === lastStatus && first.at >= 0 && endedAt === first.at + first.latencyMs;
}

/**
 * The deliveries of a pack as the rows that they would have.
 * @param destination whose retry policy sets their age limit; null: the default policy
 */
export function packedRows(pack: PackRow, destination: Pick<Destination, "retry"> | null): DeliveryRow[] {
  const { bundleId, reason, nextAttemptAt, recoverAt } = pack;
  const rowOf = (index: number, columns: Partial<DeliveryRow> & Pick<DeliveryRow, "state">): DeliveryRow => ({
    ...WITHOUT_ATTEMPT,
    destinationId: pack.destinationId,
    eventId: eventAt(bundleId, index),
    giveUpAt: pack.giveUpAt ?? 0,
    ...columns,
  });
  const policy = retryPolicyOf(destination ?? { retry: null });
  const { attempts, cancellations } = endsByIndex(pack);
  return [
    ...indexesIn([pack.waiting0, pack.waiting1]).map((i) =>
      rowOf(i, { state: "waiting", reason, nextAttemptAt }),
    ),
    ...indexesIn([pack.inFlight0, pack.inFlight1]).map((i) =>
      rowOf(i, { state: "in_flight", nextAttemptAt: recoverAt }),
    ),
    ...indexesIn([pack.delivered0, pack.delivered1]).map((i) =>
      rowOf(i, deliveredColumns(attempts.get(i), policy)),
    ),
    ...indexesIn([pack.cancelled0, pack.cancelled1]).map((i) =>
      rowOf(i, { state: "cancelled", reason: CANCELLED, endedAt: cancellations.get(i)?.at ?? pack.endedAt }),
    ),
  ];
}

/** The columns of a delivery that has had no attempt. */
export const WITHOUT_ATTEMPT = {
  reason: null,
  attempts: 0,
  nextAttemptAt: null,
  generation: 0,
  firstAttemptAt: null,
  endedAt: null,
  lastStatus: null,
  lastError: null,
  replay: null,
  log: [],
} as const;

function deliveredColumns({ at = 0, latencyMs = 0, status }: Partial<PackedEnd> = {}, policy: RetryPolicy) {
  return {
    state: "delivered",
    attempts: 1,
    firstAttemptAt: at,
    giveUpAt: ageLimitOf(policy, at, at),
    endedAt: at + latencyMs,
    lastStatus: status ?? null,
    log: [{ at, latencyMs, ...(status !== undefined && { status }) }],
  } as const;
}

/** The ends of a pack by index: those of attempts, and cancellations. */
function endsByIndex({ ends }: PackRow) {
  // The first entry counts if an index has several, so it is put into the maps last.
  const list = endsIn(ends).reverse();
  const attempts = list.filter(({ status }) => status !== undefined);
  const cancellations = list.filter(({ status }) => status === undefined);
  return {
    attempts: new Map(attempts.map((end) => [end.index, end])),
    cancellations: new Map(cancellations.map((end) => [end.index, end])),
  };
}

export function rawDelivery(raw: RawRow): DeliveryRow {
  return loadedRow(modelOf(deliveries, raw));
}

/** The packs of a statement that selects them. */
export function packsOf(raw: readonly RawRow[]): PackRow[] {
  return raw.map((one) => modelOf(packs, one));
}

/**
 * How far a page of rows and one of packs, both in the order of events, have been looked at; undefined where neither has as
 * many as it may have, so that nothing comes after them.
 */
export function lastLookedAt(
  rows: readonly Readonly<{ event: number }>[],
  mostRows: number,
  packs: readonly RawRow[],
  mostPacks: number,
): number | undefined {
  const ends = [
    ...(rows.length === mostRows ? rows.slice(-1).map(({ event }) => event) : []),
    ...(packs.length === mostPacks ? packs.slice(-1).map((one) => lastEventOf(Number(one.bundle_id))) : []),
  ];
  return ends.length > 0 ? Math.min(...ends) : undefined;
}

/** The bits that one write sets in one pack. */
type Change = Readonly<{
  destinationId: string;
  bundleId: number;
  reason: string | null;
  nextAttemptAt: number | null;
  recoverAt: number | null;
  giveUpAt: number | null;
  endedAt: number | null;
  ends: string;
}> &
  Readonly<Record<`${PackedState}${0 | 1}`, number>>;

function changeOf(rows: readonly DeliveryRow[]): Change {
  const byState = Map.groupBy(rows, packedStateOf);
  const some = (mask: PackedState) => byState.get(mask) ?? [];
  const [first] = rows;
  const [waiting] = some("waiting");
  const ended = [...some("delivered"), ...some("cancelled")];
  const latest = (times: readonly (number | null)[]) => Math.max(0, ...times.map((at) => at ?? 0)) || null;
  const masks = MASKS.map(
    (mask) => [mask, maskOf(new Set(some(mask).map(({ eventId }) => indexOf(eventId))))] as const,
  );
  return {
    destinationId: first?.destinationId ?? "",
    bundleId: bundleOf(first?.eventId ?? 0),
    ...(Object.fromEntries(
      masks.flatMap(([mask, [low, high]]) => [
        [`${mask}0`, low],
        [`${mask}1`, high],
      ]),
    ) as Record<`${PackedState}${0 | 1}`, number>),
    reason: waiting?.reason ?? null,
    nextAttemptAt: waiting?.nextAttemptAt ?? null,
    recoverAt: latest(some("in_flight").map(({ nextAttemptAt }) => nextAttemptAt)),
    giveUpAt: (waiting ?? some("in_flight")[0])?.giveUpAt ?? null,
    endedAt: latest(ended.map(({ endedAt }) => endedAt)),
    ends: endsText(ended.map(endOf)),
  };
}

function endOf({ eventId, endedAt, log: [attempt] }: DeliveryRow): PackedEnd {
  const { at = endedAt ?? 0, latencyMs = 0, status } = attempt ?? {};
  return { index: indexOf(eventId), at, latencyMs, status };
}

const COLUMNS = MASKS.map((mask) => both((half) => `${mask}${half}`)).join(", ");

/** A given mask without the deliveries that have rows of their own. */
const given = (mask: PackedState) => (half: Half) => `(given ->> '${mask}${half}') & ~own${half}`;

const SET = both(
  (h) => `delivered${h} = packs.delivered${h} | (excluded.delivered${h} & ~packs.cancelled${h}),
    cancelled${h} = ${cancelledAfter(h)}, in_flight${h} = ${inFlightAfter(h)},
    waiting${h} = (packs.waiting${h} | excluded.waiting${h}) & ~(${endedAfter(h)}) & ~(${inFlightAfter(h)})`,
);

/** A delivery in flight is not cancelled: only its sender knows how the attempt ends. */
function cancelledAfter(h: Half): string {
  return `packs.cancelled${h} | (excluded.cancelled${h} & ~packs.delivered${h} & ~packs.in_flight${h})`;
}

function endedAfter(h: Half): string {
  return `packs.delivered${h} | excluded.delivered${h} | ${cancelledAfter(h)}`;
}

function inFlightAfter(h: Half): string {
  return `(packs.in_flight${h} | excluded.in_flight${h}) & ~(${endedAfter(h)})`;
}

/** Whether a bit would change. Else nothing is written, so that a repeat costs no row and adds no end twice. */
const IS_NEW = both(
  (h) => `((excluded.delivered${h} | (excluded.cancelled${h} & ~packs.in_flight${h}))
      & ~(packs.delivered${h} | packs.cancelled${h}))
    | (excluded.in_flight${h} & ~(packs.in_flight${h} | packs.delivered${h} | packs.cancelled${h}))
    | (excluded.waiting${h} & ~(${anyOf()(h)}))`,
  "|",
);

/** The mask of the given deliveries that have rows of their own. */
function ownMask(half: Half): string {
  const [from, to] = half === 0 ? [0, HALF] : [HALF, 2 * HALF];
  return `(SELECT coalesce(sum(1 << (d.event_id - (value ->> 'bundleId') * 128 - ${from})), 0) FROM deliveries d
      WHERE d.destination_id = value ->> 'destinationId' AND d.event_id >= (value ->> 'bundleId') * 128 + ${from}
        AND d.event_id < (value ->> 'bundleId') * 128 + ${to})`;
}

/** One statement for any number of packs. LIMIT keeps SQLite from evaluating `own0` and `own1` again at each use. */
const WRITE = `
  INSERT INTO packs (destination_id, bundle_id, ${COLUMNS},
    reason, next_attempt_at, recover_at, give_up_at, ended_at, ends)
  SELECT given ->> 'destinationId', given ->> 'bundleId',
    ${MASKS.map((mask) => both(given(mask))).join(", ")},
    given ->> 'reason', given ->> 'nextAttemptAt', given ->> 'recoverAt', given ->> 'giveUpAt',
    given ->> 'endedAt', given ->> 'ends'
  FROM (
    SELECT value AS given, ${both((h) => `${ownMask(h)} AS own${h}`)} FROM json_each(?1) LIMIT -1)
  WHERE (${MASKS.map((mask) => both(given(mask), "|")).join(" | ")}) <> 0
  ON CONFLICT (destination_id, bundle_id) DO UPDATE SET ${SET},
    reason = coalesce(excluded.reason, packs.reason),
    next_attempt_at = iif(excluded.reason IS NULL, packs.next_attempt_at, excluded.next_attempt_at),
    recover_at = iif(${both(inFlightAfter, "|")} = 0, NULL,
      max(coalesce(packs.recover_at, 0), coalesce(excluded.recover_at, 0))),
    give_up_at = coalesce(packs.give_up_at, excluded.give_up_at),
    ended_at = nullif(max(coalesce(packs.ended_at, 0), coalesce(excluded.ended_at, 0)), 0),
    ends = packs.ends || excluded.ends
  WHERE (${IS_NEW}) <> 0
  RETURNING destination_id, bundle_id, ${COLUMNS}`;

/** The rows, and the packs, of pairs `[bundle, destination]` in `?1`, to be put behind FROM. */
const OWN = `json_each(?1) w CROSS JOIN deliveries d
  ON d.destination_id = w.value ->> 1 AND ${isInBundle("d.event_id", "(w.value ->> 0)")}`;

const NAMED_PACKS = `json_each(?1) w CROSS JOIN packs p
  ON p.destination_id = w.value ->> 1 AND p.bundle_id = w.value ->> 0`;

const OWN_NAMES = `SELECT d.destination_id AS destinationId, d.event_id AS eventId FROM ${OWN}`;

/** SQL: the deliveries of pairs `[bundle, destination]` in `?1` that have rows of their own. */
export const OWN_ROWS = `SELECT d.* FROM ${OWN}`;

/** SQL: how those deliveries have ended, or not, without the rest of their rows. */
export const OWN_ROWS_ENDS = `
  SELECT d.destination_id AS destinationId, d.event_id AS eventId, d.state, d.ended_at AS endedAt FROM ${OWN}`;

/** SQL: which deliveries of these packs have ended, without how each of them did. */
export const ENDED_PACKS = `
  SELECT p.destination_id AS destinationId, p.delivered0, p.delivered1, p.cancelled0, p.cancelled1, p.ended_at AS endedAt
  FROM ${NAMED_PACKS}`;

/** SQL: the packs of pairs `[bundle, destination]` in `?1`. */
export const PACKS = `SELECT p.* FROM ${NAMED_PACKS}`;

/**
 * Sets the bits of the deliveries, all of which `packedStateOf` has a bit for: one statement, or several where one value cannot
 * hold all packs. They return the packs that have changed; deliveries that have rows of their own have no bit in them.
 */
export function settingBits(db: D1Database, rows: readonly DeliveryRow[]): D1PreparedStatement[] {
  const groups = Map.groupBy(rows, ({ destinationId, eventId }) => `${bundleOf(eventId)} ${destinationId}`);
  const write = db.prepare(WRITE);
  // The last first: where several of a line end, the head goes last, and none of the others moves up in between.
  const changes = [...groups.values()].map(changeOf).sort((a, b) => b.bundleId - a.bundleId);
  return inPortions(changes).map((some) => write.bind(some));
}

/** The rows whose bits are not in the packs that `settingBits` has returned: they were set before, or have rows. */
export function unset(rows: readonly DeliveryRow[], returned: readonly RawRow[]): readonly DeliveryRow[] {
  const set = new Set(packsOf(returned).flatMap(namesIn));
  return rows.filter((row) => !set.has(deliveryName(row)));
}

/** All deliveries of the pack that have a bit, as `event destination`. None has two, so the masks can be added. */
function namesIn({ bundleId, destinationId, ...pack }: PackRow): string[] {
  const low = pack.waiting0 + pack.inFlight0 + pack.delivered0 + pack.cancelled0;
  const high = pack.waiting1 + pack.inFlight1 + pack.delivered1 + pack.cancelled1;
  return indexesIn([low, high]).map((index) =>
    deliveryName({ eventId: eventAt(bundleId, index), destinationId }),
  );
}

type Pairs = readonly (readonly [bundle: number, destination: string])[];

/** One statement that returns only ids and masks, so that knowing what exists does not transfer logs. */
const KNOWN = `
  SELECT d.destination_id AS destinationId, d.event_id AS event, NULL AS bundle, NULL AS low, NULL AS high FROM ${OWN}
  UNION ALL
  SELECT p.destination_id, NULL, p.bundle_id, ${both(anyOf("p"))} FROM ${NAMED_PACKS}`;

/** The deliveries of the pairs that have bits or rows, as `event destination`. */
export async function knownOf(db: D1Database, pairs: Pairs): Promise<ReadonlySet<string>> {
  type Known = { destinationId: string; event: number | null; bundle: number; low: number; high: number };
  const known = await select<Known>(db, KNOWN, listOf(pairs));
  return new Set(
    known.flatMap(({ destinationId, event, bundle, low, high }) => {
      const events = event === null ? indexesIn([low, high]).map((i) => eventAt(bundle, i)) : [event];
      return events.map((eventId) => deliveryName({ eventId, destinationId }));
    }),
  );
}

/** The deliveries of the pairs that have rows of their own, as `event destination`. */
export async function ownNames(db: D1Database, pairs: Pairs): Promise<ReadonlySet<string>> {
  return new Set((await select<DeliveryKey>(db, OWN_NAMES, listOf(pairs))).map(deliveryName));
}

/** As JSON, each pair once. */
function listOf(pairs: Pairs): string {
  return JSON.stringify([...new Map(pairs.map((pair) => [pair.join(" "), pair])).values()]);
}

/**
 * The deliveries of the pairs that have bits or rows, as rows.
 * @param targets by id; the age limits of packed ones are the default policy's where theirs is missing
 */
export async function rowsIn(
  db: D1Database,
  pairs: Pairs,
  targets: ReadonlyMap<string, Destination> = new Map(),
): Promise<readonly DeliveryRow[]> {
  const named = listOf(pairs);
  const [own, packed] = await db.batch<RawRow>([
    db.prepare(OWN_ROWS).bind(named),
    db.prepare(PACKS).bind(named),
  ]);
  return [
    ...packsOf(packed?.results ?? []).flatMap((pack) =>
      packedRows(pack, targets.get(pack.destinationId) ?? null),
    ),
    ...(own?.results ?? []).map(rawDelivery),
  ];
}
