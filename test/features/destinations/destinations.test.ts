import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { countRows, emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";
import { vault } from "../../support/vault.ts";

const URL_ = "https://example.com/hook";

/** An object with a key of its own that is called `__proto__`. */
const ownProto = (value: unknown) => JSON.parse(`{"__proto__":${JSON.stringify(value)}}`);

const defaults = {
  tenant: "default",
  kind: "https",
  url: URL_,
  uid: null,
  status: "active",
  status_reason: null,
  event_types: null,
  channels: null,
  filter: null,
  body: "envelope",
  template: null,
  transform: null,
  event_versions: {},
  description: null,
  metadata: {},
  headers: {},
  auth: null,
  signature: "hmac-sha256",
  secret_version: 1,
  previous_secrets: [],
  signature_forms: null,
  timeout_ms: 15_000,
  max_concurrency: 10,
  rate_per_second: 100,
  rate_burst: 100,
  group: null,
  ordering: null,
  ordering_path: null,
  on_dead: "skip",
  retry: null,
  breaker: { failure_ratio: 0.5, min_attempts: 5, window_s: 60, cooldown_s: 30, max_cooldown_s: 45 },
  created_at: "2026-11-21T09:00:00.000Z",
  updated_at: "2026-11-21T09:00:00.000Z",
};

const everything = {
  url: "https://example.com/other?x=1",
  tenant: "acme:eu-1",
  uid: "orders.eu",
  channels: ["eu", "project-42"],
  event_types: ["invoice.paid", "order.*", "*"],
  filter: { "order.total": { gte: 100, not: [5, null] }, "order.status": "paid" },
  description: "Orders",
  metadata: { owner: "ops" },
  headers: { authorization: "Bearer abc", "x-team": "a b" },
  signature_forms: [{ form: "stripe" }],
  timeout_ms: 5000,
  max_concurrency: 3,
  rate_per_second: 0.5,
  rate_burst: 7,
  ordering: "key",
  ordering_path: "data.order_id",
  on_dead: "hold",
  retry: { preset: "svix", max_attempts: 3 },
  breaker: { failure_ratio: 0.25, min_attempts: 9, window_s: 10, cooldown_s: 20, max_cooldown_s: 40 },
};

/** As it is shown. */
const shownEverything = { ...everything, headers: { authorization: "***", "x-team": "***" } };

type Call = ReturnType<typeof testApi>["call"];

async function create(call: Call, fields: object = {}): Promise<string> {
  const { status, json } = await call("POST", "/v1/destinations", { url: URL_, ...fields });
  expect(status).toBe(201);
  return json.id;
}

const whsk = (bytes: number) => `whsk_${btoa("k".repeat(bytes))}`;
const whsec = (bytes: number) => `whsec_${btoa("k".repeat(bytes))}`;

beforeEach(emptyDatabase);

describe("POST /v1/destinations", () => {
  it("creates a destination with every default, and shows its secret only then", async () => {
    const { call } = testApi();
    const { status, json } = await call("POST", "/v1/destinations", { url: URL_ });
    const { id, secret, ...rest } = json;
    expect(status).toBe(201);
    expect(id).toMatch(/^dst_[0-9a-z]{20}$/);
    expect(atob(secret.replace(/^whsec_/, ""))).toHaveLength(24);
    expect(rest).toEqual(defaults);
    const shown = await call("GET", `/v1/destinations/${id}`);
    expect(shown.json).toEqual({ id, ...defaults });
    expect(shown.text).not.toContain("whsec_");
    const stored = await env.DB.prepare("SELECT secret FROM destinations").first<string>("secret");
    expect(stored).not.toContain(secret.slice(6));
    expect(await vault.unseal(id, stored ?? "")).toBe(secret);
  });

  it("accepts every field", async () => {
    const { call } = testApi();
    const secret = whsec(32);
    const { json } = await call("POST", "/v1/destinations", { ...everything, secret });
    expect(json).toMatchObject({ ...shownEverything, secret });
    expect((await call("GET", `/v1/destinations/${json.id}`)).json).toMatchObject(shownEverything);
  });

  it("accepts null for every optional field", async () => {
    const optional = Object.keys(everything).filter((field) => !["url", "tenant"].includes(field));
    const nulls = Object.fromEntries([...optional, "secret"].map((field) => [field, null]));
    const { json } = await testApi().call("POST", "/v1/destinations", { url: URL_, ...nulls });
    expect(json).toMatchObject(defaults);
    expect(json.secret).toMatch(/^whsec_/);
  });

  it("makes an ed25519 key on request, and shows only its public half", async () => {
    const { call } = testApi();
    const { status, json, text } = await call("POST", "/v1/destinations", {
      url: URL_,
      signature: "ed25519",
    });
    expect(status).toBe(201);
    expect(json).toMatchObject({ signature: "ed25519", public_key: expect.stringMatching(/^whpk_.{44}$/) });
    expect(json).not.toHaveProperty("secret");
    expect(text).not.toContain("whsk_");
    expect((await call("GET", `/v1/destinations/${json.id}`)).json).toMatchObject({ signature: "ed25519" });
  });

  it("accepts an ed25519 key of the caller's own, and does not show it again", async () => {
    const { call } = testApi();
    const secret = whsk(32);
    const { json, text } = await call("POST", "/v1/destinations", { url: URL_, secret });
    expect(json.signature).toBe("ed25519");
    expect(text).not.toContain(secret.slice(5));
    const stored = await env.DB.prepare("SELECT secret FROM destinations").first<string>("secret");
    expect(await vault.unseal(json.id, stored ?? "")).toBe(secret);
  });

  it("creates one destination under an idempotency key, however often it is posted, and names it", async () => {
    const { call } = testApi();
    const headers = { "idempotency-key": "signup 7" };
    const post = (tenant: string) => call("POST", "/v1/destinations", { url: URL_, tenant }, headers);
    const { json } = await post("acme");
    const again = await post("acme");
    expect([again.status, again.headers.get("location")]).toEqual([409, `/v1/destinations/${json.id}`]);
    expect(again.json.errors).toEqual([
      {
        field: "idempotency-key",
        fault: `was used before: it created ${json.id}`,
        expected: "a new key for another destination",
      },
    ]);
    expect(again.text).not.toContain("whsec_");
    const other = await post("beta");
    expect([other.status, other.json.id === json.id]).toEqual([201, false]);
    await call("DELETE", `/v1/destinations/${json.id}`);
    expect((await post("acme")).status).toBe(409);
    expect(await countRows("destinations")).toBe(2);
  });

  it("creates a paused one that has never been active", async () => {
    let now = NOW;
    const { call, gateCalls } = testApi({ services: { now: () => now++ } });
    const { status, json } = await call("POST", "/v1/destinations", { url: URL_, status: "paused" });
    expect([status, json]).toMatchObject([201, { status: "paused", status_reason: "manual" }]);
    expect((await call("GET", `/v1/destinations/${json.id}`)).json.status).toBe("paused");
    // Everything after its creation happens at a later time.
    const changedAt = "SELECT status_changed_at AS at FROM destinations";
    expect(await env.DB.prepare(changedAt).first("at")).toBe(Date.parse(json.created_at));
    expect(gateCalls).toEqual([]);
    expect((await call("POST", `/v1/destinations/${json.id}/resume`)).json.status).toBe("active");
  });

  it("refuses an unknown status", async () => {
    const { status, json } = await testApi().call("POST", "/v1/destinations", { url: URL_, status: "off" });
    expect([status, json.errors[0].field]).toEqual([422, "status"]);
  });

  it("refuses a uid that another of the tenant has, and frees it with the other's deletion", async () => {
    const { call } = testApi();
    const post = (tenant: string, headers = {}) =>
      call("POST", "/v1/destinations", { url: URL_, tenant, uid: "orders" }, headers);
    const { json } = await post("acme");
    for (const headers of [{}, { "idempotency-key": "k" }]) {
      const again = await post("acme", headers);
      expect(again).toMatchObject({
        status: 409,
        json: { errors: [{ field: "uid", fault: `is that of ${json.id}` }] },
      });
    }
    expect((await post("beta")).status).toBe(201);
    expect(await countRows("destinations")).toBe(2);
    await call("DELETE", `/v1/destinations/${json.id}`);
    expect((await post("acme")).status).toBe(201);
  });

  it("makes a new secret for each destination", async () => {
    const { call } = testApi();
    const [a, b] = [
      await call("POST", "/v1/destinations", { url: URL_ }),
      await call("POST", "/v1/destinations", { url: URL_ }),
    ];
    expect(a.json.secret).not.toBe(b.json.secret);
  });

  const invalid: readonly (readonly [object, string, string, string])[] = [
    [{ url: undefined }, "url", "is missing", "https"],
    [{ url: 7 }, "url", "is 7", "https"],
    [{ url: "http://example.com/" }, "url", "is not encrypted", "https"],
    [{ url: "https://2130706433/" }, "url", "points to 127.0.0.1", "public internet"],
    [{ url: "https://u:p@example.com/" }, "url", "contains credentials", "headers"],
    [{ url: "https://8.8.8.8/" }, "url", "points to the IP address 8.8.8.8", "a host name"],
    [
      { url: "https://example.com:5060/" },
      "url",
      "uses port 5060, which the Fetch standard blocks",
      "a port of an HTTP server",
    ],
    [{ tenant: "a b" }, "tenant", 'is "a b"', "1 to 64"],
    [{ tenant: "a".repeat(65) }, "tenant", "is a string of 65 characters", "1 to 64"],
    [{ tenant: null }, "tenant", "is null", "1 to 64"],
    [{ event_types: [] }, "event_types", "is a list of 0", "1 to 100"],
    [{ event_types: "a" }, "event_types", 'is "a"', "1 to 100"],
    [{ event_types: Array(101).fill("a") }, "event_types", "is a list of 101", "1 to 100"],
    [{ event_types: ["a", "*.b"] }, "event_types[1]", 'is "*.b"', "prefix"],
    [{ event_types: ["a*"] }, "event_types[0]", 'is "a*"', "prefix"],
    [{ event_types: ["a.*.b"] }, "event_types[0]", 'is "a.*.b"', "prefix"],
    [{ event_types: [".*"] }, "event_types[0]", 'is ".*"', "prefix"],
    [{ event_types: [`${"a".repeat(127)}.*`] }, "event_types[0]", "is a string of 129 characters", "128"],
    [{ description: 5 }, "description", "is 5", "a string"],
    [{ description: "x".repeat(501) }, "description", "is a string of 501 characters", "500"],
    [{ metadata: { a: 1 } }, "metadata.a", "is 1", "strings"],
    [{ metadata: [] }, "metadata", "is a list of 0", "50 keys"],
    [
      { metadata: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`k${i}`, "v"])) },
      "metadata",
      "is an object",
      "50 keys",
    ],
    [{ headers: { "x y": "1" } }, "headers.x y", 'has the name "x y"', "token"],
    [{ headers: { "": "1" } }, "headers.", 'has the name ""', "token"],
    [{ headers: { "x-a": "a\r\nb: c" } }, "headers.x-a", "is a string of 7 characters", "printable"],
    [{ headers: { "x-a": " a" } }, "headers.x-a", "is a string of 2 characters", "printable"],
    [{ headers: { "x-a": "ä" } }, "headers.x-a", "is a string of 1 characters", "printable"],
    [{ headers: { "x-a": 1 } }, "headers.x-a", "is a number", "printable"],
    [{ headers: { "x-a": "***" } }, "headers.x-a", "is a string of 3 characters", "the value itself"],
    [{ headers: { Host: "a" } }, "headers.Host", 'has the name "Host"', "sets itself"],
    [{ headers: { "Webhook-Id": "a" } }, "headers.Webhook-Id", 'has the name "Webhook-Id"', "sets itself"],
    ...["cf-connecting-ip", "CF-Worker", "CDN-Loop", "X-Forwarded-For", "x-forwarded-proto", "X-Real-IP"].map(
      (name) => {
        const fault = `has the name "${name}"`;
        return [
          { headers: { [name]: "a" } },
          `headers.${name}`,
          fault,
          "cf-*, cdn-loop, x-forwarded-*, x-real-ip",
        ] as const;
      },
    ),
    [{ headers: { "x-a": "1", "X-A": "2" } }, "headers", "is an object", "named once"],
    ...(["headers", "metadata", "filter"] as const).map(
      (field) =>
        [
          { [field]: ownProto("a long value") },
          `${field}.__proto__`,
          'has the name "__proto__"',
          "another name",
        ] as const,
    ),
    [{ filter: { or: [ownProto(1)] } }, "filter.or[0].__proto__", 'has the name "__proto__"', "another name"],
    [{ headers: { __Proto__: "1" } }, "headers.__Proto__", 'has the name "__Proto__"', "token"],
    [
      { auth: { kind: "header", header: "__proto__", value: "secret-value" } },
      "auth.header",
      "is a string of 9 characters",
      "token",
    ],
    [
      {
        auth: {
          ...{
            kind: "oauth2",
            token_url: "https://id.example.com/token",
            client_id: "a",
            client_secret: "b",
          },
          params: ownProto("a"),
        },
      },
      "auth.params.__proto__",
      'has the name "__proto__"',
      "another name",
    ],
    ...["signature_header", "timestamp_header", "id_header", "type_header"].map(
      (field) =>
        [
          {
            signature_forms: [
              { form: "template", content: "{body}", signature_header: "x-signature", [field]: "__PROTO__" },
            ],
          },
          `signature_forms[0].${field}`,
          'is "__PROTO__"',
          "token",
        ] as const,
    ),
    [
      { headers: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`x-${i}`, "v"])) },
      "headers",
      "is an object",
      "at most 20",
    ],
    [{ secret: "whsec_abc" }, "secret", "is a string of 9 characters", "24 to 64"],
    [{ secret: whsec(23) }, "secret", "is a string of 38 characters", "24 to 64"],
    [{ secret: whsec(65) }, "secret", "is a string of 94 characters", "24 to 64"],
    [{ secret: whsec(24).slice(6) }, "secret", "is a string of 32 characters", "whsec_"],
    [{ secret: 7 }, "secret", "is a number", "whsec_"],
    [{ secret: whsk(33) }, "secret", "is a string of 49 characters", "an ed25519 key"],
    [{ secret: whsk(64) }, "secret", "joins halves of different keys", "an ed25519 key"],
    [{ secret: whsec(24), signature: "ed25519" }, "secret", "is for hmac-sha256", "one for ed25519"],
    [{ secret: whsk(32), signature: "hmac-sha256" }, "secret", "is for ed25519", "one for hmac-sha256"],
    [{ template: "fax" }, "template", 'is "fax"', "one of slack, discord, teams, pagerduty, svix"],
    [{ template: "slack" }, "template", "is slack", "only destinations of the tenant operator"],
    [
      { template: "pagerduty", tenant: "operator" },
      "headers",
      "have no x-routing-key",
      "a header x-routing-key with the integration key",
    ],
    [{ signature: "rsa" }, "signature", 'is "rsa"', "one of hmac-sha256, ed25519"],
    [{ timeout_ms: 99 }, "timeout_ms", "is 99", "a whole number from 100 to 25000"],
    [{ timeout_ms: 25001 }, "timeout_ms", "is 25001", "a whole number from 100 to 25000"],
    [{ timeout_ms: 1000.5 }, "timeout_ms", "is 1000.5", "a whole number from 100 to 25000"],
    [{ max_concurrency: 0 }, "max_concurrency", "is 0", "a whole number from 1 to 1000"],
    [{ max_concurrency: "10" }, "max_concurrency", 'is "10"', "a whole number from 1 to 1000"],
    [{ rate_per_second: 0 }, "rate_per_second", "is 0", "a number from 0.01 to 10000"],
    [{ rate_burst: 100_001 }, "rate_burst", "is 100001", "a whole number from 1 to 100000"],
    [{ breaker: 1 }, "breaker", "is 1", "an object of failure_ratio"],
    [{ breaker: { failure_ratio: 1.1 } }, "breaker.failure_ratio", "is 1.1", "a number from 0.05 to 1"],
    [
      { breaker: { cooldown: 3 } },
      "breaker.cooldown",
      "is not a known field (did you mean cooldown_s?)",
      "one of failure_ratio",
    ],
    [{ breaker: { cooldown_s: 46 } }, "breaker.max_cooldown_s", "is 45", "at least the cooldown_s of 46"],
    [
      { breaker: { cooldown_s: 9, max_cooldown_s: 8 } },
      "breaker.max_cooldown_s",
      "is 8",
      "at least the cooldown_s of 9",
    ],
    [{ retry: { preset: "hourly" } }, "retry.preset", 'is "hourly"', "one of breakwater"],
    [{ retry: { max_attempts: 0 } }, "retry.max_attempts", "is 0", "from 1 to 100"],
    [{ retry: { schedule: [5, 0] } }, "retry.schedule[1]", "is 0", "seconds from 1"],
    [{ retry: { base: 5 } }, "retry.factor", "is missing", "base, factor and cap together"],
    [{ retry: { tries: 5 } }, "retry.tries", "is not a known field", "one of preset"],
    [{ status_reason: "gone" }, "status_reason", "is not a known field", "one of url, tenant"],
    [{ id: "dst_1" }, "id", "is not a known field", "one of url, tenant"],
  ];

  const cases = invalid.map(([fields, field, fault, expected]) => ({ fields, field, fault, expected }));
  it.each(cases)("refuses a $field that $fault and takes $expected", async ({
    fields,
    field,
    fault,
    expected,
  }) => {
    const { status, json } = await testApi().call("POST", "/v1/destinations", { url: URL_, ...fields });
    expect(status).toBe(422);
    expect(json.errors).toContainEqual({ field, fault, expected: expect.stringContaining(expected) });
    expect(await countRows("destinations")).toBe(0);
  });

  it("lists the errors of the URL and of the other fields together", async () => {
    const body = { url: "http://localhost/", timeout_ms: 1, color: "red" };
    const { json } = await testApi().call("POST", "/v1/destinations", body);
    expect(json.errors.map(({ field }: { field: string }) => field).sort()).toEqual([
      "color",
      "timeout_ms",
      "url",
    ]);
  });

  describe("that leads back to the deployment itself", () => {
    const own = "https://breakwater.example.com";
    const fault = "points to breakwater.example.com, this deployment itself";
    const errors = [{ field: "url", fault, expected: expect.stringContaining("another host") }];
    const refusal = { status: 422, json: { errors } };

    it.each([
      `${own}/v1/events`,
      "https://Breakwater.example.com./",
      "https://breakwater.example.com:8443/",
    ])("is refused by the host that the request came to: %s", async (url) => {
      const { call } = testApi();
      expect(await call("POST", `${own}/v1/destinations`, { url })).toMatchObject(refusal);
      expect(await countRows("destinations")).toBe(0);
      const id = await create(call, {});
      expect(await call("PATCH", `${own}/v1/destinations/${id}`, { url })).toMatchObject(refusal);
      expect((await call("POST", `${own}/v1/destinations`, { url: URL_ })).status).toBe(201);
    });

    it("is refused by OWN_HOSTS, whatever host the request came to", async () => {
      const { call } = testApi({
        services: { config: testConfig({ ownHosts: ["breakwater.example.com"] }) },
      });
      expect(await call("POST", "/v1/destinations", { url: own })).toMatchObject(refusal);
    });

    it("is refused on the previews of the Worker, by what their hosts end with", async () => {
      const preview = "https://0a1b2c3d-hooks.acme.workers.dev/";
      const at = "https://hooks.acme.workers.dev/v1/destinations";
      const refused = { status: 422, json: { errors: [{ field: "url" }] } };
      expect(await testApi().call("POST", at, { url: preview })).toMatchObject(refused);
      const config = testConfig({ ownHosts: ["*-hooks.acme.workers.dev"] });
      const { call } = testApi({ services: { config } });
      expect(await call("POST", "/v1/destinations", { url: preview })).toMatchObject(refused);
      for (const other of ["https://0a1b-other.acme.workers.dev/", "https://hooks.acme.workers.dev/"])
        expect((await call("POST", "/v1/destinations", { url: other })).status).toBe(201);
    });

    it("is distinguished by the port from another server of the same machine, on a local stack", async () => {
      const config = testConfig({ allowPrivateDestinations: true });
      const { call } = testApi({ services: { config }, authenticate: async () => ({ scopes: ["admin"] }) });
      const post = (url: string) => call("POST", "http://localhost:8787/v1/destinations", { url });
      expect((await post("http://localhost:8788/")).status).toBe(201);
      expect(await post("http://localhost:8787/v1/events")).toMatchObject({
        status: 422,
        json: { errors: [{ field: "url", fault: "points to localhost, this deployment itself" }] },
      });
    });
  });

  it("accepts private addresses if the deployment allows them", async () => {
    const config = testConfig({ allowPrivateDestinations: true });
    const { call } = testApi({ services: { config }, authenticate: async () => ({ scopes: ["admin"] }) });
    expect((await call("POST", "/v1/destinations", { url: "http://127.0.0.1:8788/" })).status).toBe(201);
  });

  it("refuses a host name that leads to a private address, at creation and at a change, if there is a resolver", async () => {
    const dns = (async (url: string) => {
      const { searchParams } = new URL(url);
      if (searchParams.get("name") === "unknown.example.com") throw new Error("away");
      const data = searchParams.get("name") === "inside.example.com" ? "10.0.0.1" : "93.184.215.14";
      const Answer = searchParams.get("type") === "1" ? [{ type: 1, TTL: 60, data }] : [];
      return Response.json({ Status: 0, Answer });
    }) as unknown as typeof fetch;
    const config = testConfig({ dnsResolver: "https://dns.example/" });
    const { call } = testApi({ services: { config, fetch: dns } });
    const errors = [
      { field: "url", fault: "leads to 10.0.0.1", expected: expect.stringContaining("public") },
    ];
    const inside = { url: "https://inside.example.com/" };
    expect(await call("POST", "/v1/destinations", inside)).toMatchObject({ status: 422, json: { errors } });
    expect(await countRows("destinations")).toBe(0);
    const id = await create(call, { url: "https://outside.example.com/" });
    expect(await call("PATCH", `/v1/destinations/${id}`, inside)).toMatchObject({
      status: 422,
      json: { errors },
    });
    expect((await call("GET", `/v1/destinations/${id}`)).json.url).toBe("https://outside.example.com/");
    await create(call, { url: "https://unknown.example.com/" });
  });

  it.each([
    ["{", 400],
    ["[]", 400],
    ["", 400],
  ])("refuses the body %j", async (body, status) => {
    expect((await testApi().call("POST", "/v1/destinations", body)).status).toBe(status);
    expect(await countRows("destinations")).toBe(0);
  });
});

