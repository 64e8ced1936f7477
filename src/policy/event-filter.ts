/**
 * Which `data` a destination wants, as a person writes it: dotted paths and what must be there. All of the
 * conditions must hold. store/event-filter.ts evaluates it, inside the statement that stores the event.
 *
 * A path goes from object to object by their keys, and never into a list. A condition is a value, a list of
 * values of which it must be one, or operators that must all hold. What is missing has no value and is less
 * or greater than nothing; `not` is true of it, unless what it denies is `exists: false`.
 */
import { z } from "zod";

const MAX_CONDITIONS = 10;
const MAX_VALUES = 20;
const MAX_TEXT = 256;

const FILTER = `expected an object of 1 to ${MAX_CONDITIONS} conditions by their paths`;
const PATH = "expected keys joined by dots, at most 128 characters, without quotes, backslashes and controls";
const VALUE = `expected a string of at most ${MAX_TEXT} characters, a number up to 2^53, true, false or null`;
const VALUES = `expected a list of 1 to ${MAX_VALUES} values`;
const NUMBER = "expected a number up to 2^53";

/** What a JavaScript number cannot hold exactly would be another number when it is compared. */
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
  .record(path, destinationState({ ...comparisons, not: destinationState(comparisons).optional() }), { error: FILTER })
  .refine(hasConditions, { error: FILTER })
  .meta({
    description:
      "Conditions on data by dotted paths, all of which must hold: a value, a list of values of which it is " +
      "one, or operators: exists, prefix, gt, gte, lt, lte and not.",
    example: { "order.status": ["paid", "shipped"], "order.total": { gte: 100 }, test: { not: true } },
  });

export type EventFilter = z.infer<typeof eventFilter>;

/** A value, a list of values or an object of these operators; judged as what it looks like. */
function destinationState(operators: z.ZodRawShape) {
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
