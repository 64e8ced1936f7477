/**
 * Destinations as the API reads and writes them. A deleted one is a tombstone: it stays for what was
 * planned for it, and none of these finds it. `tenant`, where given, hides what belongs to others.
 */
import { and, asc, eq, getTableColumns, gt, type InferSelectModel, isNull, ne } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { z } from "zod";
import type { PreviousSecret } from "../core/credentials.ts";
import type { Pause } from "../core/gate-state.ts";
import {
  type Breaker,
  breakerSchema,
  burstOf,
  defaultBreaker,
  defaultLimits,
  type GateSettings,
  gateSettingsFrom,
  type Limits,
  limitsSchema,
} from "../core/limits.ts";
import { BUNDLE_BITS } from "../core/placement.ts";
import { type RetryPolicy, resolveRetry, retrySpec } from "../core/retry/policy.ts";
import { bundleIdOf } from "./bundles.ts";
import { modelOf, type RawRow } from "./columns.ts";
import { WAITS } from "./packs.ts";
import { destinations } from "./schema.ts";
import { allOf, type Databases } from "./shards.ts";
import { nextWaiting } from "./waiting.ts";

export type NewDestination = typeof destinations.$inferInsert;
/** What is undefined stays as it is. */
export type DestinationChange = {
  [K in Exclude<keyof NewDestination, "id" | "tenant" | "createdAt">]?: NewDestination[K] | undefined;
};

type Tenant = string | undefined;

/**
 * The new row; undefined when the tenant has `most` destinations, or there is one of that id already: `isTaken` says
 * which. Both are found out by the statement that inserts, so that of two at the same moment neither is mistaken.
 */
export async function insertDestination(
  db: D1Database,
  row: NewDestination,
  most: number,
): Promise<Destination | undefined> {
  const given = Object.entries(getTableColumns(destinations)).flatMap(([key, column]) => {
    const value = row[key as keyof NewDestination];
    return value === undefined ? [] : [{ name: column.name, value: value && column.mapToDriverValue(value) }];
  });
  const raw = await db
    .prepare(
      `INSERT INTO destinations (${given.map(({ name }) => name)}) SELECT ${given.map((_, i) => `?${i + 3}`)}
        WHERE (SELECT count(*) FROM (SELECT 1 FROM destinations INDEXED BY destinations_by_tenant
          WHERE tenant = ?1 AND deleted_at IS NULL LIMIT ?2)) < ?2
        ON CONFLICT (id) DO NOTHING RETURNING *`,
    )
    .bind(row.tenant, most, ...given.map(({ value }) => value))
    .first<RawRow>();
  return raw === null ? undefined : modelOf(destinations, raw);
}

/** Whether there is a destination of that id, or was one that is deleted. */
export async function isTaken(db: D1Database, id: string): Promise<boolean> {
  return (await db.prepare("SELECT 1 FROM destinations WHERE id = ?1").bind(id).first()) !== null;
}

export async function findDestination(
  db: D1Database,
  id: string,
  tenant: Tenant,
): Promise<Destination | undefined> {
  return drizzle(db).select().from(destinations).where(living(id, tenant)).get();
}

/** In order of id: a page costs the rows it shows, however many there are. */
export async function listDestinations(
  db: D1Database,
  { tenant, after, limit }: { tenant: Tenant; after: string | undefined; limit: number },
): Promise<Destination[]> {
  return drizzle(db)
    .select()
    .from(destinations)
    .where(
      and(
        isNull(destinations.deletedAt),
        tenant === undefined ? undefined : eq(destinations.tenant, tenant),
        after === undefined ? undefined : gt(destinations.id, after),
      ),
    )
    .orderBy(destinations.id)
    .limit(limit);
}

/** Columns whose values a change was decided on. */
type Seen = Partial<Pick<Destination, "secret" | "breakerCooldownS" | "breakerMaxCooldownS">>;

/**
 * The row as it is after the change, or undefined when there is none to change, or none any more that
 * still holds what was `seen`.
 */
export async function changeDestination(
  db: D1Database,
  id: string,
  change: DestinationChange,
  tenant: Tenant,
  seen: Seen = {},
): Promise<Destination | undefined> {
  const unchanged = (Object.keys(seen) as (keyof Seen)[]).map((name) =>
    eq(destinations[name], seen[name] ?? ""),
  );
  return drizzle(db)
    .update(destinations)
    .set(change)
    .where(and(living(id, tenant), ...unchanged))
    .returning()
    .get();
}

