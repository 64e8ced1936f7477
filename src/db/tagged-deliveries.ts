/**
 * Deliveries of the events that have a tag: the newest event first, in whatever state, queued ones too.
 *
 * The rows of `tags` lead to the bundles, so foreign and untagged events cost nothing; what a bundle plans for its tagged
 * events is looked up like a page of queued deliveries. A page looks at a bounded number of bundles and deliveries: it may
 * be short, or empty, and still have a next one.
 */
import { bundleOf, eventAt } from "../core/bundle.ts";
import { idRangeOf } from "./bundles.ts";
import { type DeliveryFilter, eventsOver, isRowWanted } from "./delivery-filter.ts";
import {
  type DeliveryPage,
  type FoundDelivery,
  type ListFilter,
  type MergedPage,
  mergedPage,
} from "./delivery-list.ts";
import { destinationsByIds } from "./destinations.ts";
import { rowsIn } from "./packs.ts";
import { BUNDLE_COLUMNS, type BundleRow, foundOf, type Planned, plannedIn } from "./planned-deliveries.ts";
import type { DeliveryKey, StoredState } from "./schema.ts";
import type { Databases } from "./shards.ts";

/** Bundles that one page looks at in a database, planned deliveries looked up at once, and in all. */
const BUNDLES = 50;
const LOOKED_UP = 200;
const LOOKED_AT = 2_000;

type TaggedFilter = Readonly<{ tenant: string; tag: string; state: StoredState | "queued" | undefined }>;

export async function taggedDeliveries(
  databases: Databases,
  tagged: TaggedFilter,
  { before, ...filter }: ListFilter,
): Promise<MergedPage> {
  return mergedPage(databases, {
    before,
    limit: filter.limit,
    order: ({ destinationId, eventId }, acceptedAt) => [acceptedAt, eventId, destinationId],
    pageOf: (db, before) => taggedIn(databases, db, tagged, { ...filter, before }),
  });
}

/** The join is in this order, so that the key of `tags` gives the order and nothing is sorted. */
const TAGGED = `
  SELECT ${BUNDLE_COLUMNS} FROM (
    SELECT bundle_id FROM tags WHERE tenant = ?1 AND tag = ?2 AND bundle_id BETWEEN ?3 AND ?4
    ORDER BY bundle_id DESC LIMIT ${BUNDLES}) t CROSS JOIN bundles ON id = t.bundle_id`;

async function taggedIn(
  databases: Databases,
  db: D1Database,
  { tenant, tag, state }: TaggedFilter,
  filter: DeliveryFilter,
): Promise<DeliveryPage> {
  const { before, limit } = filter;
  const range = await idRangeOf(db, filter.accepted ?? {});
  const last = Math.min(bundleOf(range.last), before ? bundleOf(before.eventId) : Number.MAX_SAFE_INTEGER);
  const { results } = await db
    .prepare(TAGGED)
    .bind(tenant, tag, bundleOf(range.first), last)
    .all<BundleRow>();
  const planned = results
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
  const next = found.length > limit ? shown.at(-1) : restAfter(planned, looked, results);
  return { found: await withoutOver(db, shown, filter), next };
}

/** Where the next page goes on, when all that was looked at is shown. */
function restAfter(
  planned: readonly Planned[],
  looked: number,
  bundles: readonly BundleRow[],
): DeliveryKey | undefined {
  if (looked < planned.length) return planned[looked - 1];
  const last = bundles.at(-1);
  // Sorts behind all deliveries of that bundle.
  return last && bundles.length === BUNDLES
    ? { eventId: eventAt(last.id, 0), destinationId: " " }
    : undefined;
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
  state: TaggedFilter["state"],
  filter: Pick<DeliveryFilter, "status" | "reason" | "limit">,
): boolean {
  if (one.kind === "stored")
    return (state === undefined || one.row.state === state) && isRowWanted(filter, one.row);
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
