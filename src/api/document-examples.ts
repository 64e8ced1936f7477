/**
 * An example of what a schema describes, so that every body in the document has one without anybody writing
 * it twice: from the examples of the fields where there are any, else from their types.
 */

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
  const name = schema.$ref?.split("/").at(-1);
  const target = name === undefined ? undefined : schemas[name];
  return target === undefined ? schema : resolved(target, schemas);
}

/** An example of a request: what is required, and whatever else has an example of its own. */
export function requestExample(schema: JsonSchema, schemas: Schemas): unknown {
  return exampleOf(schema, schemas, (field) => isShown(field, schemas));
}

/** An example of an answer, with every field that it may have. */
export function answerExample(schema: JsonSchema, schemas: Schemas): unknown {
  return exampleOf(schema, schemas, () => true);
}

type Wanted = (optional: JsonSchema) => boolean;

function exampleOf(given: JsonSchema, schemas: Schemas, isWanted: Wanted): unknown {
  const schema = resolved(given, schemas);
  const said = schema.example ?? schema.default ?? schema.const ?? schema.enum?.[0];
  if (said !== undefined) return said;
  const [choice] = schema.anyOf ?? schema.oneOf ?? [];
  if (choice) return exampleOf(choice, schemas, isWanted);
  if (schema.allOf) {
    return Object.assign({}, ...schema.allOf.map((part) => exampleOf(part, schemas, isWanted)));
  }
  switch (typeOf(schema)) {
    case "object":
      return exampleObject(schema, schemas, isWanted);
    case "array":
      return schema.items ? [exampleOf(schema.items, schemas, isWanted)] : [];
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

function exampleObject(schema: JsonSchema, schemas: Schemas, isWanted: Wanted) {
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties ?? {}).filter(
    ([name, field]) => required.has(name) || isWanted(field),
  );
  return Object.fromEntries(fields.map(([name, field]) => [name, exampleOf(field, schemas, isWanted)]));
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
