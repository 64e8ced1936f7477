import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type AttemptSignal,
  blockedBy,
  carriedOver,
  circuitChange,
  type DestinationState,
  destinationStateAfter,
  destinationStateAt,
  newDestinationState,
  withLearned,
} from "../../src/core/destination-state.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { effectiveRate } from "../../src/core/rate-limit.ts";
import { fraction, settingsArbitrary, start, steady } from "../support/gate-arbitraries.ts";

const fine = (at = start): AttemptSignal => ({ at, health: "healthy", backsOff: false });
const failed = (at = start): AttemptSignal => ({ at, health: "unhealthy", backsOff: true });
const busy = (at = start): AttemptSignal => ({ at, health: "throttled", backsOff: true });

function hearing(
  destinationState: DestinationState,
  signals: readonly AttemptSignal[],
  settings: GateSettings = steady,
): DestinationState {
  return signals.reduce((c, signal) => destinationStateAfter(c, signal, settings, 0), destinationState);
}

const wide: DestinationState = { ...newDestinationState(start), window: { size: 8, threshold: 100 } };
const open: DestinationState = {
  ...wide,
  circuit: { kind: "open", since: start, until: start + 30_000, trips: 1 },
};
const held: DestinationState = { ...wide, heldUntil: start + 10_000 };
const both: DestinationState = { ...open, heldUntil: start + 60_000 };

describe("shutBy", () => {
  it.each([
    ["nothing when all is well", wide, start, undefined],
    ["the hold, until its end", held, start, { reason: "hold", until: start + 10_000 }],
    ["nothing at the hold's end", held, start + 10_000, undefined],
    [
      "the circuit, until its cool-down is over",
      open,
      start,
      { reason: "circuit_open", until: start + 30_000 },
    ],
    ["nothing when the cool-down is over: a probe may come", open, start + 30_000, undefined],
    ["of two reasons the one that lasts longer", both, start, { reason: "hold", until: start + 60_000 }],
    [
      "the circuit where the hold ends first",
      { ...both, heldUntil: start + 1000 },
      start,
      { reason: "circuit_open", until: start + 30_000 },
    ],
    [
      "the hold where both end at once",
      { ...both, heldUntil: start + 30_000 },
      start,
      { reason: "hold", until: start + 30_000 },
    ],
    ["the hold after the cool-down", both, start + 30_000, { reason: "hold", until: start + 60_000 }],
  ])("names %s", (_, destinationState, now, block) => {
    expect(blockedBy(destinationState, steady, now)).toEqual(block);
  });

  it("names a pause before everything else, with no end", () => {
    expect(blockedBy(both, { paused: true }, start)).toEqual({ reason: "paused", until: null });
  });
});

describe("conditionAt", () => {
  it("makes an open circuit half-open when its cool-down is over, and leaves the rest alone", () => {
    expect(destinationStateAt(open, start + 29_999)).toBe(open);
    expect(destinationStateAt(open, start + 30_000)).toEqual({
      ...open,
      circuit: { kind: "half_open", since: start + 30_000, trips: 1 },
    });
  });
});

