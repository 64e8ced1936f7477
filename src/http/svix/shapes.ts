/**
 * The shapes of the Svix API that its routes share: errors, pages, parameters and bodies, as in its public OpenAPI
 * document (https://api.svix.com/api/v1/openapi.json). Unknown fields are ignored, as there.
 */

import { z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { checked } from "../../core/field-errors.ts";
import { OPERATOR, principalWithin } from "../../core/principal.ts";
import {
  atField,
  type FieldError,
  isOk,
  type RefusalKind,
  type Result,
  withFieldNames,
} from "../../core/result.ts";
import { type Application, findApplication } from "../../features/applications/sql.ts";
import { cursorAfter } from "../../features/parameters.ts";
import type { Caller } from "../../features/service.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { answerOf, invalid, type Problem, type ProblemResponse, problem } from "../problems.ts";

const codes: Readonly<Record<number, string>> = {
  400: "bad_request",
  401: "authentication_failed",
  403: "permission_denied",
  404: "not_found",
  409: "conflict",
  413: "payload_too_large",
  415: "unsupported_media_type",
  422: "validation",
  429: "too_many_requests",
  500: "internal_error",
  501: "not_implemented",
  503: "unavailable",
};

/** An error other than a validation error. */
export function errorOf(status: number, detail: string, headers?: Headers): Response {
  const body = JSON.stringify({ code: codes[status] ?? "error", detail });
  const all = new Headers(headers);
  all.set("content-type", "application/json");
  all.delete("content-length");
  return new Response(body, { status, headers: all });
}

/** Middleware: problem documents become errors in the shape of the Svix API; anything else is left as it is. */
export const inTheirShape: MiddlewareHandler<ApiEnv> = async (c, next) => {
  await next();
  if (!c.res.headers.get("content-type")?.startsWith("application/problem+json")) return;
  const { status, headers } = c.res;
  const { detail, errors = [] } = (await c.res.json()) as Problem;
  c.res = undefined;
  c.res =
    status === 422 && errors.length > 0
      ? Response.json({ detail: errors.map(validationError) }, { status })
      : errorOf(status, detail, headers);
};

/** The places where a field may be; the body, if its name does not begin with one of them. */
const PLACES = ["query", "path", "header"];

function validationError({ field, fault, expected }: Pick<FieldError, "field" | "fault" | "expected">) {
  const steps = field.split(/[.[\]#]+/).filter((step) => step !== "");
  const loc = PLACES.includes(steps[0] ?? "") ? steps : ["body", ...steps.filter((step) => step !== "body")];
  const type = fault === "is missing" ? "value_error.missing" : "value_error";
  return { loc, msg: `${fault}; expected ${expected}`, type };
}

/** Ends the request with this answer. A handler reads a request in steps, each of which may refuse it. */
export function refuse(res: Response): never {
  throw new HTTPException(res.status as ContentfulStatusCode, { res });
}

/**
 * The value of a service's result; a refusal ends the request.
 * @param names those of the Svix API for fields that a refusal names
 */
export function granted<T, K extends RefusalKind>(result: Result<T, K>, names?: Names): T {
  if (isOk(result)) return result.value;
  return refuse(answerOf(names ? withFieldNames(result, inNames(names)) : result));
}

/** 204 for a service's success; a refusal ends the request. */
export function noContent(c: ApiContext, result: Result<unknown>): Response {
  granted(result);
  return c.body(null, 204);
}

/** The value as the schema reads it; 422 with these names of its fields if it is invalid. */
export function validated<T>(schema: z.ZodType<T>, value: unknown, names: Names = {}): T {
  const read = checked(schema, value);
  return "data" in read ? read.data : refuse(invalid(read.map(inNames(names))));
}

/** 422 where there are errors. Falsy entries are left out. */
export function refuseFields(errors: readonly (FieldError | false | 0 | "" | null | undefined)[]): void {
  const found = errors.filter((error) => !!error);
  if (found.length > 0) refuse(invalid(found));
}

/** The error of something of the Svix API that Breakwater lacks: it is refused, so that no caller relies on it. */
export function unsupported(field: string, instead: string): FieldError {
  return atField(field, "is not supported", instead);
}

/** The body as the schema reads it. The route needs the middleware `jsonBody()`. */
export async function bodyOf<T>(c: ApiContext, schema: z.ZodType<T>): Promise<T> {
  return validated(schema, await c.req.json());
}

export function queryOf<T>(c: ApiContext, schema: z.ZodType<T>): T {
  const read = checked(schema, c.req.query());
  return "data" in read ? read.data : refuse(invalid(inQuery(read)));
}

export function inQuery(errors: readonly FieldError[]): FieldError[] {
  return errors.map((error) => ({ ...error, field: `query.${error.field}` }));
}

const LIMIT_EXPECTED = "expected a whole number from 1 to 250";
const FLAG_EXPECTED = "expected true or false";

/** A field that is true, false or left out. */
export const optionalBoolean = z.boolean(FLAG_EXPECTED).nullish();

/** `true` or `false` in a query. */
export const flag = z
  .enum(["true", "false"], FLAG_EXPECTED)
  .transform((given) => given === "true")
  .optional();

/** The parameters of every list. */
export const pageQuery = {
  limit: z
    .string()
    .regex(/^([1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|250)$/, LIMIT_EXPECTED)
    .default("50")
    .transform(Number),
  iterator: z.string().optional(),
};

/** Further parameters of lists in order of id. */
export const orderedQuery = {
  ...pageQuery,
  order: z.enum(["ascending", "descending"], "expected ascending or descending").default("ascending"),
};

/** A page of at most `limit` entries. The caller reads one entry more, to see whether there is a next page. */
export function listOf<T>(entries: readonly T[], limit: number, idOf: (entry: T) => string) {
  const data = entries.slice(0, limit);
  const last = data.at(-1);
  const iterator = last === undefined ? null : idOf(last);
  return { data, iterator, prevIterator: null, done: entries.length <= limit };
}

/** A page of a list, with the position where it continues; undefined: it is the last one. */
export function pageBefore<T>(data: readonly T[], next: unknown) {
  const iterator = cursorAfter(next);
  return { data, iterator, prevIterator: null, done: iterator === null };
}

/** The names of the Svix API for the fields of an input. */
export type Names = Readonly<Record<string, string>>;

/** Renames the first step of a field's path. */
export function inNames(names: Names): (error: FieldError) => FieldError {
  return (error) => ({ ...error, field: error.field.replace(/^[^.[#]+/, (first) => names[first] ?? first) });
}

/** 409 for a `uid` that is taken. */
export function uidTaken(what: string, uid: string | null | undefined) {
  return problem(409, `Another ${what} has the uid ${uid}`);
}

/** The header by which the SDKs make a repeated POST harmless: any text, as in the Svix API; an empty one is none. */
export function idempotencyKeyOf(c: ApiContext): string | undefined {
  return c.req.header("idempotency-key") || undefined;
}

export const OPERATIONAL_WEBHOOKS = "/api/v1/operational-webhook/endpoint";

/** Represents the operator's tenant, whose destinations are the endpoints of operational webhooks. */
const operator: Application = {
  ...{ id: OPERATOR, uid: null, name: OPERATOR, ratePerSecond: null, metadata: null },
  ...{ createdAt: 0, updatedAt: 0 },
};

/** The application that the path names by id or `uid`, if the principal may see it. */
export async function seenApplication(c: ApiContext): Promise<Application | undefined> {
  if (c.req.path.startsWith(OPERATIONAL_WEBHOOKS)) return operator;
  const found = await findApplication(c.get("services").db, c.req.param("app") ?? "");
  const { tenant } = c.get("principal");
  return tenant === undefined || tenant === found?.id ? found : undefined;
}

/** The application that the path names, or the 404. */
export async function applicationOf(c: ApiContext): Promise<Application> {
  return (await seenApplication(c)) ?? refuseUnknown("application", c.req.param("app"));
}

/** The caller within the application's tenant, for a service. */
export function callerWithin(c: ApiContext, { id: tenant }: Pick<Application, "id">): Caller {
  return { services: c.get("services"), principal: principalWithin(c.get("principal"), tenant) };
}

/** 404. The name is the one that the caller has sent. */
export function notFoundProblem(what: string, name: string): ProblemResponse<404> {
  return problem(404, `There is no ${what} ${name.slice(0, 300)}`);
}

export function refuseUnknown(what: string, name = ""): never {
  return refuse(notFoundProblem(what, name));
}
