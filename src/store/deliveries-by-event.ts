/**
 * Deliveries by their events: the newest event first, in whatever state, queued ones too.
 *
 * Bundles are walked by their key, or, if a tag is requested, by the rows of `tags`, so that untagged events cost
 * nothing. Deliveries that a bundle plans for its events are looked up like a page of queued deliveries. A page looks
 * at a bounded number of bundles and deliveries: it may be short, or empty, and still have a next one.
 */

import { bundleOf, type DeliveryKey, deliveryName, eventAt } from "../core/bundle.ts";
import type { Databases } from "./databases.ts";
import { type StoredState, storedStatus } from "./delivery.ts";
import { type DeliveryFilter, eventConditionsOf, isRowWanted } from "./delivery-filter.ts";
import {
  type DeliveryPage,
  type FoundDelivery,
  type ListFilter,
  type MergedPage,
  mergedPage,
  withoutOver,
} from "./delivery-list.ts";
import { destinationsFor } from "./destinations.ts";
import { walkBack, walkBackSql } from "./event-list.ts";
import { rowsIn } from "./packs.ts";
import { BUNDLE_COLUMNS, type BundleRow, foundOf, type Planned, plannedIn } from "./planned-deliveries.ts";
import { idRangeOf } from "./time-ranges.ts";

/** Bundles that one page reads in a database; planned deliveries looked up at once, and in all. */
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

const WALK = walkBackSql(BUNDLE_COLUMNS, BUNDLES);

const behindAllOf = (bundle: number): DeliveryKey => ({ eventId: eventAt(bundle, 0), destinationId: " " });

async function pageIn(
  databases: Databases,
  db: D1Database,
  wanted: Wanted,
  filter: DeliveryFilter,
): Promise<DeliveryPage> {
  const { before, limit } = filter;
  const { tenant, tag, state } = wanted;
  const range = await idRangeOf(db, filter.accepted ?? {});
  const within = {
    first: Math.max(1, bundleOf(range.first)),
    last: Math.min(bundleOf(range.last), before ? bundleOf(before.eventId) : Number.MAX_SAFE_INTEGER),
  };
  const asked = eventConditionsOf({ ...filter, tenant, tag });
  const { bundles, rest } = await walkBack<BundleRow>(db, WALK, within, asked);
  const planned = bundles
    .flatMap((row) => plannedIn(row, { ...filter, tenant, tag }).reverse())
    .filter((one) => before === undefined || comesAfter(one, before));
  const found: FoundDelivery[] = [];
  let looked = 0;
  while (looked < Math.min(planned.length, LOOKED_AT) && found.length <= limit) {
    const some = planned.slice(looked, looked + LOOKED_UP);
    looked += some.length;
    const all = await lookedUp(databases, db, some);
    found.push(...all.filter((one) => isWanted(one, state, filter)));
  }
  const shown = found.slice(0, limit);
  const left = looked < planned.length ? planned[looked - 1] : rest && behindAllOf(rest.bundle);
  const next = found.length > limit ? shown.at(-1) : left;
  return { found: await withoutOver(db, shown, filter.over), next };
}

/** Whether it comes after the other in a list by event and destination, descending. */
export function comesAfter(one: DeliveryKey, other: DeliveryKey): boolean {
  if (one.eventId !== other.eventId) return one.eventId < other.eventId;
  return one.destinationId < other.destinationId;
}

async function lookedUp(
  { db: first }: Databases,
  db: D1Database,
  planned: readonly Planned[],
): Promise<FoundDelivery[]> {
  const targets = await destinationsFor(first, planned);
  const pairs = planned.map(({ eventId, destinationId }) => [bundleOf(eventId), destinationId] as const);
  const stored = await rowsIn(db, pairs, targets);
  const rows = new Map(stored.map((row) => [deliveryName(row), row]));
  return planned.map((one) =>
    foundOf(one, rows.get(deliveryName(one)), targets.get(one.destinationId) ?? null),
  );
}

/** A delivery without an outcome is queued, unless its destination is deleted: then it counts as cancelled. */
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
