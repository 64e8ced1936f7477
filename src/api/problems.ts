/**
 * The one place where an error becomes an answer: RFC 9457 problem details. A caller's mistake is named by
 * field, with what is wrong and what would be right; our own mistakes are logged once and never described.
 */
import { z } from "@hono/zod-openapi";
import type { ErrorHandler, TypedResponse } from "hono";
import { HTTPException } from "hono/http-exception";
import { faultOf, logToConsole } from "../log.ts";
import type { ApiEnv } from "./context.ts";
import { isRawJson } from "./json-body.ts";

/** The kinds of problems that there are: one for each status. `says` is what one of them might say. */
export const kinds = {
  400: {
    slug: "malformed-request",
    title: "The request cannot be read",
    says: "The body is not valid JSON: Unexpected end of JSON input",
  },
  401: {
    slug: "unauthorized",
    title: "No valid key",
    says: "The key is not valid: it is unknown, revoked or expired",
  },
  403: { slug: "forbidden", title: "The key does not allow this", says: "The key lacks the scope admin" },
  404: { slug: "not-found", title: "There is no such thing", says: "There is no such thing" },
  405: {
    slug: "method-not-allowed",
    title: "The method is not allowed here",
    says: "/v1/events takes POST, not PUT",
  },
  409: { slug: "conflict", title: "It contradicts what is there", says: "It contradicts what is there" },
  413: { slug: "too-large", title: "The body is too large", says: "The body is larger than 262144 bytes." },
  415: {
    slug: "unsupported-media-type",
    title: "The body is not JSON",
    says: "Content-Type is text/plain; expected application/json",
  },
  422: { slug: "invalid-field", title: "A field is invalid", says: "A field is invalid" },
  429: { slug: "too-many-requests", title: "Too many requests", says: "Too many requests; again in 10 s" },
  500: {
    slug: "internal-error",
    title: "Something went wrong on our side",
    says: "The request could not be carried out. It is safe to send it again.",
  },
  503: { slug: "unavailable", title: "Not available at the moment", says: "Not available at the moment" },
} as const;

export type ProblemStatus = keyof typeof kinds;

/** More faults than this are counted but not listed. */
const LISTED = 50;

const fieldError = z.object({
  line: z
    .int()
    .optional()
    .openapi({ description: "The line of the body, from 1, where it is made of lines." }),
  field: z.string().openapi({ description: "Where in the request, as in `events[3].type`." }),
  fault: z.string().openapi({ description: "What is wrong there." }),
  expected: z.string().openapi({ description: "What would be right." }),
});

export const problemSchema = z
  .object({
    type: z.string().openapi({ description: "Which kind of problem: the same for all of its kind." }),
    title: z.string(),
    status: z.int(),
    detail: z.string().openapi({ description: "What happened this time, for a person." }),
    errors: z
      .array(fieldError)
      .optional()
      .openapi({ description: `Each field that is at fault; ${LISTED} at most.` }),
  })
  .openapi("Problem");

export type ProblemResponse<S extends ProblemStatus> = Response &
  TypedResponse<z.infer<typeof problemSchema>, S, "json">;

/** A problem document. `detail` is for a person; `errors` are for the form that sent the fields. */
export function problem<S extends ProblemStatus>(
  status: S,
  detail: string,
  errors?: readonly FieldError[],
  headers?: Readonly<Record<string, string>>,
): ProblemResponse<S> {
  const { slug, title } = kinds[status];
  const listed = errors && { errors: errors.slice(0, LISTED) };
  return new Response(JSON.stringify({ type: `/problems/${slug}`, title, status, detail, ...listed }), {
    status,
    headers: { "content-type": "application/problem+json", ...headers },
  }) as ProblemResponse<S>;
}

/** 422, with every field that is at fault. */
export function invalid(errors: readonly FieldError[]): ProblemResponse<422> {
  return problem(422, answered(errors), errors);
}

/** The first of the errors in a sentence, and how many there are besides. */
export function answered(errors: readonly FieldError[]): string {
  const [first] = errors;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  const where = first?.line === undefined ? "" : `line ${first.line}: `;
  return `${where}${first?.field} ${first?.fault}; expected ${first?.expected}${more}`;
}

/** 404 for an id that names nothing the caller may see. */
export function noSuch(what: string, id: string): ProblemResponse<404> {
  return problem(404, `There is no ${what} ${id}`);
}

/** What stands beside a problem, where a caller should read it. */
const answerHeaders = {
  401: z.object({ "www-authenticate": z.string().openapi({ example: 'Bearer error="invalid_token"' }) }),
  429: z.object({ "retry-after": z.string().openapi({ description: "In so many seconds.", example: "10" }) }),
};

/** The problem answers of a route, for its description. */
export function problemResponses<S extends ProblemStatus>(...statuses: S[]) {
  const answer = (status: S) => ({
    description: kinds[status].title,
    content: { "application/problem+json": { schema: problemSchema, example: problemExample(status) } },
    ...(status in answerHeaders && { headers: answerHeaders[status as keyof typeof answerHeaders] }),
  });
  return Object.fromEntries(statuses.map((status) => [status, answer(status)])) as {
    [status in S]: ReturnType<typeof answer>;
  };
}

