/** Custom headers of a destination in the API: which names and values may be given. */
import { z } from "@hono/zod-openapi";
import { HEADER_NAME, HEADER_VALUE, isReserved, MAX_HEADERS } from "../../core/destination-fields.ts";
import { recordOf } from "../../core/record.ts";
import { MASK } from "../../delivery/authorization.ts";
import { textField } from "../parameters.ts";

const NAME_EXPECTED = "expected a header name (RFC 9110 token) of at most 100 characters";
const MASK_EXPECTED = `expected the value itself: ${MASK} is what is shown in its place`;
export const RESERVED_EXPECTED =
  "expected none of the headers that Breakwater sets itself, or Cloudflare and other proxies do (cf-*, cdn-loop, " +
  "x-forwarded-*, x-real-ip)";
const COUNT_EXPECTED = `expected at most ${MAX_HEADERS} headers, each named once`;

/** A header that a caller may have sent to receivers. */
export const headerName = z
  .string()
  .regex(HEADER_NAME, { error: NAME_EXPECTED, abort: true })
  .refine((given) => !isReserved(given.toLowerCase()), RESERVED_EXPECTED);

export const headerValue = textField("1 to 1024 printable ASCII characters without spaces around them", {
  pattern: HEADER_VALUE,
}).refine((given) => given !== MASK, MASK_EXPECTED);

export const headersSchema = recordOf(headerName, headerValue, { error: "expected an object of strings" })
  .refine((given) => areFewAndDistinct(Object.keys(given)), COUNT_EXPECTED)
  .openapi({
    type: "object",
    additionalProperties: { type: "string" },
    description: "Headers to send with every delivery, in addition to Breakwater's own.",
  });

function areFewAndDistinct(names: readonly string[]): boolean {
  return names.length <= MAX_HEADERS && areDistinct(names);
}

/** Whether no header is named twice, in whatever case. */
export function areDistinct(names: readonly string[]): boolean {
  return new Set(names.map((given) => given.toLowerCase())).size === names.length;
}
