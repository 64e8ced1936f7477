/**
 * Queued deliveries: first those of unscheduled events that the sweep has not passed yet, the newest event first; then
 * those of scheduled events whose times it has not passed yet, the next due first. An event never changes between the
 * two, so pages neither repeat nor omit a delivery. A page looks at a bounded number of bundles: it may be short, or
 * empty, and still have a next one.
 */
import { bundleOf, type DeliveryKey, deliveryName, eventAt, lastEventOf } from "../core/bundle.ts";
import { beforeFirstBundleOf, databaseNumberOfBundle } from "../core/placement.ts";
import { type Databases, select } from "./databases.ts";
import { comesAfter } from "./deliveries-by-event.ts";
import type { DeliveryFilter } from "./delivery-filter.ts";
import {
  type DeliveryPage,
  type FoundDelivery,
  type ListFilter,
  type MergedPage,
  mergedPage,
  withDestinations,
} from "./delivery-list.ts";
import { knownOf } from "./packs.ts";
import {
  BUNDLE_COLUMNS,
  type BundleRow,
  bundlesById,
  foundOf,
  type Planned,
  plannedIn,
} from "./planned-deliveries.ts";
import { type Position, readCursor, scheduledAfter, WATERMARK } from "./sweep.ts";
import { idRangeOf } from "./time-ranges.ts";

/** Most bundles that one page of queued deliveries reads, and most scheduled ones. */
const SCANNED = 50;
const SCHEDULED = 50;

export async function queuedDeliveries(
  databases: Databases,
  { before, ...filter }: ListFilter,
): Promise<MergedPage> {
  return mergedPage(databases, {
    before,
    limit: filter.limit,
    order: (delivery, acceptedAt) => {
      const { destinationId, eventId } = delivery;
      const deliverAt = delivery.kind === "planned" ? delivery.deliverAt : null;
      return deliverAt === null
        ? [1, acceptedAt, eventId, destinationId]
        : [0, -deliverAt, -eventId, destinationId];
    },
    pageOf: (d1, before) => queuedIn({ databases, d1 }, { ...filter, before }),
  });
}

/** The database of a page, among all of them. */
type Place = Readonly<{ databases: Databases; d1: D1Database }>;

async function queuedIn(place: Place, filter: DeliveryFilter): Promise<DeliveryPage> {
  const after = filter.before && (await scheduledPosition(place.d1, filter.before));
  if (after) return scheduledIn(place, filter, after);
  const { found, next } = await unscheduledIn(place, filter);
  if (next) return { found, next };
  const limit = filter.limit - found.length;
  const scheduled = await scheduledIn(place, { ...filter, before: undefined, limit: Math.max(1, limit) });
  if (limit > 0) return { found: [...found, ...scheduled.found], next: scheduled.next };
  // From the last delivery of this page the next one concludes that only scheduled ones are left.
  const isMore = scheduled.found.length > 0 || scheduled.next !== undefined;
  return { found, next: isMore ? found.at(-1) : undefined };
}

const BOUNDS = `
  SELECT coalesce((${WATERMARK}), 0) AS watermark,
    coalesce((SELECT max(id) FROM bundles), 0) AS newest`;

const UNSCHEDULED = `
  SELECT ${BUNDLE_COLUMNS} FROM bundles WHERE id > ?1 AND id <= ?2 AND deliver_at IS NULL ORDER BY id DESC`;

async function unscheduledIn(place: Place, filter: DeliveryFilter): Promise<DeliveryPage> {
  const { d1 } = place;
  const [bounds, range] = await Promise.all([
    d1.prepare(BOUNDS).first<{ watermark: number; newest: number }>(),
    idRangeOf(d1, filter.accepted ?? {}),
  ]);
  const { watermark, newest } = bounds ?? { watermark: 0, newest: 0 };
  const first = bundleOf(range.first);
  const lowest = Math.max(watermark, first - 1, beforeFirstBundleOf(databaseNumberOfBundle(newest)));
  const { before } = filter;
  const top = Math.min(newest, bundleOf(range.last), before ? bundleOf(before.eventId) : newest);
  const floor = Math.max(lowest, top - SCANNED);
  const bundles = await select<BundleRow>(d1, UNSCHEDULED, floor, top);
  const planned = bundles.flatMap((row) => plannedIn(row, filter).reverse());
  const after = before ? planned.filter((one) => comesAfter(one, before)) : planned;
  const found = await queuedOf(place, after, filter.limit + 1);
  const rest = floor > lowest ? { eventId: eventAt(floor + 1, 0), destinationId: "" } : undefined;
  return pageOf(found, filter.limit, rest);
}

