/**
 * Deliveries as the delivery path loads them: one round trip to each database for bundles, destinations, rows and packs,
 * and never more bodies at once than an isolate can hold. It need not wait for further databases that are slow or away.
 * Statements are raw SQL because they are sent as one batch, and because `json_each` in front of a CROSS JOIN looks each
 * key up once, while an IN list of Drizzle's would be bound value by value.
 */

import {
  type BundlePart,
  type EventVersion,
  eventAt,
  headerAt,
  indexesOf,
  isErased,
  type Plan,
  type RequestHeaders,
  runsInclude,
  type StoredHeader,
  ttlAt,
} from "../core/bundle.ts";
import type { Payload } from "../core/content.ts";
import type { LinePlace } from "../core/order.ts";
import { portioned } from "../core/portions.ts";
import { type BundleFault, readBundle, readHeader } from "../core/stored-bundle.ts";
import type { Transformed } from "../core/transform/result.ts";
import { homeOfBundle, readContents, type StoredContent } from "./bundles.ts";
import { modelOf, type RawRow } from "./columns.ts";
import type { Databases } from "./databases.ts";
import type { DeliveryRow } from "./delivery.ts";
import { type Destination, destinations, LISTED_DESTINATIONS } from "./destination.ts";
import { linePlaces, placesFrom } from "./lines.ts";
import { OWN_ROWS, PACKS, packedRows, packsOf, rawDelivery } from "./packs.ts";

type LoadedEvent = Readonly<{
  id: number;
  tenant: string;
  type: string;
  /** Undefined if not requested; null when the stored bytes are damaged. */
  body: Uint8Array<ArrayBuffer> | null | undefined;
  /** The media type of content that is sent as it was posted; absent: the body is an envelope. */
  contentType?: string | undefined;
  acceptedAt: number;
  /** The version of its type that its data has; absent: its type has only one. */
  version?: EventVersion | undefined;
  /** Not delivered before; null: delivered at once. */
  deliverAt: number | null;
  /** How long its deliveries may take from when it is due. */
  ttlSeconds?: number | undefined;
  /** The request headers that it was posted with; loaded with its body. */
  headers?: RequestHeaders | undefined;
  /** Present when its content has been erased: it has no body. */
  isErased?: true;
}>;

/** When the event could first be delivered, epoch ms: its age counts from here. */
export function dueAtOf({ acceptedAt, deliverAt }: Pick<LoadedEvent, "acceptedAt" | "deliverAt">): number {
  return deliverAt ?? acceptedAt;
}

/** When the event's time to live ends, epoch ms; undefined when it has none. */
export function liveUntilOf(
  event: Pick<LoadedEvent, "acceptedAt" | "deliverAt" | "ttlSeconds">,
): number | undefined {
  return event.ttlSeconds === undefined ? undefined : dueAtOf(event) + event.ttlSeconds * 1000;
}

/** One delivery with all that an attempt needs. */
export type LoadedDelivery = Readonly<{
  event: LoadedEvent;
  destination: Destination;
  /** Undefined before the first recorded outcome. */
  row: DeliveryRow | undefined;
  /** Its place in its line; absent: it is in none. */
  place?: LinePlace;
  /** The result of the destination's transformation; absent: the event is sent as it is. */
  transformed?: Transformed;
  /** Sent instead, if the destination gets neither the event's envelope nor its data. */
  payload?: Payload;
}>;

export type Loaded = Readonly<{
  deliveries: readonly LoadedDelivery[];
  /** Parts whose bundle or destination is not stored. */
  missing: readonly BundlePart[];
  /**
   * Parts of bundles that cannot be read: of a later version, which an isolate with later code can read, or edited or
   * damaged, which somebody may mend.
   */
  unknown: readonly (BundlePart & Readonly<{ fault: BundleFault }>)[];
  /** Parts whose bodies would not fit into memory beside the others: to be loaded when those are done. */
  rest: readonly BundlePart[];
  /** Parts that further databases did not return in time, or failed to return. */
  late: readonly Readonly<{ parts: readonly BundlePart[]; loaded: Promise<Loaded> }>[];
}>;

