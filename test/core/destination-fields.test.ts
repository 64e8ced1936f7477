/** Which headers a destination may not have. */
import { expect, test } from "vitest";
import { isReserved } from "../../src/core/destination-fields.ts";

test.each([
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
  "webhook-id",
  "webhook-",
  "cf-connecting-ip",
  "x-forwarded-for",
])("%s is reserved", (name) => {
  expect(isReserved(name)).toBe(true);
});

test.each([
  "",
  "authorization",
  "x-webhook-id",
  "my-cf-ray",
  "forwarded",
  "tea",
])("%j is not reserved", (name) => {
  expect(isReserved(name)).toBe(false);
});
