import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { signatureHeaders } from "../../src/delivery/signature.ts";

/** The test vector that the reference libraries of the Standard Webhooks specification share. */
const vector = {
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  at: 1614265330_000,
  body: '{"test": 2432232314}',
  signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
};

test("signs the specification's test vector as the specification says", () => {
  expect(signatureHeaders(vector.id, vector.body, vector.secret, vector.at)).toEqual({
    "webhook-id": vector.id,
    "webhook-timestamp": "1614265330",
    "webhook-signature": vector.signature,
  });
});

test("signs the whole second that it sends, in the middle of one too", () => {
  const at = Date.now() - (Date.now() % 1000) + 999;
  const headers = signatureHeaders("evt_1", "{}", vector.secret, at);
  expect(headers["webhook-timestamp"]).toBe(String((at - 999) / 1000));
  expect(new Webhook(vector.secret).verify("{}", headers)).toEqual({});
});

test("signs the bytes of UTF-8", () => {
  const body = '{"data":"Grüße, 世界 👋"}';
  const headers = signatureHeaders("evt_1", body, vector.secret, Date.now());
  expect(new Webhook(vector.secret).verify(body, headers)).toEqual({ data: "Grüße, 世界 👋" });
});
