/**
 * Reads a JSON body before any schema sees it: the right content type, no more bytes than the route takes,
 * UTF-8, JSON, and an object.
 */
import type { MiddlewareHandler } from "hono";
import { joined } from "../core/bundle.ts";
import type { ApiContext, ApiEnv } from "./context.ts";
import { problem } from "./problems.ts";

// §§ A request's body as it comes: no more of it than a route takes, whatever Content-Length says, or does not.

/**
 * So much of a body that is too large is read on and dropped: half-read ones break the connection under the
 * caller's next request, and `wrangler dev` altogether.
 */
const DRAINED = 16 * 1024 * 1024;

/** Hands `take` the body chunk by chunk; false when it has more than `max` bytes, of which no more are taken. */
export async function readAtMost(
  request: Request,
  max: number,
  take: (chunk: Uint8Array) => void,
): Promise<boolean> {
  if (Number(request.headers.get("content-length")) > max) return false;
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.byteLength;
    if (size <= max) take(chunk);
    else if (size > max + DRAINED) break;
  }
  return size <= max;
}

/**
 * JSON whose numbers survive. A JavaScript number cannot hold 12345678901234567890, 1e400 or the cents of 100.00,
 * and a webhook service that rewrites a customer's ids is broken; so where a number would change, its source text is
 * kept and stringified again as it was (JSON.rawJSON, ECMAScript's "JSON.parse source text access").
 */
declare global {
  interface JSON {
    rawJSON(text: string): unknown;
    isRawJSON(value: unknown): boolean;
  }
}

/**
 * Sixteen digits, an exponent, a negative zero, a fraction that ends in a zero or begins with six: without one of
 * these JavaScript writes a number as it was written.
 */
const SUSPICIOUS = /[\d.]{16}|\d[eE]|-0|\.0{6}|\.\d*0(?!\d)/;

/** Parses JSON so that `JSON.stringify` gives every number back as it was written. Throws as JSON.parse does. */
export function parseExactly(text: string): unknown {
  return SUSPICIOUS.test(text) ? JSON.parse(text, keepNumber) : JSON.parse(text);
}

export function isRawJson(value: unknown): boolean {
  return JSON.isRawJSON(value);
}

function keepNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== "number" || context?.source === undefined) return value;
  return String(value) === context.source ? value : JSON.rawJSON(context.source);
}

/** Whether lists and objects are nested more than `max` deep: recursion over such a value would end badly. */
function isDeeperThan(text: string, max: number): boolean {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (quoted && char === "\\") i++;
    else if (char === '"') quoted = !quoted;
    else if (!quoted && (char === "[" || char === "{") && ++depth > max) return true;
    else if (!quoted && (char === "]" || char === "}")) depth--;
  }
  return false;
}

// §§ Bytes that should be JSON: UTF-8, not nested without end, and what is wrong with them if they are not.

/** SQLite's own JSON functions stop at 1,000. */
const MAX_DEPTH = 500;

export type Parsed =
  | Readonly<{ kind: "value"; value: unknown }>
  /** Follows what was read in a sentence: "is not valid JSON". */
  | Readonly<{ kind: "fault"; fault: string }>;

/** @param isLine whether it is one line of several, which the caller names: a fault has only its column then */
export function parseJson(bytes: Uint8Array, parse: (text: string) => unknown, isLine = false): Parsed {
  const text = decoded(bytes);
  if (text === undefined) return { kind: "fault", fault: `is not UTF-8 at byte ${firstBad(bytes)}` };
  if (isDeeperThan(text, MAX_DEPTH))
    return { kind: "fault", fault: `is nested more than ${MAX_DEPTH} levels deep` };
  try {
    return { kind: "value", value: parse(text) };
  } catch (error) {
    const { message } = error as Error;
    const place = placeIn(text, offsetOf(text, message), isLine);
    return { kind: "fault", fault: `is not valid JSON at ${place}: ${reasonOf(message)}` };
  }
}

/** The text; undefined when the bytes are not UTF-8, or only begin to be when they may go on. */
function decoded(bytes: Uint8Array, goesOn = false): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes, { stream: goesOn });
  } catch {
    return undefined;
  }
}

