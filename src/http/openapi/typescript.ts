/**
 * The OpenAPI document as TypeScript: `paths`, in the form that openapi-fetch and similar clients take, and a type for
 * each named schema. So the compiler checks a client in TypeScript against the API.
 */
import type { Document, Media, Method, Operation, Parameter } from "./document.ts";
import { type SchemaObject, schemaNameOf } from "./examples.ts";

/** The text of a `.d.ts` file that needs nothing else. */
export function typesOf({ info, paths, components }: Document): string {
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) => `${commentOf(schema.description)}export type ${name} = ${typeOf(schema)};`,
  );
  const routes = Object.entries(paths).map(([path, operations]) => {
    const methods = METHODS.map((method) => methodOf(method, operations[method]));
    return `${JSON.stringify(path)}: ${block(methods)};`;
  });
  const head = `/** ${info.title} API, version ${info.version}: generated from its OpenAPI document. */`;
  return `${[head, ...schemas, `export interface paths ${block(routes)}`].join("\n\n")}\n`;
}

const METHODS: readonly Method[] = ["get", "put", "post", "delete", "patch"];

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

/** The TypeScript type of a schema; `unknown` where it has no type. */
function typeOf(schema: SchemaObject): string {
  const { anyOf, oneOf = anyOf, allOf, type } = schema;
  const name = schemaNameOf(schema);
  if (name !== undefined) return name;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return unionOf(schema.enum.map((value) => JSON.stringify(value)));
  if (oneOf) return unionOf(oneOf.map(typeOf));
  if (allOf) return allOf.map((part) => `(${typeOf(part)})`).join(" & ");
  const types = typeof type === "string" ? [type] : (type ?? ["unknown"]);
  return unionOf(types.map((one) => plainType(one, schema)));
}

/** The pattern of `http_503` and the like: as a template type it keeps a union of reasons closed. */
const HTTP_CAUSE = "^http_[1-9][0-9]{2}$";

function plainType(type: string, schema: SchemaObject) {
  const { items = {}, properties, required, additionalProperties, pattern } = schema;
  if (type === "array") return `(${typeOf(items)})[]`;
  if (type === "integer") return "number";
  if (type === "string" && pattern === HTTP_CAUSE)
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the type itself
    return "`http_${number}`";
  if (type !== "object") return type;
  if (!properties) {
    return `Record<string, ${typeof additionalProperties === "object" ? typeOf(additionalProperties) : "unknown"}>`;
  }
  return block(
    Object.entries(properties).map(([name, field]) => fieldOf(name, field, required?.includes(name))),
  );
}

function fieldOf(name: string, schema: SchemaObject, isRequired = false): string {
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
