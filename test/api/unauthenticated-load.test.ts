/** What a flood of requests without a valid key costs: D1 and those who have a key must not notice. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { newKeyId, randomText } from "../../src/ids.ts";
import { emptyDatabase, testApi } from "../support/api.ts";
import { testDashboard } from "../support/dashboard.ts";
import { meteredD1 } from "../support/meter.ts";

const ADDRESS = "203.0.113.7";
const LIST = "/v1/destinations";

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
