/**
 * For how long events are kept where a tenant or a type has a time of its own, which is shorter than the deployment's; and
 * what a walk looks for that erases their content. The settings are in the first database, events in all.
 *
 * Raw SQL: `json_each` looks up any number of names in one statement, and the partial indexes, which hold only what has
 * such a setting, are named.
 */
import { destinationsOf, eventAt, type Plan, type StoredHeader } from "../core/bundle.ts";
import { DAY_MS, type Kept, shortest } from "../core/retention.ts";
import type { RawRow } from "./columns.ts";
import { OWN_ROWS_ENDS, PACKS, packedRows, packsOf } from "./packs.ts";

/** What the settings go by. */
type About = Readonly<{ tenant: string; type: string }>;

export type Limits = Readonly<{
  /** For how long an event is kept, in ms; infinite where neither its tenant nor its type says so. */
  keptMs: (about: About) => number;
  /** Whether events of the tenant lose their content once they are delivered. */
  isPayloadFree: (tenant: string) => boolean;
}>;

const LIMITS = `
  SELECT s.tenant, NULL AS type, s.retention_days AS days, s.payload_free AS payloadFree
  FROM json_each(?1) n CROSS JOIN tenant_settings s ON s.tenant = n.value
  UNION ALL
  SELECT NULL, t.name, t.retention_days, 0
  FROM json_each(?2) n CROSS JOIN event_types t ON t.name = n.value WHERE t.retention_days IS NOT NULL`;

type LimitRow = Readonly<{ tenant: string | null; type: string | null; days: unknown; payloadFree: unknown }>;

/** What is set for these tenants and types. */
export async function limitsOf(
  first: D1Database,
  tenants: readonly string[],
  types: readonly string[],
): Promise<Limits> {
  const listed = [tenants, types].map((names) => JSON.stringify([...new Set(names)]));
  const { results } = await first
    .prepare(LIMITS)
    .bind(...listed)
    .all<LimitRow>();
  const ofTenant = new Map(results.map((row) => [row.tenant, row]));
  const ofType = new Map(results.map((row) => [row.type, row]));
  return {
    keptMs: ({ tenant, type }) => shortest(ofTenant.get(tenant)?.days, ofType.get(type)?.days),
    isPayloadFree: (tenant) => ofTenant.get(tenant)?.payloadFree === 1,
  };
}

const OF_TENANT = `
  SELECT NULL AS type, retention_days AS days FROM tenant_settings WHERE tenant = ?1
  UNION ALL
  SELECT name, retention_days FROM event_types INDEXED BY event_types_kept WHERE retention_days IS NOT NULL`;

/** For how long the events of the tenant are kept. @param most the deployment's time, in ms */
export async function keptOfTenant(first: D1Database, tenant: string, most: number): Promise<Kept> {
  const { results } = await first
    .prepare(OF_TENANT)
    .bind(tenant)
    .all<{ type: string | null; days: unknown }>();
  const own = results.find(({ type }) => type === null);
  const ms = Math.min(most, shortest(own?.days));
  const types = results.flatMap(({ type, days }) =>
    type !== null && shortest(days) < ms ? [[type, shortest(days)] as const] : [],
  );
  return { ms, types: Object.fromEntries(types) };
}

const IN_USE = `
  SELECT min((SELECT coalesce(min(retention_days), 1e9) FROM tenant_settings INDEXED BY tenant_settings_kept
      WHERE retention_days >= 1),
    (SELECT coalesce(min(retention_days), 1e9) FROM event_types INDEXED BY event_types_kept
      WHERE retention_days >= 1)) AS days,
    EXISTS (SELECT 1 FROM tenant_settings INDEXED BY tenant_settings_payload_free WHERE payload_free = 1) AS payloadFree`;

/** The shortest time that anything sets, in ms, infinite where nothing does; and whether a tenant keeps no payloads. */
export async function limitsInUse(
  first: D1Database,
): Promise<Readonly<{ shortestMs: number; payloadFree: boolean }>> {
  const row = await first.prepare(IN_USE).first<{ days: number; payloadFree: number }>();
  const days = row?.days ?? 1e9;
  return {
    shortestMs: days < 1e9 ? days * DAY_MS : Number.POSITIVE_INFINITY,
    payloadFree: row?.payloadFree === 1,
  };
}

