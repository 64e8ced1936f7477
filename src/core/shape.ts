/**
 * Shapes of JSON values, as plain data. The API's zod schema is made from a shape (core/zod-of.ts), and the engine
 * reads stored values by the same shape: evaluating zod costs an isolate more than all of the engine.
 */
import { isJsonObject } from "./json-value.ts";

export type ShapeFault = Readonly<{ path: readonly (string | number)[]; message: string }>;

type Common = Readonly<{
  /** The rest of a sentence that begins with "expected"; absent if it follows from the shape (`expectationOf`). */
  expected?: string;
  /** Its description in the API's document. */
  meta?: Readonly<{
    description?: string;
    example?: unknown;
    writeOnly?: boolean;
    minimum?: number;
    maximum?: number;
  }>;
  /** It may be left out of its object. */
  optional?: true;
  nullable?: true;
  /** Further faults of a value that has the shape; of an object even if its fields are at fault. */
  faults?(value: unknown): readonly ShapeFault[];
}>;

export type NumberShape = Common &
  Readonly<{ kind: "number"; whole?: true; of?: string; min?: number; max?: number }>;

export type TextShape = Common &
  Readonly<{ kind: "text"; pattern?: RegExp; max?: number; is?: (text: string) => boolean }>;

type ObjectShape = Common &
  Readonly<{ kind: "object"; fields: Readonly<Record<string, Shape>>; others?: "dropped" }>;

export type Shape =
  | NumberShape
  | TextShape
  | ObjectShape
  | (Common &
      (
        | Readonly<{ kind: "boolean" }>
        | Readonly<{ kind: "choice"; values: readonly (string | number)[] }>
        /** `length` is the expectation if it has too few or too many entries, when that differs. */
        | Readonly<{ kind: "list"; of: Shape; min?: number; max?: number; length?: string }>
        | Readonly<{ kind: "record"; of: Shape }>
        /** An object of these whose field `by`, a choice, has the value. */
        | Readonly<{ kind: "tagged"; by: string; of: readonly ObjectShape[] }>
        | Readonly<{ kind: "either"; of: readonly Shape[] }>
      ));

export type ShapeType<S> = TypeOf<S> | (S extends { nullable: true } ? null : never);

type TypeOf<S> = S extends { kind: "number" }
  ? number
  : S extends { kind: "text" }
    ? string
    : S extends { kind: "boolean" }
      ? boolean
      : S extends { kind: "choice"; values: readonly (infer V)[] }
        ? V
        : S extends { kind: "list"; of: infer E }
          ? ShapeType<E>[]
          : S extends { kind: "record"; of: infer E }
            ? Record<string, ShapeType<E>>
            : S extends { kind: "object"; fields: infer F }
              ? FieldTypes<F>
              : S extends { kind: "tagged" | "either"; of: readonly (infer V)[] }
                ? ShapeType<V>
                : never;

type OptionalOf<F> = { [K in keyof F]: F[K] extends { optional: true } ? K : never }[keyof F];

type FieldTypes<F> = Flat<
  { -readonly [K in Exclude<keyof F, OptionalOf<F>>]: ShapeType<F[K]> } & {
    -readonly [K in OptionalOf<F>]?: ShapeType<F[K]> | undefined;
  }
>;

type Flat<T> = { [K in keyof T]: T[K] };

/** The shape of a field that may be left out, with its description in the API's document. */
export function optionalShape<const S extends Shape>(shape: S, description: string) {
  return { ...shape, optional: true, meta: { description } } as const;
}

/** The rest of a sentence that begins with "expected"; undefined if the shape does not determine it. */
export function expectationOf(shape: Shape): string | undefined {
  if (shape.expected !== undefined) return shape.expected;
  switch (shape.kind) {
    case "number": {
      const { whole, of, min, max } = shape;
      if (min === undefined || max === undefined) return undefined;
      return `a ${whole ? "whole number" : "number"}${of ? ` of ${of}` : ""} from ${min} to ${max}`;
    }
    case "boolean":
      return "true or false";
    case "choice":
      return `one of ${shape.values.join(", ")}`;
    case "object":
      return `an object of ${Object.keys(shape.fields).join(", ")}`;
    default:
      return undefined;
  }
}

/** The value, without fields that the shape drops; undefined if it does not have the shape. */
export function readAs<const S extends Shape>(shape: S, value: unknown): ShapeType<S> | undefined {
  return read(shape, value) as ShapeType<S> | undefined;
}

function read(shape: Shape, value: unknown): unknown {
  if (value === null) return shape.nullable ? null : undefined;
  const found = readPresent(shape, value);
  return found === undefined || shape.faults?.(found).length ? undefined : found;
}

function readPresent(shape: Shape, value: unknown): unknown {
  switch (shape.kind) {
    case "number":
      return isNumber(shape, value) ? value : undefined;
    case "text":
      return isText(shape, value) ? value : undefined;
    case "boolean":
      return typeof value === "boolean" ? value : undefined;
    case "choice":
      return shape.values.find((one) => one === value);
    case "list": {
      if (!Array.isArray(value) || !isWithin(shape, value.length)) return undefined;
      const entries = value.map((entry) => read(shape.of, entry));
      return entries.includes(undefined) ? undefined : entries;
    }
    case "record":
      return isJsonObject(value) ? readEntries(Object.keys(value), () => shape.of, value) : undefined;
    case "object":
      return isJsonObject(value) ? readFields(shape, value) : undefined;
    case "tagged": {
      if (!isJsonObject(value)) return undefined;
      const tag = value[shape.by];
      const meant = shape.of.find(({ fields }) => {
        const own = fields[shape.by];
        return own !== undefined && read(own, tag) !== undefined;
      });
      return meant && read(meant, value);
    }
    case "either":
      return shape.of.map((one) => read(one, value)).find((found) => found !== undefined);
  }
}

function isNumber({ whole, ...range }: NumberShape, value: unknown): boolean {
  if (typeof value !== "number" || !isWithin(range, value)) return false;
  return whole ? Number.isSafeInteger(value) : Number.isFinite(value);
}

function isText({ pattern, max, is }: TextShape, value: unknown): boolean {
  if (typeof value !== "string" || !isWithin({ max }, value.length)) return false;
  return (pattern?.test(value) ?? true) && (is?.(value) ?? true);
}

function isWithin(
  {
    min = Number.NEGATIVE_INFINITY,
    max = Number.POSITIVE_INFINITY,
  }: Readonly<{ min?: number | undefined; max?: number | undefined }>,
  value: number,
): boolean {
  return value >= min && value <= max;
}

function readFields({ fields, others }: ObjectShape, value: Readonly<Record<string, unknown>>): unknown {
  const isUnknown = (name: string) => !Object.hasOwn(fields, name);
  if (others === undefined && Object.keys(value).some(isUnknown)) return undefined;
  const present = Object.keys(fields).filter((name) => value[name] !== undefined || !fields[name]?.optional);
  return readEntries(present, (name) => fields[name], value);
}

/** A key `__proto__` is left out, as zod leaves it out. */
function readEntries(
  names: readonly string[],
  shapeOf: (name: string) => Shape | undefined,
  value: Readonly<Record<string, unknown>>,
): unknown {
  const pairs = names.flatMap((name) => {
    const shape = name === "__proto__" ? undefined : shapeOf(name);
    return shape === undefined ? [] : [[name, read(shape, value[name])] as const];
  });
  return pairs.some(([, one]) => one === undefined) ? undefined : Object.fromEntries(pairs);
}
