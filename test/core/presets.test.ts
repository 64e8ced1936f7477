/**
 * Each preset against the published figures of its model (docs/retry-policies.md), written out here and not computed:
 * status by status, wait by wait, limit by limit.
 */
import { describe, expect, it } from "vitest";
import { type Classification, classify, type Exchange } from "../../src/core/retry/classify.ts";
import { policyTable, policyTableHead, spanText } from "../../src/core/retry/policy-table.ts";
import { type PresetName, presetNames, presets } from "../../src/core/retry/presets.ts";
import { transition } from "../../src/core/retry/transition.ts";
import { failureKinds } from "../support/failure-kinds.ts";

type Row = {
  /** The 4xx that end a delivery; or, after "all but", the ones that do not. */
  readonly permanent: readonly number[] | { readonly allBut: readonly number[] };
  /** Least and most seconds before attempts 2, 3, … */
  readonly waits: readonly (readonly [number, number])[];
  readonly attempts: number | "unlimited";
  readonly hours: number;
  readonly header: "floor" | "instead";
};

const times = (count: number, bounds: readonly [number, number]) =>
  Array.from({ length: count }, () => bounds);

const published: Record<PresetName, Row> = {
  breakwater: {
    permanent: { allBut: [402, 404, 408, 409, 423, 425, 429] },
    waits: [
      [15, 30],
      [30, 60],
      [60, 120],
      [120, 240],
      [240, 480],
      [480, 960],
      [960, 1920],
      ...times(13, [1800, 3600]),
    ],
    attempts: "unlimited",
    hours: 74,
    header: "floor",
  },
  textbook: {
    permanent: [400, 401, 403, 410, 422],
    waits: [[30, 60], [60, 120], [120, 240], [240, 480], [480, 960], [960, 1920], ...times(9, [1800, 3600])],
    attempts: 16,
    hours: 72,
    header: "floor",
  },
  gethook: {
    permanent: { allBut: [408, 429] },
    waits: [
      [24, 36],
      [96, 144],
      [480, 720],
      [2880, 4320],
    ],
    attempts: 5,
    hours: 72,
    header: "instead",
  },
  progressive: {
    permanent: [400, 401, 403, 404, 405, 410],
    waits: [
      [15, 45],
      [60, 180],
      [240, 720],
      [960, 2880],
      [3600, 10_800],
      [14_400, 28_800],
      [14_400, 28_800],
    ],
    attempts: 8,
    hours: 48,
    header: "instead",
  },
  exponential: {
    permanent: [400, 401, 403, 404, 405, 410],
    waits: [
      [1, 30],
      [1, 60],
      [1, 120],
      [1, 240],
      [1, 480],
      [1, 960],
      [1, 1920],
      [1, 3840],
      [1, 7680],
      [1, 15_360],
      ...times(4, [1, 28_800]),
    ],
    attempts: "unlimited",
    hours: 48,
    header: "instead",
  },
  "storm-safe": {
    permanent: { allBut: [429] },
    waits: [
      [1, 30],
      [1, 60],
      [1, 120],
      [1, 240],
    ],
    attempts: 5,
    hours: 72,
    header: "instead",
  },
  capped: {
    permanent: { allBut: [408, 425, 429] },
    waits: [[1, 60], [1, 120], [1, 240], [1, 480], ...times(16, [1, 900])],
    attempts: "unlimited",
    hours: 24,
    header: "floor",
  },
  "standard-webhooks": {
    permanent: [410],
    waits: [
      [4, 6],
      [240, 360],
      [1440, 2160],
      [5760, 8640],
      [14_400, 21_600],
      [28_800, 43_200],
      [40_320, 60_480],
      [57_600, 86_400],
      [69_120, 103_680],
    ],
    attempts: 10,
    hours: 120,
    header: "floor",
  },
  svix: {
    permanent: [410],
    waits: [
      [4, 6],
      [240, 360],
      [1440, 2160],
      [5760, 8640],
      [14_400, 21_600],
      [28_800, 43_200],
      [28_800, 43_200],
    ],
    attempts: 8,
    hours: 72,
    header: "floor",
  },
};

