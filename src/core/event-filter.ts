/** The schema of an event filter, as the API takes it. routing.ts applies filters, invalid ones too. */
import { z } from "zod";
import { isJsonObject } from "./json-value.ts";
import { recordOf } from "./record.ts";
import { hasTexts, isAlternatives, MAX_FILTER_DEPTH, OF_TEXTS } from "./routing.ts";

/** Conditions of one filter, `or` counting as one; and in all, with those of the filters within. */
const MAX_CONDITIONS = 10;
const MAX_CONDITIONS_IN_ALL = 50;
const MAX_ALTERNATIVES = 10;
const MAX_VALUES = 20;
const MAX_TEXT = 256;

const FILTER = `expected an object of 1 to ${MAX_CONDITIONS} conditions by their paths`;
const IN_ALL = `expected at most ${MAX_CONDITIONS_IN_ALL} conditions in all`;
const ALTERNATIVES = `expected a list of 1 to ${MAX_ALTERNATIVES} filters`;
const DEPTH = `expected no \`or\` here: filters are at most ${MAX_FILTER_DEPTH} levels deep`;
const PATH = "expected keys joined by dots, at most 128 characters, without quotes, backslashes and controls";
const VALUE = `expected a string of at most ${MAX_TEXT} characters, a number up to 2^53, true, false or null`;
const VALUES = `expected a list of 1 to ${MAX_VALUES} values`;
const NUMBER = "expected a number up to 2^53";
const CASE = `expected ${OF_TEXTS.slice(0, -1).join(", ")} or ${OF_TEXTS.at(-1)} beside it`;

/** A number that JavaScript cannot represent exactly would be another number when it is compared. */
const isExact = (n: number) => !Number.isInteger(n) || Number.isSafeInteger(n);

const number = z.number({ error: NUMBER }).refine(isExact, { error: NUMBER });
const text = z
  .string({ error: VALUE })
  .max(MAX_TEXT, { error: VALUE })
  .refine((given) => !given.includes("\0"), { error: VALUE });
const value = z.union([text, number, z.boolean(), z.null()], { error: VALUE });
const values = z.array(value, { error: VALUES }).min(1, { error: VALUES }).max(MAX_VALUES, { error: VALUES });
const yesOrNo = z.boolean({ error: "expected true or false" });

const comparisons = {
  exists: yesOrNo.optional(),
  prefix: text.optional(),
  suffix: text.optional(),
  in: values.optional(),
  ignore_case: yesOrNo.optional(),
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

const byPath = z.record(path, z.unknown());
const condition = conditionSchema({ ...comparisons, not: conditionSchema(comparisons).optional() });

export const eventFilter = filterSchema(1)
  .refine((given) => conditionsIn(given) <= MAX_CONDITIONS_IN_ALL, { error: IN_ALL })
  .meta({
    description:
      "Conditions on data by dotted paths, all of which must hold: a value, a list of values of which it is " +
      "one, or operators: exists, prefix, suffix, in (it is, or a list has, one of these values), ignore_case (for " +
      "prefix, suffix and in), gt, gte, lt, lte and not. `or` with a list of filters holds when one of them does.",
    example: { "order.status": ["paid", "shipped"], "order.total": { gte: 100 }, test: { not: true } },
  });

export type EventFilter = z.infer<typeof eventFilter>;

/** A filter at this depth within others; its errors name the path inside of it. */
function filterSchema(depth: number) {
  return recordOf(z.string(), z.unknown(), { error: FILTER })
    .refine(hasConditions, { error: FILTER, abort: true })
    .superRefine((given, ctx) => {
      forward(byPath.safeParse(given).error?.issues ?? [], given, ctx);
      for (const [key, one] of Object.entries(given)) {
        const found = isAlternatives(key, one) ? alternatives(depth + 1) : condition;
        const issues = found.safeParse(one).error?.issues ?? [];
        forward(
          issues.map((issue) => ({ ...issue, path: [key, ...issue.path] })),
          given,
          ctx,
        );
      }
    });
}

function alternatives(depth: number) {
  if (depth > MAX_FILTER_DEPTH) return z.never({ error: DEPTH });
  return z.array(filterSchema(depth)).max(MAX_ALTERNATIVES, { error: ALTERNATIVES });
}

type Context = Pick<z.RefinementCtx, "addIssue">;

function forward(issues: readonly z.core.$ZodIssue[], input: unknown, ctx: Context): void {
  for (const issue of issues) ctx.addIssue({ ...issue, input } as Parameters<Context["addIssue"]>[0]);
}

/** A value, a list of values or an object of these operators; its errors are those of the form it has. */
function conditionSchema(operators: z.ZodRawShape) {
  const error = `expected an object of ${Object.keys(operators).join(", ")}`;
  const object = z
    .strictObject(operators, { error })
    .refine((given) => given.ignore_case === undefined || hasTexts(given), {
      error: CASE,
      path: ["ignore_case"],
    });
  const none = z.never({ error });
  const schemaFor = (given: unknown) => {
    if (Array.isArray(given)) return values;
    if (typeof given !== "object" || given === null) return value;
    return Object.keys(given).length > 0 ? object : none;
  };
  return z.unknown().superRefine((given, ctx) => {
    forward(schemaFor(given).safeParse(given).error?.issues ?? [], given, ctx);
  });
}

function hasConditions(given: object): boolean {
  const { length } = Object.keys(given);
  return length >= 1 && length <= MAX_CONDITIONS;
}

/** With those of the filters within, as deep as they may be; other values have none. */
function conditionsIn(filter: unknown, depth = 1): number {
  if (!isJsonObject(filter) || depth > MAX_FILTER_DEPTH) return 0;
  const counts = Object.entries(filter).flatMap(([key, given]) =>
    isAlternatives(key, given) ? given.map((one) => conditionsIn(one, depth + 1)) : [1],
  );
  return counts.reduce((sum, count) => sum + count, 0);
}
