/**
 * The shapes of the Svix API that its routes share: errors, pages, parameters and bodies, as in its public OpenAPI
 * document (https://api.svix.com/api/v1/openapi.json). Unknown fields are ignored, as there.
 */

import { z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { checked } from "../../core/field-errors.ts";
import { OPERATOR, type Principal, principalWithin } from "../../core/principal.ts";
import { type FieldError, type RefusalKind, type Refused, withFieldNames } from "../../core/result.ts";
import { type Application, findApplication } from "../../features/applications/sql.ts";
import type { Caller } from "../../features/service.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { invalid, type Problem, type ProblemResponse, problem } from "../problems.ts";

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

/** An error that is no validation error. */
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

/** Where a field may be; the body, where its name does not begin with one of them. */
const PLACES = ["query", "path", "header"];

function validationError({ field, fault, expected }: Pick<FieldError, "field" | "fault" | "expected">) {
  const steps = field.split(/[.[\]#]+/).filter((step) => step !== "");
  const loc = PLACES.includes(steps[0] ?? "") ? steps : ["body", ...steps.filter((step) => step !== "body")];
  const type = fault === "is missing" ? "value_error.missing" : "value_error";
  return { loc, msg: `${fault}; expected ${expected}`, type };
}

/** 422 for something of the Svix API that Breakwater has not: it is refused, so that nobody relies on it. */
export function unsupported(field: string, instead: string): FieldError {
  return { field, fault: "is not supported", expected: instead };
}

/** The body as the schema reads it, or the 422. The route needs the middleware `jsonBody()`. */
export async function bodyOf<T>(c: ApiContext, schema: z.ZodType<T>): Promise<T | ProblemResponse<422>> {
  const read = checked(schema, await c.req.json());
  return "data" in read ? read.data : invalid(read);
}

/** The query as the schema reads it, or the 422. */
export function queryOf<T>(c: ApiContext, schema: z.ZodType<T>): T | ProblemResponse<422> {
  const read = checked(schema, c.req.query());
  if ("data" in read) return read.data;
  return invalid(read.map((error) => ({ ...error, field: `query.${error.field}` })));
}

const LIMIT_EXPECTED = "expected a whole number from 1 to 250";
const FLAG_EXPECTED = "expected true or false";

/** `true` or `false`. */
export const flag = z
  .enum(["true", "false"], { error: FLAG_EXPECTED })
  .transform((given) => given === "true")
  .optional();

/** What every list takes. */
export const pageQuery = {
  limit: z
    .string()
    .regex(/^([1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|250)$/, { error: LIMIT_EXPECTED })
    .default("50")
    .transform(Number),
  iterator: z.string().optional(),
};

/** What lists in order of id take besides. */
export const orderedQuery = {
  ...pageQuery,
  order: z
    .enum(["ascending", "descending"], { error: "expected ascending or descending" })
    .default("ascending"),
};

/** A page of at most `limit` entries. The caller reads one entry more, to see whether there is a next page. */
export function listOf<T>(entries: readonly T[], limit: number, idOf: (entry: T) => string) {
  const data = entries.slice(0, limit);
  const last = data.at(-1);
  const iterator = last === undefined ? null : idOf(last);
  return { data, iterator, prevIterator: null, done: entries.length <= limit };
}

/** A refusal whose fields have the names of the Svix API. */
export function renamedRefusal<K extends RefusalKind>(
  refused: Refused<K>,
  names: Readonly<Record<string, string>>,
): Refused<K> {
  return withFieldNames(refused, (error) => ({ ...error, field: renamedField(error.field, names) }));
}

/** 409 for a `uid` that something else has. */
export function uidTaken(what: string, uid: string | null | undefined) {
  return problem(409, `Another ${what} has the uid ${uid}`);
}

/** The header by which the SDKs make a repeated POST harmless; undefined for one that cannot be used. */
export function idempotencyKeyOf(c: ApiContext): string | undefined {
  const given = c.req.header("idempotency-key");
  return given !== undefined && /^[\x20-\x7e]{1,200}$/.test(given) ? given : undefined;
}

/** Whether the principal may see the application. */
function seesApplication({ tenant }: Principal, { id }: Pick<Application, "id">): boolean {
  return tenant === undefined || tenant === id;
}

export const OPERATIONAL_WEBHOOKS = "/api/v1/operational-webhook/endpoint";

/** Stands for the operator's tenant, whose destinations are the endpoints of operational webhooks. */
const operator: Application = {
  ...{ id: OPERATOR, uid: null, name: OPERATOR, ratePerSecond: null, metadata: null },
  ...{ createdAt: 0, updatedAt: 0 },
};

/** The application that the path names by id or `uid`, or the 404. */
export async function applicationOf(c: ApiContext): Promise<Application | ProblemResponse<404>> {
  if (c.req.path.startsWith(OPERATIONAL_WEBHOOKS)) return operator;
  const name = c.req.param("app") ?? "";
  const found = await findApplication(c.get("services").db, name);
  return found && seesApplication(c.get("principal"), found) ? found : notFoundProblem("application", name);
}

/** Whose request it is within the application's tenant, for a service. */
export function callerWithin(c: ApiContext, { id: tenant }: Pick<Application, "id">): Caller {
  return { services: c.get("services"), principal: principalWithin(c.get("principal"), tenant) };
}

/** 404. The name is what the caller has sent. */
export function notFoundProblem(what: string, name: string): ProblemResponse<404> {
  return problem(404, `There is no ${what} ${name.slice(0, 300)}`);
}

/** The first step of a field's path has the name. */
export function renamedField(field: string, names: Readonly<Record<string, string>>): string {
  return field.replace(/^[^.[#]+/, (first) => names[first] ?? first);
}
