/**
 * What a consumer or a drain needs to work on deliveries: bundles, destinations and rows, in one round trip, and bodies
 * no more at a time than an isolate can hold.
 */

import {
  type BundlePart,
  bundleOf,
  eventAt,
  headerAt,
  indexesOf,
  isIn,
  type Plan,
  type StoredHeader,
} from "../core/bundle.ts";
import { readBodies } from "./bundles.ts";
import { modelOf, type RawRow } from "./columns.ts";
import type { DeliveryKey } from "./delivery-filter.ts";
import type { Destination } from "./destinations.ts";
import { pauseStatements, type StatusChange, unpublishedChanges } from "./notifications.ts";
import { fateOf, OWN_ROWS, ownNames, PACKS, packedRows, packsOf, settingBits, unset } from "./packs.ts";
import { isNewEnd, replayCountersOf } from "./replay-counters.ts";
import { type DeliveryRow, deliveries, destinations } from "./schema.ts";
import { type Databases, homeOf, homeOfBundle, sharesOf } from "./shards.ts";

export type LoadedEvent = Readonly<{
  id: number;
  tenant: string;
  type: string;
  /** Undefined when it was not asked for; null when what is stored cannot be read: it has been damaged. */
  body: string | null | undefined;
  acceptedAt: number;
  /** Not to be delivered before this; null: at once. */
  deliverAt: number | null;
}>;

/** From when on an event could be delivered: its age counts from here. Epoch ms. */
export function dueAtOf({ acceptedAt, deliverAt }: Pick<LoadedEvent, "acceptedAt" | "deliverAt">): number {
  return deliverAt ?? acceptedAt;
}

/** Of the message that brings the retry; undefined when it is that of the bundle. */
export function ownerOf(row: DeliveryRow | undefined): string | undefined {
  return row?.log.at(-1)?.owner;
}

/** One delivery with all that an attempt needs. */
export type LoadedDelivery = Readonly<{
  event: LoadedEvent;
  destination: Destination;
  /** Undefined before the first outcome. */
  row: DeliveryRow | undefined;
}>;

export type Loaded = Readonly<{
  works: readonly LoadedDelivery[];
  /** Parts whose bundle or destination is not there. */
  missing: readonly BundlePart[];
  /** Parts of bundles of a later version than this code knows: another isolate can read them. */
  unknown: readonly BundlePart[];
  /** Parts whose bodies would be too much at once: to be loaded when the others are done with. */
  rest: readonly BundlePart[];
}>;

export type LoadOptions = Readonly<{
  /** Whose body is needed, by what is on record of it; without: everybody's. */
  isDue?: (row: DeliveryRow | undefined) => boolean;
  /** Bundles of which little is due, or nothing: their bodies come only when it is known, in a round trip more. */
  fewDueOf?: ReadonlySet<number>;
}>;

/** Of the headers that this code can read. */
const VERSION = 1;
/** Stored bytes of bodies that one round trip brings, unless one bundle alone has more; on the wire twice as many. */
const BODY_BYTES = 2 * 1024 * 1024;
/**
 * Bytes of bodies that are held at once, unless one bundle alone has more; as strings up to twice as many. An isolate
 * has 128 MB, and several invocations may share it.
 */
export const HELD_BYTES = 8 * 1024 * 1024;
/** What cannot be read is read once more before it counts as damaged. */
const READS = 2;

/** A body that has more than its share of what one round trip may bring is left out, and asked for in another. */
const BUNDLES = `
  SELECT b.id, b.accepted_at AS acceptedAt, b.deliver_at AS deliverAt, b.plan, b.header, length(b.body) AS size,
    iif(w.value ->> 1 AND length(b.body) <= ?2, hex(b.body), NULL) AS body
  FROM json_each(?1) w CROSS JOIN bundles b ON b.id = w.value ->> 0`;

const BODIES = "SELECT b.id, hex(b.body) AS body FROM json_each(?1) w CROSS JOIN bundles b ON b.id = w.value";

const DESTINATIONS = "SELECT d.* FROM json_each(?1) w CROSS JOIN destinations d ON d.id = w.value";

type BundleRow = Readonly<{
  id: number;
  acceptedAt: number;
  deliverAt: number | null;
  plan: string;
  header: string;
  /** Of the stored body. */
  size: number;
  body: string | null;
}>;

