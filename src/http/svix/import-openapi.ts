/** Imports the webhooks of an OpenAPI document into the catalogue of event types: all of them or none. */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { parse } from "yaml";
import { dataFaults, type JsonSchema } from "../../core/json-schema.ts";
import type { FieldError } from "../../core/result.ts";
import { changed } from "../../features/audit/routes.ts";
import {
  type EventType,
  eventTypesByName,
  listTypeNames,
  MOST_TYPES,
  putEventTypes,
} from "../../store/event-types.ts";
import { requires } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { invalid, problem } from "../problems.ts";
import { jsonIn } from "./event-types.ts";
import { isFaulty, type WebhookType, webhooksIn } from "./openapi-webhooks.ts";
import { bodyOf } from "./shapes.ts";

const MAX_BYTES = 1024 * 1024;
/** Characters of all types together: they are parameters of one statement. */
const MAX_TYPES = 1_500_000;

export function registerImport(app: Hono<ApiEnv>): void {
  const body = jsonBody({ maxBytes: MAX_BYTES });
  app.post("/api/v1/event-type/import/openapi", requires("admin"), body, importDocument);
}

const FLAG_EXPECTED = "expected true or false";

const importInput = z.object({
  spec: z.record(z.string(), z.unknown(), { error: "expected an OpenAPI document as an object" }).nullish(),
  specRaw: z.string({ error: "expected an OpenAPI document as YAML or JSON" }).nullish(),
  dryRun: z.boolean({ error: FLAG_EXPECTED }).nullish(),
  replaceAll: z.boolean({ error: FLAG_EXPECTED }).nullish(),
});

async function importDocument(c: ApiContext): Promise<Response> {
  if (c.get("principal").tenant !== undefined) return problem(403, NOT_THE_OPERATOR);
  const input = await bodyOf(c, importInput);
  if (input instanceof Response) return input;
  const { spec, specRaw, dryRun = false, replaceAll = false } = input;
  if ((spec == null) === (specRaw == null)) return problem(400, "The body needs either spec or specRaw");
  const field = spec == null ? "specRaw" : "spec";
  const document = spec ?? parsed(specRaw ?? "");
  if (document === undefined) return invalid([{ field, ...NO_DOCUMENT }]);
  const read = webhooksIn(document);
  if (isFaulty(read))
    return invalid(
      read.map(({ pointer, fault, expected }) => ({ field, fault: `${pointer || "/"} ${fault}`, expected })),
    );
  return putTypes(c, read, { field, isTrial: dryRun === true, replaces: replaceAll === true });
}

const NOT_THE_OPERATOR = "The key is bound to a tenant, and the catalogue belongs to the whole deployment";

const NO_DOCUMENT = { fault: "cannot be read as YAML or JSON", expected: "an OpenAPI document: an object" };

/**
 * YAML is a superset of JSON. Undefined for what is neither, is no object, or nests deeper than the stack. The library
 * refuses aliases that multiply; those that are left are copied.
 */
function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(JSON.stringify(parse(text, { logLevel: "silent" })));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

type Wish = Readonly<{ field: string; isTrial: boolean; replaces: boolean }>;

async function putTypes(
  c: ApiContext,
  types: readonly WebhookType[],
  { field, isTrial, replaces }: Wish,
): Promise<Response> {
  const { db, now } = c.get("services");
  const names = types.map(({ name }) => name);
  const before = await eventTypesByName(db, names);
  const rows = types.map((type) => rowOf(type, before.get(type.name)));
  const written = rows.filter((row) => isChange(row, before.get(row.name)));
  const size = JSON.stringify(written).length;
  if (size > MAX_TYPES)
    return invalid([{ field, fault: `gives types of ${size} characters`, expected: IN_PARTS }]);
  const others = replaces
    ? (await listTypeNames(db, MOST_TYPES)).filter((name) => !names.includes(name))
    : [];
  const modified = [...written.map(({ name }) => name), ...others];
  if (!isTrial && !(await putEventTypes(db, written, replaces ? names : undefined, now())))
    return invalid([full(field)]);
  if (!isTrial) for (const name of modified) changed(c, "event_type.changed", { id: name, tenant: null });
  const toModify = types.filter(({ name }) => modified.includes(name)).map(shownType);
  return c.json({ data: { modified, to_modify: isTrial ? toModify : null } });
}

const IN_PARTS = `at most ${MAX_TYPES}: import the document in parts`;

function full(field: string): FieldError {
  const expected = `at most ${MOST_TYPES} types in the catalogue, archived ones included`;
  return { field, fault: "has more types than there is room for", expected };
}

type Row = Pick<EventType, "name" | "description" | "schema" | "example">;

/** Without a schema in the document, a type keeps the one that it has; and its example, where that fits still. */
function rowOf({ name, description, schema, example }: WebhookType, before: EventType | undefined): Row {
  const kept = textOf(schema) ?? before?.schema ?? null;
  const shape = jsonIn(kept) as JsonSchema | null;
  const fits = (one: string | null) =>
    one !== null && (shape === null || dataFaults(shape, jsonIn(one)).length === 0);
  const examples = [textOf(example), before?.example ?? null];
  return { name, description, schema: kept, example: examples.find(fits) ?? null };
}

function isChange(row: Row, before: EventType | undefined): boolean {
  if (before === undefined || before.archivedAt !== null) return true;
  return (["description", "schema", "example"] as const).some(
    (column) => (row[column] ?? "") !== (before[column] ?? ""),
  );
}

function textOf(value: unknown): string | null {
  return value === undefined || value === null ? null : JSON.stringify(value);
}

/** As the document has it. */
function shownType({ name, description, deprecated, schema }: WebhookType) {
  const schemas = schema === undefined ? null : { "1": schema };
  return { name, description, schemas, deprecated, groupName: null, featureFlags: null };
}
