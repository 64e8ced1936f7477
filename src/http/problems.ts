/**
 * The one place where an error becomes an answer: problem details (RFC 9457). For a caller's mistake each field at
 * fault is listed (core/field-errors.ts). An internal error is logged once and never described.
 */
import { z } from "@hono/zod-openapi";
import type { ErrorHandler, TypedResponse } from "hono";
import { HTTPException } from "hono/http-exception";
import type { Misconfiguration } from "../config.ts";
import { TENANT_WORDS } from "../core/destination-fields.ts";
import { type FieldError, invalidFields, missing, type RefusalKind, type Refused } from "../core/result.ts";
import { transientOf } from "../core/transient.ts";
import { faultOf, type Log, logToConsole } from "../log.ts";
import type { ApiEnv } from "./context.ts";
import { type ProblemStatus, pathOfProblem, problemTypes } from "./problem-types.ts";

/** Seconds after which to retry after a 503, unless a better time is known. */
const COME_AGAIN_S = 5;
/** The header that says so. */
export const comeAgain = { "retry-after": String(COME_AGAIN_S) };

const statusOfKind = {
  malformed: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  too_large: 413,
  invalid: 422,
  too_many: 429,
  internal: 500,
  unavailable: 503,
} as const satisfies Readonly<Record<RefusalKind, ProblemStatus>>;

export type RefusalStatus<K extends RefusalKind> = (typeof statusOfKind)[K];

/** When to retry a refused request, in seconds from now; undefined when that would change nothing. */
export function retryAfterOf({ kind, retryAfterS }: Refused): number | undefined {
  return retryAfterS ?? (kind === "unavailable" ? COME_AGAIN_S : undefined);
}

export function problemOf({ kind, detail, errors }: Refused): Problem {
  return documentOf(statusOfKind[kind], detail, errors);
}

function documentOf(status: ProblemStatus, detail: string, errors?: readonly FieldError[]): Problem {
  const { title } = problemTypes[status];
  const listed = errors && { errors: errors.slice(0, MAX_LISTED) };
  return { type: pathOfProblem(status), title, status, detail, ...listed };
}

/** The answer of a refusal over HTTP. `headers` are those that only HTTP has, as `location`. */
export function answerOf<K extends RefusalKind>(
  { kind, detail, errors, retryAfterS }: Refused<K>,
  headers?: Readonly<Record<string, string>>,
): ProblemResponse<RefusalStatus<K>> {
  const later = retryAfterS === undefined ? undefined : { "retry-after": String(retryAfterS) };
  return problem(statusOfKind[kind], detail, errors, { ...later, ...headers });
}

/** A problem document as an answer. A 503 says when to come again. */
export function problem<S extends ProblemStatus>(
  status: S,
  detail: string,
  errors?: readonly FieldError[],
  headers?: Readonly<Record<string, string>>,
): ProblemResponse<S> {
  return new Response(JSON.stringify(documentOf(status, detail, errors)), {
    status,
    headers: {
      "content-type": "application/problem+json",
      ...(status === 503 && comeAgain),
      ...headers,
    },
  }) as ProblemResponse<S>;
}

export type ProblemResponse<S extends ProblemStatus> = Response & TypedResponse<Problem, S, "json">;

/** 422 with the fields at fault. */
export function invalid(errors: readonly FieldError[]): ProblemResponse<422> {
  return answerOf(invalidFields(errors));
}

/** 404 for an id that names no object that the caller may see. */
export function notFound(what: string, id: string): ProblemResponse<404> {
  return answerOf(missing(what, id));
}

/** Seconds after which a client may call a misconfigured Worker again, and between its log lines. */
const MISCONFIGURED_S = 60;
let misconfigurationLoggedAt = Number.NEGATIVE_INFINITY;

/** 503 that names the variables at fault. Clients may repeat requests often, so an isolate logs one line a minute. */
export function misconfigured(
  { message }: Misconfiguration,
  handler: string,
  log: Log,
): Refused<"unavailable"> {
  const now = Date.now();
  if (now - misconfigurationLoggedAt >= MISCONFIGURED_S * 1000) {
    misconfigurationLoggedAt = now;
    log({ what: "misconfigured", handler, error: message });
  }
  return { kind: "unavailable", detail: message, retryAfterS: MISCONFIGURED_S };
}

