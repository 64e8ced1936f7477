import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Delays, Jitter } from "../../src/core/retry/backoff.ts";
import type { Exchange } from "../../src/core/retry/classify.ts";
import type { RetryPolicy } from "../../src/core/retry/policy.ts";
import { presetNames, presets } from "../../src/core/retry/presets.ts";
import { holdUntil, transition } from "../../src/core/retry/transition.ts";

const now = Date.UTC(2026, 10, 21, 9, 0, 0);
const hourMs = 3_600_000;
const almostOne = 1 - 2 ** -53;
const first = { attempts: 1, giveUpAt: now + 72 * hourMs };

const steady: RetryPolicy = {
  ...presets.breakwater,
  delays: { schedule: [60] },
  jitter: "none",
};
const instead: RetryPolicy = { ...steady, retryAfter: "instead" };

function response(status: number, retryAfter?: string): Exchange {
  return { kind: "response", status, ...(retryAfter !== undefined && { retryAfter }) };
}

describe("transition", () => {
  it.each([200, 201, 202, 204, 299])("ends as delivered at %i", (status) => {
    expect(transition(response(status), first, steady, now, 0)).toEqual({ kind: "delivered" });
  });

  it("ends as delivered even past both limits", () => {
    const late = { attempts: 1000, giveUpAt: now - hourMs };
    expect(transition(response(200), late, steady, now, 0)).toEqual({ kind: "delivered" });
  });

  it.each([301, 302, 400, 401])("ends as permanent at %i", (status) => {
    expect(transition(response(status), first, steady, now, 0)).toEqual({
      kind: "dead",
      reason: "permanent",
    });
  });

  it("ends as gone at 410", () => {
    expect(transition(response(410), first, steady, now, 0)).toEqual({ kind: "dead", reason: "gone" });
  });

  it("retries with the cause and the time", () => {
    const result = transition({ kind: "timeout" }, first, steady, now, 0);
    expect(result).toStrictEqual({ kind: "retry", at: now + 60_000, reason: "timeout" });
  });

  it("retries exactly at the age limit, and expires one millisecond beyond it", () => {
    const until = (giveUpAt: number) => transition(response(500), { attempts: 1, giveUpAt }, steady, now, 0);
    expect(until(now + 60_000)).toMatchObject({ kind: "retry", at: now + 60_000 });
    expect(until(now + 59_999)).toEqual({ kind: "dead", reason: "expired" });
  });

  it("holds the attempts limit while the age limit is far, and the age limit while attempts are left", () => {
    const twice: RetryPolicy = { ...steady, maxAttempts: 2 };
    expect(transition(response(500), { ...first, attempts: 2 }, twice, now, 0)).toEqual({
      kind: "dead",
      reason: "exhausted",
    });
    expect(transition(response(500), { attempts: 1, giveUpAt: now }, twice, now, 0)).toEqual({
      kind: "dead",
      reason: "expired",
    });
  });

  it("ends a delivery when a limited cause has occurred the maximum number of times, whatever came between", () => {
    const limited: RetryPolicy = { ...steady, rules: { ...steady.rules, attemptLimits: { dns: 3 } } };
    const fourth = { ...first, attempts: 4 };
    const dns = (sameCause: number) => transition({ kind: "dns" }, { ...fourth, sameCause }, limited, now, 0);
    expect(dns(2).kind).toBe("retry");
    expect(dns(3)).toEqual({ kind: "dead", reason: "exhausted" });
    expect(transition({ kind: "refused" }, { ...fourth, sameCause: 4 }, limited, now, 0).kind).toBe("retry");
  });

  it("holds a destination for the Retry-After that comes with a challenge, as for any other", () => {
    const challenged = { kind: "challenged", status: 429, retryAfter: "600" } as const;
    expect(holdUntil(challenged, now)).toBe(now + 600_000);
    expect(holdUntil({ kind: "challenged", status: 403, retryAfter: "600" }, now)).toBeUndefined();
  });

  it("never lets a limited cause outlive the attempts limit", () => {
    const limited: RetryPolicy = {
      ...steady,
      maxAttempts: 2,
      rules: { ...steady.rules, attemptLimits: { dns: 3 } },
    };
    const result = transition({ kind: "dns" }, { ...first, attempts: 2 }, limited, now, 0);
    expect(result).toEqual({ kind: "dead", reason: "exhausted" });
  });

  it("grows a decorrelated wait from the one before", () => {
    const decorrelated: RetryPolicy = { ...presets.breakwater, jitter: "decorrelated" };
    const history = { ...first, attempts: 3, previousDelayMs: 100_000 };
    const result = transition(response(500), history, decorrelated, now, 0.5);
    expect(result).toMatchObject({ at: now + 165_000 });
  });
});

