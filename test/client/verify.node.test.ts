/** Verification for receivers, of requests that Breakwater's own signer has signed. */
import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { describe, expect, test } from "vitest";
import { verify, verifyParts, WebhookVerificationError } from "../../client/src/verify.ts";

const secretOf = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString("base64")}`;
const [SECRET, OTHER] = [secretOf(7), secretOf(8)];
const BODY = '{"type":"order.created","timestamp":"2026-01-01T00:00:00Z","data":{"id":1}}';

function headersOf(body = BODY, at = new Date()) {
  return {
    "webhook-id": "evt_1",
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-attempt": "3",
    "webhook-signature": new Webhook(SECRET).sign("evt_1", at, body),
  };
}

const requestOf = (body: string, headers: Record<string, string>) =>
  new Request("https://receiver.example/", { method: "POST", body, headers });

test("a signed request is verified, with its id, its attempt and its body", async () => {
  const at = new Date();
  const delivery = await verify(requestOf(BODY, headersOf(BODY, at)), SECRET);
  expect(delivery).toMatchObject({ id: "evt_1", attempt: 3, body: BODY });
  expect(delivery.sentAt).toBe(Math.floor(at.getTime() / 1000) * 1000);
  expect(delivery.json()).toMatchObject({ type: "order.created", data: { id: 1 } });
});

test("during a rotation either secret verifies", async () => {
  expect((await verify(requestOf(BODY, headersOf()), [OTHER, SECRET])).id).toBe("evt_1");
  expect((await verify(requestOf(BODY, headersOf()), [SECRET, OTHER])).id).toBe("evt_1");
});

test("content that is not JSON is verified, and only parsing it fails", () => {
  const delivery = verifyParts("<order/>", headersOf("<order/>"), SECRET);
  expect(delivery.body).toBe("<order/>");
  expect(delivery.json).toThrow(SyntaxError);
});

test("a body that was parsed already is refused with what is expected", () => {
  for (const body of [JSON.parse(BODY), null, undefined])
    expect(() => verifyParts(body, headersOf(), SECRET)).toThrow("Expected the body as it was sent");
});

test("a byte order mark is part of the body", async () => {
  const text = "\uFEFF<order/>";
  expect((await verify(requestOf(text, headersOf(text)), SECRET)).body).toBe(text);
});

describe("bytes that are no text", () => {
  const bytes = Uint8Array.of(0x89, 0x50, 0xff, 0x00, 0xfe);
  const at = new Date();
  const seconds = String(Math.floor(at.getTime() / 1000));
  const mac = createHmac("sha256", Buffer.alloc(32, 7)).update(`evt_1.${seconds}.`).update(bytes);
  const headers = { ...headersOf("", at), "webhook-signature": `v1,${mac.digest("base64")}` };

  test("are verified as they are, in a request and in each form that frameworks pass", async () => {
    const request = new Request("https://receiver.example/", { method: "POST", body: bytes, headers });
    const padded = Uint8Array.of(1, ...bytes, 1);
    const parts = [bytes, Buffer.from(bytes), bytes.buffer, padded.subarray(1, -1)];
    const all = [await verify(request, SECRET), ...parts.map((body) => verifyParts(body, headers, SECRET))];
    for (const { id, bytes: got } of all) expect([id, ...got]).toEqual(["evt_1", ...bytes]);
  });

  test("are refused when one differs, or is replaced by a decoder", () => {
    const others = [bytes.with(0, 0x88), bytes.subarray(1), new TextDecoder().decode(bytes), ""];
    for (const body of others)
      expect(() => verifyParts(body, headers, SECRET)).toThrow("No matching signature");
  });
});

test.each([
  ["another secret", BODY, headersOf(), OTHER, "No matching signature"],
  ["a changed body", BODY.replace("1}", "2}"), headersOf(), SECRET, "No matching signature"],
  ["no headers", BODY, {}, SECRET, "Missing required headers"],
  ["an old request", BODY, headersOf(BODY, new Date(Date.now() - 3_600_000)), SECRET, "too old"],
  ["a request of the future", BODY, headersOf(BODY, new Date(Date.now() + 3_600_000)), SECRET, "too new"],
  ["no secret", BODY, headersOf(), [], "no secret"],
])("%s is refused", (_, body, headers, secret, message) => {
  expect(() => verifyParts(body, headers, secret)).toThrow(WebhookVerificationError);
  expect(() => verifyParts(body, headers, secret)).toThrow(message);
});

test("headers are found in any case, and as lists, as frameworks pass them", () => {
  const upper = Object.fromEntries(
    Object.entries(headersOf()).map(([name, value]) => [name.toUpperCase(), [value]]),
  );
  expect(verifyParts(BODY, upper, SECRET).id).toBe("evt_1");
});
