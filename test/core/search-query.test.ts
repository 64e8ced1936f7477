/** The input of the search: words, conditions, and the meaning of a single word. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { excerptAt, findWords, parseSearch } from "../../src/core/search-query.ts";

const known = {
  isReason: (word: string) => word === "exhausted",
  isState: (word: string) => word === "dead",
};
const read = (typed: string) => parseSearch(typed, known);
const words = (...list: string[]) => ({ words: list, conditions: {} });

describe("a search is read", () => {
  test.each([
    ["", words()],
    ["  a  b ", words("a", "b")],
    ['"a  b" c', words("a  b", "c")],
    ['""', words()],
    ['"a', words('"a')],
    ["type:a.* x", { words: ["x"], conditions: { type: "a.*" } }],
    ['tag:"a b"', { words: [], conditions: { tag: "a b" } }],
    ["type:a type:b", { words: [], conditions: { type: "b" } }],
    ["since:2026-11-21T09:00:00Z", { words: [], conditions: { since: "2026-11-21T09:00:00Z" } }],
    ["order:4711", words("order:4711")],
    ['order:"47 11"', words("order:", "47 11")],
    ['order:"" a', words("order:", "a")],
    ["https://a.example/type:b", words("https://a.example/type:b")],
    ["type:", words("type:")],
    [":a", words(":a")],
  ])("%j", (typed, query) => {
    expect(read(typed)).toEqual(query);
  });

  test("with a single status code, reason or state as a condition, unless it is quoted or not alone", () => {
    expect(read("503").conditions).toEqual({ status: "503" });
    expect(read("exhausted").conditions).toEqual({ reason: "exhausted" });
    expect(read("dead").conditions).toEqual({ state: "dead" });
    for (const typed of ['"503"', "503 euros", "703", "dead parrot"])
      expect(read(typed).conditions, typed).toEqual({});
  });

  test("in a time that grows only with its length", () => {
    const nasty = fc.string({ unit: fc.constantFrom('"', ":", " ", "a", "type:", '""'), maxLength: 256 });
    fc.assert(
      fc.property(nasty, (typed) => {
        expect(read(typed).words.join(" ").length).toBeLessThanOrEqual(2 * typed.length);
      }),
    );
  });
});

describe("words are found", () => {
  test("each in a name or in the text, whatever their case", () => {
    expect(findWords(["PAID"], ["order.paid"])).toEqual({ at: undefined });
    expect(findWords(["paid", "Inv"], ["order.paid"], '{"a":"INV-1"}')).toEqual({ at: 6 });
    expect(findWords(["paid", "inv"], ["order.paid"], "{}")).toBeUndefined();
    expect(findWords(["inv"], ["order.paid"])).toBeUndefined();
    expect(findWords([], ["a"])).toEqual({ at: undefined });
    expect(findWords(["paid"], ["Order", "PAID"])).toEqual({ at: undefined });
    expect(findWords(["inv"], [], "INV-1")).toEqual({ at: 0 });
  });

  test("with the escapes that JSON gives them", () => {
    expect(findWords(['say "hi"'], [], JSON.stringify({ a: 'Say "hi"' }))).toBeDefined();
    expect(findWords(["a\\b"], [], JSON.stringify("a\\b"))).toBeDefined();
    expect(findWords(['"hi"'], [], JSON.stringify({ a: 'Say "hi" now' }))).toBeDefined();
  });

  test("literally in content that is not JSON", () => {
    expect(findWords(['say "hi"'], [], 'Say "hi"')).toEqual({ at: 0 });
    expect(findWords(['"hi"'], [], 'Say "hi"')).toEqual({ at: 4 });
  });
});

test("an excerpt is one well-formed line around its place", () => {
  expect(excerptAt("a\n b", 0)).toBe("a b");
  expect(excerptAt("x".repeat(90), 0)).toBe("x".repeat(90));
  expect(excerptAt("x".repeat(91), 0)).toBe(`${"x".repeat(90)}…`);
  expect(excerptAt("x".repeat(90), 30)).toBe("x".repeat(90));
  const text = `${"x".repeat(100)}needle${"😀".repeat(100)}`;
  const excerpt = excerptAt(text, 100);
  expect(excerpt).toMatch(/^…x{30}needle.*…$/u);
  expect(excerpt.isWellFormed()).toBe(true);
});
