import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { describe, expect, test, vi } from "vitest";
import type { SignatureForm } from "../../src/core/signature-forms.ts";
import { signerFor } from "../../src/delivery/signature.ts";
import { utf8 } from "../support/utf8.ts";
import { vault } from "../support/vault.ts";

/** The test vector that the reference libraries of the Standard Webhooks specification share. */
const vector = {
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  at: 1614265330_000,
  body: '{"test": 2432232314}',
  signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
};

const OLD = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk";
const DESTINATION = "dst_00000000000000000000";
const TYPE = "order.created";
const event = { id: "evt_1", type: TYPE, body: utf8("{}") };

async function signer(
  secret = vector.secret,
  previous?: Readonly<{ secret: string; until: number }>,
  signatureForms: readonly SignatureForm[] | null = null,
) {
  const signing = {
    id: DESTINATION,
    secret: await vault.seal(DESTINATION, secret),
    previousSecrets: previous
      ? [{ secret: await vault.seal(DESTINATION, previous.secret), expires_at: previous.until }]
      : null,
    signatureForms,
  };
  return signerFor(vault, signing, Date.now());
}

test("the signature of the specification's test vector is as specified", async () => {
  const sign = await signer();
  expect(await sign({ id: vector.id, type: TYPE, body: utf8(vector.body) }, vector.at)).toEqual({
    "webhook-id": vector.id,
    "webhook-timestamp": "1614265330",
    "webhook-signature": vector.signature,
  });
});

test("a signature covers the whole second that is sent, also in the middle of one", async () => {
  const at = Date.now() - (Date.now() % 1000) + 999;
  const headers = await (await signer())(event, at);
  expect(headers["webhook-timestamp"]).toBe(String((at - 999) / 1000));
  expect(new Webhook(vector.secret).verify("{}", headers)).toEqual({});
});

test("a destination without signature forms costs one signature for each attempt, with a key imported once", async () => {
  const sign = await signer();
  const [signs, imports] = [vi.spyOn(crypto.subtle, "sign"), vi.spyOn(crypto.subtle, "importKey")];
  for (let attempt = 0; attempt < 3; attempt++) await sign(event, Date.now());
  expect([signs.mock.calls.length, imports.mock.calls.length]).toEqual([3, 1]);
  vi.restoreAllMocks();
});

/** Svix's own library throws when it does not accept a signature. */
function svixAccepts(secret: string, body: string, headers: Record<string, string>): boolean {
  new SvixWebhook(secret).verify(body, headers);
  return true;
}

test.each([
  ["an empty object", "{}"],
  ["the bytes of UTF-8", '{"data":"Grüße, 世界 👋\\u0000"}'],
  ["a body of 256 KiB", JSON.stringify({ data: "x".repeat(262_000) })],
])("signs %s as both libraries verify", async (_, body) => {
  const headers = await (await signer())({ ...event, body: utf8(body) }, Date.now());
  expect(() => new Webhook(vector.secret).verify(body, headers)).not.toThrow();
  expect(svixAccepts(vector.secret, body, headers)).toBe(true);
  expect(() => svixAccepts(vector.secret, `${body} `, headers)).toThrow();
});

test.each([24, 32, 64])("a secret of %d bytes signs", async (bytes) => {
  const secret = `whsec_${Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("base64")}`;
  const headers = await (await signer(secret))(event, Date.now());
  expect(new Webhook(secret).verify("{}", headers)).toEqual({});
  expect(() => new Webhook(vector.secret).verify("{}", headers)).toThrow();
});

describe("after a rotation", () => {
  const now = Date.now();
  const both = [vector.secret, OLD];

  test("both secrets sign, the new one first, and both libraries accept either", async () => {
    const headers = await (await signer(vector.secret, { secret: OLD, until: now + 60_000 }))(event, now);
    expect(headers["webhook-signature"]).toMatch(/^v1,\S+ v1,\S+$/);
    for (const secret of both) {
      expect(new Webhook(secret).verify("{}", headers)).toEqual({});
      expect(svixAccepts(secret, "{}", headers)).toBe(true);
    }
    const [first = ""] = (headers["webhook-signature"] ?? "").split(" ");
    expect(new Webhook(vector.secret).verify("{}", { ...headers, "webhook-signature": first })).toEqual({});
  });

  test("the old secret signs until just before its expiry, also in a lease that began earlier", async () => {
    const until = now + 60_000;
    const sign = await signer(vector.secret, { secret: OLD, until });
    const count = async (at: number) => (await sign(event, at))["webhook-signature"]?.split(" ").length;
    expect([await count(until - 1), await count(until)]).toEqual([2, 1]);
  });

  test("an expired secret is not even opened", async () => {
    const secret = await vault.seal(DESTINATION, vector.secret);
    const expired = { previousSecrets: [{ secret: "unreadable", expires_at: now }] };
    const sign = await signerFor(vault, { id: DESTINATION, secret, signatureForms: null, ...expired }, now);
    expect((await sign(event, now))["webhook-signature"]).toMatch(/^v1,\S+$/);
  });
});
