import { describe, expect, it } from "vitest";
import { classify } from "../../src/core/retry/classify.ts";
import { ageLimitOf, resolveRetry, retryShape } from "../../src/core/retry/policy.ts";
import { presetNames, presets } from "../../src/core/retry/presets.ts";
import { zodOf } from "../../src/core/zod-of.ts";

const retrySpec = zodOf(retryShape);

/** The faults as `path: message`, sorted as text. */
function faultsOf(value: unknown): string[] {
  const issues = retrySpec.safeParse(value).error?.issues ?? [];
  return issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`).sort();
}

describe("retrySpec", () => {
  it.each([
    {},
    { preset: "textbook" },
    { preset: "svix", schedule: [60, 120], jitter: "full", max_attempts: 3, give_up_after: 86_400 },
    { schedule: Array.from({ length: 50 }, () => 604_800) },
    { base: 30, factor: 2, cap: 3600 },
    { base: 30, factor: 1, cap: 30 },
    { base: 1, factor: 10, cap: 604_800, jitter: { proportional: 0 } },
    { jitter: { proportional: 1 }, max_attempts: 1, give_up_after: 1 },
    { jitter: "equal" },
    { jitter: "none" },
    { jitter: "decorrelated", max_attempts: 100, give_up_after: 2_592_000 },
    { give_up_after: 1, expire_unattempted_after: 1 },
    { expire_unattempted_after: 2_592_000, on: { retry: [404, 500], fail: [503, 429, 599] } },
    { schedule: [60], give_up_after: 60 },
    { schedule: [61], give_up_after: 60, max_attempts: 1 },
    { on: { fail: [400] } },
    { on: {} },
  ])("accepts %j", (value) => {
    expect(retrySpec.parse(value)).toEqual(value);
  });

  it.each([
    [{ preset: "hourly" }, "preset: expected one of breakwater, textbook, gethook, "],
    [{ schedule: [] }, "schedule: expected 1 to 50 waits"],
    [{ schedule: Array.from({ length: 51 }, () => 1) }, "schedule: expected 1 to 50 waits"],
    [{ schedule: 60 }, "schedule: expected a list of seconds"],
    [{ schedule: [60, 0] }, "schedule.1: expected a whole number of seconds from 1 to 604800"],
    [{ schedule: [604_801] }, "schedule.0: expected a whole number of seconds from 1 to 604800"],
    [{ schedule: [1.5] }, "schedule.0: expected a whole number of seconds from 1 to 604800"],
    [{ base: 0, factor: 2, cap: 60 }, "base: expected a whole number of seconds from 1 to 604800"],
    [{ base: 1, factor: 0.5, cap: 60 }, "factor: expected a number from 1 to 10"],
    [{ base: 1, factor: 10.1, cap: 60 }, "factor: expected a number from 1 to 10"],
    [{ base: 1, factor: 2, cap: 604_801 }, "cap: expected a whole number of seconds from 1 to 604800"],
    [{ base: 60, factor: 2, cap: 59 }, "cap: expected a cap of at least base"],
    [{ base: "60", factor: 2, cap: 59 }, "base: expected a whole number of seconds from 1 to 604800"],
    [{ base: 60, factor: 2, cap: "59" }, "cap: expected a whole number of seconds from 1 to 604800"],
    [
      { jitter: "some" },
      'jitter: expected "full", "equal", "decorrelated", "none" or {"proportional": 0 to 1}',
    ],
    [{ jitter: { proportional: 1.1 } }, "jitter.proportional: expected a number from 0 to 1"],
    [{ jitter: { proportional: 0.1, of: "d" } }, "jitter: unknown of: expected an object of proportional"],
    [{ max_attempts: 0 }, "max_attempts: expected a whole number of attempts from 1 to 100"],
    [{ max_attempts: 101 }, "max_attempts: expected a whole number of attempts from 1 to 100"],
    [{ max_attempts: "5" }, "max_attempts: expected a whole number of attempts from 1 to 100"],
    [{ give_up_after: 0 }, "give_up_after: expected a whole number of seconds from 1 to 2592000"],
    [{ give_up_after: 2_592_001 }, "give_up_after: expected a whole number of seconds from 1 to 2592000"],
    [
      { expire_unattempted_after: 0 },
      "expire_unattempted_after: expected a whole number of seconds from 1 to 2592000",
    ],
    [
      { schedule: [61, 1], give_up_after: 60 },
      "give_up_after: expected no less than the first wait, or max_attempts 1: nothing would be retried",
    ],
    [
      { schedule: [2], give_up_after: 1 },
      "give_up_after: expected no less than the first wait, or max_attempts 1: nothing would be retried",
    ],
    [
      { schedule: [60], give_up_after: 0 },
      "give_up_after: expected a whole number of seconds from 1 to 2592000",
    ],
    [
      { base: 61, factor: 2, cap: 3600, give_up_after: 60, max_attempts: 2 },
      "give_up_after: expected no less than the first wait, or max_attempts 1: nothing would be retried",
    ],
    [{ on: { retry: [199] } }, "on.retry.0: expected a status from 400 to 599 but not 410"],
    [{ on: { retry: [200] } }, "on.retry.0: a 2xx is always a success"],
    [{ on: { fail: [503, 299] } }, "on.fail.1: a 2xx is always a success"],
    [{ on: { retry: [300] } }, "on.retry.0: a redirect is never followed and always ends the delivery"],
    [{ on: { retry: [302] } }, "on.retry.0: a redirect is never followed and always ends the delivery"],
    [{ on: { retry: [410] } }, "on.retry.0: 410 always ends the delivery and pauses the destination"],
    [{ on: { fail: [399.5] } }, "on.fail.0: expected a status from 400 to 599 but not 410"],
    [{ on: { fail: [600] } }, "on.fail.0: expected a status from 400 to 599 but not 410"],
    [{ on: { fail: ["503"] } }, "on.fail.0: expected a status from 400 to 599 but not 410"],
    [{ on: { retry: [] } }, "on.retry: expected a list of 1 to 100 statuses"],
    [{ on: { retry: 404 } }, "on.retry: expected a list of 1 to 100 statuses"],
    [{ on: { retry: [404], fail: [500, 404] } }, "on.fail.1: 404 is in retry as well"],
    [{ on: { succeed: [404] } }, "on: unknown succeed: expected an object of retry, fail"],
    [{ on: [404] }, "on: expected an object of retry, fail"],
    [{ on: null }, "on: expected an object of retry, fail"],
    [{ on: "404" }, "on: expected an object of retry, fail"],
    [{ maxAttempts: 5 }, ": unknown maxAttempts: expected an object of preset, schedule, "],
    ["breakwater", ": expected an object of preset, schedule, "],
    [null, ": expected an object of preset, schedule, "],
    [undefined, ": expected an object of preset, schedule, "],
    [[], ": expected an object of preset, schedule, "],
  ])("refuses %j and says what it expects", (value, fault) => {
    const faults = faultsOf(value);
    expect(faults).toHaveLength(1);
    expect(faults[0]).toContain(fault);
  });

  it("names what is missing of base, factor and cap, with a preset as well", () => {
    expect(faultsOf({ preset: "textbook", factor: 2 })).toEqual([
      "base: expected base, factor and cap together",
      "cap: expected base, factor and cap together",
    ]);
  });

  it("refuses a schedule together with base, factor and cap", () => {
    expect(faultsOf({ schedule: [60], base: 30, factor: 2, cap: 3600 })).toEqual([
      "schedule: expected a schedule or base, factor and cap, not both",
    ]);
  });

  it("names every fault in one go, those between fields included", () => {
    const faults = faultsOf({
      preset: "hourly",
      schedule: [60, 0, "soon"],
      base: 60,
      cap: 30,
      jitter: { proportional: 2 },
      max_attempts: 101,
      give_up_after: 0,
      backoff: "fast",
      retries: 3,
    });
    expect(faults.map((fault) => fault.slice(0, fault.indexOf(":")))).toEqual([
      "",
      "cap",
      "factor",
      "give_up_after",
      "jitter.proportional",
      "max_attempts",
      "preset",
      "schedule.1",
      "schedule.2",
      "schedule",
    ]);
    expect(faults[0]).toContain("unknown backoff, retries");
  });
});

describe("resolveRetry", () => {
  it.each([undefined, null, {}])("resolves %j to breakwater", (spec) => {
    expect(resolveRetry(spec)).toEqual(presets.breakwater);
  });

  it.each(presetNames)("resolves the preset %s to itself", (preset) => {
    expect(resolveRetry({ preset })).toEqual(presets[preset]);
  });

  it("overrides one field and leaves the others to the preset", () => {
    expect(resolveRetry({ preset: "textbook", max_attempts: 3 })).toEqual({
      ...presets.textbook,
      maxAttempts: 3,
    });
  });

  it("overrides everything that can be written", () => {
    const spec = {
      schedule: [60],
      jitter: "none",
      max_attempts: 2,
      give_up_after: 3600,
      expire_unattempted_after: 7200,
      retry_after: "instead",
    } as const;
    expect(resolveRetry({ ...spec, schedule: [...spec.schedule] })).toEqual({
      ...presets.breakwater,
      delays: { schedule: [60] },
      jitter: "none",
      maxAttempts: 2,
      giveUpAfterMs: 3_600_000,
      expireUnattemptedAfterMs: 7_200_000,
      retryAfter: "instead",
    });
  });

  it("can retry single statuses, or end the delivery, whatever the preset says", () => {
    const { rules } = resolveRetry({ preset: "textbook", on: { retry: [400, 404], fail: [503] } });
    const results = [200, 302, 400, 401, 404, 410, 500, 503].map((status) =>
      classify({ kind: "response", status }, rules),
    );
    expect(results).toEqual([
      "success",
      "permanent",
      "retry",
      "permanent",
      "retry",
      "permanent",
      "retry",
      "permanent",
    ]);
    expect(rules.attemptLimits).toEqual({});
  });

  it("lifts the limit of a status that is to be retried, and of no other", () => {
    const { rules } = resolveRetry({ on: { retry: [404, 500], fail: [409] } });
    const { http_404: _, ...others } = presets.breakwater.rules.attemptLimits;
    expect(rules.attemptLimits).toEqual(others);
  });

  it("replaces a preset's schedule with growing waits", () => {
    const policy = resolveRetry({ preset: "svix", base: 10, factor: 3, cap: 600 });
    expect(policy).toEqual({ ...presets.svix, delays: { base: 10, factor: 3, cap: 600 } });
  });

  it("survives a trip through JSON, which has no Infinity", () => {
    for (const name of presetNames) {
      expect(JSON.parse(JSON.stringify(presets[name]))).toEqual(presets[name]);
    }
  });
});

describe("ageLimitOf", () => {
  const policy = { giveUpAfterMs: 1_000, expireUnattemptedAfterMs: 50_000 };

  it.each([null, undefined])("counts from when a delivery was due while it has no attempt (%s)", (none) => {
    expect(ageLimitOf(policy, none, 7_000_000)).toBe(7_050_000);
  });

  it("counts from the first attempt once there is one, even at 0", () => {
    expect(ageLimitOf(policy, 7_000_300, 7_000_000)).toBe(7_001_300);
    expect(ageLimitOf(policy, 0, 7_000_000)).toBe(1_000);
  });

  it("is never later than the end of the event's time to live", () => {
    expect(ageLimitOf(policy, 7_000_300, 7_000_000, 7_000_400)).toBe(7_000_400);
    expect(ageLimitOf(policy, null, 7_000_000, 9_000_000)).toBe(7_050_000);
  });
});
