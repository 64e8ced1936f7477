import { describe, expect, it } from "vitest";
import { crossings, snapshotAgo, thresholds, type WatchedDestination } from "../../src/core/alerts.ts";
import { type Counters, emptyCounters } from "../../src/core/metrics.ts";

const none = emptyCounters(0);

/** An hour in which so many were attempted for the first time, and so on. */
const hourOf = (more: Partial<Counters>): Counters => ({ ...none, ...more });
const attempts = (first: number, second = 0) => none.attempts.map((_, i) => [first, second][i] ?? 0);
const crossed = (hour: Partial<Counters>, day: Partial<Counters> = { dead: 24_000 }, retryingForADay = 0) =>
  crossings({ hour: hourOf(hour), day: hourOf(day), retryingForADay, destinations: [] });

const destination = (id: string, more: Partial<WatchedDestination> = {}): WatchedDestination => ({
  id,
  hour: none,
  backlog: 0,
  isPaused: false,
  ...more,
});

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
  ])("%s is crossed beyond its bound, not at it", (threshold, at, beyond) => {
    expect(crossed(at)).toEqual([]);
    expect(crossed(beyond)).toMatchObject([{ threshold, window: "1h" }]);
  });

  it.each<[string, Partial<Counters>]>([
    ["first attempts", { attempts: attempts(99), firstsAgain: 99 }],
    ["ends", { delivered: 0, dead: 19 }],
    ["successes", { delivered: 99, attemptsToSuccess: 990 }],
    ["second attempts", { attempts: attempts(0, 19) }],
  ])("few %s are not reported", (_, few) => {
    expect(crossed(few, { dead: 0 })).toEqual([]);
  });

  it.each<[string, Partial<Counters>, string]>([
    ["second attempts", { attempts: attempts(0, 20) }, "second_attempt_success_rate"],
    ["ends", { dead: 20 }, "dead_letter_growth"],
  ])("the least number of %s is reported", (_, enough, threshold) => {
    expect(crossed(enough, { dead: 0 })).toMatchObject([{ threshold }]);
  });

  it("dead letters grow when an hour has more than three times those of a mean hour of its day", () => {
    expect(crossed({ dead: 30 }, { dead: 240 })).toEqual([]);
    expect(crossed({ dead: 31 }, { dead: 240 })).toEqual([
      { threshold: "dead_letter_growth", value: 31, limit: 30, window: "1h", destinations: [] },
    ]);
  });

  it("more than a hundred deliveries that have been retried for a day are too many", () => {
    expect(crossed({}, {}, 100)).toEqual([]);
    expect(crossed({}, {}, 101)).toEqual([
      { threshold: "retrying_for_a_day", value: 101, limit: 100, window: "now", destinations: [] },
    ]);
  });

  it.each<[string, Partial<Counters>, Partial<Counters>, Partial<WatchedDestination>]>([
    ["retry_rate", { attempts: attempts(100), firstsAgain: 50 }, { firstsAgain: 50 }, {}],
    ["dead_letter_rate", { delivered: 100, dead: 10 }, { dead: 10 }, {}],
    [
      "mean_attempts_to_success",
      { delivered: 100, attemptsToSuccess: 300 },
      { delivered: 100, attemptsToSuccess: 300 },
      {},
    ],
    [
      "second_attempt_success_rate",
      { attempts: attempts(0, 100), secondsDelivered: 10 },
      { attempts: attempts(0, 100), secondsDelivered: 10 },
      {},
    ],
    ["dead_letter_growth", { dead: 40 }, { dead: 40 }, {}],
    ["retrying_for_a_day", {}, {}, { retryingForADay: 500 }],
  ])("%s names the destinations that have most of it, and none that have nothing of it", (threshold, hour, theirs, more) => {
    const destinations = [
      destination("idle"),
      destination("well", {
        hour: hourOf({
          attempts: attempts(50, 10),
          delivered: 60,
          attemptsToSuccess: 60,
          secondsDelivered: 10,
        }),
      }),
      destination("failing", { ...more, hour: hourOf(theirs) }),
      destination("better", {
        ...(more.retryingForADay && { retryingForADay: 1 }),
        hour: hourOf({
          attempts: attempts(2, 2),
          firstsAgain: 1,
          dead: 1,
          delivered: 1,
          attemptsToSuccess: 2,
          secondsDelivered: 1,
        }),
      }),
    ];
    const watched = {
      hour: hourOf(hour),
      day: none,
      retryingForADay: more.retryingForADay ?? 0,
      destinations,
    };
    const crossing = crossings(watched).find((one) => one.threshold === threshold);
    expect(crossing?.destinations).toEqual(["failing", "better"]);
    expect(thresholds).toContain(threshold);
  });

  it("five destinations are named at most", () => {
    const destinations = Array.from({ length: 9 }, (_, i) =>
      destination(`dst_${i}`, { hour: hourOf({ dead: i + 1 }) }),
    );
    const [crossing] = crossings({
      hour: hourOf({ delivered: 100, dead: 10 }),
      day: hourOf({ dead: 24_000 }),
      retryingForADay: 0,
      destinations,
    });
    expect(crossing?.destinations).toEqual(["dst_8", "dst_7", "dst_6", "dst_5", "dst_4"]);
  });
});

