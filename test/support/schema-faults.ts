/** How a value breaks a schema of the API's document. */
import { type Schema, Validator } from "@cfworker/json-schema";
import { resolved, type SchemaObject, type Schemas } from "../../src/http/openapi/examples.ts";

/** The faults in words; none when the value is as described and has no fields that the schema does not name. */
export function schemaFaults(schema: object, value: unknown, schemas: Schemas): string[] {
  const components = { schemas: closed(schemas, schemas) };
  const whole = { ...(closed(schema, schemas) as object), components } as Schema;
  const { errors } = new Validator(whole, "2020-12").validate(value);
  return errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
}

/** The schema without unnamed fields: an undocumented field is a fault too. */
function closed(schema: unknown, schemas: Schemas): unknown {
  if (Array.isArray(schema)) return schema.map((part) => closed(part, schemas));
  if (typeof schema !== "object" || schema === null) return schema;
  if ("allOf" in schema) return closed(merged(schema as SchemaObject, schemas), schemas);
  const inner = Object.fromEntries(
    Object.entries(schema).map(([name, part]) => [name, closed(part, schemas)]),
  );
  const isObject = "properties" in schema && "type" in schema && !("additionalProperties" in schema);
  return isObject ? { ...inner, additionalProperties: false } : inner;
}

/** The parts of an object's schema as one. */
function merged({ allOf = [] }: SchemaObject, schemas: Schemas): SchemaObject {
  const parts = allOf.map((part) => resolved(part, schemas));
  return {
    type: "object",
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)),
    required: parts.flatMap(({ required = [] }) => required),
  };
}
