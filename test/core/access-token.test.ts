/** The meaning of token endpoints' answers, and the token or failure that a gate gives out. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  afterToken,
  afterTokenFault,
  type TokenFault,
  tokenAt,
  tokenOutcome,
  usableUntil,
} from "../../src/core/access-token.ts";

const NOW = 1_000_000;
const MINUTE = 60_000;
const answer = (body: unknown, status = 200) =>
  tokenOutcome({ status, text: typeof body === "string" ? body : JSON.stringify(body), isCut: false });

describe("a token endpoint's answer", () => {
  test.each<[unknown, number]>([
    [{ expires_in: 3600 }, 3600],
    [{ expires_in: "3600" }, 3600],
    [{ expires_in: 1.5 }, 1.5],
    [{ token_type: "bearer", expires_in: 60 }, 60],
    [{}, 300],
    [{ expires_in: null }, 300],
    [{ expires_in: 0 }, 300],
    [{ expires_in: -1 }, 300],
    [{ expires_in: "soon" }, 300],
    [{ expires_in: "" }, 300],
    [{ expires_in: 1 }, 1],
    [{ expires_in: true }, 300],
    [{ expires_in: [60] }, 300],
    [{ expires_in: [] }, 300],
    [{ expires_in: 1e300 }, 86_400],
    [{ expires_in: Number.MAX_SAFE_INTEGER }, 86_400],
  ])("with %j is a token for %d seconds", (fields, seconds) => {
    const expected = { kind: "token", token: "t0k3n", lifetimeMs: seconds * 1000 };
    expect(answer({ access_token: "t0k3n", token_type: "Bearer", ...(fields as object) })).toEqual(expected);
  });

  test.each<[string, unknown, number]>([
    ["answers 500", "", 500],
    ["answers 503 (invalid_client)", { error: "invalid_client" }, 503],
    ["answers 429", "", 429],
    ["answers 408", "", 408],
    ["answers 204", "", 204],
    ["redirects, which is not followed", "", 300],
    ["redirects, which is not followed", "", 302],
    ["answers 200 without a JSON object", "<html>", 200],
    ["answers 200 without a JSON object", "[]", 200],
    ["answers 200 without a JSON object", "null", 200],
    ["answers 200 without a JSON object", '"access_token"', 200],
    ["answers 200 without an access_token that can be sent", {}, 200],
    ["answers 200 without an access_token that can be sent", { access_token: "" }, 200],
    ["answers 200 without an access_token that can be sent", { access_token: 5 }, 200],
    ["answers 200 without an access_token that can be sent", { access_token: "a\r\nb: c" }, 200],
    ["answers 200 without an access_token that can be sent", { access_token: "a".repeat(8193) }, 200],
    ["answers 200 with a token_type that is not Bearer", { access_token: "t", token_type: "mac" }, 200],
  ])("that %s gives no token, for now", (fault, body, status) => {
    expect(answer(body, status)).toEqual({ kind: "failed", reason: "token_unavailable", fault });
  });

  test.each<[string, unknown, number]>([
    ["answers 401 (invalid_client)", { error: "invalid_client", error_description: "wr0ng s3cr3t" }, 401],
    ["answers 400 (invalid_scope)", { error: "invalid_scope" }, 400],
    ["answers 400", { error: "s3cr3t" }, 400],
    ["answers 403", "<html>", 403],
    ["answers 404", "", 404],
    ["answers invalid_client", { error: "invalid_client" }, 200],
  ])("that %s refuses the client", (fault, body, status) => {
    expect(answer(body, status)).toEqual({ kind: "failed", reason: "token_refused", fault });
  });

  test.each([
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
  ])("with the code %s of OAuth names it", (error) => {
    expect(answer({ error }, 400)).toMatchObject({ fault: `answers 400 (${error})` });
  });

  test("may be 201", () => {
    expect(answer({ access_token: "t0k3n" }, 201)).toMatchObject({ kind: "token", token: "t0k3n" });
  });

  test("that was cut off gives no token", () => {
    const cut = tokenOutcome({ status: 200, text: "", isCut: true });
    expect(cut).toMatchObject({
      reason: "token_unavailable",
      fault: expect.stringContaining("more than 65536"),
    });
  });

  test("gives, whatever it is, a token that can be sent or a fault that repeats nothing of it", () => {
    const value = fc.oneof(
      fc.jsonValue(),
      fc.record({ access_token: fc.string(), expires_in: fc.jsonValue() }),
    );
    fc.assert(
      fc.property(fc.integer({ min: 100, max: 999 }), value, (status, body) => {
        const outcome = answer({ ...(body as object), marked: "s3cr3t-m4rk" }, status);
        if (outcome.kind === "failed") {
          expect(outcome.fault).toMatch(/^[\w ,.()]{1,80}$/);
          return;
        }
        expect(outcome.lifetimeMs).toBeGreaterThanOrEqual(1000);
        expect(outcome.lifetimeMs).toBeLessThanOrEqual(86_400_000);
        expect(() => new Headers({ authorization: `Bearer ${outcome.token}` })).not.toThrow();
      }),
    );
  });
});

test.each([
  [3_600_000, 3_540_000],
  [240_000, 180_000],
  [60_000, 45_000],
  [1_000, 750],
])("a token of %d ms is sent for %d of them", (lifetimeMs, usedMs) => {
  expect(usableUntil(lifetimeMs, NOW)).toBe(NOW + usedMs);
});

describe("a gate", () => {
  const token = { sealed: "one", obtainedAt: NOW, usableUntil: NOW + 10 * MINUTE };
  const kept = afterToken("a", token);
  const fault = (reason: TokenFault["reason"]): TokenFault => ({
    kind: "failed",
    reason,
    fault: "answers 500",
  });

  test("hands out its token until it is about to expire", () => {
    expect(tokenAt(undefined, { terms: "a" }, NOW)).toBeUndefined();
    expect(tokenAt(kept, { terms: "a" }, NOW + 10 * MINUTE - 1)).toEqual({ kind: "token", ...token });
    expect(tokenAt(kept, { terms: "a" }, NOW + 10 * MINUTE)).toBeUndefined();
  });

  test("has no token for other credentials", () => {
    expect(tokenAt(kept, { terms: "b" }, NOW)).toBeUndefined();
  });

  test("replaces a refused token, but not one that was fetched just before", () => {
    expect(tokenAt(kept, { terms: "a", refused: "one" }, NOW + MINUTE - 1)).toMatchObject({ sealed: "one" });
    expect(tokenAt(kept, { terms: "a", refused: "one" }, NOW + MINUTE)).toBeUndefined();
    expect(tokenAt(kept, { terms: "a", refused: "zero" }, NOW + MINUTE)).toMatchObject({ sealed: "one" });
  });

  test.each([
    ["token_unavailable", [5, 10, 20, 40, 80]],
    ["token_refused", [60, 120, 240, 480, 900]],
  ] as const)("has a failure (%s) pass before the next fetch, ever longer", (reason, seconds) => {
    let state = afterTokenFault(undefined, { terms: "a" }, fault(reason), NOW);
    for (const pause of seconds) {
      const until = NOW + pause * 1000;
      expect(tokenAt(state, { terms: "a" }, until - 1)).toMatchObject({ kind: "failed", reason, until });
      expect(tokenAt(state, { terms: "a", force: true }, until - 1)).toBeUndefined();
      expect(tokenAt(state, { terms: "b" }, until - 1)).toBeUndefined();
      expect(tokenAt(state, { terms: "a" }, until)).toBeUndefined();
      state = afterTokenFault(state, { terms: "a" }, fault(reason), NOW);
    }
    for (let i = 0; i < 2_000; i++) state = afterTokenFault(state, { terms: "a" }, fault(reason), NOW);
    expect(state.failure?.until).toBe(NOW + 15 * MINUTE);
  });

  test("resets the pauses after a success, and for another failure", () => {
    const failed = (state: Parameters<typeof afterTokenFault>[0], reason: TokenFault["reason"]) =>
      afterTokenFault(state, { terms: "a" }, fault(reason), NOW);
    const twice = failed(failed(undefined, "token_unavailable"), "token_unavailable");
    expect(failed(twice, "token_refused").failure?.times).toBe(1);
    expect(afterToken("a", token).failure).toBeNull();
  });

  test("drops a token that was refused when no other could be fetched, and keeps one fetched by another meanwhile", () => {
    const later = NOW + MINUTE;
    const refused = afterTokenFault(kept, { terms: "a", refused: "one" }, fault("token_unavailable"), later);
    expect(tokenAt(refused, { terms: "a" }, later)).toMatchObject({ kind: "failed" });
    const newer = afterToken("a", { ...token, sealed: "two" });
    expect(afterTokenFault(newer, { terms: "a", refused: "one" }, fault("token_refused"), later)).toBe(newer);
    const others = afterTokenFault(kept, { terms: "b" }, fault("token_refused"), NOW);
    expect(tokenAt(others, { terms: "b" }, NOW)).toMatchObject({ kind: "failed" });
  });
});
