/**
 * Applications of the Svix API. Each is the tenant that is named by its id, so that everything else about it is found as
 * for any tenant.
 */
import { asc, desc, gt, lt } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { defaultLimits } from "../core/limits.ts";
import { modelOf, type RawRow } from "./columns.ts";
import { applications } from "./schema.ts";

export type Application = typeof applications.$inferSelect;

/** A page of a list in order of id, from after `after` on. */
export type IdPage = Readonly<{ after: string | undefined; limit: number; descending?: boolean }>;

/** `OR` reads one row of each index. An id takes precedence over the same text as a `uid`. */
const BY_NAME = "SELECT * FROM applications WHERE id = ?1 OR uid = ?1 ORDER BY id = ?1 DESC LIMIT 1";

/** By id or `uid`. */
export async function findApplication(db: D1Database, name: string): Promise<Application | undefined> {
  const raw = await db.prepare(BY_NAME).bind(name).first<RawRow>();
  return raw === null ? undefined : modelOf(applications, raw);
}

/** Undefined when the id or the `uid` is taken. */
export async function insertApplication(db: D1Database, row: Application): Promise<Application | undefined> {
  return drizzle(db).insert(applications).values(row).onConflictDoNothing().returning().get();
}

export async function listApplications(
  db: D1Database,
  { after, limit, descending = false }: IdPage,
): Promise<Application[]> {
  const { id } = applications;
  return drizzle(db)
    .select()
    .from(applications)
    .where(after === undefined ? undefined : descending ? lt(id, after) : gt(id, after))
    .orderBy(descending ? desc(id) : asc(id))
    .limit(limit);
}

/** The check is part of the statement, so that two changes at the same moment cannot take one `uid`. */
const CHANGE = `
  UPDATE applications SET uid = ?2, name = ?3, rate_per_second = ?4, metadata = ?5, updated_at = ?6
  WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM applications WHERE uid = ?2 AND id <> ?1)
  RETURNING *`;

/** Endpoints with the rate of their application have none of their own: they get the new one. */
const SPREAD_RATE = `
  UPDATE destinations SET rate_per_second = ?3, updated_at = ?5
  WHERE tenant = ?1 AND deleted_at IS NULL AND rate_per_second = ?2 AND ?2 <> ?3
    AND EXISTS (SELECT 1 FROM applications WHERE id = ?1 AND uid IS ?4 AND updated_at = ?5)`;

/** Changes the application, and the rate of its endpoints; undefined when it is gone, or its new `uid` is taken. */
export async function changeApplication(
  db: D1Database,
  before: Application,
  row: Application,
): Promise<Application | undefined> {
  const { id, uid, name, ratePerSecond, metadata, updatedAt } = row;
  const [changed] = await db.batch<RawRow>([
    db.prepare(CHANGE).bind(id, uid, name, ratePerSecond, metadata && JSON.stringify(metadata), updatedAt),
    db.prepare(SPREAD_RATE).bind(id, rateOf(before), rateOf(row), uid, updatedAt),
  ]);
  const raw = changed?.results[0];
  return raw && modelOf(applications, raw);
}

/** Attempts per second of an endpoint without a rate of its own. */
export function rateOf({ ratePerSecond }: Pick<Application, "ratePerSecond">): number {
  return ratePerSecond ?? defaultLimits.rate_per_second;
}

const DELETE_DESTINATIONS = `
  UPDATE destinations SET deleted_at = ?2, updated_at = ?2 WHERE tenant = ?1 AND deleted_at IS NULL RETURNING id`;

/** Deletes the application of the tenant, if it has one, and the tenant's destinations, whose ids the last one returns. */
export function applicationDeletion(db: D1Database, tenant: string, now: number): D1PreparedStatement[] {
  return [
    db.prepare("DELETE FROM applications WHERE id = ?1").bind(tenant),
    db.prepare(DELETE_DESTINATIONS).bind(tenant, now),
  ];
}

/** Deletes the application and its destinations; returns the ids of these, which stay as tombstones. */
export async function deleteApplication(db: D1Database, id: string, now: number): Promise<string[]> {
  const [, deleted] = await db.batch<{ id: string }>(applicationDeletion(db, id, now));
  return deleted?.results.map((row) => row.id) ?? [];
}
