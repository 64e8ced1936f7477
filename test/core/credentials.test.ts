import { describe, expect, it } from "vitest";
import {
  isInForce,
  isRemembered,
  isWorthWriting,
  REMEMBERED_MS,
  USE_WRITTEN_MS,
} from "../../src/core/credentials.ts";

const NOW = 1_000_000_000;

describe("a key", () => {
  it.each([
    ["without an end", { expiresAt: null, revokedAt: null }, true],
    ["before its end", { expiresAt: NOW + 1, revokedAt: null }, true],
    ["at its end", { expiresAt: NOW, revokedAt: null }, false],
    ["after its end", { expiresAt: NOW - 1, revokedAt: null }, false],
    ["that has been revoked", { expiresAt: null, revokedAt: NOW }, false],
    ["revoked by a clock that is ahead", { expiresAt: null, revokedAt: NOW + 5000 }, false],
  ])("%s", (_what, terms, isGood) => {
    expect(isInForce(terms, NOW)).toBe(isGood);
  });
});

describe("what is remembered of a key", () => {
  it("holds until it is stale, and that is within a minute", () => {
    expect(isRemembered(NOW, NOW)).toBe(true);
    expect(isRemembered(NOW, NOW + REMEMBERED_MS - 1)).toBe(true);
    expect(isRemembered(NOW, NOW + REMEMBERED_MS)).toBe(false);
    expect(REMEMBERED_MS).toBeLessThanOrEqual(60_000);
  });

  it("does not hold when the clock was set back", () => {
    expect(isRemembered(NOW, NOW - 1)).toBe(false);
  });
});

it("a use is written down the first time, and then once an hour", () => {
  expect(isWorthWriting(null, NOW)).toBe(true);
  expect(isWorthWriting(NOW, NOW + USE_WRITTEN_MS - 1)).toBe(false);
  expect(isWorthWriting(NOW, NOW + USE_WRITTEN_MS)).toBe(true);
});
