/**
 * The errors of a value that a schema refuses: each field at fault with what is wrong (`fault`, which describes the
 * value) and what is expected (from the schema, whose messages all begin with "expected "). Only modules that validate
 * requests import this.
 */
import type { z } from "zod";
import { faultOfValue, MAX_SHOWN } from "./json-value.ts";
import { nearestName } from "./nearest.ts";
import type { FieldError } from "./result.ts";

export type Checked =
  | Readonly<{ success: true; data: unknown }>
  | Readonly<{ success: false; error: Readonly<{ issues: readonly Issue[] }> }>;

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

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
    const { path } = issue;
    // To zod a number as it was written is an object.
    if (issue.code === "unrecognized_keys" && JSON.isRawJSON(valueAt(value, path)))
      return { field: fieldName(path), fault: faultAt(path, value), expected: expectation(issue) };
    if (issue.code === "unrecognized_keys")
      return issue.keys.map((key) => unknownField([...path, key], issue.message));
    const within = issue.code === "invalid_union" ? issuesOfKind(issue) : undefined;
    if (within) return fieldErrors(within, value);
    return {
      field: fieldName(path),
      fault:
        issue.code === "invalid_key" ? keyFault(path) : `${faultAt(path, value)}${suggestion(issue, value)}`,
      expected: expectation(issue),
    };
  });
}

/**
 * The issues of the alternative of which the value has the type, as faults in its fields; undefined: it has the type of
 * none, or the schema has its own message.
 */
function issuesOfKind({ errors, path, message }: z.core.$ZodIssueInvalidUnion): readonly Issue[] | undefined {
  if (message.startsWith("expected ")) return undefined;
  const ofKind = errors.find((issues) =>
    issues.every((issue) => issue.path.length > 0 || issue.code === "unrecognized_keys"),
  );
  return ofKind?.map((issue) => ({ ...issue, path: [...path, ...issue.path] }));
}

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
    fault: `is not a known field${didYouMean(meant)}`,
    expected: known === undefined ? "it to be left out" : `one of ${known}`,
  };
}

/** The choice that a mistyped one most probably means, as the end of a fault; empty if there is none. */
function suggestion(issue: Issue, value: unknown): string {
  const given = valueAt(value, issue.path);
  if (typeof given !== "string" || isPrivate(issue.path)) return "";
  return didYouMean(nearestName(given, choicesOf(issue)));
}

function didYouMean(meant: string | undefined): string {
  return meant === undefined ? "" : ` (did you mean ${meant}?)`;
}

function choicesOf(issue: Issue): readonly string[] {
  if (issue.code === "invalid_union") return issue.errors.flatMap((issues) => issues.flatMap(choicesOf));
  return issue.code === "invalid_value" ? issue.values.filter((one) => typeof one === "string") : [];
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

function isPrivate(path: Path): boolean {
  return path.slice(0, 3).some((step) => PRIVATE.includes(step));
}

/** Values that may be credentials are not repeated, because answers end up in logs. */
function faultAt(path: Path, value: unknown): string {
  const found = valueAt(value, path);
  if (!isPrivate(path)) return faultOfValue(found);
  if (typeof found === "number" || JSON.isRawJSON(found)) return "is a number";
  return typeof found === "string" ? `is a string of ${found.length} characters` : faultOfValue(found);
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
