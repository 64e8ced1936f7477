/** The zod schemas of shapes. Only modules that validate requests import this: zod takes an isolate long to evaluate. */
import { z } from "zod";
import { expectationOf, type NumberShape, type Shape, type ShapeType, type TextShape } from "./shape.ts";

type SchemaOf<S> = S extends { optional: true }
  ? z.ZodOptional<z.ZodType<ShapeType<S>, ShapeType<S>>>
  : z.ZodType<ShapeType<S>, ShapeType<S>>;

/** The schema that takes exactly what `readAs` takes, and names what is wrong with anything else. */
export function zodOf<const S extends Shape>(shape: S): SchemaOf<S> {
  return made(shape) as never;
}

export function zodFieldsOf<const F extends Readonly<Record<string, Shape>>>(
  fields: F,
): { -readonly [K in keyof F]: SchemaOf<F[K]> } {
  return madeFields(fields) as never;
}

function made(shape: Shape): z.ZodType {
  const checked = withFaults(shape, bareSchemaOf(shape));
  const nullable = shape.nullable ? checked.nullable() : checked;
  const schema = shape.optional ? nullable.optional() : nullable;
  return shape.meta ? schema.meta(shape.meta) : schema;
}

function madeFields(fields: Readonly<Record<string, Shape>>): Record<string, z.ZodType> {
  return Object.fromEntries(Object.entries(fields).map(([name, shape]) => [name, made(shape)]));
}

function bareSchemaOf(shape: Shape): z.ZodType {
  const error = errorOf(expectationOf(shape));
  switch (shape.kind) {
    case "number":
      return numberSchema(shape, error);
    case "text":
      return textSchema(shape, error);
    case "boolean":
      return z.boolean(error);
    case "choice":
      return isWords(shape.values) ? z.enum(shape.values, error) : z.literal(shape.values, error);
    case "list": {
      const length = errorOf(shape.length) ?? error;
      const list = z.array(made(shape.of), error);
      const filled = shape.min === undefined ? list : list.min(shape.min, length);
      return shape.max === undefined ? filled : filled.max(shape.max, length);
    }
    case "record":
      return z.record(z.string(), made(shape.of), error);
    case "object":
      return shape.others
        ? z.object(madeFields(shape.fields), error)
        : z.strictObject(madeFields(shape.fields), {
            error: namingUnknown(`expected ${expectationOf(shape)}`),
          });
    case "tagged":
      return z.discriminatedUnion(shape.by, shape.of.map(made) as never, error);
    case "either":
      return z.union(shape.of.map(made), error);
  }
}

function isWords(values: readonly (string | number)[]): values is readonly string[] {
  return values.every((value) => typeof value === "string");
}

type Params = Readonly<{ error: string }> | undefined;

function errorOf(expected: string | undefined): Params {
  return expected === undefined ? undefined : { error: `expected ${expected}` };
}

function namingUnknown(expectation: string) {
  return (issue: z.core.$ZodRawIssue) =>
    issue.code === "unrecognized_keys" ? `unknown ${issue.keys.join(", ")}: ${expectation}` : expectation;
}

function numberSchema({ whole, min, max }: NumberShape, error: Params): z.ZodType {
  const any = whole ? z.int(error) : z.number(error);
  const least = min === undefined ? any : any.min(min, error);
  return max === undefined ? least : least.max(max, error);
}

/** The first check that fails ends it: all have one message. */
function textSchema({ max, pattern, is }: TextShape, error: Params): z.ZodType {
  const params = { ...error, abort: true };
  const any = z.string(error);
  const short = max === undefined ? any : any.max(max, params);
  const matching = pattern === undefined ? short : short.regex(pattern, params);
  return is === undefined ? matching : matching.refine(is, params);
}

function withFaults(shape: Shape, schema: z.ZodType): z.ZodType {
  const { faults } = shape;
  if (faults === undefined) return schema;
  const always = { when: ({ value }: { value: unknown }) => typeof value === "object" && value !== null };
  const report = (value: unknown, ctx: z.core.$RefinementCtx) => {
    for (const { path, message } of faults(value)) ctx.addIssue({ code: "custom", path: [...path], message });
  };
  return schema.check(z.superRefine(report, shape.kind === "object" ? always : undefined));
}
