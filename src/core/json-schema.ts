/**
 * JSON Schema (2020-12), as far as event types use it: whether a schema may be stored, and whether data fits it.
 *
 * Whoever posts chooses the data, and an operator may paste a schema from anywhere, so neither can cost more than a bound:
 * a schema is limited in size, depth and keywords; what refers to itself without going deeper into the data is refused; a
 * `pattern` is of a form whose search takes linear time; and checking takes a limited number of steps and of the stack,
 * however schema and data multiply. A keyword that is not known is refused, rather than ignored, so that nobody relies on it.
 */

export type JsonSchema = boolean | Readonly<Record<string, unknown>>;

/** What is wrong at a place of a schema or of data. */
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
/** Subschemas applied, entries compared and texts searched for one event: some milliseconds. */
const MAX_STEPS = 100_000;
/** Subschemas applied within one another. Each takes up to seven frames of the stack, which has room for 1,200 of them. */
const MAX_NESTED = 500;
/** Characters of a text that are searched in one step. */
const TEXT_STEP = 64;

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
    (value) => typeof value === "string" && isLinear(value),
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
  const size = JSON.stringify(schema).length;
  if (size > MAX_SCHEMA)
    return [{ pointer: "", fault: `is ${size} characters long`, expected: `at most ${MAX_SCHEMA}` }];
  const faults: SchemaFault[] = [];
  checkSchema(schema, "", 1, faults);
  if (faults.length === 0) checkRefs(schema as JsonSchema, faults);
  return faults.slice(0, MAX_FAULTS);
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

const MAX_PATTERN = 256;

/** A class, an escaped character or class, or a character; then how often. */
const PIECE =
  /(?:\[\^?(?:\\[dDwWsS\\\][/.*+?^$(){}|-]|[^\][\\])+\]|\\[dDwWsS\\./^$*+?()[\]{}|-]|[^\\^$*+?()[\]{}|])([*+?]|\{\d{1,3}(?:,\d{0,3})?\})?/uy;

/** Pieces of open length, those that may be absent, and characters behind one of open length: all are tried again. */
const MOST_OPEN = 1;
const MOST_OPTIONAL = 2;
const MOST_BEHIND = 64;

/**
 * Whether the search for a pattern takes time in proportion to the text. It begins at the start alone; without groups
 * nothing repeats what repeats; and only one piece is of open length, so that there are few ways to divide the text.
 */
function isLinear(pattern: string): boolean {
  if (pattern.length > MAX_PATTERN || !pattern.startsWith("^")) return false;
  const end = pattern.endsWith("$") ? pattern.length - 1 : pattern.length;
  let open = 0;
  let optional = 0;
  let behind = 0;
  for (let at = 1; at < end; at = PIECE.lastIndex) {
    PIECE.lastIndex = at;
    const found = PIECE.exec(pattern);
    if (!found) return false;
    const [, often] = found;
    const count = /^\{(\d+)\}$/.exec(often ?? "{1}")?.[1];
    if (often === "?") optional += 1;
    else if (count === undefined) open += 1;
    else if (open > 0) behind += Number(count);
  }
  return open <= MOST_OPEN && optional <= MOST_OPTIONAL && behind <= MOST_BEHIND && isPattern(pattern);
}

function isPattern(pattern: string): boolean {
  try {
    new RegExp(pattern, "u");
    return true;
  } catch {
    return false;
  }
}

// ── Data ──

/**
 * Where data does not fit a schema that `schemaFaults` has nothing against; empty when it fits. A value for which too many
 * steps are needed does not fit.
 */
export function dataFaults(schema: JsonSchema, data: unknown): readonly SchemaFault[] {
  const check = new Check(schema);
  try {
    check.apply(schema, data, "");
    return check.faults;
  } catch (error) {
    if (error !== TOO_MANY_STEPS) throw error;
    return [
      { pointer: "", fault: "takes too many steps to check", expected: "less data, or a simpler schema" },
    ];
  }
}

const TOO_MANY_STEPS = new Error("Too many steps");

