/**
 * The parts that schemas of features share: parameters, pages and the spelling of names.
 *
 * Lists have keyset pages: a page ends with a cursor that names its last row, so that the next page begins after it,
 * whatever was written meanwhile. Cursors are opaque to callers and validated when they come back.
 */

import { z } from "@hono/zod-openapi";
import {
  EVENT_TYPE,
  MAX_EVENT_TYPE,
  MAX_EVENT_TYPES,
  TENANT_NAME,
  TENANT_WORDS,
} from "../core/destination-fields.ts";
import { errorAt, type FieldError } from "../core/result.ts";
import { isoTime } from "../time.ts";

/** An object without unknown fields; its error names the known ones. */
export function strict<S extends z.ZodRawShape>(shape: S) {
  return z.strictObject(shape, `expected an object of ${Object.keys(shape).join(", ")}`);
}

/** An object of answers, by its name in the document. */
export function documented<S extends z.ZodRawShape>(name: string, shape: S) {
  return z.object(shape).openapi(name);
}

export const trueOrFalse = z.boolean("expected true or false");

/** A time as answers have it. */
export const time = z.iso.datetime();

/**
 * A text with the same error for every fault.
 * @param expected what follows "expected" in the error
 */
export function textField(
  expected: string,
  { min, max, pattern }: Readonly<{ min?: number; max?: number; pattern?: RegExp }> = {},
) {
  const error = `expected ${expected}`;
  const params = { error, abort: true };
  const any = z.string(error);
  const filled = min === undefined ? any : any.min(min, params);
  const short = max === undefined ? filled : filled.max(max, params);
  return pattern === undefined ? short : short.regex(pattern, params);
}

/**
 * A whole number with the same error for every fault.
 * @param expected what follows "expected" in the error
 */
export function wholeNumberOf(expected: string, min: number) {
  const error = `expected ${expected}`;
  return z.int(error).min(min, error);
}

/** @param what follows "a whole number" in the error: " of seconds" */
export function wholeNumberFrom(least: number, most: number, what = "") {
  const error = `expected a whole number${what} from ${least} to ${most}`;
  return z.int(error).min(least, error).max(most, error);
}

/**
 * A list with the same error for every fault, except those of its entries.
 * @param expected what follows "expected" in the error
 */
export function listField<T extends z.ZodType>(
  entry: T,
  expected: string,
  { min, max }: Readonly<{ min?: number; max?: number }>,
) {
  const error = `expected ${expected}`;
  const any = z.array(entry, error);
  const filled = min === undefined ? any : any.min(min, error);
  return max === undefined ? filled : filled.max(max, error);
}

/** A list of one entry or more. @param what the entries are, in the error */
export function nonEmptyList<T extends z.ZodType>(entry: T, most: number, what: string) {
  return listField(entry, `a list of 1 to ${most} ${what}`, { min: 1, max: most });
}

/** A list of one or more of the words, each once. @param expected what follows "expected" in the error */
export function wordList<const W extends readonly string[]>(words: W, expected: string) {
  const error = `expected ${expected}`;
  return z
    .array(z.enum(words, error), error)
    .min(1, error)
    .refine((given) => new Set(given).size === given.length, error);
}

/** The path parameter `id`. A value that is no id at all is a 404 too, before the handler (path-names.ts). */
export const idParam = z.object({ id: z.string().describe("The id, as answers show it.") });

const CURSOR_EXPECTED = "expected the next_cursor of a page of this list";

export const limitParam = textField("a whole number from 1 to 100", { pattern: /^([1-9][0-9]?|100)$/ })
  .default("50")
  .transform(Number)
  .describe("The number of entries in a page, 1 to 100; 50 by default.");

/** The query parameter `cursor` of a list; `key` is the schema of a row's position. */
export function cursorParam<T>(key: z.ZodType<T>) {
  return z
    .string()
    .transform((cursor, ctx): T => {
      const parsed = key.safeParse(decode(cursor));
      if (parsed.success) return parsed.data;
      ctx.addIssue({ code: "custom", message: CURSOR_EXPECTED });
      return z.NEVER;
    })
    .optional()
    .openapi({
      type: "string",
      description:
        "The `next_cursor` of the previous page, with the same other parameters; one of another list is refused.",
    });
}

