/**
 * The OpenAPI document: what the routes say of themselves, and what can be told of all of them at once. The
 * scope an operation needs is read from the very middleware that enforces it; examples come from schemas.
 */
import { scopeOf } from "../auth.ts";
import type { Api } from "../context.ts";
import { problemExample } from "../problems.ts";
import { exampleIds, exampleOf, type JsonSchema, type Schemas } from "./examples.ts";

/** What the document says of the API as a whole. The tags are in the order in which one gets to need them. */
const INFO = {
  title: "Breakwater",
  version: "1",
  description:
    "Webhook and event delivery that never storms. JSON in, JSON out; errors are problem documents (RFC 9457). " +
    "Lists are paged: hand the next_cursor of a page in as cursor, until it is null. Times are ISO 8601.",
  license: { name: "MIT", identifier: "MIT" },
};

const SERVERS = [{ url: "/" }];

const TAGS = [
  { name: "Events", description: "What happened, posted once, to be told to everybody who wants to know." },
  { name: "Destinations", description: "Where events go: a URL, what it takes, and what it can bear." },
  { name: "Deliveries", description: "One event for one destination: where it stands, and each attempt." },
  { name: "Replays", description: "Deliveries of a past time once more, at a pace that the receiver bears." },
  { name: "API keys", description: "Who may do what, for all tenants or for one." },
  { name: "Portal", description: "A customer's own way into the dashboard." },
  { name: "Health", description: "How all of it is doing, for people and for machines." },
  { name: "Operation", description: "For whoever runs this deployment." },
];

const BEARER = {
  type: "http" as const,
  scheme: "bearer",
  description: "An API key. Next to an operation stands the scope that its key needs.",
};

type Media = Readonly<{ schema: JsonSchema; example?: unknown }>;
type Content = Readonly<Record<string, Media>>;

export type Parameter = Readonly<{
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
  example?: unknown;
  schema: JsonSchema;
}>;

export type Operation = Readonly<{
  operationId: string;
  summary?: string;
  description?: string;
  tags?: readonly string[];
  security: readonly Readonly<Record<string, readonly string[]>>[];
  parameters?: readonly Parameter[];
  requestBody?: Readonly<{ required?: boolean; content: Content }>;
  responses: Readonly<
    Record<
      string,
      Readonly<{ description: string; content?: Content; headers?: Readonly<Record<string, unknown>> }>
    >
  >;
}>;

export type Method = "get" | "post" | "put" | "patch" | "delete";

export type Document = Readonly<{
  openapi: string;
  info: Readonly<{ title: string; version: string; description: string }>;
  tags: readonly Readonly<{ name: string; description: string }>[];
  paths: Readonly<Record<string, Readonly<Partial<Record<Method, Operation>>>>>;
  components: Readonly<{ schemas: Schemas }> & Readonly<Record<string, unknown>>;
}>;

/** The document of an API whose routes are all registered. */
export function documentOf(api: Api): Document {
  const raw = api.getOpenAPI31Document({
    openapi: "3.1.0",
    info: INFO,
    servers: SERVERS,
    tags: TAGS,
    security: [{ bearer: [] }],
  }) as unknown as Document;
  const { schemas } = raw.components;
  const paths = Object.entries(raw.paths).map(([path, operations]) => [
    path,
    Object.fromEntries(
      Object.entries(operations).map(([method, operation]) => [
        method,
        completed(operation, schemas, { path, id: idOf(method, path), scope: scopeAt(api, method, path) }),
      ]),
    ),
  ]);
  const components = { ...raw.components, securitySchemes: { bearer: BEARER } };
  return { ...raw, components, paths: Object.fromEntries(paths) };
}

/** What any operation may come to, and none says of itself. */
const internalError = {
  description: "Something went wrong on our side",
  content: {
    "application/problem+json": {
      schema: { $ref: "#/components/schemas/Problem" },
      example: problemExample(500),
    },
  },
};

type Told = Readonly<{ path: string; id: string; scope: string | undefined }>;

function completed(operation: Operation, schemas: Schemas, { path, id, scope }: Told): Operation {
  const { parameters, requestBody, responses } = operation;
  const answers = Object.entries(responses).map(([status, { content, ...rest }]) => [
    status,
    { ...rest, ...(content && { content: illustrated(content, schemas) }) },
  ]);
  return {
    ...operation,
    operationId: operation.operationId ?? id,
    security: operation.security ?? [{ bearer: scope === undefined ? [] : [scope] }],
    ...(parameters && { parameters: parameters.map((parameter) => described(parameter, path)) }),
    ...(requestBody && {
      requestBody: { ...requestBody, content: illustrated(requestBody.content, schemas) },
    }),
    responses: { ...Object.fromEntries(answers), 500: internalError },
  };
}

/** An id says whose it is by its place in the path: `destinations/{id}`. Other parameters speak for themselves. */
function described(parameter: Parameter, path: string): Parameter {
  const { name, in: where, schema } = parameter;
  const things =
    where === "path" ? path.split(`/{${name}}`)[0]?.split("/").at(-1) : /^(\w+)_id$/.exec(name)?.[1];
  const example = exampleIds[things ?? ""] ?? exampleIds[`${things}s`] ?? schema.example;
  return { ...parameter, ...(example !== undefined && { example }) };
}

function illustrated(content: Content, schemas: Schemas): Content {
  const media = Object.entries(content).map(([type, { schema, ...rest }]) => [
    type,
    { schema, example: exampleOf(schema, schemas), ...rest },
  ]);
  return Object.fromEntries(media);
}

/** A name that stays as long as the route does: `post_destinations_id_pause`. */
function idOf(method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== "" && word !== "v1");
  return [method, ...words].join("_");
}

function scopeAt(api: Api, method: string, path: string): string | undefined {
  const pattern = path.replaceAll(/\{(\w+)\}/g, ":$1");
  const handlers = api.routes.filter(
    (route) => route.path === pattern && route.method === method.toUpperCase(),
  );
  return handlers.map(({ handler }) => scopeOf(handler)).find((scope) => scope !== undefined);
}

// §§ The document as TypeScript: `paths`, in the form that openapi-fetch and its like take, and a type for each
// schema that has a name. So a client in TypeScript is checked against the API that it talks to.

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
