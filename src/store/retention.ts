/**
 * Retention: removes old bundles with their packs, deliveries and idempotency keys in one transaction, once all of
 * their deliveries have ended, and tombstones of destinations. Lists hide events that are over in bundles that stay.
 *
 * No delivery can be left without its bundle: its writer loaded the bundle at most a few minutes before, and a bundle
 * is removed only when the last of its deliveries ended longer ago than that. The newest bundle always stays, so that
 * no id is used twice.
 *
 * Raw SQL: deciding and removing are one transaction for a whole page of bundles, and every row is billed for reading
 * and for deleting once.
 */

import { eventAt, lengthOf, type Plan, type StoredHeader } from "../core/bundle.ts";
import { type BundleFault, planIn, type UnreadableBundle } from "../core/stored-bundle.ts";
import { type Databases, repeatable, select, selectInAll } from "./databases.ts";
import { QUIET_MS } from "./delivery-filter.ts";
import {
  anyOf,
  bundleIdOf,
  countIn,
  endedOf,
  IS_UNDER_WAY,
  inPortions,
  isInBundle,
  listInHeaderSql,
} from "./sql.ts";
import { fitting, type Position } from "./sweep.ts";
import { oldBundlesSql, untilHorizon } from "./time-ranges.ts";

/** A bundle that has been kept for the retention time. */
type OldBundle = Readonly<{
  bundle: number;
  acceptedAt: number;
  planned: number;
  plan: Plan;
  keys: NonNullable<StoredHeader["keys"]>;
  tenants: StoredHeader["tenants"];
}>;

type OldPage = Readonly<{
  bundles: readonly OldBundle[];
  /** Bundles that cannot be read: whether their deliveries have ended is unknown. */
  unreadable: readonly UnreadableBundle[];
  /** The last bundle read; `after` when there was none. */
  upto: number;
  /** Whether no old bundle comes after it. */
  isLast: boolean;
}>;

type Row = Readonly<{
  bundle: number;
  acceptedAt: number;
  dueAt: number;
  planned: number;
  plan: string;
  keys: string;
  tenants: string;
  fault: Exclude<BundleFault, "version"> | null;
}>;

const PAGE = oldBundlesSql(`
  id AS bundle, accepted_at AS acceptedAt, coalesce(deliver_at, accepted_at) AS dueAt, planned, plan,
    ${listInHeaderSql("header", "keys")} AS keys, ${listInHeaderSql("header", "tenants")} AS tenants,
    iif(json_valid(header) AND json_type(header, '$.tenants') = 'array', NULL, 'header') AS fault`);

type Bounds = Readonly<{
  /** Bundles that were accepted, and due, by then are old; epoch ms. */
  horizon: number;
  /** Most bundles of a page. */
  bundles: number;
  /** Most planned deliveries of a page, unless its first bundle alone has more. */
  deliveries: number;
}>;

/**
 * The next old bundles after `after`, also those with a header of a later version: once everything has ended, the rest
 * of the header does not matter. Scheduled ones that were accepted before the horizon and are due after it are skipped.
 */
export async function oldBundles(db: D1Database, after: number, bounds: Bounds): Promise<OldPage> {
  const rows = await select<Row>(db, PAGE, after, bounds.horizon, bounds.bundles);
  const old = untilHorizon(rows, bounds.horizon);
  const looked = fitting(old, bounds.deliveries);
  const read = looked.filter(({ dueAt }) => dueAt <= bounds.horizon).map(oldBundle);
  return {
    bundles: read.flatMap((one) => ("fault" in one ? [] : [one])),
    unreadable: read.flatMap((one) => ("fault" in one ? [one] : [])),
    upto: looked.at(-1)?.bundle ?? after,
    isLast: looked.length === old.length && old.length < bounds.bundles,
  };
}

function oldBundle({ fault, dueAt: _, ...row }: Row): OldBundle | UnreadableBundle {
  const { bundle } = row;
  const plan = planIn(row.plan);
  if (fault !== null) return { bundle, fault };
  if (plan === undefined) return { bundle, fault: "plan" };
  return { ...row, plan, keys: keysIn(row.keys), tenants: JSON.parse(row.tenants) };
}

/** Without what an edit by hand has put there. */
function keysIn(stored: string): OldBundle["keys"] {
  const keys = JSON.parse(stored) as readonly unknown[];
  return keys.filter((key): key is OldBundle["keys"][number] => Array.isArray(key) && key.length === 2);
}

