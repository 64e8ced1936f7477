/** How each kind of destination is sent to, and when it is not, without a Worker around it. */
import { beforeEach, describe, expect, test } from "vitest";
import { CONNECTIONS } from "../../src/core/lease.ts";
import { connections } from "../../src/delivery/connections.ts";
import type { Outgoing } from "../../src/delivery/http.ts";
import { kindOf } from "../../src/delivery/kinds/sending.ts";
import { openToken, rotatedToken, sealToken } from "../../src/delivery/kinds/token.ts";
import { vaultOf } from "../../src/secrets/vault.ts";
import { unlessAborted } from "../../src/time.ts";
import { listenersAt } from "../support/listeners.ts";
import { silence } from "../support/receivers.ts";
import { type Sending, sendingThroughBindings } from "../support/sending.ts";
import { utf8 } from "../support/utf8.ts";
import { keysOf, MASTER_KEYS, vault } from "../support/vault.ts";

const ACCOUNT = "023e105f4ecef8ad9ca31a8372d0c353";
const QUEUE = "f1e2d3c4b5a697887766554433221100";
const TOKEN = "cfut_0123456789abcdefghijKLMNOPQRSTUV";
const API = `https://api.cloudflare.com/client/v4/accounts/${ACCOUNT}/queues/${QUEUE}/messages`;
const SERVICE = "https://billing-2.breakwater.internal";

let sending: Sending;
beforeEach(() => {
  sending = sendingThroughBindings();
});

/** The destination, ready to be sent to, or why it is not. */
async function prepared(url: string, { tenant = "acme", targetToken = null as string | null } = {}) {
  const destination = { id: "dst_1", url, tenant, targetToken } as never;
  return (await kindOf({ url })).prepare(sending.services, connections(), destination);
}

async function posted(url: string, outgoing: Partial<Outgoing> = {}, targetToken: string | null = null) {
  const ready = await prepared(url, { targetToken });
  if (ready.kind !== "ready") throw new Error(ready.reason);
  return ready.post({
    type: "order.paid",
    headers: { "webhook-attempt": "3", "x-a": "b" },
    body: utf8("{}"),
    signal: AbortSignal.timeout(10_000),
    ...outgoing,
  });
}

const logged = () => sending.log.map(({ what, destination }) => [what, destination]);

describe("a destination waits", () => {
  test.each([
    ["queue:NOBODY", "acme"],
    ["queue:ORDERS", "globex"],
    ["queue:BILLING_2", "acme"],
    ["queue:", "acme"],
    ["service:NOBODY/", "acme"],
    ["service:BILLING_2/", "globex"],
    ["service:ORDERS/", "acme"],
    ["service:BILLING_2", "acme"],
  ])("for its binding: %s of %s", async (url, tenant) => {
    expect(await prepared(url, { tenant })).toEqual({ kind: "unready", reason: "unbound" });
    expect(logged()).toEqual([["binding_unusable", "dst_1"]]);
  });

  test.each<[string, () => Promise<string | null>]>([
    ["is missing", async () => null],
    ["is another destination's", () => sealToken(vault, "dst_2", TOKEN)],
    ["is a token of its own OAuth", () => vault.seal("dst_1", TOKEN, "token")],
    ["is a header of that name", () => vault.seal("dst_1.target_token", TOKEN, "header")],
  ])("for its token if that %s", async (_, sealed) => {
    const ready = await prepared(`queue:${ACCOUNT}/${QUEUE}`, { targetToken: await sealed() });
    expect(ready).toEqual({ kind: "unready", reason: "sealed" });
    expect(logged()).toEqual([["secret_unreadable", "dst_1"]]);
    expect(sending.log[0]?.error).toEqual(expect.stringMatching(/^Error: The secret /));
  });

  test.each<[string, object, string, object]>([
    [
      "leads inside",
      { Status: 0, Answer: [{ type: 1, TTL: 1, data: "10.0.0.1" }] },
      "forbidden_address",
      { what: "address_forbidden", address: "10.0.0.1" },
    ],
    [
      "cannot be resolved",
      { Status: 2 },
      "unresolved",
      { what: "resolver_failed", error: "Error: The resolver failed with code 2" },
    ],
  ])("for its name if that %s", async (_, answer, reason, line) => {
    Object.assign(sending.services.config, { dnsResolver: "https://dns.example/q" });
    const host = `${crypto.randomUUID()}.example`;
    for (const type of [1, 28])
      sending.receiver.script(`https://dns.example/q?name=${host}&type=${type}`, () => Response.json(answer));
    expect(await prepared(`https://${host}/`)).toEqual({ kind: "unready", reason });
    expect(sending.log).toEqual([{ destination: "dst_1", ...line }]);
  });
});

