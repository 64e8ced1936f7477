/** Patterns mean what they mean to the runtime's RegExp, and their search takes a bounded number of visits. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hasPattern, patternOf } from "../../src/core/pattern.ts";

function has(source: string, text: string): boolean | undefined {
  const pattern = patternOf(source);
  return pattern && hasPattern(pattern, text, () => {});
}

function visitsOf(source: string, text: string): number {
  const pattern = patternOf(source);
  if (!pattern) throw new Error(`${source} is not permitted`);
  let all = 0;
  hasPattern(pattern, text, (visits) => {
    all += visits;
  });
  return all;
}

describe("a search finds a pattern where RegExp does", () => {
  const parts = [
    "a",
    "b",
    "-",
    "💥",
    ".",
    "\\d",
    "\\D",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
    "\\.",
    "\\$",
    "[ab]",
    "[^a]",
  ];
  const classes = [
    "[a-c]",
    "[^]",
    "[^^]",
    "[b-]",
    "[-a]",
    "[\\d-]",
    "[^\\s\\S]",
    "[\\-a]",
    "[a\\]]",
    "[💥-💦a]",
  ];
  const counts = ["", "", "?", "*", "+", "{2}", "{0}", "{0,2}", "{1,3}", "{2,}", "{0,}", "{1,1}", "{3,1}"];
  const source = fc
    .tuple(
      fc.array(fc.tuple(fc.constantFrom(...parts, ...classes), fc.constantFrom(...counts)), { maxLength: 5 }),
      fc.constantFrom("", "$"),
    )
    .map(([pieces, end]) => `^${pieces.map((piece) => piece.join("")).join("")}${end}`)
    .filter((one) => patternOf(one) !== undefined);
  const common = fc.constantFrom("a", "b", "a", "b", "c");
  const odd = fc.constantFrom(
    "-",
    "💥",
    "💦",
    "\ud83d",
    "\udca5",
    "\n",
    " ",
    "1",
    "_",
    ".",
    "$",
    "]",
    "^",
    "\u2028",
  );
  const text = fc.array(fc.oneof(common, odd), { maxLength: 8 }).map((chars) => chars.join(""));

  test("whatever pattern of the form and text", () => {
    let found = 0;
    fc.assert(
      fc.property(source, text, (one, given) => {
        const expected = new RegExp(one, "u").test(given);
        if (expected) found += 1;
        expect(has(one, given)).toBe(expected);
      }),
      { numRuns: 20_000 },
    );
    expect(found).toBeGreaterThan(2_000);
  });

  test.each([
    "\\d",
    "\\D",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
    ".",
    "[^\\s]",
    "[^💥]",
    "[^a-z\\d]",
  ])("of the class %s each character of the basic plane, and some beyond", (one) => {
    const regex = new RegExp(`^${one}$`, "u");
    const beyond = [0x10000, 0x1f4a4, 0x1f4a5, 0x1f4a6, 0x10ffff];
    for (const code of [...Array(0x10000).keys(), ...beyond]) {
      const char = String.fromCodePoint(code);
      if (has(`^${one}$`, char) !== regex.test(char)) expect.fail(`${one} and ${code}`);
    }
  });
});

describe("a search visits", () => {
  const long = "a".repeat(10_000);

  test("each character once if there are no alternatives, and none behind the match", () => {
    expect(visitsOf("^[a-z]+$", long)).toBeLessThan(10_010);
    expect(visitsOf("^ab", long)).toBeLessThan(10);
    expect(visitsOf("^a", long)).toBeLessThan(10);
  });

  test("few alternatives for each character, where RegExp would try all of them again and again", () => {
    expect(visitsOf("^a?a?[a-z]*[a-z]{63}x", long)).toBeLessThan(20_000);
    expect(visitsOf("^a{0,999}[a-z]{63}x", long)).toBeLessThan(10_000);
  });

  test("at most as many alternatives for a character as the pattern has pieces, and twice the characters behind its open one", () => {
    const piece = fc.constantFrom(
      "a",
      "[ab]",
      "[^c]",
      "b",
      ".",
      "[ab]{3}",
      "[ab]{9}",
      "a?",
      "[ab]*",
      "[ab]{0,20}",
    );
    const source = fc
      .array(piece, { minLength: 1, maxLength: 30 })
      .map((pieces) => `^${pieces.join("")}`)
      .filter((one) => patternOf(one) !== undefined);
    const text = fc.array(fc.constantFrom("a", "b"), { minLength: 100, maxLength: 200 });
    fc.assert(
      fc.property(source, text, (one, chars) => {
        const pieces = patternOf(one)?.pieces.length ?? 0;
        expect(visitsOf(one, chars.join(""))).toBeLessThanOrEqual(chars.length * 2 * (pieces + 64 + 1));
      }),
    );
  });
});
