import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  expectedDurationMs,
  nextPace,
  type Observed,
  type ReplayHealth,
  replayHealthOf,
  stepAt,
} from "../../../src/features/replays/pace.ts";

const MINUTE = 60_000;
const calm: Observed = { blocked: false, attempts: 100, failures: 0, waiting: 0, delivered: 50, failed: 0 };

describe("a destination appears", () => {
  test.each<[string, Partial<Observed>, ReplayHealth]>([
    ["stable when nothing is wrong", {}, "stable"],
    ["stable when nothing has been tried", { attempts: 0, delivered: 0 }, "stable"],
    ["stable with a failure in ten", { failures: 10 }, "stable"],
    ["doubtful with more failures than that", { failures: 11 }, "doubtful"],
    ["doubtful when most of the replay fails", { delivered: 9, failed: 11 }, "doubtful"],
    ["stable while too few have ended to judge", { delivered: 0, failed: 19 }, "stable"],
    ["stuck when the destination is blocked", { blocked: true }, "stuck"],
    ["stuck when a minute's worth waits already", { waiting: 100 }, "stuck"],
    ["stable when less than that waits", { waiting: 99 }, "stable"],
  ])("%s", (_, observed, health) => {
    expect(replayHealthOf({ ...calm, ...observed }, 100)).toBe(health);
  });

  test("blocked because of waiting deliveries, not because of a pace below one a minute", () => {
    expect(replayHealthOf(calm, 0.1)).toBe("stable");
    expect(replayHealthOf({ ...calm, waiting: 1 }, 0.1)).toBe("stuck");
  });
});

/** The pace after so many minutes in steps of ten seconds. */
function paceAfter(minutes: number, health: ReplayHealth, from = 100): number {
  return Array.from({ length: minutes * 6 }).reduce<number>(
    (pace) => nextPace(pace, health, 100, 10_000),
    from,
  );
}

describe("the pace", () => {
  test.each([
    [1, "stable", 115],
    [5, "stable", 200],
    [10, "stable", 400],
    [60, "stable", 1000],
    [1, "doubtful", 50],
    [2, "doubtful", 25],
    [60, "doubtful", 10],
    [1, "stuck", 50],
  ] as const)("after %i minutes of a %s destination is %i", (minutes, health, pace) => {
    expect(Math.round(paceAfter(minutes, health))).toBe(pace);
  });

  test("loses in a minute what it has gained in five", () => {
    expect(paceAfter(1, "doubtful", paceAfter(5, "stable"))).toBeCloseTo(100);
  });

  test("gains nothing by a night without a step", () => {
    expect(nextPace(100, "stable", 100, 12 * 60 * MINUTE)).toBe(nextPace(100, "stable", 100, MINUTE));
  });

  test("does not change when a clock goes back", () => {
    expect(nextPace(100, "stable", 100, -5)).toBe(100);
    expect(nextPace(100, "doubtful", 100, -5)).toBe(100);
  });
});

describe("a step", () => {
  test.each([
    [100, 16, 9_600],
    [1_000, 166, 9_960],
    [60, 10, 10_000],
    [5, 1, 12_000],
    [0.1, 1, 600_000],
    [60_000, 1_000, 1_000],
  ])("at %d a minute is %i deliveries, and the next step comes in %i ms", (pace, portion, waitMs) => {
    expect(stepAt(pace, "stable")).toEqual({ portion, waitMs });
  });

  test("requeues nothing to a blocked destination, and checks again soon", () => {
    expect(stepAt(100, "stuck")).toEqual({ portion: 0, waitMs: 10_000 });
  });
});

const health = fc.constantFrom<ReplayHealth>("stable", "doubtful", "stuck");
const asked = fc.integer({ min: 1, max: 6_000 });

test("no sequence of states and gaps leads below a tenth of the requested rate or above ten times that", () => {
  const days = fc.array(fc.tuple(health, fc.integer({ min: -1_000, max: 86_400_000 })), { maxLength: 50 });
  fc.assert(
    fc.property(asked, days, (rate, steps) => {
      let pace = rate;
      return steps.every(([look, gap]) => {
        pace = nextPace(pace, look, rate, gap);
        return pace >= rate / 10 && pace <= rate * 10;
      });
    }),
  );
});

test("only a stable destination is given more", () => {
  fc.assert(
    fc.property(asked, health, fc.integer({ min: 0, max: 86_400_000 }), (rate, look, gap) => {
      const pace = nextPace(rate, look, rate, gap);
      return look === "stable" ? pace >= rate : pace <= rate;
    }),
  );
});

test("no run of steps requeues more than its pace, and none stays empty for ever", () => {
  fc.assert(
    fc.property(fc.double({ min: 0.1, max: 60_000, noNaN: true }), (pace) => {
      const { portion, waitMs } = stepAt(pace, "stable");
      return portion >= 1 && (portion / waitMs) * MINUTE <= pace * (1 + 1e-9);
    }),
  );
});

describe("the expected duration", () => {
  test("is that of steps which double the pace in five minutes, up to ten times the rate and the destination's rate", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20_000 }),
        fc.integer({ min: 1, max: 6000 }),
        fc.integer({ min: 1, max: 100_000 }),
        (count, asked, most) => {
          const ms = expectedDurationMs(count, asked, most);
          const cap = Math.min(asked * 10, most);
          // Sent until then by a pace that is computed every thousandth of the duration.
          let sent = 0;
          for (let i = 0; i < 1000; i++)
            sent += (Math.min(cap, asked * 2 ** ((ms * (i + 0.5)) / 1000 / 300_000)) * ms) / 1000 / MINUTE;
          expect(Math.abs(sent - count)).toBeLessThan(1 + count * 0.01);
        },
      ),
    );
  });

  test("is zero without deliveries", () => expect(expectedDurationMs(0, 100, 6000)).toBe(0));
});
