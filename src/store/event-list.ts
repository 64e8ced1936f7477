/**
 * Lists of events, the newest first: of one tenant, or of all.
 *
 * A bundle has the events of many tenants, and no index leads from a tenant to its events: it would cost a written row for
 * each tenant in each bundle. So a list walks the bundles by their key, newest first, and reads their headers. A page looks
 * at a bounded number of bundles, whatever is stored and however rarely the tenant posts: it may be short, or empty, and
 * still have a next page, and it says how far back it has looked. Where a tag is asked for, the rows of `tags` lead to the
 * bundles.
 *
 * Bodies are read only of the bundles that are asked for, in portions, and up to a bound.
 */

import {
  bundleOf,
  channelsAt,
  eventAt,
  headersOf,
  indexOf,
  isErased,
  runsInclude as isInRuns,
  type Runs,
  type StoredHeader,
  tagsAt,
  ttlAt,
} from "../core/bundle.ts";
import { databaseNumberOf } from "../core/placement.ts";
import { takesType } from "../core/routing.ts";
import { LISTED_BUNDLES, readContents, sharesOf } from "./bundles.ts";
import { allOf, type Databases } from "./databases.ts";
import { type Over, oldAmong } from "./delivery-filter.ts";
import { mergedParts, type PartialList } from "./merge.ts";
import { idRangeOf, type TimeRange } from "./time-ranges.ts";

/** Bundles that one page looks at in each database, and those among them whose headers it takes. */
export const BUNDLES_LOOKED_AT = 2_000;
const BUNDLES_TAKEN = 200;
/** Bytes of bodies read at once and in all, those of other events in the same bundles included. */
const PORTION_BYTES = 2 * 1024 * 1024;
const MOST_BYTES = 8 * 1024 * 1024;

export type ListedEvent = Readonly<{
  id: number;
  tenant: string;
  type: string;
  acceptedAt: number;
  deliverAt: number | null;
  tags: readonly string[];
  channels: readonly string[];
  ttlSeconds: number | undefined;
  /** Of content of its own type, without `data`. */
  contentType: string | undefined;
  /** Whether the destination that was named gets it. */
  isPlanned: boolean;
  /** Whether its content has been erased. */
  isErased: boolean;
  /** The bytes of all bodies of its bundle. */
  bundleBytes: number;
}>;

/** Where a list continues in a database: with the events whose numbers are smaller. 0: there are none. */
export type EventPosition = number;

/** No event has this index of a bundle: positions between bundles name nobody's event. */
const BEHIND_ALL = 127;

/** With the bundles before this one. */
const before = (bundle: number): EventPosition => eventAt(bundle - 1, BEHIND_ALL);

const START: EventPosition = Number.MAX_SAFE_INTEGER;
const END: EventPosition = 0;

export type ListedEventFilter = Readonly<{
  tenant?: string | undefined;
  /** Patterns, as destinations have them; one has to match. */
  types?: readonly string[] | undefined;
  tag?: string | undefined;
  channel?: string | undefined;
  accepted?: TimeRange | undefined;
  /** Events that are old by it are left out. */
  over: Over;
}>;

export type EventListFilter = ListedEventFilter &
  Readonly<{
    /** Whose plan is looked up, if any. */
    destination?: string | undefined;
    /** Where the page begins in each database. */
    from?: readonly EventPosition[] | undefined;
    limit: number;
  }>;

export type EventPage = Readonly<{
  found: readonly ListedEvent[];
  from: readonly EventPosition[];
  /** Undefined on the last page. */
  next: readonly EventPosition[] | undefined;
  /** What was accepted later has been found, epoch ms; undefined on the last page. */
  lookedBackTo: number | undefined;
}>;