type LoadOptions = Readonly<{
  /** Which deliveries need their bodies, by their rows; absent: all that have not ended. */
  isDue?: (row: DeliveryRow | undefined) => boolean;
  /** Whether the bodies of deliveries that have ended are loaded too. */
  withEnded?: boolean;
  /** Bundles of which few deliveries are likely due: their bodies are loaded only once that is known, in another trip. */
  fewDueOf?: ReadonlySet<number>;
  /**
   * Resolves when further databases are not to be awaited any longer: parts that they have not returned by then are
   * late. Its signal is aborted when they have answered. Absent: all are awaited, and if one fails, all do.
   */
  patience?: (over: AbortSignal) => Promise<unknown>;
}>;

/** Stored bytes of bodies in one round trip, unless one bundle alone has more. As hexadecimal they are twice as many. */
const BODY_BYTES = 2 * 1024 * 1024;
/**
 * Bytes of bodies held at once, unless one bundle alone has more. An isolate has 128 MB, and several invocations may
 * share it.
 */
export const HELD_BYTES = 8 * 1024 * 1024;
/** How often a body is read before it counts as damaged. */
const READS = 2;

/** A body that is larger than its share of one round trip (`?2`) is left out, and loaded in another. */
const BUNDLES = `
  SELECT b.id, b.accepted_at AS acceptedAt, b.deliver_at AS deliverAt, b.plan, b.header, length(b.body) AS size,
    iif(w.value ->> 1 AND length(b.body) <= ?2, hex(b.body), NULL) AS body, ${linePlaces("b", "?3")} AS places
  FROM json_each(?1) w CROSS JOIN bundles b ON b.id = w.value ->> 0`;

/** With the headers: a body may have been written anew since its header was read. */
const BODIES = `
  SELECT b.id, b.header, hex(b.body) AS body FROM json_each(?1) w CROSS JOIN bundles b ON b.id = w.value`;

const DESTINATIONS = `SELECT d.* FROM ${LISTED_DESTINATIONS}`;

type BundleRow = Readonly<{
  id: number;
  acceptedAt: number;
  deliverAt: number | null;
  plan: string;
  header: string;
  /** Bytes of the stored body. */
  size: number;
  body: string | null;
  places: string | null;
}>;

export function isBound(databases: Databases, bundle: number): boolean {
  return homeOfBundle(databases, bundle) !== undefined;
}

/** Loads the deliveries of the parts, with more than one round trip to a database only for large bodies. */
export async function loadDeliveries(
  databases: Databases,
  parts: readonly BundlePart[],
  { isDue = () => true, withEnded = false, fewDueOf = new Set(), patience }: LoadOptions = {},
): Promise<Loaded> {
  if (parts.length === 0) return { deliveries: [], missing: [], unknown: [], rest: [], late: [] };
  const { db: first } = databases;
  const shares = Map.groupBy(parts, ({ bundle }) => homeOfBundle(databases, bundle));
  const wanted = first.prepare(DESTINATIONS).bind(listOf(parts.flatMap((part) => part.destinations)));
  const reads = [...shares].flatMap(([db, share]) =>
    db && db !== first ? [{ parts: share, read: rowsOf(db, storedIn(db, share, fewDueOf)) }] : [],
  );
  const [[found = [], ...own], inTime] = await Promise.all([
    rowsOf(first, [wanted, ...storedIn(first, shares.get(first) ?? [], fewDueOf)]),
    endedInTime(reads, patience),
  ]);
  const targets = new Map(found.map((raw) => [String(raw.id), modelOf(destinations, raw)]));
  const needsBody = (row: DeliveryRow | undefined) =>
    withEnded || ((row?.endedAt ?? null) === null && isDue(row));
  const open = async (parts: readonly BundlePart[], read: readonly RawRow[][][]): Promise<Loaded> => {
    const { opened, ...others } = openBundles(parts, storedOf(read, targets), needsBody);
    await loadBodies(databases, opened);
    return { deliveries: opened.flatMap(deliveriesIn), ...others, late: [] };
  };
  const late = reads
    .filter((one) => !inTime.has(one))
    .map(({ parts, read }) => ({ parts, loaded: read.then((rows) => open(parts, [rows])) }));
  // The promise may reject before it is handled.
  for (const { loaded } of late) loaded.catch(() => {});
  const lateParts = new Set(late.flatMap(({ parts }) => parts));
  const others = parts.filter((part) => !lateParts.has(part));
  return { ...(await open(others, [own, ...inTime.values()])), late };
}

