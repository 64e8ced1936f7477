/** A receiver's consent: what is requested, what counts as its answer, and that nothing private is requested. */
import { timingSafeEqual } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { beforeEach, expect, test } from "vitest";
import { challengeFault } from "../../src/delivery/challenge.ts";
import type { Script } from "../support/receivers.ts";
import { newSending, type Sending } from "../support/sending.ts";
import { vault } from "../support/vault.ts";

const HOOK = "https://agents.example/hook";
const RESOLVER = "https://dns.example/query";
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

// Workers have it as a global; Node has it in a module.
if (!("timingSafeEqual" in crypto.subtle)) Object.assign(crypto.subtle, { timingSafeEqual });

let sending: Sending;
beforeEach(() => {
  sending = newSending();
});

async function asked(answer?: Script) {
  if (answer) sending.receiver.script(HOOK, answer);
  const secret = await vault.seal("dst_1", SECRET);
  return challengeFault(sending.services, { id: "dst_1", secret, url: HOOK, subscription: "sub_1" });
}

const calls = () => sending.receiver.calls.filter(({ url }) => url === HOOK);
const challengeIn = (body: string) => (JSON.parse(body) as { challenge: string }).challenge;
/** Answers with what it makes of the challenge. */
const answering =
  (made: (challenge: string) => unknown, status = 200): Script =>
  ({ body }) =>
    Response.json(made(challengeIn(body)), { status });
const repeating = (status = 200) => answering((challenge) => ({ challenge }), status);

test("a receiver gets a separate signed request to repeat a random text", async () => {
  expect(await asked(repeating())).toBeUndefined();
  expect(await asked(repeating())).toBeUndefined();
  const [first, second] = calls();
  expect(first?.init.method).toBe("POST");
  expect(JSON.parse(first?.body ?? "")).toEqual({
    type: "verification",
    challenge: expect.stringMatching(/^[a-z0-9]{32}$/),
  });
  expect(challengeIn(second?.body ?? "")).not.toBe(challengeIn(first?.body ?? ""));
  const headers = Object.fromEntries(first?.headers ?? []);
  expect(headers).toMatchObject({
    "content-type": "application/json",
    "webhook-id": expect.stringMatching(/^msg_verification_[a-z0-9]{20}$/),
    "x-mcp-subscription-id": "sub_1",
  });
  expect(new Webhook(SECRET).verify(first?.body ?? "", headers)).toMatchObject({ type: "verification" });
  expect(sending.log[0]).toEqual({ what: "challenge_sent", subscription: "sub_1", result: "confirmed" });
});

test.each<[string, Script, string | undefined]>([
  ["repeats it", repeating(), undefined],
  ["repeats it with another success", repeating(299), undefined],
  ["repeats it with what is no success", repeating(300), "challenge_failed"],
  ["answers less of it", answering((text) => ({ challenge: text.slice(1) })), "challenge_failed"],
  ["answers more than it", answering((text) => ({ challenge: `${text}0` })), "challenge_failed"],
  ["answers another", answering((text) => ({ challenge: "0".repeat(text.length) })), "challenge_failed"],
  ["answers no text", answering((text) => ({ challenge: [text] })), "challenge_failed"],
  ["answers it alone", answering((text) => text), "challenge_failed"],
  ["answers nothing", () => new Response(null, { status: 204 }), "challenge_failed"],
  ["does not answer in time", new DOMException("late", "TimeoutError"), "timeout"],
  ["has a bad certificate", new Error("TLS handshake failed"), "tls_error"],
  ["cannot be reached", new Error("Network connection lost."), "connection_refused"],
])("a receiver that %s", async (_, answer, fault) => {
  expect(await asked(answer)).toBe(fault);
  expect(sending.log).toMatchObject([{ result: fault ?? "confirmed" }]);
});

test.each([
  ["10.0.0.1", "connection_refused", 0],
  ["8.8.8.8", undefined, 1],
])("a receiver whose name leads to %s is asked only where that is a public address", async (data, fault, requests) => {
  sending = newSending({ dnsResolver: RESOLVER });
  for (const type of [1, 28]) {
    const Answer = type === 1 ? [{ type, TTL: 60, data }] : [];
    sending.receiver.script(`${RESOLVER}?name=agents.example&type=${type}`, () =>
      Response.json({ Status: 0, Answer }),
    );
  }
  expect(await asked(repeating())).toBe(fault);
  expect(calls()).toHaveLength(requests);
});
