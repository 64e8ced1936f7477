/**
 * The one place where an error becomes an answer: RFC 9457 problem details. A caller's mistake is named by
 * field, with what is wrong and what would be right; our own mistakes are logged once and never described.
 */
import { z } from "@hono/zod-openapi";
import type { ErrorHandler, TypedResponse } from "hono";
import { HTTPException } from "hono/http-exception";
import { faultOf, logToConsole } from "../log.ts";
import type { ApiEnv } from "./context.ts";
import type { FieldError } from "./field-errors.ts";
import { kinds } from "./problem-kinds.ts";

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
