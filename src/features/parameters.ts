/**
 * The parts that schemas of features share: parameters, pages and the spelling of names.
 *
 * Lists have keyset pages: a page ends with a cursor that names its last row, so that the next page begins after it,
 * whatever was written meanwhile. Cursors are opaque to callers and validated when they come back.
 */

import { z } from "@hono/zod-openapi";
import { EVENT_TYPE, MAX_EVENT_TYPE, TENANT_NAME } from "../core/destination-fields.ts";
import type { FieldError } from "../core/result.ts";
import { isoTime } from "../time.ts";

/** An object without unknown fields; its error names the known ones. */
export function strict<S extends z.ZodRawShape>(shape: S) {
  return z.strictObject(shape, { error: `expected an object of ${Object.keys(shape).join(", ")}` });
}

export const trueOrFalse = z.boolean({ error: "expected true or false" });

/** @param what follows "a whole number" in the error: " of seconds" */
export function wholeNumberFrom(least: number, most: number, what = "") {
  const error = `expected a whole number${what} from ${least} to ${most}`;
  return z.int({ error }).min(least, { error }).max(most, { error });
}

/** A list of one entry or more. @param what the entries are, in the error */
export function nonEmptyList<T extends z.ZodType>(entry: T, most: number, what: string) {
  const error = `expected a list of 1 to ${most} ${what}`;
  return z.array(entry, { error }).min(1, { error }).max(most, { error });
}

/** The path parameter `id`. A value that is no id at all is a 404 too, before the handler (path-names.ts). */
export const idParam = z.object({
  id: z.string().describe("The id, as answers show it."),
});

const LIMIT_EXPECTED = "expected a whole number from 1 to 100";
const CURSOR_EXPECTED = "expected the next_cursor of a page of this list";

/** The query parameter `limit`. */
export const limitParam = z
  .string()
  .regex(/^([1-9][0-9]?|100)$/, { error: LIMIT_EXPECTED })
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
  return {
    data,
    next_cursor: last !== undefined && entries.length > limit ? encodeCursor(keyOf(last)) : null,
  };
}

/** A page after which the list goes on at `next`; undefined: it was the last. */
export function pageWithNext<T>(data: T[], next: unknown) {
  return { data, next_cursor: cursorAfter(next) };
}

/** The cursor of what goes on at `next`; null for undefined: nothing does. */
export function cursorAfter(next: unknown): string | null {
  return next === undefined ? null : encodeCursor(next);
}

const IDEMPOTENCY_KEY_EXPECTED = "expected 1 to 255 printable ASCII characters";

/** The header `Idempotency-Key`. */
export const idempotencyKey = z
  .string()
  .regex(/^[\x20-\x7e]{1,255}$/, { error: IDEMPOTENCY_KEY_EXPECTED })
  .optional();

const TIME_EXPECTED = "expected a time in ISO 8601 with an offset, as 2026-11-21T09:00:00Z";

/** A time in ISO 8601, read as epoch ms. */
export const timeParam = z
  .string({ error: TIME_EXPECTED })
  .refine((given) => z.iso.datetime({ offset: true }).safeParse(given).success, { error: TIME_EXPECTED })
  .transform((given) => Date.parse(given))
  .openapi({ type: "string", format: "date-time" });

/** The error of a range `[since, until)` that is empty. */
export function rangeErrors(since: number | undefined, until: number | undefined): FieldError[] {
  if (since === undefined || until === undefined || since < until) return [];
  const fault = `is ${isoTime(until)}`;
  return [{ field: "until", fault, expected: `a time after since, ${isoTime(since)}` }];
}

const TYPE_EXPECTED = "expected letters, digits, _ and -, in parts joined by dots, at most 128 characters";
const TENANT_EXPECTED = "expected 1 to 64 letters, digits and _ . : -";
const PATTERN_EXPECTED =
  'expected an event type, a prefix with ".*" after it, or "*", at most 128 characters';

/** An event type: `invoice.paid`. */
export const eventType = z
  .string({ error: TYPE_EXPECTED })
  .max(MAX_EVENT_TYPE, { error: TYPE_EXPECTED, abort: true })
  .regex(EVENT_TYPE, { error: TYPE_EXPECTED })
  .openapi({ example: "invoice.paid" });

const TAG_EXPECTED = "expected 1 to 64 letters, digits and _ . : / @ = + -";

/** A tag of an event. */
export const eventTag = z
  .string({ error: TAG_EXPECTED })
  .regex(/^[A-Za-z0-9_.:/@=+-]{1,64}$/, { error: TAG_EXPECTED })
  .openapi({ example: "import-2026-11" });

/** The name of a tenant. */
export const tenantName = z
  .string({ error: TENANT_EXPECTED })
  .regex(TENANT_NAME, { error: TENANT_EXPECTED })
  .openapi({ example: "default" });

/** A pattern of event types: `invoice.paid`, `invoice.*` or `*`. */
export const eventTypePattern = z
  .string({ error: PATTERN_EXPECTED })
  .max(MAX_EVENT_TYPE, { error: PATTERN_EXPECTED, abort: true })
  .regex(/^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$/, { error: PATTERN_EXPECTED })
  .openapi({ example: "invoice.*" });
