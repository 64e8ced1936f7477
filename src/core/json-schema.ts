/**
 * JSON Schema (2020-12), as far as event types use it: whether a schema may be stored. json-schema-check.ts checks
 * data.
 *
 * Not `@cfworker/json-schema` (the oracle of the tests), which cannot stop: it counts no steps, and it runs each
 * `pattern` as a `RegExp`. Guards in front of it would have to predict how schema and data multiply.
 *
 * Callers choose the data, and operators may paste a schema from anywhere, so neither may cost more than a bound:
 * - A schema is limited in size, depth and keywords. A reference to itself that does not go deeper into the data is
 *   refused.
 * - A `pattern` has a form that is searched in counted steps (pattern.ts).
 * - A check takes a limited number of steps and of the stack. Everything read, listed, compared or searched counts.
 *
 * An unknown keyword is refused rather than ignored, so that no schema relies on it.
 */
import { canonicalJson } from "./canonical-json.ts";
import { isFormat } from "./json-formats.ts";
import { faultOfValue, isJsonObject, MAX_SHOWN } from "./json-value.ts";
import { patternOf } from "./pattern.ts";

export type JsonSchema = boolean | Readonly<Record<string, unknown>>;

export type SchemaFault = Readonly<{
  /** A JSON Pointer (RFC 6901); empty at the root. */
  pointer: string;
  /** Follows the place in a sentence: "is 7". */
  fault: string;
  /** Follows "expected" in a sentence: "a string". */
  expected: string;
}>;

/** Characters of a schema as JSON, and levels of schemas within schemas. */
export const MAX_SCHEMA = 16 * 1024;
const MAX_DEPTH = 20;
/** Faults that are reported at once. */
export const MAX_SCHEMA_FAULTS = 10;
/**
 * Subschemas applied, and values compared, within one another. Each takes up to seven frames of the stack, which has room
 * for 1,200 of them.
 */
export const MAX_NESTED = 500;

type Child = "schema" | "list" | "map";

type Applicator = Readonly<{
  child: Child;
  /** Whether it applies to the same value, rather than to what is in it. */
  inPlace: boolean;
}>;

const applicator = (keyword: string, child: Child, inPlace: boolean): [string, Applicator] => [
  keyword,
  { child, inPlace },
];

/** Keywords whose values are schemas. */
export const APPLICATORS: Readonly<Record<string, Applicator>> = Object.fromEntries([
  applicator("allOf", "list", true),
  applicator("anyOf", "list", true),
  applicator("oneOf", "list", true),
  applicator("not", "schema", true),
  applicator("if", "schema", true),
  applicator("then", "schema", true),
  applicator("else", "schema", true),
  applicator("properties", "map", false),
  applicator("additionalProperties", "schema", false),
  applicator("items", "schema", false),
  applicator("prefixItems", "list", false),
  applicator("contains", "schema", false),
  applicator("$defs", "map", false),
]);

const TYPES: readonly unknown[] = ["null", "boolean", "object", "array", "number", "integer", "string"];

const isCount = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0;
const isNumber = (value: unknown) => Number.isFinite(value);
const isText = (value: unknown) => typeof value === "string";
const isNames = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);
const isAnything = () => true;
const isType = (value: unknown) => TYPES.includes(value);

type Rule = readonly [is: (value: unknown) => boolean, expected: string];

const COUNT: Rule = [isCount, "a whole number, 0 or more"];
const NUMBER: Rule = [isNumber, "a number"];
const TEXT: Rule = [isText, "a string"];
const NOTE: Rule = [isAnything, ""];

