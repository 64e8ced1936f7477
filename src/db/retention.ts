/**
 * Removing what is old: a bundle, its packs, deliveries and idempotency keys together, in one transaction, once all of
 * its deliveries have ended. What is over in a bundle that stays is hidden by whoever lists it.
 *
 * A row of a delivery without its bundle cannot arise. Whoever writes one has loaded the bundle before, a few
 * minutes ago at the most; and a bundle is removed only when the last of its deliveries ended longer ago than
 * that. The newest bundle always stays, so that no number is given twice.
 */
import { countOf, type Plan, type StoredHeader } from "../core/bundle.ts";
import { isInBundle } from "./bundles.ts";
import { QUIET_MS } from "./delivery-filter.ts";
import { anyOf, countIn, endedOf } from "./packs.ts";
import { allOf, type Databases } from "./shards.ts";
import { fitting, type Position } from "./sweep.ts";

/** A bundle that has been kept for long enough, with what it was planned for. */
export type OldBundle = Readonly<{
  bundle: number;
  acceptedAt: number;
  plan: Plan;
  keys: NonNullable<StoredHeader["keys"]>;
}>;

export type OldPage = Readonly<{
  bundles: readonly OldBundle[];
  /** The last bundle that was looked at; `after` when there was none. */
  upto: number;
  /** Whether everything after it is younger, or there is nothing. */
  isLast: boolean;
}>;

type Row = Readonly<{
  bundle: number;
  acceptedAt: number;
  dueAt: number;
  planned: number;
  plan: string;
  keys: string | null;
}>;

/** Nothing but the first row is read while that is too young. */
const PAGE = `
  SELECT id AS bundle, accepted_at AS acceptedAt, coalesce(deliver_at, accepted_at) AS dueAt, planned, plan,
    header -> '$.keys' AS keys
  FROM bundles WHERE id > ?1 ORDER BY id LIMIT coalesce(
    (SELECT iif(accepted_at <= ?2, ?3, 0) FROM bundles WHERE id > ?1 ORDER BY id LIMIT 1), 0)`;

type Bounds = Readonly<{
  /** Accepted by this, and due by this if they were scheduled: epoch ms. */
  horizon: number;
  bundles: number;
  /** Planned deliveries of them together, unless the first alone has more. */
  deliveries: number;
}>;

/** The next old bundles after one. Those that were accepted before, and are due only after, the horizon are passed. */
export async function oldBundles(db: D1Database, after: number, bounds: Bounds): Promise<OldPage> {
  const { results } = await db.prepare(PAGE).bind(after, bounds.horizon, bounds.bundles).all<Row>();
  const young = results.findIndex(({ acceptedAt }) => acceptedAt > bounds.horizon);
  const old = young < 0 ? results : results.slice(0, young);
  const looked = fitting(old, bounds.deliveries);
  return {
    bundles: looked
      .filter(({ dueAt }) => dueAt <= bounds.horizon)
      .map(({ bundle, acceptedAt, plan, keys }) => ({
        bundle,
        acceptedAt,
        plan: JSON.parse(plan),
        keys: JSON.parse(keys ?? "[]"),
      })),
    upto: looked.at(-1)?.bundle ?? after,
    isLast: looked.length === old.length && old.length < bounds.bundles,
  };
}

/** What is known of destinations where they are stored: in the first database. */
export type Standings = Readonly<{
  /** Their rows are gone: nothing can be delivered to them, and nothing end there. */
  gone: readonly string[];
  /**
   * Replays under way, and the times that they are about: they keep what they may yet come to. Those of deleted
   * destinations come to nothing.
   */
  replays: readonly Readonly<{ destination: string; since: number; until: number }>[];
}>;

const STANDINGS = `
  SELECT p.value AS destination, d.id IS NULL AS gone, r.since, r.until
  FROM json_each(?1) p LEFT JOIN destinations d ON d.id = p.value
    LEFT JOIN replays r ON r.destination_id = d.id AND d.deleted_at IS NULL AND r.state IN ('running', 'paused')
  WHERE d.id IS NULL OR r.id IS NOT NULL`;

export async function standingsOf(first: D1Database, bundles: readonly OldBundle[]): Promise<Standings> {
  const ids = [...new Set(bundles.flatMap(({ plan }) => Object.keys(plan)))];
  type Row = { destination: string; gone: number; since: number | null; until: number | null };
  const { results } = await first.prepare(STANDINGS).bind(JSON.stringify(ids)).all<Row>();
  return {
    gone: results.flatMap(({ destination, gone }) => (gone ? [destination] : [])),
    replays: results.flatMap(({ destination, since, until }) =>
      since === null || until === null ? [] : [{ destination, since, until }],
    ),
  };
}

/** Looked at again here, whatever was seen before: a delivery may have been made to wait again. */
const REMOVE = `
  DELETE FROM bundles WHERE id < (SELECT max(id) FROM bundles) AND id IN (
    SELECT b.value ->> 'bundle' FROM json_each(?1) b
    WHERE b.value ->> 'ends' = (
      SELECT count(*) FROM json_each(b.value -> 'destinations') p
      CROSS JOIN deliveries d ON d.destination_id = p.value AND ${isInBundle("d.event_id", "(b.value ->> 'bundle')")}
      WHERE d.state IN ('delivered', 'dead', 'cancelled') AND coalesce(d.ended_at, 0) <= ?2
    ) + (
      SELECT coalesce(sum(${countIn(endedOf())}), 0) FROM json_each(b.value -> 'destinations') p
      CROSS JOIN packs ON destination_id = p.value AND bundle_id = b.value ->> 'bundle'
      WHERE coalesce(ended_at, 0) <= ?2))
  RETURNING count`;