describe("GET /v1/destinations", () => {
  it("lists all destinations in pages, each once", async () => {
    const { call } = testApi();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await create(call));
    const seen: string[] = [];
    let cursor: string | null = "";
    let pages = 0;
    while (cursor !== null && pages++ < 10) {
      const { json }: { json: { data: { id: string }[]; next_cursor: string | null } } = await call(
        "GET",
        `/v1/destinations?limit=2${cursor && `&cursor=${cursor}`}`,
      );
      seen.push(...json.data.map(({ id }) => id));
      cursor = json.next_cursor;
    }
    expect(seen).toEqual([...ids].sort());
    expect(pages).toBe(3);
  });

  it("ends a page that is exactly full without a cursor", async () => {
    const { call } = testApi();
    await create(call);
    await create(call);
    expect((await call("GET", "/v1/destinations?limit=2")).json).toMatchObject({
      data: [{}, {}],
      next_cursor: null,
    });
  });

  it("filters by tenant, and hides secrets and deleted ones", async () => {
    const { call } = testApi();
    const wanted = await create(call, { tenant: "acme" });
    await create(call);
    await call("DELETE", `/v1/destinations/${await create(call, { tenant: "acme" })}`);
    const { json, text } = await call("GET", "/v1/destinations?tenant=acme");
    expect(json.data.map(({ id }: { id: string }) => id)).toEqual([wanted]);
    expect(text).not.toContain("whsec_");
  });

  it("shows the names of headers, but never their values", async () => {
    const { call } = testApi();
    const id = await create(call, { headers: { authorization: "Bearer abc" } });
    for (const path of ["/v1/destinations", `/v1/destinations/${id}`]) {
      const { text } = await call("GET", path);
      expect(text).not.toContain("abc");
      expect(text).toContain('"authorization":"***"');
    }
    await env.DB.prepare(`UPDATE destinations SET headers = '{"x-plain":"abc"}'`).run();
    const { text } = await call("GET", `/v1/destinations/${id}`);
    expect(text).not.toContain("abc");
    expect(text).toContain('"headers":{"x-plain":"***"}');
  });

  it("stores headers sealed, and a change replaces plain ones", async () => {
    const { call } = testApi();
    const id = await create(call, { headers: { authorization: "Bearer abc" } });
    const stored = async () => {
      const row = await env.DB.prepare("SELECT headers, sealed_headers FROM destinations").first();
      return [row?.headers, JSON.parse(String(row?.sealed_headers))];
    };
    const [plain, sealed] = await stored();
    expect([plain, Object.keys(sealed)]).toEqual([null, ["authorization"]]);
    expect(await vault.openText(id, "header", sealed.authorization)).toBe("Bearer abc");
    await env.DB.prepare(`UPDATE destinations SET headers = '{"x-plain":"abc"}'`).run();
    await call("PATCH", `/v1/destinations/${id}`, { description: "x" });
    expect(await stored()).toEqual(['{"x-plain":"abc"}', sealed]);
    await call("PATCH", `/v1/destinations/${id}`, { headers: { "x-new": "def" } });
    expect(await stored()).toEqual([null, { "x-new": expect.stringMatching(/^header\.test\./) }]);
    await call("PATCH", `/v1/destinations/${id}`, { headers: null });
    expect(await stored()).toEqual([null, null]);
  });

  it.each([
    ["limit=0", "limit", 'is "0"', "1 to 100"],
    ["limit=101", "limit", 'is "101"', "1 to 100"],
    ["limit=ten", "limit", 'is "ten"', "1 to 100"],
    ["cursor=nonsense", "cursor", 'is "nonsense"', "next_cursor"],
    [`cursor=${btoa('"evt_1"')}`, "cursor", expect.any(String), "next_cursor"],
    ["tenant=a/b", "tenant", 'is "a/b"', "1 to 64"],
    ["state=dead", "state", "is not a known field", "tenant, limit, cursor"],
  ])("refuses ?%s", async (query, field, fault, expected) => {
    const { status, json } = await testApi().call("GET", `/v1/destinations?${query}`);
    expect(status).toBe(422);
    expect(json.errors).toEqual([{ field, fault, expected: expect.stringContaining(expected) }]);
  });
});

