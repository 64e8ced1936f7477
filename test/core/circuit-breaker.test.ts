import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Circuit, circuitAfter, circuitAt, closedCircuit } from "../../src/core/circuit-breaker.ts";
import type { BreakerSettings } from "../../src/core/limits.ts";
import type { ExchangeHealth } from "../../src/core/retry/classify.ts";
import { fraction, numbersIn, start, sumOf } from "../support/gate-arbitraries.ts";

const almostOne = 1 - 2 ** -53;
const hourMs = 3_600_000;
const breaker: BreakerSettings = {
  failureRatio: 0.5,
  minAttempts: 5,
  windowMs: 60_000,
  cooldownMs: 30_000,
  maxCooldownMs: 300_000,
};

function afterOne(
  circuit: Circuit,
  health: ExchangeHealth,
  now: number,
  settings = breaker,
  random = 0,
): Circuit {
  return circuitAfter(circuit, health, settings, now, random);
}

/** `f`ailure, `s`uccess, `t`hrottled: one a second, from `from` on. */
function afterOutcomes(
  outcomes: string,
  from = start,
  settings = breaker,
  circuit: Circuit = closedCircuit(from),
) {
  const healths: Record<string, ExchangeHealth> = { f: "unhealthy", s: "healthy", t: "throttled" };
  return [...outcomes].reduce(
    (c, letter, i) => afterOne(c, healths[letter] ?? "healthy", from + i * 1000, settings),
    circuit,
  );
}

function open(trips: number, until = start): Circuit {
  return { kind: "open", since: until - 30_000, until, trips };
}

function halfOpen(trips: number): Circuit {
  return circuitAt(open(trips), start);
}

describe("a closed circuit", () => {
  it.each([
    ["stays closed below the least number of attempts", "ffff", "closed"],
    ["opens at the least number of attempts, all failed", "fffff", "open"],
    ["opens at the ratio exactly", "fffsss", "open"],
    ["opens at half of the attempts, where that is the ratio", "ssffsf", "open"],
    ["stays closed just below the ratio", "ffsssssf", "closed"],
    ["stays closed while successes prevail", "sfsfssfsfs", "closed"],
    ["does not count a 429 as a failure", "tttttttttt", "closed"],
    ["does not count a 429 as an attempt: it does not fill the window", "fttttfff", "closed"],
    ["does not count a 429 as a success: it does not thin the failures out", "fftttttfff", "open"],
  ])("%s", (_, outcomes, kind) => {
    expect(afterOutcomes(outcomes).kind).toBe(kind);
  });

  it("opens for a run of twice the least number of failures, however many successes came before", () => {
    const busy = afterOutcomes("s".repeat(100));
    const failing = (n: number, c = busy) => afterOutcomes("f".repeat(n), start + 1_000, breaker, c);
    expect(failing(9).kind).toBe("closed");
    expect(failing(10).kind).toBe("open");
    expect(failing(9, afterOne(failing(9), "healthy", start + 1_000)).kind).toBe("closed");
    expect(failing(1, afterOne(failing(9), "throttled", start + 1_000)).kind).toBe("open");
  });

  it("does not trip over one failure after an idle hour (regression: cockatiel)", () => {
    expect(afterOne(afterOutcomes("ffff"), "unhealthy", start + hourMs).kind).toBe("closed");
  });

  it("forgets attempts that are older than its window, and no others", () => {
    const four = afterOutcomes("ffff");
    expect(afterOne(four, "unhealthy", start + breaker.windowMs - 1).kind).toBe("open");
    expect(afterOne(four, "unhealthy", start + breaker.windowMs + 4000).kind).toBe("closed");
  });

  it("forgets attempts at the instant at which they are as old as its window", () => {
    expect(afterOne(afterOutcomes("ffff"), "unhealthy", start + breaker.windowMs).kind).toBe("closed");
  });

  it("counts attempts within a tenth of its window for as long as the first of them", () => {
    const second = start + breaker.windowMs / 10 - 1;
    const times = [start, second, second, second, start + breaker.windowMs, start + breaker.windowMs];
    const failed = times.reduce((c, at) => afterOne(c, "unhealthy", at), closedCircuit(start));
    expect(failed.kind).toBe("closed");
  });

  it("counts an attempt that comes a tenth of the window later for that much longer", () => {
    const second = start + breaker.windowMs / 10;
    const times = [start, second, second, second, start + breaker.windowMs];
    const four = times.reduce((c, at) => afterOne(c, "unhealthy", at), closedCircuit(start));
    expect(four.kind).toBe("closed");
    expect(afterOne(four, "unhealthy", start + breaker.windowMs).kind).toBe("open");
  });

  it("opens for its full cool-down however long it was closed before (regression: unkey)", () => {
    const opened = afterOutcomes("fffff", start + hourMs, breaker, closedCircuit(start));
    expect(opened).toMatchObject({ kind: "open", until: start + hourMs + 4000 + breaker.cooldownMs });
    expect(circuitAt(opened, start + hourMs + 4000 + breaker.cooldownMs - 1).kind).toBe("open");
  });

  it("begins with the first cool-down again after a whole window without an opening", () => {
    const recovered = afterOne(halfOpen(6), "healthy", start);
    const rested = afterOutcomes("s", start + breaker.windowMs, breaker, recovered);
    expect(afterOutcomes("ffffff", start + 2 * hourMs, breaker, rested)).toMatchObject({
      kind: "open",
      trips: 1,
    });
  });

  it("begins with the first cool-down again even if a single failure opens it", () => {
    const recovered = afterOne(halfOpen(6), "healthy", start);
    const touchy = { ...breaker, minAttempts: 1 };
    expect(afterOne(recovered, "unhealthy", start + hourMs, touchy)).toMatchObject({
      kind: "open",
      trips: 1,
    });
  });

  it("counts openings until a whole window has passed, to the millisecond", () => {
    const recovered = afterOne(halfOpen(6), "healthy", start);
    const touchy = { ...breaker, minAttempts: 1 };
    const openedAfter = (ms: number) => afterOne(recovered, "unhealthy", start + ms, touchy);
    expect(openedAfter(breaker.windowMs - 1)).toMatchObject({ trips: 7 });
    expect(openedAfter(breaker.windowMs)).toMatchObject({ trips: 1 });
  });

  it("continues with longer cool-downs when it opens again within a window", () => {
    const recovered = afterOne(halfOpen(2), "healthy", start);
    expect(afterOutcomes("fffff", start + 1000, breaker, recovered)).toMatchObject({
      kind: "open",
      trips: 3,
    });
  });
});

