/**
 * The OpenAPI document: what the routes say of themselves, and what can be told of all of them at once. The
 * scope an operation needs is read from the very middleware that enforces it; examples come from schemas.
 */
import { scopeOf } from "./auth.ts";
import type { Api } from "./context.ts";
import { exampleOf, type JsonSchema, type Schemas } from "./document-examples.ts";
import { BEARER, INFO, SERVERS, TAGS } from "./document-info.ts";
import { exampleIds } from "./document-story.ts";
import { problemExample } from "./problems.ts";

export type Media = Readonly<{ schema: JsonSchema; example?: unknown }>;
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