describe("a request to an https destination", () => {
  test("is a POST that follows no redirect, with the attempt's headers, body and signal", async () => {
    const signal = AbortSignal.timeout(10_000);
    expect((await posted("https://example.com/hook", { signal })).status).toBe(204);
    const [call, ...others] = sending.receiver.calls;
    expect(others).toEqual([]);
    expect(call).toMatchObject({ url: "https://example.com/hook", body: "{}", signal });
    expect(call?.init).toMatchObject({ method: "POST", redirect: "manual", headers: { "x-a": "b" } });
  });

  test("needs no connection before it without a resolver", async () => {
    const shared = connections();
    for (let i = 0; i < CONNECTIONS; i++) void shared.run("dst_1", () => new Promise(() => {}));
    const url = "https://example.com/";
    const ready = await (await kindOf({ url })).prepare(sending.services, shared, {
      id: "dst_1",
      url,
    } as never);
    expect(ready.kind).toBe("ready");
  });

  test("queries the resolver first, if there is one, over a connection of the invocation", async () => {
    Object.assign(sending.services.config, { dnsResolver: "https://dns.example/q" });
    const host = `${crypto.randomUUID()}.example`;
    for (const type of [1, 28])
      sending.receiver.script(`https://dns.example/q?name=${host}&type=${type}`, () =>
        Response.json({ Status: 0 }),
      );
    await posted(`https://${host}/`);
    expect(sending.receiver.calls.map(({ url }) => new URL(url).hostname)).toEqual([
      "dns.example",
      "dns.example",
      host,
    ]);
  });
});

describe("a service", () => {
  test("is called at its path, under a host that no other has", async () => {
    const signal = AbortSignal.timeout(10_000);
    expect((await posted("service:BILLING_2/hook?a=b", { signal })).status).toBe(204);
    const [call] = sending.receiver.calls;
    expect(call).toMatchObject({ url: `${SERVICE}/hook?a=b`, body: "{}", signal });
    expect(call?.init).toMatchObject({ method: "POST", redirect: "manual", headers: { "x-a": "b" } });
  });

  test("is at fault for whatever it throws, and an attempt whose time is over is a timeout", async () => {
    sending.receiver.script(`${SERVICE}/`, new Error("dns"));
    await expect(posted("service:BILLING_2/")).rejects.toMatchObject({
      name: "ExchangeFailure",
      kind: "network",
      message: "Error: dns",
    });
    const late = AbortSignal.abort(new Error("over"));
    await expect(posted("service:BILLING_2/", { signal: late })).rejects.toThrow(/^over$/);
  });
});

describe("a queue of this Worker", () => {
  test("gets the message as JSON, which counts as delivered", async () => {
    expect((await posted("queue:ORDERS")).status).toBe(202);
    const [call] = sending.receiver.calls;
    expect(JSON.parse(call?.body ?? "")).toEqual({
      type: "order.paid",
      attempt: 3,
      headers: { "webhook-attempt": "3", "x-a": "b" },
      body: "{}",
    });
    expect(call?.headers.get("options")).toBe('{"contentType":"json"}');
  });

  test.each([
    [new Error("Queue send failed: 10204"), 413],
    [new Error("message too large"), 413],
    [new Error("it exceeds the limit"), 413],
    [new Error("110204"), undefined],
    [new Error("Queue send failed; 10250"), 429],
    [new Error("Too Many Requests"), 429],
    [new Error("The queue is overloaded"), 429],
    [new Error("Storage limit exceeded"), 429],
    [new Error("102500"), undefined],
    ["overloaded", 429],
    [undefined, undefined],
    [Object.assign(new Error("gone"), { name: "10204" }), undefined],
  ])("that throws %s counts as having answered %s", async (thrown, status) => {
    sending.receiver.script("queue://ORDERS", () => Promise.reject(thrown));
    const made = posted("queue:ORDERS");
    if (status === undefined)
      await expect(made).rejects.toMatchObject({ kind: "network", message: String(thrown) });
    else {
      const response = await made;
      expect([response.status, await response.text()]).toEqual([status, String(thrown)]);
    }
  });

  test("that hangs ends with the attempt, not with another failure", async () => {
    sending.receiver.script("queue://ORDERS", silence().script);
    const attempt = new AbortController();
    const made = posted("queue:ORDERS", { signal: attempt.signal });
    await sending.receiver.called(1);
    attempt.abort(new Error("over"));
    await expect(made).rejects.toThrow(/^over$/);
  });
});

