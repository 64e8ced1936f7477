/**
 * Routing: which destinations of a tenant get an event, by its type, its channels and its `data`. The schema of an
 * event filter, as the API takes it, is in event-filter.ts.
 *
 * Channels are names that an event is posted with. A destination with channels gets the events that have one of them,
 * and none without; one without channels gets events regardless of their channels, as in the Svix API
 * (https://docs.svix.com/channels).
 *
 * A filter is a set of conditions on `data` by dotted paths, all of which must hold. A path goes from object to object
 * by their keys, and never into a list. A condition is a value, a list of values of which it must be one, or operators
 * that must all hold. A missing value equals nothing and is neither less nor greater than anything; `not` is true of
 * it, unless it denies `exists: false`.
 *
 * `or` with a list of filters holds when one of them does. A key of `data` may be named `or` too: with anything but
 * filters in its list it is a condition on that key.
 *
 * A destination's settings may have been edited by hand into something invalid. An invalid filter takes everything, as
 * does an invalid list of channels, so that a mistake loses no event.
 */
import { isJsonObject, numberOf, valueAt } from "./json-value.ts";
import { readAs, type Shape } from "./shape.ts";

/** The fields of a destination that routing needs. */
export type Route = Readonly<{
  destination: string;
  /** Exact names, `prefix.*` for everything below the prefix, or `*`; null takes every type. */
  types: readonly unknown[] | null;
  /** It takes events with one of these; null takes all. */
  channels: readonly string[] | null;
  /** Conditions on `data`; null takes everything. Not validated. */
  filter: unknown;
  /** Whether it takes content that is not JSON. */
  takesContent?: boolean;
  /** From then on it takes nothing, epoch ms; absent: it has no end. */
  expiresAt?: number;
}>;

/** The fields of an event that routing needs. */
type RoutedEvent = Readonly<{
  type: string;
  channels?: readonly string[] | undefined;
  /** Called only if there is a filter. */
  data: () => unknown;
  /** Whether it is content of its own type, which has no `data` and no envelope. */
  isContent?: boolean;
}>;

/**
 * The destinations that get an event, in the order of `routes`.
 * @param at when it is accepted, epoch ms; 0 includes routes that have expired
 */
export function routed(routes: readonly Route[], event: RoutedEvent, at = 0): string[] {
  return routes
    .filter((route) => (route.expiresAt ?? at + 1) > at && refusalOf(route, event) === undefined)
    .map(({ destination }) => destination);
}

/** Why a destination does not take an event. */
export const refusals = ["type", "channel", "filter", "body"] as const;

/** Why a destination with this route does not get an event; undefined when it gets it. */
export function refusalOf(
  route: Omit<Route, "destination">,
  { type, channels = [], data, isContent = false }: RoutedEvent,
): (typeof refusals)[number] | undefined {
  if (!takesType(route.types, type)) return "type";
  if (!takesChannels(route.channels, channels)) return "channel";
  if (isContent && route.takesContent !== true) return "body";
  return route.filter === null || letsThrough(route.filter, data()) ? undefined : "filter";
}

/** Whether a destination with its `own` channels takes an event with these. */
function takesChannels(own: readonly string[] | null, channels: readonly string[]): boolean {
  return own === null || channels.some((channel) => own.includes(channel));
}

export function takesType(patterns: readonly unknown[] | null, type: string): boolean {
  return patterns === null || patterns.some((pattern) => matches(pattern, type));
}

function matches(pattern: unknown, type: string): boolean {
  if (typeof pattern !== "string") return false;
  if (pattern === "*" || pattern === type) return true;
  return pattern.endsWith(".*") && type.startsWith(pattern.slice(0, -1));
}

/** Whether a condition is met; undefined when it is invalid. */
type Met = boolean | undefined;

/** Filters within filters at most, the outermost included. */
export const MAX_FILTER_DEPTH = 3;
/** The entries of a list in `data` that `in` checks: an event may go through a thousand filters. */
const MAX_LOOKED_AT = 100;

/** Whether the filter takes the data: all of its conditions hold, or one of them is invalid. */
export function letsThrough(filter: unknown, data: unknown): boolean {
  return holds(filter, data, 1) ?? true;
}

function holds(filter: unknown, data: unknown, depth: number): Met {
  if (!isJsonObject(filter) || depth > MAX_FILTER_DEPTH) return undefined;
  return all(Object.entries(filter), ([path, given]) =>
    isAlternatives(path, given)
      ? any(given, (alternative) => holds(alternative, data, depth + 1))
      : meetsAt(path, given, data),
  );
}

/** Whether this is `or` with filters. A list without a filter is one of values: that of a key named `or`. */
export function isAlternatives(path: string, given: unknown): given is readonly unknown[] {
  return path === "or" && Array.isArray(given) && given.some(isJsonObject);
}

function meetsAt(path: string, condition: unknown, data: unknown): Met {
  const keys = path.split(".");
  return keys.every(isKey) ? meets(valueAt(data, keys), condition, "with not") : undefined;
}

