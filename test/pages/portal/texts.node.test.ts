/** Texts in every language: translated, and with the same values in them. Numbers and times are written as there. */
import { describe, expect, test } from "vitest";
import { formatsIn, languageAccepted, texts } from "../../../src/pages/portal/texts/languages.ts";

/** Words that are the same in both languages. */
const SAME = [
  "Webhooks",
  "Live",
  "Status",
  "Name",
  "Filter",
  "Filter (JSON)",
  "Limits",
  "JSON Schema",
  "HTTP 1",
  "Version 1",
];

type Leaf = Readonly<{ path: string; text: string }>;

/** Every text; a function's with the numbers of its parameters in their places. */
function leavesOf(value: unknown, path = ""): Leaf[] {
  if (typeof value === "string") return [{ path, text: value }];
  if (typeof value === "function") return [{ path, text: String(value("1", "2", "3")) }];
  return Object.entries(value as object).flatMap(([name, inner]) => leavesOf(inner, `${path}.${name}`));
}

const isAsWritten = ({ path, text }: Leaf) => path.startsWith(".units") || SAME.includes(text);

describe("the German texts", () => {
  const english = new Map(leavesOf(texts.en).map((leaf) => [leaf.path, leaf]));
  const german = leavesOf(texts.de);

  test("have the same keys as the English ones, in German", () => {
    expect(german.map(({ path }) => path).toSorted()).toEqual([...english.keys()].toSorted());
    const same = german.filter((leaf) => english.get(leaf.path)?.text === leaf.text && !isAsWritten(leaf));
    expect(same).toEqual([]);
  });

  test("contain the same values", () => {
    const values = (text = "") => ["1", "2", "3"].filter((value) => text.includes(value));
    const wrong = german.filter(({ path, text }) => {
      const isFunction = path
        .split(".")
        .slice(1)
        .reduce<unknown>((at, name) => (at as never)[name], texts.en);
      const other = english.get(path)?.text;
      return typeof isFunction === "function" && values(text).join() !== values(other).join();
    });
    expect(wrong).toEqual([]);
  });

  test("end with a full stop if the English ones do", () => {
    const ends = (text = "") => /\.$/.test(text);
    const wrong = german.filter(({ path, text }) => ends(text) !== ends(english.get(path)?.text));
    expect(wrong).toEqual([]);
  });
});

test("numbers, durations and times are written as usual in the language", () => {
  const [en, de] = [formatsIn("en"), formatsIn("de")];
  const at = Date.parse("2026-11-20T14:03:22Z");
  expect([en.count(1234.5), de.count(1234.5)]).toEqual(["1,234.5", "1.234,5"]);
  expect([en.atMost(1000, 1000), de.atMost(999, 1000)]).toEqual(["1,000+", "999"]);
  expect([en.duration(100 * 3_600_000), de.duration(100 * 3_600_000)]).toEqual(["4 d 4 h", "4 T 4 h"]);
  expect([en.ago(at, at + 3 * 3_600_000), de.ago(at, at + 3 * 3_600_000)]).toEqual([
    "3 hours ago",
    "vor 3 Stunden",
  ]);
  expect([en.ago(at, at), de.ago(at, at)]).toEqual(["just now", "gerade eben"]);
  expect([en.moment(at), de.moment(at)]).toEqual(["20 Nov 2026, 14:03:22", "20.11.2026, 14:03:22"]);
});

test.each([
  [undefined, "en"],
  ["de-CH, en;q=0.5", "de"],
  ["en-US,en;q=0.9,de;q=0.8", "en"],
  ["ja", "en"],
] as const)("a browser that accepts %j gets %s", (header, language) => {
  expect(languageAccepted(header)).toBe(language);
});