/** The other keywords, and what their values may be. */
const RULES: Readonly<Record<string, Rule>> = {
  type: [
    (value) => isType(value) || (Array.isArray(value) && value.length > 0 && value.every(isType)),
    `one of ${TYPES.join(", ")}, or a list of them`,
  ],
  enum: [(value) => Array.isArray(value) && value.length > 0, "a list of values"],
  const: [isAnything, ""],
  required: [isNames, "a list of names"],
  dependentRequired: [
    (value) => isJsonObject(value) && Object.values(value).every(isNames),
    "lists of names by name",
  ],
  minProperties: COUNT,
  maxProperties: COUNT,
  minItems: COUNT,
  maxItems: COUNT,
  uniqueItems: [(value) => typeof value === "boolean", "true or false"],
  minLength: COUNT,
  maxLength: COUNT,
  minimum: NUMBER,
  maximum: NUMBER,
  exclusiveMinimum: NUMBER,
  exclusiveMaximum: NUMBER,
  multipleOf: [(value) => isNumber(value) && Number(value) > 0, "a number above 0"],
  pattern: [
    (value) => typeof value === "string" && patternOf(value) !== undefined,
    "^ and at most 256 characters, without groups, alternatives and references, with one of * + {n,m} and two ? at most",
  ],
  format: [
    (value) => typeof value === "string" && isFormat(value),
    "one of date-time, date, time, email, hostname, ipv4, uri, uuid",
  ],
  $ref: [
    (value) => typeof value === "string" && /^#(\/\$defs\/[^/]+)?$/.test(value),
    "# or #/$defs/ and a name: other documents are not fetched",
  ],
  $schema: [
    (value) => value === "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2020-12/schema",
  ],
  $comment: TEXT,
  title: TEXT,
  description: TEXT,
  default: NOTE,
  examples: NOTE,
  example: NOTE,
  deprecated: NOTE,
  readOnly: NOTE,
  writeOnly: NOTE,
};

const KEYWORDS = [...Object.keys(APPLICATORS), ...Object.keys(RULES)].join(", ");

const ANNOTATIONS = Object.keys(RULES).filter(
  (keyword) => RULES[keyword] === NOTE || RULES[keyword] === TEXT,
);

/** Whether two schemas differ only in annotations and the order of keys: the same data fits both. */
export function isSameShape(a: JsonSchema, b: JsonSchema): boolean {
  return canonicalJson(shapeOf(a)) === canonicalJson(shapeOf(b));
}

function shapeOf(schema: unknown): unknown {
  if (!isJsonObject(schema)) return schema;
  const kept = Object.entries(schema).filter(([keyword]) => !ANNOTATIONS.includes(keyword));
  return Object.fromEntries(
    kept.map(([keyword, value]): [string, unknown] => {
      const child = Object.hasOwn(APPLICATORS, keyword) ? APPLICATORS[keyword]?.child : undefined;
      if (child === "list" && Array.isArray(value)) return [keyword, value.map(shapeOf)];
      if (child !== "map" || !isJsonObject(value)) return [keyword, child ? shapeOf(value) : value];
      return [keyword, Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shapeOf(one)]))];
    }),
  );
}

/** Why a schema cannot be stored; empty when it can. */
export function schemaFaults(schema: unknown): SchemaFault[] {
  if (isDeeper(schema, MAX_NESTED))
    return [{ pointer: "", fault: "is nested too deep", expected: `at most ${MAX_NESTED} levels of JSON` }];
  const size = JSON.stringify(schema).length;
  if (size > MAX_SCHEMA)
    return [{ pointer: "", fault: `is ${size} characters long`, expected: `at most ${MAX_SCHEMA}` }];
  const faults: SchemaFault[] = [];
  checkSchema(schema, "", 1, faults);
  if (faults.length === 0) checkRefs(schema as JsonSchema, faults);
  return faults.slice(0, MAX_SCHEMA_FAULTS);
}

/** Whether a value has more levels of lists and objects: writing such a value takes as much of the stack. */
function isDeeper(value: unknown, most: number): boolean {
  let level = [value].filter(isJsonContainer);
  for (let depth = 0; depth < most && level.length > 0; depth++)
    level = level.flatMap((one) => Object.values(one).filter(isJsonContainer));
  return level.length > 0;
}

