/**
 * The catalogue of event types: the names of a deployment's events and the schemas of their data. It belongs to the
 * operator; principals of tenants read it. Types that are not in it can be posted, too.
 */
import type { EventVersion } from "../../core/bundle.ts";
import {
  isSameShape,
  type JsonSchema,
  MAX_SCHEMA,
  type SchemaFault,
  schemaFaults,
} from "../../core/json-schema.ts";
import { dataFaults } from "../../core/json-schema-check.ts";
import { parsedJson, parseExactly, withPlainNumbers } from "../../core/json-value.ts";
import {
  conflict,
  errorAt,
  errorIf,
  type FieldError,
  invalidField,
  invalidFields,
  missing,
  ok,
} from "../../core/result.ts";
import { wholeDays } from "../../core/retention.ts";
import {
  type EventType,
  findEventType,
  listEventTypes,
  listTypesWithExamples,
  MOST_TYPES,
  MOST_VALIDATED,
  putEventType,
  removeEventType,
} from "../../store/event-types.ts";
import { isoTime } from "../../time.ts";
import { EVENT_TYPE_WORDS, eventType } from "../parameters.ts";
import { retentionErrors } from "../retention/field.ts";
import { service, servicesAbout } from "../service.ts";
import type { EventTypeFields, EventTypeView } from "./schema.ts";

export const readingTypes = { scope: "read", action: "read" } as const;
const operators = "the catalogue belongs to the whole deployment";
export const changingTypes = { scope: "admin", role: "configure", operators } as const;

/** Types by name, at most `limit`. */
export const getEventTypes = service(
  readingTypes,
  async ({ services }, page: Parameters<typeof listEventTypes>[1]) =>
    ok(await listEventTypes(services.db, page)),
);

export const typeService = servicesAbout("event type", ({ services }, name) =>
  findEventType(services.db, name),
);

export const getEventType = typeService(readingTypes, async (_, row) => ok(row));

/** The names of the types that a test event can be of. */
export const getTypesWithExamples = service(readingTypes, async ({ services }, _: undefined) =>
  ok(await listTypesWithExamples(services.db)),
);

/**
 * The catalogue's example of the type's data, or else one of the examples in its schema; undefined if there is none or
 * an edit by hand has made it unreadable.
 */
export function exampleIn({ example, schema }: Pick<EventType, "example" | "schema">, index = 0): unknown {
  if (example !== null) return storedExactly(example) ?? undefined;
  const { examples } = (storedExactly(schema) ?? {}) as { examples?: unknown };
  return Array.isArray(examples) ? examples[index] : undefined;
}

/** The newest version of a type, as events of it carry it; undefined where there is only one. */
export function eventVersionOf({ version, versionAt }: EventType): EventVersion | undefined {
  return version > 1 ? { version, since: versionAt } : undefined;
}

type Replacement = Readonly<{
  name: string;
  fields: EventTypeFields;
  /** The type to replace: null for none; undefined for any. */
  seen?: EventType | null;
}>;

/**
 * Creates or replaces a type. A conflict when it has changed since it was read. A schema of another shape is refused
 * where the type has versions: their conversions were written for the data of this one.
 */
export const replaceEventType = service(
  changingTypes,
  async ({ services, changed }, { name, fields, seen }: Replacement) => {
    const { db, config, now } = services;
    const { description = null, schema, example, validate: validates = false, archived = false } = fields;
    const { retention_days: retentionDays = null } = fields;
    const before = seen === undefined ? await findEventType(db, name) : (seen ?? undefined);
    const errors = [
      ...nameErrors(name),
      ...shapeErrors(fields),
      ...versionErrors(fields, before),
      ...retentionErrors(retentionDays, config),
    ];
    if (errors.length > 0) return invalidFields(errors);
    const texts = { schema: jsonOrNone(schema), example: jsonOrNone(example) };
    const type = { name, description, ...texts, validates, archived, retentionDays };
    const row = await putEventType(db, type, now(), before);
    if (row) {
      changed("event_type.changed", { id: name, tenant: null });
      return ok(row);
    }
    if ((await findEventType(db, name))?.updatedAt === before?.updatedAt) return full(name, validates);
    return conflict("The event type is being changed by other requests at the same time");
  },
);

