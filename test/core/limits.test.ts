import { getTableColumns } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import {
  breakerShape,
  burstOf,
  defaultBreaker,
  defaultGateSettings,
  defaultLimits,
  gateSettingsFrom,
  limitShape,
} from "../../src/core/limits.ts";
import { readAs } from "../../src/core/shape.ts";
import { zodOf } from "../../src/core/zod-of.ts";
import { destinations } from "../../src/store/destination.ts";

const columns = new Map(
  Object.values(getTableColumns(destinations)).map((column) => [column.name, column.default]),
);

const ranges: readonly (readonly [string, number, number, boolean])[] = [
  ["timeout_ms", 100, 25_000, true],
  ["max_concurrency", 1, 1000, true],
  ["rate_per_second", 0.01, 10_000, false],
  ["rate_burst", 1, 100_000, true],
  ["failure_ratio", 0.05, 1, false],
  ["min_attempts", 1, 1000, true],
  ["window_s", 1, 3600, true],
  ["cooldown_s", 1, 3600, true],
  ["max_cooldown_s", 1, 86_400, true],
];

function accepts(field: string, value: unknown): boolean {
  const shape = { ...limitShape.fields, ...breakerShape.fields }[field as "timeout_ms"];
  return readAs(shape, value) !== undefined;
}

describe("the burst that is not set", () => {
  it.each([
    [0.01, 1],
    [0.5, 1],
    [5, 5],
    [7.2, 8],
    [100, 100],
    [10_000, 10_000],
  ])("of a rate of %d a second is one second's worth, and one at least: %d", (rate, burst) => {
    expect(burstOf(rate)).toBe(burst);
  });

  it("applies to the default too", () => {
    expect(defaultLimits.rate_burst).toBe(burstOf(defaultLimits.rate_per_second));
  });
});

describe("limits", () => {
  it("cover every field", () => {
    const fields = [...Object.keys(limitShape.fields), ...Object.keys(breakerShape.fields)];
    expect(ranges.map(([field]) => field)).toEqual(fields);
  });

  it.each(ranges)("take %s from %d to %d", (field, min, max) => {
    expect([min, max].map((value) => accepts(field, value))).toEqual([true, true]);
    expect([min - 0.001, max + 1, -1, "5", null].map((value) => accepts(field, value))).toEqual(
      Array(5).fill(false),
    );
  });

  it.each(ranges)("hold %s (%d to %d) to whole numbers: %s", (field, min, _max, whole) => {
    expect(accepts(field, min + 0.5)).toBe(!whole);
  });

  it("say what is expected, with both ends of the range", () => {
    const faultOf = (field: "timeout_ms" | "rate_per_second") =>
      zodOf(limitShape.fields[field])
        .safeParse(0)
        .error?.issues.map(({ message }) => message);
    expect(faultOf("timeout_ms")).toEqual(["expected a whole number from 100 to 25000"]);
    expect(faultOf("rate_per_second")).toEqual(["expected a number from 0.01 to 10000"]);
  });

  it("have defaults that they accept", () => {
    expect(readAs(limitShape, defaultLimits)).toEqual(defaultLimits);
    expect(readAs(breakerShape, defaultBreaker)).toEqual(defaultBreaker);
  });

  it("have the defaults of the table", () => {
    for (const [field, value] of Object.entries({ ...defaultLimits, rate_burst: undefined }))
      expect([field, columns.get(field)]).toEqual([field, value]);
    for (const [field, value] of Object.entries(defaultBreaker)) {
      expect([field, columns.get(`breaker_${field}`)]).toEqual([field, value]);
    }
  });
});

describe("a gate's settings", () => {
  const limits = { timeout_ms: 7_000, max_concurrency: 3, rate_per_second: 0.5, rate_burst: 2 };
  const breaker = { failure_ratio: 0.4, min_attempts: 6, window_s: 20, cooldown_s: 5, max_cooldown_s: 80 };

  it("have all times in milliseconds", () => {
    expect(gateSettingsFrom(limits, breaker, true)).toEqual({
      paused: true,
      maxConcurrency: 3,
      ratePerSecond: 0.5,
      rateBurst: 2,
      timeoutMs: 7_000,
      breaker: {
        failureRatio: 0.4,
        minAttempts: 6,
        windowMs: 20_000,
        cooldownMs: 5_000,
        maxCooldownMs: 80_000,
      },
    });
  });

  it("have no longest cool-down below the first one", () => {
    const { breaker: found } = gateSettingsFrom(limits, { ...breaker, max_cooldown_s: 4 }, false);
    expect(found).toMatchObject({ cooldownMs: 5_000, maxCooldownMs: 5_000 });
  });

  it("let a destination without any be attempted", () => {
    expect(defaultGateSettings.paused).toBe(false);
  });
});
