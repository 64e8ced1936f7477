/**
 * SQL fragments that several statements share: ids of events, headers of bundles, masks of packs, and the conditions of
 * partial indexes. All of them are text that is put into statements, so none takes a value that a user gave. At the
 * end: lists that are bound as values.
 *
 * Partial indexes are named with INDEXED BY where SQLite's planner, which has no statistics on D1, would rather walk
 * the primary key, and with it everything that was ever delivered. The condition of a partial index has to stand in the
 * query literally, or the index cannot be used: so each is written here once.
 */
import { HEADER_VERSION, type StoredHeader } from "../core/bundle.ts";
import { HALF } from "../core/pack.ts";
import { portioned } from "../core/portions.ts";

// ── Events and bundles (core/bundle.ts) ──

/** The id of the bundle that an event is in. By a shift: D1 binds numbers as REAL, and a division of these has a fraction. */
export function bundleIdOf(event: string): string {
  return `(${event} >> 7)`;
}

function indexOf(event: string): string {
  return `(${event} % 128)`;
}

/** Whether an event is in a bundle: as a range, so that the primary key of `deliveries` is used. */
export function isInBundle(event: string, bundle: string): string {
  return `${event} >= ${bundle} * 128 AND ${event} < ${bundle} * 128 + 128`;
}

/** The tenant of an event. @param header the header of its bundle */
export function tenantOf(header: string, event: string): string {
  return nameOf("tenants", header, `(${indexOf(event)} * 3)`);
}

/** The type of an event. @param header the header of its bundle */
export function eventTypeSql(header: string, event: string): string {
  return nameOf("types", header, `(${indexOf(event)} * 3 + 1)`);
}

/** Whether an event has a tag. Only its own tenant's events are in the runs of a tag. @param header that of its bundle */
export function hasTag(header: string, event: string, tag: string): string {
  return isNamed("tags", 1, header, event, tag);
}

/** Whether an event has a channel. @param header that of its bundle */
export function hasChannel(header: string, event: string, channel: string): string {
  return isNamed("channels", 0, header, event, channel);
}

/** Whether the runs of a name have the event in them. @param place of the name in an entry of the list, before its runs */
function isNamed(list: string, place: number, header: string, event: string, name: string): string {
  const runs = `$[${place + 1}]`;
  return `EXISTS (SELECT 1 FROM json_each(${header}, '$.${list}') named JOIN json_each(named.value, '${runs}') run
    WHERE named.value ->> ${place} = ${name} AND run.key % 2 = 0 AND ${indexOf(event)} BETWEEN run.value
      AND (named.value ->> ('${runs}[' || (run.key + 1) || ']')))`;
}

/** Whether the content of an event has been erased. @param header that of its bundle */
export function isErasedSql(header: string, event: string): string {
  return `(${header} -> '$.erased' IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(${header}, '$.erased') run
    WHERE run.key % 2 = 0 AND ${indexOf(event)} BETWEEN run.value
      AND (${header} ->> ('$.erased[' || (run.key + 1) || ']'))))`;
}

function nameOf(list: string, header: string, place: string): string {
  return `(${header} ->> ('$.${list}[' || (${header} ->> ('$.events[' || ${place} || ']')) || ']'))`;
}

/** JSON, or an empty object where it is none: a function of JSON fails its whole statement there. */
export function jsonOrEmpty(json: string): string {
  return `iif(json_valid(${json}), ${json}, '{}')`;
}

/** A list of a header as JSON; an empty one where the header has none, or is no JSON. */
export function listInHeaderSql(header: string, name: keyof StoredHeader): string {
  return `iif(json_valid(${header}) AND json_type(${header}, '$.${name}') = 'array', ${header} -> '$.${name}', '[]')`;
}

/**
 * The fault that makes a bundle unreadable (core/stored-bundle.ts); null: none that is visible without parsing its
 * lists. A JSON function fails its whole statement if one value is not JSON: so statements over many bundles put this
 * first.
 */
export function faultOfBundle(plan: string, header: string): string {
  return `CASE WHEN NOT json_valid(${plan}) OR json_type(${plan}) <> 'object' THEN 'plan'
    ELSE ${faultOfHeader(header)} END`;
}

/** The same for its header alone. */
export function faultOfHeader(header: string): string {
  return `CASE WHEN NOT json_valid(${header}) OR json_type(${header}) <> 'object' THEN 'header'
    WHEN json_type(${header}, '$.version') = 'integer' AND ${header} ->> '$.version' > ${HEADER_VERSION} THEN 'version'
    WHEN NOT (${HEADER_LISTS.map((list) => `coalesce(json_type(${header}, '$.${list}'), '') = 'array'`).join(" AND ")})
      OR json_type(${header}, '$.erased') <> 'array' OR json_type(${header}, '$.tags') <> 'array' THEN 'header' END`;
}