function checkSchema(schema: unknown, pointer: string, depth: number, faults: SchemaFault[]): void {
  if (depth > MAX_DEPTH) {
    faults.push({ pointer, fault: "is nested too deep", expected: `at most ${MAX_DEPTH} levels` });
    return;
  }
  if (typeof schema === "boolean") return;
  if (!isJsonObject(schema)) {
    faults.push({ pointer, fault: faultOfValue(schema), expected: "a schema: an object, true or false" });
    return;
  }
  for (const [keyword, value] of Object.entries(schema)) {
    const at = pointerWithin(pointer, keyword);
    const known = Object.hasOwn(APPLICATORS, keyword) ? APPLICATORS[keyword] : undefined;
    const rule = Object.hasOwn(RULES, keyword) ? RULES[keyword] : undefined;
    if (known) checkChildren(known.child, value, at, depth + 1, faults);
    else if (!rule)
      faults.push({ pointer: at, fault: "is not a known keyword", expected: `one of ${KEYWORDS}` });
    else if (!rule[0](value)) faults.push({ pointer: at, fault: faultOfValue(value), expected: rule[1] });
  }
}

function checkChildren(child: Child, value: unknown, at: string, depth: number, faults: SchemaFault[]): void {
  if (child === "schema") {
    checkSchema(value, at, depth, faults);
    return;
  }
  const isRight = child === "list" ? Array.isArray(value) && value.length > 0 : isJsonObject(value);
  if (!isRight) {
    const expected = child === "list" ? "a list of schemas" : "an object of schemas by name";
    faults.push({ pointer: at, fault: faultOfValue(value), expected });
    return;
  }
  for (const [key, one] of Object.entries(value as object))
    checkSchema(one, pointerWithin(at, key), depth, faults);
}

/** Every reference leads somewhere, and none comes back to itself without going deeper into the data. */
function checkRefs(root: JsonSchema, faults: SchemaFault[]): void {
  const queue: { schema: JsonSchema; pointer: string }[] = [{ schema: root, pointer: "" }];
  const safe = new Set<JsonSchema>();
  const walk = (schema: JsonSchema, pointer: string, through: readonly JsonSchema[]): void => {
    if (typeof schema === "boolean" || safe.has(schema)) return;
    if (through.includes(schema)) {
      const expected = "a $ref that goes deeper into the data before it comes back";
      faults.push({ pointer, fault: "refers to itself", expected });
      return;
    }
    const path = [...through, schema];
    if (typeof schema.$ref === "string") {
      const target = refTarget(root, schema.$ref);
      const at = pointerWithin(pointer, "$ref");
      if (target !== undefined) walk(target, at, path);
      else
        faults.push({ pointer: at, fault: `is ${JSON.stringify(schema.$ref)}`, expected: "a name in $defs" });
    }
    for (const { at: place, child, inPlace } of childrenOf(schema, pointer)) {
      if (inPlace) walk(child, place, path);
      else queue.push({ schema: child, pointer: place });
    }
    safe.add(schema);
  };
  // It grows while it is walked.
  for (const { schema, pointer } of queue) walk(schema, pointer, []);
}

function childrenOf(schema: Readonly<Record<string, unknown>>, pointer: string) {
  return Object.entries(APPLICATORS).flatMap(([keyword, { child, inPlace }]) => {
    if (!Object.hasOwn(schema, keyword)) return [];
    const value = schema[keyword];
    const at = pointerWithin(pointer, keyword);
    if (child === "schema") return [{ at, child: value as JsonSchema, inPlace }];
    return Object.entries(value as object).map(([key, one]) => ({
      at: pointerWithin(at, key),
      child: one as JsonSchema,
      inPlace,
    }));
  });
}

export function refTarget(root: JsonSchema, ref: string): JsonSchema | undefined {
  if (ref === "#") return root;
  const name = unescaped(ref.slice("#/$defs/".length));
  const defs = isJsonObject(root) && isJsonObject(root.$defs) ? root.$defs : {};
  return Object.hasOwn(defs, name) ? (defs[name] as JsonSchema) : undefined;
}

export function isJsonContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

export function pointerWithin(pointer: string, key: string): string {
  return `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function unescaped(key: string): string {
  return key.replaceAll("~1", "/").replaceAll("~0", "~");
}

export function shortenedJson(text: string): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}
