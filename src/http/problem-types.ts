/**
 * The types of problems, one for each status, as `/problems/{slug}`, the reference and the OpenAPI document describe
 * them.
 */

type ProblemType = Readonly<{
  slug: string;
  title: string;
  meaning: string;
  remedy: string;
  /** The `detail` of one. */
  example: string;
}>;

export const problemTypes = {
  400: {
    slug: "malformed-request",
    title: "The request is malformed",
    meaning: "The body is not the JSON, or the lines of JSON, that its `Content-Type` announces.",
    remedy: "Correct the body at the place that `detail` names. A repeat of the same request fails again.",
    example: "The body is not valid JSON at line 1 column 9: Unexpected end of JSON input",
  },
  401: {
    slug: "unauthorized",
    title: "The API key is missing or not valid",
    meaning: "The request has no API key, or one that is unknown, revoked or expired.",
    remedy: "Send a valid key as `Authorization: Bearer …`.",
    example: "The key is not valid: it is unknown, revoked or expired",
  },
  403: {
    slug: "forbidden",
    title: "The API key does not allow this",
    meaning: "The key is valid, but lacks the scope, or is bound to another tenant than the request names.",
    remedy: "Use a key with the scope and the tenant that the reference names for this operation.",
    example: "The key lacks the scope admin",
  },
  404: {
    slug: "not-found",
    title: "Not found",
    meaning: "Nothing with this path or id exists, or it belongs to a tenant that the key may not see.",
    remedy:
      "Check the path, the id, and the tenant of the key. Objects that retention has removed are not found either.",
    example: "There is no destination dst_3k9w5n2c8h6p0d4z7x1b",
  },
  405: {
    slug: "method-not-allowed",
    title: "The method is not allowed",
    meaning: "The path exists, but not with this method.",
    remedy: "Use a method that the header `Allow` lists.",
    example: "/v1/events takes POST, not PUT",
  },
  409: {
    slug: "conflict",
    title: "Conflict with the current state",
    meaning:
      "The request contradicts what is stored: a name that is taken, an `Idempotency-Key` with other content, or a state that does not permit the operation.",
    remedy:
      "Read the object that `detail` names, then decide. A repeat helps only where `Retry-After` is set.",
    example: "The delivery has been cancelled",
  },
  413: {
    slug: "too-large",
    title: "The body is too large",
    meaning: "The body, or an event in it, exceeds the limit that `detail` names.",
    remedy: "Send less: smaller events, or fewer in a batch.",
    example: "The body is larger than 262144 bytes.",
  },
  415: {
    slug: "unsupported-media-type",
    title: "The content type is not supported",
    meaning: "The operation does not read bodies of this `Content-Type`, or the body is compressed.",
    remedy: "Send the content type that `detail` expects, without `Content-Encoding`.",
    example: "Content-Type is text/plain; expected application/json",
  },
  422: {
    slug: "invalid-field",
    title: "A field is invalid",
    meaning:
      "A field or parameter is unknown, is missing or has a value that is not permitted, or a cap is exceeded.",
    remedy:
      "Correct each field in `errors`: `fault` says what is wrong with it, and `expected` what is permitted.",
    example: "A field is invalid",
  },
  429: {
    slug: "too-many-requests",
    title: "Too many requests",
    meaning:
      "The key has reached its rate limit, or the address has sent too many requests without a valid key.",
    remedy:
      "Wait for the seconds in `Retry-After`. Then send larger batches, read larger pages, or send fewer requests.",
    example: "The key reads more often than its limit. Read larger pages, or less often",
  },
  500: {
    slug: "internal-error",
    title: "Internal error",
    meaning: "An error in Breakwater. The log line `request_failed` describes it.",
    remedy: "Report it with the time of the request. A repeat is safe, but will probably fail too.",
    example: "The request could not be processed. It is safe to send it again.",
  },
  503: {
    slug: "unavailable",
    title: "Temporarily unavailable",
    meaning:
      "A temporary problem of the platform, or a deployment whose configuration `detail` finds invalid. The request may or may not have taken effect.",
    remedy:
      "Repeat the request after the seconds in `Retry-After`: for events, with an `Idempotency-Key`. Before you repeat another write, check whether it took effect.",
    example: "The destination's gate cannot be reached at the moment",
  },
} as const satisfies Readonly<Record<number, ProblemType>>;

export type ProblemStatus = keyof typeof problemTypes;

/** Every status that has a type, in ascending order. */
export const problemStatuses = Object.keys(problemTypes).map(Number) as ProblemStatus[];

/** The `type` of its problems, which the Worker answers. */
export function pathOfProblem(status: ProblemStatus): string {
  return `/problems/${problemTypes[status].slug}`;
}
