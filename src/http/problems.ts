/**
 * The one place where an error becomes an answer: problem details (RFC 9457). For a caller's mistake each field at
 * fault is listed with what is wrong (`fault`, which describes the value) and what is expected (from the schema,
 * whose messages all begin with "expected "). An error of our own is logged once and never described.
 */
import { z } from "@hono/zod-openapi";
import type { ErrorHandler, TypedResponse } from "hono";
import { HTTPException } from "hono/http-exception";
import type { Misconfiguration } from "../config.ts";
import { nearestName } from "../core/nearest.ts";
import { type FieldError, invalidFields, missing, type RefusalKind, type Refused } from "../core/result.ts";
import { transientOf } from "../core/transient.ts";
import { faultOf, type Log, logToConsole } from "../log.ts";
import type { ApiEnv } from "./context.ts";
import { type ProblemStatus, pathOfProblem, problemTypes } from "./problem-types.ts";

/** Seconds after which to come again after a 503, where nothing better is known. */
const COME_AGAIN_S = 5;
/** The header that says so. */
export const comeAgain = { "retry-after": String(COME_AGAIN_S) };

/** The status code of each kind of refusal. */
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

type StatusOf<K extends RefusalKind> = (typeof statusOfKind)[K];

/** When to try again what was refused, in seconds from now; undefined when that would change nothing. */
export function retryAfterOf({ kind, retryAfterS }: Refused): number | undefined {
  return retryAfterS ?? (kind === "unavailable" ? COME_AGAIN_S : undefined);
}

