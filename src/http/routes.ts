/** The parts of a route that calls one service, as `createRoute` takes them, and its replies. */
import { createRoute, type z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { Permission } from "../core/principal.ts";
import { isOk, type RefusalKind } from "../core/result.ts";
import { idParam } from "../features/parameters.ts";
import type { Caller, Service } from "../features/service.ts";
import { permitting } from "./auth.ts";
import { type Api, type ApiContext, type ApiEnv, callerIn } from "./context.ts";
import { jsonBody } from "./json-body.ts";
import type { Method } from "./openapi/document.ts";
import type { ProblemStatus } from "./problem-types.ts";
import { answerOf, problemResponses, type RefusalStatus } from "./problems.ts";

/** A required JSON body; the route needs the middleware `jsonBody()`. */
export function jsonRequest<S extends z.ZodType>(schema: S) {
  return { required: true, content: { "application/json": { schema } } };
}

/** A JSON body that may have another content type too. For the document only: once read, the body is JSON. */
export function alsoAs<B extends ReturnType<typeof jsonRequest>>(type: string, schema: object, body: B): B {
  return { ...body, content: { ...body.content, [type]: { schema } } };
}

export function jsonAnswer<S extends z.ZodType>(schema: S, description: string, headers?: z.ZodObject) {
  return { description, content: { "application/json": { schema } }, ...(headers && { headers }) };
}

/** The method and the path; the service's permission is required before the other middleware. */
export function routeTo<const M extends Method, const P extends string>(
  method: M,
  path: P,
  { permission }: Readonly<{ permission: Permission }>,
  ...others: MiddlewareHandler<ApiEnv>[]
) {
  return { method, path, middleware: [permitting(permission), ...others] };
}

/** For a path that the route of one thing, such as `/v1/replays/{id}`, would match too. */
export const postOnly: MiddlewareHandler<ApiEnv> = async (c, next) =>
  c.req.method === "POST" ? next() : c.notFound();

/** The problems of a route beside those that every request may meet; `body`: those of a JSON body. */
type Problems = ProblemStatus | "body";
type StatusOf<P extends Problems> =
  | 401
  | 403
  | 429
  | 503
  | (P extends "body" ? 400 | 413 | 415 | 422 : Exclude<P, "body">);

export function answers<const S extends number, B extends z.ZodType, const P extends readonly Problems[]>(
  status: S,
  schema: B,
  description: string,
  ...problems: P
) {
  type Answer = Record<S, ReturnType<typeof jsonAnswer<B>>>;
  return { ...({ [status]: jsonAnswer(schema, description) } as Answer), ...refusals(problems) };
}

export function emptied<const P extends readonly Problems[]>(description: string, ...problems: P) {
  return { 204: { description }, ...refusals(problems) };
}

function refusals<const P extends readonly Problems[]>(problems: P) {
  const statuses = problems.flatMap((one): readonly ProblemStatus[] =>
    one === "body" ? [400, 413, 415, 422] : [one],
  );
  return problemResponses(...([401, 403, ...statuses] as StatusOf<P[number]>[]));
}

/** The `{id}` of a path needs no schema of the route's own. */
type ParamsOf<Path> = z.ZodType<Path extends `${string}{id}${string}` ? z.output<typeof idParam> : unknown>;
type Nothing = z.ZodType<unknown>;
type Answered = Readonly<Record<number, object>>;

/** The parts of a request, as their schemas read them. */
type Taken<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> = Readonly<{
  param: z.output<P>;
  query: z.output<Q>;
  json: z.output<B>;
  url: string;
}>;

/** The only field of an object. */
type OnlyOf<F> = keyof F extends infer K extends keyof F ? F[K] : never;

/** The input that a service gets by default: the only parameter of the path, or all fields together. */
type Together<P, Q, B> = [keyof Q | keyof B] extends [never] ? OnlyOf<P> : P & Q & B;

type Success = 200 | 201 | 202;
type AnswerOf<R> = [keyof R & Success] extends [never]
  ? unknown
  : {
      [S in keyof R & Success]: R[S] extends { content: { "application/json": { schema: infer A } } }
        ? A extends z.ZodType
          ? z.input<A>
          : never
        : never;
    }[keyof R & Success];

/** `input` is needed if the parts together are not the service's input, `view` if the service's value is not the answer. */
type Input<I, D, V> = [D] extends [I]
  ? Readonly<{ input?: (taken: V) => I }>
  : Readonly<{ input: (taken: V) => I }>;
type View<T, A, V> = [T] extends [A]
  ? Readonly<{ view?: (value: T, caller: Caller, taken: V) => A }>
  : Readonly<{ view: (value: T, caller: Caller, taken: V) => A }>;
/** The document lists each refusal of the service. */
type Listed<S, R> = [Exclude<S, keyof R>] extends [never]
  ? unknown
  : Readonly<{ responses: Readonly<Record<Extract<S, number>, unknown>> }>;

type ServedRoute<P, Q, B, R> = Readonly<{
  summary: string;
  description?: string;
  tags: string[];
  params?: P;
  query?: Q;
  /** A JSON body; one that may be absent is `optionalBody`, and an empty object then. */
  body?: B;
  optionalBody?: B;
  maxBytes?: number;
  /** Fields of the body whose numbers are kept as they are written. */
  exactNumbers?: readonly string[];
  /** Before the body is read. */
  middleware?: MiddlewareHandler<ApiEnv>[];
  headers?: Readonly<Record<string, string>>;
  responses: R;
}>;

/**
 * A route that calls one service: its input is made of the request, its answer is the service's value, or the problem
 * of a refusal.
 */
export function serve<
  const Path extends string,
  I,
  T,
  K extends RefusalKind,
  R extends Answered,
  P extends z.ZodType = ParamsOf<Path>,
  Q extends z.ZodType = Nothing,
  B extends z.ZodType = Nothing,
>(
  api: Api,
  method: Method,
  path: Path,
  service: Service<I, T, K>,
  route: ServedRoute<P, Q, B, R> &
    Input<I, Together<z.output<P>, z.output<Q>, z.output<B>>, Taken<P, Q, B>> &
    View<T, AnswerOf<R>, Taken<P, Q, B>> &
    Listed<RefusalStatus<K>, R>,
): void {
  type Made = ServedRoute<P, Q, B, R> & {
    input?: (taken: Taken<P, Q, B>) => I;
    view?: (value: T, caller: Caller, taken: Taken<P, Q, B>) => unknown;
  };
  const {
    query,
    body,
    optionalBody,
    maxBytes,
    exactNumbers = [],
    middleware = [],
    ...others
  } = route as Made;
  const { params = path.includes("{id}") ? idParam : undefined, headers, input, view, ...about } = others;
  const json = body ?? optionalBody;
  const reads = json
    ? [jsonBody({ mayBeEmpty: body === undefined, exactNumbers, ...(maxBytes && { maxBytes }) })]
    : [];
  const status = Number(Object.keys(route.responses)[0]);
  const request = {
    ...(params && { params }),
    ...(query && { query }),
    ...(json && { body: { ...jsonRequest(json), required: body !== undefined } }),
  };
  const described = {
    ...routeTo(method, path, service, ...middleware, ...reads),
    ...about,
    ...describedFor(service, about),
    request,
  };
  api.openapi(createRoute(described as never), (async (c: ApiContext) => {
    const part = (name: string) => c.req.valid(name as never) as never;
    const taken: Taken<P, Q, B> = {
      param: params && part("param"),
      query: query && part("query"),
      json: json && part("json"),
      url: c.req.url,
    } as never;
    const caller = callerIn(c);
    const result = await service(caller, input ? input(taken) : (together(taken) as I));
    if (!isOk(result)) return answerOf(result);
    if (status === 204) return c.body(null, 204);
    const answer = view ? view(result.value, caller, taken) : result.value;
    return c.json(answer as object, status as ContentfulStatusCode, headers);
  }) as never);
}

/** The description, which says of a service for operators whom it refuses. */
function describedFor(
  { permission }: Readonly<{ permission: Permission }>,
  { description = "" }: Readonly<{ description?: string | undefined }>,
) {
  if (permission.operators === undefined) return {};
  return { description: `${description} Not for keys that are bound to a tenant.`.trim() };
}

function together({ param, query, json }: Taken<z.ZodType, z.ZodType, z.ZodType>): unknown {
  const all = Object.assign({}, query, json, param);
  const [only, ...others] = Object.values(all);
  return query === undefined && json === undefined && others.length === 0 ? only : all;
}
