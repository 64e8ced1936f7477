/**
 * Reads a JSON body before any schema sees it: the right content type, no more bytes than the route takes
 * (whatever Content-Length says, or does not), UTF-8, JSON, and an object.
 */
import type { MiddlewareHandler } from "hono";
import type { ApiEnv } from "./context.ts";
import { isDeeperThan, parseExactly } from "./exact-json.ts";
import { problem } from "./problems.ts";

export const KIB = 1024;

/**
 * So much of a body that is too large is read on and dropped: half-read ones break the connection under the
 * caller's next request, and `wrangler dev` altogether.
 */
const DRAINED = 16 * KIB * KIB;

/** SQLite's own JSON functions stop at 1,000. */
const MAX_DEPTH = 500;

const JSON_TYPE = /^application\/([\w.-]+\+)?json\s*(;|$)/i;

type Options = Readonly<{
  maxBytes?: number;
  /** Keep numbers as they are written, for values that are passed on rather than read. */
  exactNumbers?: boolean;
}>;

/** The body becomes what `c.req.json()` answers, so that the route's schema is checked against it. */
export function jsonBody({
  maxBytes = 256 * KIB,
  exactNumbers = false,
}: Options = {}): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (!JSON_TYPE.test(c.req.header("content-type") ?? "")) return notJson(c.req.header("content-type"));
    const bytes = await readAtMost(c.req.raw, maxBytes);
    if (bytes === undefined) return problem(413, `The body is larger than ${maxBytes} bytes.`);
    const parsed = parseObject(bytes, exactNumbers ? parseExactly : JSON.parse);
    if (parsed.kind === "fault") return problem(400, parsed.detail);
    c.set("bodyBytes", bytes.byteLength);
    c.req.json = () => Promise.resolve(parsed.value as never);
    await next();
    return;
  };
}

function notJson(given: string | undefined) {
  const fault = given === undefined ? "Content-Type is missing" : `Content-Type is ${given.slice(0, 100)}`;
  return problem(415, `${fault}; expected application/json`);
}

/** The bytes of the body, or undefined when there are more than `max`, of which no more are kept. */
async function readAtMost(request: Request, max: number): Promise<Uint8Array | undefined> {
  if (Number(request.headers.get("content-length")) > max) return undefined;
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.byteLength;
    if (size <= max) chunks.push(chunk);
    else if (size > max + DRAINED) break;
  }
  if (size > max) return undefined;
  return chunks.length === 1 ? chunks[0] : joined(chunks, size);
}

function joined(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.byteLength;
  }
  return whole;
}

type Parsed = Readonly<{ kind: "object"; value: object } | { kind: "fault"; detail: string }>;

function parseObject(bytes: Uint8Array, parse: (text: string) => unknown): Parsed {
  if (bytes.byteLength === 0) return fault("The body is missing; expected a JSON object");
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
    if (isDeeperThan(text, MAX_DEPTH)) return fault(`The body is nested more than ${MAX_DEPTH} levels deep`);
    const value = parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return { kind: "object", value };
    return fault("The body is valid JSON, but not an object");
  } catch (error) {
    return fault(
      `The body is not valid JSON: ${error instanceof Error ? withoutQuote(error.message) : "it cannot be read"}`,
    );
  }
}

function fault(detail: string): Parsed {
  return { kind: "fault", detail };
}

/** The parser quotes the body around the fault, and with it whatever secret stands there. */
function withoutQuote(message: string): string {
  return message.replace(/, (\.\.\.)?".*$/s, "");
}
