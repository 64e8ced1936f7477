/**
 * A validator of our own because `@cfworker/json-schema` (the oracle of its tests) cannot stop: it counts no steps, and it
 * runs each `pattern` as a `RegExp`. Guards in front of it would have to predict how schema and data multiply.
 *
 * It covers JSON Schema (2020-12), as far as event types use it: whether a schema may be stored, and whether data fits it.
 * Callers choose the data, and operators may paste a schema from anywhere, so neither may cost more than a bound:
 * - A schema is limited in size, depth and keywords. A reference to itself that does not go deeper into the data is refused.
 * - A `pattern` has a form that is searched in counted steps (pattern.ts).
 * - A check takes a limited number of steps and of the stack. Everything read, listed, compared or searched counts.
 *
 * An unknown keyword is refused rather than ignored, so that nobody relies on it.
 */

import { hasPattern, patternOf } from "./pattern.ts";

export type JsonSchema = boolean | Readonly<Record<string, unknown>>;

/** A fault at a place of a schema or of data. */
export type SchemaFault = Readonly<{
  /** A JSON Pointer (RFC 6901); empty at the root. */
  pointer: string;
  /** Follows the place in a sentence: "is 7". */
  fault: string;
  /** Follows "expected" in a sentence: "a string". */
  expected: string;
}>;

/** Characters of a schema as JSON, and levels of schemas within schemas. */
const MAX_SCHEMA = 16 * 1024;
const MAX_DEPTH = 20;
/** Faults that are reported at once. */
const MAX_FAULTS = 10;
/** Steps for one value: subschemas applied, names listed, entries compared and texts searched. Some ten milliseconds. */
const MAX_STEPS = 100_000;
/** Steps for all values of one request. */
export const REQUEST_STEPS = 4 * MAX_STEPS;
/**
 * Subschemas applied, and values compared, within one another. Each takes up to seven frames of the stack, which has room
 * for 1,200 of them.
 */
const MAX_NESTED = 500;
/** Characters of a text that are measured, compared or searched by the runtime in one step. */
const TEXT_STEP = 64;
/** Visits of a pattern's pieces in one step. */
const VISITS_STEP = 32;

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

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
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
  const: NOTE,
  required: [isNames, "a list of names"],
  dependentRequired: [
    (value) => isObject(value) && Object.values(value).every(isNames),
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

// ── Schemas ──

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
  return faults.slice(0, MAX_FAULTS);
}

/** Whether a value has more levels of lists and objects: to write such a one takes as much of the stack. */
function isDeeper(value: unknown, most: number): boolean {
  let level = [value].filter(isContainer);
  for (let depth = 0; depth < most && level.length > 0; depth++)
    level = level.flatMap((one) => Object.values(one).filter(isContainer));
  return level.length > 0;
}

function checkSchema(schema: unknown, pointer: string, depth: number, faults: SchemaFault[]): void {
  if (depth > MAX_DEPTH) {
    faults.push({ pointer, fault: "is nested too deep", expected: `at most ${MAX_DEPTH} levels` });
    return;
  }
  if (typeof schema === "boolean") return;
  if (!isObject(schema)) {
    faults.push({ pointer, fault: faultOf(schema), expected: "a schema: an object, true or false" });
    return;
  }
  for (const [keyword, value] of Object.entries(schema)) {
    const at = within(pointer, keyword);
    const known = Object.hasOwn(APPLICATORS, keyword) ? APPLICATORS[keyword] : undefined;
    const rule = Object.hasOwn(RULES, keyword) ? RULES[keyword] : undefined;
    if (known) checkChildren(known.child, value, at, depth + 1, faults);
    else if (!rule)
      faults.push({ pointer: at, fault: "is not a known keyword", expected: `one of ${KEYWORDS}` });
    else if (!rule[0](value)) faults.push({ pointer: at, fault: faultOf(value), expected: rule[1] });
  }
}

