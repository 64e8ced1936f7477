/**
 * From a schema's issues to what a caller can act on: the field, what is wrong with the value given, and
 * what would be right. Faults describe the value; expectations come from the schema, whose own messages
 * all read "expected …".
 */
import type { z } from "@hono/zod-openapi";
import { isRawJson } from "./exact-json.ts";

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