describe("conditionAfter", () => {
  it("widens the window with a success", () => {
    expect(hearing(wide, [fine()]).window.size).toBe(9);
  });

  it("never widens it past max_concurrency", () => {
    expect(
      hearing(
        wide,
        Array.from({ length: 50 }, () => fine()),
      ).window.size,
    ).toBe(10);
  });

  it.each([
    ["a failure", failed],
    ["a 429", busy],
  ])("halves the window after %s", (_, signal) => {
    expect(hearing(wide, [signal()]).window.size).toBe(4);
  });

  it("uses the receiver's statement of its remaining requests", () => {
    expect(hearing(wide, [{ ...fine(), remaining: 6 }]).window.size).toBe(3);
  });

  it("begins with one when the circuit opens", () => {
    const shaken = hearing(
      wide,
      Array.from({ length: 5 }, () => failed()),
    );
    expect(shaken.circuit.kind).toBe("open");
    expect(shaken.window.size).toBe(1);
  });

  it("begins with one when a probe closes the circuit: its success does not count twice", () => {
    const healed = hearing(destinationStateAt(open, start + 30_000), [fine(start + 30_000)]);
    expect(healed.circuit.kind).toBe("closed");
    expect(healed.window.size).toBe(1);
  });

  it("begins with one when the receiver asks for quiet", () => {
    const quiet = hearing(wide, [{ ...busy(), holdUntil: start + 10_000 }]);
    expect(quiet).toMatchObject({ heldUntil: start + 10_000, window: { size: 1 } });
  });

  it("holds until the latest time that was asked for", () => {
    const asked = [20_000, 5_000].map((ms) => ({ ...busy(), holdUntil: start + ms }));
    expect(hearing(wide, asked).heldUntil).toBe(start + 20_000);
  });

  it("does not widen for successes during a hold, whose attempts began before it", () => {
    const quiet = [{ ...busy(), holdUntil: start + 10_000 }, fine(start + 1), fine(start + 9_999)];
    expect(hearing(wide, quiet).window.size).toBe(1);
    expect(hearing(wide, [...quiet, fine(start + 10_000)]).window.size).toBe(2);
  });

  it("does not widen for successes during a pause", () => {
    expect(hearing(wide, [fine(), fine()], { ...steady, paused: true }).window.size).toBe(8);
  });

  it("does not widen while the circuit is open", () => {
    expect(hearing(open, [fine(), fine()]).window.size).toBe(8);
    expect(hearing(open, [fine(start + 30_000)]).window.size).toBe(8);
  });

  it("leaves the window alone after a failure that does not ask to back off", () => {
    expect(hearing(wide, [{ ...failed(), backsOff: false }]).window).toEqual(wide.window);
  });

  it("does not count failures while blocked: the size that worked stays the threshold", () => {
    const held = destinationStateAfter(wide, { ...busy(), holdUntil: start + 10_000 }, steady, 0);
    expect(hearing(held, [busy(start + 1), failed(start + 2)]).window).toEqual({ size: 1, threshold: 8 });
    expect(hearing(held, [busy(start + 10_000)]).window).toMatchObject({ size: 1, threshold: 8 });
  });

  it("does not open for 429s, however many", () => {
    expect(
      hearing(
        wide,
        Array.from({ length: 100 }, () => busy()),
      ).circuit.kind,
    ).toBe("closed");
  });

  it("learns only from a 429 that the rate of sending was too high", () => {
    const ten = { ...wide, window: { size: 10, threshold: 100 }, tookMs: 200 };
    const rateAfter = (signal: AttemptSignal) =>
      effectiveRate(hearing(ten, [signal]).adaptiveLimit, steady, start).perSecond;
    // Ten at once that take 200 ms each are 50 a second.
    expect(rateAfter(busy())).toBeCloseTo(35);
    expect(rateAfter(failed())).toBe(steady.ratePerSecond);
    expect(rateAfter(fine())).toBe(steady.ratePerSecond);
  });

  it.each([
    ["the window", { size: 8, threshold: 4 }, 8],
    ["max_concurrency, where that is less", { size: 20, threshold: 40 }, 10],
    ["the size that worked, where a hold has reset the window", { size: 1, threshold: 4 }, 4],
    ["max_concurrency, where no size is known", { size: 1, threshold: 1_000_000 }, 10],
  ])("takes %s for how many were under way when a 429 came", (_, window, width) => {
    const fast = { ...steady, ratePerSecond: 1_000 };
    const { adaptiveLimit } = hearing({ ...wide, window, tookMs: 100 }, [busy()], fast);
    expect(adaptiveLimit.perSecond).toBeCloseTo(width * 10 * 0.7);
  });

  it("opens for a hanging receiver: one failure per timeout suffices", () => {
    const settings = { ...steady, timeoutMs: 30_000, breaker: { ...steady.breaker, windowMs: 1_000 } };
    const hangs = Array.from({ length: 5 }, (_, i) => failed(start + i * 30_000));
    expect(hearing(newDestinationState(start), hangs, settings).circuit.kind).toBe("open");
  });

  it("follows the duration of attempts, and keeps the last figure when none is reported", () => {
    const slower = hearing(wide, [{ ...fine(), tookMs: 1000 }]);
    expect(slower.tookMs).toBeGreaterThan(0);
    expect(
      hearing(
        wide,
        Array.from({ length: 50 }, () => ({ ...fine(), tookMs: 1000 })),
      ).tookMs,
    ).toBeCloseTo(1000);
    expect(hearing(slower, [fine()]).tookMs).toBe(slower.tookMs);
  });
});