describe("a destination of the operator", () => {
  const page = { url: "https://events.pagerduty.com/v2/enqueue", tenant: "operator", template: "pagerduty" };

  it("has a template, until it is reset", async () => {
    const { call } = testApi();
    const id = await create(call, { ...page, headers: { "X-Routing-Key": "k".repeat(32) } });
    const { json } = await call("GET", `/v1/destinations/${id}`);
    expect(json).toMatchObject({ template: "pagerduty", headers: { "X-Routing-Key": "***" } });
    const taken = await call("PATCH", `/v1/destinations/${id}`, { headers: null });
    expect(taken.json.errors).toMatchObject([{ field: "headers", fault: "have no x-routing-key" }]);
    const reset = await call("PATCH", `/v1/destinations/${id}`, { headers: null, template: null });
    expect(reset.json).toMatchObject({ template: null, headers: {} });
  });
});

describe("PATCH /v1/destinations/:id", () => {
  it("resets the gate when the URL changes, and only then", async () => {
    const { call, gateCalls } = testApi();
    const { json } = await call("POST", "/v1/destinations", { url: "https://example.com/old" });
    await call("PATCH", `/v1/destinations/${json.id}`, { url: "https://example.com/old", timeout_ms: 900 });
    expect(gateCalls).toEqual([]);
    await call("PATCH", `/v1/destinations/${json.id}`, { url: "https://example.com/new" });
    expect(gateCalls).toEqual([`resume ${json.id}`]);
  });

  it("changes the given fields and nothing else", async () => {
    const { call } = testApi();
    const id = await create(call, everything);
    const secret = await env.DB.prepare("SELECT secret FROM destinations").first("secret");
    const later = testApi({ services: { now: () => Date.parse("2026-11-21T10:00:00Z") } });
    const { status, json } = await later.call("PATCH", `/v1/destinations/${id}`, {
      max_concurrency: 4,
      breaker: { window_s: 11 },
    });
    expect(status).toBe(200);
    const expected = {
      ...shownEverything,
      max_concurrency: 4,
      breaker: { ...everything.breaker, window_s: 11 },
      created_at: "2026-11-21T09:00:00.000Z",
      updated_at: "2026-11-21T10:00:00.000Z",
    };
    expect(json).toMatchObject(expected);
    expect((await call("GET", `/v1/destinations/${id}`)).json).toMatchObject(expected);
    expect(await env.DB.prepare("SELECT secret FROM destinations").first("secret")).toBe(secret);
  });

  it("resets every optional field with null", async () => {
    const { call } = testApi();
    const id = await create(call, everything);
    const { url, tenant, ...optional } = everything;
    const nulls = Object.fromEntries(Object.keys(optional).map((field) => [field, null]));
    const { json } = await call("PATCH", `/v1/destinations/${id}`, nulls);
    const { updated_at: updatedAt, ...before } = defaults;
    expect(json).toEqual({ id, ...before, url, tenant, updated_at: expect.any(String) });
    expect(Date.parse(json.updated_at), "later than before").toBeGreaterThan(Date.parse(updatedAt));
  });

  it("resets one field of the breaker with null", async () => {
    const { call } = testApi();
    const id = await create(call, everything);
    const { json } = await call("PATCH", `/v1/destinations/${id}`, { breaker: { min_attempts: null } });
    expect(json.breaker).toEqual({ ...everything.breaker, min_attempts: 5 });
  });

  it("replaces the retry policy whole", async () => {
    const { call } = testApi();
    const id = await create(call, everything);
    expect((await call("PATCH", `/v1/destinations/${id}`, { retry: { jitter: "full" } })).json.retry).toEqual(
      { jitter: "full" },
    );
  });

  it("accepts an empty change", async () => {
    const { call } = testApi();
    const id = await create(call, everything);
    expect(await call("PATCH", `/v1/destinations/${id}`, {})).toMatchObject({
      status: 200,
      json: shownEverything,
    });
  });

  it.each([
    [{ tenant: "other" }, "tenant", "is not a known field"],
    [{ secret: whsec(24) }, "secret", "is not a known field"],
    [{ status: "paused" }, "status", "is not a known field"],
    [{ url: null }, "url", "is null"],
    [{ url: "https://10.0.0.1/" }, "url", "points to 10.0.0.1"],
    [{ timeout_ms: 0 }, "timeout_ms", "is 0"],
    [{ breaker: { cooldown_s: 41 } }, "breaker.max_cooldown_s", "is 40"],
    [{ breaker: { max_cooldown_s: 19 } }, "breaker.max_cooldown_s", "is 19"],
    [{ retry: { cap: 5, base: 6, factor: 2 } }, "retry.cap", "is 5"],
  ])("refuses %j and changes nothing", async (change, field, fault) => {
    const { call } = testApi();
    const id = await create(call, everything);
    const { status, json } = await call("PATCH", `/v1/destinations/${id}`, {
      description: "changed",
      ...change,
    });
    expect(status).toBe(422);
    expect(json.errors).toEqual([expect.objectContaining({ field, fault })]);
    expect((await call("GET", `/v1/destinations/${id}`)).json).toMatchObject(shownEverything);
  });
});