describe("transition, if the receiver sends Retry-After", () => {
  it.each([429, 503])("waits for the longer of backoff and Retry-After at %i", (status) => {
    expect(transition(response(status, "120"), first, steady, now, 0)).toEqual({
      kind: "retry",
      at: now + 120_000,
      reason: `http_${status}`,
      notBefore: now + 120_000,
    });
    expect(transition(response(status, "10"), first, steady, now, 0)).toEqual({
      kind: "retry",
      at: now + 60_000,
      reason: `http_${status}`,
      notBefore: now + 10_000,
    });
  });

  it("waits for a 429's Retry-After instead of a longer backoff if the policy says so", () => {
    expect(transition(response(429, "10"), first, instead, now, 0)).toMatchObject({ at: now + 10_000 });
  });

  it("never lets the Retry-After of a 503 shorten the backoff, whatever the policy says of a 429", () => {
    const result = transition(response(503, "1"), first, instead, now, 0);
    expect(result).toMatchObject({ at: now + 60_000, notBefore: now + 1_000 });
  });

  it.each(presetNames)("keeps the waits of %s if every 503 has Retry-After: 1", (name) => {
    const policy = presets[name];
    for (const attempts of [1, 2, 3, 4]) {
      const history = { attempts, giveUpAt: Number.MAX_SAFE_INTEGER };
      const silent = transition(response(503), history, policy, now, 0.7);
      expect(transition(response(503, "1"), history, policy, now, 0.7)).toMatchObject({
        at: silent.kind === "retry" ? silent.at : 0,
      });
    }
  });

  it("reads an HTTP-date", () => {
    const result = transition(response(503, "Sat, 21 Nov 2026 09:05:00 GMT"), first, steady, now, 0);
    expect(result).toMatchObject({ at: now + 300_000, notBefore: now + 300_000 });
  });

  it("adds nothing if the backoff ends at the requested time", () => {
    expect(transition(response(503, "60"), first, steady, now, almostOne)).toMatchObject({
      at: now + 60_000,
    });
  });

  it("retries at the age limit when the receiver asks for exactly that", () => {
    const until = { attempts: 1, giveUpAt: now + 120_000 };
    expect(transition(response(503, "120"), until, steady, now, 0)).toStrictEqual({
      kind: "retry",
      at: now + 120_000,
      reason: "http_503",
      notBefore: now + 120_000,
    });
  });

  it("adds up to a tenth of the requested wait, and never subtracts", () => {
    const at = (random: number) => transition(response(503, "600"), first, steady, now, random);
    expect(at(0)).toMatchObject({ at: now + 600_000 });
    expect(at(almostOne)).toMatchObject({ at: now + 660_000 });
  });

  it("adds up to a second if a tenth would be less", () => {
    const result = transition(response(429, "2"), first, instead, now, almostOne);
    expect(result).toMatchObject({ at: now + 3_000 });
  });

  it("waits at least a second, even if the receiver sends zero or a past time", () => {
    const asked = ["0", "Sun, 06 Nov 1994 08:49:37 GMT"];
    for (const value of asked) {
      const result = transition(response(429, value), first, instead, now, 0);
      expect(result).toMatchObject({ at: now + 1_000, notBefore: now });
    }
  });

  it.each([408, 500, 502, 504])("ignores Retry-After at %i", (status) => {
    expect(transition(response(status, "600"), first, presets.textbook, now, 0)).toEqual({
      kind: "retry",
      at: now + 30_000,
      reason: `http_${status}`,
    });
  });

  it("expires, and says why, if the receiver asks for a time past the age limit", () => {
    expect(transition(response(503, "1000000000000000000"), first, steady, now, almostOne)).toEqual({
      kind: "dead",
      reason: "expired",
      note: "Retry-After lies past the age limit; taken as 30 days for the destination",
    });
  });

  it("ignores nonsense, says so, and waits as if nothing had been asked", () => {
    expect(transition(response(503, "soon"), first, steady, now, 0)).toEqual({
      kind: "retry",
      at: now + 60_000,
      reason: "http_503",
      note: 'Retry-After "soon" ignored',
    });
  });

  it("quotes no more than forty characters of nonsense", () => {
    const result = transition(response(503, "x".repeat(10_000)), first, steady, now, 0);
    expect(result).toMatchObject({ note: `Retry-After "${"x".repeat(40)}" ignored` });
  });

  it("doubles the backoff for a 429 without a time it can read, and for that only", () => {
    const wait = (exchange: Exchange) => transition(exchange, first, steady, now, 0);
    expect(wait(response(429))).toMatchObject({ at: now + 120_000 });
    expect(wait(response(429, "soon"))).toMatchObject({ at: now + 120_000 });
    expect(wait(response(429, "10"))).toMatchObject({ at: now + 60_000 });
    expect(wait(response(503))).toMatchObject({ at: now + 60_000 });
  });

  it("never lets jitter fall below Retry-After (regression: Svix)", () => {
    for (const name of presetNames) {
      const result = transition(response(503, "30"), first, presets[name], now, 0);
      expect(result).toMatchObject({ kind: "retry", notBefore: now + 30_000 });
      if (result.kind === "retry") expect(result.at).toBeGreaterThanOrEqual(now + 30_000);
    }
  });
});

