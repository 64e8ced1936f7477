/** Assertions of Cloudflare Access: who is admitted by one, and everything that is not a valid one. */
import { beforeAll, beforeEach, describe, expect, it, test } from "vitest";
import { byAccess, type Identify } from "../../src/http/access.ts";
import { KEYS_FETCHED_MS } from "../../src/http/access-keys.ts";
import type { Services } from "../../src/services.ts";
import { NOW } from "../support/api.ts";
import {
  AUDIENCE,
  accessWith,
  assertionOf,
  ISSUER,
  payloadFor,
  publishedKeys,
  signingKey,
  tokenOf,
} from "../support/assertions.ts";
import { testConfig } from "../support/config.ts";

const S = NOW / 1000;
const HOUR = 3_600_000;
const ann = payloadFor("ann@example.com");

let ours: Awaited<ReturnType<typeof signingKey>>;
let theirs: Awaited<ReturnType<typeof signingKey>>;
beforeAll(async () => {
  [ours, theirs] = await Promise.all([signingKey("first"), signingKey("first")]);
});

let published: ReturnType<typeof publishedKeys>;
let identify: Identify;
let now: number;
let log: string[];
let services: Services;
beforeEach(() => {
  published = publishedKeys([ours]);
  identify = byAccess();
  now = NOW;
  log = [];
  services = {
    config: testConfig({
      access: accessWith("ann@example.com: own; group Ops: repair in acme, globex; service id.access: look"),
    }),
    fetch: published.fetch,
    now: () => now,
    // Timeouts never fire; a caller that waits for another request checks again soon.
    sleep: (ms: number) => (ms < 1_000 ? scheduler.wait(1) : new Promise(() => {})),
    log: ({ what }: { what: string }) => log.push(what),
  } as unknown as Services;
});

const signed = (payload: object) => assertionOf(ours, payload);

test("without a configuration everyone is refused, and nothing is fetched", async () => {
  const off = { ...services, config: testConfig() };
  expect(await identify(off, await signed(ann))).toBeUndefined();
  expect(published.requests).toEqual([]);
});

describe("an assertion admits", () => {
  it("a person, in the role of the rule", async () => {
    expect(await identify(services, await signed(ann))).toEqual({
      kind: "person",
      principal: {
        person: { name: "ann@example.com", role: "own" },
        scopes: ["events:write", "read", "poll", "admin"],
      },
    });
    expect(published.requests).toEqual([`${ISSUER}/cdn-cgi/access/certs`]);
  });

  it.each([[["Sales", "Ops"]], ["Ops"]])("a person of a group, where the token has %j", async (groups) => {
    const token = await signed(payloadFor("bob@example.com", { custom: { groups } }));
    expect(await identify(services, token)).toEqual({
      kind: "person",
      principal: { person: { name: "bob@example.com", role: "repair" }, scopes: ["read"], tenant: "acme" },
      tenants: ["acme", "globex"],
    });
  });

  it("a service token that a rule names, without email, subject and nbf", async () => {
    const service = payloadFor(undefined, { common_name: "id.access", sub: "", nbf: undefined });
    expect(await identify(services, await signed(service))).toMatchObject({
      kind: "person",
      principal: { person: { name: "id.access", role: "look" } },
    });
  });

  it.each<[string, object]>([
    ["another person", payloadFor("eve@example.com")],
    [
      "a person whose groups are no texts",
      payloadFor("eve@example.com", { custom: { groups: [{ name: "Ops" }, 7] } }),
    ],
    [
      "a person whose groups are not among the custom claims",
      payloadFor("eve@example.com", { groups: ["Ops"] }),
    ],
    ["another service token", payloadFor(undefined, { common_name: "other.access" })],
    [
      "a service token that has the name of a person",
      payloadFor(undefined, { common_name: "ann@example.com" }),
    ],
    [
      "a person with the name of a service token",
      payloadFor("eve@example.com", { common_name: "id.access" }),
    ],
  ])("not %s, whom no rule names", async (_, payload) => {
    expect(await identify(services, await signed(payload))).toMatchObject({ kind: "unnamed" });
  });
});

