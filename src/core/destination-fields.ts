/** Values that the API takes for fields of destinations: limits and spellings, for code that needs them without a call. */

export const metadataLimits = { keys: 50, keyLength: 64, valueLength: 500 } as const;

/** Characters. */
export const MAX_DESCRIPTION = 500;

/** Entries of `event_types`. */
export const MAX_EVENT_TYPES = 100;

/** Characters of an event type, and of a pattern of them. */
export const MAX_EVENT_TYPE = 128;

/** An event type: parts of letters, digits, `_` and `-`, joined by dots. */
export const EVENT_TYPE = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

/** Names in paths are never `.` or `..`: URLs have no such steps, not even percent-encoded. */
export const TENANT_NAME = /^(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,64}$/;
export const TENANT_WORDS = "1 to 64 letters, digits and _ . : -, but neither . nor ..";

/** A caller's name for an application, a destination or a message. */
export const UID = /^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,256}$/;
export const UID_WORDS = "1 to 256 letters, digits and _ . -, but neither . nor ..";

/** The most custom headers of a destination. */
export const MAX_HEADERS = 20;

/**
 * A token (RFC 9110 §5.6.2), except `__proto__`: as the name of a property it loses its value. Without a flag, because
 * the OpenAPI document has only the pattern.
 */
export const HEADER_NAME = /^(?!__[Pp][Rr][Oo][Tt][Oo]__$)[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;

/** Printable ASCII characters without spaces around them. */
export const HEADER_VALUE = /^[!-~]([ -~\t]{0,1022}[!-~])?$/;

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

/** Whether no caller may set the header. */
export function isReserved(lowerName: string): boolean {
  return RESERVED.has(lowerName) || RESERVED_PREFIXES.some((prefix) => lowerName.startsWith(prefix));
}
