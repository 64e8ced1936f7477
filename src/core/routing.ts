/**
 * Routing: which destinations of a tenant get an event, by its type and its `data`. And the schema of an event filter,
 * as the API takes it.
 *
 * A filter is a set of conditions on `data` by dotted paths, all of which must hold. A path goes from object to object
 * by their keys, and never into a list. A condition is a value, a list of values of which it must be one, or operators
 * that must all hold. A missing value equals nothing and is neither less nor greater than anything; `not` is true of
 * it, unless it denies `exists: false`.
 *
 * A destination's settings may have been edited by hand into something invalid. An invalid filter takes everything, so
 * that a mistake loses no event.
 */
import { z } from "zod";

declare global {
  interface JSON {
    isRawJSON(value: unknown): boolean;
  }
}

/** What routing needs of a destination. */
export type Route = Readonly<{
  destination: string;
  /** Exact names, `prefix.*` for everything below the prefix, or `*`; null takes every type. */
  types: readonly unknown[] | null;
  /** Conditions on `data`; null takes everything. Not validated. */
  filter: unknown;
  /** Whether it takes content that is not JSON. */
  takesContent?: boolean;
}>;

/**
 * The destinations that get an event of this type with this data, in the order of `routes`.
 * @param data called only where there is a filter
 * @param isContent whether it is content of its own type, which has no `data` and no envelope
 */
export function routed(
  routes: readonly Route[],
  type: string,
  data: () => unknown,
  isContent = false,
): string[] {
  return routes
    .filter(({ types, filter, takesContent }) => {
      return (
        takesType(types, type) &&
        (!isContent || takesContent === true) &&
        (filter === null || letsThrough(filter, data()))
      );
    })
    .map(({ destination }) => destination);
}

/** Whether one of the patterns matches the type. */
export function takesType(patterns: readonly unknown[] | null, type: string): boolean {
  return patterns === null || patterns.some((pattern) => matches(pattern, type));
}

function matches(pattern: unknown, type: string): boolean {
  if (typeof pattern !== "string") return false;
  if (pattern === "*" || pattern === type) return true;
  return pattern.endsWith(".*") && type.startsWith(pattern.slice(0, -1));
}

/** Whether a condition is met; undefined when it is invalid. */
type Met = boolean | undefined;

/** Whether the filter takes the data: all of its conditions hold, or one of them is invalid. */
export function letsThrough(filter: unknown, data: unknown): boolean {
  if (!isObject(filter)) return true;
  const conditions = Object.entries(filter);
  return conditions.length === 0 || (all(conditions, ([path, given]) => meetsAt(path, given, data)) ?? true);
}

function meetsAt(path: string, condition: unknown, data: unknown): Met {
  const keys = path.split(".");
  return keys.every(isKey) ? meets(valueAt(data, keys), condition, "with not") : undefined;
}

/** A condition is a value, a list of values of which it must be one, or operators that must all hold. */
function meets(value: unknown, condition: unknown, denial: "with not" | "without"): Met {
  if (Array.isArray(condition))
    return any(condition, (one) => (isScalar(one) ? same(value, one) : undefined));
  if (!isObject(condition)) return same(value, condition);
  return all(Object.entries(condition), ([operator, operand]) => {
    if (operator !== "not") return compare(operator, value, operand);
    const denied = denial === "with not" ? meets(value, operand, "without") : undefined;
    return denied === undefined ? undefined : !denied;
  });
}

function compare(operator: string, value: unknown, operand: unknown): Met {
  switch (operator) {
    case "exists":
      return typeof operand === "boolean" ? (value !== undefined) === operand : undefined;
    case "prefix":
      return typeof operand === "string" ? typeof value === "string" && value.startsWith(operand) : undefined;
    case "gt":
      return ordered(value, operand, (a, b) => a > b);
    case "gte":
      return ordered(value, operand, (a, b) => a >= b);
    case "lt":
      return ordered(value, operand, (a, b) => a < b);
    case "lte":
      return ordered(value, operand, (a, b) => a <= b);
    default:
      return undefined;
  }
}

function ordered(value: unknown, operand: unknown, holds: (a: number, b: number) => boolean): Met {
  if (typeof operand !== "number") return undefined;
  const number = numberOf(value);
  return number !== undefined && holds(number, operand);
}