/** The problem document of a refusal. */
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
): ProblemResponse<StatusOf<K>> {
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

/** 404 for an id that names nothing that the caller may see. */
export function notFound(what: string, id: string): ProblemResponse<404> {
  return answerOf(missing(what, id));
}

/** Seconds after which a client may ask a misconfigured Worker again, and between its log lines. */
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
 * The app's error handler. What Hono refuses keeps its status; a transient error of the platform is a 503, and any other
 * error a 500, both without details.
 */
export const onError: ErrorHandler<ApiEnv> = (error, c) => {
  if (error instanceof HTTPException && error.status in problemTypes) {
    const status = error.status as ProblemStatus;
    return problem(status, error.message || problemTypes[status].title);
  }
  const log = c.get("services")?.log ?? logToConsole;
  const refusal = unexpectedError(error);
  const status = statusOfKind[refusal.kind];
  log({ what: "request_failed", method: c.req.method, path: c.req.path, status, fault: faultOf(error) });
  return answerOf(refusal);
};

/** Whether a write was made is unknown: where the client may name what it creates, a repeat of it is a 409. */
const INTERRUPTED =
  "The database cannot be reached at the moment. Look whether the change was made before repeating it";

/** The refusal of a request that an unexpected error has ended: the error is in the log, and not described. */
export function unexpectedError(error: unknown): Refused<"internal" | "unavailable"> {
  return transientOf(error) === undefined
    ? { kind: "internal", detail: problemTypes[500].example }
    : { kind: "unavailable", detail: INTERRUPTED };
}

/** The status of an answer to a request that an unexpected error has ended: 503 where it passes by itself. */
export function serverStatusOf(error: unknown): 500 | 503 {
  return transientOf(error) === undefined ? 500 : 503;
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

/** The `responses` of a route for these problems. What may be 401 may be 429 (rate-limit.ts) or 503 instead. */
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

/** Headers of problem answers, by status. */
const problemHeaders = {
  401: z.object({ "www-authenticate": z.string().openapi({ example: 'Bearer error="invalid_token"' }) }),
  429: retryAfter,
  503: retryAfter,
};

/** The example of a problem in the OpenAPI document and the reference. */
export function problemExample(status: ProblemStatus): Problem {
  const plain = documentOf(status, problemTypes[status].example);
  if (status !== 422) return plain;
  const error = { field: "tenant", fault: 'is "a b"', expected: "1 to 64 letters, digits and _ . : -" };
  return { ...plain, detail: `${error.field} ${error.fault}; expected ${error.expected}`, errors: [error] };
}

export type Checked =
  | Readonly<{ success: true; data: unknown }>
  | Readonly<{ success: false; error: Readonly<{ issues: readonly Issue[] }> }>;

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** A value as the schema reads it, or its errors. */
export function checked<T>(schema: z.ZodType<T>, value: unknown): Readonly<{ data: T }> | FieldError[] {
  const result = schema.safeParse(value);
  return result.success ? { data: result.data } : fieldErrors(result.error.issues, value);
}

/** The errors of a validator's result; none when it succeeded. */
export function errorsOf(result: Checked): FieldError[] {
  return result.success ? [] : fieldErrors(result.error.issues, givenTo(result));
}

/** The value that was checked. The validator passes it on after a failure too, though its type does not say so. */
export function givenTo(result: Checked): unknown {
  return (result as { data?: unknown }).data;
}

/** The errors of a value that a schema has refused; each unknown field is an error of its own. */
function fieldErrors(issues: readonly Issue[], value: unknown): FieldError[] {
  return issues.flatMap((issue) => {
    if (issue.code === "unrecognized_keys")
      return issue.keys.map((key) => unknownField([...issue.path, key], issue.message));
    const within = issue.code === "invalid_union" ? issuesOfKind(issue) : undefined;
    if (within) return fieldErrors(within, value);
    return {
      field: fieldName(issue.path),
      fault: issue.code === "invalid_key" ? keyFault(issue.path) : faultAt(issue.path, value),
      expected: expectation(issue),
    };
  });
}

type UnionIssue = z.core.$ZodIssueInvalidUnion;

/**
 * The issues of the alternative of which the value has the type, as faults in its fields; undefined: it has that of none, or
 * the schema says what it expects in its own words.
 */
function issuesOfKind({ errors, path, message }: UnionIssue): readonly Issue[] | undefined {
  if (message.startsWith("expected ")) return undefined;
  const ofKind = errors.find((issues) =>
    issues.every((issue) => issue.path.length > 0 || issue.code === "unrecognized_keys"),
  );
  return ofKind?.map((issue) => ({ ...issue, path: [...path, ...issue.path] }));
}

/** Characters of a value that an answer repeats. */
const MAX_SHOWN = 60;

/** `["events", 3, "type"]` as `events[3].type`; the root as `body`. */
export function fieldName(path: Path): string {
  const steps = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`));
  return steps.join("").replace(/^\./, "") || "body";
}

function unknownField(path: Path, message: string): FieldError {
  const known = /(?:^| )expected an object of (.*)$/s.exec(message)?.[1];
  const meant = nearestName(String(path.at(-1)), known?.split(", ") ?? []);
  return {
    field: fieldName(path),
    fault: `is not a known field${meant === undefined ? "" : ` (did you mean ${meant}?)`}`,
    expected: known === undefined ? "it to be left out" : `one of ${known}`,
  };
}

function expectation(issue: Issue): string {
  if (issue.code === "invalid_type" && issue.expected === "nonoptional") return "any JSON value";
  const expected = /^expected (.*)$/s.exec(messageOf(issue))?.[1];
  if (expected !== undefined) return expected;
  switch (issue.code) {
    case "invalid_type":
      return typeName(issue.expected);
    case "invalid_value":
      return `one of ${issue.values.map(String).join(", ")}`;
    case "too_big":
      return `at most ${issue.maximum}${unitOf(issue.origin)}`;
    case "too_small":
      return `at least ${issue.minimum}${unitOf(issue.origin)}`;
    case "invalid_union":
      return issue.errors.flatMap(([first]) => (first ? expectation(first) : [])).join(", or ");
    default:
      return issue.message;
  }
}

/** The schema's message. A record wraps the issue of a key: the key's schema has the message. */
function messageOf(issue: Issue): string {
  return issue.code === "invalid_key" ? (issue.issues[0]?.message ?? issue.message) : issue.message;
}

function typeName(type: string): string {
  const names: Record<string, string> = {
    object: "an object",
    record: "an object",
    array: "a list",
    int: "a whole number",
  };
  return names[type] ?? `a ${type}`;
}

function unitOf(origin: string): string {
  return origin === "string" ? " characters" : origin === "array" ? " entries" : "";
}

/** Fields that have credentials in them. */
const PRIVATE: readonly PropertyKey[] = ["secret", "headers", "auth", "token"];

/** What may be a credential is not repeated, because answers end up in logs. */
function faultAt(path: Path, value: unknown): string {
  const found = valueAt(value, path);
  if (!path.slice(0, 3).some((step) => PRIVATE.includes(step))) return valueFault(found);
  if (typeof found === "number" || JSON.isRawJSON(found)) return "is a number";
  return typeof found === "string" ? `is a string of ${found.length} characters` : valueFault(found);
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (at, step) => (at as Record<PropertyKey, unknown> | null | undefined)?.[step],
    value,
  );
}

/** The fault of a record's key. */
function keyFault(path: Path): string {
  const key = String(path.at(-1));
  return key.length > MAX_SHOWN
    ? `has a name of ${key.length} characters`
    : `has the name ${JSON.stringify(key)}`;
}

function valueFault(value: unknown): string {
  if (value === undefined) return "is missing";
  if (Array.isArray(value)) return `is a list of ${value.length}`;
  if (JSON.isRawJSON(value)) return `is ${JSON.stringify(value).slice(0, MAX_SHOWN)}`;
  if (typeof value === "object" && value !== null) return "is an object";
  if (typeof value === "string" && value.length > MAX_SHOWN)
    return `is a string of ${value.length} characters`;
  return typeof value === "string" ? `is ${JSON.stringify(value)}` : `is ${String(value)}`;
}