/** Loads the deliveries of the parts: one round trip to each database that has some, and more only for large bodies. */
export async function loadDeliveries(
  databases: Databases,
  parts: readonly BundlePart[],
  { isDue = () => true, fewDueOf = new Set() }: LoadOptions = {},
): Promise<Loaded> {
  if (parts.length === 0) return { works: [], missing: [], unknown: [], rest: [] };
  const shares = Map.groupBy(parts, ({ bundle }) => homeOfBundle(databases, bundle));
  const { db: first } = databases;
  const wanted = first.prepare(DESTINATIONS).bind(listOf(parts.flatMap((part) => part.destinations)));
  const [[places = [], ...stored], ...others] = await Promise.all([
    rowsOf(first, [wanted, ...storedIn(first, shares.get(first) ?? [], fewDueOf)]),
    ...[...shares].flatMap(([db, share]) =>
      db && db !== first ? [rowsOf(db, storedIn(db, share, fewDueOf))] : [],
    ),
  ]);
  const known = [stored, ...others];
  const targets = new Map(places.map((raw) => [String(raw.id), modelOf(destinations, raw)]));
  const rows = rowsByKey(
    known.flatMap(([, found = []]) => found),
    known.flatMap(([, , found = []]) => found),
    targets,
  );
  const bundles = new Map(
    known.flatMap(([found = []]) => (found as BundleRow[]).map((row) => [row.id, row])),
  );
  const missing: BundlePart[] = [];
  const unknown: BundlePart[] = [];
  const rest: BundlePart[] = [];
  const opened: Opened[] = [];
  let room = HELD_BYTES;
  for (const [bundle, own] of Map.groupBy(parts, ({ bundle }) => bundle)) {
    const row = bundles.get(bundle);
    const header: StoredHeader | undefined = row && JSON.parse(row.header);
    if (!row || !header) missing.push(...own);
    else if (header.version > VERSION) unknown.push(...own);
    else {
      const one = opening(row, header, own, { targets, rows, isDue });
      if (one.bytes > room && room < HELD_BYTES) rest.push(...own);
      else {
        room -= one.bytes;
        missing.push(...one.missing);
        opened.push(one);
      }
    }
  }
  await loadBodies(databases, opened);
  return { works: opened.flatMap(worksOf), missing, unknown, rest };
}

async function rowsOf(db: D1Database, statements: D1PreparedStatement[]): Promise<RawRow[][]> {
  return (await db.batch<RawRow>(statements)).map(({ results }) => results);
}

/** The bundles, the deliveries that have rows of their own, and the packs; nothing for nothing. */
function storedIn(
  db: D1Database,
  parts: readonly BundlePart[],
  fewDueOf: ReadonlySet<number>,
): D1PreparedStatement[] {
  if (parts.length === 0) return [];
  const pairs = new Map(
    parts.flatMap(({ bundle, destinations }) =>
      destinations.map((id) => [`${bundle} ${id}`, [bundle, id] as const]),
    ),
  );
  const named = JSON.stringify([...pairs.values()]);
  const bundles = new Map(parts.map(({ bundle }) => [bundle, fewDueOf.has(bundle) ? 0 : 1]));
  return [
    db.prepare(BUNDLES).bind(JSON.stringify([...bundles]), Math.floor(BODY_BYTES / bundles.size)),
    db.prepare(OWN_ROWS).bind(named),
    db.prepare(PACKS).bind(named),
  ];
}

function listOf(values: readonly (string | number)[]): string {
  return JSON.stringify([...new Set(values)]);
}

/** By destination, and then by event. */
type Rows = ReadonlyMap<string, ReadonlyMap<number, DeliveryRow>>;

function rowsByKey(
  raw: readonly RawRow[],
  packs: readonly RawRow[],
  targets: ReadonlyMap<string, Destination>,
): Rows {
  const packed = packsOf(packs).flatMap((pack) => packedRows(pack, targets.get(pack.destinationId) ?? null));
  const rows = new Map<string, Map<number, DeliveryRow>>();
  for (const row of [...packed, ...raw.map((one) => modelOf(deliveries, one))]) {
    const own = rows.get(row.destinationId);
    if (own) own.set(row.eventId, row);
    else rows.set(row.destinationId, new Map([[row.eventId, row]]));
  }
  return rows;
}

type Entry = Readonly<{ index: number; destination: Destination; row: DeliveryRow | undefined }>;

/** A bundle with what is asked for of it. */
type Opened = {
  readonly stored: BundleRow;
  readonly header: StoredHeader;
  readonly entries: readonly Entry[];
  /** The indexes whose bodies are needed, and how much these are. */
  readonly due: ReadonlySet<number>;
  readonly bytes: number;
  /** Parts whose destinations are not there. */
  readonly missing: readonly BundlePart[];
  reads: number;
  /** Of what is due. Of what is not, nothing is kept: bodies weigh. */
  bodies: ReadonlyMap<number, string> | undefined;
};

