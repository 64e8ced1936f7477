/** The parts that route descriptions are made of. */
import { z } from "@hono/zod-openapi";
import { isoTime } from "../time.ts";
import type { FieldError } from "./problems.ts";

/** The path parameter `id`. Whether anything has that id is for the handler to say: 404, not 422. */
export const idParam = z.object({ id: z.string().openapi({ description: "As it was shown." }) });

/** A required JSON body; put `jsonBody()` before it. */
export function jsonRequest<S extends z.ZodType>(schema: S) {
  return { required: true, content: { "application/json": { schema } } };
}

/** A JSON body that may be left out; put `jsonBody({ mayBeEmpty: true })` before it. */
export function optionalJson<S extends z.ZodType>(schema: S) {
  return { ...jsonRequest(schema), required: false };
}

/** A JSON body that may come as another type too. For the description alone: what it is once read stays JSON. */
export function alsoAs<B extends ReturnType<typeof jsonRequest>>(type: string, schema: object, body: B): B {
  return { ...body, content: { ...body.content, [type]: { schema } } };
}

export function jsonAnswer<S extends z.ZodType>(schema: S, description: string, headers?: z.ZodObject) {
  return { description, content: { "application/json": { schema } }, ...(headers && { headers }) };
}

// §§ An object whose unknown fields are refused with the names of the known ones.

export function strict<S extends z.ZodRawShape>(shape: S) {
  return z.strictObject(shape, { error: `expected an object of ${Object.keys(shape).join(", ")}` });
}

// §§ Keyset pages: a page ends with a cursor that names its last row, so that the next one starts after it
// whatever has been written meanwhile. Cursors are opaque to callers and checked when they come back.

const LIMIT_EXPECTED = "expected a whole number from 1 to 100";
const CURSOR_EXPECTED = "expected the next_cursor of a page of this list";

/** The query parameter `limit`. */
export const limitParam = z
  .string()
  .regex(/^([1-9][0-9]?|100)$/, { error: LIMIT_EXPECTED })
  .default("50")
  .transform(Number)
  .openapi({ description: "Entries in a page, 1 to 100; 50 by default." });

/** The query parameter `cursor`, of a list whose rows are named by `key`. */
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
        "The next_cursor of the page before, with the same other parameters; that of another list is refused.",
    });
}

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

/** A page of at most `limit` entries from one more than that: the one more says that there is a next page. */
export function pageFrom<T>(entries: readonly T[], limit: number, keyOf: (entry: T) => unknown) {
  const data = entries.slice(0, limit);
  const last = data.at(-1);
  return {
    data,
    next_cursor: last !== undefined && entries.length > limit ? encodeCursor(keyOf(last)) : null,
  };
}

// §§ Ranges of time, as the API takes them: ISO 8601 with an offset, the beginning included, the end not.

const TIME_EXPECTED = "expected a time in ISO 8601 with an offset, as 2026-11-21T09:00:00Z";

/** A time, as epoch ms. */
export const timeParam = z
  .string({ error: TIME_EXPECTED })
  .refine((given) => z.iso.datetime({ offset: true }).safeParse(given).success, { error: TIME_EXPECTED })
  .transform((given) => Date.parse(given))
  .openapi({ type: "string", format: "date-time" });

/** A range that ends before it begins, or at once, holds nothing: the caller meant another. */
export function rangeErrors(since: number | undefined, until: number | undefined): FieldError[] {
  if (since === undefined || until === undefined || since < until) return [];
  const fault = `is ${isoTime(until)}`;
  return [{ field: "until", fault, expected: `a time after since, ${isoTime(since)}` }];
}

// §§ How tenants and event types are spelled, wherever the API takes one.

const TYPE_EXPECTED = "expected letters, digits, _ and -, in parts joined by dots, at most 128 characters";
const TENANT_EXPECTED = "expected 1 to 64 letters, digits and _ . : -";
const PATTERN_EXPECTED =
  'expected an event type, a prefix with ".*" after it, or "*", at most 128 characters';

export const eventType = z
  .string({ error: TYPE_EXPECTED })
  .max(128, { error: TYPE_EXPECTED, abort: true })
  .regex(/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/, { error: TYPE_EXPECTED })
  .openapi({ example: "invoice.paid" });

export const tenantName = z
  .string({ error: TENANT_EXPECTED })
  .regex(/^[A-Za-z0-9_.:-]{1,64}$/, { error: TENANT_EXPECTED })
  .openapi({ example: "default" });

/** Which types a destination takes: `invoice.paid`, `invoice.*` or `*`. */
export const eventTypePattern = z
  .string({ error: PATTERN_EXPECTED })
  .max(128, { error: PATTERN_EXPECTED, abort: true })
  .regex(/^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$/, { error: PATTERN_EXPECTED })
  .openapi({ example: "invoice.*" });
