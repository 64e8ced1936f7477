/**
 * Applications of the Svix API. Each is the tenant that is named by its id, so that everything else about it is found as
 * for any tenant.
 */
import { asc, desc, eq, gt, lt } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { defaultLimits } from "../../core/limits.ts";
import { modelOf, type RawRow } from "../../store/columns.ts";
import { applications } from "../../store/schema.ts";

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

export async function applicationByUid(db: D1Database, uid: string): Promise<Application | undefined> {
  return drizzle(db).select().from(applications).where(eq(applications.uid, uid)).get();
}

/** SQL: whether a name is that of a tenant with destinations, settings or keys: it has one without an application. */
const isTenant = (name: string) => `(
  EXISTS (SELECT 1 FROM destinations WHERE tenant = ${name} AND deleted_at IS NULL)
  OR EXISTS (SELECT 1 FROM tenant_settings WHERE tenant = ${name} AND deleted_at IS NULL)
  OR EXISTS (SELECT 1 FROM api_keys WHERE tenant = ${name} AND revoked_at IS NULL))`;

const INSERT = `
  INSERT INTO applications (id, uid, name, rate_per_second, metadata, created_at, updated_at)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT ${isTenant("?2")} ON CONFLICT DO NOTHING RETURNING *`;

/** Undefined when the id or the `uid` is taken, or the `uid` is the name of a tenant. */
export async function insertApplication(db: D1Database, row: Application): Promise<Application | undefined> {
  const { id, uid, name, ratePerSecond, metadata, createdAt, updatedAt } = row;
  const values = [id, uid, name, ratePerSecond, metadata && JSON.stringify(metadata), createdAt, updatedAt];
  const raw = await db
    .prepare(INSERT)
    .bind(...values)
    .first<RawRow>();
  return raw === null ? undefined : modelOf(applications, raw);
}

export async function listApplications(db: D1Database, { after, limit, descending = false }: IdPage) {
  const { id } = applications;
  return drizzle(db)
    .select()
    .from(applications)
    .where(after === undefined ? undefined : descending ? lt(id, after) : gt(id, after))
    .orderBy(descending ? desc(id) : asc(id))
    .limit(limit);
}

/** Fields that a change may set; omitted ones stay as they are. */
export type ApplicationChange = {
  readonly [K in "uid" | "name" | "metadata" | "ratePerSecond"]?: Application[K] | undefined;
};

/** SQL: a column after the change `?2`, which is JSON. */
const after = (column: string, field = column) =>
  `iif(json_type(?2, '$.${field}') IS NULL, ${column}, ?2 ->> '${field}')`;

/** The check is part of the statements, so that two changes at the same moment cannot take one `uid`. */
const IS_FREE = `
  NOT EXISTS (SELECT 1 FROM applications WHERE uid = ?2 ->> 'uid' AND id <> ?1) AND NOT ${isTenant("?2 ->> 'uid'")}`;

const CHANGE = `
  UPDATE applications SET uid = ${after("uid")}, name = ${after("name")}, metadata = ${after("metadata")},
    rate_per_second = ${after("rate_per_second", "ratePerSecond")}, updated_at = ?3
  WHERE id = ?1 AND ${IS_FREE} RETURNING *`;

/**
 * Before the change: endpoints with their application's rate have no individual one, and get the new one. If the rate
 * stays, no endpoint is read.
 */
const SPREAD_RATE = `
  UPDATE destinations SET rate_per_second = coalesce(?2 ->> 'ratePerSecond', ?4), updated_at = ?3
  WHERE tenant = (SELECT id FROM applications
      WHERE id = ?1 AND coalesce(rate_per_second, ?4) <> coalesce(?2 ->> 'ratePerSecond', ?4))
    AND deleted_at IS NULL
    AND rate_per_second = (SELECT coalesce(rate_per_second, ?4) FROM applications WHERE id = ?1) AND ${IS_FREE}`;

/**
 * Changes the application, and with its rate that of its endpoints; undefined when it is gone, or its new `uid` is taken.
 * Omitted fields are not written, so that two changes of different fields at the same moment both count.
 */
export async function changeApplication(db: D1Database, id: string, change: ApplicationChange, now: number) {
  const values = [id, JSON.stringify(change), now];
  const spread = db.prepare(SPREAD_RATE).bind(...values, defaultLimits.rate_per_second);
  const changed = db.prepare(CHANGE).bind(...values);
  const results = await db.batch<RawRow>(change.ratePerSecond === undefined ? [changed] : [spread, changed]);
  const raw = results.at(-1)?.results[0];
  return raw && modelOf(applications, raw);
}

/** Attempts per second of an endpoint without an individual rate. */
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