/** The row after the change of its status; undefined when it has that status already, or is not there. */
export async function turnDestination(
  db: D1Database,
  id: string,
  { status, statusReason }: Pick<Destination, "status" | "statusReason">,
  tenant: Tenant,
  now: number,
): Promise<Destination | undefined> {
  return drizzle(db)
    .update(destinations)
    .set({ status, statusReason, statusChangedAt: now, updatedAt: now })
    .where(and(living(id, tenant), ne(destinations.status, status)))
    .returning()
    .get();
}

function living(id: string, tenant: Tenant) {
  return and(
    eq(destinations.id, id),
    isNull(destinations.deletedAt),
    tenant === undefined ? undefined : eq(destinations.tenant, tenant),
  );
}

// §§ A destination's settings as the delivery path uses them, read from its row. A person may have edited
// the row by hand: a limit out of its range counts as its default instead of stopping every delivery.

export type Destination = InferSelectModel<typeof destinations>;

/** What the gate must know of the destination. */
export function gateSettingsOf(row: Destination): GateSettings {
  return gateSettingsFrom(limitsOf(row), breakerOf(row), statusOf(row) === "paused");
}

/** The status that counts. */
export function statusOf({ status }: Pick<Destination, "status">): "active" | "paused" {
  return status === "paused" ? "paused" : "active";
}

/** Since when it is paused, and why; undefined while it is not. */
export function pauseOf(
  row: Pick<Destination, "status" | "statusReason" | "statusChangedAt" | "updatedAt">,
): Pause | undefined {
  if (statusOf(row) !== "paused") return undefined;
  return { at: row.statusChangedAt ?? row.updatedAt, reason: row.statusReason ?? "manual" };
}

/** The limits that count, as a person writes them. */
export function limitsOf(row: Destination): Limits {
  const { rate_burst: _, ...defaults } = defaultLimits;
  const limits = usable(limitsSchema, defaults, {
    timeout_ms: row.timeoutMs,
    max_concurrency: row.maxConcurrency,
    rate_per_second: row.ratePerSecond,
  });
  return { ...limits, rate_burst: ownBurstOf(row) ?? burstOf(limits.rate_per_second) };
}

/** The burst that somebody has set; null when it follows from the rate. */
export function ownBurstOf(row: Pick<Destination, "rateBurst">): number | null {
  return limitsSchema.shape.rate_burst.safeParse(row.rateBurst).data ?? null;
}

/** The breaker that counts, as a person writes it. */
export function breakerOf(row: Destination): Breaker {
  return usable(breakerSchema, defaultBreaker, {
    failure_ratio: row.breakerFailureRatio,
    min_attempts: row.breakerMinAttempts,
    window_s: row.breakerWindowS,
    cooldown_s: row.breakerCooldownS,
    max_cooldown_s: row.breakerMaxCooldownS,
  });
}

const resolved = new WeakMap<object, RetryPolicy>();

/** The destination's retry policy, resolved once per loaded row; the default when what is stored is none. */
export function retryPolicyOf(row: Pick<Destination, "retry">): RetryPolicy {
  const known = resolved.get(row);
  if (known) return known;
  const spec = retrySpec.safeParse(row.retry);
  const policy = resolveRetry(spec.success ? spec.data : undefined);
  resolved.set(row, policy);
  return policy;
}

/** Each value that is in its range, and the default for each that is not. */
function usable<T extends Readonly<Record<string, number>>>(
  schema: z.ZodObject<Record<keyof T & string, z.ZodType<number>>>,
  defaults: T,
  values: T,
): T {
  const isUsable = (name: string) => schema.shape[name as keyof T & string].safeParse(values[name]).success;
  const pairs = Object.keys(defaults).map((name) => [name, (isUsable(name) ? values : defaults)[name]]);
  return Object.fromEntries(pairs) as T;
}

// §§ Which destinations are looked at when there are many. Shown are those in which something goes on: what waits
// first, then what is due next, then what the newest events are for. Rates are made of some that chance chose:
// of those in trouble they would be worse than they are.

/** Retries, the newest bundles, and destinations of these looked at. */
const LOOKED_AT = 1_000;
/** Destinations counted at most. */
const COUNTED = 10_000;

