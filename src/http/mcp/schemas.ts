/** The JSON schemas of tools' inputs, from the zod schemas that check them, by the generator of the OpenAPI document. */
import { OpenAPIHono } from "@hono/zod-openapi";
import type { Tool } from "./tool.ts";

type Schemas = Readonly<Record<string, object>>;

let made: ReadonlyMap<string, object> | undefined;

/** By the names of tools. Made once for an isolate, when tools are first listed. */
export function inputSchemas(tools: readonly Tool[]): ReadonlyMap<string, object> {
  made ??= schemasOf(tools);
  return made;
}

function schemasOf(tools: readonly Tool[]): ReadonlyMap<string, object> {
  const api = new OpenAPIHono();
  for (const { name, input } of tools) api.openAPIRegistry.register(name, input);
  const info = { title: "", version: "" };
  const { components } = api.getOpenAPI31Document({ openapi: "3.1.0", info });
  const schemas = components?.schemas as Schemas;
  return new Map(tools.map(({ name }) => [name, plain(schemas[name], schemas) as object]));
}

/** With what it refers to in its place, and examples as JSON Schema has them. */
function plain(value: unknown, schemas: Schemas): unknown {
  if (Array.isArray(value)) return value.map((one) => plain(one, schemas));
  if (typeof value !== "object" || value === null) return value;
  const { $ref, example, ...rest } = value as Readonly<Record<string, unknown>>;
  if (typeof $ref === "string") return plain(schemas[$ref.split("/").at(-1) ?? ""], schemas);
  const fields = Object.entries(rest).map(([name, field]) => [name, plain(field, schemas)]);
  return { ...Object.fromEntries(fields), ...(example !== undefined && { examples: [example] }) };
}
