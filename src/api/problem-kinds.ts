/** The kinds of problems that there are: one for each status. `says` is what one of them might say. */
export const kinds = {
  400: {
    slug: "malformed-request",
    title: "The request cannot be read",
    says: "The body is not valid JSON: Unexpected end of JSON input",
  },
  401: {
    slug: "unauthorized",
    title: "No valid key",
    says: "The key is not valid: it is unknown, revoked or expired",
  },
  403: { slug: "forbidden", title: "The key does not allow this", says: "The key lacks the scope admin" },
  404: { slug: "not-found", title: "There is no such thing", says: "There is no such thing" },
  405: {
    slug: "method-not-allowed",
    title: "The method is not allowed here",
    says: "/v1/events takes POST, not PUT",
  },
  409: { slug: "conflict", title: "It contradicts what is there", says: "It contradicts what is there" },
  413: { slug: "too-large", title: "The body is too large", says: "The body is larger than 262144 bytes." },
  415: {
    slug: "unsupported-media-type",
    title: "The body is not JSON",
    says: "Content-Type is text/plain; expected application/json",
  },
  422: { slug: "invalid-field", title: "A field is invalid", says: "A field is invalid" },
  429: { slug: "too-many-requests", title: "Too many requests", says: "Too many requests; again in 10 s" },
  500: {
    slug: "internal-error",
    title: "Something went wrong on our side",
    says: "The request could not be carried out. It is safe to send it again.",
  },
  503: { slug: "unavailable", title: "Not available at the moment", says: "Not available at the moment" },
} as const;