type Context = Readonly<{
  targets: ReadonlyMap<string, Destination>;
  rows: Rows;
  isDue: (row: DeliveryRow | undefined) => boolean;
}>;

function opening(
  stored: BundleRow,
  header: StoredHeader,
  parts: readonly BundlePart[],
  { targets, rows, isDue }: Context,
): Opened {
  const plan: Plan = JSON.parse(stored.plan);
  const entries: Entry[] = [];
  const missing: BundlePart[] = [];
  const due = new Set<number>();
  for (const { bundle, destinations: ids, indexes } of parts) {
    for (const id of ids) {
      const destination = targets.get(id);
      if (!destination) {
        missing.push({ bundle, destinations: [id], ...(indexes && { indexes }) });
        continue;
      }
      const own = rows.get(id);
      for (const index of indexesOf(plan[id] ?? [])) {
        if (indexes && !isIn(indexes, index)) continue;
        const row = own?.get(eventAt(bundle, index));
        entries.push({ index, destination, row });
        if ((row?.endedAt ?? null) === null && isDue(row)) due.add(index);
      }
    }
  }
  let bytes = 0;
  for (const index of due) bytes += headerAt(header, index)?.bytes ?? 0;
  return { stored, header, entries, due, bytes, missing, reads: 0, bodies: undefined };
}

/** Puts in what is due. What has come with the bundles first; then the others, so many at a time. */
async function loadBodies(databases: Databases, opened: readonly Opened[]): Promise<void> {
  const some = opened.filter(({ due }) => due.size > 0);
  for (const one of some) if (one.stored.body !== null) await putIn(one, one.stored.body);
  for (;;) {
    const open = some.filter(({ bodies, reads }) => bodies === undefined && reads < READS);
    if (open.length === 0) return;
    for (const [db, share] of Map.groupBy(open, ({ stored }) => homeOfBundle(databases, stored.id))) {
      for (const portion of portionsOf(share)) {
        const ids = listOf(portion.map(({ stored }) => stored.id));
        const found = (await db?.prepare(BODIES).bind(ids).all<{ id: number; body: string }>())?.results;
        const bodies = new Map(found?.map(({ id, body }) => [id, body]));
        for (const one of portion) await putIn(one, bodies.get(one.stored.id) ?? "");
      }
    }
  }
}

/** As many in a row as one round trip may bring. */
function portionsOf(opened: readonly Opened[]): Opened[][] {
  const portions: Opened[][] = [];
  let room = 0;
  for (const one of opened) {
    if (one.stored.size > room || portions.length === 0) {
      portions.push([]);
      room = BODY_BYTES;
    }
    portions.at(-1)?.push(one);
    room -= one.stored.size;
  }
  return portions;
}

const decoder = new TextDecoder();

async function putIn(one: Opened, hex: string): Promise<void> {
  one.reads += 1;
  const bodies = await readBodies(hex, one.header);
  one.bodies = bodies && new Map([...one.due].map((index) => [index, decoder.decode(bodies[index])]));
}

function worksOf({ stored, header, entries, due, bodies }: Opened): LoadedDelivery[] {
  const { id, acceptedAt, deliverAt } = stored;
  const events = new Map<number, LoadedEvent>();
  return entries.map(({ index, destination, row }) => {
    let event = events.get(index);
    if (!event) {
      const { tenant = "", type = "" } = headerAt(header, index) ?? {};
      const body = due.has(index) ? (bodies?.get(index) ?? null) : undefined;
      event = { id: eventAt(id, index), tenant, type, body, acceptedAt, deliverAt };
      events.set(index, event);
    }
    return { event, destination, row };
  });
}

// §§ Writing outcomes: one transaction for everything a batch has to say of a database. A plain fate is a bit of a pack
// (packs.ts), all else a row. Safe to repeat and safe against stragglers: a delivery that has ended never changes
// again, and what knows of fewer attempts than the row already counts is too late to say anything. So is what knows of
// an earlier life: the delivery has ended since and was made to wait again.

