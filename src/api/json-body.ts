/**
 * Reads a JSON body before any schema sees it: the right content type, no more bytes than the route takes,
 * UTF-8, JSON, and an object.
 */
import type { MiddlewareHandler } from "hono";
import { joined } from "../core/bytes.ts";
import { readAtMost } from "./body-bytes.ts";
import type { ApiContext, ApiEnv } from "./context.ts";
import { parseExactly } from "./exact-json.ts";
import { parseJson } from "./json-text.ts";
import { problem } from "./problems.ts";

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
