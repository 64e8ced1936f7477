/** The parts of a route that calls one service, as `createRoute` takes them, and its replies. */
import type { z } from "@hono/zod-openapi";
import type { MiddlewareHandler, TypedResponse } from "hono";
import type { JSONParsed } from "hono/utils/types";
import type { Permission } from "../core/principal.ts";
import { isOk, mapOk, type RefusalKind, type Result } from "../core/result.ts";
import { pageFrom } from "../features/parameters.ts";
import { permitting } from "./auth.ts";
import type { ApiContext, ApiEnv } from "./context.ts";
import type { ProblemStatus } from "./problem-types.ts";
import { answerOf, problemResponses } from "./problems.ts";

/** A required JSON body; the route needs the middleware `jsonBody()`. */
export function jsonRequest<S extends z.ZodType>(schema: S) {
  return { required: true, content: { "application/json": { schema } } };
}

/** An optional JSON body; the route needs the middleware `jsonBody({ mayBeEmpty: true })`. */
export function optionalJson<S extends z.ZodType>(schema: S) {
  return { ...jsonRequest(schema), required: false };
}

/** A JSON body that may have another content type too. For the document only: once read, the body is JSON. */
export function alsoAs<B extends ReturnType<typeof jsonRequest>>(type: string, schema: object, body: B): B {
  return { ...body, content: { ...body.content, [type]: { schema } } };
}

/** A JSON response of a route. */
export function jsonAnswer<S extends z.ZodType>(schema: S, description: string, headers?: z.ZodObject) {
  return { description, content: { "application/json": { schema } }, ...(headers && { headers }) };
}

/** The method and the path; the service's permission is required before the other middleware. */
export function routeTo<const M extends "get" | "post" | "put" | "patch" | "delete", const P extends string>(
  method: M,
  path: P,
  { permission }: Readonly<{ permission: Permission }>,
  ...others: MiddlewareHandler<ApiEnv>[]
) {
  return { method, path, middleware: [permitting(permission), ...others] };
}

/** The problems of a route beside those that every request may meet; `body`: those of a JSON body. */
type Problems = ProblemStatus | "body";
type StatusOf<P extends Problems> =
  | 401
  | 403
  | 429
  | 503
  | (P extends "body" ? 400 | 413 | 415 | 422 : Exclude<P, "body">);

/** A JSON answer of this status, and problems. */
export function answers<const S extends number, B extends z.ZodType, const P extends readonly Problems[]>(
  status: S,
  schema: B,
  description: string,
  ...problems: P
) {
  type Answer = Record<S, ReturnType<typeof jsonAnswer<B>>>;
  return { ...({ [status]: jsonAnswer(schema, description) } as Answer), ...refusals(problems) };
}

/** An empty answer of status 204, and problems. */
export function emptied<const P extends readonly Problems[]>(description: string, ...problems: P) {
  return { 204: { description }, ...refusals(problems) };
}

function refusals<const P extends readonly Problems[]>(problems: P) {
  const statuses = problems.flatMap((one): readonly ProblemStatus[] =>
    one === "body" ? [400, 413, 415, 422] : [one],
  );
  return problemResponses(...([401, 403, ...statuses] as StatusOf<P[number]>[]));
}

/** The value of a result as JSON, or the problem of its refusal. */
export function reply<T, K extends RefusalKind, const S extends 200 | 201 | 202 = 200>(
  c: ApiContext,
  result: Result<T, K>,
  status = 200 as S,
) {
  if (!isOk(result)) return answerOf(result);
  return c.json(result.value as object, status) as unknown as Response &
    TypedResponse<JSONParsed<T>, S, "json">;
}

/** A page of a list, of which the service was to read one entry more than `limit`; or the problem of its refusal. */
export function replyPage<T, K extends RefusalKind>(
  c: ApiContext,
  result: Result<readonly T[], K>,
  limit: number,
  keyOf: (entry: T) => unknown,
) {
  return reply(
    c,
    mapOk(result, (entries) => pageFrom(entries, limit, keyOf)),
  );
}

/** An empty answer, or the problem of a refusal. */
export function replyEmpty<K extends RefusalKind>(c: ApiContext, result: Result<unknown, K>) {
  return isOk(result) ? c.body(null, 204) : answerOf(result);
}