function checkChildren(child: Child, value: unknown, at: string, depth: number, faults: SchemaFault[]): void {
  if (child === "schema") {
    checkSchema(value, at, depth, faults);
    return;
  }
  const isRight = child === "list" ? Array.isArray(value) && value.length > 0 : isObject(value);
  if (!isRight) {
    const expected = child === "list" ? "a list of schemas" : "an object of schemas by name";
    faults.push({ pointer: at, fault: faultOf(value), expected });
    return;
  }
  for (const [key, one] of Object.entries(value as object)) checkSchema(one, within(at, key), depth, faults);
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
      const target = targetOf(root, schema.$ref);
      const at = within(pointer, "$ref");
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
    const at = within(pointer, keyword);
    if (child === "schema") return [{ at, child: value as JsonSchema, inPlace }];
    return Object.entries(value as object).map(([key, one]) => ({
      at: within(at, key),
      child: one as JsonSchema,
      inPlace,
    }));
  });
}

function targetOf(root: JsonSchema, ref: string): JsonSchema | undefined {
  if (ref === "#") return root;
  const name = unescaped(ref.slice("#/$defs/".length));
  const defs = isObject(root) && isObject(root.$defs) ? root.$defs : {};
  return Object.hasOwn(defs, name) ? (defs[name] as JsonSchema) : undefined;
}

// ── Data ──

/** Steps that are left for the values of one request. Checks share it, and count down. */
export type StepBudget = { left: number };

/**
 * Where data does not fit a schema that `schemaFaults` has nothing against; empty when it fits. A value for which too many
 * steps are needed does not fit.
 */
export function dataFaults(
  schema: JsonSchema,
  data: unknown,
  budget: StepBudget = { left: MAX_STEPS },
): readonly SchemaFault[] {
  const check = new Check(schema, Math.min(budget.left, MAX_STEPS));
  try {
    check.apply(schema, data, undefined);
    return check.faults;
  } catch (error) {
    if (error !== TOO_MANY_STEPS) throw error;
    return [
      { pointer: "", fault: "takes too many steps to check", expected: "less data, or a simpler schema" },
    ];
  } finally {
    budget.left -= check.steps;
  }
}

const TOO_MANY_STEPS = new Error("Too many steps");

/** A place in the data. It is written as a pointer only where a fault is reported. */
type Place = Readonly<{ above: Place; key: string | number }> | undefined;

function pointerTo(place: Place): string {
  const keys: string[] = [];
  for (let at = place; at; at = at.above) keys.push(within("", String(at.key)));
  return keys.reverse().join("");
}

/** One check of one value. */
class Check {
  readonly faults: SchemaFault[] = [];
  steps = 0;
  readonly #root: JsonSchema;
  readonly #mostSteps: number;
  #nested = 0;
  /** How many nested alternatives are being checked. Their faults are not reported. */
  #alternatives = 0;
  readonly #names = new Map<object, readonly string[]>();
  /** By the schemas that refer to them. */
  readonly #targets = new Map<object, JsonSchema | undefined>();

  constructor(root: JsonSchema, mostSteps: number) {
    this.#root = root;
    this.#mostSteps = mostSteps;
  }

  /** Whether the value fits; adds faults where it does not. */
  apply(schema: JsonSchema, value: unknown, place: Place): boolean {
    this.#step();
    if (schema === true) return true;
    if (schema === false) return this.#refuse(place, faultOf(value), "it to be left out");
    this.#goDeeper();
    let fits = this.#isOfKind(schema, value, place);
    if (fits) fits = this.#isWithin(schema, value, place);
    if (typeof schema.$ref === "string") {
      const target = this.#targetOf(schema, schema.$ref);
      if (target !== undefined && !this.apply(target, value, place)) fits = false;
    }
    if (!this.#combines(schema, value, place)) fits = false;
    this.#nested -= 1;
    return fits;
  }

  #step(steps = 1): void {
    this.steps += steps;
    if (this.steps > this.#mostSteps) throw TOO_MANY_STEPS;
  }

  #goDeeper(): void {
    this.#nested += 1;
    if (this.#nested > MAX_NESTED) throw TOO_MANY_STEPS;
  }

  #readText(text: string): void {
    this.#step(Math.ceil(text.length / TEXT_STEP));
  }