/** The first database's facts of the bundles' destinations; it alone has destinations and replays. */
type DestinationFacts = Readonly<{
  /** Destinations whose rows are gone: nothing can be delivered to them or end there. */
  gone: readonly string[];
  /**
   * Replays under way, except those of deleted destinations, which will be cancelled: bundles that they may still
   * select stay.
   */
  replays: readonly Readonly<{
    destination: string;
    /** The tenant of a replay of missing deliveries, which may yet plan any of its events. */
    tenant: string | null;
    since: number;
    until: number;
  }>[];
}>;

const FACTS = `
  SELECT p.value AS destination, NULL AS tenant, d.id IS NULL AS gone, r.since, r.until
  FROM json_each(?1) p LEFT JOIN destinations d ON d.id = p.value
    LEFT JOIN replays r ON r.destination_id = d.id AND d.deleted_at IS NULL AND r.${IS_UNDER_WAY}
  WHERE d.id IS NULL OR r.id IS NOT NULL
  UNION ALL
  SELECT r.destination_id, r.tenant, 0, r.since, r.until
  FROM replays r INDEXED BY replays_under_way CROSS JOIN destinations d ON d.id = r.destination_id
  WHERE r.${IS_UNDER_WAY} AND r.include = 'missing' AND d.deleted_at IS NULL`;

export async function destinationFacts(
  first: D1Database,
  bundles: readonly OldBundle[],
): Promise<DestinationFacts> {
  const ids = [...new Set(bundles.flatMap(({ plan }) => Object.keys(plan)))];
  type Row = {
    destination: string;
    tenant: string | null;
    gone: number;
    since: number | null;
    until: number | null;
  };
  const rows = await select<Row>(first, FACTS, ids);
  return {
    gone: rows.flatMap(({ destination, gone }) => (gone ? [destination] : [])),
    replays: rows.flatMap(({ destination, tenant, since, until }) =>
      since === null || until === null ? [] : [{ destination, tenant, since, until }],
    ),
  };
}

/** The rows `d` of a bundle `b` at a destination `p`. */
const ROWS_OF_BUNDLE = `deliveries d
  ON d.destination_id = p.value AND ${isInBundle("d.event_id", "(b.value ->> 'bundle')")}`;

/** Checks again that everything has ended: a delivery may have been requeued, or planned, since the page was read. */
const REMOVE = `
  DELETE FROM bundles WHERE id < (SELECT max(id) FROM bundles) AND id IN (
    SELECT b.value ->> 'bundle' FROM json_each(?1) b
    WHERE b.value ->> 'planned' = (SELECT planned FROM bundles WHERE id = b.value ->> 'bundle')
    AND b.value ->> 'ends' = (
      SELECT count(*) FROM json_each(b.value -> 'destinations') p CROSS JOIN ${ROWS_OF_BUNDLE}
      WHERE d.state IN ('delivered', 'dead', 'cancelled') AND coalesce(d.ended_at, 0) <= ?2
    ) + (
      SELECT coalesce(sum(${countIn(endedOf())}), 0) FROM json_each(b.value -> 'destinations') p
      CROSS JOIN packs ON destination_id = p.value AND bundle_id = b.value ->> 'bundle'
      WHERE coalesce(ended_at, 0) <= ?2))
  RETURNING count`;

/** Whether the statement before has removed a bundle `b`: only then its packs, rows and keys go too. */
const IS_REMOVED = "NOT EXISTS (SELECT 1 FROM bundles WHERE id = b.value ->> 'bundle')";

const REMOVE_DELIVERIES = `
  DELETE FROM deliveries WHERE (destination_id, event_id) IN (
    SELECT d.destination_id, d.event_id FROM json_each(?1) b JOIN json_each(b.value -> 'destinations') p
    CROSS JOIN ${ROWS_OF_BUNDLE}
    WHERE ${IS_REMOVED})`;

const REMOVE_PACKS = `
  DELETE FROM packs WHERE (destination_id, bundle_id) IN (
    SELECT p.value, b.value ->> 'bundle' FROM json_each(?1) b JOIN json_each(b.value -> 'destinations') p WHERE ${IS_REMOVED})
  RETURNING ${countIn(anyOf())} AS count`;

const REMOVE_KEYS = `
  DELETE FROM idempotency_keys WHERE (tenant, key) IN (
    SELECT k.value ->> 0, k.value ->> 1 FROM json_each(?1) b JOIN json_each(b.value -> 'keys') k WHERE ${IS_REMOVED})`;

