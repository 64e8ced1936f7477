import { expect, test } from "vitest";
import { corpusEvent } from "./corpus.ts";

test("an event of the corpus depends on its number only, with which its data begins", () => {
  for (let number = 0; number < 100; number++) {
    const event = corpusEvent(number);
    expect(corpusEvent(number)).toEqual(event);
    expect(/"number":(\d+)/.exec(JSON.stringify(event.data))?.[1]).toBe(String(number));
  }
});

test("events of the corpus have about 0.9 KB of data", () => {
  const sizes = Array.from({ length: 800 }, (_, n) => JSON.stringify(corpusEvent(n).data).length);
  const mean = sizes.reduce((sum, size) => sum + size, 0) / sizes.length;
  expect(mean).toBeGreaterThan(800);
  expect(mean).toBeLessThan(1_000);
});