/** A page of events, the newest first: in order of acceptance, and of their numbers within a database. */
export async function listEvents(
  databases: Databases,
  { from: given, ...filter }: EventListFilter,
): Promise<EventPage> {
  const from = allOf(databases).map((_, i) => given?.[i] ?? START);
  const parts = await Promise.all(allOf(databases).map((db, i) => listedIn(db, filter, from[i] ?? START)));
  const { found, next } = mergedParts(parts, {
    from,
    end: END,
    limit: filter.limit,
    rankOf: ({ acceptedAt, id }) => [acceptedAt, id],
    positionOf: ({ id }) => id,
  });
  const times = parts.map((part, database) => {
    const shown = found.filter((event) => isIn(event, database)).length;
    return part.found[shown]?.acceptedAt ?? part.lookedBackTo;
  });
  return { found, from, next, lookedBackTo: next && Math.max(...times) };
}

function isIn({ id }: ListedEvent, database: number): boolean {
  return databaseNumberOf(id) === database;
}

// ── A page of one database ──

/** A bundle of a list. */
export type ListedRow = Readonly<{
  id: number;
  acceptedAt: number;
  deliverAt: number | null;
  header: string;
  runs: string | null;
}>;

/** Bundles from the first to the last, and what is known to be wanted of their events. */
type Walk = ListedEventFilter & Readonly<{ first: number; last: number; destination: string | undefined }>;

/** What was accepted later than `lookedBackTo` has been looked at; 0: everything. */
type Looked = Readonly<{ next: EventPosition | undefined; lookedBackTo: number }>;

const TO_THE_END: Looked = { next: undefined, lookedBackTo: 0 };

/** Bundles that may have events that are wanted, and where the list continues after them. */
type Walked = Readonly<{ rows: readonly ListedRow[]; looked: Looked }>;

async function listedIn(
  db: D1Database,
  { limit, destination, ...filter }: Omit<EventListFilter, "from">,
  position: EventPosition,
): Promise<PartialList<ListedEvent, EventPosition> & Looked> {
  if (position <= eventAt(1, 0)) return { found: [], ...TO_THE_END };
  const range = await idRangeOf(db, filter.accepted ?? {});
  const first = Math.max(1, bundleOf(range.first));
  const last = Math.min(bundleOf(range.last), bundleOf(position - 1));
  const about = { ...filter, destination, first, last };
  const { rows, looked } = await (filter.tag !== undefined && filter.tenant !== undefined
    ? taggedBundles(db, about)
    : walked(db, about));
  const wanted = rows
    .flatMap(listedEventsIn)
    .filter((event) => event.id < position && isWanted(event, filter));
  const isOld = await oldAmong(filter.over, wanted);
  const found = wanted.filter((event) => !isOld(event));
  const shown = found.slice(0, limit);
  const cut = found.length > limit ? shown.at(-1) : undefined;
  return { found: shown, ...(cut ? { next: cut.id, lookedBackTo: cut.acceptedAt } : looked) };
}

/** The plan is read for one destination: it may name a thousand. */
const COLUMNS = `id, accepted_at AS acceptedAt, deliver_at AS deliverAt, header, plan -> ('$.' || ?6) AS runs`;

/** The newest bundle of those that are left. Ids are dense, but for what retention has removed: gaps are jumped over here. */
const TOP = "(SELECT max(id) FROM bundles WHERE id BETWEEN ?1 AND ?2)";

/**
 * SQL: the newest bundles from `?1` to `?2`, as far as one page looks, whose headers have the tenant `?3`, types that begin
 * with `?4`, and the tag `?5`, as far as these are not null. They are names as the header has them, with quotation marks:
 * none needs an escape in JSON. What else they are a part of is for the caller to decide.
 */
export function walkedBundles(columns: string, most: number): string {
  return `
  SELECT ${columns} FROM bundles WHERE id BETWEEN max(?1, ${TOP} - ${BUNDLES_LOOKED_AT - 1}) AND ${TOP}
    AND (?3 IS NULL OR instr(header -> '$.tenants', ?3) > 0)
    AND (?4 IS NULL OR instr(header -> '$.types', ?4) > 0)
    AND (?5 IS NULL OR instr(header -> '$.tags', ?5) > 0)
  ORDER BY id DESC LIMIT ${most}`;
}

/** SQL: the first bundle from `?1` to `?2` that the page does not look at. */
export const BELOW_WALKED = `
  SELECT id, accepted_at AS acceptedAt FROM bundles WHERE id BETWEEN ?1 AND ${TOP} - ${BUNDLES_LOOKED_AT}
  ORDER BY id DESC LIMIT 1`;

