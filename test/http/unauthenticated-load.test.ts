/** The cost of a flood of requests without a valid key, which must not affect D1 and holders of keys. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { keyToken } from "../../src/core/credentials.ts";
import { newKeyId, randomText } from "../../src/ids.ts";
import handlers from "../../src/worker.ts";
import { emptyDatabase, insertRow, KEY, NOW, testApi } from "../support/api.ts";
import { ORIGIN, testDashboard } from "../support/dashboard.ts";
import { meteredD1 } from "../support/meter.ts";

const ADDRESS = "203.0.113.7";
const LIST = "/v1/destinations";

const worker = exports.default as unknown as Pick<Fetcher, "fetch">;
const { ADMIN_KEY } = env as unknown as { ADMIN_KEY: string };

beforeEach(emptyDatabase);

/** An API whose queries are counted. No address is limited unless the test says so. */
function meteredApi(services: NonNullable<Parameters<typeof testApi>[0]>["services"] = {}) {
  const { db, used } = meteredD1(env.DB);
  const api = testApi({ services: { anonymousLimit: undefined, ...services, db } });
  const get = (path: string, authorization: string | null) =>
    api.call("GET", path, undefined, { authorization, "cf-connecting-ip": ADDRESS });
  return { ...api, get, queries: () => used().queries };
}

async function makeKey({ call }: Pick<ReturnType<typeof testApi>, "call">, fields: object = {}) {
  const { status, json } = await call("POST", "/v1/keys", { scopes: ["read"], ...fields });
  expect(status).toBe(201);
  return json as { id: string; key: string };
}

/** A limiter that refuses everything, and the names that it was called with. */
function exhausted() {
  const asked: unknown[] = [];
  const limit: RateLimit["limit"] = async ({ key }) => {
    asked.push(key);
    return { success: false };
  };
  return { asked, anonymousLimit: { limit } as RateLimit };
}

describe("an invented key", () => {
  it("costs no query, however many there are", async () => {
    const api = meteredApi();
    api.queries();
    for (let i = 0; i < 1000; i++) {
      const invented = `bw_${newKeyId().slice(4)}_${randomText(39)}`;
      expect((await api.get(LIST, `Bearer ${invented}`)).status).toBe(401);
    }
    expect(api.queries()).toBe(0);
  });

  it("with a valid checksum costs no further query while its address is over the limit", async () => {
    let now = NOW;
    const { anonymousLimit } = exhausted();
    const api = meteredApi({ anonymousLimit, now: () => now });
    const known = await makeKey(api);
    expect((await api.get(LIST, `Bearer ${known.key}`)).status).toBe(200);
    const { key } = await makeKey(api);
    const flood = async () => {
      for (let i = 0; i < 100; i++)
        expect((await api.get(LIST, `Bearer ${keyToken(newKeyId(), randomText(32))}`)).status).toBe(429);
      return api.queries();
    };
    api.queries();
    expect(await flood()).toBe(2);
    expect(await flood()).toBe(0);
    // One read a second: a valid key that is not known here gets in, and one that is known always does.
    expect((await api.get(LIST, `Bearer ${known.key}`)).status).toBe(200);
    now += 1_000;
    expect((await api.get(LIST, `Bearer ${key}`)).status).toBe(200);
    api.queries();
    expect(await flood()).toBe(0);
    now += 10_000;
    expect(await flood()).toBeLessThanOrEqual(3);
    expect((await api.get(LIST, `Bearer ${KEY}`)).status).toBe(200);
  });

  it("made from a real one by changing one character is 401 without a query", async () => {
    const api = meteredApi();
    const { key } = await makeKey(api);
    api.queries();
    for (let at = 0; at < key.length; at++) {
      const changed = key.slice(0, at) + (key[at] === "7" ? "8" : "7") + key.slice(at + 1);
      const answer = await api.get(LIST, `Bearer ${changed}`);
      expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([
        401,
        'Bearer error="invalid_token"',
      ]);
    }
    expect(api.queries()).toBe(0);
    expect((await api.get(LIST, `Bearer ${key}`)).status).toBe(200);
    expect(api.queries()).toBeGreaterThan(0);
  });

  it("does not sign in to the dashboard, without a query", async () => {
    const { db, used } = meteredD1(env.DB);
    const browser = testDashboard({ services: { db } });
    used();
    expect((await browser.signIn(`bw_${newKeyId().slice(4)}_${randomText(39)}`)).status).toBe(401);
    expect(used().queries).toBe(0);
  });
});

