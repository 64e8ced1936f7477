/** Whether data fits a stored schema, in a limited number of steps (json-schema.ts). */
import { formatOf } from "./json-formats.ts";
import {
  isJsonContainer,
  type JsonSchema,
  MAX_NESTED,
  MAX_SCHEMA_FAULTS,
  pointerWithin,
  refTarget,
  type SchemaFault,
  shortenedJson,
} from "./json-schema.ts";
import { faultOfValue, isJsonObject } from "./json-value.ts";
import { hasPattern, patternOf } from "./pattern.ts";

/** Steps for one value: subschemas applied, names listed, entries compared and texts searched. Some ten milliseconds. */
const MAX_STEPS = 100_000;
export const REQUEST_STEPS = 4 * MAX_STEPS;
/** Characters of a text that are measured, compared or searched by the runtime in one step. */
const TEXT_STEP = 64;
/** Visits of a pattern's pieces in one step. */
const VISITS_STEP = 32;

/** The remaining steps for the values of one request, which all of its checks share. */
export type StepBudget = { left: number };

/**
 * The places where data does not fit a schema without `schemaFaults`; empty when it fits. A value for which too many
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

/** A place in the data. It is written as a pointer only if a fault is reported. */
type Place = Readonly<{ above: Place; key: string | number }> | undefined;

function pointerTo(place: Place): string {
  const keys: string[] = [];
  for (let at = place; at; at = at.above) keys.push(pointerWithin("", String(at.key)));
  return keys.reverse().join("");
}

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

  /** Whether the value fits; adds faults if it does not. */
  apply(schema: JsonSchema, value: unknown, place: Place): boolean {
    this.#step();
    if (schema === true) return true;
    if (schema === false) return this.#refuse(place, faultOfValue(value), "it to be left out");
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
    if (!this.#targets.has(schema)) this.#targets.set(schema, refTarget(this.#root, ref));
    return this.#targets.get(schema);
  }

  /** @param expected a function if it is long, called only if it is reported */
  #refuse(place: Place, fault: string, expected: string | (() => string)): false {
    if (this.#alternatives > 0 || this.faults.length >= MAX_SCHEMA_FAULTS) return false;
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
      return this.#refuse(
        place,
        faultOfValue(value),
        () => `a value of the type ${[type].flat().join(" or ")}`,
      );
    if (Array.isArray(schema.enum) && !schema.enum.some((one) => this.#isEqual(one, value)))
      return this.#refuse(
        place,
        faultOfValue(value),
        () => `one of ${shortenedJson(JSON.stringify(schema.enum))}`,
      );
    if (Object.hasOwn(schema, "const") && !this.#isEqual(schema.const, value))
      return this.#refuse(place, faultOfValue(value), () => shortenedJson(JSON.stringify(schema.const)));
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
    return isJsonObject(value) ? this.#isObjectWithin(schema, value, place) : true;
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
        this.#refuse(place, faultOfValue(value), `${expected} ${bound}`)
      );
    });
  }

  #isSized(size: number, [least, most]: readonly unknown[], place: Place, fault: string, unit = ""): boolean {
    if (typeof least === "number" && size < least)
      return this.#refuse(place, fault, `at least ${least}${unit}`);
    return typeof most !== "number" || size <= most || this.#refuse(place, fault, `at most ${most}${unit}`);
  }

  #isTextWithin(schema: Readonly<Record<string, unknown>>, value: string, place: Place): boolean {
    const { minLength, maxLength, pattern, format } = schema;
    const isLimited = typeof minLength === "number" || typeof maxLength === "number";
    const length = isLimited ? this.#lengthOf(value) : 0;
    if (!this.#isSized(length, [minLength, maxLength], place, faultOfValue(value), " characters"))
      return false;
    if (typeof pattern === "string" && !this.#hasPattern(value, pattern))
      return this.#refuse(place, faultOfValue(value), `a string that matches ${pattern}`);
    const hasFormat = formatOf(format);
    if (hasFormat) {
      this.#readText(value);
      if (!hasFormat(value)) return this.#refuse(place, faultOfValue(value), `the format ${format}`);
    }
    return true;
  }

  #hasPattern(text: string, source: string): boolean {
    // Counted as if it were parsed each time: the limit of a check does not depend on cached patterns.
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
    if (!this.#isSized(list.length, [minItems, maxItems], place, faultOfValue(list), " entries"))
      return false;
    const prefix = Array.isArray(prefixItems) ? (prefixItems as JsonSchema[]) : [];
    const applied = items === undefined ? Math.min(prefix.length, list.length) : list.length;
    let fits = true;
    for (let i = 0; i < applied; i++) {
      const own = prefix[i] ?? (items as JsonSchema);
      if (!this.apply(own, list[i], { above: place, key: i })) fits = false;
    }
    if (contains !== undefined && !list.some((entry) => this.#fits(contains as JsonSchema, entry)))
      return this.#refuse(place, faultOfValue(list), "an entry that fits `contains`");
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
    const fault = `has ${names.length} properties`;
    if (!this.#isSized(names.length, [minProperties, maxProperties], place, fault)) return false;
    let fits = this.#hasNeeded(schema, object, place);
    const properties = isJsonObject(schema.properties) ? schema.properties : {};
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
    if (!isJsonObject(dependentRequired)) return fits;
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
      fits = this.#refuse(place, faultOfValue(value), `a value that fits one of ${anyOf.length} schemas`);
    if (oneOf) {
      const count = oneOf.filter((part) => this.#fits(part, value)).length;
      const expected = `a value that fits exactly one of ${oneOf.length} schemas`;
      if (count !== 1) fits = this.#refuse(place, `${faultOfValue(value)}, which fits ${count}`, expected);
    }
    if (not !== undefined && this.#fits(not as unknown as JsonSchema, value))
      fits = this.#refuse(place, faultOfValue(value), "a value that does not fit the schema under `not`");
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
    if (!isJsonContainer(a) || !isJsonContainer(b)) return false;
    this.#goDeeper();
    const isSame = this.#haveEqual(a, b);
    this.#nested -= 1;
    return isSame;
  }

  #haveEqual(a: object, b: object): boolean {
    if (Array.isArray(a))
      return Array.isArray(b) && a.length === b.length && a.every((one, i) => this.#isEqual(one, b[i]));
    if (!isJsonObject(a) || !isJsonObject(b)) return false;
    const names = this.#namesOf(a);
    return (
      names.length === this.#namesOf(b).length &&
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
      return isJsonObject(value);
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
