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
import { type RetryPolicy, resolveRetry, retrySpec } from "../core/retry/policy.ts";
import { modelOf, type RawRow } from "./columns.ts";
import { destinations } from "./schema.ts";

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
