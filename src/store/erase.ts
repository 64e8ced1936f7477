/**
 * Erases content: bodies of events, their request headers, receivers' answers to them, and, if requested, their tags
 * and idempotency keys. The events stay listed, and so do the others in their bundles, byte for byte.
 *
 * A bundle is written anew, after the logs of its deliveries, without the erased bytes, header and body in one
 * statement, which holds only while the header is the one that was read: two erasures at once do not undo each other. A
 * reader of a body reads its header in the same statement, so that it does not mistake a neighbour's bytes for others,
 * or an erased body for a damaged one. All of it may be repeated: an erased event is not erased, or counted, again.
 *
 * Raw SQL: the guards, and the counts of changes by former statements, are one transaction.
 */

import {
  type DeliveryKey,
  deliveryName,
  eventAt,
  headersOf,
  headersText,
  indexesOf,
  isErased,
  lengthOf,
  type Plan,
  type RequestHeaders,
  runsInclude,
  runsOf,
  type StoredHeader,
} from "../core/bundle.ts";
import { headerWithout, tagsLost } from "../core/erase.ts";
import { portionsOf } from "../core/portions.ts";
import { readHeader } from "../core/stored-bundle.ts";
import { readContents, type StoredContent } from "./bundles.ts";
import { storeBodies } from "./commit.ts";
import { select } from "./databases.ts";
import { type AttemptEntry, type DeliveryRow, type DeliveryState, entriesIn } from "./delivery.ts";
import { namesOf } from "./lines.ts";
import { rowsIn, WITHOUT_ATTEMPT } from "./packs.ts";
import { recording } from "./record.ts";
import { jsonOrEmpty } from "./sql.ts";

/** A bundle of which something is to be erased. */
export type ErasedBundle = Readonly<{
  id: number;
  plan: Plan;
  /** The indexes of the events; those that are erased already are checked again. */
  indexes: readonly number[];
}>;

/** The removals besides the content. */
export type Extent = Readonly<{
  /** Deliveries that have not ended are cancelled. Those in flight are not: only their senders know how they end. */
  cancels: boolean;
  tags: boolean;
  /**
   * `stay`: idempotency keys stay; or they stay taken, so that a repeat of the request stores nothing; or they are
   * removed.
   */
  keys: "kept" | "closed" | "removed";
  /** The row of `erasures` that counts what is erased here. */
  erasure?: string;
}>;

/** How often a bundle is read anew because another erasure has changed it. */
const TRIES = 5;

/** How often a body is read before it counts as damaged. */
const READS = 2;

/** Destinations of which the deliveries are read at once: they may have a hundred each, with their logs. */
const DESTINATIONS = 20;

/** How the erasure of one bundle is divided: its plan may have thousands of destinations. */
type Portions = Readonly<{
  /** Destinations of the plan that are done. */
  from?: number;
  /** Whether another portion may begin: a handful of queries. The first one does in any case. */
  mayGoOn?: () => boolean;
  /** Takes the deliveries of each portion that have had attempts. */
  erased?: (deliveries: readonly ErasedDelivery[]) => Promise<void>;
}>;

export type ErasedDelivery = Readonly<{ event: number; destination: string; log: readonly AttemptEntry[] }>;

/**
 * Erases the events; returns how many destinations are done when it may not continue, and undefined once all is erased.
 * Throws when the bundle cannot be read.
 *
 * Logs come first, and the header last: it says that an event is erased only when nothing of the event is left, so an
 * interruption anywhere leaves it to be found again.
 * @param now epoch ms
 */
export async function eraseFrom(
  db: D1Database,
  bundle: ErasedBundle,
  extent: Extent,
  now: number,
  { from = 0, mayGoOn = () => true, erased }: Portions = {},
): Promise<number | undefined> {
  const { plan, indexes } = bundle;
  const meant = Object.keys(plan).flatMap((destination, place) =>
    place >= from && among(plan[destination] ?? [], indexes).length > 0 ? [{ destination, place }] : [],
  );
  for (const [i, some] of portionsOf(meant, DESTINATIONS).entries()) {
    if (i > 0 && !mayGoOn()) return some[0]?.place;
    const portion = some.map(({ destination }) => destination);
    const deliveries = await eraseDeliveries(db, bundle, portion, extent, now);
    await erased?.(deliveries);
  }
  for (let tries = 1; !(await rewrite(db, bundle, extent)); tries++)
    if (tries === TRIES) throw new Error(`Bundle ${bundle.id} is being changed by others`);
  return undefined;
}