describe("an open circuit", () => {
  it("stays open until its cool-down is over, and is half-open at that instant", () => {
    expect(circuitAt(open(1), start - 1)).toEqual(open(1));
    expect(circuitAt(open(1), start)).toEqual({ kind: "half_open", since: start, trips: 1 });
  });

  it.each([
    "healthy",
    "unhealthy",
    "throttled",
  ] as const)("is not moved by a %s outcome of an attempt that was under way", (health) => {
    expect(afterOne(open(1, start + 1000), health, start)).toEqual(open(1, start + 1000));
  });

  it("is still the same circuit after an hour without a request", () => {
    expect(circuitAt(open(3), start + hourMs)).toMatchObject({ kind: "half_open", trips: 3 });
  });
});

describe("a half-open circuit", () => {
  it("closes after a successful probe, with nothing counted yet", () => {
    expect(afterOne(halfOpen(1), "healthy", start)).toEqual({
      kind: "closed",
      since: start,
      trips: 1,
      slices: [],
      streak: 0,
    });
  });

  it("closes after a 429: a server that refuses politely is alive", () => {
    expect(afterOne(halfOpen(1), "throttled", start).kind).toBe("closed");
  });

  it("opens again after a failed probe, for twice as long (regression: unkey)", () => {
    const again = afterOne(halfOpen(1), "unhealthy", start);
    expect(again).toEqual({ kind: "open", since: start, until: start + 60_000, trips: 2 });
  });

  it("waits for ever for a probe without an outcome", () => {
    expect(circuitAt(halfOpen(1), start + hourMs)).toEqual(halfOpen(1));
  });
});

describe("the cool-down", () => {
  it("doubles up to its cap", () => {
    const lasting = [0, 1, 2, 3, 4, 5, 1000].map((trips) => {
      const opened = afterOne(halfOpen(trips), "unhealthy", start);
      return opened.kind === "open" ? (opened.until - start) / 1000 : 0;
    });
    expect(lasting).toEqual([30, 60, 120, 240, 300, 300, 300]);
  });

  it("is spread by up to a tenth, and only ever longer", () => {
    const until = (random: number) => afterOne(halfOpen(0), "unhealthy", start, breaker, random);
    expect(until(0)).toMatchObject({ until: start + 30_000 });
    expect(until(0.5)).toMatchObject({ until: start + 31_500 });
    expect(until(almostOne)).toMatchObject({ until: start + 33_000 });
  });

  it("respects a cap below the first cool-down", () => {
    const capped = { ...breaker, maxCooldownMs: 10_000 };
    expect(afterOne(halfOpen(0), "unhealthy", start, capped)).toMatchObject({ until: start + 10_000 });
  });
});

