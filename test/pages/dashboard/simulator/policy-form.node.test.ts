import { describe, expect, it } from "vitest";
import { retryShape } from "../../../../src/core/retry/policy.ts";
import { presetNames } from "../../../../src/core/retry/presets.ts";
import { readAs } from "../../../../src/core/shape.ts";
import {
  policyFieldsOf,
  secondsOf,
  spanText,
  specIn,
} from "../../../../src/pages/dashboard/simulator/policy-form.tsx";

describe("a duration", () => {
  it.each([
    ["90", 90],
    [" 30 s ", 30],
    ["2min", 120],
    ["1.5 h", 5400],
    ["3 d", 259_200],
  ])("is read from %j", (text, seconds) => expect(secondsOf(text)).toBe(seconds));

  it.each(["soon", "-3", "1 week", "3 d 4 h", "", "0x10"])("is not read from %j", (text) =>
    expect(secondsOf(text)).toBe(text));

  it.each([
    [45, "45 s"],
    [90, "90 s"],
    [120, "2 min"],
    [7200, "2 h"],
    [259_200, "3 d"],
  ])("of %d is written %j", (seconds, text) => expect(spanText(seconds)).toBe(text));
});

describe("a policy as fields", () => {
  it.each([
    { preset: "breakwater" },
    { preset: "svix", schedule: [5, 300, 5400], jitter: "none", max_attempts: 7 },
    {
      preset: "capped",
      base: 10,
      factor: 1.5,
      cap: 86_400,
      jitter: { proportional: 0.2 },
      give_up_after: 90,
    },
    {
      preset: "breakwater",
      expire_unattempted_after: 86_400,
      retry_after: "instead",
      on: { retry: [404, 500], fail: [503] },
    },
  ] as const)("is the same when it is read back: %j", (spec) => {
    expect(specIn(policyFieldsOf(readAs(retryShape, spec) ?? {}))).toEqual(spec);
  });

  it("leaves out empty fields", () => {
    const empty = {
      schedule: "",
      base: " ",
      factor: "",
      cap: "",
      jitter: "",
      proportional: "",
      max_attempts: "",
    };
    for (const preset of presetNames) expect(specIn({ preset, ...empty })).toEqual({ preset });
  });

  it("passes on unparseable values, for the schema to name", () => {
    const spec = specIn({
      preset: "none",
      base: "soon",
      factor: "x",
      schedule: "5, ,9 d",
      max_attempts: "many",
    });
    expect(spec).toEqual({
      preset: "none",
      base: "soon",
      factor: "x",
      schedule: [5, " ", 777_600],
      max_attempts: "many",
    });
  });
});
