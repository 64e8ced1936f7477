/** Headers of a destination's own in the API: which names and values may be given. */
import { z } from "@hono/zod-openapi";
import { MASK } from "../../delivery/authorization.ts";

const MAX_HEADERS = 20;

/**
 * Headers of the connection (RFC 9110 §7.6.1), those that Breakwater sets, and those by which proxies say where a request
 * comes from: Cloudflare sets them itself, and receivers trust them.
 */
const RESERVED: ReadonlySet<string> = new Set([
  "cdn-loop",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "user-agent",
  "x-real-ip",
]);

const RESERVED_PREFIXES = ["webhook-", "cf-", "x-forwarded-"] as const;

const NAME_EXPECTED = "expected a header name (RFC 9110 token) of at most 100 characters";
const VALUE_EXPECTED = "expected 1 to 1024 printable ASCII characters without spaces around them";
const MASK_EXPECTED = `expected the value itself: ${MASK} is what is shown in its place`;
export const RESERVED_EXPECTED =
  "expected none of the headers that Breakwater sets itself, or Cloudflare and other proxies do (cf-*, cdn-loop, " +
  "x-forwarded-*, x-real-ip)";
const COUNT_EXPECTED = `expected at most ${MAX_HEADERS} headers, each named once`;

/** A header that a caller may have sent to receivers. */
export const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/, { error: NAME_EXPECTED, abort: true })
  .refine((given) => !isReserved(given.toLowerCase()), { error: RESERVED_EXPECTED });

export const headerValue = z
  .string({ error: VALUE_EXPECTED })
  .regex(/^[!-~]([ -~\t]{0,1022}[!-~])?$/, { error: VALUE_EXPECTED, abort: true })
  .refine((given) => given !== MASK, { error: MASK_EXPECTED });

export const headersSchema = z
  .record(headerName, headerValue, { error: "expected an object of strings" })
  .refine((given) => areFewAndDistinct(Object.keys(given)), { error: COUNT_EXPECTED })
  .openapi({
    type: "object",
    additionalProperties: { type: "string" },
    description: "Headers to send with every delivery, in addition to Breakwater's own.",
  });

/** Whether no caller may set the header. */
export function isReserved(lowerName: string): boolean {
  return RESERVED.has(lowerName) || RESERVED_PREFIXES.some((prefix) => lowerName.startsWith(prefix));
}

function areFewAndDistinct(names: readonly string[]): boolean {
  return names.length <= MAX_HEADERS && areDistinct(names);
}

/** Whether no header is named twice, in whatever case. */
export function areDistinct(names: readonly string[]): boolean {
  return new Set(names.map((given) => given.toLowerCase())).size === names.length;
}
