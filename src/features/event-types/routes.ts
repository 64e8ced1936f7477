/**
 * The catalogue of event types: what a deployment's events are called and what their data looks like. It belongs to the
 * operator; keys of tenants read it. A type that is not in it can be posted all the same.
 */

import { createRoute, z } from "@hono/zod-openapi";
import { dataFaults, type JsonSchema, type SchemaFault, schemaFaults } from "../../core/json-schema.ts";
import type { FieldError } from "../../core/result.ts";
import { wholeDays } from "../../core/retention.ts";
import { requires } from "../../http/auth.ts";
import type { Api, ApiContext } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  cursorParam,
  eventType,
  jsonAnswer,
  limitParam,
  optionalJson,
  pageFrom,
  pageOf,
  strict,
} from "../../http/parameters.ts";
import { invalid, notFound, type ProblemResponse, problem, problemResponses } from "../../http/problems.ts";
import {
  type EventType,
  findEventType,
  listEventTypes,
  MOST_TYPES,
  MOST_VALIDATED,
  putEventType,
  removeEventType,
} from "../../store/event-types.ts";
import { isoTime } from "../../time.ts";
import { changed } from "../audit/routes.ts";
import { retentionDaysField, retentionErrors } from "../retention/field.ts";

export function registerEventTypes(api: Api): void {
  api.openapi(putType, async (c) => {
    const made = await replaceEventType(c, c.req.valid("param").name, c.req.valid("json"));
    if (made === undefined) throw new Error("Whatever there is, is replaced");
    if (made instanceof Response) return made;
    return "errors" in made ? invalid(made.errors) : c.json(typeView(made), 200);
  });

  api.openapi(getTypes, async (c) => {
    const { archived, limit, cursor: after } = c.req.valid("query");
    const { db } = c.get("services");
    const rows = await listEventTypes(db, { archived: archived === "true", after, limit: limit + 1 });
    return c.json(
      pageFrom(rows.map(typeView), limit, ({ name }) => name),
      200,
    );
  });

  api.openapi(getType, async (c) => {
    const { name } = c.req.valid("param");
    const row = await findEventType(c.get("services").db, name);
    return row ? c.json(typeView(row), 200) : notFound("event type", name);
  });

  api.openapi(deleteType, async (c) => {
    if (c.get("principal").tenant !== undefined) return problem(403, NOT_THE_OPERATOR);
    const { name } = c.req.valid("param");
    const isRemoved = await removeEventType(c.get("services").db, name);
    if (!isRemoved) return notFound("event type", name);
    changed(c, "event_type.deleted", { id: name, tenant: null });
    return c.body(null, 204);
  });
}

/** What `PUT /v1/event-types/{name}` takes; what is left out is removed. */
export type EventTypeFields = z.infer<typeof newEventType>;

/**
 * Creates or replaces a type; undefined when it is no longer as it was seen.
 * @param seen what it replaces: null for no type; undefined for whatever there is
 */
export async function replaceEventType(
  c: ApiContext,
  name: string,
  input: EventTypeFields,
  seen?: EventType | null,
): Promise<EventType | ProblemResponse<403> | Readonly<{ errors: readonly FieldError[] }> | undefined> {
  if (c.get("principal").tenant !== undefined) return problem(403, NOT_THE_OPERATOR);
  const { db, config, now } = c.get("services");
  const { description = null, schema, example, validate: validates = false, archived = false } = input;
  const { retention_days: retentionDays = null } = input;
  const errors = [...nameErrors(name), ...inputErrors(input), ...retentionErrors(retentionDays, config)];
  if (errors.length > 0) return { errors };
  const texts = { schema: textOf(schema), example: textOf(example) };
  const type = { name, description, ...texts, validates, archived, retentionDays };
  const row = await putEventType(db, type, now(), seen);
  if (row) changed(c, "event_type.changed", { id: name, tenant: null });
  return row ?? ((await isAsSeen(db, name, seen)) ? { errors: [full(name, validates)] } : undefined);
}

async function isAsSeen(db: D1Database, name: string, seen: EventType | null | undefined): Promise<boolean> {
  return seen === undefined || (await findEventType(db, name))?.updatedAt === seen?.updatedAt;
}

const NOT_THE_OPERATOR = "The key is bound to a tenant, and the catalogue belongs to the whole deployment";

const MAX_EXAMPLE = 16 * 1024;
const DESCRIPTION_EXPECTED = "expected a string of at most 1000 characters";

export const newEventType = strict({
  description: z.string({ error: DESCRIPTION_EXPECTED }).max(1000, { error: DESCRIPTION_EXPECTED }).nullish(),
  schema: z
    .unknown()
    .optional()
    .openapi({
      description:
        "A JSON Schema (2020-12) of `data`, of 16,384 characters at most. `$ref` leads to `#/$defs` only, a `pattern` has a " +
        "form that is quick to search, and a keyword that would not be checked is refused.",
    }),
  example: z
    .unknown()
    .optional()
    .openapi({ description: "An example of `data`, of 16,384 characters at most; it fits the schema." }),
  validate: z.boolean({ error: "expected true or false" }).optional().openapi({
    description:
      "With true, events of this type whose `data` does not fit the schema are refused; false by default.",
  }),
  archived: z.boolean({ error: "expected true or false" }).optional().openapi({
    description: "With true, the type is no longer listed. Its events are taken, and validated, as before.",
  }),
  retention_days: retentionDaysField.optional(),
}).openapi("NewEventType");