const GONE = "NOT EXISTS (SELECT 1 FROM bundles WHERE id = b.value ->> 'bundle')";

const REMOVE_DELIVERIES = `
  DELETE FROM deliveries WHERE (destination_id, event_id) IN (
    SELECT d.destination_id, d.event_id FROM json_each(?1) b JOIN json_each(b.value -> 'destinations') p
    CROSS JOIN deliveries d ON d.destination_id = p.value AND ${isInBundle("d.event_id", "(b.value ->> 'bundle')")}
    WHERE ${GONE})`;

const REMOVE_PACKS = `
  DELETE FROM packs WHERE (destination_id, bundle_id) IN (
    SELECT p.value, b.value ->> 'bundle' FROM json_each(?1) b JOIN json_each(b.value -> 'destinations') p WHERE ${GONE})
  RETURNING ${countIn(anyOf())} AS count`;

const REMOVE_KEYS = `
  DELETE FROM idempotency_keys WHERE (tenant, key) IN (
    SELECT k.value ->> 0, k.value ->> 1 FROM json_each(?1) b JOIN json_each(b.value -> 'keys') k WHERE ${GONE})`;

export type Removed = Readonly<{ events: number; deliveries: number }>;

/** Removes those of the bundles whose deliveries have all ended, and with them the deliveries and the keys. */
export async function removeEnded(
  db: D1Database,
  old: readonly OldBundle[],
  { gone, replays }: Standings,
  now: number,
): Promise<Removed> {
  const isMeant = ({ plan, acceptedAt }: OldBundle) =>
    replays.some((one) => plan[one.destination] && acceptedAt >= one.since && acceptedAt < one.until);
  const bundles = old.filter((one) => !isMeant(one));
  if (bundles.length === 0) return { events: 0, deliveries: 0 };
  const isGone = new Set(gone);
  const ending = bundles.map(({ bundle, plan }) => {
    const destinations = Object.keys(plan).filter((id) => !isGone.has(id));
    return { bundle, destinations, ends: destinations.reduce((sum, id) => sum + countOf(plan[id] ?? []), 0) };
  });
  const list = JSON.stringify(
    bundles.map(({ bundle, plan }) => ({ bundle, destinations: Object.keys(plan) })),
  );
  const keys = JSON.stringify(
    bundles.filter(({ keys }) => keys.length > 0).map(({ bundle, keys }) => ({ bundle, keys })),
  );
  const [removed, deliveries, packed] = await db.batch<{ count: number }>([
    db.prepare(REMOVE).bind(JSON.stringify(ending), now - QUIET_MS),
    db.prepare(REMOVE_DELIVERIES).bind(list),
    db.prepare(REMOVE_PACKS).bind(list),
    ...(keys !== "[]" ? [db.prepare(REMOVE_KEYS).bind(keys)] : []),
  ]);
  const sumOf = (counted: D1Result<{ count: number }> | undefined) =>
    (counted?.results ?? []).reduce((sum, { count }) => sum + count, 0);
  return { events: sumOf(removed), deliveries: (deliveries?.meta.changes ?? 0) + sumOf(packed) };
}

/** A deleted destination, and its place in the order in which they were deleted. */
export type Tombstone = Readonly<{ id: string; at: number; row: number }>;

const TOMBSTONES = `
  SELECT id, deleted_at AS at, rowid AS row FROM destinations INDEXED BY destinations_deleted
  WHERE deleted_at IS NOT NULL AND (deleted_at, rowid) > (?1, ?2) AND deleted_at <= ?3
  ORDER BY deleted_at, rowid LIMIT ?4`;

/** The next `limit` destinations after that place that were deleted by then (epoch ms). */
export async function oldTombstones(
  first: D1Database,
  { at, event: row }: Position,
  deletedBy: number,
  limit: number,
): Promise<readonly Tombstone[]> {
  return (await first.prepare(TOMBSTONES).bind(at, row, deletedBy, limit).all<Tombstone>()).results;
}

const REFERRED = `
  SELECT value AS id FROM json_each(?1)
  WHERE EXISTS (SELECT 1 FROM deliveries WHERE destination_id = value)
    OR EXISTS (SELECT 1 FROM packs WHERE destination_id = value)`;

/** Those of the destinations that have no delivery left in any database. */
export async function withoutDeliveries(
  databases: Databases,
  ids: readonly string[],
): Promise<readonly string[]> {
  const list = JSON.stringify(ids);
  const answers = await Promise.all(
    allOf(databases).map((db) => db.prepare(REFERRED).bind(list).all<{ id: string }>()),
  );
  const referred = new Set(answers.flatMap(({ results }) => results.map(({ id }) => id)));
  return ids.filter((id) => !referred.has(id));
}

const REMOVE_TOMBSTONES = `
  DELETE FROM destinations WHERE id IN (SELECT value FROM json_each(?1)) AND deleted_at IS NOT NULL`;

export async function removeTombstones(first: D1Database, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await first.prepare(REMOVE_TOMBSTONES).bind(JSON.stringify(ids)).run();
}
