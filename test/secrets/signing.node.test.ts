import { createPublicKey, verify } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newSecret, secretBytes, signingKey } from "../../src/secrets/signing.ts";
import { utf8 } from "../support/utf8.ts";

/** RFC 8032 §7.1, test 1: a seed, its public key, and the signature of nothing. */
const rfc = {
  seed: "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
  publicKey: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
  signature:
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
};

const whsk = (hex: string) => `whsk_${Buffer.from(hex, "hex").toString("base64")}`;

describe("an ed25519 key", () => {
  test.each([
    ["its seed", whsk(rfc.seed)],
    ["its seed and its public half", whsk(rfc.seed + rfc.publicKey)],
  ])("made of %s signs as RFC 8032 says", async (_, secret) => {
    const { sign, publicKey } = await signingKey(secret);
    expect(Buffer.from(publicKey ?? []).toString("hex")).toBe(rfc.publicKey);
    expect(await sign(utf8(""))).toBe(`v1a,${Buffer.from(rfc.signature, "hex").toString("base64")}`);
  });

  test("with a public half of another key is refused: its signatures would give the seed away", async () => {
    const wrong = whsk(rfc.seed + "00".repeat(32));
    await expect(signingKey(wrong)).rejects.toThrow("halves differ");
  });

  test("is new each time, and verifies with another library", async () => {
    const [one, other] = [newSecret("ed25519"), newSecret("ed25519")];
    expect(one).not.toBe(other);
    const { sign, publicKey } = await signingKey(one);
    const signed = Buffer.from((await sign(utf8("Grüße 👋"))).replace("v1a,", ""), "base64");
    const x = Buffer.from(publicKey ?? []).toString("base64url");
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    expect(verify(null, Buffer.from("Grüße 👋"), key, signed)).toBe(true);
    expect(verify(null, Buffer.from("Grüße"), key, signed)).toBe(false);
  });
});

test("a shared secret has nothing to publish", async () => {
  expect(await signingKey(newSecret("hmac-sha256"))).not.toHaveProperty("publicKey");
});

describe("a secret is well-formed", () => {
  const whsec = (bytes: number) => `whsec_${Buffer.alloc(bytes, "k").toString("base64")}`;

  test.each([
    newSecret("hmac-sha256"),
    newSecret("ed25519"),
    whsec(24),
    whsec(64),
    whsk("11".repeat(64)),
  ])("when it is %s", (secret) => expect(secretBytes(secret)).toBeDefined());

  test.each([
    "",
    "whsec_",
    "whsk_",
    whsec(23),
    whsec(65),
    whsk("11".repeat(31)),
    whsk("11".repeat(33)),
    whsec(24).slice(6),
    `${whsec(24)} `,
    whsec(25).replace(/=+$/, ""),
    `whpk_${whsec(32).slice(6)}`,
    whsec(24).replace("whsec_", "WHSEC_"),
    `whsec_${"a-_b".repeat(8)}`,
  ])("but not when it is %j", (secret) => expect(secretBytes(secret)).toBeUndefined());
});
