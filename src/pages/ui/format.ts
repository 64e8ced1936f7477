/**
 * Text for people and from people: numbers and times as they are read, the fields of a form as they are typed, and
 * text for a shell. Pure; times in epoch ms.
 */
import { isTooDeep, TOO_DEEP } from "../../core/json-value.ts";
import type { FieldError } from "../../core/result.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How units of time are written; they differ by language. */
export type TimeUnits = Readonly<Record<"ms" | "s" | "min" | "h" | "d", string>>;

const english: TimeUnits = { ms: "ms", s: "s", min: "min", h: "h", d: "d" };

/** A duration in its two largest units: "42 s", "3 min 5 s", "2 h", "3 d 4 h". Below a second: "350 ms". */
export function durationOf(ms: number, units = english): string {
  if (ms < SECOND) return `${Math.max(0, Math.round(ms))} ${units.ms}`;
  const seconds = Math.round(ms / SECOND);
  if (seconds < 60) return `${seconds} ${units.s}`;
  if (seconds < 3600) return twoUnits(seconds, 60, units.min, units.s);
  if (ms < DAY) return twoUnits(Math.round(ms / MINUTE), 60, units.h, units.min);
  return twoUnits(Math.round(ms / HOUR), 24, units.d, units.h);
}

/** A duration that may be missing. */
export function durationOrNone(ms: number | null): string {
  return ms === null ? "–" : durationOf(ms);
}

function twoUnits(smaller: number, each: number, large: string, small: string): string {
  const rest = smaller % each;
  return `${Math.floor(smaller / each)} ${large}${rest > 0 ? ` ${rest} ${small}` : ""}`;
}

/** How long ago, in one unit: "just now", "42 s ago", "3 h ago". */
export function agoOf(at: number, now: number): string {
  const ms = now - at;
  if (ms < SECOND) return "just now";
  const [size, unit] = [
    [DAY, "d"],
    [HOUR, "h"],
    [MINUTE, "min"],
    [SECOND, "s"],
  ].find(([size]) => ms >= (size as number)) as [number, string];
  return `${Math.floor(ms / size)} ${unit} ago`;
}

/** The time left until `at`, rounded up to seconds, so that a countdown never reaches 0 early. */
export function untilOf(at: number, now: number, units = english): string {
  return durationOf(Math.max(1, Math.ceil((at - now) / SECOND)) * SECOND, units);
}

const whole = new Intl.NumberFormat("en");
const share = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function countOf(n: number): string {
  return whole.format(n);
}

/** A count that stops at `most`: "1,000+". */
export function atMost(n: number, most: number): string {
  return n >= most ? `${whole.format(most)}+` : whole.format(n);
}

/** At most one digit after the point. */
export function decimalOf(n: number): string {
  return share.format(n);
}

export function percentOf(part: number, all: number): string {
  return all === 0 ? "–" : `${share.format((100 * part) / all)} %`;
}