/** The position of a row as a cursor: JSON in base64url. */
export function encodeCursor(key: unknown): string {
  return btoa(JSON.stringify(key)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function decode(cursor: string): unknown {
  try {
    return JSON.parse(atob(cursor.replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return undefined;
  }
}

/** The schema of a page. */
export function pageOf<T extends z.ZodType>(entry: T) {
  return z.object({
    data: z.array(entry),
    next_cursor: z
      .string()
      .nullable()
      .openapi({ description: "Null on the last page.", example: "WyI4bTJ4MGY3cSJd" }),
  });
}

/** A page of at most `limit` entries. The caller reads one entry more, to see whether there is a next page. */
export function pageFrom<T>(entries: readonly T[], limit: number, keyOf: (entry: T) => unknown) {
  const data = entries.slice(0, limit);
  const last = data.at(-1);
  return pageWithNext(data, last !== undefined && entries.length > limit ? keyOf(last) : undefined);
}

/** A page after which the list continues at `next`; undefined: it was the last. */
export function pageWithNext<T>(data: T[], next: unknown) {
  return { data, next_cursor: cursorAfter(next) };
}

/** The cursor for the continuation at `next`; null for undefined: there is none. */
export function cursorAfter(next: unknown): string | null {
  return next === undefined ? null : encodeCursor(next);
}

export const idempotencyKey = textField("1 to 255 printable ASCII characters", {
  pattern: /^[\x20-\x7e]{1,255}$/,
}).optional();

const TIME_EXPECTED = "expected a time in ISO 8601 with an offset, as 2026-11-21T09:00:00Z";

/** A time in ISO 8601, read as epoch ms. */
export const timeParam = z
  .string(TIME_EXPECTED)
  .refine((given) => z.iso.datetime({ offset: true }).safeParse(given).success, TIME_EXPECTED)
  .transform((given) => Date.parse(given))
  .openapi({ type: "string", format: "date-time" });

/** The parameters of a range of time. @param what is listed, before "at this time or later" */
export function timeRange(what: string) {
  return {
    since: timeParam.optional().describe(`Only ${what} at this time or later.`),
    until: timeParam.optional().describe(`Only ${what} before this time; it is after \`since\`.`),
  };
}

/** A parameter of a query that is either. */
export const flagParam = z.enum(["true", "false"], "expected true or false").optional();

/** The error of a range `[since, until)` that is empty. */
export function rangeErrors(since: number | undefined, until: number | undefined): FieldError[] {
  if (since === undefined || until === undefined || since < until) return [];
  return errorAt("until", `is ${isoTime(until)}`, `a time after since, ${isoTime(since)}`);
}

export const EVENT_TYPE_WORDS = `letters, digits, _ and -, in parts joined by dots, at most ${MAX_EVENT_TYPE} characters`;

/** An event type: `invoice.paid`. */
export const eventType = textField(EVENT_TYPE_WORDS, { max: MAX_EVENT_TYPE, pattern: EVENT_TYPE }).openapi({
  example: "invoice.paid",
});

export const eventTag = textField("1 to 64 letters, digits and _ . : / @ = + -", {
  pattern: /^[A-Za-z0-9_.:/@=+-]{1,64}$/,
}).openapi({ example: "import-2026-11" });

export const tenantName = textField(TENANT_WORDS, { pattern: TENANT_NAME }).openapi({ example: "default" });

/** A pattern of event types: `invoice.paid`, `invoice.*` or `*`. */
export const eventTypePattern = textField(
  'an event type, a prefix with ".*" after it, or "*", at most 128 characters',
  { max: MAX_EVENT_TYPE, pattern: /^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$/ },
).openapi({ example: "invoice.*" });

export const eventTypePatterns = nonEmptyList(eventTypePattern, MAX_EVENT_TYPES, "event types or patterns");