/** The reads that have succeeded when all have ended, or when the patience has; without, all or none. */
async function endedInTime<Read extends Readonly<{ read: Promise<RawRow[][]> }>>(
  reads: readonly Read[],
  patience: LoadOptions["patience"],
): Promise<ReadonlyMap<Read, RawRow[][]>> {
  const ended = new Map<Read, RawRow[][]>();
  const all = reads.map(async (one) => void ended.set(one, await one.read));
  if (patience && reads.length > 0) {
    const over = new AbortController();
    await Promise.race([Promise.allSettled(all), patience(over.signal)]).finally(() => over.abort());
  } else await Promise.all(all);
  return new Map(ended);
}

/** D1's data of some parts, without most bodies. */
type Stored = Readonly<{
  bundles: ReadonlyMap<number, BundleRow>;
  targets: ReadonlyMap<string, Destination>;
  rows: Rows;
}>;

/** @param read by database: bundles, rows and packs */
function storedOf(read: readonly RawRow[][][], targets: ReadonlyMap<string, Destination>): Stored {
  const rows = rowsByKey(
    read.flatMap(([, found = []]) => found),
    read.flatMap(([, , found = []]) => found),
    targets,
  );
  const bundles = read.flatMap(([found = []]) => (found as BundleRow[]).map((row) => [row.id, row] as const));
  return { bundles: new Map(bundles), targets, rows };
}

/** The bundles of the parts, as many as have bodies that may be held at once, and the parts that are left over. */
function openBundles(
  parts: readonly BundlePart[],
  { bundles, targets, rows }: Stored,
  needsBody: (row: DeliveryRow | undefined) => boolean,
) {
  const missing: BundlePart[] = [];
  const unknown: Loaded["unknown"][number][] = [];
  const rest: BundlePart[] = [];
  const opened: Opened[] = [];
  let freeBytes = HELD_BYTES;
  for (const [bundle, own] of Map.groupBy(parts, ({ bundle }) => bundle)) {
    const row = bundles.get(bundle);
    const read = row && readBundle(row);
    if (!read) missing.push(...own);
    else if (read.kind === "unreadable") unknown.push(...own.map((part) => ({ ...part, fault: read.fault })));
    else {
      const one = opening(row, read, own, { targets, rows, needsBody });
      if (one.bytes > freeBytes && freeBytes < HELD_BYTES) rest.push(...own);
      else {
        freeBytes -= one.bytes;
        missing.push(...one.missing);
        opened.push(one);
      }
    }
  }
  return { opened, missing, unknown, rest };
}

async function rowsOf(db: D1Database, statements: D1PreparedStatement[]): Promise<RawRow[][]> {
  return (await db.batch<RawRow>(statements)).map(({ results }) => results);
}