/** What such a problem looks like. */
export function problemExample(status: ProblemStatus): z.infer<typeof problemSchema> {
  const { slug, title, says } = kinds[status];
  const plain = { type: `/problems/${slug}`, title, status, detail: says };
  if (status !== 422) return plain;
  const error = { field: "tenant", fault: 'is "a b"', expected: "1 to 64 letters, digits and _ . : -" };
  return { ...plain, detail: `${error.field} ${error.fault}; expected ${error.expected}`, errors: [error] };
}

/** The last resort. The library's own refusals keep their status; all else is ours, and says nothing of itself. */
export const onError: ErrorHandler<ApiEnv> = (error, c) => {
  if (error instanceof HTTPException && error.status in kinds) {
    return problem(
      error.status as ProblemStatus,
      error.message || kinds[error.status as ProblemStatus].title,
    );
  }
  const log = c.get("services")?.log ?? logToConsole;
  log({ what: "request_failed", method: c.req.method, path: c.req.path, fault: faultOf(error) });
  return problem(500, kinds[500].says);
};

// §§ From a schema's issues to what a caller can act on: the field, what is wrong with the value given, and
// what would be right. Faults describe the value; expectations come from the schema, whose own messages
// all read "expected …".

export type FieldError = Readonly<{
  /** The line of the body, from 1, where it is made of lines. */
  line?: number;
  /** Where, as in `events[3].type`. */
  field: string;
  /** Follows the field in a sentence: "is 7". */
  fault: string;
  /** Follows "expected" in a sentence: "a whole number from 1 to 5". */
  expected: string;
}>;

export type Checked =
  | Readonly<{ success: true; data: unknown }>
  | Readonly<{ success: false; error: Readonly<{ issues: readonly Issue[] }> }>;

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

const SHOWN = 60;

/** The errors of a value that a schema has refused; a field that nobody knows is one error of its own. */
function fieldErrors(issues: readonly Issue[], value: unknown): FieldError[] {
  return issues.flatMap((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => unknownField([...issue.path, key], issue.message))
      : [
          {
            field: fieldName(issue.path),
            fault: issue.code === "invalid_key" ? keyFault(issue.path) : faultAt(issue.path, value),
            expected: expectation(issue),
          },
        ],
  );
}

/** The errors of a validator's result; none when it succeeded. */
export function errorsOf(result: Checked): FieldError[] {
  return result.success ? [] : fieldErrors(result.error.issues, givenTo(result));
}

/** The value that was checked: the validator hands it over after a failure too, though its type does not say so. */
export function givenTo(result: Checked): unknown {
  return (result as { data?: unknown }).data;
}

/** `["events", 3, "type"]` as `events[3].type`; the root as `body`. */
function fieldName(path: Path): string {
  const steps = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`));
  return steps.join("").replace(/^\./, "") || "body";
}

function unknownField(path: Path, message: string): FieldError {
  const known = /(?:^| )expected an object of (.*)$/s.exec(message)?.[1];
  return {
    field: fieldName(path),
    fault: "is not a field here",
    expected: known === undefined ? "it to be left out" : `one of ${known}`,
  };
}

function expectation(issue: Issue): string {
  if (issue.code === "invalid_type" && issue.expected === "nonoptional") return "any JSON value";
  const said = /^expected (.*)$/s.exec(messageOf(issue))?.[1];
  if (said !== undefined) return said;
  switch (issue.code) {
    case "invalid_type":
      return aKindOf(issue.expected);
    case "invalid_value":
      return `one of ${issue.values.map(String).join(", ")}`;
    case "too_big":
      return `at most ${issue.maximum}${unitOf(issue.origin)}`;
    case "too_small":
      return `at least ${issue.minimum}${unitOf(issue.origin)}`;
    default:
      return issue.message;
  }
}

/** A record wraps the fault of a key: the schema of the key says what it should be. */
function messageOf(issue: Issue): string {
  return issue.code === "invalid_key" ? (issue.issues[0]?.message ?? issue.message) : issue.message;
}

function aKindOf(type: string): string {
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

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (at, step) => (at as Record<PropertyKey, unknown> | null | undefined)?.[step],
    value,
  );
}

/** What may be a credential is not repeated, not even to whoever sent it: answers end up in logs. */
function faultAt(path: Path, value: unknown): string {
  const found = valueAt(value, path);
  const isPrivate = typeof found === "string" && (path[0] === "secret" || path[0] === "headers");
  return isPrivate ? `is a string of ${found.length} characters` : errorFaultOf(found);
}

/** A record's key is at fault, whatever its value is. */
function keyFault(path: Path): string {
  const key = String(path.at(-1));
  return key.length > SHOWN
    ? `has a name of ${key.length} characters`
    : `has the name ${JSON.stringify(key)}`;
}

function errorFaultOf(value: unknown): string {
  if (value === undefined) return "is missing";
  if (Array.isArray(value)) return `is a list of ${value.length}`;
  if (isRawJson(value)) return `is ${JSON.stringify(value).slice(0, SHOWN)}`;
  if (typeof value === "object" && value !== null) return "is an object";
  if (typeof value === "string" && value.length > SHOWN) return `is a string of ${value.length} characters`;
  return typeof value === "string" ? `is ${JSON.stringify(value)}` : `is ${String(value)}`;
}
