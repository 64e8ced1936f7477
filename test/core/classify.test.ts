import { describe, expect, it } from "vitest";
import {
  backsOff,
  causeOf,
  classify,
  type Exchange,
  healthOf,
  type StatusRules,
} from "../../src/core/retry/classify.ts";
import { failureKinds } from "../support/failure-kinds.ts";

const response = (status: number): Exchange => ({ kind: "response", status });
const strict: StatusRules = { clientErrors: { retried: [429] }, attemptLimits: {} };
const lenient: StatusRules = { clientErrors: { permanent: [400] }, attemptLimits: {} };

describe("classify", () => {
  it.each([
    ["every 2xx is a success", 200, 299, "success"],
    ["every 3xx is permanent, as no redirect is followed", 300, 399, "permanent"],
    ["every 5xx is retried", 500, 599, "retry"],
    ["a stray 1xx is retried", 100, 199, "retry"],
    ["what is no HTTP status at all is retried", 600, 999, "retry"],
  ])("%s, whatever the rules", (_, first, last, classification) => {
    for (let status = first; status <= last; status++) {
      expect([status, classify(response(status), strict)]).toEqual([status, classification]);
      expect([status, classify(response(status), lenient)]).toEqual([status, classification]);
    }
  });

  it("takes 410 as permanent even where the rules would retry it", () => {
    expect(classify(response(410), { clientErrors: { permanent: [] }, attemptLimits: {} })).toBe("permanent");
    expect(classify(response(410), { clientErrors: { retried: [410] }, attemptLimits: {} })).toBe(
      "permanent",
    );
  });

  it("retries the 4xx that are listed as retried, and no other", () => {
    expect(classify(response(429), strict)).toBe("retry");
    expect(classify(response(408), strict)).toBe("permanent");
  });

  it("ends at the 4xx that are listed as permanent, and at no other", () => {
    expect(classify(response(400), lenient)).toBe("permanent");
    expect(classify(response(418), lenient)).toBe("retry");
  });

  it.each(failureKinds)("retries after %s", (kind) => {
    expect(classify({ kind }, strict)).toBe("retry");
  });
});

describe("healthOf", () => {
  it.each([200, 204, 301, 400, 404, 408, 410, 422])("sees a living server behind %i", (status) => {
    expect(healthOf(response(status))).toBe("healthy");
  });

  it.each([500, 502, 504, 599])("sees trouble behind %i", (status) => {
    expect(healthOf(response(status))).toBe("unhealthy");
  });

  it("sees trouble behind 503 even where it says when to come back", () => {
    expect(healthOf({ kind: "response", status: 503, retryAfter: "120" })).toBe("unhealthy");
  });

  it.each(failureKinds)("sees trouble behind %s", (kind) => {
    expect(healthOf({ kind })).toBe("unhealthy");
  });

  it("takes 429 for a request to slow down, not for an outage", () => {
    expect(healthOf(response(429))).toBe("throttled");
  });
});

describe("backsOff", () => {
  it.each([429, 500, 502, 503, 504])("halves the window after %i", (status) => {
    expect(backsOff(response(status))).toBe(true);
  });

  it.each(failureKinds)("halves the window after %s", (kind) => {
    expect(backsOff({ kind })).toBe(true);
  });

  it.each([200, 302, 400, 404, 408, 410])("leaves the window alone after %i", (status) => {
    expect(backsOff(response(status))).toBe(false);
  });
});

describe("causeOf", () => {
  it("names a status as http_ and its number", () => {
    expect(causeOf(response(503))).toBe("http_503");
  });

  it.each(failureKinds)("names %s as itself", (kind) => {
    expect(causeOf({ kind })).toBe(kind);
  });
});