describe("holdUntil", () => {
  it.each([429, 503])("holds until the time that %i names", (status) => {
    expect(holdUntil(response(status, "120"), now)).toBe(now + 120_000);
  });

  it("holds for as long as requested, however short the age limit of the deliveries is", () => {
    const asked = response(503, "3600");
    expect(holdUntil(asked, now)).toBe(now + hourMs);
    const short = { attempts: 1, giveUpAt: now + 60_000 };
    expect(transition(asked, short, { ...steady, giveUpAfterMs: 60_000 }, now, 0)).toEqual({
      kind: "dead",
      reason: "expired",
      note: "Retry-After lies past the age limit",
    });
  });

  it("holds for 30 days if requested, without a remark", () => {
    const asked = response(503, "2592000");
    expect(holdUntil(asked, now)).toBe(now + 30 * 24 * hourMs);
    expect(transition(asked, first, steady, now, 0)).toMatchObject({
      note: "Retry-After lies past the age limit",
    });
  });

  it.each([
    "1000000000000000000",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "2592001",
  ])("takes Retry-After: %s as 30 days, and notes that at the delivery", (value) => {
    const asked = response(503, value);
    expect(holdUntil(asked, now)).toBe(now + 30 * 24 * hourMs);
    expect(transition(asked, first, steady, now, 0)).toEqual({
      kind: "dead",
      reason: "expired",
      note: "Retry-After lies past the age limit; taken as 30 days for the destination",
    });
  });

  it.each([
    ["an answer without the header", response(503)],
    ["nonsense", response(429, "soon")],
    ["zero", response(429, "0")],
    ["a time gone by", response(503, "Sun, 06 Nov 1994 08:49:37 GMT")],
    ["another status", response(500, "120")],
    ["a success", response(200, "120")],
    ["no answer", { kind: "timeout" } as const],
  ])("leaves the gate alone after %s", (_, exchange) => {
    expect(holdUntil(exchange, now)).toBeUndefined();
  });
});

