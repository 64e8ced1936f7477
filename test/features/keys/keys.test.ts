import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { claimedKey, keyToken } from "../../../src/core/credentials.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";

const HOUR = 3_600_000;
const UNKNOWN = "key_00000000000000000000";
const OTHER_SECRET = "y4x3w2v1t0s9r8q7p6n5m4k3j2h1g0f9";

beforeEach(emptyDatabase);

type Api = ReturnType<typeof testApi>;

/** An API whose clock the test moves. */
function apiInTime(services: Parameters<typeof testApi>[0] = {}) {
  let now = NOW;
  const api = testApi({ ...services, services: { ...services.services, now: () => now } });
  const pass = (ms: number) => {
    now += ms;
  };
  return { ...api, pass };
}

async function make(api: Pick<Api, "call">, fields: object = {}) {
  const { status, json } = await api.call("POST", "/v1/keys", { scopes: ["read"], ...fields });
  expect(status).toBe(201);
  return json as { id: string; key: string };
}

function as({ call }: Pick<Api, "call">, key: string) {
  return (method: string, path: string, body?: unknown) =>
    call(method, path, body, { authorization: `Bearer ${key}` });
}

const storedKeys = async () => (await env.DB.prepare("SELECT * FROM api_keys").all()).results;

describe("a key for one destination", () => {
  const services = { gates: env.GATES };
  const inboxOf = async (api: Api, fields: object = {}) =>
    (await api.call("POST", "/v1/destinations", { kind: "poll", tenant: "acme", ...fields })).json
      .id as string;

  it("can only poll that destination of its tenant", async () => {
    const api = testApi({ services });
    const [own, other] = [await inboxOf(api), await inboxOf(api)];
    const { key, ...shown } = await make(api, { scopes: ["poll"], destination_id: own });
    expect(shown).toMatchObject({ tenant: "acme", destination_id: own });
    const call = as(api, key);
    expect((await call("GET", `/v1/destinations/${own}/poll`)).json).toEqual({
      data: [],
      iterator: "default.0",
      done: true,
    });
    for (const step of ["poll/commit", "poll/seek"])
      expect(
        (
          await call(
            "POST",
            `/v1/destinations/${other}/${step}`,
            step.endsWith("seek") ? { since: null } : { iterator: "default.0" },
          )
        ).status,
      ).toBe(404);
    expect((await call("GET", `/v1/destinations/${other}/poll`)).status).toBe(404);
    expect((await call("GET", `/v1/destinations/${own}`)).status).toBe(403);
    expect((await call("POST", "/v1/events", { type: "a", data: {} })).status).toBe(403);
  });

  it("has only the scope poll, and a polled destination that its creator can see", async () => {
    const api = testApi({ services });
    const own = await inboxOf(api);
    const pushed = (
      await api.call("POST", "/v1/destinations", { url: "https://example.com", tenant: "acme" })
    ).json.id;
    const globex = await make(api, { scopes: ["admin", "poll"], tenant: "globex" });
    const post = (fields: object) => api.call("POST", "/v1/keys", { scopes: ["poll"], ...fields });
    for (const fields of [
      { destination_id: own, scopes: ["poll", "read"] },
      { destination_id: pushed },
      { destination_id: "dst_00000000000000000000" },
      { destination_id: "nonsense" },
    ])
      expect(await post(fields)).toMatchObject({
        status: 422,
        json: { errors: [{ field: "destination_id" }] },
      });
    const foreign = await as(api, globex.key)("POST", "/v1/keys", { scopes: ["poll"], destination_id: own });
    expect(foreign).toMatchObject({ status: 422, json: { errors: [{ fault: "is not known" }] } });
  });
});

