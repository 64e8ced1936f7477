import { crc32 } from "node:zlib";
import { describe, expect, it } from "vitest";
import {
  addressBlock,
  claimedKey,
  isInForce,
  isRemembered,
  isWorthWriting,
  keyToken,
  MOST_PREVIOUS,
  previousSecrets,
  REMEMBERED_MS,
  USE_WRITTEN_MS,
} from "../../src/core/credentials.ts";

const NOW = 1_000_000_000;

describe("the token of a key", () => {
  const secret = "0123456789abcdefghjkmnpqrstvwxyz";
  const token = keyToken("key_8m2x0f7q9a4r6t1v3w5y", secret);

  it.each([
    ["key_8m2x0f7q9a4r6t1v3w5y", secret],
    ["key_00000000000000000000", "0".repeat(32)],
    ["key_zzzzzzzzzzzzzzzzzzzz", "z".repeat(32)],
  ])("of %s ends with the CRC-32 of what precedes it", (id, ofKey) => {
    const text = `bw_${id.slice(4)}_${ofKey}`;
    expect(keyToken(id, ofKey)).toBe(text + crc32(text).toString(36).padStart(7, "0"));
    expect(claimedKey(keyToken(id, ofKey))).toBe(id);
  });

  it("names no key after any single character is changed", () => {
    const changed = [...token].flatMap((own, at) =>
      [..."0123456789abcdefghijklmnopqrstuvwxyz_A"]
        .filter((other) => other !== own)
        .map((other) => token.slice(0, at) + other + token.slice(at + 1)),
    );
    expect(changed).toHaveLength(token.length * 37);
    expect(changed.filter((text) => claimedKey(text) !== undefined)).toEqual([]);
  });

  it.each([
    ["nothing", ""],
    ["no checksum", token.slice(0, -7)],
    ["a piece cut off", token.slice(0, -1)],
    ["more after it", `${token}0`],
    ["a line after it", `${token}\n`],
    ["upper case", token.toUpperCase()],
  ])("with %s names no key", (_what, text) => {
    expect(claimedKey(text)).toBeUndefined();
  });
});

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

describe("a cached key", () => {
  it("is used until it is stale, which it is within a minute", () => {
    expect(isRemembered(NOW, NOW)).toBe(true);
    expect(isRemembered(NOW, NOW + REMEMBERED_MS - 1)).toBe(true);
    expect(isRemembered(NOW, NOW + REMEMBERED_MS)).toBe(false);
    expect(REMEMBERED_MS).toBeLessThanOrEqual(60_000);
  });

  it("is used for another time if one is given", () => {
    expect(isRemembered(NOW, NOW + 4999, 5000)).toBe(true);
    expect(isRemembered(NOW, NOW + 5000, 5000)).toBe(false);
  });

  it("is not used when the clock was set back", () => {
    expect(isRemembered(NOW, NOW - 1)).toBe(false);
  });
});

it("has its use recorded the first time, and then once an hour", () => {
  expect(isWorthWriting(null, NOW)).toBe(true);
  expect(isWorthWriting(null, 5)).toBe(true);
  expect(USE_WRITTEN_MS).toBe(3_600_000);
  expect(isWorthWriting(NOW, NOW + USE_WRITTEN_MS - 1)).toBe(false);
  expect(isWorthWriting(NOW, NOW + USE_WRITTEN_MS)).toBe(true);
});

describe("requests without a credential are counted", () => {
  it.each([
    ["203.0.113.7", "203.0.113.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:DB8:01:0002:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["2001:db8:1:2::", "2001:db8:1:2::/64"],
    ["2001:0:0:0:1::", "2001:0:0:0::/64"],
    ["fe80::1:2:3:4", "fe80:0:0:0::/64"],
    ["1::2:3:4:5:6:7", "1:0:2:3::/64"],
    ["::1", "0:0:0:0::/64"],
  ])("from %s as %s", (address, block) => {
    expect(addressBlock(address)).toBe(block);
  });
});

describe("replaced secrets", () => {
  const one = (expiresAt: number) => ({ secret: `s${expiresAt}`, expires_at: expiresAt });

  it("sign until they expire, the newest of them", () => {
    expect(previousSecrets([one(NOW + 1), one(NOW)], NOW)).toEqual([one(NOW + 1)]);
    expect(previousSecrets([one(1), one(0)])).toEqual([one(1), one(0)]);
    const many = Array.from({ length: 9 }, (_, i) => one(NOW + 9 - i));
    expect(previousSecrets(many, NOW)).toEqual(many.slice(0, MOST_PREVIOUS));
  });

  it.each([
    ["nothing", null],
    ["text", "s"],
    ["no entry", [null]],
    ["no secret", [{ expires_at: NOW + 1 }]],
    ["no time", [{ secret: "s" }]],
    ["a time as text", [{ secret: "s", expires_at: "9999999999999" }]],
  ])("that an edit has made into %s do not sign", (_what, stored) => {
    expect(previousSecrets(stored, NOW)).toEqual([]);
  });
});
