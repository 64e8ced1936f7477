/**
 * The OpenAPI document: the routes as they describe themselves, completed by what all have in common. The scope of an
 * operation is read from the middleware that enforces it; examples come from schemas.
 */
import { scopeOf } from "../auth.ts";
import type { Api } from "../context.ts";
import { problemTypes } from "../problem-types.ts";
import { problemExample } from "../problems.ts";
import { exampleIds, exampleOf, type SchemaObject, type Schemas } from "./examples.ts";

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

const INFO = {
  title: "Breakwater",
  version: "1",
  description:
    "Webhook and event delivery that never storms. Requests and answers are JSON; errors are problem details (RFC 9457). " +
    "Lists have pages: pass the `next_cursor` of a page as `cursor` until it is null. Times are in ISO 8601.",
  license: { name: "MIT", identifier: "MIT" },
};

const SERVERS = [{ url: "/" }];

const EVENT_TYPES = {
  url: "/dashboard/event-types",
  description: "The event types of this deployment, for everyone who signs in",
};

/** In the order in which a user needs them. */
const TAGS = Object.entries({
  Events: "A type and any JSON data, delivered to every destination that takes it.",
  Destinations: "An endpoint URL with the events that it takes, and its limits.",
  Deliveries: "One event for one destination: its state, and each attempt.",
  Search: "Finds events, deliveries and other objects by an id, a name or words.",
  Replays: "Past deliveries of a destination sent again, at a rate that its receiver can take.",
  "API keys": "The rights of clients, for all tenants or for one.",
  Tenants: "The operator's settings for one tenant.",
  Erasures: "Permanent removal of past events' content, with a receipt.",
  Portal: "A customer's access to the portal of its own tenant.",
  Audit: "Who has changed what, and when.",
  Monitoring: "Health, statistics and metrics.",
  "Event types":
    "A catalogue of the deployment's event types: what they mean, and what their data looks like.",
  Polling: "Fetching events from a destination of the kind `poll`.",
  Groups: "Destinations of any tenants that share a receiver, and its limits.",
  Operations: "For the operator of the deployment.",
}).map(([name, description]) => ({
  ...{ name, description },
  ...(name === "Event types" && { externalDocs: EVENT_TYPES }),
}));

const BEARER = {
  type: "http" as const,
  scheme: "bearer",
  description: "An API key. Each operation names the scope that the key needs.",
};

/** The answer that every operation can have. */
const internalError = {
  description: problemTypes[500].title,
  content: {
    "application/problem+json": {
      schema: { $ref: "#/components/schemas/Problem" },
      example: problemExample(500),
    },
  },
};

export type Media = Readonly<{ schema: SchemaObject; example?: unknown }>;
type Content = Readonly<Record<string, Media>>;

export type Parameter = Readonly<{
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
  example?: unknown;
  schema: SchemaObject;
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

/** The scope that an operation needs; undefined where any key will do, or none is needed. */
export function neededScope({ security }: Operation): string | undefined {
  return security.flatMap((way) => Object.values(way).flat())[0];
}

export type Method = "get" | "post" | "put" | "patch" | "delete";

type Tag = Readonly<{
  name: string;
  description: string;
  externalDocs?: Readonly<{ url: string; description: string }>;
}>;

export type Document = Readonly<{
  openapi: string;
  info: Readonly<{ title: string; version: string; description: string }>;
  tags: readonly Tag[];
  paths: Readonly<Record<string, Readonly<Partial<Record<Method, Operation>>>>>;
  components: Readonly<{ schemas: Schemas }> & Readonly<Record<string, unknown>>;
}>;

type Route = Readonly<{ path: string; id: string; scope: string | undefined }>;

function completed(operation: Operation, schemas: Schemas, { path, id, scope }: Route): Operation {
  const { parameters, requestBody, responses } = operation;
  const answers = Object.entries(responses).map(([status, { content, ...rest }]) => [
    status,
    { ...rest, ...(content && { content: withExamples(content, schemas) }) },
  ]);
  return {
    ...operation,
    operationId: operation.operationId ?? id,
    security: operation.security ?? [{ bearer: scope === undefined ? [] : [scope] }],
    ...(parameters && { parameters: parameters.map((parameter) => withExample(parameter, path)) }),
    ...(requestBody && {
      requestBody: { ...requestBody, content: withExamples(requestBody.content, schemas) },
    }),
    responses: { ...Object.fromEntries(answers), 500: internalError },
  };
}

/** The kind of an id follows from its place in the path, `destinations/{id}`, or from its name, `destination_id`. */
function withExample(parameter: Parameter, path: string): Parameter {
  const { name, in: where, schema } = parameter;
  const kind =
    where === "path" ? path.split(`/{${name}}`)[0]?.split("/").at(-1) : /^(\w+)_id$/.exec(name)?.[1];
  const example = exampleIds[kind ?? ""] ?? exampleIds[`${kind}s`] ?? schema.example;
  return { ...parameter, ...(example !== undefined && { example }) };
}

function withExamples(content: Content, schemas: Schemas): Content {
  const media = Object.entries(content).map(([type, { schema, ...rest }]) => [
    type,
    { schema, example: exampleOf(schema, schemas), ...rest },
  ]);
  return Object.fromEntries(media);
}

/** An operation id that is as stable as the route: `post_destinations_id_pause`. */
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
