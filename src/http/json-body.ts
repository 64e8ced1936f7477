/**
 * Reads a JSON body before a schema checks it: the content type, no more bytes than the route takes, UTF-8, not
 * nested too deep, JSON, and an object.
 *
 * Numbers survive where a route passes them on (`exactNumbers`). A JavaScript number cannot hold
 * 12345678901234567890, 1e400 or the cents of 100.00, and a webhook service that rewrites a customer's ids is broken.
 * Where a number would change, its source text is kept and written again as it was (`JSON.rawJSON`, ECMAScript's
 * "JSON.parse source text access").
 */

import type { MiddlewareHandler } from "hono";
import { joined } from "../core/bundle.ts";
import { isJsonObject, isTooDeep, parseExactly, TOO_DEEP } from "../core/json-value.ts";
import type { ApiContext, ApiEnv } from "./context.ts";
import { problem } from "./problems.ts";

type Options = Readonly<{
  maxBytes?: number;
  /** Keep numbers as they are written, in all values or in those of these fields: they are passed on rather than read. */
  exactNumbers?: boolean | readonly string[];
  /** An absent body counts as an empty object: for a route whose fields are all optional. */
  mayBeEmpty?: boolean;
  /** The content types that a 415 names. */
  types?: string;
}>;

const JSON_TYPE = /^application\/([\w.-]+\+)?json\s*(;|$)/i;

/** Middleware: `c.req.json()` returns the parsed body, so that the route's schema checks it. */
export function jsonBody({
  maxBytes = 256 * 1024,
  exactNumbers = false,
  mayBeEmpty = false,
  types = "application/json",
}: Options = {}): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const type = c.req.header("content-type");
    const isJson = JSON_TYPE.test(type ?? "");
    if (!isJson && !mayBeEmpty) return unsupportedType(type, types);
    const bytes = await readWhole(c.req.raw, maxBytes);
    if (!bytes) return problem(413, `The body is larger than ${maxBytes} bytes.`);
    if (mayBeEmpty && bytes.byteLength === 0) {
      replaceBody(c, {});
      return next();
    }
    if (!isJson) return unsupportedType(type, types);
    const parsed = parseObject(bytes, parserOf(exactNumbers));
    if (parsed.kind === "fault") return problem(400, `The body ${parsed.fault}`);
    c.set("bodyBytes", bytes.byteLength);
    c.req.json = () => Promise.resolve(parsed.value as never);
    return next();
  };
}

function parserOf(exact: boolean | readonly string[]): (text: string) => unknown {
  if (typeof exact === "boolean") return exact ? parseExactly : JSON.parse;
  return (text) => {
    const value: unknown = JSON.parse(text);
    if (!isJsonObject(value)) return value;
    const whole = parseExactly(text) as typeof value;
    const fields = exact.filter((field) => Object.hasOwn(value, field));
    return { ...value, ...Object.fromEntries(fields.map((field) => [field, whole[field]])) };
  };
}

/** Replaces the request's body by this value: the validator reads it as JSON. */
export function replaceBody(c: ApiContext, value: object): void {
  const headers = new Headers(c.req.raw.headers);
  headers.set("content-type", "application/json");
  c.req.raw = new Request(c.req.raw.url, { method: c.req.method, headers });
  c.req.json = () => Promise.resolve(value as never);
}

function unsupportedType(given: string | undefined, expected: string) {
  const fault = given === undefined ? "Content-Type is missing" : `Content-Type is ${given.slice(0, 100)}`;
  return problem(415, `${fault}; expected ${expected}`);
}

function parseObject(bytes: Uint8Array, parse: (text: string) => unknown) {
  if (bytes.byteLength === 0) return fault("is missing; expected a JSON object");
  const parsed = parseJson(bytes, parse);
  if (parsed.kind === "fault") return parsed;
  return isJsonObject(parsed.value) ? parsed : fault("is valid JSON, but not an object");
}

function fault(fault: string) {
  return { kind: "fault", fault } as const;
}

/**
 * Bytes of a body that is too large which are read and dropped. An unread rest breaks the connection under the caller's
 * next request, and `wrangler dev` altogether.
 */
const MAX_DRAINED = 16 * 1024 * 1024;

