/**
 * Each form as its vendor verifies it: by the vendor's library where it is installed, by a vector that the vendor has
 * published, or by a vector that the vendor's library has made or accepted, of the version named beside it.
 */
import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { describe, expect, test } from "vitest";
import type { SignatureForm } from "../../src/core/signature-forms.ts";
import { signerFor } from "../../src/delivery/signature.ts";
import { newSecret } from "../../src/secrets/signing.ts";
import { utf8 } from "../support/utf8.ts";
import { vault } from "../support/vault.ts";

const DESTINATION = "dst_00000000000000000000";
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk";
const TEXT = "8f742231b10e8888abcd99yyyzzz85a5";
const BODY = '{"type":"order.created","timestamp":"2026-11-21T09:00:00.000Z","data":{"note":"Grüße 👋"}}';
const AT = 1_795_251_600_000;

type Options = Readonly<{ body?: string; at?: number; previous?: readonly string[] }>;

async function headersOf(
  secret: string,
  signatureForms: readonly SignatureForm[],
  { body = BODY, at = AT, previous = [] }: Options = {},
): Promise<Record<string, string>> {
  const seal = (each: string) => vault.seal(DESTINATION, each);
  const replaced = previous.map(async (each) => ({ secret: await seal(each), expires_at: at + 1 }));
  const previousSecrets = await Promise.all(replaced);
  const signing = { id: DESTINATION, secret: await seal(secret), previousSecrets, signatureForms };
  const sign = await signerFor(vault, signing, at);
  return sign({ id: "evt_1", type: "order.created", body: utf8(body) }, at);
}

test("svix: Svix's library accepts the signature under its own header names only", async () => {
  const {
    "webhook-id": _,
    "webhook-timestamp": __,
    ...headers
  } = await headersOf(SECRET, [{ form: "svix" }], { at: Date.now() });
  expect(Object.keys(headers).toSorted()).toEqual(["svix-id", "svix-signature", "svix-timestamp"]);
  expect(() => new SvixWebhook(SECRET).verify(BODY, headers)).not.toThrow();
  expect(() => new SvixWebhook(SECRET).verify(`${BODY} `, headers)).toThrow();
});

// Made with webhooks.generateTestHeaderString of stripe 23.1.0, whose constructEvent accepts these headers.
test.each([
  [SECRET, "t=1795251600,v1=be26ae5437abb12c6e23961de7648e0850a229bb70772a981a5d470e59940b7c"],
  [
    "whsec_test_secret_of_a_stripe_endpoint",
    "t=1795251600,v1=758c1c1b4bf3c4d1eb46a8e65f102c0b70535529754b2a25dd5289ce8d7c7fe6",
  ],
])("stripe: the header is the one that Stripe's library makes with %s", async (secret, header) => {
  expect(await headersOf(secret, [{ form: "stripe" }])).toEqual({
    "webhook-id": "evt_1",
    "webhook-timestamp": "1795251600",
    "stripe-signature": header,
  });
});

// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation
test("github: the header is the one of the vector in GitHub's documentation", async () => {
  const body = "Hello, World!";
  expect(await headersOf("It's a Secret to Everybody", [{ form: "github" }], { body })).toMatchObject({
    "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    "x-github-event": "order.created",
    "x-github-delivery": "evt_1",
  });
});

// https://docs.slack.dev/authentication/verifying-requests-from-slack
test("slack: the headers are those of the vector in Slack's documentation", async () => {
  const body =
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
    "&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com" +
    "%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
  expect(await headersOf(TEXT, [{ form: "slack" }], { body, at: 1_531_420_618_000 })).toMatchObject({
    "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    "x-slack-request-timestamp": "1531420618",
  });
});

// Accepted by webhooks.validate of @shopify/shopify-api 15.0.0.
test.each([
  [TEXT, "ENvZ05fQd1pmYl22UHE5sCZodsOaf1z31l5Zlc+rCrk="],
  [SECRET, "cg7WRmzYZ90gjAxRe1Om/P3nlLaUpBox3MYtGV2u4GQ="],
])("shopify: the header is one that Shopify's library accepts with %s", async (secret, header) => {
  expect(await headersOf(secret, [{ form: "shopify" }])).toMatchObject({
    "x-shopify-hmac-sha256": header,
    "x-shopify-topic": "order.created",
    "x-shopify-webhook-id": "evt_1",
  });
});

