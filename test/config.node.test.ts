import { expect, test } from "vitest";
import { parseConfig } from "../src/config.ts";

const ADMIN_KEY = "a key of sixteen characters and more";

test("reads what the deployment says", () => {
  const env = { ADMIN_KEY, GRACE_SECONDS: "20", ALLOW_PRIVATE_DESTINATIONS: "true" };
  expect(parseConfig(env)).toEqual({ adminKey: ADMIN_KEY, graceMs: 20_000, allowPrivateDestinations: true });
});

test("needs the key alone: the rest has defaults that are safe", () => {
  expect(parseConfig({ ADMIN_KEY })).toEqual({
    adminKey: ADMIN_KEY,
    graceMs: 300_000,
    allowPrivateDestinations: false,
  });
});

test("pays no heed to bindings", () => {
  expect(parseConfig({ ADMIN_KEY, DB: {}, DELIVERIES: {} }).adminKey).toBe(ADMIN_KEY);
});

test("names every fault at once, and what is expected", () => {
  const env = { ADMIN_KEY: "short", GRACE_SECONDS: "soon", ALLOW_PRIVATE_DESTINATIONS: "yes" };
  expect(() => parseConfig(env)).toThrow(
    /ADMIN_KEY is too short.*GRACE_SECONDS expected seconds.*ALLOW_PRIVATE_DESTINATIONS expected "true" or "false"/,
  );
});

test("says how a missing key is set", () => {
  expect(() => parseConfig({})).toThrow("ADMIN_KEY is missing: set it with `wrangler secret put ADMIN_KEY`");
});

test.each(["0", "-1", "3601", ""])("takes no grace period of %j", (seconds) => {
  expect(() => parseConfig({ ADMIN_KEY, GRACE_SECONDS: seconds })).toThrow("GRACE_SECONDS");
});

test("never repeats the key that it refuses", () => {
  expect(() => parseConfig({ ADMIN_KEY: "secret123" })).not.toThrow("secret123");
});
