/** Parses JSON, and keeps the digits of its numbers as they were written (JSON.rawJSON). */

declare global {
  interface JSON {
    rawJSON(text: string): unknown;
    isRawJSON(value: unknown): boolean;
  }
}

/** @param parse e.g. parseExactly */
export function parsedJson(text: string, parse: (text: string) => unknown = JSON.parse): unknown {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

/** SQLite's own JSON functions stop at 1,000. */
export const MAX_DEPTH = 500;

/** A fault, to follow what is at fault in a sentence. */
export const TOO_DEEP = `is nested more than ${MAX_DEPTH} levels deep`;

/** Whether lists and objects in JSON from outside are nested too deep: recursion over such a value could exhaust the stack. */
export function isTooDeep(text: string): boolean {
  if (!hasMoreOpenings(text)) return false;
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (quoted && char === "\\") i++;
    else if (char === '"') quoted = !quoted;
    else if (!quoted && (char === "[" || char === "{") && ++depth > MAX_DEPTH) return true;
    else if (!quoted && (char === "]" || char === "}")) depth--;
  }
  return false;
}

/** Whether more lists and objects may begin than that. Most texts have fewer, which a native search is quick to find. */
function hasMoreOpenings(text: string): boolean {
  let count = 0;
  for (const opening of ["[", "{"])
    for (let at = text.indexOf(opening); at >= 0 && count <= MAX_DEPTH; at = text.indexOf(opening, at + 1))
      count++;
  return count > MAX_DEPTH;
}

/** Characters of a value that an answer repeats. */
export const MAX_SHOWN = 60;

/** A value's kind, in a few words. */
export function faultOfValue(value: unknown): string {
  if (value === undefined) return "is missing";
  if (Array.isArray(value)) return `is a list of ${value.length}`;
  if (JSON.isRawJSON(value)) return `is ${JSON.stringify(value).slice(0, MAX_SHOWN)}`;
  if (typeof value === "object" && value !== null) return "is an object";
  if (typeof value === "string" && value.length > MAX_SHOWN)
    return `is a string of ${value.length} characters`;
  return `is ${typeof value === "string" ? JSON.stringify(value) : String(value)}`;
}

/** Whether it is an object, and neither a list nor a number as it was written. */
export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isRaw(value);
}

/**
 * Whether a stored value has the parts of the model, and they are of the same kinds. A part that is null in the model may
 * be anything; lists are compared as lists only.
 */
export function isLike(model: unknown, value: unknown): boolean {
  if (model === null) return value !== undefined;
  if (Array.isArray(model)) return Array.isArray(value);
  if (typeof model !== "object") return typeof value === typeof model;
  if (typeof value !== "object" || value === null) return false;
  const given = value as Readonly<Record<string, unknown>>;
  return Object.entries(model).every(([name, part]) => isLike(part, given[name]));
}

/** Whether it is a list of values like the model. */
export function isListLike(model: object, value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => isLike(model, one));
}

function isRaw(value: unknown): value is Readonly<{ rawJSON: string }> {
  return JSON.isRawJSON(value);
}

/**
 * The number, also where its digits are kept as written (JSON.rawJSON). A filter's own numbers are exact, so rounding
 * the other to the nearest double changes no comparison between whole numbers below 2^53.
 */
export function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  return isRaw(value) ? Number(value.rawJSON) : undefined;
}

export function valueAt(data: unknown, keys: readonly string[]): unknown {
  let value = data;
  for (const key of keys) {
    if (!isJsonObject(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

/**
 * Sixteen digits, an exponent, a negative zero, a fraction that ends in a zero or begins with six of them: without any
 * of these JavaScript writes a number as it was given.
 */
const MAY_CHANGE = /[\d.]{16}|\d[eE]|-0|\.0{6}|\.\d*0(?!\d)/;

/** Parses JSON so that `JSON.stringify` writes every number as it was given. Throws as JSON.parse does. */
export function parseExactly(text: string): unknown {
  return MAY_CHANGE.test(text) ? JSON.parse(text, keepNumber) : JSON.parse(text);
}

/** The value with numbers that can be compared, where it has some as they were written. */
export function withPlainNumbers(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

function keepNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== "number" || context?.source === undefined) return value;
  return String(value) === context.source ? value : JSON.rawJSON(context.source);
}
