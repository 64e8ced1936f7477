/**
 * Lists of events, the newest first: of one tenant, or of all.
 *
 * A bundle has the events of many tenants, and no index leads from a tenant to its events: it would cost a written row
 * for each tenant in each bundle. So a list walks the bundles by their key, newest first, and reads their headers. A
 * page looks at a bounded number of bundles, whatever is stored and however rarely the tenant posts: it may be short,
 * or empty, and still have a next page, and it reports how far back it has read. If a tag is requested, the rows of
 * `tags` lead to the bundles.
 *
 * Bodies are read only from the requested bundles, in portions, and up to a bound.
 */

import {
  bundleOf,
  detailsAt,
  type EventDetails,
  eventAt,
  headersOf,
  indexOf,
  isErased,
  lastEventOf,
  runsInclude,
} from "../core/bundle.ts";
import { databaseNumberOf } from "../core/placement.ts";
import { portioned } from "../core/portions.ts";
import { headerToShow, runsIn } from "../core/stored-bundle.ts";
import { bundlesOf, inShares, LISTED_BUNDLES, readContents, sharesOf } from "./bundles.ts";
import { allOf, type Databases, select } from "./databases.ts";
import { type Cutoffs, type EventConditions, isEventWanted, oldAmong } from "./delivery-filter.ts";
import { mergedParts, type PartialList } from "./merge.ts";
import { jsonOrEmpty } from "./sql.ts";
import { type IdRange, idRangeOf } from "./time-ranges.ts";

/** Bundles that one page looks at in each database, and those among them whose headers it takes. */
export const BUNDLES_LOOKED_AT = 2_000;
const BUNDLES_TAKEN = 200;
/** Bytes of bodies read at once and in all, those of other events in the same bundles included. */
const PORTION_BYTES = 2 * 1024 * 1024;
const MOST_BYTES = 8 * 1024 * 1024;

export type ListedEvent = EventDetails &
  Readonly<{
    id: number;
    acceptedAt: number;
    deliverAt: number | null;
    /** Whether the requested destination gets it. */
    isPlanned: boolean;
    /** The bytes of all bodies of its bundle. */
    bundleBytes: number;
  }>;

/** Where a list continues in a database: with the events whose numbers are smaller. 0: there are none. */
export type EventPosition = number;

/** With the bundles before this one: such a position is no event's number. */
const before = (bundle: number): EventPosition => lastEventOf(bundle - 1);

const START: EventPosition = Number.MAX_SAFE_INTEGER;
const END: EventPosition = 0;

export type ListedEventFilter = EventConditions &
  Readonly<{
    /** Events that are old by it are left out. */
    over: Cutoffs;
  }>;