describe("an assertion is refused", () => {
  const header = { alg: "RS256", kid: "first", typ: "JWT" };

  it.each<[string, string, () => string | Promise<string>]>([
    ["of another application", "for another application", () => signed({ ...ann, aud: ["0b".repeat(32)] })],
    ["without an audience", "claims", () => signed({ ...ann, aud: undefined })],
    [
      "of an audience that only begins so",
      "for another application",
      () => signed({ ...ann, aud: `${AUDIENCE}0` }),
    ],
    ["of another team", "team", () => signed({ ...ann, iss: "https://evil.cloudflareaccess.com" })],
    ["of an issuer with a slash", "team", () => signed({ ...ann, iss: `${ISSUER}/` })],
    ["that has expired", "expired", () => signed({ ...ann, exp: S })],
    ["that never expires", "claims", () => signed({ ...ann, exp: undefined })],
    ["that expires at a text", "claims", () => signed({ ...ann, exp: String(S + 60) })],
    ["that is not valid yet", "not valid yet", () => signed({ ...ann, nbf: S + 60 })],
    ["that was issued in the future", "not valid yet", () => signed({ ...ann, iat: S + 60 })],
    ["of the team's own session", "claims", () => signed({ ...ann, type: "org" })],
    ["without a name", "neither a person", () => signed({ ...ann, email: undefined })],
    ["with an empty email", "neither a person", () => signed({ ...ann, email: "" })],
    ["with two ats", "neither a person", () => signed({ ...ann, email: "x@y@example.com" })],
    ["with a list of emails", "claims", () => signed({ ...ann, email: ["ann@example.com"] })],
    ["with another key of the same name", "signature", () => assertionOf(theirs, ann)],
    [
      "with a changed payload",
      "signature",
      async () => {
        const [head, , signature] = (await signed(payloadFor("eve@example.com"))).split(".");
        return tokenOf({}, ann)
          .replace(/^[^.]*/, head ?? "")
          .replace(/[^.]*$/, signature ?? "");
      },
    ],
    ["without a signature", "signature", async () => (await signed(ann)).replace(/[^.]*$/, "")],
    ["with alg none", "RS256", () => tokenOf({ ...header, alg: "none" }, ann, "")],
    ["with HS256 and the public key as secret", "RS256", () => withHmac({ ...header, alg: "HS256" })],
    ["with an RS256 header over such an HMAC", "signature", () => withHmac(header)],
    ["with RS512", "RS256", () => tokenOf({ ...header, alg: "RS512" }, ann)],
    ["with two algorithms", "RS256", () => tokenOf({ ...header, alg: ["RS256"] }, ann)],
    ["without a kid", "name of a key", () => tokenOf({ ...header, kid: undefined }, ann)],
    ["with an empty kid", "name of a key", () => tokenOf({ ...header, kid: "" }, ann)],
    ["with a kid of the prototype", "not the team's", () => tokenOf({ ...header, kid: "__proto__" }, ann)],
    ["with extensions that must be understood", "signature", () => tokenOf({ ...header, crit: ["x"] }, ann)],
    [
      "with its own key",
      "not the team's",
      () => tokenOf({ ...header, kid: "own", jwk: theirs.publicKey, jku: "https://evil.example" }, ann),
    ],
    ["of two parts", "RS256", () => "a.b"],
    ["of four parts", "RS256", async () => `${await signed(ann)}.x`],
    ["of no JSON", "RS256", () => "bm9uc2Vuc2U.bm9uc2Vuc2U.c2ln"],
    ["of null", "RS256", () => tokenOf(null, null)],
    ["of no Base64", "RS256", () => "%%%.💥.\u0000"],
    ["that is huge", "too long", () => tokenOf(header, { ...ann, more: "x".repeat(20_000) })],
    ["twice in a header", "RS256", async () => `${await signed(ann)}, ${await signed(ann)}`],
  ])("%s", async (_, fault, token) => {
    expect(await identify(services, await token())).toEqual({
      kind: "refused",
      fault: expect.stringContaining(fault),
    });
  });

  async function withHmac(head: object): Promise<string> {
    const secret = new TextEncoder().encode(ours.publicKey.n);
    const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, [
      "sign",
    ]);
    const unsigned = tokenOf(head, ann, "");
    const mac = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(unsigned.slice(0, -1)));
    const text = btoa(String.fromCharCode(...new Uint8Array(mac)));
    return unsigned + text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  }

  it("after its expiry by the services' clock, and not before", async () => {
    const token = await signed(ann);
    now = ann.exp * 1000 - 1;
    expect(await identify(services, token)).toMatchObject({ kind: "person" });
    now += 1;
    expect(await identify(services, token)).toMatchObject({ kind: "refused" });
  });

  it("from the next request on, if the person's role was removed or lowered", async () => {
    const token = await signed(ann);
    const configured = (rules: string) => ({
      ...services,
      config: testConfig({ access: accessWith(rules) }),
    });
    expect(await identify(services, token)).toMatchObject({ principal: { person: { role: "own" } } });
    expect(await identify(configured("ann@example.com: look in acme"), token)).toMatchObject({
      principal: { person: { role: "look" }, scopes: ["read"], tenant: "acme" },
    });
    expect(await identify(configured("bob@example.com: own"), token)).toEqual({
      kind: "unnamed",
      name: "ann@example.com",
    });
  });
});