/** One check of one value. */
class Check {
  readonly faults: SchemaFault[] = [];
  readonly #root: JsonSchema;
  #steps = 0;
  #nested = 0;
  /** Alternatives within alternatives that are being tried: their faults say nothing. */
  #trials = 0;

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  /** Whether the value fits; adds faults where it does not. */
  apply(schema: JsonSchema, value: unknown, pointer: string): boolean {
    this.#step();
    if (schema === true) return true;
    if (schema === false) return this.#refuse(pointer, faultOf(value), "it to be left out");
    this.#nested += 1;
    if (this.#nested > MAX_NESTED) throw TOO_MANY_STEPS;
    let fits = this.#isOfKind(schema, value, pointer);
    if (fits) fits = this.#isWithin(schema, value, pointer);
    if (typeof schema.$ref === "string") {
      const target = targetOf(this.#root, schema.$ref);
      if (target !== undefined && !this.apply(target, value, pointer)) fits = false;
    }
    if (!this.#combines(schema, value, pointer)) fits = false;
    this.#nested -= 1;
    return fits;
  }

  #step(steps = 1): void {
    this.#steps += steps;
    if (this.#steps > MAX_STEPS) throw TOO_MANY_STEPS;
  }

  /** @param expected a value of the schema's is written out only where it is reported: it may be long */
  #refuse(
    pointer: string,
    fault: string,
    expected: string | Readonly<{ prefix?: string; json: unknown }>,
  ): false {
    if (this.#trials > 0 || this.faults.length >= MAX_FAULTS) return false;
    const text =
      typeof expected === "string"
        ? expected
        : `${expected.prefix ?? ""}${shortened(JSON.stringify(expected.json))}`;
    this.faults.push({ pointer, fault, expected: text });
    return false;
  }

  /** Without the faults that it finds. */
  #fits(schema: JsonSchema, value: unknown): boolean {
    this.#trials += 1;
    const fits = this.apply(schema, value, "");
    this.#trials -= 1;
    return fits;
  }

  #isOfKind(schema: Readonly<Record<string, unknown>>, value: unknown, pointer: string): boolean {
    const { type } = schema;
    if (type !== undefined && ![type].flat().some((one) => isOfType(value, String(one))))
      return this.#refuse(pointer, faultOf(value), `a value of the type ${[type].flat().join(" or ")}`);
    if (Array.isArray(schema.enum) && !schema.enum.some((one) => this.#isEqual(one, value)))
      return this.#refuse(pointer, faultOf(value), { prefix: "one of ", json: schema.enum });
    if (Object.hasOwn(schema, "const") && !this.#isEqual(schema.const, value))
      return this.#refuse(pointer, faultOf(value), { json: schema.const });
    return true;
  }

  #isWithin(schema: Readonly<Record<string, unknown>>, value: unknown, pointer: string): boolean {
    if (typeof value === "number") return this.#isNumberWithin(schema, value, pointer);
    if (typeof value === "string") return this.#isTextWithin(schema, value, pointer);
    if (Array.isArray(value)) return this.#isListWithin(schema, value, pointer);
    return isObject(value) ? this.#isObjectWithin(schema, value, pointer) : true;
  }

  #isNumberWithin(schema: Readonly<Record<string, unknown>>, value: number, pointer: string): boolean {
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
        this.#refuse(pointer, faultOf(value), `${expected} ${bound}`)
      );
    });
  }

  #isTextWithin(schema: Readonly<Record<string, unknown>>, value: string, pointer: string): boolean {
    const { minLength, maxLength, pattern, format } = schema;
    if (typeof minLength === "number" || typeof maxLength === "number") {
      const length = this.#lengthOf(value);
      const [least, most] = [Number(minLength ?? 0), Number(maxLength ?? Number.POSITIVE_INFINITY)];
      if (length < least) return this.#refuse(pointer, faultOf(value), `at least ${least} characters`);
      if (length > most) return this.#refuse(pointer, faultOf(value), `at most ${most} characters`);
    }
    if (typeof pattern === "string") {
      this.#step(Math.ceil(value.length / TEXT_STEP));
      if (!regexOf(pattern).test(value))
        return this.#refuse(pointer, faultOf(value), `a string that matches ${pattern}`);
    }
    if (typeof format === "string" && isFormat(format)) {
      this.#step(Math.ceil(value.length / TEXT_STEP));
      if (!FORMATS[format]?.(value)) return this.#refuse(pointer, faultOf(value), `the format ${format}`);
    }
    return true;
  }

  /** In characters, as JSON Schema counts them: a surrogate pair is one. */
  #lengthOf(text: string): number {
    this.#step(Math.ceil(text.length / TEXT_STEP));
    let pairs = 0;
    for (let i = 0; i < text.length; i++) {
      const isHigh = (text.charCodeAt(i) & 0xfc00) === 0xd800;
      if (isHigh && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) pairs += 1;
    }
    return text.length - pairs;
  }

  #isListWithin(
    schema: Readonly<Record<string, unknown>>,
    list: readonly unknown[],
    pointer: string,
  ): boolean {
    const { minItems, maxItems, uniqueItems, prefixItems, items, contains } = schema;
    if (typeof minItems === "number" && list.length < minItems)
      return this.#refuse(pointer, faultOf(list), `at least ${minItems} entries`);
    if (typeof maxItems === "number" && list.length > maxItems)
      return this.#refuse(pointer, faultOf(list), `at most ${maxItems} entries`);
    const prefix = Array.isArray(prefixItems) ? (prefixItems as JsonSchema[]) : [];
    let fits = true;
    for (const [i, entry] of list.entries()) {
      const own = prefix[i] ?? (items as JsonSchema | undefined);
      if (own !== undefined && !this.apply(own, entry, within(pointer, String(i)))) fits = false;
    }
    if (contains !== undefined && !list.some((entry) => this.#fits(contains as JsonSchema, entry)))
      return this.#refuse(pointer, faultOf(list), "an entry that fits `contains`");
    if (uniqueItems === true && !this.#areUnique(list))
      return this.#refuse(pointer, "has an entry twice", "entries that are all different");
    return fits;
  }

  #areUnique(list: readonly unknown[]): boolean {
    return list.every((entry, i) => list.slice(0, i).every((other) => !this.#isEqual(entry, other)));
  }

  #isObjectWithin(
    schema: Readonly<Record<string, unknown>>,
    object: Readonly<Record<string, unknown>>,
    pointer: string,
  ): boolean {
    const { required, dependentRequired, minProperties, maxProperties, additionalProperties } = schema;
    const names = Object.keys(object);
    if (typeof minProperties === "number" && names.length < minProperties)
      return this.#refuse(pointer, `has ${names.length} properties`, `at least ${minProperties}`);
    if (typeof maxProperties === "number" && names.length > maxProperties)
      return this.#refuse(pointer, `has ${names.length} properties`, `at most ${maxProperties}`);
    const needed = isNames(required) ? [...required] : [];
    if (isObject(dependentRequired))
      for (const [name, others] of Object.entries(dependentRequired))
        if (Object.hasOwn(object, name) && isNames(others)) needed.push(...others);
    this.#step(needed.length);
    let fits = true;
    for (const name of needed)
      if (!Object.hasOwn(object, name))
        fits = this.#refuse(within(pointer, name), "is missing", "it to be there");
    const properties = isObject(schema.properties) ? schema.properties : {};
    for (const name of names) {
      const own = (Object.hasOwn(properties, name) ? properties[name] : additionalProperties) as
        | JsonSchema
        | undefined;
      this.#step();
      if (own !== undefined && !this.apply(own, object[name], within(pointer, name))) fits = false;
    }
    return fits;
  }

  #combines(schema: Readonly<Record<string, unknown>>, value: unknown, pointer: string): boolean {
    const { allOf, anyOf, oneOf, not } = schema as Readonly<Record<string, readonly JsonSchema[]>>;
    let fits = true;
    for (const part of allOf ?? []) if (!this.apply(part, value, pointer)) fits = false;
    if (anyOf && !anyOf.some((part) => this.#fits(part, value)))
      fits = this.#refuse(pointer, faultOf(value), `a value that fits one of ${anyOf.length} schemas`);
    if (oneOf) {
      const count = oneOf.filter((part) => this.#fits(part, value)).length;
      const expected = `a value that fits exactly one of ${oneOf.length} schemas`;
      if (count !== 1) fits = this.#refuse(pointer, `${faultOf(value)}, which fits ${count}`, expected);
    }
    if (not !== undefined && this.#fits(not as unknown as JsonSchema, value))
      fits = this.#refuse(pointer, faultOf(value), "a value that does not fit the schema under `not`");
    return this.#isConsequent(schema, value, pointer) && fits;
  }

  #isConsequent(schema: Readonly<Record<string, unknown>>, value: unknown, pointer: string): boolean {
    if (schema.if === undefined) return true;
    const next = this.#fits(schema.if as JsonSchema, value) ? schema.then : schema.else;
    return next === undefined || this.apply(next as JsonSchema, value, pointer);
  }

  /** Whether two values are the same JSON: the order of an object's properties does not matter. */
  #isEqual(a: unknown, b: unknown): boolean {
    this.#step();
    if (a === b) return true;
    if (Array.isArray(a))
      return Array.isArray(b) && a.length === b.length && a.every((one, i) => this.#isEqual(one, b[i]));
    if (!isObject(a) || !isObject(b)) return false;
    const names = Object.keys(a);
    return (
      names.length === Object.keys(b).length &&
      names.every((name) => Object.hasOwn(b, name) && this.#isEqual(a[name], b[name]))
    );
  }
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

const regexes = new Map<string, RegExp>();
const MOST_REGEXES = 1_000;

function regexOf(pattern: string): RegExp {
  const compiled = regexes.get(pattern);
  if (compiled) return compiled;
  if (regexes.size >= MOST_REGEXES) regexes.clear();
  const regex = new RegExp(pattern, "u");
  regexes.set(pattern, regex);
  return regex;
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
  const [name = "", host = "", ...others] = text.split("@");
  return others.length === 0 && /^[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}$/i.test(name) && isHostname(host);
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

/** What a value is, in a few words. */
function faultOf(value: unknown): string {
  if (value === undefined) return "is missing";
  if (Array.isArray(value)) return `is a list of ${value.length}`;
  if (isObject(value)) return "is an object";
  if (typeof value === "string" && value.length > MAX_SHOWN)
    return `is a string of ${value.length} characters`;
  return `is ${JSON.stringify(value)}`;
}
