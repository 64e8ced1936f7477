/**
 * Destinations: stored, listed and changed; and their sealed secrets.
 *
 * A deleted destination stays as a tombstone for the deliveries that were planned for it; none of the functions that take
 * a tenant finds it. `tenant`, where given, hides the destinations of others.
 */

import { and, asc, desc, eq, gt, isNull, lt, ne, type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { PreviousSecret } from "../core/credentials.ts";
import type { PinChanges } from "../core/event-versions.ts";
import type { TransformVersion } from "../core/transform/versions.ts";
import { givenColumns, modelOf, type RawRow } from "./columns.ts";
import { repeatable, select } from "./databases.ts";
import { type Destination, destinations, LISTED_DESTINATIONS } from "./destination.ts";
import { pinned } from "./event-versions.ts";
import { countUpTo, OWN_DESTINATIONS } from "./sql.ts";
import { nextVersion } from "./transforms.ts";

export type NewDestination = typeof destinations.$inferInsert;
/** Columns that are undefined stay as they are. */
export type DestinationChange = {
  [K in Exclude<keyof NewDestination, "id" | "tenant" | "createdAt">]?: NewDestination[K] | undefined;
};

type Tenant = string | undefined;

/**
 * Inserts a destination; undefined when the tenant has `most` already or is named like an application, or the id or the
 * `uid` is taken: `isTaken` and `destinationByUid` distinguish these. Raw SQL, because the statement that inserts has to
 * check all of that, so that two at the same moment cannot exceed the limit.
 */
export async function insertDestination(db: D1Database, row: NewDestination, most: number) {
  const raw = await insertion(db, row, most, "ON CONFLICT DO NOTHING").first<RawRow>();
  return raw === null ? undefined : modelOf(destinations, raw);
}

/**
 * Fails, and the transaction with it, if destinations of the list `?1` are missing: it then parses a text that is not
 * JSON.
 */
const ALL_THERE = `
  SELECT json(iif(count(*) = json_array_length(?1), '0', 'missing')) FROM destinations
  WHERE id IN (SELECT value FROM json_each(?1))`;

/** Inserts all of the destinations, or none: undefined when one of them cannot be inserted. */
export async function insertDestinations(
  db: D1Database,
  rows: readonly NewDestination[],
  most: number,
): Promise<readonly Destination[] | undefined> {
  if (rows.length === 0) return [];
  const statements = rows.map((row) => insertion(db, row, most, ""));
  const ids = JSON.stringify(rows.map(({ id }) => id));
  try {
    const results = await db.batch<RawRow>([...statements, db.prepare(ALL_THERE).bind(ids)]);
    return results.slice(0, -1).flatMap(({ results }) => results.map((raw) => modelOf(destinations, raw)));
  } catch (error) {
    if (error instanceof Error && /UNIQUE constraint|malformed JSON/.test(error.message)) return undefined;
    throw error;
  }
}

/** Inserts nothing where the tenant has `most` already, or its name is the `uid` of an application, whose tenant is another. */
function insertion(
  db: D1Database,
  row: NewDestination,
  most: number,
  onConflict: "ON CONFLICT DO NOTHING" | "",
): D1PreparedStatement {
  const { names, values } = givenColumns(destinations, row);
  return db
    .prepare(
      `INSERT INTO destinations (${names}) SELECT ${names.map((_, i) => `?${i + 3}`)}
        WHERE ${countUpTo("?2", `${OWN_DESTINATIONS} AND tenant = ?1`)} < ?2
          AND NOT EXISTS (SELECT 1 FROM applications WHERE uid = ?1)
        ${onConflict} RETURNING *`,
    )
    .bind(row.tenant, most, ...values);
}

/** Whether a destination has that id, deleted ones included. */
export async function isTaken(db: D1Database, id: string): Promise<boolean> {
  return (await db.prepare("SELECT 1 FROM destinations WHERE id = ?1").bind(id).first()) !== null;
}

export async function findDestination(db: D1Database, id: string, tenant: Tenant) {
  return drizzle(db).select().from(destinations).where(undeleted(id, tenant)).get();
}

/** By the `uid` that the tenant has given it. */
export async function destinationByUid(db: D1Database, tenant: string, uid: string) {
  const { deletedAt, tenant: owner, uid: own } = destinations;
  return drizzle(db)
    .select()
    .from(destinations)
    .where(and(eq(owner, tenant), eq(own, uid), isNull(deletedAt)))
    .get();
}

type Page = Readonly<{ tenant: Tenant; after: string | undefined; limit: number; descending?: boolean }>;

/** In order of id. A page reads only the rows that it shows. */
export async function listDestinations(db: D1Database, { tenant, after, limit, descending = false }: Page) {
  return drizzle(db)
    .select()
    .from(destinations)
    .where(
      and(
        isNull(destinations.deletedAt),
        tenant === undefined ? undefined : eq(destinations.tenant, tenant),
        after === undefined ? undefined : (descending ? lt : gt)(destinations.id, after),
      ),
    )
    .orderBy(descending ? desc(destinations.id) : destinations.id)
    .limit(limit);
}

/** The routes of the tenant's destinations that are not paused. */
export async function activeRoutes(
  db: D1Database,
  tenant: string,
): Promise<Pick<Destination, "eventTypes" | "channels">[]> {
  const { eventTypes, channels, status, tenant: owner, deletedAt } = destinations;
  return drizzle(db)
    .select({ eventTypes, channels })
    .from(destinations)
    .where(and(isNull(deletedAt), eq(owner, tenant), ne(status, "paused")));
}

const DELETE_EXPIRED = `
  UPDATE destinations SET deleted_at = ?1, updated_at = ?1 WHERE id IN (
    SELECT id FROM destinations INDEXED BY destinations_expiring
    WHERE expires_at <= ?1 AND deleted_at IS NULL ORDER BY expires_at LIMIT ?2) AND expires_at <= ?1
  RETURNING id`;

/** Makes tombstones of the destinations that had expired by then, the first `most` of them; returns their ids. */
export async function deleteExpired(db: D1Database, by: number, most: number): Promise<string[]> {
  return (await select<{ id: string }>(db, DELETE_EXPIRED, by, most)).map(({ id }) => id);
}

/** The values of columns that a change depends on. */
type Seen = Partial<
  Pick<
    Destination,
    "secret" | "url" | "signatureForms" | "breakerCooldownS" | "breakerMaxCooldownS" | "updatedAt"
  >
>;

/**
 * The row after the change; undefined when there is none, it no longer has the values that were `seen`, or another of its
 * tenant has the `uid` of the change.
 */
export async function changeDestination(
  db: D1Database,
  id: string,
  change: DestinationChange,
  tenant: Tenant,
  seen: Seen = {},
): Promise<Destination | undefined> {
  const unchanged = (Object.keys(seen) as (keyof Seen)[]).map((name) =>
    isSame(destinations[name], seen[name]),
  );
  const { transform, eventVersions, ...others } = change;
  const pins = eventVersions && { eventVersions: pinned(eventVersions as PinChanges) };
  const next = transform && { transform: nextVersion(transform as TransformVersion) };
  return drizzle(db)
    .update(destinations)
    .set({ ...others, ...next, ...pins })
    .where(and(undeleted(id, tenant), ...unchanged, change.uid ? isFree(change.uid) : undefined))
    .returning()
    .get();
}

/** The check is part of the statement, so that two changes at the same moment cannot take one `uid`. */
function isFree(uid: string): SQL {
  const { id, tenant } = destinations;
  return sql`NOT EXISTS (SELECT 1 FROM destinations other WHERE other.tenant = ${tenant} AND other.uid = ${uid}
    AND other.deleted_at IS NULL AND other.id <> ${id})`;
}

/** `IS` is true of two nulls, too. */
function isSame(column: SQLiteColumn, value: unknown): SQL {
  return sql`${column} IS ${value === null ? null : sql.param(value, column)}`;
}

/** The row after the change of its status; undefined when there is none, or it has that status already. */
export async function setDestinationStatus(
  db: D1Database,
  id: string,
  { status, statusReason }: Pick<Destination, "status" | "statusReason">,
  tenant: Tenant,
  now: number,
): Promise<Destination | undefined> {
  return drizzle(db)
    .update(destinations)
    .set({ status, statusReason, statusChangedAt: now, updatedAt: now })
    .where(and(undeleted(id, tenant), ne(destinations.status, status)))
    .returning()
    .get();
}

function undeleted(id: string, tenant: Tenant) {
  return and(
    eq(destinations.id, id),
    isNull(destinations.deletedAt),
    tenant === undefined ? undefined : eq(destinations.tenant, tenant),
  );
}

const BY_IDS = `SELECT d.* FROM ${LISTED_DESTINATIONS} ORDER BY j.key`;

/** By their ids in the order given, deleted ones too; those that are not there are left out. */
export async function destinationsById(
  db: D1Database,
  ids: Iterable<string>,
): Promise<ReadonlyMap<string, Destination>> {
  const wanted = [...new Set(ids)];
  const rows = wanted.length === 0 ? [] : await select<RawRow>(db, BY_IDS, wanted);
  return new Map(rows.map((raw) => [String(raw.id), modelOf(destinations, raw)]));
}

/** The destinations of the deliveries. */
export function destinationsFor(db: D1Database, deliveries: readonly Readonly<{ destinationId: string }>[]) {
  return destinationsById(
    db,
    deliveries.map(({ destinationId }) => destinationId),
  );
}

export type SealedSecrets = Pick<
  Destination,
  "id" | "secret" | "previousSecrets" | "headers" | "sealedHeaders" | "auth" | "targetToken" | "noticeTarget"
> &
  Readonly<{
    /** The columns of headers and `auth` as they are stored, whatever is in them. */
    texts: Readonly<Record<"headers" | "sealedHeaders" | "auth", string | null>>;
  }>;

/** In order of id, deleted destinations too: once a master key is removed, nothing may be sealed with it. */
export async function sealedSecrets(db: D1Database, after: string, limit: number): Promise<SealedSecrets[]> {
  const { id, secret, previousSecrets, headers, sealedHeaders, auth, targetToken, noticeTarget } =
    destinations;
  const texts = {
    headers: sql<string | null>`${headers}`,
    sealedHeaders: sql<string | null>`${sealedHeaders}`,
    auth: sql<string | null>`${auth}`,
  };
  return drizzle(db)
    .select({ id, secret, previousSecrets, headers, sealedHeaders, auth, targetToken, noticeTarget, texts })
    .from(destinations)
    .where(gt(id, after))
    .orderBy(asc(id))
    .limit(limit);
}

const REPLACE_SECRETS = repeatable(`
  UPDATE destinations SET secret = ?3, previous_secrets = ?4 WHERE id = ?1 AND secret = ?2`);

/** Plain headers are cleared when they have been sealed. */
const REPLACE_HEADERS = repeatable(`
  UPDATE destinations SET headers = NULL, sealed_headers = ?4
  WHERE id = ?1 AND headers IS ?2 AND sealed_headers IS ?3`);

/** Replaces one column if it still has the known value `?2`. */
const replacing = (column: "auth" | "target_token" | "notice_target") =>
  repeatable(`UPDATE destinations SET ${column} = ?3 WHERE id = ?1 AND ${column} IS ?2`);

/** The newly sealed fields of a destination. */
export type Replacement = Readonly<{
  before: SealedSecrets;
  secrets?: Readonly<{ secret: string; previousSecrets: readonly PreviousSecret[] }> | undefined;
  sealedHeaders?: Readonly<Record<string, string>> | undefined;
  auth?: Destination["auth"] | undefined;
  targetToken?: string | undefined;
  noticeTarget?: string | undefined;
}>;

/**
 * Replaces values that are unchanged; those that were changed meanwhile have been sealed with the current key anyway.
 * Comparing the current secret is enough: previous ones are never written without it.
 */
export async function replaceSecrets(db: D1Database, replacements: readonly Replacement[]): Promise<void> {
  const statements = replacements.flatMap(
    ({ before, secrets, sealedHeaders, auth, targetToken, noticeTarget }) => {
      const { id, secret, texts } = before;
      const previous = JSON.stringify(secrets?.previousSecrets);
      const headers = [texts.headers, texts.sealedHeaders, JSON.stringify(sealedHeaders)];
      const bound = (sql: string, ...values: unknown[]) => db.prepare(sql).bind(id, ...values);
      return [
        ...(secrets ? [bound(REPLACE_SECRETS, secret, secrets.secret, previous)] : []),
        ...(sealedHeaders ? [bound(REPLACE_HEADERS, ...headers)] : []),
        ...(auth ? [bound(replacing("auth"), texts.auth, JSON.stringify(auth))] : []),
        ...(targetToken ? [bound(replacing("target_token"), before.targetToken, targetToken)] : []),
        ...(noticeTarget ? [bound(replacing("notice_target"), before.noticeTarget, noticeTarget)] : []),
      ];
    },
  );
  if (statements.length > 0) await db.batch(statements);
}
