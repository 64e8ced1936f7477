/** Whether an answer is one that the API's own document promises: its status, its type and its body. */
import { type Schema, Validator } from "@cfworker/json-schema";
import { type JsonSchema, resolved } from "../../src/api/document-examples.ts";
import type { Described } from "./operations.ts";
import { document } from "./operations.ts";

type Answer = Readonly<{ status: number; headers: Headers; text: string }>;

/** What is wrong with the answer, in words; empty when it is as documented. */
export function broken({ operation }: Described, { status, headers, text }: Answer): string[] {
  const promised = operation.responses[String(status)];
  if (promised === undefined) return [`the status ${status} is not documented`];
  const type = headers.get("content-type")?.split(";")[0] ?? "";
  if (promised.content === undefined) return text === "" ? [] : ["a body where none is documented"];
  const media = promised.content[type];
  if (media === undefined) return [`the type ${type} is not documented for ${status}`];
  if (!/json$/.test(type)) return [];
  return faultsOf(media.schema, JSON.parse(text));
}

/** How a value breaks a schema of the document. */
export function faultsOf(schema: object, value: unknown): string[] {
  const whole = { ...(closed(schema) as object), components: closed(document.components) } as Schema;
  const { errors } = new Validator(whole, "2020-12").validate(value);
  return errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
}

/** The schema with nothing allowed that it does not name: a field that nobody documented is a fault too. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== "object" || schema === null) return schema;
  if ("allOf" in schema) return closed(merged(schema as JsonSchema));
  const inner = Object.fromEntries(Object.entries(schema).map(([name, part]) => [name, closed(part)]));
  const isObject = "properties" in schema && "type" in schema && !("additionalProperties" in schema);
  return isObject ? { ...inner, additionalProperties: false } : inner;
}

/** The parts of an object's schema as one. */
function merged({ allOf = [] }: JsonSchema): JsonSchema {
  const parts = allOf.map((part) => resolved(part, document.components.schemas));
  return {
    type: "object",
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)),
    required: parts.flatMap(({ required = [] }) => required),
  };
}