  /** The names of an object's properties. They are listed once, a step each. */
  #namesOf(object: object): readonly string[] {
    const known = this.#names.get(object);
    if (known) return known;
    const names = Object.keys(object);
    this.#names.set(object, names);
    this.#step(names.length);
    return names;
  }

  #targetOf(schema: object, ref: string): JsonSchema | undefined {
    if (!this.#targets.has(schema)) this.#targets.set(schema, targetOf(this.#root, ref));
    return this.#targets.get(schema);
  }

  /** @param expected a function where it is long: it is written only where it is reported */
  #refuse(place: Place, fault: string, expected: string | (() => string)): false {
    if (this.#alternatives > 0 || this.faults.length >= MAX_FAULTS) return false;
    const text = typeof expected === "string" ? expected : expected();
    this.faults.push({ pointer: pointerTo(place), fault, expected: text });
    return false;
  }

  /** Without the faults that it finds. */
  #fits(schema: JsonSchema, value: unknown): boolean {
    this.#alternatives += 1;
    const fits = this.apply(schema, value, undefined);
    this.#alternatives -= 1;
    return fits;
  }

  #isOfKind(schema: Readonly<Record<string, unknown>>, value: unknown, place: Place): boolean {
    const { type } = schema;
    if (type !== undefined && !this.#isOfTypes(type, value))
      return this.#refuse(place, faultOf(value), () => `a value of the type ${[type].flat().join(" or ")}`);
    if (Array.isArray(schema.enum) && !schema.enum.some((one) => this.#isEqual(one, value)))
      return this.#refuse(place, faultOf(value), () => `one of ${shortened(JSON.stringify(schema.enum))}`);
    if (Object.hasOwn(schema, "const") && !this.#isEqual(schema.const, value))
      return this.#refuse(place, faultOf(value), () => shortened(JSON.stringify(schema.const)));
    return true;
  }

  #isOfTypes(type: unknown, value: unknown): boolean {
    if (!Array.isArray(type)) return isOfType(value, String(type));
    this.#step(type.length);
    return type.some((one) => isOfType(value, String(one)));
  }

  #isWithin(schema: Readonly<Record<string, unknown>>, value: unknown, place: Place): boolean {
    if (typeof value === "number") return this.#isNumberWithin(schema, value, place);
    if (typeof value === "string") return this.#isTextWithin(schema, value, place);
    if (Array.isArray(value)) return this.#isListWithin(schema, value, place);
    return isObject(value) ? this.#isObjectWithin(schema, value, place) : true;
  }

  #isNumberWithin(schema: Readonly<Record<string, unknown>>, value: number, place: Place): boolean {
    const bounds: readonly (readonly [
      keyword: string,
      holds: (bound: number) => boolean,
      expected: string,
    ])[] = [
      ["minimum", (bound) => value >= bound, "at least"],
      ["maximum", (bound) => value <= bound, "at most"],
      ["exclusiveMinimum", (bound) => value > bound, "more than"],
      ["exclusiveMaximum", (bound) => value < bound, "less than"],
      ["multipleOf", (bound) => isMultiple(value, bound), "a multiple of"],
    ];
    return bounds.every(([keyword, holds, expected]) => {
      const bound = schema[keyword];
      return (
        typeof bound !== "number" ||
        holds(bound) ||
        this.#refuse(place, faultOf(value), `${expected} ${bound}`)
      );
    });
  }

  #isTextWithin(schema: Readonly<Record<string, unknown>>, value: string, place: Place): boolean {
    const { minLength, maxLength, pattern, format } = schema;
    if (typeof minLength === "number" || typeof maxLength === "number") {
      const length = this.#lengthOf(value);
      const [least, most] = [Number(minLength ?? 0), Number(maxLength ?? Number.POSITIVE_INFINITY)];
      if (length < least) return this.#refuse(place, faultOf(value), `at least ${least} characters`);
      if (length > most) return this.#refuse(place, faultOf(value), `at most ${most} characters`);
    }
    if (typeof pattern === "string" && !this.#hasPattern(value, pattern))
      return this.#refuse(place, faultOf(value), `a string that matches ${pattern}`);
    if (typeof format === "string" && isFormat(format)) {
      this.#readText(value);
      if (!FORMATS[format]?.(value)) return this.#refuse(place, faultOf(value), `the format ${format}`);
    }
    return true;
  }

  #hasPattern(text: string, source: string): boolean {
    // As if it were parsed each time: what a check may take does not depend on what others have left in memory.
    this.#readText(source);
    const pattern = patternOf(source);
    if (!pattern) return true;
    let visits = 0;
    return hasPattern(pattern, text, (more) => {
      visits += more;
      if (visits < VISITS_STEP) return;
      this.#step(Math.floor(visits / VISITS_STEP));
      visits %= VISITS_STEP;
    });
  }

  /** In characters, as JSON Schema counts them: a surrogate pair is one. */
  #lengthOf(text: string): number {
    this.#readText(text);
    let pairs = 0;
    for (let i = 0; i < text.length; i++) {
      const isHigh = (text.charCodeAt(i) & 0xfc00) === 0xd800;
      if (isHigh && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) pairs += 1;
    }
    return text.length - pairs;
  }

  #isListWithin(schema: Readonly<Record<string, unknown>>, list: readonly unknown[], place: Place): boolean {
    const { minItems, maxItems, uniqueItems, prefixItems, items, contains } = schema;
    if (typeof minItems === "number" && list.length < minItems)
      return this.#refuse(place, faultOf(list), `at least ${minItems} entries`);
    if (typeof maxItems === "number" && list.length > maxItems)
      return this.#refuse(place, faultOf(list), `at most ${maxItems} entries`);
    const prefix = Array.isArray(prefixItems) ? (prefixItems as JsonSchema[]) : [];
    const applied = items === undefined ? Math.min(prefix.length, list.length) : list.length;
    let fits = true;
    for (let i = 0; i < applied; i++) {
      const own = prefix[i] ?? (items as JsonSchema);
      if (!this.apply(own, list[i], { above: place, key: i })) fits = false;
    }
    if (contains !== undefined && !list.some((entry) => this.#fits(contains as JsonSchema, entry)))
      return this.#refuse(place, faultOf(list), "an entry that fits `contains`");
    if (uniqueItems === true && !this.#areUnique(list))
      return this.#refuse(place, "has an entry twice", "entries that are all different");
    return fits;
  }

  #areUnique(list: readonly unknown[]): boolean {
    for (let i = 0; i < list.length; i++)
      for (let j = 0; j < i; j++) if (this.#isEqual(list[i], list[j])) return false;
    return true;
  }

  #isObjectWithin(
    schema: Readonly<Record<string, unknown>>,
    object: Readonly<Record<string, unknown>>,
    place: Place,
  ): boolean {
    const { minProperties, maxProperties, additionalProperties } = schema;
    const names = this.#namesOf(object);
    if (typeof minProperties === "number" && names.length < minProperties)
      return this.#refuse(place, `has ${names.length} properties`, `at least ${minProperties}`);
    if (typeof maxProperties === "number" && names.length > maxProperties)
      return this.#refuse(place, `has ${names.length} properties`, `at most ${maxProperties}`);
    let fits = this.#hasNeeded(schema, object, place);
    const properties = isObject(schema.properties) ? schema.properties : {};
    for (const name of names) {
      const own = (Object.hasOwn(properties, name) ? properties[name] : additionalProperties) as
        | JsonSchema
        | undefined;
      this.#step();
      if (own !== undefined && !this.apply(own, object[name], { above: place, key: name })) fits = false;
    }
    return fits;
  }

  #hasNeeded(
    { required, dependentRequired }: Readonly<Record<string, unknown>>,
    object: Readonly<Record<string, unknown>>,
    place: Place,
  ): boolean {
    let fits = true;
    const need = (names: unknown) => {
      if (!Array.isArray(names)) return;
      this.#step(names.length);
      for (const name of names as readonly string[])
        if (!Object.hasOwn(object, name))
          fits = this.#refuse({ above: place, key: name }, "is missing", "it to be there");
    };
    need(required);
    if (!isObject(dependentRequired)) return fits;
    const names = this.#namesOf(dependentRequired);
    this.#step(names.length);
    for (const name of names) if (Object.hasOwn(object, name)) need(dependentRequired[name]);
    return fits;
  }

  #combines(schema: Readonly<Record<string, unknown>>, value: unknown, place: Place): boolean {
    const { allOf, anyOf, oneOf, not } = schema as Readonly<Record<string, readonly JsonSchema[]>>;
    let fits = true;
    for (const part of allOf ?? []) if (!this.apply(part, value, place)) fits = false;
    if (anyOf && !anyOf.some((part) => this.#fits(part, value)))
      fits = this.#refuse(place, faultOf(value), `a value that fits one of ${anyOf.length} schemas`);
    if (oneOf) {
      const count = oneOf.filter((part) => this.#fits(part, value)).length;
      const expected = `a value that fits exactly one of ${oneOf.length} schemas`;
      if (count !== 1) fits = this.#refuse(place, `${faultOf(value)}, which fits ${count}`, expected);
    }
    if (not !== undefined && this.#fits(not as unknown as JsonSchema, value))
      fits = this.#refuse(place, faultOf(value), "a value that does not fit the schema under `not`");
    return this.#isConsequent(schema, value, place) && fits;
  }

  #isConsequent(schema: Readonly<Record<string, unknown>>, value: unknown, place: Place): boolean {
    if (schema.if === undefined) return true;
    const next = this.#fits(schema.if as JsonSchema, value) ? schema.then : schema.else;
    return next === undefined || this.apply(next as JsonSchema, value, place);
  }

  /** Whether two values are the same JSON: the order of an object's properties does not matter. */
  #isEqual(a: unknown, b: unknown): boolean {
    this.#step();
    if (typeof a === "string" && typeof b === "string" && a.length === b.length) this.#readText(a);
    if (a === b) return true;
    if (!isContainer(a) || !isContainer(b)) return false;
    this.#goDeeper();
    const isSame = this.#haveEqual(a, b);
    this.#nested -= 1;
    return isSame;
  }

  #haveEqual(a: object, b: object): boolean {
    if (Array.isArray(a))
      return Array.isArray(b) && a.length === b.length && a.every((one, i) => this.#isEqual(one, b[i]));
    if (!isObject(a) || !isObject(b)) return false;
    const names = this.#namesOf(a);
    return (
      names.length === this.#namesOf(b).length &&
      names.every((name) => Object.hasOwn(b, name) && this.#isEqual(a[name], b[name]))
    );
  }
}

function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

/**
 * Decimal fractions have no exact double: both numbers and their quotient are rounded, each by half an epsilon at most.
 */
function isMultiple(value: number, of: number): boolean {
  const quotient = value / of;
  const nearest = Math.round(quotient);
  return Math.abs(quotient - nearest) <= 1.5 * Number.EPSILON * Math.abs(nearest);
}

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function isDate(text: string): boolean {
  const [, year = 0, month = 0, day = 0] = (/^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? []).map(Number);
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = month === 2 && isLeap ? 29 : (DAYS[month - 1] ?? 0);
  return day >= 1 && day <= days;
}

function isTime(text: string): boolean {
  return /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d{1,9})?(z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i.test(text);
}

function isHostname(text: string): boolean {
  return (
    text.length <= 253 && text.split(".").every((part) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(part))
  );
}

function isEmail(text: string): boolean {
  const at = text.indexOf("@");
  return /^[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}$/i.test(text.slice(0, at)) && isHostname(text.slice(at + 1));
}

/** Whether values of `format` are checked by it. */
export function isFormat(name: string): boolean {
  return Object.hasOwn(FORMATS, name);
}

const FORMATS: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: isTime,
  "date-time": (text) => /^.{10}t/i.test(text) && isDate(text.slice(0, 10)) && isTime(text.slice(11)),
  email: isEmail,
  hostname: isHostname,
  ipv4: (text) => /^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(?!$)|$)){4}$/.test(text),
  uri: (text) => /^[a-z][a-z0-9+.-]*:[!#$%&'()*+,/0-9:;=?@A-Z[\]_a-z~.-]+$/i.test(text),
  uuid: (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text),
};

function within(pointer: string, key: string): string {
  return `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function unescaped(key: string): string {
  return key.replaceAll("~1", "/").replaceAll("~0", "~");
}

const MAX_SHOWN = 60;

function shortened(text: string): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}

/** A value's kind, in a few words. */
function faultOf(value: unknown): string {
  if (value === undefined) return "is missing";
  if (Array.isArray(value)) return `is a list of ${value.length}`;
  if (isObject(value)) return "is an object";
  if (typeof value === "string" && value.length > MAX_SHOWN)
    return `is a string of ${value.length} characters`;
  return `is ${JSON.stringify(value)}`;
}