/**
 * Passes the body to `take`, up to `max` bytes, whatever Content-Length says. False when the body is larger. One with a
 * length is read at once, because each chunk costs a task of the runtime; any other chunk by chunk.
 */
export async function readAtMost(request: Request, max: number, take: (chunk: Uint8Array) => void) {
  const length = request.headers.get("content-length");
  if (Number(length) > max) return false;
  if (length !== null) {
    const whole = await request.arrayBuffer();
    if (whole.byteLength <= max) take(new Uint8Array(whole));
    return whole.byteLength <= max;
  }
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.byteLength;
    if (size <= max) take(chunk);
    else if (size > max + MAX_DRAINED) break;
  }
  return size <= max;
}

/** The body; undefined when it is larger than `max` bytes. */
export async function readWhole(request: Request, max: number) {
  const chunks: Uint8Array[] = [];
  const isWhole = await readAtMost(request, max, (chunk) => chunks.push(chunk));
  return isWhole ? joined(chunks) : undefined;
}

type Parsed =
  | Readonly<{ kind: "value"; value: unknown }>
  /** Completes a sentence about the text: "is not valid JSON". */
  | Readonly<{ kind: "fault"; fault: string }>;

/**
 * Parses bytes as JSON.
 * @param isLine whether the bytes are one line of several: the caller names the line, a fault only the column
 */
export function parseJson(bytes: Uint8Array, parse: (text: string) => unknown, isLine = false): Parsed {
  const text = decoded(bytes);
  if (text === undefined) return { kind: "fault", fault: `is not UTF-8 at byte ${firstBad(bytes)}` };
  if (isTooDeep(text)) return { kind: "fault", fault: TOO_DEEP };
  try {
    return { kind: "value", value: parse(text) };
  } catch (error) {
    const { message } = error as Error;
    const place = placeIn(text, offsetOf(text, message), isLine);
    return { kind: "fault", fault: `is not valid JSON at ${place}: ${reasonOf(message)}` };
  }
}

/** The text; undefined when the bytes are not UTF-8. With `isPart` the last character may be incomplete. */
export function decoded(bytes: Uint8Array, isPart = false): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes, { stream: isPart });
  } catch {
    return undefined;
  }
}

/** The first byte that is not UTF-8, counted from 1: a binary search, because the decoder does not say. */
function firstBad(bytes: Uint8Array): number {
  let [good, bad] = [0, bytes.byteLength + 1];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (decoded(bytes.subarray(0, middle), true) === undefined) bad = middle;
    else good = middle;
  }
  return Math.min(bad, bytes.byteLength);
}

/** Where the parser stopped. Its message does not say so for an unexpected token. */
function offsetOf(text: string, message: string): number {
  const position = / at position (\d+)/.exec(message)?.[1];
  if (position !== undefined) return Number(position);
  if (!message.startsWith("Unexpected token")) return text.length;
  // The shortest prefix with the same fault ends with the token: a binary search.
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

/** Line and column count from 1, as in an editor. */
function placeIn(text: string, offset: number, isLine: boolean): string {
  const before = text.slice(0, offset).split("\n");
  const column = `column ${(before.at(-1)?.length ?? 0) + 1}`;
  return isLine ? column : `line ${before.length} ${column}`;
}

/** The parser's message without the position, and without its quote of the text, which may contain a secret. */
function reasonOf(message: string): string {
  return message.replace(/, (\.\.\.)?".*$/s, "").replace(/( in JSON)? at position .*$/s, "");
}

/**
 * Refuses a compressed body (RFC 9110, section 15.5.16): an event's content would be stored and sent without the header that says how it
 * is compressed.
 */
export function refusedEncoding({ headers }: Request): Response | undefined {
  const detail = encodingFault(headers);
  return detail === undefined
    ? undefined
    : problem(415, detail, undefined, { "accept-encoding": "identity" });
}

export function encodingFault(headers: Headers): string | undefined {
  const encoding = headers.get("content-encoding")?.trim() || "identity";
  if (/^identity$/i.test(encoding)) return undefined;
  return `Content-Encoding is ${encoding.slice(0, 100)}; expected a body that is not compressed`;
}