/** The names of a filter as `walkedBundles` takes them. */
export function namesInHeaders({ tenant, types, tag }: Pick<ListedEventFilter, "tenant" | "types" | "tag">) {
  return [quoted(tenant), startOf(types), quoted(tag)] as const;
}

const WALKED = walkedBundles(COLUMNS, BUNDLES_TAKEN);

async function walked(
  db: D1Database,
  { first, last, destination = "none", ...filter }: Walk,
): Promise<Walked> {
  const [taken, below] = await db.batch<ListedRow>([
    db.prepare(WALKED).bind(first, last, ...namesInHeaders(filter), destination),
    db.prepare(BELOW_WALKED).bind(first, last),
  ]);
  const rows = taken?.results ?? [];
  const next = below?.results[0];
  const rest = next && { next: before(next.id + 1), lookedBackTo: next.acceptedAt };
  return { rows, looked: restAfter(rows) ?? rest ?? TO_THE_END };
}

/** A name as the header has it. */
function quoted(name: string | undefined): string | null {
  return name === undefined ? null : `"${name}"`;
}

/** Only `isWanted` distinguishes several patterns. */
function startOf([pattern = "*", ...others]: readonly string[] = []): string | null {
  if (pattern === "*" || others.length > 0) return null;
  return pattern.endsWith(".*") ? `"${pattern.slice(0, -1)}` : quoted(pattern);
}

const TAGGED = `
  SELECT ${COLUMNS.replace("?6", "?5")} FROM (
    SELECT bundle_id FROM tags WHERE tenant = ?3 AND tag = ?4 AND bundle_id BETWEEN ?1 AND ?2
    ORDER BY bundle_id DESC LIMIT ${BUNDLES_TAKEN}) t CROSS JOIN bundles ON id = t.bundle_id`;

async function taggedBundles(
  db: D1Database,
  { first, last, destination = "none", tenant, tag }: Walk,
): Promise<Walked> {
  const { results } = await db.prepare(TAGGED).bind(first, last, tenant, tag, destination).all<ListedRow>();
  return { rows: results, looked: restAfter(results) ?? TO_THE_END };
}

/** Where the list continues when there may be more bundles than were taken. */
function restAfter(rows: readonly ListedRow[]): Looked | undefined {
  const last = rows.length === BUNDLES_TAKEN ? rows.at(-1) : undefined;
  return last && { next: before(last.id), lookedBackTo: last.acceptedAt };
}

/** All events of a bundle, the last one first. */
export function listedEventsIn({ id, acceptedAt, deliverAt, header, runs }: ListedRow): ListedEvent[] {
  const stored = JSON.parse(header) as StoredHeader;
  const about = headersOf(stored);
  const planned: Runs = runs === null ? [] : JSON.parse(runs);
  const bundleBytes = about.reduce((sum, { bytes }) => sum + bytes, 0);
  return about
    .map(({ tenant, type, contentType }, index) => ({
      id: eventAt(id, index),
      tenant,
      type,
      acceptedAt,
      deliverAt,
      tags: tagsAt(stored, index),
      channels: channelsAt(stored, index),
      ttlSeconds: ttlAt(stored, index),
      contentType,
      isPlanned: isInRuns(planned, index),
      isErased: isErased(stored, index),
      bundleBytes,
    }))
    .reverse();
}

function isWanted(
  event: ListedEvent,
  { tenant, types, tag, channel, accepted = {} }: ListedEventFilter,
): boolean {
  const { acceptedAt } = event;
  const { since = 0, until = Number.POSITIVE_INFINITY } = accepted;
  if (tenant !== undefined && event.tenant !== tenant) return false;
  if (types !== undefined && !takesType(types, event.type)) return false;
  if (tag !== undefined && !event.tags.includes(tag)) return false;
  if (channel !== undefined && !event.channels.includes(channel)) return false;
  return acceptedAt >= since && acceptedAt < until;
}

