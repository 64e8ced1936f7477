/** The audit trail: which fields a change has changed, and that every action it knows is used. */
import { globSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { actorKinds, auditActions, changesBetween } from "../../src/core/audit.ts";

describe("the changes between two views of an object are", () => {
  test.each<[string, Record<string, unknown>, Record<string, unknown>, unknown]>([
    ["none where nothing differs", { a: 1, b: [{ c: 1 }] }, { b: [{ c: 1 }], a: 1 }, null],
    [
      "none where only the time of the change does",
      { updated_at: 1, updatedAt: 1 },
      { updated_at: 2, updatedAt: 2 },
      null,
    ],
    [
      "the fields that differ, with what they were and are",
      { a: 1, b: [1], c: 3 },
      { a: 2, b: [1, 2], c: 3 },
      { a: { from: 1, to: 2 }, b: { from: [1], to: [1, 2] } },
    ],
    [
      "fields that one of the two does not have",
      { gone: 1 },
      { come: 2 },
      { gone: { from: 1, to: null }, come: { from: null, to: 2 } },
    ],
  ])("%s", (_, before, after, changes) => {
    expect(changesBetween(before, after)).toEqual(changes);
  });

  test("shown without values if those are long", () => {
    const around = JSON.stringify({ a: { from: "", to: 1 } }).length;
    const text = "x".repeat(8_192 - around);
    expect(changesBetween({ a: text }, { a: 1 })).toEqual({ a: { from: text, to: 1 } });
    const long = { from: "(too long to store)", to: "(too long to store)" };
    expect(changesBetween({ a: `${text}x`, b: 1 }, { a: 1, b: 2 })).toEqual({ a: long, b: long });
  });

  test("shown for at most a hundred fields if many are long", () => {
    const before = Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`f${i}`, "x".repeat(100)]));
    expect(Object.keys(changesBetween(before, {}) ?? {})).toEqual(Object.keys(before).slice(0, 100));
  });
});

test("every action and every kind of actor is recorded somewhere", () => {
  const root = `${import.meta.dirname}/../../src`;
  const sources = globSync("**/*.{ts,tsx}", { cwd: root })
    .filter((file) => file !== "core/audit.ts")
    .map((file) => readFileSync(`${root}/${file}`, "utf8"))
    .join("\n");
  const named = new Set([...sources.matchAll(/"([a-z_]+(?:\.[a-z_]+)?)"/g)].map(([, word]) => word));
  const words: readonly string[] = [...auditActions, ...actorKinds];
  expect(words.filter((word) => !named.has(word))).toEqual([]);
  expect(words).toEqual(expect.arrayContaining(["destination.changed", "portal"]));
});