const ACTIVE_CTE = `
  WITH RECURSIVE waiting (id) AS (
    SELECT ${nextWaiting("''")}
    UNION ALL SELECT ${nextWaiting("waiting.id")} FROM waiting WHERE waiting.id IS NOT NULL LIMIT ?2
  ), active (id, rank) AS (
    SELECT id, 1 FROM waiting WHERE id IS NOT NULL
    UNION ALL SELECT destination_id, 2 FROM (
      SELECT destination_id FROM deliveries WHERE state = 'retrying' ORDER BY next_attempt_at LIMIT ${LOOKED_AT})
    UNION ALL SELECT id, 3 FROM (
      SELECT p.key AS id FROM (SELECT plan FROM bundles ORDER BY id DESC LIMIT ${LOOKED_AT}) b
      JOIN json_each(b.plan) p LIMIT ${LOOKED_AT})
  )`;

const ACTIVE_IDS = `${ACTIVE_CTE}
  SELECT id, min(rank) AS rank FROM active GROUP BY id ORDER BY min(rank) LIMIT ?2`;

/** Together with those that were found in other databases, with their ranks. */
const ACTIVE = `${ACTIVE_CTE}
  SELECT d.* FROM (
    SELECT id, min(rank) AS rank FROM (
      SELECT id, rank FROM active UNION ALL SELECT value ->> 'id', value ->> 'rank' FROM json_each(?3))
    GROUP BY id) a JOIN destinations d ON d.id = a.id
  WHERE d.deleted_at IS NULL ORDER BY a.rank, d.id LIMIT ?2`;

const COUNT = `SELECT count(*) AS count FROM (SELECT 1 FROM destinations WHERE deleted_at IS NULL LIMIT ${COUNTED})`;

const OWN_IDS = `SELECT id FROM destinations INDEXED BY destinations_by_tenant
  WHERE tenant = ?1 AND deleted_at IS NULL LIMIT ${COUNTED}`;

/** Four seeks for each: whether something waits, and the last event that came of it anything, as its bundle tells. */
const LIVELINESS = `
  SELECT value AS id,
    EXISTS (SELECT 1 FROM deliveries INDEXED BY deliveries_waiting
      WHERE destination_id = value AND state = 'waiting')
    OR EXISTS (SELECT 1 FROM packs INDEXED BY packs_waiting WHERE destination_id = value AND ${WAITS}) AS waits,
    max(coalesce(${bundleIdOf("(SELECT max(event_id) FROM deliveries WHERE destination_id = value)")}, 0),
      coalesce((SELECT max(bundle_id) FROM packs WHERE destination_id = value), 0)) AS newest
  FROM json_each(?1)`;

const BY_IDS = "SELECT d.* FROM json_each(?1) j CROSS JOIN destinations d ON d.id = j.value ORDER BY j.key";

export type Watched = Readonly<{
  destinations: readonly Destination[];
  /** How many there are in all, 10,000 at most. */
  total: number;
}>;

/** Up to `limit` destinations of the tenant, or of all: all of them, or those in which something goes on. */
export async function watchedDestinations(
  databases: Databases,
  tenant: string | undefined,
  limit: number,
): Promise<Watched> {
  const all = await listDestinations(databases.db, { tenant, after: undefined, limit: limit + 1 });
  if (all.length <= limit) return { destinations: all, total: all.length };
  return tenant === undefined ? liveliestOfAll(databases, limit) : liveliestOf(databases, tenant, limit);
}

async function liveliestOfAll({ db, further = [] }: Databases, limit: number): Promise<Watched> {
  const others = await Promise.all(further.map((one) => one.prepare(ACTIVE_IDS).bind(null, limit).all()));
  const elsewhere = JSON.stringify(others.flatMap(({ results }) => results));
  const [active, count] = await db.batch<RawRow>([
    db.prepare(ACTIVE).bind(null, limit, elsewhere),
    db.prepare(COUNT),
  ]);
  const found = (active?.results ?? []).map((raw) => modelOf(destinations, raw));
  return { destinations: found, total: Number(count?.results[0]?.count ?? 0) };
}

type Liveliness = Readonly<{ id: string; waits: number; newest: number }>;