const almostOne = 1 - 2 ** -53;
const never = Number.MAX_SAFE_INTEGER;
const failure: Exchange = { kind: "response", status: 500 };

function expectedVerdict(status: number, permanent: Row["permanent"]): Classification {
  if (status >= 200 && status <= 299) return "success";
  if (status >= 300 && status <= 399) return "permanent";
  if (status < 400 || status > 499) return "retry";
  const ends = "allBut" in permanent ? !permanent.allBut.includes(status) : permanent.includes(status);
  return ends ? "permanent" : "retry";
}

it("this file has the published figures of every preset", () => {
  expect(Object.keys(published)).toEqual(presetNames);
  expect(Object.keys(presets)).toEqual(presetNames);
});

describe.each(presetNames)("%s", (name) => {
  const policyOf = () => presets[name];
  const row = published[name];

  it("judges every status from 100 to 599 as published", () => {
    const statuses = Array.from({ length: 500 }, (_, i) => 100 + i);
    const judged = statuses.map((status) => [
      status,
      classify({ kind: "response", status }, policyOf().rules),
    ]);
    expect(judged).toEqual(statuses.map((status) => [status, expectedVerdict(status, row.permanent)]));
  });

  it("retries after every failure to get an answer", () => {
    for (const kind of failureKinds)
      expect([kind, classify({ kind }, policyOf().rules)]).toEqual([kind, "retry"]);
  });

  it("waits before each attempt as published", () => {
    for (const [i, [least, most]] of row.waits.entries()) {
      const history = { attempts: i + 1, giveUpAt: never };
      const at = (random: number) => transition(failure, history, policyOf(), 0, random);
      const waited = [0, almostOne].map((random) => at(random));
      expect(waited, `attempt ${i + 2}`).toMatchObject([
        { kind: "retry", at: least * 1000 },
        { kind: "retry", at: most * 1000 },
      ]);
    }
  });

  it("waits twice as long after a 429 without a time", () => {
    const history = { attempts: 1, giveUpAt: never };
    const [, most = 0] = row.waits[0] ?? [];
    const result = transition({ kind: "response", status: 429 }, history, policyOf(), 0, almostOne);
    expect(result).toMatchObject({ kind: "retry", at: most * 2000 });
  });

  it("gives up after its last attempt and not before", () => {
    if (row.attempts === "unlimited") {
      const result = transition(failure, { attempts: 100_000, giveUpAt: never }, policyOf(), 0, 0.5);
      expect(result.kind).toBe("retry");
      return;
    }
    const outcomeAfter = (attempts: number) =>
      transition(failure, { attempts, giveUpAt: never }, policyOf(), 0, 0.5);
    expect(outcomeAfter(row.attempts - 1)).toMatchObject({ kind: "retry" });
    expect(outcomeAfter(row.attempts)).toEqual({ kind: "dead", reason: "exhausted" });
    expect(row.waits).toHaveLength(row.attempts - 1);
  });

  it("gives up at its published age, which its own longest waits stay within", () => {
    expect(policyOf().giveUpAfterMs).toBe(row.hours * 3_600_000);
    if (row.attempts === "unlimited") return;
    const longest = row.waits.reduce((sum, [, most]) => sum + most, 0);
    expect(longest).toBeLessThan(row.hours * 3600);
  });

  it("keeps a delivery that is never attempted for 14 days", () => {
    expect(policyOf().expireUnattemptedAfterMs).toBe(14 * 86_400_000);
  });

  it("lets Retry-After replace or lengthen the backoff as published", () => {
    expect(policyOf().retryAfter).toBe(row.header);
  });
});