/** The lists that every header has. */
const HEADER_LISTS = ["tenants", "types", "events"] as const;

/** How many events a plan's runs contain. */
export function countInRuns(runs: string): string {
  return `(SELECT coalesce(sum(iif(r.key % 2, r.value + 1, -r.value)), 0) FROM json_each(${runs}) r)`;
}

// ── Masks of packs (core/pack.ts). `&`, `|` and `<<` bind alike in SQLite, so everything is in parentheses ──

/** One of the two integers of a mask. */
export type Half = 0 | 1;

/** The columns of one or more masks, by the half. */
type MaskSql = (half: Half) => string;

/** An expression for both halves: as a list, or joined by an operator. */
export function both(sql: MaskSql, operator?: "|" | "+"): string {
  return operator ? `((${sql(0)}) ${operator} (${sql(1)}))` : `${sql(0)}, ${sql(1)}`;
}

/** The masks of a pack, from the name of its table. */
export const waitingOf = maskOf("waiting");
export const inFlightOf = maskOf("in_flight");
export const deliveredOf = maskOf("delivered");
export const cancelledOf = maskOf("cancelled");
export const endedOf = maskOf("delivered", "cancelled");
/** All deliveries that have a bit. */
export const anyOf = maskOf("waiting", "in_flight", "delivered", "cancelled");

function maskOf(...columns: readonly string[]) {
  return (table = "packs"): MaskSql =>
    (half) =>
      columns.map((column) => `${table}.${column}${half}`).join(" | ");
}

export function hasBit(mask: MaskSql, event: string): string {
  return `${both((half) => `(${mask(half)}) & ${bitOf(event, half)}`, "|")} <> 0`;
}

/** The bit of an event in one half of a mask; 0 when it is in the other. */
function bitOf(event: string, half: Half): string {
  const index = indexOf(event);
  return half === 0
    ? `iif(${index} < ${HALF}, 1 << ${index}, 0)`
    : `iif(${index} < ${HALF}, 0, 1 << (${index} - ${HALF}))`;
}

/** How many deliveries a mask contains: SQLite has no popcount. */
export function countIn(mask: MaskSql): string {
  return both((half) => bitCountOf(mask(half)), "+");
}

/**
 * How many bits are set in a number below 2^50: counted in groups of three, then of six, whose sum is the remainder
 * modulo 63 (HAKMEM, item 169). It is short, because the time that SQLite takes to compile a statement grows with it.
 */
function bitCountOf(number: string): string {
  const threes = `SELECT x - ((x >> 1) & 0x36db6db6db6db) - ((x >> 2) & 0x1249249249249) AS x FROM (SELECT ${number} AS x)`;
  return `(SELECT ((x + (x >> 3)) & 0x71c71c71c71c7) % 63 FROM (${threes}))`;
}

// ── The partial indexes' conditions, to be put behind FROM and continued with AND ──

/** The condition of `packs_waiting`. */
export const HAS_WAITING = "(waiting0 | waiting1) <> 0";

export const WAITING_ROWS = "deliveries INDEXED BY deliveries_waiting WHERE state = 'waiting'";
export const WAITING_PACKS = `packs INDEXED BY packs_waiting WHERE ${HAS_WAITING}`;
export const RETRYING_ROWS = "deliveries INDEXED BY deliveries_retrying WHERE state = 'retrying'";
export const IN_FLIGHT_PACKS = "packs INDEXED BY packs_in_flight WHERE recover_at IS NOT NULL";
export const DEAD_ROWS = "deliveries INDEXED BY deliveries_dead WHERE state = 'dead'";

/** The condition of `replays_under_way`. */
export const IS_UNDER_WAY = "state IN ('running', 'paused')";

/** Destinations that are not deleted, to be continued with a tenant. */
export const OWN_DESTINATIONS = "destinations INDEXED BY destinations_by_tenant WHERE deleted_at IS NULL";

/** How many rows a source has; the limit stands for more, because every row counted is a row read. */
export function countUpTo(limit: string | number, source: string): string {
  return `(SELECT count(*) FROM (SELECT 1 FROM ${source} LIMIT ${limit}))`;
}

// ── Lists as values ──

/** Characters of one value: D1 takes 2 MB (https://developers.cloudflare.com/d1/platform/limits/), at most three each. */
const PORTION = 500_000;

/** The items as JSON arrays that D1 takes as values, in their order; none of no items. */
export function inPortions(items: readonly object[]): string[] {
  const texts = items.map((item) => JSON.stringify(item));
  return portioned(texts, ({ length }) => length, PORTION).map((some) => `[${some.join(",")}]`);
}