describe("a template", () => {
  const template = { form: "template", content: "{timestamp}:{body}", signature_header: "X-Sig" } as const;
  const keys = { text: SECRET, bytes: Buffer.from(SECRET.slice(6), "base64") } as const;

  const combinations = (["sha256", "sha512", "sha1"] as const).flatMap((algorithm) =>
    (["hex", "base64"] as const).flatMap((encoding) =>
      (["text", "bytes"] as const).map((key) => ({ algorithm, encoding, key })),
    ),
  );

  test.each(
    combinations,
  )("signs with $algorithm in $encoding by the secret's $key as Node does", async (how) => {
    const headers = await headersOf(SECRET, [{ ...template, ...how, prefix: "v=" }]);
    const expected = createHmac(how.algorithm, keys[how.key])
      .update(`1795251600:${BODY}`)
      .digest(how.encoding);
    expect(headers["x-sig"]).toBe(`v=${expected}`);
  });

  test("signs with sha256 in hex by the secret's text unless it says otherwise", async () => {
    const expected = createHmac("sha256", SECRET).update(`1795251600:${BODY}`).digest("hex");
    expect((await headersOf(SECRET, [template]))["x-sig"]).toBe(expected);
  });
});

describe("several forms at once", () => {
  const all = ["standard", "svix", "stripe", "github", "slack"] as const;

  test("are each signed as if alone", async () => {
    const together = await headersOf(
      SECRET,
      all.map((form) => ({ form })),
    );
    const alone = await Promise.all(all.map((form) => headersOf(SECRET, [{ form }])));
    expect(together).toEqual(Object.assign({}, ...alone));
  });

  test("sign with one plain text: Standard Webhooks has its bytes, for which whsec_ and base64 stand", async () => {
    const at = Date.now();
    const headers = await headersOf(TEXT, [{ form: "shopify" }, { form: "standard" }], { at });
    const secret = `whsec_${Buffer.from(TEXT).toString("base64")}`;
    expect(() => new Webhook(secret).verify(BODY, headers)).not.toThrow();
    expect(() => new Webhook(SECRET).verify(BODY, headers)).toThrow();
  });
});

describe("after a rotation", () => {
  const hex = (secret: string, text: string) => createHmac("sha256", secret).update(text).digest("hex");

  test("every secret signs in forms that can carry several, the newest first", async () => {
    const headers = await headersOf(SECRET, [{ form: "stripe" }, { form: "svix" }], { previous: [OLD] });
    const [now, before] = [SECRET, OLD].map((secret) => hex(secret, `1795251600.${BODY}`));
    expect(headers["stripe-signature"]).toBe(`t=1795251600,v1=${now},v1=${before}`);
    expect(headers["svix-signature"]).toMatch(/^v1,\S+ v1,\S+$/);
  });

  test.each([
    ["github", "x-hub-signature-256", `sha256=${hex(SECRET, BODY)}`],
    ["slack", "x-slack-signature", `v0=${hex(SECRET, `v0:1795251600:${BODY}`)}`],
  ] as const)("only the newest secret signs for %s, which has room for one signature", async (form, name, value) => {
    expect((await headersOf(SECRET, [{ form }], { previous: [OLD] }))[name]).toBe(value);
  });

  test("from a key pair, the previous key signs for Standard Webhooks only", async () => {
    const forms = [{ form: "standard" }, { form: "stripe" }] as const;
    const headers = await headersOf(SECRET, forms, { previous: [newSecret("ed25519")] });
    expect(headers["webhook-signature"]).toMatch(/^v1,\S+ v1a,\S+$/);
    expect(headers["stripe-signature"]).toBe(`t=1795251600,v1=${hex(SECRET, `1795251600.${BODY}`)}`);
  });
});

test("a key pair beside a form that it cannot sign in, as after an edit by hand, signs nothing", async () => {
  const signed = headersOf(newSecret("ed25519"), [{ form: "standard" }, { form: "github" }]);
  await expect(signed).rejects.toThrow("cannot sign for x-hub-signature-256");
});