describe("a queue of another account", () => {
  const url = `queue:${ACCOUNT}/${QUEUE}`;
  const post = async (outgoing: Partial<Outgoing> = {}) =>
    posted(url, outgoing, await sealToken(vault, "dst_1", TOKEN));
  const answer = (body: string, init?: ResponseInit) =>
    sending.receiver.script(API, () => new Response(body, init));

  test("gets the message over Cloudflare's API, with the token, which counts as delivered", async () => {
    answer('{"success":true}', { status: 201, headers: { "x-ratelimit-remaining": "5" } });
    const signal = AbortSignal.timeout(10_000);
    const response = await post({ signal });
    expect([response.status, await response.text()]).toEqual([201, ""]);
    expect(response.headers.get("x-ratelimit-remaining")).toBe("5");
    const [call] = sending.receiver.calls;
    expect(call).toMatchObject({ url: API, signal, init: { method: "POST", redirect: "manual" } });
    expect(Object.fromEntries(call?.headers ?? [])).toEqual({
      authorization: `Bearer ${TOKEN}`,
      "content-type": "application/json",
      "user-agent": expect.stringMatching(/^Breakwater\//),
    });
    expect(JSON.parse(call?.body ?? "")).toEqual({
      content_type: "json",
      body: { type: "order.paid", attempt: 3, headers: { "webhook-attempt": "3", "x-a": "b" }, body: "{}" },
    });
  });

  test("that refuses counts as having answered so", async () => {
    answer("busy", { status: 429 });
    const response = await post();
    expect([response.status, await response.text()]).toEqual([429, "busy"]);
  });

  test.each([
    '{"success":false}',
    '{"success":"true"}',
    "<html>",
    "null",
    "{}",
  ])("that answers %s has not accepted the message", async (body) => {
    answer(body);
    await expect(post()).rejects.toMatchObject({
      kind: "network",
      message: "The API answered 200 without success",
    });
  });

  test("whose answer hangs has not accepted the message when the attempt ends", async () => {
    const attempt = new AbortController();
    sending.receiver.script(API, () => {
      queueMicrotask(() => attempt.abort(new Error("over")));
      return new Response(new ReadableStream());
    });
    await expect(post({ signal: attempt.signal })).rejects.toMatchObject({ kind: "network" });
  });
});

describe("work without support for signals", () => {
  test("ends with the signal, before and during it", async () => {
    const hanging = () => new Promise<never>(() => {});
    await expect(unlessAborted(hanging(), AbortSignal.abort(new Error("before")))).rejects.toThrow("before");
    const controller = new AbortController();
    const work = unlessAborted(hanging(), controller.signal);
    controller.abort(new Error("during"));
    await expect(work).rejects.toThrow("during");
  });

  test("has its own result, and leaves no listener at the signal", async () => {
    const { signal } = new AbortController();
    const listeners = listenersAt(signal);
    expect(await unlessAborted(Promise.resolve(1), signal)).toBe(1);
    await expect(unlessAborted(Promise.reject(new Error("own")), signal)).rejects.toThrow("own");
    expect(listeners.size).toBe(0);
  });
});

describe("a target's token", () => {
  const newer = vaultOf(keysOf(`k2:${btoa("2".repeat(32))},${MASTER_KEYS}`));

  test("opens for its destination only", async () => {
    const sealed = await sealToken(vault, "dst_1", TOKEN);
    expect(await openToken(vault, "dst_1", sealed)).toBe(TOKEN);
    await expect(openToken(vault, "dst_2", sealed)).rejects.toThrow("for this destination");
    await expect(vault.openText("dst_1", "token", sealed)).rejects.toThrow("for this destination");
  });

  test("is sealed again with a newer master key, once", async () => {
    const targetToken = await sealToken(vault, "dst_1", TOKEN);
    expect(await rotatedToken(vault, { id: "dst_1", targetToken })).toBeUndefined();
    expect(await rotatedToken(newer, { id: "dst_1", targetToken: null })).toBeUndefined();
    const again = await rotatedToken(newer, { id: "dst_1", targetToken });
    expect(await openToken(newer, "dst_1", again ?? "")).toBe(TOKEN);
    expect(await rotatedToken(newer, { id: "dst_1", targetToken: again ?? null })).toBeUndefined();
  });
});
