/**
 * The catalogue of event types, which belongs to the whole deployment. Triggers raise its revision when one that is
 * validated changes (routing-cache.ts).
 */
import { and, asc, desc, eq, gt, isNotNull, isNull, like, lt, or, type SQL } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { portionsOf } from "../core/portions.ts";
import { modelOf, type RawRow } from "./columns.ts";
import { select } from "./databases.ts";
import { eventTypes } from "./schema.ts";
import { countUpTo } from "./sql.ts";

export type EventType = typeof eventTypes.$inferSelect;

/** Types in the catalogue, and those of them that are validated: every isolate that posts keeps their schemas. */
export const MOST_TYPES = 500;
export const MOST_VALIDATED = 100;

/** The limits are part of the statement, so that two changes at the same moment cannot exceed them. */
const PUT = `
  INSERT INTO event_types (name, description, schema, example, validates, archived_at, created_at, updated_at, retention_days)
  SELECT ?1, ?2, ?3, ?4, ?5, iif(?6, ?7, NULL), ?7, ?7, ?8
  WHERE (EXISTS (SELECT 1 FROM event_types WHERE name = ?1) OR ${countUpTo(MOST_TYPES, "event_types")} < ${MOST_TYPES})
    AND (?5 = 0 OR ${countUpTo(MOST_VALIDATED, "event_types WHERE validates = 1 AND name <> ?1")} < ${MOST_VALIDATED})
    AND (SELECT updated_at FROM event_types WHERE name = ?1) IS ?9
  ON CONFLICT (name) DO UPDATE SET description = excluded.description, schema = excluded.schema,
    example = excluded.example, validates = excluded.validates, updated_at = max(excluded.updated_at, updated_at + 1),
    retention_days = excluded.retention_days,
    archived_at = iif(excluded.archived_at IS NULL, NULL, coalesce(archived_at, excluded.archived_at))
  RETURNING *`;

export type EventTypeInput = Pick<
  EventType,
  "name" | "description" | "schema" | "example" | "retentionDays"
> &
  Readonly<{ validates: boolean; archived: boolean }>;

/**
 * Creates or replaces a type; undefined when the catalogue is full, or the type is no longer as it was seen.
 * @param seen what it replaces; undefined for no type
 */
export async function putEventType(
  db: D1Database,
  { name, description, schema, example, validates, archived, retentionDays }: EventTypeInput,
  now: number,
  seen?: Pick<EventType, "updatedAt">,
): Promise<EventType | undefined> {
  const flags = [validates, archived].map(Number);
  const columns = [name, description, schema, example, ...flags, now, retentionDays];
  const [raw] = await select<RawRow>(db, PUT, ...columns, seen?.updatedAt ?? null);
  return raw && modelOf(eventTypes, raw);
}

export async function findEventType(db: D1Database, name: string): Promise<EventType | undefined> {
  return drizzle(db).select().from(eventTypes).where(eq(eventTypes.name, name)).get();
}

type Page = Readonly<{
  /** Whether archived ones are listed too. */
  archived: boolean;
  after: string | undefined;
  limit: number;
  descending?: boolean;
}>;

/** In order of their names. */
export async function listEventTypes(db: D1Database, { archived, after, limit, descending = false }: Page) {
  return drizzle(db)
    .select()
    .from(eventTypes)
    .where(
      and(
        archived ? undefined : isNull(eventTypes.archivedAt),
        after === undefined ? undefined : (descending ? lt : gt)(eventTypes.name, after),
      ),
    )
    .orderBy((descending ? desc : asc)(eventTypes.name))
    .limit(limit);
}

/** The names of types that are not archived, in their order, without the rest, which may be large. */
export async function listTypeNames(db: D1Database, limit: number, which?: SQL): Promise<string[]> {
  const rows = await drizzle(db)
    .select({ name: eventTypes.name })
    .from(eventTypes)
    .where(and(isNull(eventTypes.archivedAt), which))
    .orderBy(asc(eventTypes.name))
    .limit(limit);
  return rows.map(({ name }) => name);
}

/** The same, with the parts in which `exampleIn` (features/event-types) may find an example. */
export function listTypesWithExamples(db: D1Database): Promise<string[]> {
  const { example, schema } = eventTypes;
  return listTypeNames(db, MOST_TYPES, or(isNotNull(example), like(schema, '%"examples"%')));
}

/** Removes a type, unless it has versions, by which its recorded events are converted. Returns whether it has. */
export async function removeEventType(db: D1Database, name: string): Promise<boolean> {
  const removed = await drizzle(db)
    .delete(eventTypes)
    .where(and(eq(eventTypes.name, name), eq(eventTypes.version, 1)))
    .returning({ name: eventTypes.name });
  return removed.length > 0;
}

/** The types of a JSON list of names in `?1`, to be put behind FROM. */
const LISTED_TYPES = "json_each(?1) n CROSS JOIN event_types e ON e.name = n.value";

/** The schemas of types, as JSON; those without one are left out. */
export async function schemasOf(
  db: D1Database,
  names: readonly string[],
): Promise<readonly Readonly<{ name: string; schema: string }>[]> {
  const schemas = `SELECT e.name, e.schema FROM ${LISTED_TYPES} WHERE e.schema IS NOT NULL`;
  return select(db, schemas, [...new Set(names)]);
}

/** Types read at once: each may have a schema and an example of 16 KB. */
const READ_AT_ONCE = 50;

export async function eventTypesByName(
  db: D1Database,
  names: readonly string[],
): Promise<ReadonlyMap<string, EventType>> {
  const found = new Map<string, EventType>();
  for (const some of portionsOf(names, READ_AT_ONCE))
    for (const raw of await select<RawRow>(db, `SELECT e.* FROM ${LISTED_TYPES}`, some))
      found.set(String(raw.name), modelOf(eventTypes, raw));
  return found;
}

