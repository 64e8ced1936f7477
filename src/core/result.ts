/**
 * The result of a service: a value, or why there is none. Expected failures are values; adapters (routes, pages, the Svix
 * API, bindings) translate a kind into a status code, a page or an error of their own.
 */

/** One field of an input that cannot be used. */
export type FieldError = Readonly<{
  /** The line of an NDJSON body, from 1. */
  line?: number;
  /** The path of the field, as in `events[3].type`. */
  field: string;
  /** Follows the field in a sentence: "is 7". */
  fault: string;
  /** Follows "expected" in a sentence: "a whole number from 1 to 5". */
  expected: string;
}>;

export function atField(field: string, fault: string, expected: string): FieldError {
  return { field, fault, expected };
}

export type RefusalKind =
  /** The input cannot even be read. */
  | "malformed"
  /** The caller is unknown. */
  | "unauthorized"
  /** The principal may not do this. */
  | "forbidden"
  /** No object has this id, or none that the principal may see. */
  | "not_found"
  /** The current state does not allow it. */
  | "conflict"
  | "too_large"
  /** Fields are invalid; `errors` names them. */
  | "invalid"
  /** Too often; `retryAfterS` says when to try again. */
  | "too_many"
  /** An internal error, which is in the log. */
  | "internal"
  /** A transient internal error. */
  | "unavailable";

/** Why there is no value. */
export type Refused<K extends RefusalKind = RefusalKind> = Readonly<{
  kind: K;
  /** A sentence for people, without a full stop. */
  detail: string;
  errors?: readonly FieldError[];
  /** When to try again, in seconds from now. */
  retryAfterS?: number;
  /** The id of the existing object, after a repeated creation. */
  existing?: string;
}>;

export type Ok<T> = Readonly<{ kind: "ok"; value: T }>;

export type Result<T, K extends RefusalKind = RefusalKind> = Ok<T> | Refused<K>;

export function ok<T>(value: T): Ok<T> {
  return { kind: "ok", value };
}

/** Whether there is a value; for results whose kinds of refusal are a type parameter. */
export function isOk<T, K extends RefusalKind>(result: Result<T, K>): result is Ok<T> {
  return result.kind === "ok";
}

/** The result with another form of its value; a refusal as it is. */
export function mapOk<T, U, K extends RefusalKind>(
  result: Result<T, K>,
  form: (value: T) => U,
): Result<U, K> {
  return isOk(result) ? ok(form(result.value)) : result;
}

/** @param what the word for it in a sentence: `destination` */
export function missing(what: string, id: string): Refused<"not_found"> {
  return { kind: "not_found", detail: `There is no ${what} ${id}` };
}

/** The error of one field, in a list. The three texts make a sentence. */
export function errorAt(...error: Parameters<typeof atField>): FieldError[] {
  return [atField(...error)];
}

/** The error where the condition holds, else none. */
export function errorIf(isWrong: boolean, ...error: Parameters<typeof atField>): FieldError[] {
  return isWrong ? errorAt(...error) : [];
}

/** One field is invalid. */
export function invalidField(...error: Parameters<typeof atField>): Refused<"invalid"> {
  return invalidFields(errorAt(...error));
}

/** @param errors at least one */
export function invalidFields(errors: readonly FieldError[]): Refused<"invalid"> {
  return { kind: "invalid", detail: summarize(errors), errors };
}

/** The same refusal to a caller that has other names for the fields. */
export function withFieldNames<K extends RefusalKind>(
  refused: Refused<K>,
  rename: (error: FieldError) => FieldError,
): Refused<K> {
  const { kind, errors } = refused;
  if (errors === undefined) return refused;
  const renamed = errors.map(rename);
  return { ...refused, errors: renamed, ...(kind === "invalid" && { detail: summarize(renamed) }) };
}

export function conflict(detail: string): Refused<"conflict"> {
  return { kind: "conflict", detail };
}

/** A conflict with one field. @param subject begins the sentence */
export function conflictAt(subject: string, { fault, expected, ...at }: FieldError): Refused<"conflict"> {
  const detail = `${subject} ${fault}; expected ${expected}`;
  return { kind: "conflict", detail, errors: [{ ...at, fault, expected }] };
}

export function unavailable(detail: string): Refused<"unavailable"> {
  return { kind: "unavailable", detail };
}

/** The first error as a sentence, and the number of the others. */
export function summarize(errors: readonly FieldError[]): string {
  const [first] = errors;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  const where = first?.line === undefined ? "" : `line ${first.line}: `;
  return `${where}${first?.field} ${first?.fault}; expected ${first?.expected}${more}`;
}