function storedIn(db: D1Database, parts: readonly BundlePart[], fewDueOf: ReadonlySet<number>) {
  if (parts.length === 0) return [];
  const pairs = new Map(
    parts.flatMap(({ bundle, destinations }) =>
      destinations.map((id) => [`${bundle} ${id}`, [bundle, id] as const]),
    ),
  );
  const named = JSON.stringify([...pairs.values()]);
  const bundles = new Map(parts.map(({ bundle }) => [bundle, fewDueOf.has(bundle) ? 0 : 1]));
  const bytesEach = Math.floor(BODY_BYTES / bundles.size);
  const targets = listOf(parts.flatMap(({ destinations }) => destinations));
  return [
    db.prepare(BUNDLES).bind(JSON.stringify([...bundles]), bytesEach, targets),
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
  for (const row of [...packed, ...raw.map(rawDelivery)]) {
    const own = rows.get(row.destinationId);
    if (own) own.set(row.eventId, row);
    else rows.set(row.destinationId, new Map([[row.eventId, row]]));
  }
  return rows;
}

type Entry = Readonly<{ index: number; destination: Destination; row: DeliveryRow | undefined }>;

/** A loaded bundle with the requested deliveries. */
type Opened = {
  readonly stored: BundleRow;
  header: StoredHeader;
  readonly entries: readonly Entry[];
  /** The indexes of the events whose bodies are needed, and the bytes of these. */
  readonly due: ReadonlySet<number>;
  readonly bytes: number;
  /** Parts whose destinations are not stored. */
  readonly missing: readonly BundlePart[];
  reads: number;
  /** Only of due events, to save memory. */
  bodies: ReadonlyMap<number, StoredContent> | undefined;
};

type Context = Readonly<{
  targets: ReadonlyMap<string, Destination>;
  rows: Rows;
  needsBody: (row: DeliveryRow | undefined) => boolean;
}>;

function opening(
  stored: BundleRow,
  { plan, header }: Readonly<{ plan: Plan; header: StoredHeader }>,
  parts: readonly BundlePart[],
  { targets, rows, needsBody }: Context,
): Opened {
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
        if (indexes && !runsInclude(indexes, index)) continue;
        const row = own?.get(eventAt(bundle, index));
        entries.push({ index, destination, row });
        if (!isErased(header, index) && needsBody(row)) due.add(index);
      }
    }
  }
  let bytes = 0;
  for (const index of due) bytes += headerAt(header, index)?.bytes ?? 0;
  return { stored, header, entries, due, bytes, missing, reads: 0, bodies: undefined };
}

/** Decodes the due bodies: those that came with their bundles first, then loads the others, some at a time. */
async function loadBodies(databases: Databases, opened: readonly Opened[]): Promise<void> {
  const some = opened.filter(({ due }) => due.size > 0);
  for (const one of some) if (one.stored.body !== null) await decodeInto(one, one.stored.body);
  for (;;) {
    const open = some.filter(({ bodies, reads }) => bodies === undefined && reads < READS);
    if (open.length === 0) return;
    for (const [db, share] of Map.groupBy(open, ({ stored }) => homeOfBundle(databases, stored.id))) {
      for (const portion of portioned(share, ({ stored }) => stored.size, BODY_BYTES)) {
        const ids = listOf(portion.map(({ stored }) => stored.id));
        const found = (await db?.prepare(BODIES).bind(ids).all<BodyRow>())?.results;
        const rows = new Map(found?.map((row) => [row.id, row]));
        for (const one of portion) {
          const { header, body = "" } = rows.get(one.stored.id) ?? {};
          const read = header === undefined ? undefined : readHeader(header);
          if (read?.kind === "read") one.header = read.header;
          await decodeInto(one, body);
        }
      }
    }
  }
}

type BodyRow = Readonly<{ id: number; header: string; body: string }>;

async function decodeInto(one: Opened, hex: string): Promise<void> {
  one.reads += 1;
  const contents = await readContents(hex, one.header);
  one.bodies =
    contents &&
    new Map(
      [...one.due].map((index) => {
        const { body = [], headers } = contents[index] ?? {};
        // Copied, so that the bodies of the others are not kept with it.
        return [index, { body: new Uint8Array(body), headers }];
      }),
    );
}

function deliveriesIn({ stored, header, entries, due, bodies }: Opened): LoadedDelivery[] {
  const { id, acceptedAt, deliverAt } = stored;
  const places = placesFrom([stored.places]);
  const events = new Map<number, LoadedEvent>();
  return entries.map(({ index, destination, row }) => {
    let event = events.get(index);
    if (!event) {
      const { tenant = "", type = "", contentType, version } = headerAt(header, index) ?? {};
      const isGone = isErased(header, index);
      const content = due.has(index) && !isGone ? (bodies?.get(index) ?? null) : undefined;
      const body = content === null ? null : content?.body;
      const ttlSeconds = ttlAt(header, index);
      event = { id: eventAt(id, index), tenant, type, body, contentType, acceptedAt, deliverAt };
      if (ttlSeconds !== undefined) event = { ...event, ttlSeconds };
      if (version) event = { ...event, version };
      if (isGone) event = { ...event, isErased: true };
      if (content?.headers) event = { ...event, headers: content.headers };
      events.set(index, event);
    }
    const place = places.get(`${event.id} ${destination.id}`);
    return place ? { event, destination, row, place } : { event, destination, row };
  });
}