describe("a backlog", () => {
  const grown = (half: number | undefined, quarter: number | undefined, now: number, isPaused = false) =>
    crossings({
      hour: none,
      day: none,
      retryingForADay: 0,
      destinations: [destination("one", { backlog: now, isPaused })],
      ...(half !== undefined && { halfAnHourAgo: { one: half } }),
      ...(quarter !== undefined && { aQuarterAgo: { one: quarter } }),
    });

  it("grows when it has over a hundred more deliveries than half an hour ago, and had in between", () => {
    expect(grown(0, 50, 100)).toEqual([]);
    expect(grown(0, 50, 101)).toEqual([
      { threshold: "backlog_growth", value: 101, limit: 100, window: "30m", destinations: ["one"] },
    ]);
  });

  it.each<[string, number | undefined, number | undefined, number]>([
    ["has come all at once, and may be a burst", 0, 0, 5_000],
    ["goes down again", 0, 900, 800],
    ["has stayed for a quarter of an hour", 0, 900, 900],
    ["is large and stays so", 5_000, 5_000, 5_000],
    ["has gained less than a fifth of what it is", 5_000, 5_500, 6_000],
    ["was not looked at half an hour ago", undefined, 50, 500],
    ["was not looked at a quarter of an hour ago", 0, undefined, 500],
  ])("does not grow when it %s", (_, half, quarter, now) => {
    expect(grown(half, quarter, now)).toEqual([]);
  });

  it("of a paused destination may grow", () => {
    expect(grown(0, 500, 1_000, true)).toEqual([]);
  });

  it("names the destinations that have grown most", () => {
    const [crossing] = crossings({
      hour: none,
      day: none,
      retryingForADay: 0,
      destinations: [
        destination("slow", { backlog: 301 }),
        destination("still", { backlog: 10 }),
        destination("fast", { backlog: 2_000 }),
      ],
      aQuarterAgo: { slow: 200, still: 10, fast: 900 },
      halfAnHourAgo: { slow: 100, still: 10, fast: 20 },
    });
    expect(crossing).toEqual({
      threshold: "backlog_growth",
      value: 1_980,
      limit: 100,
      window: "30m",
      destinations: ["fast", "slow"],
    });
    expect(thresholds).toContain(crossing?.threshold);
  });

  it("names five destinations at most", () => {
    const ids = ["a", "b", "c", "d", "e", "f"];
    const all = (backlog: number) => Object.fromEntries(ids.map((id) => [id, backlog]));
    const [crossing] = crossings({
      hour: none,
      day: none,
      retryingForADay: 0,
      destinations: ids.map((id, i) => destination(id, { backlog: 1_000 - i })),
      aQuarterAgo: all(500),
      halfAnHourAgo: all(0),
    });
    expect(crossing?.destinations).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("is compared with the nearest earlier reading, if one is near", () => {
    const minutes = (n: number) => n * 60_000;
    const looks = [16, 29, 45].map((ago) => ({ at: minutes(100 - ago), backlogs: { one: ago } }));
    expect(snapshotAgo(looks, minutes(100), 15)).toEqual({ one: 16 });
    expect(snapshotAgo(looks, minutes(100), 30)).toEqual({ one: 29 });
    expect(snapshotAgo(looks, minutes(100), 60)).toBeUndefined();
    expect(snapshotAgo([], minutes(100), 15)).toBeUndefined();
    const [only] = looks;
    expect(snapshotAgo(only ? [only] : [], minutes(100), 23)).toEqual({ one: 16 });
    expect(snapshotAgo(only ? [only] : [], minutes(100), 24)).toBeUndefined();
  });
});
