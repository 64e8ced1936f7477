import { afterEach, expect, test, vi } from "vitest";
import { vaultOf } from "../../src/secrets/vault.ts";
import { utf8 } from "../support/utf8.ts";
import { keysOf, MASTER_KEYS } from "../support/vault.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const place = (n: number) => `dst_${String(n).padStart(20, "0")}`;
const newVault = () => vaultOf(keysOf(MASTER_KEYS));

afterEach(() => {
  vi.restoreAllMocks();
});

test("the vault opens a secret once, however often it is requested", async () => {
  const vault = newVault();
  const sealed = await vault.seal(place(1), SECRET);
  const decrypt = vi.spyOn(crypto.subtle, "decrypt");
  const keys = await Promise.all(Array.from({ length: 20 }, () => vault.open(place(1), sealed)));
  expect(decrypt).toHaveBeenCalledTimes(1);
  expect(new Set(keys).size).toBe(1);
});

test("the vault does not let one destination use what was opened for another", async () => {
  const vault = newVault();
  const sealed = await vault.seal(place(1), SECRET);
  await vault.open(place(1), sealed);
  await expect(vault.open(place(2), sealed)).rejects.toThrow("this destination");
});

test("the vault caches the thousand secrets used last, and opens the others again", async () => {
  const vault = newVault();
  const sealed = await Promise.all(Array.from({ length: 1_001 }, (_, n) => vault.seal(place(n), SECRET)));
  for (const [n, text] of sealed.slice(0, 1_000).entries()) await vault.open(place(n), text);
  await vault.open(place(0), sealed[0] ?? "");
  await vault.open(place(1_000), sealed[1_000] ?? "");
  const decrypt = vi.spyOn(crypto.subtle, "decrypt");
  await vault.open(place(0), sealed[0] ?? "");
  expect(decrypt).not.toHaveBeenCalled();
  await vault.open(place(1), sealed[1] ?? "");
  expect(decrypt).toHaveBeenCalledTimes(1);
});

test("the vault opens a header's value once, and caches as many as fit", async () => {
  const vault = newVault();
  const value = "x".repeat(1_024);
  const sealed = await Promise.all(
    Array.from({ length: 3_000 }, (_, n) => vault.seal(place(n), value, "header")),
  );
  for (const [n, text] of sealed.entries())
    expect(await vault.openText(place(n), "header", text)).toBe(value);
  const decrypt = vi.spyOn(crypto.subtle, "decrypt");
  await vault.openText(place(2_999), "header", sealed[2_999] ?? "");
  expect(decrypt).not.toHaveBeenCalled();
  await vault.openText(place(0), "header", sealed[0] ?? "");
  expect(decrypt).toHaveBeenCalledTimes(1);
});

test("the vault opens neither a signing secret as a header nor a header as a signing secret", async () => {
  const vault = newVault();
  const header = await vault.seal(place(1), SECRET, "header");
  await expect(vault.open(place(1), header)).rejects.toThrow("sealed as header");
  const secret = await vault.seal(place(1), SECRET);
  await vault.open(place(1), secret);
  await expect(vault.openText(place(1), "header", secret)).rejects.toThrow("sealed as hmac-sha256");
});

test("the vault retries what could not be opened", async () => {
  const vault = newVault();
  const sealed = await vault.seal(place(1), SECRET);
  vi.spyOn(crypto.subtle, "decrypt").mockRejectedValueOnce(new Error("out of memory"));
  await expect(vault.open(place(1), sealed)).rejects.toThrow();
  expect(await (await vault.open(place(1), sealed)).sign(utf8("x"))).toMatch(/^v1,/);
});
