/** Queries of the resolver of names, the meaning of its answers, and their cache. */
import { beforeEach, describe, expect, test } from "vitest";
import { resolve } from "../../src/delivery/url-guard.ts";
import type { Script } from "../support/receivers.ts";
import { newSending, type Sending } from "../support/sending.ts";

const RESOLVER = "https://dns.example/query?ct=json";
const PUBLIC = { kind: "public" };

let sending: Sending;
let names = 0;
beforeEach(() => {
  sending = newSending({ dnsResolver: RESOLVER });
});

/** A name that was not looked up before. */
const newName = () => `n${++names}-${crypto.randomUUID()}.example`;
const question = (name: string, type: 1 | 28) => `${RESOLVER}&name=${name}&type=${type}`;
const asked = () => sending.receiver.calls.map(({ url }) => url);
const ask = (name: string) => resolve(sending.services, `https://${name}/hook`);

type Record = Readonly<{ type?: number; TTL?: number; data: string }>;

const answer =
  (records: readonly Record[], fields: object = {}, type = 1): Script =>
  () =>
    Response.json({ Status: 0, Answer: records.map((one) => ({ type, TTL: 60, ...one })), ...fields });

/** From now on the name has these addresses. */
function scripted(name: string, a: Script | readonly Record[], aaaa: readonly Record[] = []): void {
  sending.receiver.script(question(name, 1), typeof a === "object" && "length" in a ? answer(a) : a);
  sending.receiver.script(question(name, 28), answer(aaaa, {}, 28));
}

test("both kinds of addresses are queried, over HTTPS, without following redirects", async () => {
  const name = newName();
  scripted(name, [{ data: "8.8.8.8" }]);
  expect(await resolve(sending.services, `https://${name.toUpperCase()}..:8443/hook`)).toEqual(PUBLIC);
  expect(asked()).toEqual([question(name, 1), question(name, 28)]);
  for (const { init, headers } of sending.receiver.calls) {
    expect(init).toMatchObject({ redirect: "manual", signal: expect.any(AbortSignal) });
    expect(headers.get("accept")).toBe("application/dns-json");
  }
});

describe("a name", () => {
  test.each<[string, readonly Record[], readonly Record[], boolean, object]>([
    ["public addresses", [{ data: "8.8.8.8" }], [{ data: "2606:4700:4700::1111" }], false, PUBLIC],
    ["a public address behind aliases", [{ type: 5, data: "a.b." }, { data: "8.8.8.8" }], [], false, PUBLIC],
    ["records of types that were not asked for", [{ type: 28, data: "::1" }], [], false, PUBLIC],
    ["no address", [], [], false, PUBLIC],
    ["an inner address", [{ data: "10.1.2.3" }], [], false, { kind: "private", address: "10.1.2.3" }],
    ["no route", [{ data: "0.0.0.0" }], [], false, { kind: "private", address: "0.0.0.0" }],
    ["what is no address", [{ data: "x" }], [], false, { kind: "private", address: "x" }],
    [
      "an inner IPv6 address",
      [{ data: "8.8.8.8" }],
      [{ data: "::1" }],
      false,
      { kind: "private", address: "::1" },
    ],
    ["an inner address, where that is allowed", [{ data: "0.0.0.0" }], [{ data: "::1" }], true, PUBLIC],
    ["what is no address, where inner ones are allowed", [{ data: "x" }], [], true, PUBLIC],
    [
      "the address of a metadata service, where inner ones are allowed",
      [{ data: "10.1.2.3" }, { data: "169.254.169.254" }],
      [],
      true,
      { kind: "private", address: "169.254.169.254" },
    ],
  ])("with %s", async (_, a, aaaa, allowPrivateDestinations, resolution) => {
    Object.assign(sending.services.config, { allowPrivateDestinations });
    const name = newName();
    scripted(name, a, aaaa);
    expect(await ask(name)).toEqual(resolution);
  });

  test.each<[string, Script, string]>([
    ["answers 500, whatever it says", () => new Response('{"Status":0}', { status: 500 }), "answered 500"],
    ["fails, whatever it says", answer([{ data: "8.8.8.8" }], { Status: 2 }), "failed with code 2"],
    ["cannot be reached", new Error("connection refused"), "connection refused"],
    ["answers in another form", answer([{ data: "8.8.8.8", TTL: "x" as never }]), "TTL"],
  ])("is unknown if the resolver %s", async (_, script, fault) => {
    const name = newName();
    scripted(name, script);
    expect(await ask(name)).toEqual({ kind: "unknown", fault: expect.stringContaining(fault) });
  });

  test("that does not exist passes, because nothing can be sent to it", async () => {
    const name = newName();
    scripted(name, answer([], { Status: 3 }));
    expect(await ask(name)).toEqual(PUBLIC);
    expect(asked()).toHaveLength(2);
  });
});