function pageOf(found: readonly FoundDelivery[], limit: number, rest: DeliveryKey | undefined): DeliveryPage {
  const shown = found.slice(0, limit);
  return { found: shown, next: found.length > limit ? shown.at(-1) : rest };
}

/**
 * Where the list of scheduled deliveries continues after this one; undefined when it is unscheduled. A key without a
 * destination is where a page of unscheduled ones stopped.
 */
async function scheduledPosition(d1: D1Database, { destinationId, eventId }: DeliveryKey) {
  if (destinationId === "") return undefined;
  const deliverAt = "SELECT deliver_at AS at FROM bundles WHERE id = ?1";
  const at = await d1.prepare(deliverAt).bind(bundleOf(eventId)).first<number>("at");
  // Its bundle is looked at again: the page may have ended in the middle of it.
  return at === null ? undefined : { at, row: bundleOf(eventId) - 1 };
}

async function scheduledIn(place: Place, filter: DeliveryFilter, from?: Position): Promise<DeliveryPage> {
  const { d1 } = place;
  const after = from ?? (await readCursor(d1, "scheduled_checked"));
  const looked = await scheduledAfter(d1, after, SCHEDULED);
  const byId = new Map((await bundlesById(d1, looked)).map((row) => [row.id, row]));
  const { before } = filter;
  const isAfter = ({ eventId, destinationId }: DeliveryKey) =>
    !before ||
    bundleOf(eventId) !== bundleOf(before.eventId) ||
    eventId > before.eventId ||
    (eventId === before.eventId && destinationId < before.destinationId);
  const planned = looked
    .flatMap((id) => byId.get(id) ?? [])
    .flatMap((row) => scheduledOrder(plannedIn(row, filter)))
    .filter(isAfter);
  const found = await queuedOf(place, planned, filter.limit + 1);
  const last = looked.length < SCHEDULED ? undefined : looked.at(-1);
  // Sorts before every destination: all of that bundle has been looked at.
  const rest = last === undefined ? undefined : { eventId: lastEventOf(last), destinationId: " " };
  return pageOf(found, filter.limit, rest);
}

/** By event ascending, and of one event by destination descending. */
function scheduledOrder(planned: readonly Planned[]): Planned[] {
  return planned.toSorted((a, b) => a.eventId - b.eventId || (a.destinationId < b.destinationId ? 1 : -1));
}

/** Pairs of bundle and destination looked up at once. */
const PAIRS = 200;

/** Planned deliveries that have neither a bit nor a row, and whose destinations are not deleted: at least the first `most`. */
async function queuedOf({ databases, d1 }: Place, planned: readonly Planned[], most: number) {
  const found: FoundDelivery[] = [];
  const nameOf = ({ eventId, destinationId }: DeliveryKey) => `${bundleOf(eventId)} ${destinationId}`;
  for (let from = 0; from < planned.length && found.length < most; ) {
    const names = new Map<string, readonly [number, string]>();
    let to = from;
    for (; to < planned.length && names.size < PAIRS; to++) {
      const one = planned[to];
      if (one) names.set(nameOf(one), [bundleOf(one.eventId), one.destinationId]);
    }
    const known = await knownOf(d1, [...names.values()]);
    const queued = planned
      .slice(from, to)
      .filter((one) => !known.has(deliveryName(one)))
      .map((one) => foundOf(one, undefined, null));
    const placed = await withDestinations(databases, queued);
    found.push(...placed.filter(({ destination }) => destination?.deletedAt === null));
    from = to;
  }
  return found;
}
