/** JSON that is parsed and written again has every number as it was given. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { parseExactly } from "../../src/core/json-value.ts";

/** Numbers as the grammar of JSON (RFC 8259 §6) allows them to be written. */
const digits = fc.stringMatching(/^[0-9]{1,20}$/);
const zeros = fc.stringMatching(/^0{1,20}$/);
const whole = fc.stringMatching(/^(0|[1-9][0-9]{0,20})$/);
const fraction = fc.oneof(
  fc.constant(""),
  fc.oneof(digits, zeros, fc.tuple(zeros, digits, zeros)).map(dotted),
);
const exponent = fc.oneof(fc.constant(""), fc.stringMatching(/^[eE][+-]?[0-9]{1,3}$/));
const lexeme = fc.tuple(fc.constantFrom("", "-"), whole, fraction, exponent).map((parts) => parts.join(""));

function dotted(given: string | readonly string[]): string {
  return `.${typeof given === "string" ? given : given.join("")}`;
}

describe("a number in JSON that is read and written again", () => {
  test("keeps every character, however it was written", () => {
    fc.assert(
      fc.property(lexeme, (number) => {
        for (const text of [number, `[${number}]`, `{"a":${number},"b":[true,${number}]}`])
          expect(JSON.stringify(parseExactly(text))).toBe(text);
      }),
      { numRuns: 2_000, seed: 12 },
    );
  });

  it.each([
    ["100.00"],
    ["1.0"],
    ["0.1000"],
    ["1e5"],
    ["1E+2"],
    ["-0"],
    ["0.0000001"],
    ["12345678901234567890"],
  ])("stays %s", (number) => expect(JSON.stringify(parseExactly(number))).toBe(number));
});