/** A bundle that a walk has come to: whose events are in it, without what is known of each. */
export type WalkedBundle = Readonly<{
  id: number;
  dueAt: number;
  tenants: readonly string[];
  types: readonly string[];
}>;

/** Reads only one row while the first bundle is too young. */
const WALK = `
  SELECT id, coalesce(deliver_at, accepted_at) AS dueAt, accepted_at AS acceptedAt,
    header -> '$.tenants' AS tenants, header -> '$.types' AS types
  FROM bundles WHERE id > ?1 ORDER BY id LIMIT coalesce(
    (SELECT iif(accepted_at <= ?2, ?3, 0) FROM bundles WHERE id > ?1 ORDER BY id LIMIT 1), 0)`;

type Walked = Readonly<{
  bundles: readonly WalkedBundle[];
  /** The last bundle looked at; `after` when there was none. */
  upto: number;
  /** Whether none comes after it that was accepted by then. */
  isLast: boolean;
}>;

/** The next `limit` bundles after `after` that were accepted by `horizon`, epoch ms. */
export async function walkOn(
  db: D1Database,
  after: number,
  { horizon, limit }: Readonly<{ horizon: number; limit: number }>,
): Promise<Walked> {
  type Row = Readonly<{ id: number; dueAt: number; acceptedAt: number; tenants: string; types: string }>;
  const { results } = await db.prepare(WALK).bind(after, horizon, limit).all<Row>();
  const young = results.findIndex(({ acceptedAt }) => acceptedAt > horizon);
  const old = young < 0 ? results : results.slice(0, young);
  return {
    bundles: old.map(({ id, dueAt, tenants, types }) => ({
      id,
      dueAt,
      tenants: JSON.parse(tenants),
      types: JSON.parse(types),
    })),
    upto: old.at(-1)?.id ?? after,
    isLast: old.length < limit,
  };
}

export type BundleParts = Readonly<{ plan: Plan; header: StoredHeader }>;

const PARTS = "SELECT plan, header FROM bundles WHERE id = ?1";

/** Undefined when the bundle is gone. */
export async function bundleParts(db: D1Database, id: number): Promise<BundleParts | undefined> {
  const row = await db.prepare(PARTS).bind(id).first<{ plan: string; header: string }>();
  return row === null ? undefined : { plan: JSON.parse(row.plan), header: JSON.parse(row.header) };
}

type End = Readonly<{ state: string; endedAt: number | null }>;

/** Destinations of which the deliveries are read at once: they may have a hundred each. */
const DESTINATIONS = 200;

/**
 * Those of a bundle's events all of whose deliveries have ended so.
 * @param isDone whether the end of a delivery counts
 */
export async function eventsDone(
  db: D1Database,
  bundle: number,
  plan: Plan,
  indexes: readonly number[],
  isDone: (end: End) => boolean,
): Promise<number[]> {
  const planned = indexes.map((index) => ({ index, destinations: destinationsOf(plan, index) }));
  const all = [...new Set(planned.flatMap(({ destinations }) => destinations))];
  const done = new Set<string>();
  for (let from = 0; from < all.length; from += DESTINATIONS) {
    const named = JSON.stringify(
      all.slice(from, from + DESTINATIONS).map((destination) => [bundle, destination]),
    );
    const [own, packed] = await db.batch<RawRow>([
      db.prepare(OWN_ROWS_ENDS).bind(named),
      db.prepare(PACKS).bind(named),
    ]);
    const rows = [
      ...((own?.results ?? []) as (End & { destinationId: string; eventId: number })[]),
      ...packsOf(packed?.results ?? []).flatMap((pack) => packedRows(pack, null)),
    ];
    for (const row of rows) if (isDone(row)) done.add(`${row.destinationId} ${row.eventId}`);
  }
  return planned.flatMap(({ index, destinations }) =>
    destinations.every((destination) => done.has(`${destination} ${eventAt(bundle, index)}`)) ? [index] : [],
  );
}
