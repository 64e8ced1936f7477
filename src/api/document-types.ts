/**
 * The document as TypeScript: `paths`, in the form that openapi-fetch and its like take, and a type for each
 * schema that has a name. So a client in TypeScript is checked against the API that it talks to.
 */
import type { Document, Media, Method, Operation, Parameter } from "./document.ts";
import type { JsonSchema } from "./document-examples.ts";

const METHODS: readonly Method[] = ["get", "put", "post", "delete", "patch"];

/** The text of a `.d.ts` file that needs nothing else. */
export function typesOf({ info, paths, components }: Document): string {
  const things = Object.entries(components.schemas).map(
    ([name, schema]) => `${commentOf(schema.description)}export type ${name} = ${typeOf(schema)};`,
  );
  const routes = Object.entries(paths).map(([path, operations]) => {
    const methods = METHODS.map((method) => methodOf(method, operations[method]));
    return `${JSON.stringify(path)}: ${block(methods)};`;
  });
  const head = `/** ${info.title}, version ${info.version} of its API: made from its OpenAPI document. */`;
  return `${[head, ...things, `export interface paths ${block(routes)}`].join("\n\n")}\n`;
}

function methodOf(method: Method, operation: Operation | undefined): string {
  if (operation === undefined) return `${method}?: never;`;
  const { summary, parameters = [], requestBody, responses } = operation;
  const given = ["query", "header", "path", "cookie"].map((where) => parametersIn(where, parameters));
  const body = requestBody
    ? `requestBody: { content: ${contentOf(requestBody.content)} };`
    : "requestBody?: never;";
  const answers = Object.entries(responses).map(
    ([status, { content }]) =>
      `${status}: { headers: Record<string, unknown>; content: ${contentOf(content)} };`,
  );
  const parts = [`parameters: ${block(given)};`, body, `responses: ${block(answers)};`];
  return `${commentOf(summary)}${method}: ${block(parts)};`;
}

function parametersIn(where: string, all: readonly Parameter[]): string {
  const own = all.filter((parameter) => parameter.in === where);
  if (own.length === 0) return `${where}?: never;`;
  const fields = own.map(({ name, required = false, schema }) => fieldOf(name, schema, required));
  return `${where}${own.some(({ required }) => required) ? "" : "?"}: ${block(fields)};`;
}

function contentOf(content: Readonly<Record<string, Media>> = {}): string {
  const types = Object.entries(content).map(([type, { schema }]) => fieldOf(type, schema, true));
  return types.length === 0 ? "never" : block(types);
}

/** The type of what a schema describes; `unknown` where it says nothing. */
function typeOf(schema: JsonSchema): string {
  const { $ref, anyOf, oneOf = anyOf, allOf, type } = schema;
  if ($ref) return $ref.split("/").at(-1) ?? "unknown";
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return unionOf(schema.enum.map((value) => JSON.stringify(value)));
  if (oneOf) return unionOf(oneOf.map(typeOf));
  if (allOf) return allOf.map((part) => `(${typeOf(part)})`).join(" & ");
  const types = typeof type === "string" ? [type] : (type ?? ["unknown"]);
  return unionOf(types.map((one) => plainType(one, schema)));
}

function plainType(type: string, { items = {}, properties, required, additionalProperties }: JsonSchema) {
  if (type === "array") return `(${typeOf(items)})[]`;
  if (type === "integer") return "number";
  if (type !== "object") return type;
  if (!properties) {
    return `Record<string, ${typeof additionalProperties === "object" ? typeOf(additionalProperties) : "unknown"}>`;
  }
  return block(
    Object.entries(properties).map(([name, field]) => fieldOf(name, field, required?.includes(name))),
  );
}

function fieldOf(name: string, schema: JsonSchema, isRequired = false): string {
  return `${commentOf(schema.description)}${JSON.stringify(name)}${isRequired ? "" : "?"}: ${typeOf(schema)};`;
}

function unionOf(types: readonly string[]): string {
  return [...new Set(types)].join(" | ");
}

function block(lines: readonly string[]): string {
  return `{\n${lines.join("\n").replaceAll(/^/gm, "  ")}\n}`;
}

function commentOf(text: string | undefined): string {
  return text === undefined ? "" : `/** ${text.replaceAll("*/", "* /")} */\n`;
}