describe("POST /v1/keys", () => {
  it("makes a key that is shown once and stored as a digest", async () => {
    const api = testApi();
    const { status, json } = await api.call("POST", "/v1/keys", { scopes: ["read", "admin"], name: "ops" });
    const { key, ...shown } = json;
    expect(status).toBe(201);
    expect(key).toMatch(/^bw_[0-9a-z]{20}_[0-9a-z]{39}$/);
    expect(shown).toEqual({
      id: claimedKey(key),
      name: "ops",
      tenant: null,
      scopes: ["read", "admin"],
      destination_id: null,
      confirm: null,
      made_in: null,
      created_at: new Date(NOW).toISOString(),
      expires_at: null,
      last_used_at: null,
    });
    const secret = key.split("_").at(-1);
    expect(JSON.stringify(await storedKeys())).not.toContain(secret);
    for (const path of ["/v1/keys", `/v1/keys/${shown.id}`]) {
      const answer = await api.call("GET", path);
      expect(answer.status).toBe(200);
      expect(answer.text).toContain(shown.id);
      expect(answer.text).not.toContain(secret);
    }
  });

  it.each([
    [{}, "scopes", "is missing"],
    [{ scopes: [] }, "scopes", "is a list of 0"],
    [{ scopes: "read" }, "scopes", 'is "read"'],
    [{ scopes: ["root"] }, "scopes[0]", 'is "root"'],
    [{ scopes: ["read", "read"] }, "scopes", "is a list of 2"],
    [{ scopes: ["read"], name: "x".repeat(101) }, "name", "is a string of 101 characters"],
    [{ scopes: ["read"], tenant: "a b" }, "tenant", 'is "a b"'],
    [{ scopes: ["read"], expires_at: "tomorrow" }, "expires_at", 'is "tomorrow"'],
    [{ scopes: ["read"], expires_at: "2026-11-21T09:00:00Z" }, "expires_at", "which has passed"],
    [{ scopes: ["read"], hash: "x" }, "hash", "is not a known field"],
  ])("refuses %j", async (body, field, fault) => {
    const { status, json } = await testApi().call("POST", "/v1/keys", body);
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      { field, fault: expect.stringContaining(fault), expected: expect.any(String) },
    ]);
    expect(await storedKeys()).toEqual([]);
  });
});

