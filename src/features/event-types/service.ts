/**
 * The catalogue of event types: what a deployment's events are called and what their data looks like. It belongs to the
 * operator; principals of tenants read it. A type that is not in it can be posted all the same.
 */
import type { EventVersion } from "../../core/bundle.ts";
import { type JsonSchema, type SchemaFault, schemaFaults } from "../../core/json-schema.ts";
import { dataFaults } from "../../core/json-schema-check.ts";
import { type Principal, refuseBound } from "../../core/principal.ts";
import { conflict, type FieldError, invalidFields, missing, ok } from "../../core/result.ts";
import { wholeDays } from "../../core/retention.ts";
import { eventType } from "../../http/parameters.ts";
import {
  type EventType,
  eventTypesByName,
  findEventType,
  listEventTypes,
  listTypeNames,
  listTypesWithExamples,
  MOST_TYPES,
  MOST_VALIDATED,
  putEventType,
  putEventTypes,
  removeEventType,
} from "../../store/event-types.ts";
import { isoTime } from "../../time.ts";
import { retentionErrors } from "../retention/field.ts";
import { service } from "../service.ts";
import type { EventTypeFields, EventTypeView } from "./schema.ts";

export const readingTypes = { scope: "read", action: "read" } as const;
export const changingTypes = { scope: "admin", role: "configure" } as const;

export function refuseBoundToTypes(principal: Principal) {
  return refuseBound(principal, "the catalogue belongs to the whole deployment");
}

/** Types by name, at most `limit`. */
export const getEventTypes = service(
  readingTypes,
  async ({ services }, page: Parameters<typeof listEventTypes>[1]) =>
    ok(await listEventTypes(services.db, page)),
);

export const getEventType = service(readingTypes, async ({ services }, name: string) => {
  const row = await findEventType(services.db, name);
  return row ? ok(row) : missing("event type", name);
});

/** The names of the types that a test event can be of. */
export const getTypesWithExamples = service(readingTypes, async ({ services }, _: undefined) =>
  ok(await listTypesWithExamples(services.db)),
);

/**
 * The catalogue's example of the type's data, or else one of the examples in its schema; undefined where there is none or
 * an edit by hand has made it unreadable.
 */
export function exampleIn({ example, schema }: Pick<EventType, "example" | "schema">, index = 0): unknown {
  if (example !== null) return storedJson(example) ?? undefined;
  const { examples } = (storedJson(schema) ?? {}) as { examples?: unknown };
  return Array.isArray(examples) ? examples[index] : undefined;
}

/** The newest version of a type, as events of it carry it; undefined where there is only one. */
export function eventVersionOf({ version, versionAt }: EventType): EventVersion | undefined {
  return version > 1 ? { version, since: versionAt } : undefined;
}

type Replacement = Readonly<{
  name: string;
  fields: EventTypeFields;
  /** What it replaces: null for no type; undefined for whatever there is. */
  seen?: EventType | null;
}>;

/** Creates or replaces a type. A conflict when it is no longer as it was seen. */
export const replaceEventType = service(
  changingTypes,
  async ({ services, principal, changed }, { name, fields, seen }: Replacement) => {
    const refusal = refuseBoundToTypes(principal);
    if (refusal) return refusal;
    const { db, config, now } = services;
    const { description = null, schema, example, validate: validates = false, archived = false } = fields;
    const { retention_days: retentionDays = null } = fields;
    const errors = [...nameErrors(name), ...inputErrors(fields), ...retentionErrors(retentionDays, config)];
    if (errors.length > 0) return invalidFields(errors);
    const texts = { schema: jsonOrNone(schema), example: jsonOrNone(example) };
    const type = { name, description, ...texts, validates, archived, retentionDays };
    const row = await putEventType(db, type, now(), seen);
    if (row) {
      changed("event_type.changed", { id: name, tenant: null });
      return ok(row);
    }
    if (await isAsSeen(db, name, seen)) return invalidFields([full(name, validates)]);
    return conflict("The event type is being changed by other requests at the same time");
  },
);

async function isAsSeen(db: D1Database, name: string, seen: EventType | null | undefined): Promise<boolean> {
  return seen === undefined || (await findEventType(db, name))?.updatedAt === seen?.updatedAt;
}

export const deleteEventType = service(
  changingTypes,
  async ({ services, principal, changed }, name: string) => {
    const refusal = refuseBoundToTypes(principal);
    if (refusal) return refusal;
    if (!(await removeEventType(services.db, name))) {
      if (!(await findEventType(services.db, name))) return missing("event type", name);
      return conflict(
        "The event type has versions, which endpoints get its events in; it can be archived instead",
      );
    }
    changed("event_type.deleted", { id: name, tenant: null });
    return ok(undefined);
  },
);

/** An imported document's description of a type. */
export type ImportedType = Readonly<{
  name: string;
  description: string;
  schema?: unknown;
  example?: unknown;
}>;

type Import = Readonly<{
  types: readonly ImportedType[];
  /** The field that the document came in, for errors. */
  field: string;
  isDryRun: boolean;
  /** Whether types that are not in the document are archived. */
  replaces: boolean;
}>;

