/**
 * Keyset pages: a page ends with a cursor that names its last row, so that the next one starts after it
 * whatever has been written meanwhile. Cursors are opaque to callers and checked when they come back.
 */
import { z } from "@hono/zod-openapi";

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