describe("no query is made", () => {
  test.each(["https://8.8.8.8/", "https://[::1]/", "no URL"])("about %s", async (url) => {
    expect(await resolve(sending.services, url)).toEqual(PUBLIC);
    expect(asked()).toEqual([]);
  });

  test("without a resolver", async () => {
    Object.assign(sending.services.config, { dnsResolver: undefined });
    expect(await ask(newName())).toEqual(PUBLIC);
    expect(asked()).toEqual([]);
  });
});

describe("an answer is cached", () => {
  test.each<[string, readonly number[], readonly number[], number]>([
    ["for the shortest of its times", [300, 120], [90, 240], 90],
    ["for half a minute at least", [29, 400], [], 30],
    ["for five minutes at most", [301], [86_400], 300],
    ["for five minutes where it is empty", [], [], 300],
  ])("%s", async (_, a, aaaa, seconds) => {
    const name = newName();
    const records = (ttls: readonly number[], data: string) => ttls.map((TTL) => ({ TTL, data }));
    scripted(name, records(a, "8.8.8.8"), records(aaaa, "2606:4700:4700::1111"));
    await ask(name);
    sending.clock.pass(seconds * 1000 - 1);
    expect(await ask(name)).toEqual(PUBLIC);
    expect(asked()).toHaveLength(2);
    sending.clock.pass(1);
    await ask(name);
    expect(asked()).toHaveLength(4);
  });

  test("for its own name and resolver only", async () => {
    const [inner, other] = [newName(), newName()];
    scripted(inner, [{ data: "10.0.0.1" }]);
    scripted(other, [{ data: "8.8.8.8" }]);
    expect(await ask(inner)).toMatchObject({ kind: "private" });
    expect(await ask(other)).toEqual(PUBLIC);
    Object.assign(sending.services.config, { dnsResolver: "https://other.example/" });
    sending.receiver.script(`https://other.example/?name=${inner}&type=1`, answer([{ data: "8.8.8.8" }]));
    sending.receiver.script(`https://other.example/?name=${inner}&type=28`, answer([]));
    expect(await ask(inner)).toEqual(PUBLIC);
  });

  test("for five seconds if the resolver failed", async () => {
    const name = newName();
    scripted(name, 500);
    await ask(name);
    sending.clock.pass(4_999);
    expect(await ask(name)).toMatchObject({ kind: "unknown" });
    expect(asked()).toHaveLength(1);
    scripted(name, [{ data: "8.8.8.8" }]);
    sending.clock.pass(1);
    expect(await ask(name)).toEqual(PUBLIC);
  });

  test("for a thousand names, those that were queried last", async () => {
    const all = Array.from({ length: 1_000 }, newName);
    for (const [i, name] of all.entries()) scripted(name, [{ data: "8.8.8.8", TTL: i === 0 ? 30 : 300 }]);
    for (const name of all) await ask(name);
    const [first = "", second = "", third = ""] = all;
    // Looked up again, the first name becomes the newest.
    sending.clock.pass(30_000);
    await ask(first);
    const newest = newName();
    scripted(newest, []);
    await ask(newest);
    const before = asked().length;
    for (const name of [first, third, newest]) await ask(name);
    expect(asked().length).toBe(before);
    await ask(second);
    expect(asked().slice(before)).toEqual([question(second, 1), question(second, 28)]);
  });
});
