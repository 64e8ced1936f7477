/** A tenant's configuration as JSON: what is exported can be imported, here and elsewhere, and a fault changes nothing. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";
import { interceptedD1 } from "../../support/intercept.ts";

const { call } = testApi();
const SECRET = "whsec_8nQZ0sTj1vWm5kYdLr7xGaUcPb3hEoSf";

beforeEach(emptyDatabase);

async function create(fields: object = {}): Promise<string> {
  const made = await call("POST", "/v1/destinations", {
    ...{ url: "https://example.com/in", tenant: "acme", secret: SECRET },
    ...fields,
  });
  expect(made.status).toBe(201);
  return made.json.id;
}

const rich = {
  uid: "orders",
  event_types: ["order.*"],
  channels: ["eu"],
  filter: { "order.total": { gte: 100 } },
  description: "Orders",
  metadata: { team: "ops" },
  headers: { "x-key": "a header's value" },
  auth: { kind: "basic", username: "us", password: "correct-horse" },
  signature_forms: [{ form: "standard" }, { form: "svix" }],
  max_concurrency: 3,
  rate_per_second: 5,
  retry: { preset: "svix" },
  breaker: { failure_ratio: 0.25 },
};

const exported = async (query = "", tenant = "acme") =>
  (await call("GET", `/v1/tenants/${tenant}/export${query}`)).json;
const imported = (body: unknown, { tenant = "acme", query = "" } = {}) =>
  call("POST", `/v1/tenants/${tenant}/import${query}`, body);
const shown = async (id: string) => {
  const { created_at, updated_at, ...rest } = (await call("GET", `/v1/destinations/${id}`)).json;
  return rest;
};
const rows = () => env.DB.prepare("SELECT * FROM destinations ORDER BY id").all();

describe("an export", () => {
  it("has the settings and every destination, without secrets", async () => {
    const [id, paused] = [await create(rich), await create({ status: "paused" })].sort();
    await call("PATCH", "/v1/tenants/acme", { retention_days: 7 });
    await call("POST", "/v1/destinations", { url: "https://example.com/in", tenant: "rival" });
    const document = await exported();
    expect(document).toMatchObject({ version: 1, tenant: "acme", settings: { retention_days: 7 } });
    expect(document.destinations.map((one: { id: string }) => one.id)).toEqual([id, paused]);
    const own = document.destinations.find((one: { uid: string }) => one.uid === "orders");
    expect(own).toMatchObject({
      channels: ["eu"],
      max_concurrency: 3,
      omitted: ["secret", "headers", "auth"],
    });
    for (const secret of [SECRET, "correct-horse", "a header's value"])
      expect(JSON.stringify(document)).not.toContain(secret);
  });

  it("lists secrets that it cannot open as omitted, and has everything else", async () => {
    const [broken, whole] = [await create(rich), await create()];
    await env.DB.prepare("UPDATE destinations SET secret = 'hmac-sha256.k9.AAAA' WHERE id = ?1")
      .bind(broken)
      .run();
    const { destinations } = await exported("?secrets=true");
    const byId = new Map<string, object>(destinations.map((one: { id: string }) => [one.id, one]));
    expect(byId.get(broken)).toMatchObject({ omitted: ["secret"], headers: rich.headers, auth: rich.auth });
    expect(byId.get(broken)).not.toHaveProperty("secret");
    expect(byId.get(whole)).toMatchObject({ secret: SECRET, omitted: [] });
    const again = await imported({ version: 1, destinations });
    expect([again.status, again.json]).toMatchObject([
      200,
      { changed: [], unchanged: destinations.map(({ id }: { id: string }) => id) },
    ]);
  });

  it("says into how many imports it is to be divided, which then restore it elsewhere", async () => {
    const id = await create();
    await env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
        INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
        SELECT 'dst_' || printf('%020d', i), tenant, url, secret, 0, 0 FROM n JOIN destinations WHERE id = ?1`,
    )
      .bind(id)
      .run();
    const { parts, destinations } = await exported();
    expect([parts, destinations.length]).toEqual([2, 201]);
    const whole = await imported({ version: 1, destinations }, { tenant: "other" });
    expect([whole.status, whole.json.errors[0].expected]).toEqual([
      422,
      expect.stringContaining("further requests"),
    ]);
    await emptyDatabase();
    for (const part of [destinations.slice(0, 200), destinations.slice(200)])
      expect((await imported({ version: 1, parts, destinations: part })).status).toBe(200);
    expect((await rows()).results).toHaveLength(201);
  });

  it("also has the secrets, only for the operator, which the audit trail records", async () => {
    await create(rich);
    const [own] = (await exported("?secrets=true")).destinations;
    expect(own).toMatchObject({ secret: SECRET, headers: rich.headers, auth: rich.auth, omitted: [] });
    const acme = testApi({ authenticate: async () => ({ tenant: "acme", scopes }) });
    expect((await acme.call("GET", "/v1/tenants/acme/export?secrets=true")).status).toBe(403);
    expect((await acme.call("GET", "/v1/tenants/acme/export")).status).toBe(200);
    expect((await acme.call("GET", "/v1/tenants/rival/export")).status).toBe(404);
    expect((await call("GET", "/v1/audit")).json.data[0].action).toBe("tenant.exported");
  });
});

describe("an import", () => {
  it("of an export with secrets makes the same destinations elsewhere, under their ids", async () => {
    const id = await create(rich);
    const paused = await create({ status: "paused", description: "Later" });
    await call("PATCH", "/v1/tenants/acme", { retention_days: 7, contact_email: "ops@acme.example" });
    const [document, before] = [await exported("?secrets=true"), [await shown(id), await shown(paused)]];
    await emptyDatabase();
    const { status, json } = await imported(document);
    expect(status).toBe(200);
    expect(json).toEqual({
      created: [id, paused].sort().map((one) => ({ id: one, omitted: [] })),
      ...{ changed: [], unchanged: [], dry_run: false },
    });
    expect([await shown(id), await shown(paused)]).toEqual(before);
    expect((await exported("?secrets=true")).destinations).toEqual(document.destinations);
    expect((await exported()).settings).toEqual(document.settings);
  });

  it("twice changes nothing the second time", async () => {
    await create(rich);
    await create({ auth: { kind: "bearer", token: "a-bearer-token" } });
    for (const query of ["", "?secrets=true"]) {
      const document = await exported(query);
      const before = await rows();
      const { json } = await imported(document);
      expect([json.created, json.changed, json.unchanged.length]).toEqual([[], [], 2]);
      expect((await rows()).results).toEqual(before.results);
    }
  });

  it("changes differing fields, and keeps secrets, pauses and destinations that it does not name", async () => {
    const [id, other] = [await create(rich), await create()];
    const document = await exported();
    const own = document.destinations.find((one: { uid: string }) => one.uid === "orders");
    const changed = { ...own, max_concurrency: 9, headers: { "x-new": "1" }, status: "paused" };
    const { json } = await imported({ version: 1, destinations: [changed] });
    expect(json).toMatchObject({ created: [], changed: [id], unchanged: [] });
    expect(await shown(id)).toMatchObject({
      max_concurrency: 9,
      headers: { "x-new": "***" },
      status: "active",
    });
    expect((await shown(other)).status).toBe("active");
    const after = (await exported("?secrets=true")).destinations.find((one: { id: string }) => one.id === id);
    expect([after.secret, after.auth]).toEqual([SECRET, rich.auth]);
  });

  it("without secrets gives new ones, and pauses destinations that lack headers or credentials", async () => {
    const [id, plain] = [await create(rich), await create()];
    const document = await exported();
    await emptyDatabase();
    const { json } = await imported(document);
    const made = new Map(json.created.map((one: { id: string }) => [one.id, one]));
    expect(made.get(plain)).toEqual({ id: plain, secret: expect.stringMatching(/^whsec_/), omitted: [] });
    expect(made.get(id)).toMatchObject({ secret: expect.any(String), omitted: ["headers", "auth"] });
    expect([(await shown(id)).status, (await shown(plain)).status]).toEqual(["paused", "active"]);
  });

  it("that is a dry run shows what it would do, and does nothing", async () => {
    await create(rich);
    const document = await exported("?secrets=true");
    await emptyDatabase();
    const { json } = await imported(document, { query: "?dry_run=true" });
    expect(json).toMatchObject({ created: [{ id: document.destinations[0].id }], dry_run: true });
    expect((await rows()).results).toEqual([]);
    expect((await call("GET", "/v1/audit")).json.data).toEqual([]);
  });

  it("with a fault names it and its place, and changes nothing", async () => {
    await create(rich);
    const document = await exported("?secrets=true");
    await emptyDatabase();
    const [own] = document.destinations;
    const broken = [
      {
        ...own,
        id: "dst_00000000000000000001",
        uid: "other",
        breaker: { cooldown_s: 40, max_cooldown_s: 30 },
      },
      own,
      own,
      { ...own, id: "dst_00000000000000000002" },
      { ...own, id: "dst_00000000000000000003", uid: null, url: "https://127.0.0.1/in" },
    ];
    const { status, json } = await imported({ version: 1, destinations: broken });
    expect(status).toBe(422);
    expect(json.errors.map(({ field }: { field: string }) => field)).toEqual([
      "destinations[0].breaker.max_cooldown_s",
      "destinations[2].id",
      "destinations[3].uid",
      "destinations[4].url",
    ]);
    expect((await rows()).results).toEqual([]);
  });

  it("takes no id of another tenant, nor one that was deleted", async () => {
    const [rival, gone] = [await create({ tenant: "rival" }), await create()];
    await call("DELETE", `/v1/destinations/${gone}`);
    const destinations = [rival, gone].map((id) => ({ id, url: "https://example.com/in" }));
    const { status, json } = await imported({ version: 1, destinations });
    expect(status).toBe(422);
    expect(json.errors.map(({ field }: { field: string }) => field)).toEqual([
      "destinations[0].id",
      "destinations[1].id",
    ]);
    expect((await shown(rival)).tenant).toBe("rival");
  });

  describe.each([
    ["takes the uid of one of them", () => create({ uid: "second" }), "second"],
    ["leaves no room for all of them", () => create(), undefined],
  ])("while another request %s", (_, meanwhile, uid) => {
    it("creates none", async () => {
      const ids = ["dst_00000000000000000001", "dst_00000000000000000002"] as const;
      const destinations = ids.map((id, i) => ({
        ...{ id, url: "https://example.com/in" },
        ...(i === 1 && uid && { uid }),
      }));
      let isFirst = true;
      const db = interceptedD1(env.DB, async (sql, work) => {
        const inserts = sql.includes("INSERT INTO destinations");
        if (inserts && isFirst) {
          isFirst = false;
          await meanwhile();
        }
        return work();
      });
      const { call } = testApi({ services: { db, config: testConfig({ maxDestinationsPerTenant: 2 }) } });
      const before = (await rows()).results.length;
      const document = { version: 1, destinations };
      const { status } = await call("POST", "/v1/tenants/acme/import", document);
      expect(status).toBe(409);
      const stored = (await rows()).results;
      expect(stored.length).toBe(before + 1);
      expect(stored.filter(({ id }) => ids.some((own) => own === id))).toEqual([]);
    });
  });

  describe.each([
    ["is refused at its end", 409, () => create({ uid: "taken" })],
    ["fails at its end", 500, () => Promise.reject(new Error("a mistake of ours"))],
  ])("that %s", (_, status, meanwhile) => {
    it("is in the audit trail as far as it has changed something", async () => {
      const id = await create({ max_concurrency: 3 });
      const document = {
        version: 1,
        settings: { retention_days: 7 },
        destinations: [
          { id, url: "https://example.com/in", max_concurrency: 4 },
          { id: "dst_00000000000000000001", url: "https://example.com/in", uid: "taken" },
        ],
      };
      let isFirst = true;
      const db = interceptedD1(env.DB, async (sql, work) => {
        if (sql.includes("INSERT INTO destinations") && isFirst) {
          isFirst = false;
          await meanwhile();
        }
        return work();
      });
      const operator = testApi({ services: { db } });
      expect((await operator.call("POST", "/v1/tenants/acme/import", document)).status).toBe(status);
      expect(await shown(id)).toMatchObject({ max_concurrency: 4 });
      const { data } = (await call("GET", "/v1/audit")).json;
      const entries = data.map(({ action, subject }: Record<string, unknown>) => `${action} ${subject}`);
      expect(entries).toEqual(expect.arrayContaining([`destination.changed ${id}`, "tenant.imported acme"]));
    });
  });

  it("is refused for a name that is the uid of an application, and changes nothing", async () => {
    const svix = testApi({ create: createSvixApi });
    const { id } = (await svix.call("POST", "/api/v1/app", { name: "Acme", uid: "customer" })).json;
    const settings = { retention_days: 7 };
    const destinations = [{ id: "dst_00000000000000000001", url: "https://example.com/in" }];
    for (const query of ["", "?dry_run=true"])
      for (const document of [
        { settings, destinations: [] },
        { settings, destinations },
      ]) {
        const refused = await imported({ version: 1, ...document }, { tenant: "customer", query });
        expect([refused.status, refused.json.errors[0]]).toMatchObject([
          409,
          { field: "tenant", expected: expect.stringContaining(id) },
        ]);
      }
    expect((await call("GET", "/v1/tenants/customer")).json).toMatchObject({
      retention_days: null,
      updated_at: null,
    });
  });

  it("needs the operator, and respects the tenant's limit of destinations", async () => {
    const acme = testApi({ authenticate: async () => ({ tenant: "acme", scopes }) });
    const empty = { version: 1, destinations: [] };
    expect((await acme.call("POST", "/v1/tenants/acme/import", empty)).status).toBe(403);
    expect((await acme.call("POST", "/v1/tenants/rival/import", empty)).status).toBe(404);
    const many = Array.from({ length: 201 }, (_, index) => ({
      id: `dst_${String(index).padStart(20, "0")}`,
      url: "https://example.com/in",
    }));
    expect((await imported({ version: 1, destinations: many })).json.errors[0].field).toBe("destinations");
    expect((await imported({ version: 2, destinations: [] })).json.errors[0].field).toBe("version");
    expect(
      (await imported({ version: 1, destinations: [], settings: { retention_days: 400 } })).json.errors[0],
    ).toMatchObject({
      field: "settings.retention_days",
    });
  });
});

describe("the versions of event types that destinations get", () => {
  const type = { schema: { type: "object" } };
  const later = testApi({ services: { now: () => NOW + 60_000 } });
  const publish = async () => {
    await call("PUT", "/v1/event-types/order.paid", type);
    expect((await later.call("PUT", "/v1/event-types/order.paid/versions/2", type)).status).toBe(201);
  };
  const given = async () => {
    const { json } = await later.call("GET", "/v1/event-types/order.paid/endpoints");
    return new Map(
      json.data.map((one: { destination_id: string; version: number }) => [one.destination_id, one.version]),
    );
  };

  it("are those that they got before, even if they are created after a later version", async () => {
    const old = await create({ event_types: ["order.*"] });
    const other = await create({ event_types: ["bill.*"] });
    await publish();
    const fresh = (
      await later.call("POST", "/v1/destinations", { url: "https://example.com/in", tenant: "acme" })
    ).json.id;
    const document = await exported();
    const pinsOf = (id: string) =>
      document.destinations.find((one: { id: string }) => one.id === id).event_versions;
    expect([old, other, fresh].map(pinsOf)).toEqual([{ "order.paid": 1 }, {}, {}]);
    const unchanged = await imported(document);
    expect(unchanged.json).toMatchObject({
      changed: [],
      unchanged: expect.arrayContaining([old, other, fresh]),
    });
    const former = document.destinations.map((one: object) => ({ ...one, event_versions: {} }));
    expect((await imported({ version: 1, destinations: former })).json.changed).toEqual([]);

    await emptyDatabase();
    const early = await imported(document);
    expect([early.status, early.json.errors]).toMatchObject([
      422,
      [
        {
          field: expect.stringMatching(/^destinations\[\d\]\.event_versions\.order\.paid$/),
          expected: "a type of the catalogue",
        },
      ],
    ]);
    await publish();
    const created = await later.call("POST", "/v1/tenants/acme/import", document);
    expect(created.json.created).toHaveLength(3);
    const versions = await given();
    expect([versions.get(old), versions.get(fresh)]).toEqual([1, 2]);
  });
});