/**
 * The app's error handler. An answer that was thrown is given as it is, and what Hono refuses keeps its status; a transient
 * error of the platform is a 503, and any other error a 500, both without details.
 */
export const onError: ErrorHandler<ApiEnv> = (error, c) => {
  if (error instanceof HTTPException && error.res) return error.res;
  if (error instanceof HTTPException && error.status in problemTypes) {
    const status = error.status as ProblemStatus;
    return problem(status, error.message || problemTypes[status].title);
  }
  const { method, path } = c.req;
  return answerOf(failedRequest(c.get("services")?.log ?? logToConsole, { method, path }, error));
};

/** Logs the unexpected error that has ended a request, and returns its refusal. */
export function failedRequest(log: Log, request: Readonly<{ method: string; path: string }>, error: unknown) {
  log({ what: "request_failed", ...request, status: serverStatusOf(error), fault: faultOf(error) });
  return unexpectedError(error);
}

/** Whether a write was made is unknown: where the client may name what it creates, a repeat of it is a 409. */
const INTERRUPTED =
  "The database cannot be reached at the moment. Check whether the change was made before you repeat it";

/** The refusal of a request that an unexpected error has ended: the error is in the log, and not described. */
export function unexpectedError(error: unknown): Refused<"internal" | "unavailable"> {
  return transientOf(error) === undefined
    ? { kind: "internal", detail: problemTypes[500].example }
    : { kind: "unavailable", detail: INTERRUPTED };
}

/** The status of an answer to a request that an unexpected error has ended: 503 if the error is transient. */
export function serverStatusOf(error: unknown): 500 | 503 {
  return statusOfKind[unexpectedError(error).kind];
}

/** Field errors in one answer at most; more are counted but not listed. */
const MAX_LISTED = 50;

const fieldError = z.object({
  line: z.int().optional().describe("The line of an NDJSON body, from 1."),
  field: z.string().describe("The path of the field, as in `events[3].type`."),
  fault: z.string().describe("The fault."),
  expected: z.string().describe("The values that are allowed."),
});

export const problemSchema = z
  .object({
    type: z.string().describe("The type of the problem: a path of this deployment that describes it."),
    title: z.string().describe("The type in words."),
    status: z.int().describe("The HTTP status code."),
    detail: z.string().describe("What happened this time, for people to read."),
    errors: z.array(fieldError).optional().describe(`The fields at fault, at most ${MAX_LISTED}.`),
  })
  .openapi("Problem");

export type Problem = z.infer<typeof problemSchema>;

/** The `responses` of a route for these problems. Where 401 is possible, 429 (src/rate-limits.ts) and 503 are too. */
export function problemResponses<S extends ProblemStatus>(...statuses: S[]) {
  const answer = (status: ProblemStatus) => ({
    description: problemTypes[status].title,
    content: { "application/problem+json": { schema: problemSchema, example: problemExample(status) } },
    ...(status in problemHeaders && { headers: problemHeaders[status as keyof typeof problemHeaders] }),
  });
  const all = new Set<ProblemStatus>(statuses.includes(401 as S) ? [...statuses, 429, 503] : statuses);
  return Object.fromEntries([...all].map((status) => [status, answer(status)])) as {
    [status in S]: ReturnType<typeof answer>;
  };
}

export const retryAfter = z.object({
  "retry-after": z
    .string()
    .openapi({ description: "Seconds to wait before the next request.", example: "5" }),
});

const problemHeaders = {
  401: z.object({ "www-authenticate": z.string().openapi({ example: 'Bearer error="invalid_token"' }) }),
  429: retryAfter,
  503: retryAfter,
};

/** The example of a problem in the OpenAPI document and the reference. */
export function problemExample(status: ProblemStatus): Problem {
  const plain = documentOf(status, problemTypes[status].example);
  if (status !== 422) return plain;
  const error = { field: "tenant", fault: 'is "a b"', expected: TENANT_WORDS };
  return { ...plain, detail: `${error.field} ${error.fault}; expected ${error.expected}`, errors: [error] };
}
