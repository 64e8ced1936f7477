/**
 * Values that come from other Workers, by RPC or in queue messages, as JSON. They are structured clones, which hold
 * more than JSON does: values that JSON would silently drop or change are refused, with their place.
 */

import type { z } from "zod";
import { checked, fieldName } from "../core/field-errors.ts";
import { MAX_DEPTH, parseExactly, TOO_DEEP } from "../core/json-value.ts";
import { type FieldError, invalidFields, type Refused } from "../core/result.ts";

/**
 * The value as the schema reads it, in its JSON form, and the bytes of that JSON; or why it is refused.
 * @param what the value's name in a problem
 */
export function readValue<T>(
  schema: z.ZodType<T>,
  value: unknown,
  what: string,
  maxBytes: number,
): Readonly<{ data: T; bytes: number }> | Refused<"malformed" | "too_large" | "invalid"> {
  const json = jsonTextOf(value, maxBytes);
  switch (json.kind) {
    case "too_large":
      return { kind: "too_large", detail: `The ${what} is larger than ${maxBytes} bytes` };
    case "too_deep":
      return { kind: "malformed", detail: `The ${what} ${TOO_DEEP}` };
    case "fault":
      return invalidFields([named(json.error, what)]);
    case "text": {
      const read = checked(schema, parseExactly(json.text));
      if ("data" in read) return { data: read.data, bytes: json.bytes };
      return invalidFields(read.map((error) => named(error, what)));
    }
  }
}

/** The whole value is called `body` in errors of requests. */
function named(error: FieldError, what: string): FieldError {
  return error.field === "body" ? { ...error, field: what } : error;
}

type JsonText =
  | Readonly<{ kind: "text"; text: string; bytes: number }>
  /** The value has no form in JSON. */
  | Readonly<{ kind: "fault"; error: FieldError }>
  | Readonly<{ kind: "too_deep" }>
  | Readonly<{ kind: "too_large" }>;

/**
 * The value as JSON, in a limited number of bytes. A `Date` becomes its ISO text, a `bigint` a number with all of its
 * digits; undefined values in an object are left out. No more of the value is visited than fits: it may refer to one
 * object many times, or to itself.
 */
export function jsonTextOf(value: unknown, maxBytes: number): JsonText {
  const walk: Walk = { bytesLeft: maxBytes, hasBigInt: false };
  const found = faultIn(value, 0, walk);
  if (found?.kind === "fault") {
    const { steps, fault, expected = "a JSON value" } = found;
    return { kind: "fault", error: { field: fieldName(steps), fault, expected } };
  }
  if (found) return found;
  const text = JSON.stringify(value, walk.hasBigInt ? withBigInts : undefined);
  const bytes = new TextEncoder().encode(text).byteLength;
  return bytes > maxBytes ? { kind: "too_large" } : { kind: "text", text, bytes };
}

/** Parses JSON; a whole number that a JavaScript number cannot hold becomes a `bigint`. */
export function parseWithBigInts(text: string): unknown {
  return JSON.parse(text, (_key, value, context?: { source?: string }) => {
    if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
    return /^-?\d+$/.test(context?.source ?? "") ? BigInt(context?.source ?? "") : value;
  });
}

/** `bytesLeft` counts fewer bytes than the JSON has, never more. */
type Walk = { bytesLeft: number; hasBigInt: boolean };

type Found =
  | Readonly<{ kind: "fault"; steps: readonly (string | number)[]; fault: string; expected?: string }>
  | Readonly<{ kind: "too_deep" }>
  | Readonly<{ kind: "too_large" }>
  | undefined;

function faultIn(value: unknown, depth: number, walk: Walk): Found {
  walk.bytesLeft -= typeof value === "string" ? value.length + 2 : 1;
  if (walk.bytesLeft < 0) return { kind: "too_large" };
  switch (typeof value) {
    case "string":
    case "boolean":
      return undefined;
    case "number":
      return Number.isFinite(value) ? undefined : fault(`is ${value}`);
    case "bigint":
      walk.hasBigInt = true;
      return undefined;
    case "object":
      return value === null ? undefined : faultInObject(value, depth, walk);
    case "undefined":
      return fault("is undefined");
    default:
      return fault(`is a ${typeof value}`);
  }
}

function faultInObject(value: object, depth: number, walk: Walk): Found {
  if (isDate(value))
    return Number.isNaN(value.getTime()) ? fault("is a Date without a time", "a time") : undefined;
  const isList = Array.isArray(value);
  if (!isList && !isPlain(value)) return fault(`is ${kindOf(value)}`);
  if (depth >= MAX_DEPTH) return { kind: "too_deep" };
  const entries: Iterable<[string | number, unknown]> = isList ? value.entries() : Object.entries(value);
  for (const [step, part] of entries) {
    if (typeof step === "string") {
      if (part === undefined) continue;
      walk.bytesLeft -= step.length + 3;
    }
    const found = faultIn(part, depth + 1, walk);
    if (found?.kind === "fault") return { ...found, steps: [step, ...found.steps] };
    if (found) return found;
  }
  return undefined;
}

function fault(fault: string, expected?: string): Found {
  return { kind: "fault", steps: [], fault, ...(expected !== undefined && { expected }) };
}

/** Not by `instanceof`: the global `Date` may have been replaced. */
function isDate(value: object): value is Date {
  return Object.prototype.toString.call(value) === "[object Date]";
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function kindOf(value: object): string {
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name;
  return typeof name === "string" && name !== "" ? `of the class ${name}` : "not a plain object";
}

function withBigInts(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? JSON.rawJSON(String(value)) : value;
}