describe("limited causes", () => {
  it("retries 404 under textbook until five attempts have been made", () => {
    const outcomeAfter = (attempts: number) =>
      transition({ kind: "response", status: 404 }, { attempts, giveUpAt: never }, presets.textbook, 0, 0.5);
    expect(outcomeAfter(4)).toMatchObject({ kind: "retry", reason: "http_404" });
    expect(outcomeAfter(5)).toEqual({ kind: "dead", reason: "exhausted" });
  });

  it("retries a DNS failure under gethook until three attempts have been made", () => {
    const outcomeAfter = (attempts: number) =>
      transition({ kind: "dns" }, { attempts, giveUpAt: never }, presets.gethook, 0, 0.5);
    expect(outcomeAfter(2)).toMatchObject({ kind: "retry", reason: "dns" });
    expect(outcomeAfter(3)).toEqual({ kind: "dead", reason: "exhausted" });
  });

  it.each([
    402, 404, 408, 409, 423, 425,
  ])("retries %i under breakwater until it has occurred 16 times", (status) => {
    const outcomeAfter = (sameCause: number) => {
      const history = { attempts: 60, sameCause, giveUpAt: never };
      return transition({ kind: "response", status }, history, presets.breakwater, 0, 0.5);
    };
    expect(outcomeAfter(15)).toMatchObject({ kind: "retry", reason: `http_${status}` });
    expect(outcomeAfter(16)).toEqual({ kind: "dead", reason: "exhausted" });
  });

  it("makes the last attempts under breakwater after an outage of 72 hours, whatever the jitter", () => {
    const { giveUpAfterMs } = presets.breakwater;
    for (const random of [0, 0.5, almostOne]) {
      let at = 0;
      for (let attempts = 1; ; attempts++) {
        const next = transition(
          failure,
          { attempts, giveUpAt: giveUpAfterMs },
          presets.breakwater,
          at,
          random,
        );
        if (next.kind !== "retry") break;
        at = next.at;
      }
      expect(at).toBeGreaterThan(72 * 3_600_000);
    }
  });
});

describe("the table of presets", () => {
  it("says of each preset what it does", () => {
    const longer = "the longer of it and the wait";
    const instead = `429: instead of the wait; 503: ${longer}`;
    const rows = new Map(policyTable().map(([name = "", ...cells]) => [name, cells]));
    expect([...rows.keys()]).toEqual(presetNames);
    expect(rows.get("breakwater")).toEqual([
      "30 s, each × 2, at most 1 h",
      "from d/2 to d",
      "after 74 h",
      "every one but 402, 404, 408, 409, 423, 425, 429",
      "402, 404, 408, 409, 423, 425: 16 attempts",
      longer,
    ]);
    expect(rows.get("textbook")?.slice(2, 5)).toEqual([
      "after 16 attempts or 72 h",
      "400, 401, 403, 410, 422",
      "404: 5 attempts",
    ]);
    expect(rows.get("gethook")).toEqual([
      "30 s, 2 min, 10 min, 1 h; the last repeats",
      "± 20 %",
      "after 5 attempts or 72 h",
      "every one but 408, 429",
      "no such name: 3 attempts",
      instead,
    ]);
    expect(rows.get("progressive")?.slice(1, 5)).toEqual([
      "± 50 %, at most 8 h",
      "after 8 attempts or 48 h",
      "400, 401, 403, 404, 405, 410",
      "–",
    ]);
    expect(rows.get("storm-safe")?.[1]).toBe("from 0 to d");
  });

  it("has as many columns as headings", () => {
    for (const row of policyTable()) expect(row).toHaveLength(policyTableHead.length);
  });

  it("writes spans in the largest unit that divides them", () => {
    const spans = [1, 59, 60, 90, 3_600, 5_400, 86_400, 129_600].map(spanText);
    expect(spans).toEqual(["1 s", "59 s", "1 min", "90 s", "1 h", "90 min", "1 d", "36 h"]);
  });
});

it("progressive reaches its source's 24 hours only with twelve attempts, as docs/retry-policies.md says", () => {
  const hoursOf = (retries: number, which: 0 | 1) => {
    const { waits } = published.progressive;
    const seconds = Array.from({ length: retries }, (_, i) => (waits[i] ?? waits.at(-1))?.[which] ?? 0);
    return seconds.reduce((sum, each) => sum + each, 0) / 3600;
  };
  expect([hoursOf(7, 0).toFixed(1), hoursOf(7, 1).toFixed(1)]).toEqual(["9.4", "20.1"]);
  expect([hoursOf(10, 0) >= 24, hoursOf(11, 0) >= 24]).toEqual([false, true]);
});
