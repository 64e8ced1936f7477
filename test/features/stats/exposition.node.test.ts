import { describe, expect, it, test } from "vitest";
import { expose, histogramSamples } from "../../../src/features/stats/exposition.ts";

const gauge = { name: "depth", help: "How deep.", type: "gauge" } as const;

describe("the text format", () => {
  it("has help and type before the samples, and ends with a new line", () => {
    const samples = [{ labels: { place: "a" }, value: 1 }, { value: 2.5 }];
    expect(expose([{ ...gauge, samples }])).toBe(
      '# HELP depth How deep.\n# TYPE depth gauge\ndepth{place="a"} 1\ndepth 2.5\n',
    );
  });

  it("leaves out unknown values, but not their families", () => {
    expect(expose([{ ...gauge, samples: [{ value: null }] }])).toBe(
      "# HELP depth How deep.\n# TYPE depth gauge\n",
    );
  });

  it.each([
    ['a "quoted" one', 'a \\"quoted\\" one'],
    ["back\\slash", "back\\\\slash"],
    ["two\nlines", "two\\nlines"],
    ['\\n"', '\\\\n\\"'],
  ])("escapes the label %j", (value, written) => {
    const text = expose([{ ...gauge, samples: [{ labels: { place: value }, value: 0 }] }]);
    expect(text.split("\n")[2]).toBe(`depth{place="${written}"} 0`);
  });

  it("escapes help without touching quotes", () => {
    expect(expose([{ ...gauge, help: 'a\\b\n"c"', samples: [] }])).toContain('# HELP depth a\\\\b\\n"c"\n');
  });

  it.each([
    [Number.POSITIVE_INFINITY, "+Inf"],
    [Number.NEGATIVE_INFINITY, "-Inf"],
    [1e21, "1e+21"],
    [0, "0"],
  ])("writes %d as %s", (value, written) => {
    expect(expose([{ ...gauge, samples: [{ value }] }])).toContain(`depth ${written}\n`);
  });
});

test("a histogram's buckets count all below them, in seconds, and the last one is the count", () => {
  expect(histogramSamples({ d: "x" }, [2, 0, 1], [500, 1_000], 4_200)).toEqual([
    { suffix: "_bucket", labels: { d: "x", le: "0.5" }, value: 2 },
    { suffix: "_bucket", labels: { d: "x", le: "1" }, value: 2 },
    { suffix: "_bucket", labels: { d: "x", le: "+Inf" }, value: 3 },
    { suffix: "_sum", labels: { d: "x" }, value: 4.2 },
    { suffix: "_count", labels: { d: "x" }, value: 3 },
  ]);
});