describe("two changes at the same time", () => {
  const slowAt = (sql: string, hold: Promise<void>): D1Database =>
    new Proxy(env.DB, {
      get: (db, name) =>
        name === "prepare"
          ? (text: string) => (text.startsWith(sql) ? late(db.prepare(text), hold) : db.prepare(text))
          : Reflect.get(db, name).bind(db),
    });

  /** A statement that waits before it is carried out. */
  const late = (statement: D1PreparedStatement, hold: Promise<void>): D1PreparedStatement =>
    new Proxy(statement, {
      get: (inner, name) => {
        if (name === "bind") return (...values: unknown[]) => late(inner.bind(...values), hold);
        return async (...args: unknown[]) => {
          await hold;
          return Reflect.get(inner, name).apply(inner, args);
        };
      },
    });

  it("cannot leave a longest cool-down that is shorter than the first", async () => {
    const { call } = testApi();
    const id = await create(call, { breaker: { max_cooldown_s: 300 } });
    const path = `/v1/destinations/${id}`;
    const first = Promise.withResolvers<void>();
    const slow = testApi({ services: { db: slowAt("update", first.promise) } });
    const late = slow.call("PATCH", path, { breaker: { cooldown_s: 200 } });
    expect((await call("PATCH", path, { breaker: { max_cooldown_s: 100 } })).status).toBe(200);
    first.resolve();
    expect(await late).toMatchObject({
      status: 422,
      json: { errors: [{ field: "breaker.max_cooldown_s" }] },
    });
    expect((await call("GET", path)).json.breaker).toMatchObject({ cooldown_s: 30, max_cooldown_s: 100 });
  });

  it("cannot take one uid: the later one changes nothing", async () => {
    const { call } = testApi();
    const [a, b] = [await create(call), await create(call)];
    const first = Promise.withResolvers<void>();
    const slow = testApi({ services: { db: slowAt("update", first.promise) } });
    const late = slow.call("PATCH", `/v1/destinations/${b}`, { uid: "orders", description: "changed" });
    expect((await call("PATCH", `/v1/destinations/${a}`, { uid: "orders" })).status).toBe(200);
    first.resolve();
    expect(await late).toMatchObject({ status: 409, json: { errors: [{ field: "uid" }] } });
    expect((await call("GET", `/v1/destinations/${b}`)).json).toMatchObject({ uid: null, description: null });
    // Its own value may be set again.
    expect((await call("PATCH", `/v1/destinations/${a}`, { uid: "orders", timeout_ms: 900 })).status).toBe(
      200,
    );
  });

  it("are both made when they do not conflict", async () => {
    const { call } = testApi();
    const id = await create(call, { breaker: { max_cooldown_s: 300 } });
    const path = `/v1/destinations/${id}`;
    const first = Promise.withResolvers<void>();
    const slow = testApi({ services: { db: slowAt("update", first.promise) } });
    const late = slow.call("PATCH", path, { breaker: { cooldown_s: 50 } });
    expect((await call("PATCH", path, { breaker: { max_cooldown_s: 100 } })).status).toBe(200);
    first.resolve();
    expect((await late).status).toBe(200);
    expect((await call("GET", path)).json.breaker).toMatchObject({ cooldown_s: 50, max_cooldown_s: 100 });
  });
});