describe("a key", () => {
  it("allows what its scopes allow, and nothing else", async () => {
    const api = testApi();
    const { key } = await make(api, { scopes: ["events:write"] });
    expect((await as(api, key)("POST", "/v1/events", { type: "a", data: 1 })).status).toBe(202);
    expect((await as(api, key)("GET", "/v1/destinations")).status).toBe(403);
    expect((await as(api, key)("GET", "/v1/keys")).status).toBe(403);
  });

  it("that is bound to a tenant acts for it", async () => {
    const api = testApi();
    const { key } = await make(api, { scopes: ["admin"], tenant: "acme" });
    const made = await as(api, key)("POST", "/v1/destinations", { url: "https://example.com/" });
    expect(made.json.tenant).toBe("acme");
  });

  it.each([
    ["another secret", (key: string) => keyToken(claimedKey(key) ?? "", OTHER_SECRET)],
    ["an unknown id", (key: string) => keyToken(UNKNOWN, key.split("_").at(-1)?.slice(0, 32) ?? "")],
    ["another checksum", (key: string) => key.replace(/.$/, (last) => (last === "0" ? "1" : "0"))],
    ["upper case", (key: string) => key.toUpperCase()],
    ["a piece cut off", (key: string) => key.slice(0, -1)],
    ["more after it", (key: string) => `${key}0`],
  ])("is refused with %s", async (_what, change) => {
    const api = testApi();
    const { key } = await make(api);
    expect((await as(api, key)("GET", "/v1/destinations")).status).toBe(200);
    const answer = await as(api, change(key))("GET", "/v1/destinations");
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe('Bearer error="invalid_token"');
  });

  it("is refused from the moment it expires, although it is cached", async () => {
    const api = apiInTime();
    const { key } = await make(api, { expires_at: new Date(NOW + 10_000).toISOString() });
    api.pass(9_999);
    expect((await as(api, key)("GET", "/v1/destinations")).status).toBe(200);
    api.pass(1);
    const answer = await as(api, key)("GET", "/v1/destinations");
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe('Bearer error="invalid_token"');
  });

  it("that expires creates none that expires later", async () => {
    const api = apiInTime();
    const [sooner, end, later] = [5_000, 10_000, 10_001].map((ms) => new Date(NOW + ms).toISOString());
    const { key } = await make(api, { scopes: ["admin"], expires_at: end });
    const makes = async (fields: object) =>
      as(api, key)("POST", "/v1/keys", { scopes: ["admin"], ...fields });
    expect((await makes({ expires_at: sooner })).json.expires_at).toBe(sooner);
    expect((await makes({})).json.expires_at).toBe(end);
    const { status, json } = await makes({ expires_at: later });
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      {
        field: "expires_at",
        fault: `is ${later}, after your own key expires`,
        expected: `${end} at the latest`,
      },
    ]);
  });

  it("outlives its revocation by less than a minute, and is gone from the API at once", async () => {
    const api = apiInTime();
    const { id, key } = await make(api);
    expect((await as(api, key)("GET", "/v1/destinations")).status).toBe(200);
    expect((await api.call("DELETE", `/v1/keys/${id}`)).status).toBe(204);
    api.pass(60_000);
    const answer = await as(api, key)("GET", "/v1/destinations");
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe('Bearer error="invalid_token"');
    expect((await api.call("GET", `/v1/keys/${id}`)).status).toBe(404);
    expect((await api.call("DELETE", `/v1/keys/${id}`)).status).toBe(404);
    expect((await api.call("GET", "/v1/keys")).json.data).toEqual([]);
  });

  it("is refused at once after its revocation by an isolate that has not cached it", async () => {
    const api = testApi();
    const { id, key } = await make(api);
    await api.call("DELETE", `/v1/keys/${id}`);
    expect((await as(testApi(), key)("GET", "/v1/destinations")).status).toBe(401);
  });

  it("costs one query while it is cached", async () => {
    let queries = 0;
    const db = {
      prepare: (sql: string) => {
        queries += 1;
        return env.DB.prepare(sql);
      },
    } as unknown as D1Database;
    const api = apiInTime({ services: { db } });
    const { key } = await make(api, { scopes: ["events:write"] });
    const refused = async () => expect((await as(api, key)("GET", "/v1/destinations")).status).toBe(403);
    await refused();
    queries = 0;
    await refused();
    await refused();
    expect(queries).toBe(0);
    api.pass(60_000);
    await refused();
    expect(queries).toBe(1);
  });

  it("with invalid scopes in its row allows nothing, and is shown without them", async () => {
    const api = testApi();
    const { id, key } = await make(api);
    await env.DB.prepare(`UPDATE api_keys SET scopes = '{"a": 1}'`).run();
    expect((await as(testApi(), key)("GET", "/v1/destinations")).status).toBe(403);
    expect((await api.call("GET", `/v1/keys/${id}`)).json.scopes).toEqual([]);
    await env.DB.prepare(`UPDATE api_keys SET scopes = 'read'`).run();
    expect((await as(testApi(), key)("GET", "/v1/destinations")).status).toBe(403);
    expect((await api.call("GET", `/v1/keys/${id}`)).json.scopes).toEqual([]);
    expect((await api.call("GET", "/v1/keys")).json.data[0].scopes).toEqual([]);
  });
});

describe("the last use of a key", () => {
  const lastUse = async (api: Api, id: string) => (await api.call("GET", `/v1/keys/${id}`)).json.last_used_at;

  it("is written once an hour at most", async () => {
    const api = apiInTime();
    const { id, key } = await make(api);
    const use = () => as(api, key)("GET", "/v1/destinations");
    await use();
    expect(await lastUse(api, id)).toBe(new Date(NOW).toISOString());
    api.pass(HOUR - 1);
    await use();
    expect(await lastUse(api, id)).toBe(new Date(NOW).toISOString());
    api.pass(1);
    await use();
    expect(await lastUse(api, id)).toBe(new Date(NOW + HOUR).toISOString());
  });

  it("is not written for a request with only the right id", async () => {
    const api = testApi();
    const { id, key } = await make(api);
    expect(claimedKey(key)).toBe(id);
    await as(api, keyToken(id, OTHER_SECRET))("GET", "/v1/destinations");
    expect(await lastUse(api, id)).toBe(null);
  });
});