/** A condition is a value, a list of values of which it must be one, or operators that must all hold. */
function meets(value: unknown, condition: unknown, denial: "with not" | "without"): Met {
  if (Array.isArray(condition))
    return any(condition, (one) => (isScalar(one) ? same(value, one) : undefined));
  if (!isJsonObject(condition)) return same(value, condition);
  const fold = foldingOf(condition);
  return all(Object.entries(condition), ([operator, operand]) => {
    if (operator !== "not") return fold && compare(operator, value, operand, fold);
    const denied = denial === "with not" ? meets(value, operand, "without") : undefined;
    return denied === undefined ? undefined : !denied;
  });
}

/** The folding of texts before a comparison. */
type Fold = (text: string) => string;

/** The operators that `ignore_case` is about. */
export const OF_TEXTS = ["prefix", "suffix", "in"] as const;

/** How the operators of a condition compare texts; undefined if its `ignore_case` is invalid. */
function foldingOf(condition: Readonly<Record<string, unknown>>): Fold | undefined {
  const { ignore_case: given } = condition;
  if (given === undefined) return asGiven;
  if (typeof given !== "boolean" || !hasTexts(condition)) return undefined;
  return given ? withoutCase : asGiven;
}

export function hasTexts(condition: object): boolean {
  return OF_TEXTS.some((operator) => Object.hasOwn(condition, operator));
}

function asGiven(text: string): string {
  return text;
}

/** In lower case first, so that every character is folded by itself (a final sigma too). No text becomes shorter. */
function withoutCase(text: string): string {
  return text.toLowerCase().toUpperCase();
}

function compare(operator: string, value: unknown, operand: unknown, fold: Fold): Met {
  switch (operator) {
    case "exists":
      return typeof operand === "boolean" ? (value !== undefined) === operand : undefined;
    case "ignore_case":
      return true;
    case "in":
      return Array.isArray(operand) ? isOneOf(value, operand, fold) : undefined;
    // Only as much of a long text is folded as can matter, and one more: half of a surrogate pair folds otherwise.
    case "prefix":
      return ofTexts(
        value,
        operand,
        (text, part) => fold(text.slice(0, part.length + 1)).startsWith(part),
        fold,
      );
    case "suffix":
      return ofTexts(value, operand, (text, part) => fold(text.slice(-part.length - 1)).endsWith(part), fold);
    case "gt":
      return ordered(value, operand, (a, b) => a > b);
    case "gte":
      return ordered(value, operand, (a, b) => a >= b);
    case "lt":
      return ordered(value, operand, (a, b) => a < b);
    case "lte":
      return ordered(value, operand, (a, b) => a <= b);
    default:
      return undefined;
  }
}

function ofTexts(
  value: unknown,
  operand: unknown,
  holds: (text: string, folded: string) => boolean,
  fold: Fold,
): Met {
  if (typeof operand !== "string") return undefined;
  return typeof value === "string" && holds(value, fold(operand));
}

/** Whether the value, or one of the first entries if it is a list, is one of these. */
function isOneOf(value: unknown, these: readonly unknown[], fold: Fold): Met {
  const found = Array.isArray(value) ? value.slice(0, MAX_LOOKED_AT) : [value];
  return any(these, (one) => {
    if (!isScalar(one)) return undefined;
    if (typeof one !== "string") return found.some((entry) => same(entry, one));
    const folded = fold(one);
    return found.some(
      (entry) => typeof entry === "string" && entry.length <= folded.length && fold(entry) === folded,
    );
  });
}

function ordered(value: unknown, operand: unknown, holds: (a: number, b: number) => boolean): Met {
  if (typeof operand !== "number") return undefined;
  const number = numberOf(value);
  return number !== undefined && holds(number, operand);
}

function same(value: unknown, given: unknown): boolean {
  return typeof given === "number" ? numberOf(value) === given : value === given;
}

/** Whether all hold; undefined when there are none or one of them is invalid. */
function all<T>(list: readonly T[], test: (one: T) => Met): Met {
  const met = list.map(test);
  return met.length === 0 || met.includes(undefined) ? undefined : !met.includes(false);
}

function any<T>(list: readonly T[], test: (one: T) => Met): Met {
  const met = list.map(test);
  return met.length === 0 || met.includes(undefined) ? undefined : met.includes(true);
}

/** Whether this may be between the dots of a path. */
function isKey(key: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a path may not have.
  return /^[^"\\\x00-\x1f]+$/.test(key);
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value !== "object";
}

export const channelShape = {
  kind: "text",
  pattern: /^[A-Za-z0-9_.-]{1,128}$/,
  expected: "1 to 128 letters, digits and _ . -",
  meta: { example: "project-42" },
} as const satisfies Shape;

function channelList(max: number) {
  const expected = `a list of 1 to ${max} channels`;
  return { kind: "list", of: channelShape, min: 1, max, expected } as const satisfies Shape;
}

export const eventChannels = channelList(5);
export const destinationChannels = channelList(10);

/** The channels of a destination that apply; null, which takes everything, for invalid ones. */
export function channelsInEffect(stored: unknown): readonly string[] | null {
  return readAs(destinationChannels, stored) ?? null;
}