/** Characters of all types together: they are parameters of one statement. */
const MAX_IMPORTED = 1_500_000;

/** Puts all types into the catalogue, or none. Returns the names of those that change. */
export const importEventTypes = service(
  changingTypes,
  async ({ services, principal, changed }, { types, field, isDryRun, replaces }: Import) => {
    const refusal = refuseBoundToTypes(principal);
    if (refusal) return refusal;
    const { db, now } = services;
    const names = types.map(({ name }) => name);
    const before = await eventTypesByName(db, names);
    const rows = types.map((type) => importedRow(type, before.get(type.name)));
    const written = rows.filter((row) => isChange(row, before.get(row.name)));
    const size = JSON.stringify(written).length;
    if (size > MAX_IMPORTED) {
      const expected = `at most ${MAX_IMPORTED}: import the document in parts`;
      return invalidFields([{ field, fault: `gives types of ${size} characters`, expected }]);
    }
    const all = replaces ? await listTypeNames(db, MOST_TYPES) : [];
    const modified = [...written.map(({ name }) => name), ...all.filter((name) => !names.includes(name))];
    if (isDryRun) return ok(modified);
    if (!(await putEventTypes(db, written, replaces ? names : undefined, now()))) {
      const expected = `at most ${MOST_TYPES} types in the catalogue, archived ones included`;
      return invalidFields([{ field, fault: "has more types than there is room for", expected }]);
    }
    for (const name of modified) changed("event_type.changed", { id: name, tenant: null });
    return ok(modified);
  },
);

type ImportedRow = Pick<EventType, "name" | "description" | "schema" | "example">;

/** Without a schema in the document, a type keeps the one that it has; and its example, where that fits still. */
function importedRow(
  { name, description, schema, example }: ImportedType,
  before: EventType | undefined,
): ImportedRow {
  const stored = jsonOrNone(schema) ?? before?.schema ?? null;
  const shape = storedJson(stored) as JsonSchema | null;
  const fits = (one: string | null) =>
    one !== null && (shape === null || dataFaults(shape, storedJson(one)).length === 0);
  const examples = [jsonOrNone(example), before?.example ?? null];
  return { name, description, schema: stored, example: examples.find(fits) ?? null };
}

function isChange(row: ImportedRow, before: EventType | undefined): boolean {
  if (before === undefined || before.archivedAt !== null) return true;
  return (["description", "schema", "example"] as const).some(
    (column) => (row[column] ?? "") !== (before[column] ?? ""),
  );
}

const MAX_EXAMPLE = 16 * 1024;

/** The name is part of the path, and what is created: its faults are those of a field. */
function nameErrors(name: string): FieldError[] {
  const parsed = eventType.safeParse(name);
  if (parsed.success) return [];
  const expected = parsed.error.issues[0]?.message.replace(/^expected /, "") ?? "";
  return [{ field: "name", fault: `is ${JSON.stringify(name.slice(0, 60))}`, expected }];
}

function inputErrors({ schema, example, validate }: EventTypeFields): FieldError[] {
  const isGiven = schema !== undefined && schema !== null;
  const missing = {
    field: "validate",
    fault: "is true, and there is no schema",
    expected: "a schema beside it",
  };
  const errors = [
    ...(validate && !isGiven ? [missing] : []),
    ...(isGiven ? placedFaults("schema", schemaFaults(schema)) : []),
    ...exampleSizeErrors(example),
  ];
  if (errors.length > 0 || !isGiven || example === undefined || example === null) return errors;
  return placedFaults("example", dataFaults(schema as JsonSchema, example));
}

export function exampleSizeErrors(example: unknown): FieldError[] {
  const { length } = jsonOrNone(example) ?? "";
  if (length <= MAX_EXAMPLE) return [];
  return [{ field: "example", fault: `is ${length} characters long`, expected: `at most ${MAX_EXAMPLE}` }];
}

/** Each fault with its field and its place in that, as a JSON Pointer. */
export function placedFaults(field: string, faults: readonly SchemaFault[]): FieldError[] {
  return faults.map(({ pointer, ...rest }) => ({ field: `${field}#${pointer}`, ...rest }));
}

function full(name: string, validates: boolean): FieldError {
  const validated = validates ? `, and ${MOST_VALIDATED} that are validated` : "";
  const expected = `at most ${MOST_TYPES} types in the catalogue${validated}: delete one that is no longer needed`;
  return { field: "name", fault: `is ${name}, for which there is no room`, expected };
}

export function jsonOrNone(value: unknown): string | null {
  return value === undefined || value === null ? null : JSON.stringify(value);
}

export function typeView(row: EventType): EventTypeView {
  return {
    name: row.name,
    description: row.description,
    schema: storedJson(row.schema),
    example: storedJson(row.example),
    validate: row.validates === 1,
    archived: row.archivedAt !== null,
    version: row.version,
    retention_days: wholeDays(row.retentionDays),
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  };
}

/** Null for what an edit by hand has made unreadable. */
export function storedJson(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