describe("requests without a valid key", () => {
  const unknown = keyToken(newKeyId(), randomText(32));

  it.each([
    ["no key", null],
    ["something else than a key", "Basic YTpi"],
    ["an invented key", `Bearer bw_${newKeyId().slice(4)}_${randomText(39)}`],
    ["an unknown key", `Bearer ${unknown}`],
  ])("are 429 with Retry-After beyond the limit of their address: %s", async (_what, authorization) => {
    const { asked, anonymousLimit } = exhausted();
    const api = meteredApi({ anonymousLimit });
    const answer = await api.get(LIST, authorization);
    expect(answer).toMatchObject({ status: 429, json: { type: "/problems/too-many-requests" } });
    expect(answer.json.detail).toContain("address");
    expect(answer.headers.get("retry-after")).toBe("10");
    expect(asked).toEqual([ADDRESS]);
  });

  it("are 401 within the limit", async () => {
    const anonymousLimit = { limit: async () => ({ success: true }) } as RateLimit;
    expect((await meteredApi({ anonymousLimit }).get(LIST, null)).status).toBe(401);
  });

  it("are 429 also with a revoked or an expired key", async () => {
    const { anonymousLimit } = exhausted();
    const api = meteredApi({ anonymousLimit });
    const revoked = await makeKey(api);
    await api.call("DELETE", `/v1/keys/${revoked.id}`);
    const expired = await makeKey(api, { expires_at: new Date(NOW + 1000).toISOString() });
    const later = meteredApi({ anonymousLimit, now: () => NOW + 1000 });
    for (const { key } of [revoked, expired]) {
      expect((await later.get(LIST, `Bearer ${key}`)).status).toBe(429);
      expect((await later.call("GET", LIST, undefined, { authorization: `Bearer ${key}` })).status).toBe(401);
    }
  });

  it("do not limit a valid key from the same address", async () => {
    const { asked, anonymousLimit } = exhausted();
    const api = meteredApi({ anonymousLimit });
    const { key } = await makeKey(api);
    expect((await api.get(LIST, null)).status).toBe(429);
    asked.splice(0);
    expect((await api.get(LIST, `Bearer ${key}`)).status).toBe(200);
    expect((await api.get(LIST, `Bearer ${KEY}`)).status).toBe(200);
    expect(asked).toEqual([]);
  });

  it("are counted by the /64 of an IPv6 address", async () => {
    const { asked, anonymousLimit } = exhausted();
    const headers = { authorization: null, "cf-connecting-ip": "2001:db8:1:2:3:4:5:6" };
    await testApi({ services: { anonymousLimit } }).call("GET", LIST, undefined, headers);
    expect(asked).toEqual(["2001:db8:1:2::/64"]);
  });

  it("are 401 if the limit is not bound, fails, or has no address to count by", async () => {
    const failing = { limit: () => Promise.reject(new Error("away")) } as unknown as RateLimit;
    const api = meteredApi({ anonymousLimit: failing });
    expect((await api.get(LIST, null)).status).toBe(401);
    expect(api.log).toContainEqual({ what: "anonymous_limit_unreachable", fault: "Error: away" });
    expect((await meteredApi({ anonymousLimit: undefined }).get(LIST, null)).status).toBe(401);
    const { asked, anonymousLimit } = exhausted();
    const inside = testApi({ services: { anonymousLimit } });
    expect((await inside.call("GET", LIST, undefined, { authorization: null })).status).toBe(401);
    expect(asked).toEqual([]);
  });

  it("are limited at the public keys before a query is made", async () => {
    const { asked, anonymousLimit } = exhausted();
    const api = meteredApi({ anonymousLimit });
    api.queries();
    const { status } = await api.get("/v1/destinations/dst_00000000000000000one/jwks.json", null);
    expect([status, asked, api.queries()]).toEqual([429, [ADDRESS], 0]);
  });

  it("are limited when they sign in to the dashboard, which answers with a page", async () => {
    const { anonymousLimit } = exhausted();
    const browser = testDashboard({ services: { anonymousLimit } });
    const answer = await browser.post(
      "/dashboard/sign-in",
      { key: "wrong" },
      { "cf-connecting-ip": ADDRESS },
    );
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([429, "10"]);
    expect(answer.html).toContain("Wait 10 seconds");
    expect((await browser.signIn()).status).toBe(303);
  });

  it("are limited by the binding of that name, which answers for an address", async () => {
    const { asked, anonymousLimit } = exhausted();
    const context = createExecutionContext();
    const bound = { ...env, ANONYMOUS_LIMIT: anonymousLimit } as unknown as Env;
    const ask = (headers: Record<string, string>) =>
      handlers.fetch(new Request(`${ORIGIN}${LIST}`, { headers }), bound, context);
    const from = { "cf-connecting-ip": ADDRESS };
    expect((await ask(from)).status).toBe(429);
    expect((await ask({ ...from, authorization: `Bearer ${ADMIN_KEY}` })).status).toBe(200);
    expect(asked).toEqual([ADDRESS]);
    await waitOnExecutionContext(context);
    const { ANONYMOUS_LIMIT } = env as unknown as { ANONYMOUS_LIMIT: RateLimit };
    expect(await ANONYMOUS_LIMIT.limit({ key: ADDRESS })).toEqual({ success: true });
  });
});