/** The tenant's own are judged one by one, so that nothing that others have crowds any of them out. */
async function liveliestOf(databases: Databases, tenant: string, limit: number): Promise<Watched> {
  const ids = await ownIds(databases.db, tenant);
  const json = JSON.stringify(ids);
  const answers = await Promise.all(
    allOf(databases).map((db) => db.prepare(LIVELINESS).bind(json).all<Liveliness>()),
  );
  const known = Map.groupBy(
    answers.flatMap(({ results }) => results),
    ({ id }) => id,
  );
  const ranked = ids
    .map((id) => ({ id, ...livelinessOf(known.get(id) ?? []) }))
    .toSorted((a, b) => b.waits - a.waits || b.newest - a.newest);
  const chosen = ranked.slice(0, limit).map(({ id }) => id);
  return { destinations: await destinationsByIds(databases.db, chosen), total: ids.length };
}

/** Over all databases, whose events are numbered apart, at about the same pace. */
function livelinessOf(found: readonly Liveliness[]) {
  return {
    waits: Math.max(0, ...found.map(({ waits }) => waits)),
    newest: Math.max(0, ...found.map(({ newest }) => newest % 2 ** BUNDLE_BITS)),
  };
}

async function ownIds(db: D1Database, tenant: string): Promise<readonly string[]> {
  const { results } = await db.prepare(OWN_IDS).bind(tenant).all<{ id: string }>();
  return results.map(({ id }) => id);
}

/** In the order given; those that are not there are left out. */
export async function destinationsByIds(db: D1Database, ids: readonly string[]): Promise<Destination[]> {
  const { results } = await db.prepare(BY_IDS).bind(JSON.stringify(ids)).all<RawRow>();
  return results.map((raw) => modelOf(destinations, raw));
}

/** Rows of deleted destinations are drawn too, and passed over: so more are drawn than wanted. */
const DRAWN = 4;

const DRAW = `SELECT d.* FROM json_each(?1) j CROSS JOIN destinations d ON d.rowid = j.value
  WHERE d.deleted_at IS NULL ORDER BY j.key LIMIT ?2`;

/**
 * Up to `size` destinations of the tenant, or of all, each as likely as any other. It costs the rows that are
 * drawn, however many there are.
 * @param random uniform in [0, 1)
 */
export async function drawnDestinations(
  { db }: Databases,
  tenant: string | undefined,
  size: number,
  random: () => number,
): Promise<readonly Destination[]> {
  if (tenant !== undefined) return destinationsByIds(db, drawn(await ownIds(db, tenant), size, random));
  const newest = await db.prepare("SELECT max(rowid) AS newest FROM destinations").first<number>("newest");
  const rows = Array.from({ length: DRAWN * size }, () => 1 + Math.floor(random() * (newest ?? 0)));
  const { results } = await db
    .prepare(DRAW)
    .bind(JSON.stringify([...new Set(rows)]), size)
    .all<RawRow>();
  return results.map((raw) => modelOf(destinations, raw));
}

/** So many of them, chosen by chance: the beginning of a shuffle. */
function drawn<T>(all: readonly T[], size: number, random: () => number): T[] {
  const rest = [...all];
  return Array.from({ length: Math.min(size, all.length) }, () => {
    const [one] = rest.splice(Math.floor(random() * rest.length), 1);
    return one as T;
  });
}

// §§ The sealed secrets of all destinations, page by page, for whoever seals them anew.

export type SealedSecrets = Readonly<{
  id: string;
  secret: string;
  previousSecrets: readonly PreviousSecret[] | null;
}>;

/** In order of their ids, the deleted ones too: a key that is taken away must seal nothing any more. */
export async function sealedSecrets(db: D1Database, after: string, limit: number): Promise<SealedSecrets[]> {
  const { id, secret, previousSecrets } = destinations;
  return drizzle(db)
    .select({ id, secret, previousSecrets })
    .from(destinations)
    .where(gt(id, after))
    .orderBy(asc(id))
    .limit(limit);
}

const REPLACE = `
  UPDATE destinations SET secret = ?2, previous_secrets = ?3 WHERE id = ?1 AND secret = ?4`;

export type Replacement = Readonly<{ before: SealedSecrets; after: SealedSecrets }>;

/**
 * Replaces what is still as it was before; what was rotated meanwhile has been sealed with today's key anyway. The
 * current secret tells for those before it: nothing writes them without it.
 */
export async function replaceSecrets(db: D1Database, replacements: readonly Replacement[]): Promise<void> {
  if (replacements.length === 0) return;
  const statement = db.prepare(REPLACE);
  await db.batch(
    replacements.map(({ before, after }) =>
      statement.bind(after.id, after.secret, JSON.stringify(after.previousSecrets), before.secret),
    ),
  );
}