type Row = Readonly<{ header: string; body: string }>;

const READ = "SELECT header, hex(body) AS body FROM bundles WHERE id = ?1";

const REWRITE = "UPDATE bundles SET header = ?3, body = unhex(?4) WHERE id = ?1 AND header = ?2 RETURNING id";

/** Before the bundle is written: so a repeat after a lost answer counts nothing. */
const COUNT = `
  UPDATE erasures SET events = events + ?3, deliveries = deliveries + ?4
  WHERE id = ?5 AND EXISTS (SELECT 1 FROM bundles WHERE id = ?1 AND header = ?2)`;

/** Guarded like the bundle, which is written after them. */
const IS_UNCHANGED = "EXISTS (SELECT 1 FROM bundles WHERE id = ?1 AND header = ?2)";

const REMOVE_TAGS = `
  DELETE FROM tags WHERE ${IS_UNCHANGED}
    AND (tenant, tag, bundle_id) IN (SELECT value ->> 0, value ->> 1, ?1 FROM json_each(?3))`;

const OF_KEYS = "(tenant, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?3))";

/** No request has this digest: so a repeat of the request is refused, and the content cannot be guessed from it. */
const CLOSE_KEYS = `UPDATE idempotency_keys SET fingerprint = 'erased' WHERE ${IS_UNCHANGED} AND ${OF_KEYS}`;

const REMOVE_KEYS = `DELETE FROM idempotency_keys WHERE ${IS_UNCHANGED} AND ${OF_KEYS}`;

/**
 * The stored parts of the bundle. Bytes that cannot be read are read once more: one bad answer costs no neighbour its body.
 */
async function readStored(db: D1Database, id: number) {
  for (let reads = 1; ; reads++) {
    const row = await db.prepare(READ).bind(id).first<Row>();
    if (row === null) return undefined;
    const read = readHeader(row.header);
    if (read.kind === "unreadable") throw new Error(`Bundle ${id} cannot be read: ${read.fault}`);
    const { header } = read;
    const contents = await readContents(row.body, header);
    if (contents || reads === READS) return { text: row.header, header, contents };
  }
}

/** False when the bundle has been changed since it was read; a bundle that is gone has nothing to erase. */
async function rewrite(db: D1Database, bundle: ErasedBundle, extent: Extent): Promise<boolean> {
  const { id, plan, indexes } = bundle;
  const found = await readStored(db, id);
  if (found === undefined) return true;
  const { text, header, contents = [] } = found;
  const fresh = indexes.filter((index) => !isErased(header, index));
  if (fresh.length === 0) return true;
  const keys = extent.keys === "kept" ? [] : await keysOf(db, id, header, fresh);
  const { hex, ...stored } = await storedWithout(contents, fresh);
  const removedKeys = extent.keys === "removed" ? keys : [];
  const after = headerWithout(header, fresh, stored, { tags: extent.tags, keys: removedKeys });
  const lost = tagsLost(header, after);
  const deliveries = Object.values(plan).reduce((sum, runs) => sum + lengthOf(among(runs, fresh)), 0);
  const statement = (sql: string, ...values: unknown[]) => db.prepare(sql).bind(id, text, ...values);
  const results = await db.batch([
    ...(extent.erasure ? [statement(COUNT, fresh.length, deliveries, extent.erasure)] : []),
    ...(lost.length > 0 ? [statement(REMOVE_TAGS, JSON.stringify(lost))] : []),
    ...(keys.length > 0
      ? [statement(extent.keys === "removed" ? REMOVE_KEYS : CLOSE_KEYS, JSON.stringify(keys))]
      : []),
    statement(REWRITE, JSON.stringify(after), hex),
  ]);
  return (results.at(-1)?.results.length ?? 0) > 0;
}

function among(runs: readonly number[], indexes: readonly number[]): number[] {
  return runsOf(indexes.filter((index) => runsInclude(runs, index)));
}

/**
 * The stored bodies without those at these indexes. Damaged bytes are removed entirely: they may be the content, and
 * none of the bundle's events can be read.
 */
async function storedWithout(contents: readonly StoredContent[], indexes: readonly number[]) {
  const gone = new Set(indexes);
  const bodies = contents.filter((_, index) => !gone.has(index)).map(({ body }) => body);
  const own: (RequestHeaders | undefined)[] = contents.map(({ headers }, index) =>
    gone.has(index) ? undefined : headers,
  );
  const headers = headersText(own);
  const headerPart = headers === undefined ? [] : [new TextEncoder().encode(headers)];
  const stored = await storeBodies([...bodies, ...headerPart]);
  const [part] = headerPart;
  return { ...stored, ...(part && { headerBytes: part.byteLength }) };
}