/** By their range: one index seek for a whole page if there are no results of code. */
const REMOVE_RESULTS = `
  DELETE FROM transform_results WHERE event_id >= ?1 AND event_id <= ?2
    AND NOT EXISTS (SELECT 1 FROM bundles WHERE id = ${bundleIdOf("event_id")})`;

export type Removed = Readonly<{ events: number; deliveries: number }>;

/** Removes the bundles whose deliveries have all ended, with packs, rows and keys. */
export async function removeEnded(
  db: D1Database,
  old: readonly OldBundle[],
  { gone, replays }: DestinationFacts,
  now: number,
): Promise<Removed> {
  const isReplayed = ({ plan, tenants, acceptedAt }: OldBundle) =>
    replays.some(
      ({ destination, tenant, since, until }) =>
        acceptedAt >= since &&
        acceptedAt < until &&
        (plan[destination] || (tenant !== null && tenants.includes(tenant))),
    );
  const bundles = old.filter((one) => !isReplayed(one));
  if (bundles.length === 0) return { events: 0, deliveries: 0 };
  const isGone = new Set(gone);
  const ending = bundles.map(({ bundle, planned, plan }) => {
    const destinations = Object.keys(plan).filter((id) => !isGone.has(id));
    return {
      bundle,
      planned,
      destinations,
      ends: destinations.reduce((sum, id) => sum + lengthOf(plan[id] ?? []), 0),
    };
  });
  const list = JSON.stringify(
    bundles.map(({ bundle, plan }) => ({ bundle, destinations: Object.keys(plan) })),
  );
  const ids = bundles.map(({ bundle }) => bundle);
  const keyed = bundles.flatMap(({ bundle, keys }) => (keys.length > 0 ? [{ bundle, keys }] : []));
  const [removed, deliveries, packed] = await db.batch<{ count: number }>([
    db.prepare(REMOVE).bind(JSON.stringify(ending), now - QUIET_MS),
    db.prepare(REMOVE_DELIVERIES).bind(list),
    db.prepare(REMOVE_PACKS).bind(list),
    db.prepare(REMOVE_RESULTS).bind(eventAt(Math.min(...ids), 0), eventAt(Math.max(...ids) + 1, 0) - 1),
    ...inPortions(keyed).map((portion) => db.prepare(REMOVE_KEYS).bind(portion)),
  ]);
  const sumOf = (counted: D1Result<{ count: number }> | undefined) =>
    (counted?.results ?? []).reduce((sum, { count }) => sum + count, 0);
  return { events: sumOf(removed), deliveries: (deliveries?.meta.changes ?? 0) + sumOf(packed) };
}

const TOMBSTONES = `
  SELECT id, deleted_at AS at, rowid AS row FROM destinations INDEXED BY destinations_deleted
  WHERE deleted_at IS NOT NULL AND (deleted_at, rowid) > (?1, ?2) AND deleted_at <= ?3
  ORDER BY deleted_at, rowid LIMIT ?4`;

/** The next `limit` destinations after the position that were deleted by then (epoch ms). */
export async function oldTombstones(
  first: D1Database,
  { at, row }: Position,
  deletedBy: number,
  limit: number,
): Promise<readonly (Position & Readonly<{ id: string }>)[]> {
  return select(first, TOMBSTONES, at, row, deletedBy, limit);
}

const WITH_DELIVERIES = `
  SELECT value AS id FROM json_each(?1)
  WHERE EXISTS (SELECT 1 FROM deliveries WHERE destination_id = value)
    OR EXISTS (SELECT 1 FROM packs WHERE destination_id = value)`;

/** The destinations that have no delivery left in any database. */
export async function withoutDeliveries(
  databases: Databases,
  ids: readonly string[],
): Promise<readonly string[]> {
  const found = await selectInAll<{ id: string }>(databases, WITH_DELIVERIES, ids);
  const referred = new Set(found.map(({ id }) => id));
  return ids.filter((id) => !referred.has(id));
}

const REMOVE_TOMBSTONES = repeatable(`
  DELETE FROM destinations WHERE id IN (SELECT value FROM json_each(?1)) AND deleted_at IS NOT NULL`);

export async function removeTombstones(first: D1Database, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await first.prepare(REMOVE_TOMBSTONES).bind(JSON.stringify(ids)).run();
}
