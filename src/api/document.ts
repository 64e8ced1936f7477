/**
 * The OpenAPI document: what the routes say of themselves, and what can be told of all of them at once. The
 * scope an operation needs is read from the very middleware that enforces it; examples come from schemas.
 */
import { scopeOf } from "./auth.ts";
import type { Api } from "./context.ts";
import { answerExample, type JsonSchema, requestExample, type Schemas } from "./document-examples.ts";

type Media = Readonly<{ schema: JsonSchema; example?: unknown }>;
type Content = Readonly<Record<string, Media>>;

export type Parameter = Readonly<{
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
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
  paths: Readonly<Record<string, Readonly<Partial<Record<Method, Operation>>>>>;
  components: Readonly<{ schemas: Schemas }> & Readonly<Record<string, unknown>>;
}>;

const INFO = {
  title: "Breakwater",
  version: "1",
  description:
    "Webhook and event delivery that never storms. JSON in, JSON out; errors are problem documents (RFC 9457). " +
    "Lists are paged: hand the next_cursor of a page in as cursor, until it is null. Times are ISO 8601.",
  license: { name: "MIT", identifier: "MIT" },
};

const BEARER = {
  type: "http" as const,
  scheme: "bearer",
  description: "An API key. Next to an operation stands the scope that its key needs.",
};

/** The document of an API whose routes are all registered. */
export function documentOf(api: Api): Document {
  const raw = api.getOpenAPI31Document({
    openapi: "3.1.0",
    info: INFO,
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
  }) as unknown as Document;
  const { schemas } = raw.components;
  const paths = Object.entries(raw.paths).map(([path, operations]) => [
    path,
    Object.fromEntries(
      Object.entries(operations).map(([method, operation]) => [
        method,
        completed(operation, schemas, { operationId: idOf(method, path), scope: scopeAt(api, method, path) }),
      ]),
    ),
  ]);
  const components = { ...raw.components, securitySchemes: { bearer: BEARER } };
  return { ...raw, components, paths: Object.fromEntries(paths) };
}

type Told = Readonly<{ operationId: string; scope: string | undefined }>;

function completed(operation: Operation, schemas: Schemas, { operationId, scope }: Told): Operation {
  const { requestBody, responses } = operation;
  const answers = Object.entries(responses).map(([status, { content, ...rest }]) => [
    status,
    { ...rest, ...(content && { content: illustrated(content, schemas, answerExample) }) },
  ]);
  return {
    ...operation,
    operationId: operation.operationId ?? operationId,
    security: operation.security ?? [{ bearer: scope === undefined ? [] : [scope] }],
    ...(requestBody && {
      requestBody: { ...requestBody, content: illustrated(requestBody.content, schemas, requestExample) },
    }),
    responses: Object.fromEntries(answers),
  };
}

function illustrated(content: Content, schemas: Schemas, example: typeof answerExample): Content {
  const media = Object.entries(content).map(([type, { schema, ...rest }]) => [
    type,
    { schema, example: example(schema, schemas), ...rest },
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