const PLACED = `
  SELECT s.tenant, s.key, p.value ->> 1 AS place FROM json_each(?2) w
    CROSS JOIN idempotency_keys s ON s.tenant = w.value ->> 0 AND s.key = w.value ->> 1
    CROSS JOIN json_each(${jsonOrEmpty("s.places")}) p
  WHERE ${jsonOrEmpty("s.bundles")} ->> ('$[' || (p.value ->> 0) || ']') = ?1`;

/** The idempotency keys of requests that have posted one of the events. */
async function keysOf(
  db: D1Database,
  bundle: number,
  { keys = [] }: StoredHeader,
  indexes: readonly number[],
): Promise<(readonly [tenant: string, key: string])[]> {
  if (keys.length === 0) return [];
  type Row = { tenant: string; key: string; place: number };
  const found = await select<Row>(db, PLACED, bundle, keys);
  const placed = found.filter(({ place }) => indexes.includes(place));
  const unique = new Map(
    placed.map(({ tenant, key }) => [JSON.stringify([tenant, key]), [tenant, key] as const]),
  );
  return [...unique.values()];
}

/** The log without receivers' answers, and remarks about them. Parts that an edit by hand has changed are left out. */
const REDACT = `
  UPDATE deliveries SET log = iif(json_valid(log), (
      SELECT json_group_array(json_remove(e.value, '$.excerpt', '$.note', '$.archived')) FROM json_each(log) e
      WHERE e.type = 'object'), '[]')
  WHERE (destination_id, event_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))`;

const COUNT_CANCELLED = "UPDATE erasures SET cancelled = cancelled + changes() WHERE id = ?1";

async function eraseDeliveries(
  db: D1Database,
  { id, plan, indexes }: ErasedBundle,
  destinations: readonly string[],
  { cancels, erasure }: Extent,
  now: number,
): Promise<ErasedDelivery[]> {
  const planned = destinations.flatMap((destinationId) =>
    indexesOf(among(plan[destinationId] ?? [], indexes)).map(
      (index): DeliveryKey => ({ destinationId, eventId: eventAt(id, index) }),
    ),
  );
  const rows = await rowsIn(
    db,
    destinations.map((destination) => [id, destination]),
  );
  const byName = new Map(rows.map((row) => [deliveryName(row), row]));
  const known = planned.map((key) => ({ key, row: byName.get(deliveryName(key)) }));
  const open = known.flatMap(({ key, row }) => cancelled(row ?? key, now));
  const withContent = known.filter(({ row }) => hasContent(row)).map(({ key }) => key);
  const counting = erasure ? [db.prepare(COUNT_CANCELLED).bind(erasure)] : [];
  const statements = [
    ...(cancels ? recording(db, open, counting) : []),
    ...(withContent.length > 0 ? [db.prepare(REDACT).bind(JSON.stringify(namesOf(withContent)))] : []),
  ];
  if (statements.length > 0) await db.batch(statements);
  return known.flatMap(({ key: { eventId, destinationId }, row }) => {
    const log = row ? entriesIn(row.log) : [];
    return log.length > 0 ? [{ event: eventId, destination: destinationId, log }] : [];
  });
}

/** Whether the log of attempts may contain content: responses, remarks, or a manual edit. */
function hasContent(row: DeliveryRow | undefined): boolean {
  if (row === undefined) return false;
  const entries = entriesIn(row.log);
  // A log that is no JSON any more reads as one without entries.
  if (entries.length !== row.log.length || (entries.length === 0 && row.attempts > 0)) return true;
  return entries.some(
    ({ excerpt, note, archived }) => excerpt !== undefined || note !== undefined || archived,
  );
}

/** The delivery as a cancelled one, if it has not ended and is not in flight. */
function cancelled(known: DeliveryRow | DeliveryKey, now: number): DeliveryRow[] {
  const row = { ...WITHOUT_ATTEMPT, state: "waiting" as DeliveryState, giveUpAt: now, ...known };
  if (row.state !== "waiting" && row.state !== "retrying") return [];
  return [{ ...row, state: "cancelled", reason: "erased", nextAttemptAt: null, endedAt: now }];
}

/** The indexes of a bundle's events of a tenant. */
export function indexesOfTenant(header: StoredHeader, tenant: string): number[] {
  return headersOf(header).flatMap((about, index) => (about.tenant === tenant ? [index] : []));
}
