/**
 * An example of what a schema describes, so that every body in the document has one without anybody writing
 * it twice: from the story where it tells of a schema, else from the examples of fields, else from their types.
 */
import { story } from "./document-story.ts";

/** As much of JSON Schema 2020-12 as the document uses. */
export type JsonSchema = Readonly<{
  $ref?: string;
  type?: string | readonly string[];
  format?: string;
  pattern?: string;
  description?: string;
  enum?: readonly unknown[];
  const?: unknown;
  default?: unknown;
  example?: unknown;
  properties?: Readonly<Record<string, JsonSchema>>;
  required?: readonly string[];
  additionalProperties?: boolean | JsonSchema;
  items?: JsonSchema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  anyOf?: readonly JsonSchema[];
  oneOf?: readonly JsonSchema[];
  allOf?: readonly JsonSchema[];
}>;

export type Schemas = Readonly<Record<string, JsonSchema>>;

const TIME = "2026-11-21T09:00:00.000Z";

/** The schema itself, where this one only refers to it. */
export function resolved(schema: JsonSchema, schemas: Schemas): JsonSchema {
  const name = nameOf(schema);
  const target = name === undefined ? undefined : schemas[name];
  return target === undefined ? schema : resolved(target, schemas);
}

/** The name of the schema that this one refers to. */
function nameOf({ $ref }: JsonSchema): string | undefined {
  return $ref?.split("/").at(-1);
}

/** An example with what is required, and whatever else has an example of its own. */
export function exampleOf(given: JsonSchema, schemas: Schemas): unknown {
  const schema = resolved(given, schemas);
  const told = story[nameOf(given) ?? ""];
  if (told !== undefined) return exampleObject(schema, schemas, told);
  const said = schema.example ?? schema.default ?? schema.const ?? schema.enum?.[0];
  if (said !== undefined) return said;
  const [choice] = schema.anyOf ?? schema.oneOf ?? [];
  if (choice) return exampleOf(choice, schemas);
  if (schema.allOf) {
    return Object.assign({}, ...schema.allOf.map((part) => exampleOf(part, schemas)));
  }
  switch (typeOf(schema)) {
    case "object":
      return exampleObject(schema, schemas, undefined);
    case "array":
      return schema.items ? [exampleOf(schema.items, schemas)] : [];
    case "string":
      return schema.format === "date-time" ? TIME : "text";
    case "integer":
    case "number":
      return schema.minimum ?? 1;
    case "boolean":
      return true;
    default:
      return null;
  }
}

/** What the story tells of an object; beside it what is required, or without it, what has an example of its own. */
function exampleObject(schema: JsonSchema, schemas: Schemas, told: Record<string, unknown> | undefined) {
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties ?? {}).filter(
    ([name, field]) => required.has(name) || (told ? name in told : isShown(field, schemas)),
  );
  return Object.fromEntries(
    fields.map(([name, field]) => [name, told && name in told ? told[name] : exampleOf(field, schemas)]),
  );
}

function isShown(field: JsonSchema, schemas: Schemas): boolean {
  const schema = resolved(field, schemas);
  return schema.example !== undefined || (schema.items !== undefined && isShown(schema.items, schemas));
}

/** The type of a schema that may be null besides, or of one that only says so by its properties. */
export function typeOf({ type, properties }: JsonSchema): string | undefined {
  const name = typeof type === "string" ? type : type?.find((one) => one !== "null");
  return name ?? (properties === undefined ? undefined : "object");
}
