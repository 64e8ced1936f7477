/**
 * The headers a destination may add to its deliveries: well-formed, few, and none of those that belong to
 * the connection (RFC 9110 §7.6.1), to the body that is signed, or to Standard Webhooks.
 */
import { z } from "@hono/zod-openapi";

const MAX_HEADERS = 20;

const RESERVED: ReadonlySet<string> = new Set([
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
]);

const NAME_EXPECTED = "expected a header name (RFC 9110 token) of at most 100 characters";
const VALUE_EXPECTED = "expected 1 to 1024 printable ASCII characters without spaces around them";
const RESERVED_EXPECTED = "expected none of the headers that Breakwater sets itself";
const COUNT_EXPECTED = `expected at most ${MAX_HEADERS} headers, each named once`;

const name = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/, { error: NAME_EXPECTED, abort: true })
  .refine((given) => !isReserved(given.toLowerCase()), { error: RESERVED_EXPECTED });

const value = z
  .string({ error: VALUE_EXPECTED })
  .regex(/^[!-~]([ -~\t]{0,1022}[!-~])?$/, { error: VALUE_EXPECTED });

export const headersSchema = z
  .record(name, value, { error: "expected an object of strings" })
  .refine((given) => areFew(Object.keys(given)), { error: COUNT_EXPECTED })
  .openapi({
    type: "object",
    additionalProperties: { type: "string" },
    description: "Sent with every delivery, beside Breakwater's own.",
  });

function isReserved(lowerName: string): boolean {
  return RESERVED.has(lowerName) || lowerName.startsWith("webhook-");
}

function areFew(names: readonly string[]): boolean {
  return (
    names.length <= MAX_HEADERS && new Set(names.map((given) => given.toLowerCase())).size === names.length
  );
}