export type EventListFilter = ListedEventFilter &
  Readonly<{
    /** The destination whose plan is looked up, if any. */
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
  /** Events accepted later than this have been found, epoch ms; undefined on the last page. */
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

export type ListedRow = Readonly<{
  id: number;
  acceptedAt: number;
  deliverAt: number | null;
  header: string;
  runs: string | null;
}>;

/** Events accepted later than `lookedBackTo` have been checked; 0: all of them. */
type Looked = Readonly<{ next: EventPosition | undefined; lookedBackTo: number }>;

const TO_THE_END: Looked = { next: undefined, lookedBackTo: 0 };

async function listedIn(
  db: D1Database,
  { limit, destination, ...filter }: Omit<EventListFilter, "from">,
  position: EventPosition,
): Promise<PartialList<ListedEvent, EventPosition> & Looked> {
  if (position <= eventAt(1, 0)) return { found: [], ...TO_THE_END };
  const range = await idRangeOf(db, filter.accepted ?? {});
  const first = Math.max(1, bundleOf(range.first));
  const last = Math.min(bundleOf(range.last), bundleOf(position - 1));
  const { bundles, rest } = await walkBack<ListedRow>(
    db,
    WALK,
    { first, last },
    filter,
    destination ?? "none",
  );
  const looked = rest ? { next: before(rest.bundle), lookedBackTo: rest.acceptedAt } : TO_THE_END;
  const wanted = bundles
    .flatMap(listedEventsIn)
    .filter((event) => event.id < position && isEventWanted(filter, event));
  const isOld = await oldAmong(filter.over, wanted);
  const found = wanted.filter((event) => !isOld(event));
  const shown = found.slice(0, limit);
  const cut = found.length > limit ? shown.at(-1) : undefined;
  return { found: shown, ...(cut ? { next: cut.id, lookedBackTo: cut.acceptedAt } : looked) };
}

const HEADER = jsonOrEmpty("header");

/** The newest bundle of those that are left. Ids are dense, but for what retention has removed: gaps are jumped over here. */
const TOP = "(SELECT max(id) FROM bundles WHERE id BETWEEN ?1 AND ?2)";

/** The first bundle that the page does not look at. */
const BELOW = `
  SELECT id, accepted_at AS acceptedAt FROM bundles WHERE id BETWEEN ?1 AND ${TOP} - ${BUNDLES_LOOKED_AT}
  ORDER BY id DESC LIMIT 1`;

/** The plan is read for one destination: it may name a thousand. */
const WALK = walkBackSql(
  "id, accepted_at AS acceptedAt, deliver_at AS deliverAt, header, iif(json_valid(plan), plan -> ('$.' || ?6), NULL) AS runs",
  BUNDLES_TAKEN,
);

type BackwardWalk = Readonly<{ walked: string; tagged: string; most: number }>;

/**
 * SQL: the newest bundles from `?1` to `?2`, at most `most`, for `walkBack`. Either as far as one page looks, those whose
 * headers have the tenant `?3`, types that begin with `?4`, and the tag `?5`, as far as these are not null. They are names as
 * the header has them, with quotation marks: none needs an escape in JSON. Or those of the tag `?5` of the tenant `?3`: the
 * join is in this order, so that the key of `tags` gives the order and nothing is sorted.
 * @param columns with `id` and `acceptedAt`; `?6` is free
 */
export function walkBackSql(columns: string, most: number): BackwardWalk {
  const walked = `
  SELECT ${columns} FROM bundles WHERE id BETWEEN max(?1, ${TOP} - ${BUNDLES_LOOKED_AT - 1}) AND ${TOP}
    AND (?3 IS NULL OR instr(${HEADER} -> '$.tenants', ?3) > 0)
    AND (?4 IS NULL OR instr(${HEADER} -> '$.types', ?4) > 0)
    AND (?5 IS NULL OR instr(${HEADER} -> '$.tags', ?5) > 0)
  ORDER BY id DESC LIMIT ${most}`;
  const tagged = `
  SELECT ${columns} FROM (
    SELECT bundle_id FROM tags WHERE tenant = ?3 AND tag = ?5 AND bundle_id BETWEEN ?1 AND ?2
    ORDER BY bundle_id DESC LIMIT ${most}) t CROSS JOIN bundles ON id = t.bundle_id`;
  return { walked, tagged, most };
}

type WalkedBack<Row> = Readonly<{
  /** Bundles that may have events that are wanted. */
  bundles: readonly Row[];
  /** The position of further bundles: all of them are before this one, and were accepted by then. */
  rest: Readonly<{ bundle: number; acceptedAt: number }> | undefined;
}>;

export async function walkBack<Row extends Readonly<{ id: number; acceptedAt: number }>>(
  db: D1Database,
  { walked, tagged, most }: BackwardWalk,
  { first, last }: IdRange,
  { tenant, types, tag }: EventConditions,
  ...further: readonly string[]
): Promise<WalkedBack<Row>> {
  const isTagged = tag !== undefined && tenant !== undefined;
  const [taken, below] = await db.batch<Row>(
    isTagged
      ? [db.prepare(tagged).bind(first, last, tenant, null, tag, ...further)]
      : [
          db.prepare(walked).bind(first, last, quoted(tenant), startOf(types ?? []), quoted(tag), ...further),
          db.prepare(BELOW).bind(first, last),
        ],
  );
  const bundles = taken?.results ?? [];
  const [full] = bundles.length === most ? bundles.slice(-1) : [];
  const next = full ? { ...full, id: full.id - 1 } : below?.results[0];
  return { bundles, rest: next && { bundle: next.id + 1, acceptedAt: next.acceptedAt } };
}

/** A name as the header has it. */
function quoted(name: string | undefined): string | null {
  return name === undefined ? null : `"${name}"`;
}

/** Only `isEventWanted` distinguishes several patterns. */
function startOf([pattern = "*", ...others]: readonly string[]): string | null {
  if (pattern === "*" || others.length > 0) return null;
  return pattern.endsWith(".*") ? `"${pattern.slice(0, -1)}` : quoted(pattern);
}

/** All events of a bundle, the last one first; none of one that cannot be read. */
export function listedEventsIn({ id, acceptedAt, deliverAt, header, runs }: ListedRow): ListedEvent[] {
  const stored = headerToShow(header);
  if (stored === undefined) return [];
  const bundleBytes = headersOf(stored).reduce((sum, { bytes }) => sum + bytes, 0);
  const planned = runsIn(runs) ?? [];
  return headersOf(stored)
    .flatMap((_, index) => {
      const details = detailsAt(stored, index);
      const isPlanned = runsInclude(planned, index);
      return details
        ? [{ ...details, id: eventAt(id, index), acceptedAt, deliverAt, isPlanned, bundleBytes }]
        : [];
    })
    .reverse();
}

const LISTED = `
  SELECT id, accepted_at AS acceptedAt, deliver_at AS deliverAt, header, NULL AS runs FROM ${LISTED_BUNDLES}`;

export async function eventsById(
  databases: Databases,
  tenant: string,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ListedEvent>> {
  const wanted = new Set(ids);
  const found = await inShares(databases, ids, async (db, share) =>
    (await select<ListedRow>(db, LISTED, bundlesOf(share))).flatMap(listedEventsIn),
  );
  const own = found.filter((event) => wanted.has(event.id) && event.tenant === tenant);
  return new Map(own.map((event) => [event.id, event]));
}

// ── Bodies ──

/** The facts that decide which bodies are read together. */
type Sized = Pick<ListedEvent, "id" | "bundleBytes">;

/**
 * How many of the events, from the first on, have bundles within the bound of bytes; those of one bundle in any case.
 * @param isAsked whether an event's body is requested: the others cost nothing
 */
export function countWithinBytes<E extends Sized>(events: readonly E[], isAsked: (event: E) => boolean) {
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
    for (const portion of byBytes(share)) {
      const ids = bundlesOf(portion.map(({ id }) => id));
      type Row = { id: number; header: string; body: string };
      for (const { id, header, body } of await select<Row>(db, BODIES, ids)) {
        const stored = headerToShow(header);
        const contents = stored && (await readContents(body, stored));
        for (const event of portion) {
          const index = indexOf(event.id);
          if (bundleOf(event.id) === id)
            use(event, stored && isErased(stored, index) ? undefined : contents?.[index]?.body);
        }
      }
    }
  }
}

function byBytes<E extends Sized>(events: readonly E[]): E[][] {
  const groups = [...Map.groupBy(events, ({ id }) => bundleOf(id)).values()];
  return portioned(groups, ([first]) => first?.bundleBytes ?? 0, PORTION_BYTES).map((some) => some.flat());
}
