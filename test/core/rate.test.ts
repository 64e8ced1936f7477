import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admit } from "../../src/core/admit.ts";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import { nextSendAt, type Rate, reserve, reserveNow } from "../../src/core/rate-limit.ts";
import { settle } from "../../src/core/settle.ts";
import { start as now, steady } from "../support/gate-arbitraries.ts";

const tenPerSecond: Rate = { perSecond: 10, burst: 5 };

describe("reserve", () => {
  it("lets a burst start at once after a quiet time, and paces what follows", () => {
    const { sends, firstAt, everyMs } = reserve(0, 20, tenPerSecond, now + 1000, now);
    const startsInMs = Array.from({ length: sends }, (_, i) => Math.max(0, firstAt + i * everyMs - now));
    expect(startsInMs).toEqual([0, 0, 0, 0, 0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
  });

  it("reserves no more than wanted, and only moves on by what it reserved", () => {
    expect(reserve(0, 3, tenPerSecond, now + 1000, now)).toMatchObject({ sends: 3, tat: now + 300 });
  });

  it("reserves nothing, and forgets nothing, when not even one send can start in time", () => {
    const { tat } = reserve(0, 100, tenPerSecond, now, now);
    expect(reserve(tat, 100, tenPerSecond, now + 99, now)).toMatchObject({ sends: 0, tat });
    expect(reserve(tat, 100, tenPerSecond, now + 100, now)).toMatchObject({ sends: 1, tat: tat + 100 });
  });

  it("leaves everything as it was when nothing is wanted", () => {
    expect(reserve(0, 0, tenPerSecond, now, now)).toMatchObject({ sends: 0, tat: 0 });
  });

  it("counts a start that is late by no more than the burst as punctual", () => {
    expect(reserve(0, 1, tenPerSecond, now, now).slackMs).toBe(400);
    expect(reserve(0, 1, { perSecond: 10, burst: 1 }, now, now).slackMs).toBe(0);
  });

  it("continues where the last reservation ended", () => {
    const first = reserve(0, 7, tenPerSecond, now + 1000, now);
    const second = reserve(first.tat, 1, tenPerSecond, now + 1000, now);
    expect(second.firstAt).toBe(first.firstAt + 7 * first.everyMs);
  });

  it("saves up no more than one burst, however long it was quiet", () => {
    const { tat } = reserve(0, 100, tenPerSecond, now, now);
    expect(reserve(tat, 1000, tenPerSecond, now + 3_600_000, now + 3_600_000).sends).toBe(5);
  });

  it("keeps a rate below one a second", () => {
    const slow: Rate = { perSecond: 0.01, burst: 1 };
    const { sends, tat } = reserve(0, 10, slow, now + 3000, now);
    expect([sends, tat]).toEqual([1, now + 100_000]);
    expect(nextSendAt(tat, slow, now)).toBe(now + 100_000);
  });
});

describe("reserveNow", () => {
  const send = { sends: 1, everyMs: 100, slackMs: 400 };
  it.each([
    ["takes one of the burst after a quiet time", 0, -400, 100],
    ["takes one of what is left of the burst", 200, -200, 300],
    ["may start at once when the burst is spent", 400, 0, 500],
    ["may start at once, and puts nothing off further, when much more was sent", 10_000, 0, 10_000],
  ])("%s", (_, tat, firstInMs, tatAfter) => {
    const reserved = reserveNow(tat && now + tat, tenPerSecond, now);
    expect(reserved).toEqual({ ...send, firstAt: now + firstInMs, tat: now + tatAfter });
  });
});

describe("nextSendAt", () => {
  it("is the first whole millisecond at which a send can be reserved", () => {
    const third: Rate = { perSecond: 3, burst: 1 };
    const { tat } = reserve(0, 1, third, now, now);
    const at = nextSendAt(tat, third, now);
    expect(at).toBe(now + 334);
    expect(reserve(tat, 1, third, at - 1, at - 1).sends).toBe(0);
    expect(reserve(tat, 1, third, at, at).sends).toBe(1);
  });

  it("is not in the future while the burst lasts", () => {
    expect(nextSendAt(0, tenPerSecond, now)).toBeLessThanOrEqual(now);
  });
});

describe("the sends of all leases together", () => {
  type Held = { id: string; firstDue: number; starts: number[]; settled: boolean };
  const turn = fc.record({
    waitMs: fc.oneof(fc.nat(50), fc.nat(3_000), fc.integer({ min: -2_000, max: 0 })),
    wanted: fc.nat(40),
    startWithinMs: fc.nat(3_000),
    backlog: fc.boolean(),
    settles: fc.option(fc.nat(5), { nil: undefined }),
    unsent: fc.nat(40),
    evicted: fc.boolean(),
  });
  const turns = fc.array(turn, { maxLength: 60, size: "max" });
  const wide: GateState = {
    ...newGateState(now),
    destinationState: { ...newGateState(now).destinationState, window: { size: 1000, threshold: 1000 } },
  };

  /** When each attempt may have started, through leases that are settled in any order, or never. */
  function startsOf(
    { perSecond, burst }: Rate,
    list: readonly (typeof turn extends fc.Arbitrary<infer T> ? T : never)[],
  ) {
    const settings = { ...steady, maxConcurrency: 1000, ratePerSecond: perSecond, rateBurst: burst };
    const leases: Held[] = [];
    let state = wide;
    let at = now;
    let row = 0;
    for (const { waitMs, wanted, startWithinMs, backlog, settles, unsent, evicted } of list) {
      at += waitMs;
      if (evicted) state = JSON.parse(JSON.stringify(state));
      const lease = settles === undefined ? undefined : leases.filter((l) => !l.settled).at(-1 - settles);
      if (lease) {
        const made = Math.min(
          lease.starts.filter((s) => s <= at).length,
          Math.max(0, lease.starts.length - unsent),
        );
        const tat = lease.starts
          .slice(0, made)
          .reduce((due, start) => Math.max(due, start) + 1000 / perSecond, lease.firstDue);
        const started = made > 0 ? { tatInMs: tat - at } : {};
        const settlement = { lease: lease.id, signals: [], left: 0, ...started };
        state = settle(state, settlement, settings, at, 0).state;
        lease.settled = true;
        lease.starts.length = made;
      }
      const deliveries = Array.from({ length: wanted }, () => ++row);
      const ask = { lane: backlog ? "backlog" : "fresh", deliveries, connections: 6, startWithinMs } as const;
      const decision = admit(state, ask, settings, at);
      state = decision.state;
      const grant = decision.result.grant;
      if (!grant) continue;
      const { firstInMs, everyMs } = grant.pace;
      const starts = grant.deliveries.map((_, i) => at + Math.max(0, firstInMs + i * everyMs));
      expect(Math.max(...starts)).toBeLessThanOrEqual(at + startWithinMs);
      leases.push({ id: grant.id, firstDue: at + firstInMs + grant.pace.slackMs, starts, settled: false });
    }
    return leases.flatMap(({ starts }) => starts).toSorted((a, b) => a - b);
  }

  /**
   * By how much any interval has too few milliseconds for its sends: from the i-th to the j-th there must be
   * `(j - i + 1 - burst) × everyMs`, or: the j-th start less j periods may not fall behind the i-th less i
   * periods by more than the burst.
   */
  function missingMs({ perSecond, burst }: Rate, starts: readonly number[]): number {
    const everyMs = 1000 / perSecond;
    let furthest = Number.NEGATIVE_INFINITY;
    return starts.reduce((worst, start, i) => {
      const place = start - i * everyMs;
      furthest = Math.max(furthest, place);
      return Math.max(worst, furthest - place - (burst - 1) * everyMs);
    }, 0);
  }

  it("are never more than burst + rate × interval, exactly", () => {
    const wholeMs = fc.constantFrom(1, 2, 10, 125, 500, 2000);
    fc.assert(
      fc.property(wholeMs, fc.integer({ min: 1, max: 20 }), turns, (everyMs, burst, list) => {
        const rate = { perSecond: 1000 / everyMs, burst };
        expect(missingMs(rate, startsOf(rate, list))).toBe(0);
      }),
      { numRuns: 300 },
    );
  });

  it("are never more than that at a rate that floating point cannot hold, within a hundredth of a ms", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9999 }),
        fc.integer({ min: 1, max: 20 }),
        turns,
        (n, burst, list) => {
          const rate = { perSecond: n / 7, burst };
          expect(missingMs(rate, startsOf(rate, list))).toBeLessThan(0.01);
        },
      ),
    );
  });
});