describe("whatever happens, in whatever order, with whatever clock", () => {
  const settings: fc.Arbitrary<BreakerSettings> = fc.record({
    failureRatio: fc.integer({ min: 1, max: 20 }).map((n) => n / 20),
    minAttempts: fc.integer({ min: 1, max: 50 }),
    windowMs: fc.integer({ min: 1, max: 3600 }).map((s) => s * 1000),
    cooldownMs: fc.integer({ min: 1, max: 3600 }).map((s) => s * 1000),
    maxCooldownMs: fc.integer({ min: 1, max: 86_400 }).map((s) => s * 1000),
  });
  const outcome = fc.record({
    health: fc.constantFrom<ExchangeHealth>("healthy", "unhealthy", "unhealthy", "throttled"),
    afterMs: fc.oneof(fc.nat(2_000), fc.nat(hourMs), fc.integer({ min: -60_000, max: 0 })),
    random: fraction,
    settings,
  });
  const outcomes = fc.array(outcome, { maxLength: 120, size: "max" });

  function played(list: readonly (typeof outcome extends fc.Arbitrary<infer T> ? T : never)[]) {
    let now = start;
    let circuit: Circuit = closedCircuit(now);
    return list.map(({ health, afterMs, random, settings: breaker }) => {
      now += afterMs;
      const before = circuitAt(circuit, now);
      circuit = circuitAfter(before, health, breaker, now, random);
      return { before, circuit, now, health, breaker };
    });
  }

  it("keeps every count whole and finite, and no more slices than twice a window's", () => {
    fc.assert(
      fc.property(outcomes, (list) => {
        for (const { circuit } of played(list)) {
          for (const n of numbersIn(circuit)) expect(Number.isSafeInteger(n) && n >= 0).toBe(true);
          if (circuit.kind !== "closed") continue;
          expect(circuit.slices.length).toBeLessThanOrEqual(22);
          for (const { attempts, failures } of circuit.slices) expect(failures).toBeLessThanOrEqual(attempts);
        }
      }),
    );
  });

  it("never stays open for longer than the cap and a tenth", () => {
    fc.assert(
      fc.property(outcomes, (list) => {
        for (const { before, circuit, now, breaker } of played(list)) {
          if (circuit.kind !== "open" || before.kind === "open") continue;
          expect(circuit.until - now).toBeGreaterThanOrEqual(
            Math.min(breaker.cooldownMs, breaker.maxCooldownMs),
          );
          expect(circuit.until - now).toBeLessThanOrEqual(Math.ceil(breaker.maxCooldownMs * 1.1));
        }
      }),
    );
  });

  it("never opens for a success or a 429, nor before the least number of attempts", () => {
    fc.assert(
      fc.property(outcomes, (list) => {
        let counted = 0;
        for (const { before, circuit, health, breaker } of played(list)) {
          if (before.kind === "closed" && health !== "throttled") counted += 1;
          const opened = circuit.kind === "open" && before.kind !== "open";
          if (opened) expect(health).not.toBe("throttled");
          if (opened && before.kind === "half_open") expect(health).toBe("unhealthy");
          if (opened && before.kind === "closed") expect(counted).toBeGreaterThanOrEqual(breaker.minAttempts);
          if (circuit.kind !== "closed") counted = 0;
        }
      }),
    );
  });

  it("opens exactly when the failures of its window reach the ratio, give or take one slice", () => {
    const gap = fc.nat(20_000);
    const steps = fc.array(fc.tuple(gap, fc.constantFrom<ExchangeHealth>("healthy", "unhealthy")), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(steps, (list) => {
        let now = start;
        let circuit: Circuit = closedCircuit(now);
        const past: { at: number; failed: number }[] = [];
        for (const [afterMs, health] of list) {
          now += afterMs;
          past.push({ at: now, failed: health === "unhealthy" ? 1 : 0 });
          circuit = afterOne(circuit, health, now);
          // An outcome younger than nine tenths of the window is certainly counted; one older than eleven tenths never
          // is.
          const young = past.filter(({ at }) => at > now - 0.9 * breaker.windowMs);
          const maybe = past.filter(({ at }) => at > now - 1.1 * breaker.windowMs);
          const mustBe =
            young.length === maybe.length &&
            young.length >= breaker.minAttempts &&
            sumOf(young, ({ failed }) => failed) >= young.length * breaker.failureRatio;
          if (mustBe) expect(circuit.kind).toBe("open");
          if (maybe.length < breaker.minAttempts) expect(circuit.kind).toBe("closed");
          if (circuit.kind === "open") return;
        }
      }),
      { numRuns: 500 },
    );
  });

  it("always leads from open to half-open, and from there to the next state with the next outcome", () => {
    fc.assert(
      fc.property(outcomes, (list) => {
        for (const { before, circuit, now } of played(list)) {
          if (before.kind === "half_open") expect(circuit.kind).not.toBe("half_open");
          if (circuit.kind === "open") expect(circuitAt(circuit, circuit.until).kind).toBe("half_open");
          expect(circuit.since).toBeLessThanOrEqual(Math.max(now, before.since));
        }
      }),
    );
  });
});