const typeSchema = z
  .object({
    name: z.string(),
    description: z.string().nullable(),
    schema: z.unknown().openapi({ description: "A JSON Schema of `data`; null when there is none." }),
    example: z.unknown().openapi({ description: "An example of `data`; null when there is none." }),
    validate: z.boolean(),
    archived: z.boolean(),
    retention_days: retentionDaysField,
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("EventType", {
    required: ["name", "description", "validate", "archived", "retention_days", "created_at", "updated_at"],
  });

const nameParam = z.object({
  name: z.string().openapi({ description: "The type, as events name it.", example: "invoice.paid" }),
});

const tags = ["Event types"];

const putType = createRoute({
  method: "put",
  path: "/v1/event-types/{name}",
  summary: "Create or replace an event type",
  tags,
  description:
    `The catalogue has at most ${MOST_TYPES} types, of which ${MOST_VALIDATED} are validated. A change applies to the next ` +
    "event posted. What is left out is removed. Not for keys that are bound to a tenant.",
  middleware: [requires("admin"), jsonBody({ mayBeEmpty: true })],
  request: { params: nameParam, body: optionalJson(newEventType) },
  responses: {
    200: jsonAnswer(typeSchema, "The event type."),
    ...problemResponses(400, 401, 403, 413, 415, 422),
  },
});

const getTypes = createRoute({
  method: "get",
  path: "/v1/event-types",
  summary: "List event types",
  tags,
  middleware: [requires("read")],
  request: {
    query: strict({
      archived: z
        .enum(["true", "false"], { error: "expected true or false" })
        .optional()
        .openapi({ description: "With true, archived types are listed too." }),
      limit: limitParam,
      cursor: cursorParam(eventType),
    }),
  },
  responses: {
    200: jsonAnswer(pageOf(typeSchema), "A page of event types, ordered by name."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const getType = createRoute({
  method: "get",
  path: "/v1/event-types/{name}",
  summary: "Show an event type",
  tags,
  middleware: [requires("read")],
  request: { params: nameParam },
  responses: { 200: jsonAnswer(typeSchema, "The event type."), ...problemResponses(401, 403, 404, 429) },
});

const deleteType = createRoute({
  method: "delete",
  path: "/v1/event-types/{name}",
  summary: "Delete an event type",
  tags,
  description: "Its events are no longer validated. To keep its description, archive it instead.",
  middleware: [requires("admin")],
  request: { params: nameParam },
  responses: { 204: { description: "The event type is deleted." }, ...problemResponses(401, 403, 404) },
});

/** Faults of the name are the body's, in a way: it is what is created. */
function nameErrors(name: string): FieldError[] {
  const parsed = eventType.safeParse(name);
  if (parsed.success) return [];
  const expected = parsed.error.issues[0]?.message.replace(/^expected /, "") ?? "";
  return [{ field: "name", fault: `is ${JSON.stringify(name.slice(0, 60))}`, expected }];
}

function inputErrors({ schema, example, validate }: z.infer<typeof newEventType>): FieldError[] {
  const isGiven = schema !== undefined && schema !== null;
  const missing = {
    field: "validate",
    fault: "is true, and there is no schema",
    expected: "a schema beside it",
  };
  const errors = [
    ...(validate && !isGiven ? [missing] : []),
    ...(isGiven ? placed("schema", schemaFaults(schema)) : []),
    ...sizeErrors(example),
  ];
  if (errors.length > 0 || !isGiven || example === undefined || example === null) return errors;
  return placed("example", dataFaults(schema as JsonSchema, example));
}

function sizeErrors(example: unknown): FieldError[] {
  const { length } = textOf(example) ?? "";
  if (length <= MAX_EXAMPLE) return [];
  return [{ field: "example", fault: `is ${length} characters long`, expected: `at most ${MAX_EXAMPLE}` }];
}

/** Each fault with its field and its place in that, as a JSON Pointer. */
function placed(field: string, faults: readonly SchemaFault[]): FieldError[] {
  return faults.map(({ pointer, ...rest }) => ({ field: `${field}#${pointer}`, ...rest }));
}

function full(name: string, validates: boolean): FieldError {
  const validated = validates ? `, and ${MOST_VALIDATED} that are validated` : "";
  const expected = `at most ${MOST_TYPES} types in the catalogue${validated}: delete one that is no longer needed`;
  return { field: "name", fault: `is ${name}, for which there is no room`, expected };
}

function textOf(value: unknown): string | null {
  return value === undefined || value === null ? null : JSON.stringify(value);
}

function typeView(row: EventType): z.infer<typeof typeSchema> {
  return {
    name: row.name,
    description: row.description,
    schema: jsonIn(row.schema),
    example: jsonIn(row.example),
    validate: row.validates === 1,
    archived: row.archivedAt !== null,
    retention_days: wholeDays(row.retentionDays),
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  };
}

/** Null for what an edit by hand has made unreadable. */
function jsonIn(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