describe("the team's keys", () => {
  const named = (kid: string) => tokenOf({ alg: "RS256", kid, typ: "JWT" }, ann);

  it("are fetched once for many assertions", async () => {
    const token = await signed(ann);
    for (let i = 0; i < 5; i++) expect(await identify(services, token)).toMatchObject({ kind: "person" });
    expect(published.requests).toHaveLength(1);
  });

  it("are fetched once for all concurrent requests, all of which are admitted", async () => {
    const token = await signed(ann);
    const answers = await Promise.all(Array.from({ length: 50 }, () => identify(services, token)));
    expect(answers.every((answer) => answer?.kind === "person")).toBe(true);
    expect(published.requests).toHaveLength(1);
  });

  it("are awaited for at most five seconds if the request that fetches them has died", async () => {
    const token = await signed(ann);
    const dead = { ...services, fetch: (() => new Promise(() => {})) as unknown as typeof fetch };
    void identify(dead, token);
    await scheduler.wait(1);
    const waiting = identify(services, token);
    now += 5_000;
    expect(await waiting).toEqual({ kind: "unavailable" });
    now += KEYS_FETCHED_MS;
    expect(await identify(services, token)).toMatchObject({ kind: "person" });
  });

  it("are fetched again for a newer key", async () => {
    const keys = [ours];
    published = publishedKeys(keys);
    services = { ...services, fetch: published.fetch };
    expect(await identify(services, await signed(ann))).toMatchObject({ kind: "person" });
    const next = await signingKey("second");
    keys.unshift(next);
    now += KEYS_FETCHED_MS;
    expect(await identify(services, await assertionOf(next, ann))).toMatchObject({ kind: "person" });
    expect(await identify(services, await signed(ann))).toMatchObject({ kind: "person" });
    expect(published.requests).toHaveLength(2);
  });

  it("are fetched once in an interval, however many key ids are invented", async () => {
    await identify(services, await signed(ann));
    now += KEYS_FETCHED_MS;
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => identify(services, named(`invented-${i}`))),
    );
    expect(answers.every((answer) => answer?.kind === "refused")).toBe(true);
    expect(published.requests).toHaveLength(2);
  });

  it("are refused an hour after the team has withdrawn them", async () => {
    const keys = [ours];
    published = publishedKeys(keys);
    services = { ...services, fetch: published.fetch };
    const token = await signed({ ...ann, exp: S + 10 * 3_600 });
    await identify(services, token);
    keys[0] = await signingKey("second");
    now += HOUR;
    expect(await identify(services, token)).toMatchObject({ kind: "refused" });
  });

  it("admit no one while they cannot be read, with one fetch for all", async () => {
    published.state.isDown = true;
    const token = await signed(ann);
    const answers = await Promise.all(Array.from({ length: 50 }, () => identify(services, token)));
    expect(answers).toEqual(answers.map(() => ({ kind: "unavailable" })));
    expect(published.requests).toHaveLength(1);
    expect(log).toContain("access_keys_unreachable");
    published.state.isDown = false;
    now += KEYS_FETCHED_MS;
    expect(await identify(services, token)).toMatchObject({ kind: "person" });
  });

  it("are used for at most a day if they cannot be read again", async () => {
    const token = await signed({ ...ann, exp: S + 100 * 3_600 });
    await identify(services, token);
    published.state.isDown = true;
    now += 23 * HOUR;
    expect(await identify(services, token)).toMatchObject({ kind: "person" });
    expect(await identify(services, named("unknown"))).toEqual({ kind: "unavailable" });
    now += HOUR;
    expect(await identify(services, token)).toEqual({ kind: "unavailable" });
  });

  it.each<[string, () => Response]>([
    ["an error", () => new Response("no", { status: 500 })],
    ["a redirect", () => new Response(null, { status: 302, headers: { location: "https://evil.example" } })],
    ["no JSON", () => new Response("<html>")],
    ["no list", () => Response.json({ keys: {} })],
    ["no key", () => Response.json({ keys: [] })],
    [
      "only a secret key for an HMAC",
      () => Response.json({ keys: [{ kid: "first", kty: "oct", k: "c2VjcmV0" }] }),
    ],
  ])("cannot be read if the answer is %s", async (_, answer) => {
    const broken = { ...services, fetch: (async () => answer()) as unknown as typeof fetch };
    expect(await identify(broken, await signed(ann))).toEqual({ kind: "unavailable" });
  });
});