function same(value: unknown, given: unknown): boolean {
  return typeof given === "number" ? numberOf(value) === given : value === given;
}

/**
 * The number, also where its digits are kept as written (JSON.rawJSON). A filter's own numbers are exact, so rounding
 * the other to the nearest double changes no comparison between whole numbers below 2^53.
 */
function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  return isRaw(value) ? Number(value.rawJSON) : undefined;
}

/** Whether all hold; undefined when there are none or one of them is invalid. */
function all<T>(list: readonly T[], test: (one: T) => Met): Met {
  const met = list.map(test);
  return met.length === 0 || met.includes(undefined) ? undefined : !met.includes(false);
}

function any<T>(list: readonly T[], test: (one: T) => Met): Met {
  const met = list.map(test);
  return met.length === 0 || met.includes(undefined) ? undefined : met.includes(true);
}

function valueAt(data: unknown, keys: readonly string[]): unknown {
  let value = data;
  for (const key of keys) {
    if (!isObject(value) || isRaw(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

/** Whether this may be between the dots of a path. */
function isKey(key: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a path may not have.
  return /^[^"\\\x00-\x1f]+$/.test(key);
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value !== "object";
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isRaw(value: unknown): value is Readonly<{ rawJSON: string }> {
  return JSON.isRawJSON(value);
}

const MAX_CONDITIONS = 10;
const MAX_VALUES = 20;
const MAX_TEXT = 256;

const FILTER = `expected an object of 1 to ${MAX_CONDITIONS} conditions by their paths`;
const PATH = "expected keys joined by dots, at most 128 characters, without quotes, backslashes and controls";
const VALUE = `expected a string of at most ${MAX_TEXT} characters, a number up to 2^53, true, false or null`;
const VALUES = `expected a list of 1 to ${MAX_VALUES} values`;
const NUMBER = "expected a number up to 2^53";

/** A number that JavaScript cannot represent exactly would be another number when it is compared. */
const isExact = (n: number) => !Number.isInteger(n) || Number.isSafeInteger(n);

const number = z.number({ error: NUMBER }).refine(isExact, { error: NUMBER });
const text = z
  .string({ error: VALUE })
  .max(MAX_TEXT, { error: VALUE })
  .refine((given) => !given.includes("\0"), { error: VALUE });
const value = z.union([text, number, z.boolean(), z.null()], { error: VALUE });
const values = z.array(value).min(1, { error: VALUES }).max(MAX_VALUES, { error: VALUES });

const comparisons = {
  exists: z.boolean({ error: "expected true or false" }).optional(),
  prefix: text.optional(),
  gt: number.optional(),
  gte: number.optional(),
  lt: number.optional(),
  lte: number.optional(),
};

const path = z
  .string()
  .max(128, { error: PATH })
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a path may not have.
  .regex(/^[^."\\\x00-\x1f]+(\.[^."\\\x00-\x1f]+)*$/, { error: PATH });

export const eventFilter = z
  .record(path, conditionSchema({ ...comparisons, not: conditionSchema(comparisons).optional() }), {
    error: FILTER,
  })
  .refine(hasConditions, { error: FILTER })
  .meta({
    description:
      "Conditions on data by dotted paths, all of which must hold: a value, a list of values of which it is " +
      "one, or operators: exists, prefix, gt, gte, lt, lte and not.",
    example: { "order.status": ["paid", "shipped"], "order.total": { gte: 100 }, test: { not: true } },
  });

export type EventFilter = z.infer<typeof eventFilter>;

/** A value, a list of values or an object of these operators; its errors are those of the form it has. */
function conditionSchema(operators: z.ZodRawShape) {
  const error = `expected an object of ${Object.keys(operators).join(", ")}`;
  const object = z.strictObject(operators, { error });
  const none = z.never({ error });
  const schemaFor = (given: unknown) => {
    if (Array.isArray(given)) return values;
    if (typeof given !== "object" || given === null) return value;
    return Object.keys(given).length > 0 ? object : none;
  };
  return z.unknown().superRefine((given, ctx) => {
    for (const issue of schemaFor(given).safeParse(given).error?.issues ?? []) {
      ctx.addIssue({ ...issue, input: given } as Parameters<typeof ctx.addIssue>[0]);
    }
  });
}

function hasConditions(given: object): boolean {
  const { length } = Object.keys(given);
  return length >= 1 && length <= MAX_CONDITIONS;
}