function versionErrors({ schema }: EventTypeFields, before: EventType | undefined): FieldError[] {
  if (before === undefined || before.version === 1 || !hasOtherShape({ schema: jsonOrNone(schema) }, before))
    return [];
  const { name, version } = before;
  const fault = `is not that of version ${version}, for which conversions were written`;
  const expected = `a new version, by PUT /v1/event-types/${name}/versions/${version + 1}, or the schema as it was`;
  return errorAt("schema", fault, expected);
}

/** Whether another schema has come, and not just other annotations of it. */
export function hasOtherShape(now: Pick<EventType, "schema">, then: Pick<EventType, "schema">): boolean {
  const after = storedJson(now.schema) as JsonSchema | null;
  const before = storedJson(then.schema) as JsonSchema | null;
  return after !== null && (before === null || !isSameShape(after, before));
}

export const deleteEventType = service(changingTypes, async ({ services, changed }, name: string) => {
  if (!(await removeEventType(services.db, name))) {
    if (!(await findEventType(services.db, name))) return missing("event type", name);
    return conflict(
      "The event type has several versions, in which endpoints get its events; archive it instead",
    );
  }
  changed("event_type.deleted", { id: name, tenant: null });
  return ok(undefined);
});

const MAX_EXAMPLE = 16 * 1024;

/** The name is part of the path, and what is created: its faults are those of a field. */
function nameErrors(name: string): FieldError[] {
  if (eventType.safeParse(name).success) return [];
  return errorAt("name", `is ${JSON.stringify(name.slice(0, 60))}`, EVENT_TYPE_WORDS);
}

/** The errors of a schema and its example, and of one that is missing where events are to be validated. */
export function shapeErrors({
  schema,
  example,
  validate,
}: Pick<EventTypeFields, "schema" | "example" | "validate">): FieldError[] {
  const isGiven = schema !== undefined && schema !== null;
  const text = jsonOrNone(schema) ?? "";
  const { length } = jsonOrNone(example) ?? "";
  const isUnchecked = validate === true && !isGiven;
  const errors = [
    ...errorIf(isUnchecked, "validate", "is true, and there is no schema", "a schema beside it"),
    ...(isGiven ? placedFaults("schema", faultsOfSchema(text)) : []),
    ...errorIf(length > MAX_EXAMPLE, "example", `is ${length} characters long`, `at most ${MAX_EXAMPLE}`),
  ];
  if (errors.length > 0 || !isGiven || example === undefined || example === null) return errors;
  return placedFaults("example", dataFaults(storedJson(text) as JsonSchema, withPlainNumbers(example)));
}

/** Numbers as they were written may be longer than the values that are checked. */
export function faultsOfSchema(text: string): readonly SchemaFault[] {
  const { length } = text;
  if (length <= MAX_SCHEMA) return schemaFaults(storedJson(text));
  return [{ pointer: "", fault: `is ${length} characters long`, expected: `at most ${MAX_SCHEMA}` }];
}

/** Each fault with its field and its place in that, as a JSON Pointer. */
export function placedFaults(field: string, faults: readonly SchemaFault[]): FieldError[] {
  return faults.map(({ pointer, ...rest }) => ({ field: `${field}#${pointer}`, ...rest }));
}

function full(name: string, validates: boolean) {
  const validated = validates ? `, and ${MOST_VALIDATED} that are validated` : "";
  const expected = `at most ${MOST_TYPES} types in the catalogue${validated}: delete one that is no longer needed`;
  return invalidField("name", `is ${name}, for which there is no room`, expected);
}

export function jsonOrNone(value: unknown): string | null {
  return value === undefined || value === null ? null : JSON.stringify(value);
}

export function typeView(row: EventType): EventTypeView {
  return {
    name: row.name,
    description: row.description,
    schema: storedExactly(row.schema),
    example: storedExactly(row.example),
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
  return text === null ? null : (parsedJson(text) ?? null);
}

/** The same with each number as it was written, to be shown or sent. */
export function storedExactly(text: string | null): unknown {
  return text === null ? null : (parsedJson(text, parseExactly) ?? null);
}
