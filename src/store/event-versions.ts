/**
 * Versions of event types as they are stored: the newest in the type's own row, which posts are checked by, and all versions of
 * a type that has several in a table of their own. A type with one version has no row there.
 */
import { asc, eq, type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { MOST_CHANGES, type PinChanges, type PublishedVersion } from "../core/event-versions.ts";
import { parsedOr } from "./columns.ts";
import { select } from "./databases.ts";
import { destinations } from "./destination.ts";
import { type EventType, putEventTypes } from "./event-types.ts";
import { eventTypeVersions } from "./schema.ts";

export type StoredVersion = typeof eventTypeVersions.$inferSelect;

/** Versions of a type, all of which a conversion may read. */
export const MOST_VERSIONS = 20;

type Publication = Readonly<{ schema: string; example: string | null; conversion: string }>;

/** Adds a version to a type; undefined when the type is no longer as it was seen. */
export async function insertEventVersion(
  db: D1Database,
  seen: EventType,
  publication: Publication,
  now: number,
): Promise<EventType | undefined> {
  const { name, description, archivedAt } = seen;
  const made = await putEventTypes(
    db,
    [{ name, description, archivedAt, seen, ...publication }],
    undefined,
    now,
  );
  return made?.[0];
}

/** The versions of a type that has several, the first one first. */
export async function listEventVersions(db: D1Database, type: string): Promise<StoredVersion[]> {
  return drizzle(db)
    .select()
    .from(eventTypeVersions)
    .where(eq(eventTypeVersions.type, type))
    .orderBy(asc(eventTypeVersions.version))
    .limit(MOST_VERSIONS);
}

const LISTED = `
  SELECT v.type, v.version, v.published_at AS publishedAt, v.conversions, v.deprecated_at AS deprecatedAt, v.sunset_at AS sunsetAt
  FROM json_each(?1) n CROSS JOIN event_type_versions v ON v.type = n.value`;

/** A version as far as conversions need it. */
export type ConvertingVersion = PublishedVersion & Pick<StoredVersion, "type" | "deprecatedAt" | "sunsetAt">;

export async function versionsOfTypes(
  db: D1Database,
  types: readonly string[],
): Promise<ReadonlyMap<string, readonly ConvertingVersion[]>> {
  type Row = ConvertingVersion & { conversions: string };
  const rows = await select<Row>(db, LISTED, [...new Set(types)]);
  const read = rows.map((row) => ({ ...row, conversions: parsedOr<unknown>(row.conversions, null) }));
  return Map.groupBy(read, ({ type }) => type);
}

type VersionChange = Readonly<{
  conversion?: string | undefined;
  deprecatedAt?: number | null | undefined;
  sunsetAt?: number | null | undefined;
}>;

/** Changes a version; undefined when there is none. Its former conversion stays for events that were accepted before. */
export async function changeEventVersion(
  db: D1Database,
  type: string,
  version: number,
  { conversion, ...dates }: VersionChange,
  now: number,
): Promise<StoredVersion | undefined> {
  const { conversions } = eventTypeVersions;
  const change =
    conversion === undefined ? {} : { conversions: withChange(conversions, { template: conversion }, now) };
  const set = { ...dates, ...change };
  if (Object.values(set).every((value) => value === undefined)) return undefined;
  return drizzle(db)
    .update(eventTypeVersions)
    .set(set)
    .where(sql`${eventTypeVersions.type} = ${type} AND ${eventTypeVersions.version} = ${version}`)
    .returning()
    .get();
}

/**
 * A column of changes with another one at its end. Computed in the statement that saves it, so that each event of the
 * first database is before or after it; unchanged if the last one is the same. When there are too many, the oldest is
 * removed, and the next one applies to its events too.
 */
function withChange(column: SQLiteColumn, change: object, at: number): SQL {
  const stored = sql`iif(json_valid(${column}) AND json_type(${column}) = 'array', ${column}, '[]')`;
  const kept = sql`iif(json_array_length(${stored}) < ${MOST_CHANGES}, ${stored},
    json_replace(json_remove(${stored}, '$[0]'), '$[0].after', -1))`;
  const added = sql`json_insert(${kept}, '$[#]', json_set(${JSON.stringify({ ...change, at })}, '$.after',
    (SELECT coalesce(max(id), 0) FROM bundles)))`;
  const last = sql`json_remove(json_extract(${stored}, '$[#-1]'), '$.at', '$.after')`;
  return sql`iif(${last} = ${JSON.stringify(change)}, ${column}, ${added})`;
}

/** The column of a destination's pins with these from now on. */
export function pinned([change]: PinChanges): SQL {
  const { pins = {}, at = 0 } = change ?? {};
  return withChange(destinations.eventVersions, { pins }, at);
}

/**
 * Notes that a conversion fails for the destination: from now on drains check its waiting deliveries before they
 * request a lease.
 */
export async function noteFailingConversion(db: D1Database, destination: string): Promise<void> {
  await drizzle(db)
    .update(destinations)
    .set({ eventVersions: [] })
    .where(sql`${destinations.id} = ${destination} AND ${destinations.eventVersions} IS NULL`);
}
