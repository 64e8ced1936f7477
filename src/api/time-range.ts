/** Ranges of time, as the API takes them: ISO 8601 with an offset, the beginning included, the end not. */
import { z } from "@hono/zod-openapi";
import { isoTime } from "../iso-time.ts";
import type { FieldError } from "./field-errors.ts";

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
