import { describe, expect, it } from "vitest";
import { emptyTally, type Tally } from "../../src/policy/tally.ts";
import { crossings } from "../../src/policy/thresholds.ts";

const none = emptyTally(0);

/** An hour in which so many were attempted for the first time, and so on. */
const hourOf = (more: Partial<Tally>): Tally => ({ ...none, ...more });
const attempts = (first: number, second = 0) => none.attempts.map((_, i) => [first, second][i] ?? 0);
const crossed = (hour: Partial<Tally>, day: Partial<Tally> = { dead: 24_000 }, retryingForADay = 0) =>
  crossings({ hour: hourOf(hour), day: hourOf(day), retryingForADay });

describe("thresholds", () => {
  it.each([
    [
      "retry_rate",
      { attempts: attempts(100), firstsAgain: 10 },
      { attempts: attempts(100), firstsAgain: 11 },
    ],
    ["dead_letter_rate", { delivered: 99, dead: 1 }, { delivered: 98, dead: 2 }],
    [
      "mean_attempts_to_success",
      { delivered: 100, attemptsToSuccess: 200 },
      { delivered: 100, attemptsToSuccess: 201 },
    ],
    [
      "second_attempt_success_rate",
      { attempts: attempts(0, 100), secondsDelivered: 60 },
      { attempts: attempts(0, 100), secondsDelivered: 59 },
    ],
  ])("%s is crossed beyond its bound, and not at it", (threshold, at, beyond) => {
    expect(crossed(at)).toEqual([]);
    expect(crossed(beyond)).toMatchObject([{ threshold, window: "1h" }]);
  });

  it.each<[string, Partial<Tally>]>([
    ["first attempts", { attempts: attempts(99), firstsAgain: 99 }],
    ["ends", { delivered: 0, dead: 19 }],
    ["successes", { delivered: 99, attemptsToSuccess: 990 }],
    ["second attempts", { attempts: attempts(0, 19) }],
  ])("of few %s nothing is said", (_, few) => {
    expect(crossed(few, { dead: 0 })).toEqual([]);
  });

  it("dead letters grow when an hour has more than three times those of a mean hour of its day", () => {
    expect(crossed({ dead: 30 }, { dead: 240 })).toEqual([]);
    expect(crossed({ dead: 31 }, { dead: 240 })).toEqual([
      { threshold: "dead_letter_growth", value: 31, limit: 30, window: "1h" },
    ]);
  });

  it("more than a hundred that have been retried for a day are too many", () => {
    expect(crossed({}, {}, 100)).toEqual([]);
    expect(crossed({}, {}, 101)).toEqual([
      { threshold: "retrying_for_a_day", value: 101, limit: 100, window: "now" },
    ]);
  });
});