describe("whatever the exchange, the policy and the jitter", () => {
  /** Evenly drawn: `fc.double` favours numbers next to zero. */
  const fraction = fc.nat(999_999).map((n) => n / 1_000_000);
  const random = fc.oneof(fraction, fc.constantFrom(0, almostOne));
  const seconds = fc.integer({ min: 1, max: 604_800 });
  const delays: fc.Arbitrary<Delays> = fc.oneof(
    fc.record({ schedule: fc.array(seconds, { minLength: 1, maxLength: 50 }) }),
    fc
      .tuple(
        seconds,
        seconds,
        fraction.map((f) => 1 + 9 * f),
      )
      .map(([a, b, factor]) => ({ base: Math.min(a, b), factor, cap: Math.max(a, b) })),
  );
  const jitter: fc.Arbitrary<Jitter> = fc.oneof(
    fc.constantFrom<Jitter>("full", "equal", "decorrelated", "none"),
    fc.record({ proportional: fc.oneof(fraction, fc.constant(1)) }),
  );
  const policy: fc.Arbitrary<RetryPolicy> = fc.record({
    delays,
    jitter,
    maxAttempts: fc.constant(1001),
    giveUpAfterMs: fc.constant(72 * hourMs),
    expireUnattemptedAfterMs: fc.constant(14 * 24 * hourMs),
    rules: fc.constantFrom(...presetNames.map((name) => presets[name].rules)),
    retryAfter: fc.constantFrom("floor" as const, "instead" as const),
  });
  const header = fc.oneof(
    fc.constantFrom("0", "1", "Sun, 06 Nov 1994 08:49:37 GMT"),
    fc.integer({ min: 0, max: 300_000 }).map(String),
    fc.bigInt({ min: 0n, max: 10n ** 18n }).map(String),
    fc.integer({ min: 0, max: 300_000 }).map((s) => new Date(now + s * 1000).toUTCString()),
    fc.string({ maxLength: 60 }),
  );
  const exchange: fc.Arbitrary<Exchange> = fc.oneof(
    fc.constantFrom<Exchange>(
      { kind: "timeout" },
      { kind: "connection_lost" },
      { kind: "refused" },
      { kind: "dns" },
      { kind: "network" },
      { kind: "tls", status: 526 },
      { kind: "challenged", status: 403 },
      { kind: "challenged", status: 429, retryAfter: "600" },
    ),
    fc.integer({ min: 100, max: 599 }).map((status) => response(status)),
    fc.tuple(fc.constantFrom(429, 503), header).map(([status, value]) => response(status, value)),
  );
  const attempts = fc.integer({ min: 1, max: 1000 });
  const previousDelayMs = fc.integer({ min: 1000, max: 1_000_000_000 });

  it("waits a whole, finite number of milliseconds, a second at least", () => {
    fc.assert(
      fc.property(exchange, policy, attempts, previousDelayMs, random, (e, p, n, previous, r) => {
        const history = { attempts: n, giveUpAt: Number.MAX_SAFE_INTEGER, previousDelayMs: previous };
        const result = transition(e, history, p, now, r);
        if (result.kind !== "retry") return;
        expect(Number.isSafeInteger(result.at)).toBe(true);
        expect(result.at).toBeGreaterThanOrEqual(now + 1000);
      }),
      { numRuns: 2000 },
    );
  });

  it("never retries before the receiver's own time", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(429, 503),
        fc.nat(300_000),
        policy,
        attempts,
        random,
        (status, s, p, n, r) => {
          const history = { attempts: n, giveUpAt: Number.MAX_SAFE_INTEGER };
          const result = transition(
            response(status, String(s)),
            history,
            { ...p, rules: steady.rules },
            now,
            r,
          );
          expect(result).toMatchObject({ kind: "retry", notBefore: now + s * 1000 });
          if (result.kind === "retry") expect(result.at).toBeGreaterThanOrEqual(now + s * 1000);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("never retries past the age limit", () => {
    fc.assert(
      fc.property(exchange, policy, attempts, fc.nat(72 * hourMs), random, (e, p, n, leftMs, r) => {
        const result = transition(e, { attempts: n, giveUpAt: now + leftMs }, p, now, r);
        if (result.kind === "retry") expect(result.at).toBeLessThanOrEqual(now + leftMs);
      }),
      { numRuns: 2000 },
    );
  });

  it("never makes more attempts than the policy allows", () => {
    fc.assert(
      fc.property(exchange, policy, attempts, random, (e, p, n, r) => {
        const result = transition(
          e,
          { attempts: n, giveUpAt: Number.MAX_SAFE_INTEGER },
          { ...p, maxAttempts: n },
          now,
          r,
        );
        expect(result.kind).not.toBe("retry");
      }),
    );
  });

  it("never holds the gate for more than 30 days, nor for less than the delivery waits", () => {
    fc.assert(
      fc.property(exchange, policy, attempts, random, (e, p, n, r) => {
        const held = holdUntil(e, now);
        if (held !== undefined) expect(held).toBeLessThanOrEqual(now + 30 * 24 * hourMs);
        const result = transition(e, { attempts: n, giveUpAt: now + p.giveUpAfterMs }, p, now, r);
        if (result.kind === "retry") expect(result.at).toBeGreaterThanOrEqual(held ?? now);
      }),
      { numRuns: 2000 },
    );
  });
});