/** "1 attempt", "20 attempts". */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${whole.format(n)} ${n === 1 ? one : many}`;
}

/** "14:03:22" for today, "19 Nov, 14:03" before. UTC, because the server does not know the reader's time zone. */
export function momentOf(at: number, now: number): string {
  const iso = new Date(at).toISOString();
  if (iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10)) return iso.slice(11, 19);
  return `${day.format(at)}, ${iso.slice(11, 16)}`;
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

/** How a language writes numbers and times. Times are UTC: the server does not know the reader's time zone. */
export type Formats = Readonly<{
  count: (n: number) => string;
  /** A count that stops at `most`: "1,000+". */
  atMost: (n: number, most: number) => string;
  /** A duration, from ms: "3 min 5 s". */
  duration: (ms: number) => string;
  /** The time left until `at`. */
  until: (at: number, now: number) => string;
  /** "3 hours ago". */
  ago: (at: number, now: number) => string;
  /** The whole time, to the second. */
  moment: (at: number) => string;
  /** The whole time for a tooltip, with its zone. */
  exact: (at: number) => string;
}>;

/** The parameters of an address. The undefined and empty ones are left out. */
export type Query = Readonly<Record<string, string | undefined>>;

export function addressOf(path: string, query: Query): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** A submitted form, by field. Nothing is validated here: the API does that, and names what it expected. */
export type Form = Readonly<Record<string, unknown>>;

/** The text of a field; undefined when it is empty or missing. */
export function textIn(form: Form, name: string): string | undefined {
  const value = form[name];
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

/** The number in a field, null (the API's default) when it is empty, and the text when it is not a number. */
export function numberIn(form: Form, name: string): number | string | null {
  const text = textIn(form, name);
  if (text === undefined) return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}

/** The time in a field without a zone, as browsers send it, in UTC as the API takes it; any other text as it is. */
export function utcIn(form: Form, name: string): string | undefined {
  const text = textIn(form, name);
  return text !== undefined && /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)
    ? `${text.length === 16 ? `${text}:00` : text}Z`
    : text;
}

/** The words in a field, separated by spaces, lines or commas; null when there are none. */
export function listIn(form: Form, name: string): readonly string[] | null {
  const words = (textIn(form, name) ?? "").split(/[\s,]+/).filter((word) => word !== "");
  return words.length > 0 ? words : null;
}

/** The JSON in a field, null when it is empty; or why it is not JSON. */
export function jsonIn(
  form: Form,
  name: string,
  parse: (text: string) => unknown = JSON.parse,
): Readonly<{ value: unknown; fault?: string }> {
  const text = textIn(form, name);
  if (text === undefined) return { value: null };
  if (isTooDeep(text)) return { value: null, fault: TOO_DEEP };
  try {
    return { value: parse(text) };
  } catch (error) {
    return { value: null, fault: `is not JSON: ${(error as Error).message}` };
  }
}

/** A name and a value on each line, each name once; null if there are none. */
export function pairsIn(
  form: Form,
  field: string,
): Readonly<{ value: Readonly<Record<string, string>> | null; errors: FieldError[] }> {
  const lines = (textIn(form, field) ?? "").split("\n").filter((line) => line.trim() !== "");
  const parsed = lines.map((line) => /^\s*([^:]*?)\s*:\s*(.*?)\s*$/.exec(line)?.slice(1) ?? [line.trim()]);
  const entries = parsed.map(([name = "", value]) => [name, value] as const);
  const names = entries.map(([name]) => name.toLowerCase());
  const errors = entries.flatMap(([, value], i): FieldError[] => {
    const at = `${field}[${i}]`;
    if (value === undefined)
      return [{ field: at, fault: "has no colon", expected: "a name and a value, such as X-Api-Key: abc" }];
    if (names.indexOf(names[i] ?? "") === i) return [];
    return [{ field: at, fault: `is ${names[i]} once more`, expected: "each name once" }];
  });
  const value = Object.fromEntries(entries.map(([name, one]) => [name, one ?? ""]));
  return { value: entries.length === 0 ? null : value, errors };
}

/** Deeper JSON would be mostly indentation, and so would a list of very many short values. */
const [DEEPEST_INDENTED, LONGEST_INDENTED] = [20, 600_000];

const JSON_TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s[\]{},:"]+/g;

/**
 * JSON on lines of its own, with each number and string as it was written, because parsing and writing could change
 * them. Unchanged if it is not JSON, too deeply nested to be readable, or too long on lines.
 */
export function indented(json: string): string {
  if (!isJson(json)) return json;
  const parts: string[] = [];
  let [depth, length] = [0, 0];
  const add = (part: string) => {
    parts.push(part);
    length += part.length;
  };
  const line = () => add(`\n${"  ".repeat(depth)}`);
  let isEmpty = false;
  for (const [token] of json.matchAll(JSON_TOKENS)) {
    const [opens, closes] = [token === "{" || token === "[", token === "}" || token === "]"];
    if (closes) depth--;
    if (closes ? !isEmpty : isEmpty) line();
    add(token === ":" ? ": " : token);
    if (opens) depth++;
    if (token === ",") line();
    if (depth > DEEPEST_INDENTED || length > LONGEST_INDENTED) return json;
    isEmpty = opens;
  }
  return parts.join("");
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