const RECORD = `
  INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, next_attempt_at, life,
    first_attempt_at, give_up_at, ended_at, last_status, last_error, log)
  SELECT value ->> 'destinationId', value ->> 'eventId', value ->> 'state', value ->> 'reason',
    value ->> 'attempts', value ->> 'nextAttemptAt', value ->> 'life', value ->> 'firstAttemptAt', value ->> 'giveUpAt',
    value ->> 'endedAt', value ->> 'lastStatus', value ->> 'lastError', value -> 'log'
  FROM json_each(?1) WHERE true
  ON CONFLICT (destination_id, event_id) DO UPDATE SET
    state = excluded.state, reason = excluded.reason, attempts = excluded.attempts,
    next_attempt_at = excluded.next_attempt_at, first_attempt_at = excluded.first_attempt_at,
    give_up_at = excluded.give_up_at, ended_at = excluded.ended_at,
    last_status = excluded.last_status, last_error = excluded.last_error, log = excluded.log
  WHERE ${isNewEnd("excluded.attempts", "excluded.life")}`;

/**
 * One transaction in each database, all at once. What is lost when one of them fails is harmless by itself: a
 * pause without its delivery makes that wait, and a delivery without its pause is followed by another 410.
 * Returns the pauses that this write, or an earlier try of it, has made.
 * @param gone destinations that answered 410 and are to be paused
 * @param now epoch ms; the same at every repeat
 */
export async function recordOutcomes(
  databases: Databases,
  rows: readonly DeliveryRow[],
  gone: readonly string[],
  now: number,
): Promise<readonly StatusChange[]> {
  const { db: first } = databases;
  const shares = new Map(sharesOf(databases, rows, ({ eventId }) => eventId));
  if (gone.length > 0 && !shares.has(first)) shares.set(first, []);
  const pauses = gone.length === 0 ? [] : pausesOf(first, gone, now);
  const written = await Promise.all(
    [...shares].map(([db, share]) => recordIn(db, share, db === first ? pauses : [])),
  );
  return written.flat() as StatusChange[];
}

function pausesOf(first: D1Database, gone: readonly string[], now: number): D1PreparedStatement[] {
  return [pauseStatements(first, gone, "gone", now), unpublishedChanges(first, { ids: gone, at: now })];
}

/** Returns what the last of the statements `also` has brought. */
async function recordIn(
  db: D1Database,
  rows: readonly DeliveryRow[],
  also: readonly D1PreparedStatement[],
): Promise<readonly unknown[]> {
  const { plain = [], own = [] } = Object.groupBy(rows, (row) => (fateOf(row) ? "plain" : "own"));
  const results = await db.batch<RawRow>([
    ...(plain.length > 0 ? [settingBits(db, plain)] : []),
    ...(own.length > 0 ? recording(db, own) : []),
    ...also,
  ]);
  if (plain.length > 0) await recordOwned(db, unset(plain, results[0]?.results ?? []));
  return also.length > 0 ? (results.at(-1)?.results ?? []) : [];
}

/** Another worker, or a person, has given rows to some of what has a plain fate: then these have to tell of it. */
async function recordOwned(db: D1Database, rows: readonly DeliveryRow[]): Promise<void> {
  if (rows.length === 0) return;
  const owned = await ownNames(
    db,
    rows.map(({ eventId, destinationId }) => [bundleOf(eventId), destinationId]),
  );
  const late = rows.filter(({ eventId, destinationId }) => owned.has(`${eventId} ${destinationId}`));
  if (late.length > 0) await db.batch(recording(db, late));
}

function recording(db: D1Database, rows: readonly DeliveryRow[]): D1PreparedStatement[] {
  return [...replayCountersOf(db, rows), db.prepare(RECORD).bind(JSON.stringify(rows))];
}

// §§ Letting a delivery that has ended begin again: the one way back from an end. It waits with a fresh budget
// of attempts and of time; its log stays. It is another life, and has a number of its own, so that nothing said
// about the old one can end the new (see deliveries.ts).

/** The columns of a delivery that begins again; `?1` is its age limit until it is attempted, epoch ms. */
export const REQUEUED = `
  state = 'waiting', attempts = 0, next_attempt_at = NULL, ended_at = NULL, life = life + 1,
  first_attempt_at = NULL, give_up_at = ?1`;

const RETRY = `
  UPDATE deliveries SET ${REQUEUED}, reason = 'retried', replay = NULL
  WHERE destination_id = ?2 AND event_id = ?3 AND state = 'dead' RETURNING *`;

/** Lets a dead delivery wait again; undefined when it is not dead (any more). */
export async function requeueDead(
  databases: Databases,
  { destinationId, eventId }: DeliveryKey,
  giveUpAt: number,
): Promise<DeliveryRow | undefined> {
  const retry = homeOf(databases, eventId)?.prepare(RETRY).bind(giveUpAt, destinationId, eventId);
  const raw = await retry?.first<RawRow>();
  return raw ? modelOf(deliveries, raw) : undefined;
}
