/**
 * docs/receivers/vectors.json, for receivers in further languages: Breakwater's signer makes the signatures in it, and
 * public libraries judge each of its requests as it says. And the pages name every receiver that is there.
 */
import { createPublicKey, verify as verifyEd25519 } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";
import { afterEach, describe, expect, test, vi } from "vitest";
import { signerFor } from "../../src/delivery/signature.ts";
import { utf8 } from "../support/utf8.ts";
import { vault } from "../support/vault.ts";
import { compiled, interpreted } from "./languages.ts";

const DOCS = new URL("../../docs/", import.meta.url).pathname;
const DESTINATION = "dst_00000000000000000000";

type Vector = Readonly<{
  what: string;
  now: number;
  headers: Readonly<Record<string, string>>;
  body: string;
  valid: Readonly<{ secret: boolean; jwks: boolean }>;
}>;

type Vectors = Readonly<{
  secret: string;
  private_key: string;
  jwks: Readonly<{ keys: readonly Readonly<{ kty: string; crv: string; x: string }>[] }>;
  vectors: readonly Vector[];
}>;

const { secret, private_key, jwks, vectors }: Vectors = JSON.parse(
  readFileSync(`${DOCS}receivers/vectors.json`, "utf8"),
);

afterEach(() => void vi.useRealTimers());

async function signatureOf(key: string, { headers, body }: Vector): Promise<string> {
  const sealed = await vault.seal(DESTINATION, key);
  const signing = { id: DESTINATION, secret: sealed, previousSecrets: null, signatureForms: null };
  const at = Number(headers["webhook-timestamp"]) * 1000;
  const event = { id: headers["webhook-id"] ?? "", type: "", body: utf8(body) };
  return (await (await signerFor(vault, signing, at))(event, at))["webhook-signature"] ?? "";
}

describe.each(vectors)("the vector $what", (vector) => {
  const { now, headers, body, valid } = vector;
  const given = (headers["webhook-signature"] ?? "").split(" ");

  test("gets the stated result from the library of Standard Webhooks", () => {
    vi.useFakeTimers({ now: now * 1000 });
    const judge = () => new Webhook(secret).verify(body, headers);
    if (valid.secret) expect(judge).not.toThrow();
    else expect(judge).toThrow();
  });

  test("gets the stated result from Node's ed25519", () => {
    const key = createPublicKey({ key: jwks.keys[0] ?? {}, format: "jwk" });
    const content = Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`);
    const isRecent = Math.abs(now - Number(headers["webhook-timestamp"])) <= 300;
    const signatures = given
      .filter((one) => one.startsWith("v1a,"))
      .map((one) => Buffer.from(one.slice(4), "base64"));
    expect(isRecent && signatures.some((one) => verifyEd25519(null, content, key, one))).toBe(valid.jwks);
  });

  test("has the signatures that Breakwater makes, if it is valid", async () => {
    if (valid.secret) expect(given).toContain(await signatureOf(secret, vector));
    if (valid.jwks) expect(given).toContain(await signatureOf(private_key, vector));
  });
});

test("some vectors are valid by the secret, some by the public key, and some by neither", () => {
  const kinds = vectors.map(({ valid }) => `${valid.secret} ${valid.jwks}`);
  expect(new Set(kinds)).toEqual(new Set(["true false", "false true", "true true", "false false"]));
});

test("the page for receivers links every receiver, and every receiver is tested", () => {
  const page = readFileSync(`${DOCS}receivers.md`, "utf8");
  const tested = [...interpreted, ...compiled].map(({ file }) => file);
  expect(tested.filter((file) => !page.includes(`](receivers/${file})`))).toEqual([]);
  const sources = globSync("**/*.{mjs,py,go,rs,rb,php,java}", { cwd: `${DOCS}receivers` });
  expect(sources.toSorted()).toEqual(tested.toSorted());
});
