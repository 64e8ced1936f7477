/** What a flood of requests without a valid key costs: D1 and those who have a key must not notice. */
import { env, exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { newKeyId, randomText } from "../../src/ids.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../support/api.ts";
import { ORIGIN, testDashboard } from "../support/dashboard.ts";
import { meteredD1 } from "../support/meter.ts";

const ADDRESS = "203.0.113.7";
const LIST = "/v1/destinations";

const worker = exports.default as unknown as Pick<Fetcher, "fetch">;

beforeEach(emptyDatabase);

/** An API whose queries are counted. */
function meteredApi(services: NonNullable<Parameters<typeof testApi>[0]>["services"] = {}) {
  const { db, used } = meteredD1(env.DB);
  const api = testApi({ services: { ...services, db } });
  const get = (path: string, authorization: string | null) =>
    api.call("GET", path, undefined, { authorization, "cf-connecting-ip": ADDRESS });
  return { ...api, get, queries: () => used().queries };
}

async function makeKey({ call }: Pick<ReturnType<typeof testApi>, "call">, fields: object = {}) {
  const { status, json } = await call("POST", "/v1/keys", { scopes: ["read"], ...fields });
  expect(status).toBe(201);
  return json as { id: string; key: string };
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

  it("that is a real one with one character changed is 401 without a query", async () => {
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

  it("signs nobody in to the dashboard, without a query", async () => {
    const { db, used } = meteredD1(env.DB);
    const browser = testDashboard({ services: { db } });
    used();
    expect((await browser.signIn(`bw_${newKeyId().slice(4)}_${randomText(39)}`)).status).toBe(401);
    expect(used().queries).toBe(0);
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
    expect(api.queries()).toBe(1);
    now += 1;
    await api.get("/v1/health", null);
    expect(api.queries()).toBe(1);
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

  it("sees a stall at once, even from a heartbeat that was read before", async () => {
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

  it("is 503 when the database does not answer at all, for those who wait for the same look too", async () => {
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

  it("is answered by the real Worker, each request in a context of its own", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => worker.fetch(`${ORIGIN}/v1/health`)));
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(new Set(texts.map((text) => JSON.parse(text).status))).toEqual(new Set(["ok"]));
  });
});