describe("a flood of GET /v1/health", () => {
  const sweptAt = (at: number) => insertRow("sweeps", { id: 1, watermark: 0, heartbeat_at: at });

  it("costs one query in five seconds, at the same time or one after the other", async () => {
    let now = NOW;
    const api = meteredApi({ now: () => now });
    api.queries();
    const answers = await Promise.all(Array.from({ length: 50 }, () => api.get("/v1/health", null)));
    now += 4999;
    for (let i = 0; i < 50; i++) answers.push(await api.get("/v1/health", null));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    // Its state, and its migrations.
    expect(api.queries()).toBe(2);
    now += 1;
    await api.get("/v1/health", null);
    expect(api.queries()).toBe(2);
  });

  it("may be answered from caches while all is well, and not while it is not", async () => {
    const cacheControl = async () =>
      (await meteredApi().get("/v1/health", null)).headers.get("cache-control");
    expect(await cacheControl()).toBe("public, max-age=5");
    await sweptAt(NOW - 400_000);
    expect(await cacheControl()).toBe("no-store");
  });

  it("is 503 within five seconds of trouble, and ok again within five of its end", async () => {
    let now = NOW;
    let isAway = false;
    const prepare = (sql: string) =>
      isAway ? { all: () => Promise.reject(new Error("D1_ERROR: away")) } : env.DB.prepare(sql);
    const api = testApi({ services: { db: { prepare } as unknown as D1Database, now: () => now } });
    const status = async () => {
      const answer = await api.call("GET", "/v1/health", undefined, { authorization: null });
      return [answer.status, answer.json.status, answer.headers.get("cache-control")];
    };
    expect(await status()).toEqual([200, "ok", "public, max-age=5"]);
    isAway = true;
    now += 5000;
    expect(await status()).toEqual([503, "unreachable", "no-store"]);
    isAway = false;
    now += 5000;
    expect(await status()).toEqual([200, "ok", "public, max-age=5"]);
  });

  it("reports a stall at once, even from a heartbeat that was read before", async () => {
    let now = NOW;
    await sweptAt(NOW - 298_000);
    const api = meteredApi({ now: () => now });
    expect((await api.get("/v1/health", null)).status).toBe(200);
    now += 3000;
    expect((await api.get("/v1/health", null)).status).toBe(503);
  });

  it("publishes a stall once, and not for each request", async () => {
    await sweptAt(NOW - 400_000);
    const api = meteredApi();
    for (let i = 0; i < 10; i++) expect((await api.get("/v1/health", null)).status).toBe(503);
    expect(api.log.filter(({ what }) => what === "sweep_stalled")).toHaveLength(1);
  });

  it("is 503 when the database does not answer at all, also for requests that wait for the same query", async () => {
    const api = testApi({
      services: {
        db: { prepare: () => ({ all: () => new Promise(() => {}) }) } as unknown as D1Database,
        sleep: async () => {},
      },
    });
    const ask = () => api.call("GET", "/v1/health", undefined, { authorization: null });
    const statuses = (await Promise.all([ask(), ask(), ask()])).map(({ status }) => status);
    expect(statuses).toEqual([503, 503, 503]);
    expect(api.log).toContainEqual({ what: "health_unknown", error: "Error: No answer in time" });
  });

  it("is answered by the real Worker, each request in its own context", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => worker.fetch(`${ORIGIN}/v1/health`)));
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(new Set(texts.map((text) => JSON.parse(text).status))).toEqual(new Set(["ok"]));
  });
});
