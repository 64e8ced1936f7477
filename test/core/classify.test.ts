import { describe, expect, it } from "vitest";
import { tokenReasons } from "../../src/core/reasons.ts";
import {
  backsOff,
  causeOf,
  classify,
  type Exchange,
  exchangeOf,
  healthOfExchange,
  type MetricResult,
  resultOf,
  type StatusRules,
} from "../../src/core/retry/classify.ts";
import { failureKinds, receiverFailures } from "../support/failure-kinds.ts";

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

  it("takes 410 as permanent even if the rules would retry it", () => {
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

type Fields = Readonly<Record<string, string>>;

const edge: Fields = { server: "cloudflare", "content-type": "text/plain; charset=UTF-8" };
const page: Fields = { ...edge, "content-type": "text/html; charset=UTF-8" };
const from = (status: number, excerpt: string, fields: Fields = edge) =>
  exchangeOf({ status, excerpt, header: (name) => fields[name] ?? null });

describe("exchangeOf", () => {
  it.each([
    [520, "connection_lost"],
    [521, "refused"],
    [522, "timeout"],
    [523, "network"],
    [524, "timeout"],
    [525, "tls"],
    [526, "tls"],
    [527, "network"],
  ])("takes the edge's own %i for %s, in plain text and as a page", (status, kind) => {
    expect(from(status, `error code: ${status}`)).toEqual({ kind, status });
    expect(from(status, `error code: ${status}\n`, page)).toEqual({ kind, status });
    const html = `<!DOCTYPE html>\n<head>\n<title>example.com | ${status}: Web server trouble</title>\n<meta`;
    expect(from(status, html, page)).toEqual({ kind, status });
  });

  it.each([
    [530, 1000, "dns"],
    [409, 1001, "dns"],
    [530, 1001, "dns"],
    [530, 1002, "dns"],
    [530, 1004, "dns"],
    [403, 1014, "dns"],
    [530, 1014, "dns"],
    [530, 1016, "dns"],
    [530, 1018, "dns"],
    [530, 1023, "dns"],
    [530, 1033, "refused"],
    [530, 1099, "network"],
    [530, 1999, "network"],
    [530, 530, "network"],
  ])("takes %i of the edge with the code %i for %s", (status, code, kind) => {
    expect(from(status, `error code: ${code}`)).toEqual({ kind, status });
  });

  it.each<[string, number, string, Fields]>([
    ["another server", 530, "error code: 1016", { ...edge, server: "nginx" }],
    ["no server", 530, "error code: 1016", { "content-type": "text/plain" }],
    ["another body", 522, "upstream timed out", edge],
    ["no body", 530, "", edge],
    ["a body that says more", 530, "Sorry: error code: 1016 (see the manual)", edge],
    ["a page about it", 530, "<p>error code: 1016</p>", page],
    ["a page's title in plain text", 522, "<title>a | 522: b</title>", edge],
    ["a code beyond those of the edge", 530, "error code: 2000", edge],
    ["a code that is not the status", 521, "error code: 522", edge],
    ["JSON", 530, "error code: 1016", { ...edge, "content-type": "application/json" }],
    ["no content type", 530, "error code: 1016", { server: "cloudflare" }],
    ["an ordinary 500", 500, "error code: 500", edge],
    ["an ordinary 503", 503, "error code: 1016", edge],
    ["a Worker of the receiver that threw", 500, "error code: 1101", edge],
    ["a block by the receiver's firewall", 403, "error code: 1020", edge],
    ["a 404", 404, "error code: 1001", edge],
    ["529, which is no status of the edge", 529, "error code: 529", edge],
  ])("leaves the receiver its own answer: %s", (_, status, excerpt, fields) => {
    expect(from(status, excerpt, fields)).toEqual({ kind: "response", status });
  });

  it.each([400, 403, 429, 503])("takes a challenge for one, with the status %i", (status) => {
    const fields = { ...page, "cf-mitigated": "challenge" };
    expect(from(status, "<!DOCTYPE html><title>Just a moment...</title>", fields)).toEqual({
      kind: "challenged",
      status,
    });
  });

  it.each([
    [204, "challenge"],
    [302, "challenge"],
    [410, "challenge"],
    [403, "block"],
  ])("takes %i with cf-mitigated: %s literally", (status, mitigated) => {
    expect(from(status, "", { "cf-mitigated": mitigated })).toEqual({ kind: "response", status });
  });

  it("keeps Retry-After, of a response and of a challenge", () => {
    const asked = { "retry-after": "30" };
    expect(from(503, "", asked)).toEqual({ kind: "response", status: 503, retryAfter: "30" });
    expect(from(429, "", { ...asked, "cf-mitigated": "challenge" })).toEqual({
      kind: "challenged",
      status: 429,
      retryAfter: "30",
    });
  });

  it.each(failureKinds)("leads to the same decisions after %s, thrown or as a response", (kind) => {
    for (const status of [403, 409, 522, 530]) {
      const asResponse: Exchange = { kind, status };
      for (const rules of [strict, lenient, { ...strict, overrides: { retry: [], fail: [status] } }])
        expect(classify(asResponse, rules)).toBe(classify({ kind }, rules));
      expect(healthOfExchange(asResponse)).toBe(healthOfExchange({ kind }));
      expect(backsOff(asResponse)).toBe(backsOff({ kind }));
      expect(causeOf(asResponse)).toBe(causeOf({ kind }));
    }
  });
});

describe("healthOf", () => {
  it.each([200, 204, 301, 400, 404, 408, 410, 422])("sees a living server behind %i", (status) => {
    expect(healthOfExchange(response(status))).toBe("healthy");
  });

  it.each([500, 502, 504, 599])("sees trouble behind %i", (status) => {
    expect(healthOfExchange(response(status))).toBe("unhealthy");
  });

  it("sees trouble behind 503 even with a Retry-After", () => {
    expect(healthOfExchange({ kind: "response", status: 503, retryAfter: "120" })).toBe("unhealthy");
  });

  it.each(receiverFailures)("sees trouble behind %s", (kind) => {
    expect(healthOfExchange({ kind })).toBe("unhealthy");
  });

  it("takes 429 for a request to slow down, not for an outage", () => {
    expect(healthOfExchange(response(429))).toBe("throttled");
  });
});

describe("backsOff", () => {
  it.each([429, 500, 502, 503, 504])("halves the window after %i", (status) => {
    expect(backsOff(response(status))).toBe(true);
  });

  it.each(tokenReasons)("sees no trouble of the receiver behind %s", (kind) => {
    expect([healthOfExchange({ kind, status: 401 }), backsOff({ kind, status: 401 })]).toEqual([
      "healthy",
      false,
    ]);
  });

  it.each(receiverFailures)("halves the window after %s", (kind) => {
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

it.each<[Exchange, MetricResult]>([
  [{ kind: "response", status: 200 }, "2xx"],
  [{ kind: "response", status: 204 }, "2xx"],
  [{ kind: "response", status: 302 }, "3xx"],
  [{ kind: "response", status: 404 }, "4xx"],
  [{ kind: "response", status: 428 }, "4xx"],
  [{ kind: "response", status: 429 }, "429"],
  [{ kind: "response", status: 503 }, "5xx"],
  [{ kind: "response", status: 101 }, "other"],
  [{ kind: "response", status: 999 }, "other"],
  [{ kind: "timeout" }, "timeout"],
  [{ kind: "connection_lost" }, "network"],
  [{ kind: "refused" }, "network"],
  [{ kind: "dns" }, "network"],
  [{ kind: "network" }, "network"],
  [{ kind: "tls" }, "network"],
  [{ kind: "timeout", status: 522 }, "timeout"],
  [{ kind: "dns", status: 530 }, "network"],
  [{ kind: "challenged", status: 403 }, "4xx"],
  [{ kind: "challenged", status: 429 }, "429"],
  [{ kind: "challenged" }, "network"],
])("%j counts as %s", (exchange, result) => {
  expect(resultOf(exchange)).toBe(result);
});
