import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { schemes } from "../../src/secrets/signing.ts";
import { labelOf, type MasterKeys, seal, sealedScheme, unseal as unsealAs } from "../../src/secrets/vault.ts";
import { keysOf } from "../support/vault.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PLACE = "dst_00000000000000000000";
const key = (id: string, letter: string) => `${id}:${btoa(letter.repeat(32))}`;
const old = keysOf(key("k1", "a"));
const both = keysOf(`${key("k2", "b")},${key("k1", "a")}`);
const latest = keysOf(key("k2", "b"));
const unseal = (keys: MasterKeys, place: string, sealed: string) => unsealAs(keys, place, sealed, schemes);

test("a sealed secret opens for its destination, and reveals nothing of itself", async () => {
  const sealed = await seal(old, PLACE, SECRET);
  expect(sealed).toMatch(/^hmac-sha256\.k1\.[A-Za-z0-9_-]{80,}$/);
  expect(sealed).not.toContain("whsec");
  expect(sealed).not.toContain(SECRET.slice(6));
  expect(await unseal(old, PLACE, sealed)).toBe(SECRET);
});

test("the same secret is sealed differently each time", async () => {
  expect(await seal(old, PLACE, SECRET)).not.toBe(await seal(old, PLACE, SECRET));
});

test("the label names scheme and key", async () => {
  expect(labelOf(await seal(old, PLACE, SECRET))).toEqual({ content: "hmac-sha256", keyId: "k1" });
  expect(labelOf(await seal(latest, PLACE, `whsk_${btoa("k".repeat(32))}`))).toEqual({
    content: "ed25519",
    keyId: "k2",
  });
  expect(labelOf(SECRET)).toBeUndefined();
  expect(labelOf(await seal(old, PLACE, "Bearer abc", "header"))).toEqual({ content: "header", keyId: "k1" });
  expect(sealedScheme(await seal(old, PLACE, SECRET))).toBe("hmac-sha256");
  expect(sealedScheme(await seal(old, PLACE, "Bearer abc", "header"))).toBeUndefined();
});

describe("with several master keys", () => {
  test("the first seals", async () => {
    expect(labelOf(await seal(both, PLACE, SECRET))?.keyId).toBe("k2");
  });

  test("each opens what it has sealed", async () => {
    expect(await unseal(both, PLACE, await seal(old, PLACE, SECRET))).toBe(SECRET);
    expect(await unseal(latest, PLACE, await seal(both, PLACE, SECRET))).toBe(SECRET);
  });
});

describe("a sealed secret does not open", () => {
  const refused = async (sealed: string, place = PLACE, keys = old) => {
    const error = await unseal(keys, place, sealed).catch((thrown: Error) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(String(error)).not.toContain("whsec");
    return String(error);
  };

  test("in another destination's row", async () => {
    expect(await refused(await seal(old, PLACE, SECRET), "dst_00000000000000000001")).toContain(
      "this destination",
    );
  });

  test("once its key has been removed, and the error names the key", async () => {
    expect(await refused(await seal(old, PLACE, SECRET), PLACE, latest)).toBe(
      "Error: MASTER_KEYS has no key k1",
    );
  });

  test("with another key of the same name", async () => {
    await refused(await seal(old, PLACE, SECRET), PLACE, keysOf(key("k1", "z")));
  });

  test("with another scheme or another key on its label", async () => {
    const sealed = await seal(both, PLACE, SECRET);
    await refused(sealed.replace("hmac-sha256", "ed25519"), PLACE, both);
    await refused(sealed.replace(".k2.", ".k1."), PLACE, both);
  });

  test("with any character changed", async () => {
    const sealed = await seal(old, PLACE, SECRET);
    const start = sealed.lastIndexOf(".") + 1;
    for (let i = start; i < sealed.length - 1; i++) {
      const other = sealed[i] === "A" ? "B" : "A";
      await refused(`${sealed.slice(0, i)}${other}${sealed.slice(i + 1)}`);
    }
  });

  test.each([
    "",
    ".",
    "a.b.c",
    "hmac-sha256.k1.",
    "hmac-sha256.k1.AAAA",
    SECRET,
    "hmac-sha256.k1.$$$",
  ])("when it is %j", async (text) => {
    await refused(text);
  });
});

/** As 0.2.0 has sealed it. */
const SEALED_BY_0_2_0 =
  "hmac-sha256.k1.dzmt4ZYqOn25nf6NMdhLTM_9thTd0A4rujptaXGyGsvBASi5ZriV7qfCxgo7lZhtTSZ_nNTnw9Wo0S0b36xl2Hjt";

test("a secret that was sealed before other contents could be sealed is opened", async () => {
  expect(await unseal(old, PLACE, SEALED_BY_0_2_0)).toBe(SECRET);
});

test("a sealed content does not open as another, even with its label changed", async () => {
  const sealed = await seal(old, PLACE, SECRET);
  await expect(unsealAs(old, PLACE, sealed, ["header"])).rejects.toThrow("sealed as hmac-sha256");
  const relabelled = sealed.replace("hmac-sha256", "header");
  await expect(unsealAs(old, PLACE, relabelled, ["header"])).rejects.toThrow("this destination");
});

test("any sealed content opens again", async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ minLength: 24, maxLength: 64 }), async (bytes) => {
      const secret = `whsec_${Buffer.from(bytes).toString("base64")}`;
      expect(await unseal(both, PLACE, await seal(both, PLACE, secret))).toBe(secret);
    }),
    { numRuns: 50 },
  );
});