describe("what the gate has learned", () => {
  it("blocks a holder for what other leases have found, and never unblocks it", () => {
    expect(withLearned(wide, both)).toEqual({ ...wide, circuit: open.circuit, heldUntil: both.heldUntil });
    expect(withLearned(both, wide)).toEqual(both);
    expect(withLearned(held, { ...wide, heldUntil: start + 1 }).heldUntil).toBe(held.heldUntil);
  });

  it("leaves a holder its own window", () => {
    expect(withLearned(wide, { ...open, window: { size: 1, threshold: 2 } }).window).toEqual(wide.window);
  });
});

describe("the window that a holder takes to its next lease", () => {
  const sized = (size: number, threshold = 100) => ({ ...wide, window: { size, threshold } });

  it.each([
    ["is the gate's where that has grown further", 8, 8, 12, 12],
    ["is the gate's where both have grown, and the gate's further", 9, 8, 12, 12],
    ["is its own where that has grown further", 12, 8, 9, 12],
    ["is its own where that has shrunk", 4, 8, 12, 4],
    ["is its own where the gate's has shrunk", 8, 8, 4, 8],
  ])("%s", (_, own, since, gates, size) => {
    expect(carriedOver(sized(own), sized(since), sized(gates)).window.size).toBe(size);
  });

  it("is its own if the gate's is equally large", () => {
    expect(carriedOver(sized(8, 50), sized(8), sized(8, 70)).window).toEqual({ size: 8, threshold: 50 });
  });

  it("comes with the gate's other knowledge", () => {
    expect(carriedOver(wide, wide, both)).toMatchObject({ circuit: open.circuit, heldUntil: both.heldUntil });
  });
});

describe("the events between two states", () => {
  const free = { ...wide, heldUntil: 0 };
  const halfOpen = destinationStateAt(open, start + 30_000);

  it.each<[string, boolean, DestinationState, DestinationState, number, boolean, readonly string[]]>([
    ["an opening", false, wide, open, 0, false, ["circuit_opened"]],
    ["a cool-down that is over", false, open, halfOpen, 30_000, false, ["circuit_half_open"]],
    ["a probe's success", false, open, wide, 30_000, false, ["circuit_half_open", "circuit_closed"]],
    ["nothing", false, wide, wide, 0, false, []],
    ["a hold", false, free, held, 0, true, ["held"]],
    ["the same hold", true, held, held, 9_999, true, []],
    ["a hold that is prolonged", true, held, both, 0, true, ["circuit_opened"]],
    ["a hold that ends now", true, held, held, 10_000, false, ["hold_ended"]],
    [
      "a hold after one that ended unnoticed",
      true,
      held,
      { ...held, heldUntil: start + 30_000 },
      10_000,
      true,
      ["hold_ended", "held"],
    ],
  ])("include %s", (_, holding, before, after, ms, isHeld, events) => {
    const change = circuitChange({ destinationState: before, holding }, after, start + ms);
    expect(change).toEqual({ holding: isHeld, events });
  });
});

describe("a worker's copy of the state", () => {
  const signal: fc.Arbitrary<AttemptSignal> = fc
    .record({
      at: fc.nat(100_000).map((ms) => start + ms),
      health: fc.constantFrom(
        "healthy" as const,
        "healthy" as const,
        "unhealthy" as const,
        "throttled" as const,
      ),
      holdMs: fc.option(fc.nat(60_000), { nil: undefined }),
      tookMs: fc.nat(30_000),
    })
    .map(({ at, health, holdMs, tookMs }) => {
      const hold = health !== "healthy" && holdMs !== undefined ? { holdUntil: at + holdMs } : {};
      return { at, health, backsOff: health !== "healthy", tookMs, ...hold };
    });

  it("never allows more concurrency than was granted, except after successes", () => {
    fc.assert(
      fc.property(
        fc.array(signal, { maxLength: 50 }),
        settingsArbitrary,
        fraction,
        (signals, settings, random) => {
          let destinationState = newDestinationState(start);
          for (const one of signals.toSorted((a, b) => a.at - b.at)) {
            const next = destinationStateAfter(destinationState, one, settings, random);
            const grew = next.window.size > destinationState.window.size;
            if (grew) expect([one.health, destinationState.circuit.kind]).toEqual(["healthy", "closed"]);
            if (grew) expect(blockedBy(destinationState, settings, one.at)).toBeUndefined();
            expect(next.heldUntil).toBeGreaterThanOrEqual(destinationState.heldUntil);
            expect(next.window.size).toBeGreaterThanOrEqual(1);
            expect(JSON.parse(JSON.stringify(next))).toEqual(next);
            destinationState = next;
          }
        },
      ),
    );
  });
});