describe("DELETE /v1/destinations/:id", () => {
  it("leaves a tombstone, enqueues a drain without the gate, and answers 404 the second time", async () => {
    const { call, gateCalls, steps } = testApi();
    const id = await create(call);
    expect(await call("DELETE", `/v1/destinations/${id}`)).toMatchObject({ status: 204, text: "" });
    expect(steps).toEqual([{ destination: id, drains: 1 }]);
    expect(await countRows("destinations")).toBe(1);
    for (const [method, path, body] of [
      ["DELETE", "", undefined],
      ["GET", "", undefined],
      ["PATCH", "", {}],
      ["POST", "/pause", undefined],
      ["POST", "/resume", undefined],
    ] as const) {
      expect(await call(method, `/v1/destinations/${id}${path}`, body)).toMatchObject({
        status: 404,
        json: { status: 404 },
      });
    }
    expect((await call("GET", "/v1/destinations")).json.data).toEqual([]);
    expect(gateCalls).toEqual([]);
    expect(steps).toHaveLength(1);
  });
});

describe("pause and resume", () => {
  it("may be repeated; only the end of a pause resets the gate to one attempt", async () => {
    const { call, gateCalls } = testApi();
    const id = await create(call);
    const post = async (what: string) => (await call("POST", `/v1/destinations/${id}/${what}`)).json;
    for (const _ of [1, 2])
      expect(await post("pause")).toMatchObject({ id, status: "paused", status_reason: "manual" });
    expect(gateCalls).toEqual([]);
    for (const _ of [1, 2])
      expect(await post("resume")).toMatchObject({ id, status: "active", status_reason: null });
    expect(gateCalls).toEqual([`resume ${id}`, `scheduleDrain ${id}`]);
  });

  it("keep the tombstone and the limits as they are", async () => {
    const { call } = testApi();
    const id = await create(call, everything);
    expect((await call("POST", `/v1/destinations/${id}/pause`)).json).toMatchObject(shownEverything);
  });
});

it("ends the gate's wait for a former group with a move to another, and not with other changes", async () => {
  const { call, gateCalls } = testApi();
  const id = await create(call);
  const change = async (body: object) => (await call("PATCH", `/v1/destinations/${id}`, body)).status;
  for (const body of [{ group: "a" }, { group: "a" }, { description: "Moved" }, { group: null }])
    expect(await change(body)).toBe(200);
  expect(gateCalls).toEqual([`leaveGroup ${id}`, `leaveGroup ${id}`]);
});

describe("an unknown destination", () => {
  it.each([
    ["GET", "", undefined],
    ["PATCH", "", {}],
    ["DELETE", "", undefined],
    ["POST", "/pause", undefined],
    ["POST", "/resume", undefined],
  ] as const)("is 404 to %s %s", async (method, path, body) => {
    const answer = await testApi().call(method, `/v1/destinations/dst_00000000000000000000${path}`, body);
    expect(answer).toMatchObject({
      status: 404,
      json: { type: "/problems/not-found", detail: expect.stringContaining("dst_0") },
    });
  });
});
