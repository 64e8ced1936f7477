/**
 * Deliveries by their events: the newest event first, in whatever state, queued ones too.
 *
 * Bundles are walked by their key, or, where a tag is asked for, by the rows of `tags`, so that untagged events cost
 * nothing. Deliveries that a bundle plans for its events are looked up like a page of queued deliveries. A page looks at a
 * bounded number of bundles and deliveries: it may be short, or empty, and still have a next one.
 */

import { bundleOf, type DeliveryKey, eventAt } from "../core/bundle.ts";
import type { Databases } from "./databases.ts";
import { type StoredState, storedStatus } from "./delivery.ts";
import { type DeliveryFilter, eventsOver, isRowWanted } from "./delivery-filter.ts";
import {
  type DeliveryPage,
  type FoundDelivery,
  type ListFilter,
  type MergedPage,
  mergedPage,
} from "./delivery-list.ts";
import { destinationsByIds } from "./destinations.ts";
import { BELOW_WALKED, namesInHeaders, walkedBundles } from "./event-list.ts";
import { rowsIn } from "./packs.ts";
import { BUNDLE_COLUMNS, type BundleRow, foundOf, type Planned, plannedIn } from "./planned-deliveries.ts";
import { idRangeOf } from "./time-ranges.ts";

/** Bundles that one page looks at in a database, planned deliveries looked up at once, and in all. */
const BUNDLES = 50;
const LOOKED_UP = 200;
const LOOKED_AT = 2_000;

type Wanted = Readonly<{
  /** Needed with a tag. */
  tenant?: string | undefined;
  tag?: string | undefined;
  state: StoredState | "queued" | undefined;
}>;

export async function deliveriesByEvent(
  databases: Databases,
  wanted: Wanted,
  { before, ...filter }: ListFilter,
): Promise<MergedPage> {
  return mergedPage(databases, {
    before,
    limit: filter.limit,
    order: ({ destinationId, eventId }, acceptedAt) => [acceptedAt, eventId, destinationId],
    pageOf: (db, before) => pageIn(databases, db, wanted, { ...filter, before }),
  });
}

/** The join is in this order, so that the key of `tags` gives the order and nothing is sorted. */
const TAGGED = `
  SELECT ${BUNDLE_COLUMNS} FROM (
    SELECT bundle_id FROM tags WHERE tenant = ?1 AND tag = ?2 AND bundle_id BETWEEN ?3 AND ?4
    ORDER BY bundle_id DESC LIMIT ${BUNDLES}) t CROSS JOIN bundles ON id = t.bundle_id`;

const WALKED = walkedBundles(BUNDLE_COLUMNS, BUNDLES);

/** Bundles that may have events that are wanted, and where the list continues after them. */
type Walked = Readonly<{ bundles: readonly BundleRow[]; rest: DeliveryKey | undefined }>;

async function bundlesIn(db: D1Database, { tenant, tag }: Wanted, filter: DeliveryFilter): Promise<Walked> {
  const { before, type } = filter;
  const range = await idRangeOf(db, filter.accepted ?? {});
  const first = Math.max(1, bundleOf(range.first));
  const last = Math.min(bundleOf(range.last), before ? bundleOf(before.eventId) : Number.MAX_SAFE_INTEGER);
  if (tag !== undefined) {
    const { results } = await db.prepare(TAGGED).bind(tenant, tag, first, last).all<BundleRow>();
    return { bundles: results, rest: restAfter(results) };
  }
  const named = namesInHeaders({ tenant, types: type === undefined ? undefined : [type] });
  const [walked, below] = await db.batch<BundleRow>([
    db.prepare(WALKED).bind(first, last, ...named),
    db.prepare(BELOW_WALKED).bind(first, last),
  ]);
  const bundles = walked?.results ?? [];
  const next = below?.results[0];
  return { bundles, rest: restAfter(bundles) ?? (next && behindAllOf(next.id + 1)) };
}

/** Sorts behind all deliveries of a bundle. */
const behindAllOf = (bundle: number): DeliveryKey => ({ eventId: eventAt(bundle, 0), destinationId: " " });

/** Where the list continues when there may be more bundles than were taken. */
function restAfter(bundles: readonly BundleRow[]): DeliveryKey | undefined {
  const last = bundles.length === BUNDLES ? bundles.at(-1) : undefined;
  return last && behindAllOf(last.id);
}

async function pageIn(
  databases: Databases,
  db: D1Database,
  wanted: Wanted,
  filter: DeliveryFilter,
): Promise<DeliveryPage> {
  const { before, limit } = filter;
  const { tenant, tag, state } = wanted;
  const { bundles, rest } = await bundlesIn(db, wanted, filter);
  const planned = bundles
    .flatMap((row) => plannedIn(row, { ...filter, tenant, tag }).reverse())
    .filter((one) => before === undefined || isAfter(one, before));
  const found: FoundDelivery[] = [];
  let looked = 0;
  while (looked < Math.min(planned.length, LOOKED_AT) && found.length <= limit) {
    const some = planned.slice(looked, looked + LOOKED_UP);
    looked += some.length;
    const all = await lookedUp(databases, db, some);
    found.push(...all.filter((one) => isWanted(one, state, filter)));
  }
  const shown = found.slice(0, limit);
  const left = looked < planned.length ? planned[looked - 1] : rest;
  const next = found.length > limit ? shown.at(-1) : left;
  return { found: await withoutOver(db, shown, filter), next };
}

/** Whether it comes after the other in the list: by event and destination, descending. */
function isAfter(one: DeliveryKey, other: DeliveryKey): boolean {
  if (one.eventId !== other.eventId) return one.eventId < other.eventId;
  return one.destinationId < other.destinationId;
}

async function lookedUp(
  { db: first }: Databases,
  db: D1Database,
  planned: readonly Planned[],
): Promise<FoundDelivery[]> {
  const ids = [...new Set(planned.map(({ destinationId }) => destinationId))];
  const targets = new Map((await destinationsByIds(first, ids)).map((one) => [one.id, one]));
  const pairs = planned.map(({ eventId, destinationId }) => [bundleOf(eventId), destinationId] as const);
  const stored = await rowsIn(db, pairs, targets);
  const rows = new Map(stored.map((row) => [`${row.eventId} ${row.destinationId}`, row]));
  return planned.map((one) => {
    const row = rows.get(`${one.eventId} ${one.destinationId}`);
    return foundOf(one, row, targets.get(one.destinationId) ?? null);
  });
}

/** One without an outcome is queued, unless its destination is deleted: then it counts as cancelled. */
function isWanted(
  one: FoundDelivery,
  state: Wanted["state"],
  filter: Pick<DeliveryFilter, "status" | "reason" | "limit">,
): boolean {
  if (one.kind === "stored")
    return (state === undefined || storedStatus(one.row).state === state) && isRowWanted(filter, one.row);
  if (filter.status !== undefined || filter.reason !== undefined) return false;
  const isDeleted = one.destination === null || one.destination.deletedAt !== null;
  return state === undefined || state === (isDeleted ? "cancelled" : "queued");
}

async function withoutOver(
  db: D1Database,
  shown: readonly FoundDelivery[],
  { over }: DeliveryFilter,
): Promise<readonly FoundDelivery[]> {
  if (!over) return shown;
  const rows = shown.flatMap((one) => (one.kind === "stored" ? [one.row] : []));
  const gone = await eventsOver(db, rows, over);
  return shown.filter(({ eventId }) => !gone.has(eventId));
}