/** Where the bytes stop being UTF-8, counted from 1; found by halving, for the decoder does not say. */
function firstBad(bytes: Uint8Array): number {
  let [good, bad] = [0, bytes.byteLength + 1];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (decoded(bytes.subarray(0, middle), true) === undefined) bad = middle;
    else good = middle;
  }
  return Math.min(bad, bytes.byteLength);
}

/** Where the parser stopped. It says so of some faults; of an unexpected token it does not, but of an early end. */
function offsetOf(text: string, message: string): number {
  const said = / at position (\d+)/.exec(message)?.[1];
  if (said !== undefined) return Number(said);
  if (!message.startsWith("Unexpected token")) return text.length;
  // The shortest beginning that has the same fault ends with the token; found by halving.
  const fault = reasonOf(message);
  let [without, within] = [0, text.length];
  while (within - without > 1) {
    const middle = (without + within) >> 1;
    if (faultOf(text.slice(0, middle)) === fault) within = middle;
    else without = middle;
  }
  return without;
}

function faultOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return reasonOf((error as Error).message);
  }
}

/** Lines and columns count from 1, as an editor shows them. */
function placeIn(text: string, offset: number, isLine: boolean): string {
  const before = text.slice(0, offset).split("\n");
  const column = `column ${(before.at(-1)?.length ?? 0) + 1}`;
  return isLine ? column : `line ${before.length} ${column}`;
}

/**
 * What the parser says less where, which is said apart. It quotes the text around the fault, and with it whatever
 * secret stands there: the quote goes.
 */
function reasonOf(message: string): string {
  return message.replace(/, (\.\.\.)?".*$/s, "").replace(/( in JSON)? at position .*$/s, "");
}

const JSON_TYPE = /^application\/([\w.-]+\+)?json\s*(;|$)/i;

type Options = Readonly<{
  maxBytes?: number;
  /** Keep numbers as they are written, for values that are passed on rather than read. */
  exactNumbers?: boolean;
  /** Take no body at all for an empty object, whatever its type: of a route whose fields may all be left out. */
  mayBeEmpty?: boolean;
  /** What is said to be expected of another content type. */
  types?: string;
}>;

/** The body becomes what `c.req.json()` answers, so that the route's schema is checked against it. */
export function jsonBody({
  maxBytes = 256 * 1024,
  exactNumbers = false,
  mayBeEmpty = false,
  types = "application/json",
}: Options = {}): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const type = c.req.header("content-type");
    const isJson = JSON_TYPE.test(type ?? "");
    if (!isJson && !mayBeEmpty) return notOfType(type, types);
    const chunks: Uint8Array[] = [];
    const isWhole = await readAtMost(c.req.raw, maxBytes, (chunk) => chunks.push(chunk));
    if (!isWhole) return problem(413, `The body is larger than ${maxBytes} bytes.`);
    const bytes = joined(chunks);
    if (mayBeEmpty && bytes.byteLength === 0) {
      becomeJson(c, {});
      return next();
    }
    if (!isJson) return notOfType(type, types);
    const parsed = parseObject(bytes, exactNumbers ? parseExactly : JSON.parse);
    if (parsed.kind === "fault") return problem(400, `The body ${parsed.fault}`);
    c.set("bodyBytes", bytes.byteLength);
    c.req.json = () => Promise.resolve(parsed.value as never);
    await next();
    return;
  };
}

/** From here on the request is the JSON that it stands for. */
export function becomeJson(c: ApiContext, value: object): void {
  const headers = new Headers(c.req.raw.headers);
  headers.set("content-type", "application/json");
  c.req.raw = new Request(c.req.raw.url, { method: c.req.method, headers });
  c.req.json = () => Promise.resolve(value as never);
}

function notOfType(given: string | undefined, expected: string) {
  const fault = given === undefined ? "Content-Type is missing" : `Content-Type is ${given.slice(0, 100)}`;
  return problem(415, `${fault}; expected ${expected}`);
}

function parseObject(bytes: Uint8Array, parse: (text: string) => unknown) {
  if (bytes.byteLength === 0) return fault("is missing; expected a JSON object");
  const parsed = parseJson(bytes, parse);
  if (parsed.kind === "fault") return parsed;
  const { value } = parsed;
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? parsed : fault("is valid JSON, but not an object");
}

function fault(fault: string) {
  return { kind: "fault", fault } as const;
}
