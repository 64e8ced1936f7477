/** Event types: those of the catalogue. The versions of a schema that the Svix API knows are one here. */
import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { requires } from "../api/auth.ts";
import type { ApiContext, ApiEnv } from "../api/context.ts";
import { jsonBody } from "../api/json-body.ts";
import { type FieldError, invalid, problem } from "../api/problems.ts";
import { wholeDays } from "../core/retention.ts";
import { type EventType, findEventType, listEventTypes } from "../db/event-types.ts";
import { isoTime } from "../time.ts";
import type { CallNative } from "./native-api.ts";
import { bodyOf, flag, listOf, missing, orderedQuery, queryOf, unsupported } from "./shapes.ts";

const LIST = "/api/v1/event-type";
const ONE = "/api/v1/event-type/:name";

export function registerEventTypes(app: Hono<ApiEnv>, callNative: CallNative): void {
  app.post(LIST, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, newType);
    if (input instanceof Response) return input;
    const { name } = input;
    const before = await findEventType(c.get("services").db, name);
    // As in the Svix API, an archived type may be created again.
    if (before && before.archivedAt === null) return problem(409, `There is an event type ${name} already`);
    return put(c, callNative, { name, input, status: 201 });
  });

  app.get(LIST, requires("read"), async (c) => {
    const query = queryOf(c, listQuery);
    if (query instanceof Response) return query;
    const { limit, iterator: after, order, include_archived: archived = false, with_content: full } = query;
    const page = { archived, after, limit: limit + 1, descending: order === "descending" };
    const rows = await listEventTypes(c.get("services").db, page);
    const shown = rows.map((row) => typeView(row, full ?? false));
    return c.json(listOf(shown, limit, ({ name }) => name));
  });

  app.get(ONE, requires("read"), async (c) => {
    const row = await typeOf(c);
    return row instanceof Response ? row : c.json(typeView(row));
  });

  app.put(ONE, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, typeInput);
    if (input instanceof Response) return input;
    const name = c.req.param("name");
    const before = await findEventType(c.get("services").db, name);
    return put(c, callNative, { name, before, input, status: before ? 200 : 201 });
  });

  app.patch(ONE, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, typeInput.partial());
    if (input instanceof Response) return input;
    const before = await typeOf(c);
    if (before instanceof Response) return before;
    const { description = before.description, archived = before.archivedAt !== null } = input;
    const { schemas = schemasOf(before) } = input;
    const whole = { ...input, description: description ?? "", archived, schemas };
    return put(c, callNative, { name: before.name, before, input: whole, status: 200 });
  });

  app.delete(ONE, requires("admin"), async (c) => {
    const query = queryOf(c, z.object({ expunge: flag }));
    if (query instanceof Response) return query;
    const before = await typeOf(c);
    if (before instanceof Response) return before;
    if (query.expunge === true) {
      const removed = await callNative(c, "DELETE", pathOf(before.name));
      return removed.ok ? c.body(null, 204) : removed.answer;
    }
    const input = { description: before.description ?? "", schemas: schemasOf(before), archived: true };
    const archived = await put(c, callNative, { name: before.name, before, input, status: 200 });
    return archived.ok ? c.body(null, 204) : archived;
  });
}

const listQuery = z.object({ ...orderedQuery, include_archived: flag, with_content: flag });

const FLAG_EXPECTED = "expected true or false";
const SCHEMAS_EXPECTED = "expected an object of schemas by their versions";

const typeInput = z.object({
  description: z.string({ error: "expected a string" }),
  archived: z.boolean({ error: FLAG_EXPECTED }).nullish(),
  deprecated: z.boolean({ error: FLAG_EXPECTED }).nullish(),
  schemas: z.record(z.string(), z.unknown(), { error: SCHEMAS_EXPECTED }).nullish(),
  groupName: z.string({ error: "expected a string" }).nullish(),
  featureFlag: z.unknown().optional(),
  featureFlags: z.array(z.unknown(), { error: "expected a list" }).nullish(),
});

const newType = typeInput.extend({ name: z.string({ error: "expected a string" }) });

type Input = { [K in keyof z.infer<typeof typeInput>]?: z.infer<typeof typeInput>[K] | undefined };

function unsupportedFields({
  deprecated,
  schemas,
  groupName,
  featureFlag,
  featureFlags,
}: Input): FieldError[] {
  const versions = Object.keys(schemas ?? {}).length;
  return [
    ...(deprecated ? [unsupported("deprecated", "false: a type can be archived")] : []),
    ...(groupName ? [unsupported("groupName", "none")] : []),
    ...(featureFlag ? [unsupported("featureFlag", "none: filter types by their names")] : []),
    ...(featureFlags && featureFlags.length > 0 ? [unsupported("featureFlags", "none")] : []),
    ...(versions > 1 ? [unsupported("schemas", "one version: a type has one schema")] : []),
  ];
}

type Put = Readonly<{ name: string; before?: EventType | undefined; input: Input; status: 200 | 201 }>;

/** What the Svix API does not know of a type, its example and whether it is validated, stays as it was. */
async function put(
  c: ApiContext,
  callNative: CallNative,
  { name, before, input, status }: Put,
): Promise<Response> {
  const errors = unsupportedFields(input);
  if (errors.length > 0) return invalid(errors);
  const [schema] = Object.values(input.schemas ?? {});
  const body = {
    description: input.description,
    archived: input.archived ?? false,
    ...(before && { retention_days: wholeDays(before.retentionDays) }),
    ...(schema !== undefined && { schema, ...keptOf(before) }),
  };
  const names = { schema: "schemas" };
  const made = await callNative(c, "PUT", pathOf(name), { body, names });
  if (!made.ok) return made.answer;
  const row = await findEventType(c.get("services").db, name);
  return row ? c.json(typeView(row), status) : missing("event type", name);
}

function keptOf(before: EventType | undefined) {
  if (before === undefined) return {};
  const example = jsonIn(before.example);
  return { validate: before.validates === 1, ...(example !== null && { example }) };
}

function pathOf(name: string): string {
  return `/v1/event-types/${encodeURIComponent(name)}`;
}

async function typeOf(c: ApiContext): Promise<EventType | Response> {
  const name = c.req.param("name") ?? "";
  return (await findEventType(c.get("services").db, name)) ?? missing("event type", name);
}

/** Null for what an edit by hand has made unreadable. */
export function jsonIn(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

function schemasOf({ schema }: EventType): Record<string, unknown> | null {
  const value = jsonIn(schema);
  return value === null ? null : { "1": value };
}

function typeView(row: EventType, withSchemas = true) {
  return {
    name: row.name,
    description: row.description ?? "",
    archived: row.archivedAt !== null,
    deprecated: false,
    schemas: withSchemas ? schemasOf(row) : null,
    ...{ groupName: null, featureFlag: null, featureFlags: null },
    createdAt: isoTime(row.createdAt),
    updatedAt: isoTime(row.updatedAt),
  };
}