const LISTED = `
  SELECT id, accepted_at AS acceptedAt, deliver_at AS deliverAt, header, NULL AS runs FROM ${LISTED_BUNDLES}`;

/** The stored events of the tenant, by their ids. */
export async function eventsById(
  databases: Databases,
  tenant: string,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ListedEvent>> {
  const wanted = new Set(ids);
  const found = await Promise.all(
    [...sharesOf(databases, ids, (id) => id)].map(async ([db, share]) => {
      const listed = JSON.stringify([...new Set(share.map(bundleOf))]);
      const { results } = await db.prepare(LISTED).bind(listed).all<ListedRow>();
      return results
        .flatMap(listedEventsIn)
        .filter((event) => wanted.has(event.id) && event.tenant === tenant);
    }),
  );
  return new Map(found.flat().map((event) => [event.id, event]));
}

// ── Bodies ──

/** What decides which bodies are read together. */
type Sized = Pick<ListedEvent, "id" | "bundleBytes">;

/**
 * How many of the events, from the first on, have bundles within the bound of bytes; those of one bundle in any case.
 * @param isAsked whose body is asked for: the others cost nothing
 */
export function countWithinBytes<E extends Sized>(
  events: readonly E[],
  isAsked: (event: E) => boolean,
): number {
  const bundles = new Set<number>();
  let bytes = 0;
  const end = events.findIndex((event) => {
    if (!isAsked(event) || bundles.has(bundleOf(event.id))) return false;
    bundles.add(bundleOf(event.id));
    bytes += event.bundleBytes;
    return bytes > MOST_BYTES && bundles.size > 1;
  });
  return end < 0 ? events.length : end;
}

/** The page, ending before the first event whose bundle goes beyond that bound. */
export function withinBytes(page: EventPage, isAsked: (event: ListedEvent) => boolean): EventPage {
  return endingAfter(page, countWithinBytes(page.found, isAsked));
}

/** The page with its first `count` events only; the next one continues after them. */
export function endingAfter(page: EventPage, count: number): EventPage {
  const { found, from, next } = page;
  const left = found.slice(count);
  const [first] = left;
  if (first === undefined) return page;
  const kept = found.slice(0, count);
  const positions = from.map((start, database) => {
    if (!left.some((event) => isIn(event, database))) return next?.[database] ?? END;
    return kept.findLast((event) => isIn(event, database))?.id ?? start;
  });
  return { found: kept, from, next: positions, lookedBackTo: first.acceptedAt };
}

const BODIES = `SELECT id, header, hex(body) AS body FROM ${LISTED_BUNDLES}`;

/**
 * Calls back with the body of each event; undefined where it has been erased, or the stored bytes are damaged. Keeps one
 * portion in memory.
 */
export async function eachBody<E extends Sized>(
  databases: Databases,
  events: readonly E[],
  use: (event: E, body: Uint8Array | undefined) => void,
): Promise<void> {
  for (const [db, share] of sharesOf(databases, events, ({ id }) => id)) {
    for (const portion of portionsOf(share)) {
      const ids = JSON.stringify([...new Set(portion.map(({ id }) => bundleOf(id)))]);
      const { results } = await db
        .prepare(BODIES)
        .bind(ids)
        .all<{ id: number; header: string; body: string }>();
      for (const { id, header, body } of results) {
        const stored: StoredHeader = JSON.parse(header);
        const contents = await readContents(body, stored);
        for (const event of portion) {
          const index = indexOf(event.id);
          if (bundleOf(event.id) === id)
            use(event, isErased(stored, index) ? undefined : contents?.[index]?.body);
        }
      }
    }
  }
}

/** The events by their bundles, in portions of so many bytes. */
function portionsOf<E extends Sized>(events: readonly E[]): E[][] {
  const portions: E[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const group of Map.groupBy(events, ({ id }) => bundleOf(id)).values()) {
    bytes += group[0]?.bundleBytes ?? 0;
    if (bytes > PORTION_BYTES) {
      portions.push([]);
      bytes = group[0]?.bundleBytes ?? 0;
    }
    portions.at(-1)?.push(...group);
  }
  return portions;
}
