/** Test events and handshakes, as they are reported to the caller. */
import { beforeEach, describe, expect, test } from "vitest";
import { type ShownAuth, sealedAuth } from "../../src/delivery/authorization.ts";
import { sendTestEvent, shakeHands } from "../../src/delivery/test-event.ts";
import type { Script } from "../support/receivers.ts";
import { newSending, type Sending } from "../support/sending.ts";
import { vault } from "../support/vault.ts";

const URL_ = "https://example.com/hook";
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

let sending: Sending;
beforeEach(() => {
  sending = newSending();
});

async function destination(fields: object = {}) {
  return {
    ...{ id: "dst_1", tenant: "acme", url: URL_, secret: await vault.seal("dst_1", SECRET) },
    ...{ previousSecrets: null, signatureForms: null, headers: null, sealedHeaders: null, auth: null },
    ...{ body: null, template: null, targetToken: null, status: "active", ...fields },
  } as never;
}

const run = async (fields: object = {}) => sendTestEvent(sending.services, await destination(fields));

describe("a test event", () => {
  test("is an event with its own id and type, which identifies itself, and is logged with its status", async () => {
    const result = await run({ headers: { "X-Api-Key": "k-e-y-123" } });
    const [call, ...others] = sending.receiver.calls;
    expect(others).toEqual([]);
    if (result.kind !== "made") throw new Error(result.fault);
    const { sent, call: made } = result;
    expect(made.exchange).toEqual({ kind: "response", status: 204 });
    expect(sent.id).toMatch(/^test_[a-z0-9]{13}$/);
    expect(sent.body).toBe(call?.body);
    expect(JSON.parse(sent.body)).toEqual({
      type: "breakwater.test",
      timestamp: "2050-06-01T12:00:00.000Z",
      data: { message: "This is a test. Nothing has happened." },
    });
    expect(sent.headers).toEqual({ ...Object.fromEntries(call?.headers ?? []), "x-api-key": "***" });
    expect(call?.headers.get("x-api-key")).toBe("k-e-y-123");
    expect(sent.headers).toMatchObject({ "webhook-id": sent.id, "webhook-attempt": "1" });
    expect(sending.log).toEqual([{ what: "test_sent", destination: "dst_1", status: 204, fault: undefined }]);
  });

  test("without a response is logged with the error", async () => {
    sending.receiver.script(URL_, new Error("Network connection lost."));
    expect(await run()).toMatchObject({ kind: "made", call: { exchange: { kind: "connection_lost" } } });
    expect(sending.log).toEqual([
      {
        what: "test_sent",
        destination: "dst_1",
        status: "connection_lost",
        fault: "Error: Network connection lost.",
      },
    ]);
  });

  const prepared: Readonly<Record<string, () => Promise<object> | object>> = {
    "secrets or token cannot be opened": () => ({ secret: "whsec_plain" }),
    "name leads to an address that is not on the public internet": () => named("10.0.0.1"),
    "name could not be looked up": () => named("", 500),
    "binding, or no longer lets the tenant use it": () => ({ url: "queue:GONE" }),
  };

  function named(data: string, status = 200): object {
    const host = `${crypto.randomUUID()}.example`;
    Object.assign(sending.services.config, { dnsResolver: "https://dns.example/q" });
    const Answer = [{ type: 1, TTL: 60, data }];
    for (const type of [1, 28])
      sending.receiver.script(`https://dns.example/q?name=${host}&type=${type}`, () =>
        Response.json({ Status: 0, Answer }, { status }),
      );
    return { url: `https://${host}/` };
  }

  test.each(Object.entries(prepared))("is not sent if the destination's %s", async (fault, fields) => {
    expect(await run(await fields())).toEqual({ kind: "not_made", fault: expect.stringContaining(fault) });
    expect(sending.receiver.calls.filter(({ init }) => init.method === "POST")).toEqual([]);
  });

  test("is not sent if the guard of targets refuses it, or if it is too large for a queue's message", async () => {
    expect(await run({ url: "https://10.0.0.1/" })).toEqual({
      kind: "not_made",
      fault: "The URL points to 10.0.0.1; expected a host on the public internet.",
    });
    expect(await run({ url: "queue:" })).toMatchObject({
      kind: "not_made",
      fault: expect.stringContaining("The target is malformed"),
    });
    expect(sending.receiver.calls).toEqual([]);
  });

  test("fetches a token even if that has just failed, and reports the endpoint's answer", async () => {
    const auth: ShownAuth = {
      ...{ kind: "oauth2", token_url: "https://login.example/token", client_id: "shop", scope: null },
      ...{ audience: null, params: {}, client_auth: "body" },
    };
    const fields = { auth: await sealedAuth(vault, "dst_1", auth, "cl13nt-s3cr3t") };
    sending.receiver.script("https://login.example/token", 500);
    for (let times = 1; times < 3; times++) {
      expect(await run(fields)).toEqual({ kind: "not_made", fault: "The token endpoint answers 500." });
      expect(sending.receiver.calls).toHaveLength(times);
    }
  });
});

describe("a handshake", () => {
  const shake = (script: Script, origin = "hooks.example") => {
    sending.receiver.script(URL_, script);
    return shakeHands(sending.services, URL_, origin);
  };
  const allowing = (headers: Record<string, string>, init: ResponseInit = {}) =>
    shake(() => new Response(null, { ...init, headers }));

  test("is an OPTIONS request that names the origin, and follows no redirect", async () => {
    expect(await allowing({ "webhook-allowed-origin": "*" })).toEqual({
      kind: "allowed",
      ratePerSecond: undefined,
    });
    const [call] = sending.receiver.calls;
    expect(call?.init).toMatchObject({
      method: "OPTIONS",
      redirect: "manual",
      signal: expect.any(AbortSignal),
      headers: { "webhook-request-origin": "hooks.example" },
    });
  });

  test.each([
    ["120", 2],
    [" 90\t", 1.5],
    ["1", 1 / 60],
    ["999999999", 999_999_999 / 60],
    ["1000000000", undefined],
    ["0", undefined],
    ["-60", undefined],
    ["6e1", undefined],
    ["*", undefined],
    ["", undefined],
  ])("allows %j requests a minute: %s a second", async (rate, ratePerSecond) => {
    const headers = { "webhook-allowed-origin": "Hooks.Example", "webhook-allowed-rate": rate };
    expect(await allowing(headers)).toEqual({ kind: "allowed", ratePerSecond });
  });

  test("takes the origin in any spelling", async () => {
    sending.receiver.script(URL_, () => new Response(null, { headers: { "webhook-allowed-origin": "a.b" } }));
    expect(await shakeHands(sending.services, URL_, "A.B")).toMatchObject({ kind: "allowed" });
  });

  test.each<[string, Script, string]>([
    ["names nobody", 204, "answered without WebHook-Allowed-Origin"],
    [
      "names another origin",
      () => new Response(null, { headers: { "webhook-allowed-origin": "x".repeat(101) } }),
      `allows the origin "${"x".repeat(100)}" only`,
    ],
    [
      "refuses, whomever it names",
      () => new Response(null, { status: 403, headers: { "webhook-allowed-origin": "*" } }),
      "answered the OPTIONS request with 403",
    ],
    [
      "cannot be reached",
      new Error("connection refused"),
      "could not be requested: Error: connection refused",
    ],
    [
      "is behind a challenge",
      () => new Response("x", { status: 403, headers: { "cf-mitigated": "challenge" } }),
      "could not be requested: challenged",
    ],
  ])("is refused if the receiver %s", async (_, script, fault) => {
    expect(await shake(script)).toEqual({ kind: "refused", fault });
  });
});