describe("an admin key bound to a tenant", () => {
  async function acme(api: Api) {
    return as(api, (await make(api, { scopes: ["read", "admin"], tenant: "acme" })).key);
  }

  it("creates keys for its tenant only", async () => {
    const api = testApi();
    const call = await acme(api);
    expect((await call("POST", "/v1/keys", { scopes: ["read"] })).json.tenant).toBe("acme");
    expect((await call("POST", "/v1/keys", { scopes: ["read"], tenant: "acme" })).status).toBe(201);
    expect((await call("POST", "/v1/keys", { scopes: ["read"], tenant: "other" })).status).toBe(403);
    expect((await storedKeys()).map(({ tenant }) => tenant)).toEqual(["acme", "acme", "acme"]);
  });

  it("sees neither another tenant's keys nor those of the operator", async () => {
    const api = testApi();
    const call = await acme(api);
    for (const tenant of ["other", undefined]) {
      const { id } = await make(api, { tenant });
      expect((await call("GET", `/v1/keys/${id}`)).status).toBe(404);
      expect((await call("DELETE", `/v1/keys/${id}`)).status).toBe(404);
      expect((await api.call("GET", `/v1/keys/${id}`)).status).toBe(200);
    }
    expect((await call("GET", "/v1/keys")).json.data).toHaveLength(1);
    expect((await api.call("GET", "/v1/keys")).json.data).toHaveLength(3);
  });
});

describe("a key that creates keys", () => {
  it.each([
    [["admin"], ["read"], "read"],
    [["admin"], ["admin", "events:write", "read"], "events:write, read"],
    [["admin", "read"], ["read", "events:write"], "events:write"],
  ])("with the scopes %j grants no others: %j", async (own, wanted, lacking) => {
    for (const tenant of ["acme", undefined]) {
      const api = testApi();
      const call = as(api, (await make(api, { scopes: own, tenant })).key);
      const before = (await storedKeys()).length;
      const { status, json } = await call("POST", "/v1/keys", { scopes: wanted });
      expect([status, json.errors]).toEqual([
        403,
        [
          {
            field: "scopes",
            fault: `grants ${lacking}, which your key lacks`,
            expected: expect.stringMatching(/^only scopes that your key has: /),
          },
        ],
      ]);
      expect(await storedKeys()).toHaveLength(before);
      expect((await call("POST", "/v1/keys", { scopes: own })).status).toBe(201);
    }
  });

  it("cannot create portal links with a scope that it lacks", async () => {
    const api = testApi();
    const call = as(api, (await make(api, { scopes: ["admin"], tenant: "acme" })).key);
    const { status, json } = await call("POST", "/v1/portal-links", { tenant: "acme" });
    expect([status, json.errors[0].field]).toEqual([403, "read_only"]);
  });
});

describe("GET /v1/keys", () => {
  it("lists the keys of one tenant, and for a tenant's key only that one's", async () => {
    const api = testApi();
    const own = await make(api, { tenant: "acme", scopes: ["read", "admin"] });
    await make(api, { tenant: "other" });
    await make(api);
    const idsOf = async (call: Api["call"], query = "") =>
      (await call("GET", `/v1/keys${query}`)).json.data.map(({ id }: { id: string }) => id);
    expect(await idsOf(api.call, "?tenant=acme")).toEqual([own.id]);
    expect(await idsOf(as(api, own.key), "?tenant=acme")).toEqual([own.id]);
    expect((await as(api, own.key)("GET", "/v1/keys?tenant=other")).status).toBe(403);
    expect((await api.call("GET", "/v1/keys?tenant=a%20b")).status).toBe(422);
  });

  it("lists all keys page by page", async () => {
    const api = testApi();
    const made = [await make(api), await make(api), await make(api)].map(({ id }) => id);
    const first = (await api.call("GET", "/v1/keys?limit=2")).json;
    const second = (await api.call("GET", `/v1/keys?limit=2&cursor=${first.next_cursor}`)).json;
    expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(made.sort());
    expect(second.next_cursor).toBe(null);
  });

  it("answers 404 to an unknown id", async () => {
    const api = testApi();
    expect((await api.call("GET", `/v1/keys/${UNKNOWN}`)).status).toBe(404);
    expect((await api.call("DELETE", "/v1/keys/x")).status).toBe(404);
  });
});