export async function newestVersions(
  db: D1Database,
  names: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  type Row = { name: string; version: number };
  const rows = await select<Row>(db, `SELECT e.name, e.version FROM ${LISTED_TYPES}`, names);
  return new Map(rows.map(({ name, version }) => [name, version]));
}

const VERSIONED = `
  SELECT name, version, version_at AS versionAt FROM event_types INDEXED BY event_types_posted
  WHERE version > 1 ORDER BY name LIMIT ${MOST_TYPES}`;

/** The types that have several versions, without the rest, which may be large. */
export function listVersionedTypes(
  db: D1Database,
): Promise<Pick<EventType, "name" | "version" | "versionAt">[]> {
  return select(db, VERSIONED);
}

/** A type as it is to be. */
export type EventTypeWrite = Pick<EventType, "name" | "description" | "schema" | "example" | "archivedAt"> &
  Readonly<{
    /** The type as it was read; undefined for none. */
    seen: EventType | undefined;
    /** The conversion to the version that was read, if schema and example are those of the next version. */
    conversion?: string | undefined;
  }>;

/**
 * The condition that the types are as they were read, and that the catalogue has room for the new ones: every statement
 * of the transaction has it.
 */
const AS_SEEN = `NOT EXISTS (
    SELECT 1 FROM json_each(?1) s LEFT JOIN event_types t ON t.name = s.value ->> 'name'
    WHERE t.updated_at IS NOT s.value ->> 'seen')
  AND (?2 = 0 OR ${countUpTo(MOST_TYPES + 1, "event_types")} + ?2 <= ${MOST_TYPES})`;

const KEEP_FORMER = `
  INSERT INTO event_type_versions (type, version, schema, example, conversions, published_at)
  SELECT e.name, e.version, e.schema, e.example, '[]', e.version_at
  FROM json_each(?3) p CROSS JOIN event_types e ON e.name = p.value ->> 'name' WHERE ${AS_SEEN}
  ON CONFLICT (type, version) DO UPDATE SET schema = excluded.schema, example = excluded.example`;

const ADD_VERSIONS = `
  INSERT INTO event_type_versions (type, version, conversions, published_at)
  SELECT e.name, e.version + 1, json_array(json_object('after', -1, 'at', ?4, 'template', p.value ->> 'conversion')),
    max(?4, e.version_at + 1)
  FROM json_each(?3) p CROSS JOIN event_types e ON e.name = p.value ->> 'name' WHERE ${AS_SEEN}`;

const ARCHIVE_OTHERS = `
  UPDATE event_types SET archived_at = ?4, updated_at = max(?4, updated_at + 1)
  WHERE archived_at IS NULL AND name NOT IN (SELECT value FROM json_each(?3)) AND ${AS_SEEN}`;

const PUT_ALL = `
  INSERT INTO event_types (name, description, schema, example, validates, archived_at, created_at, updated_at)
  SELECT t.value ->> 'name', t.value ->> 'description', t.value ->> 'schema', t.value ->> 'example', 0,
    t.value ->> 'archivedAt', ?4, ?4
  FROM json_each(?3) t WHERE ${AS_SEEN}
  ON CONFLICT (name) DO UPDATE SET description = excluded.description, schema = excluded.schema,
    example = excluded.example, updated_at = max(excluded.updated_at, updated_at + 1), archived_at = excluded.archived_at
  RETURNING name`;

/** A version beyond its type's newest is there within this transaction only, so that the statement needs no other guard. */
const MAKE_NEWEST = `
  UPDATE event_types SET version = version + 1, version_at = max(?2, version_at + 1)
  WHERE name IN (SELECT value ->> 'name' FROM json_each(?1)) AND EXISTS (
    SELECT 1 FROM event_type_versions v WHERE v.type = event_types.name AND v.version = event_types.version + 1)
  RETURNING *`;

/**
 * Creates or replaces types, in one transaction; whether they are validated stays as it was. Undefined, and nothing is
 * written, when one of them is no longer as it was seen, or the catalogue has no room.
 * @param kept if given, all other types are archived
 * @returns the types that have got a version
 */
export async function putEventTypes(
  db: D1Database,
  types: readonly EventTypeWrite[],
  kept: readonly string[] | undefined,
  now: number,
): Promise<readonly EventType[] | undefined> {
  const seen = JSON.stringify(types.map((one) => ({ name: one.name, seen: one.seen?.updatedAt ?? null })));
  const added = types.filter((one) => one.seen === undefined).length;
  const rows = JSON.stringify(types.map(({ seen: _, conversion: __, ...row }) => row));
  const published = types.flatMap(({ name, conversion }) =>
    conversion === undefined ? [] : [{ name, conversion }],
  );
  const versions = JSON.stringify(published);
  const guarded = (statement: string, list: string) => db.prepare(statement).bind(seen, added, list, now);
  const results = await db.batch<RawRow>([
    ...(published.length > 0
      ? [db.prepare(KEEP_FORMER).bind(seen, added, versions), guarded(ADD_VERSIONS, versions)]
      : []),
    ...(kept ? [guarded(ARCHIVE_OTHERS, JSON.stringify(kept))] : []),
    guarded(PUT_ALL, rows),
    ...(published.length > 0 ? [db.prepare(MAKE_NEWEST).bind(versions, now)] : []),
  ]);
  const made = published.length > 0 ? (results.pop()?.results ?? []) : [];
  const isWritten = results.pop()?.results.length === types.length;
  return isWritten ? made.map((raw) => modelOf(eventTypes, raw)) : undefined;
}
