import { describe, expect, it } from "vitest";
import {
  agoOf,
  atMost,
  durationOf,
  indented,
  momentOf,
  percentOf,
  plural,
  untilOf,
} from "../../../src/pages/ui/format.ts";

const NOW = Date.parse("2026-11-21T09:00:00Z");

it.each([
  [0, "0 ms"],
  [-5, "0 ms"],
  [350.4, "350 ms"],
  [999, "999 ms"],
  [1000, "1 s"],
  [59_400, "59 s"],
  [59_600, "1 min"],
  [185_000, "3 min 5 s"],
  [3_599_600, "1 h"],
  [2 * 3_600_000 + 5 * 60_000, "2 h 5 min"],
  [76 * 3_600_000, "3 d 4 h"],
])("spells %d ms in its two largest units: %s", (ms, words) => {
  expect(durationOf(ms)).toBe(words);
});

it.each([
  [1, "1 s"],
  [1000, "1 s"],
  [1001, "2 s"],
  [-10, "1 s"],
])("counts down to %d ms from now and never says 0: %s", (ms, words) => {
  expect(untilOf(NOW + ms, NOW)).toBe(words);
});

it.each([
  [-50, "just now"],
  [999, "just now"],
  [42_900, "42 s ago"],
  [3_600_000, "1 h ago"],
  [50 * 3_600_000, "2 d ago"],
])("says of %d ms ago: %s", (ms, words) => {
  expect(agoOf(NOW - ms, NOW)).toBe(words);
});

it("names the day of times before today", () => {
  expect(momentOf(NOW - 1000, NOW)).toBe("08:59:59");
  expect(momentOf(NOW - 10 * 3_600_000, NOW)).toBe("20 Nov, 23:00");
});

it("writes counts as people read them", () => {
  expect([plural(1, "attempt"), plural(2000, "delivery", "deliveries")]).toEqual([
    "1 attempt",
    "2,000 deliveries",
  ]);
  expect([atMost(999, 1000), atMost(1000, 1000)]).toEqual(["999", "1,000+"]);
  expect([percentOf(1, 3), percentOf(0, 0)]).toEqual(["33.3 %", "–"]);
});

describe("JSON", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);

  it.each([
    ['{"a":[1,{"b":null}]}', '{\n  "a": [\n    1,\n    {\n      "b": null\n    }\n  ]\n}'],
    ['"text"', '"text"'],
    // Brackets in strings are no nesting.
    [JSON.stringify([`\\"${nested(30)}`]), `[\n  ${JSON.stringify(`\\"${nested(30)}`)}\n]`],
  ])("%s is written on lines of its own", (json, lines) => {
    expect(indented(json)).toBe(lines);
  });

  it("keeps numbers, escapes and repeated names as they were written", () => {
    const json = '{"id": 12345678901234567890, "sum": 1.00, "name": "\\u00e9\\"{", "id": [], "none": {}}';
    const lines = [
      ...["{", '  "id": 12345678901234567890,', '  "sum": 1.00,', '  "name": "\\u00e9\\"{",'],
      ...['  "id": [],', '  "none": {}', "}"],
    ];
    expect(indented(json)).toBe(lines.join("\n"));
  });

  it("is left as it is when indentation would make it much longer", () => {
    const numbers = `[${Array.from({ length: 128_000 }, () => 1).join(",")}]`;
    expect(numbers.length).toBeLessThan(256 * 1024);
    expect(indented(numbers)).toBe(numbers);
    const text = JSON.stringify({ text: "x".repeat(256 * 1024) });
    expect(indented(text)).toBe(text.replace('{"text":', '{\n  "text": ').replace(/\}$/, "\n}"));
  });

  it("is left as it is when it is nested deeper than twenty levels, because indentation would be most of it", () => {
    expect(indented(nested(20)).length).toBeGreaterThan(400);
    for (const depth of [21, 8_000]) expect(indented(nested(depth))).toBe(nested(depth));
  });

  it.each(["", "{oops", '"[', "undefined"])("that is none is left as it is: %j", (text) => {
    expect(indented(text)).toBe(text);
  });
});