describe("posting with a key", () => {
  const event = { type: "a", data: 1 };
  const limited = (limit: RateLimit["limit"]) =>
    testApi({ services: { ingestLimit: { limit } as RateLimit } });

  it.each([
    ["/v1/events", event],
    ["/v1/events/batch", { events: [event] }],
  ])("is limited at %s, with Retry-After", async (path, body) => {
    const asked: unknown[] = [];
    const api = limited(async (options) => {
      asked.push(options);
      return { success: false };
    });
    const { id, key } = await make(api, { scopes: ["events:write", "read"] });
    const answer = await as(api, key)("POST", path, body);
    expect(answer).toMatchObject({ status: 429, json: { type: "/problems/too-many-requests" } });
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(asked).toEqual([{ key: id }]);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM events").first("n")).toBe(0);
    expect((await as(api, key)("GET", "/v1/destinations")).status).toBe(200);
    expect((await api.call("POST", path, body)).status).toBe(202);
  });

  it("is not limited while the limiter fails", async () => {
    const api = limited(() => Promise.reject(new Error("away")));
    const { key } = await make(api, { scopes: ["events:write"] });
    expect((await as(api, key)("POST", "/v1/events", event)).status).toBe(202);
    expect(api.log).toContainEqual({ what: "ingest_limit_unreachable", fault: "Error: away" });
  });

  it("is counted by the real binding too", async () => {
    const api = testApi();
    const { key } = await make(api, { scopes: ["events:write"] });
    expect((await as(api, key)("POST", "/v1/events", event)).status).toBe(202);
    const { INGEST_LIMIT } = env as unknown as { INGEST_LIMIT: RateLimit };
    expect(await INGEST_LIMIT.limit({ key: "somebody" })).toEqual({ success: true });
  });
});

describe("reading with a key", () => {
  const limited = (limit: RateLimit["limit"]) => testApi({ services: { readLimit: { limit } as RateLimit } });

  it.each([
    "/v1/deliveries?state=cancelled",
    "/v1/stats",
    "/v1/keys",
    "/metrics",
  ])("is limited at %s, with Retry-After, and other keys are not", async (path) => {
    const asked: unknown[] = [];
    const api = limited(async (options) => {
      asked.push(options);
      return { success: false };
    });
    const { id, key } = await make(api, { scopes: ["events:write", "read", "admin"] });
    const answer = await as(api, key)("GET", path);
    expect(answer).toMatchObject({ status: 429, json: { type: "/problems/too-many-requests" } });
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    const headers = { authorization: `Bearer ${key}` };
    const context = { waitUntil: () => {} } as unknown as ExecutionContext;
    expect((await api.app.request(path, { method: "HEAD", headers }, env, context)).status).toBe(429);
    expect(asked).toEqual([{ key: id }, { key: id }]);
    expect((await as(api, key)("POST", "/v1/events", { type: "a", data: 1 })).status).toBe(202);
    expect((await api.call("GET", "/v1/keys")).status).toBe(200);
  });

  it("is not limited while the limiter fails", async () => {
    const api = limited(() => Promise.reject(new Error("away")));
    const { key } = await make(api, { scopes: ["read"] });
    expect((await as(api, key)("GET", "/v1/deliveries")).status).toBe(200);
    expect(api.log).toContainEqual({ what: "read_limit_unreachable", fault: "Error: away" });
  });
});

it("a revoked key's row stays, so that its id is never reused", async () => {
  const row = { id: UNKNOWN, scopes: ["read"], hash: "x", created_at: 0 };
  await insertRow("api_keys", row);
  await testApi().call("DELETE", `/v1/keys/${UNKNOWN}`);
  expect(await storedKeys()).toMatchObject([{ id: UNKNOWN, revoked_at: NOW }]);
});
