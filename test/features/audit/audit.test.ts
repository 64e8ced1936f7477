/** The audit trail: every change has an entry, refused requests have none, and nothing secret is in one. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, test } from "vitest";
import { changesBetween } from "../../../src/core/audit.ts";
import { scopes } from "../../../src/core/scopes.ts";
import { forgetAuditEntries, insertAuditEntries } from "../../../src/features/audit/sql.ts";
import { emptyDatabase, NOW, testApi } from "../../support/api.ts";

const { call } = testApi();
const KEY = "key_00000000000000000001";
const tenantApi = testApi({ authenticate: async () => ({ tenant: "acme", scopes, key: KEY }) });
const DAY = 86_400_000;

beforeEach(emptyDatabase);

const trail = async (query = "") => (await call("GET", `/v1/audit${query}`)).json.data;
const lines = async (query = "") =>
  (await trail(query)).map(({ action, subject }: { action: string; subject: string }) => [action, subject]);

async function newDestination(api = tenantApi): Promise<string> {
  const made = await api.call("POST", "/v1/destinations", { url: "https://example.com/in" });
  return made.json.id;
}

const adminKey = { kind: "admin_key", key: null, session: null, person: null };
const entry = (subject: string, tenant = "acme") =>
  ({ action: "destination.paused", subject, tenant, changes: null }) as const;

describe("an entry", () => {
  it("says who has changed what, from what to what, and when", async () => {
    const id = await newDestination();
    await tenantApi.call("PATCH", `/v1/destinations/${id}`, { max_concurrency: 3, description: "Orders" });
    const [entry] = await trail();
    expect(entry).toEqual({
      id: expect.stringMatching(/^aud_[0-9a-z]+$/),
      at: "2026-11-21T09:00:00.000Z",
      tenant: "acme",
      actor: { kind: "api_key", key: KEY, session: null, person: null },
      action: "destination.changed",
      subject: id,
      changes: { max_concurrency: { from: 10, to: 3 }, description: { from: null, to: "Orders" } },
    });
  });

  it("names the person who has signed in by Cloudflare Access", async () => {
    const person = { name: "ann@example.com", role: "own" } as const;
    const api = testApi({ authenticate: async () => ({ person, scopes }) });
    const id = await newDestination(api);
    expect(await trail(`?subject=${id}`)).toMatchObject([
      { actor: { kind: "dashboard", key: null, session: null, person: "ann@example.com" } },
    ]);
  });

  it("is made by every kind of change, the newest first", async () => {
    const id = await newDestination(testApi());
    await call("POST", `/v1/destinations/${id}/pause`);
    await call("POST", `/v1/destinations/${id}/resume`);
    await call("POST", `/v1/destinations/${id}/rotate-secret`);
    await call("PUT", "/v1/event-types/order.paid", {});
    await call("DELETE", "/v1/event-types/order.paid");
    const key = (await call("POST", "/v1/keys", { scopes: ["read"] })).json.id;
    await call("DELETE", `/v1/keys/${key}`);
    await call("PATCH", "/v1/tenants/acme", { payload_free: true });
    await call("DELETE", `/v1/destinations/${id}`);
    const erasure = (await call("POST", "/v1/erasures", { tenant: "acme", everything: true })).json.id;
    await call("DELETE", "/v1/tenants/acme");
    expect(await lines()).toEqual([
      ["tenant.deleted", "acme"],
      ["erasure.started", erasure],
      ["destination.deleted", id],
      ["tenant.changed", "acme"],
      ["api_key.revoked", key],
      ["api_key.created", key],
      ["event_type.deleted", "order.paid"],
      ["event_type.changed", "order.paid"],
      ["destination.secret_rotated", id],
      ["destination.resumed", id],
      ["destination.paused", id],
      ["destination.created", id],
    ]);
    expect((await trail()).every(({ actor }: { actor: object }) => actor)).toBe(true);
    expect((await trail())[0].actor).toEqual(adminKey);
  });

  it("is not made by a request that changes nothing", async () => {
    const id = await newDestination();
    const before = await trail();
    await call("PATCH", `/v1/destinations/${id}`, { max_concurrency: 0 });
    await call("PATCH", "/v1/destinations/dst_00000000000000000000", { max_concurrency: 1 });
    await call("POST", `/v1/destinations/${id}/resume`);
    await call("GET", `/v1/destinations/${id}`);
    await call("POST", "/v1/events", { type: "order.paid", data: {} });
    expect(await trail()).toEqual(before);
  });

  it("shows only that headers and credentials were changed", async () => {
    const id = await newDestination();
    const secret = "a-secret-value";
    const change = { headers: { "x-key": secret }, auth: { kind: "bearer", token: secret } };
    expect((await call("PATCH", `/v1/destinations/${id}`, change)).status).toBe(200);
    const [{ changes }] = await trail();
    expect(Object.keys(changes).sort()).toEqual(["auth", "headers"]);
    expect(changes.headers).toEqual({ from: {}, to: { "x-key": "***" } });
    expect(JSON.stringify(changes)).not.toContain(secret);
  });

  it("cannot be changed, not even in the database", async () => {
    await newDestination();
    await expect(env.DB.prepare("UPDATE audit_entries SET actor = 'x'").run()).rejects.toThrow(
      /never changed/,
    );
  });

  it("that cannot be stored is logged in full, and the change stands", async () => {
    const broken = testApi();
    await env.DB.prepare("ALTER TABLE audit_entries RENAME TO gone").run();
    const { status, json } = await broken.call("POST", "/v1/destinations", { url: "https://example.com/in" });
    await env.DB.prepare("ALTER TABLE gone RENAME TO audit_entries").run();
    expect(status).toBe(201);
    expect(broken.log).toContainEqual(
      expect.objectContaining({ what: "audit_not_stored", entries: expect.stringContaining(json.id) }),
    );
  });
});

describe("the list", () => {
  it("shows a tenant's key only its own changes, and none of the deployment", async () => {
    const own = await newDestination();
    await call("POST", "/v1/destinations", { url: "https://example.com/in", tenant: "rival" });
    await call("PUT", "/v1/event-types/order.paid", {});
    const seen = (await tenantApi.call("GET", "/v1/audit")).json.data;
    expect(seen.map(({ subject }: { subject: string }) => subject)).toEqual([own]);
    expect((await tenantApi.call("GET", "/v1/audit?tenant=rival")).status).toBe(403);
    expect((await trail("?tenant=rival")).length).toBe(1);
  });

  it("has pages, of a subject and of a time", async () => {
    const times = Array.from({ length: 25 }, (_, index) => NOW + index * 1_000);
    for (const [index, at] of times.entries())
      await insertAuditEntries(
        env.DB,
        { kind: "admin_key", key: null, session: null },
        [entry(`dst_${index % 2}`)],
        at,
      );
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await call("GET", `/v1/audit?limit=7&subject=dst_1${cursor ? `&cursor=${cursor}` : ""}`);
      seen.push(...page.json.data.map(({ at }: { at: string }) => at));
      cursor = page.json.next_cursor;
    } while (cursor);
    const odd = times.filter((_, index) => index % 2 === 1).map((at) => new Date(at).toISOString());
    expect(seen).toEqual(odd.toReversed());
    const since = new Date(NOW + 5_000).toISOString();
    const until = new Date(NOW + 8_000).toISOString();
    expect((await trail(`?since=${since}&until=${until}`)).map(({ at }: { at: string }) => at)).toEqual(
      times
        .slice(5, 8)
        .map((at) => new Date(at).toISOString())
        .toReversed(),
    );
  });

  it("keeps the order of entries of one millisecond, and of a clock that goes back", async () => {
    const actor = { kind: "admin_key", key: null, session: null } as const;
    await insertAuditEntries(env.DB, actor, [entry("a"), entry("b")], NOW);
    await insertAuditEntries(env.DB, actor, [entry("c")], NOW - 5_000);
    expect((await lines()).map(([, subject]: string[]) => subject)).toEqual(["c", "b", "a"]);
  });

  it("needs the scope admin", async () => {
    const reader = testApi({ authenticate: async () => ({ scopes: ["read"] }) });
    expect((await reader.call("GET", "/v1/audit")).status).toBe(403);
    expect((await reader.call("GET", "/v1/audit/export")).status).toBe(403);
  });

  it.each([
    ["?since=yesterday", "since"],
    [`?subject=${"x".repeat(201)}`, "subject"],
    ["?cursor=nonsense", "cursor"],
    ["?since=2026-11-21T10:00:00Z&until=2026-11-21T09:00:00Z", "until"],
  ])("refuses %s", async (query, field) => {
    const { status, json } = await call("GET", `/v1/audit${query}`);
    expect(status).toBe(422);
    expect(json.errors[0].field).toBe(field);
  });
});

test("the export has every entry, one a line", async () => {
  const actor = { kind: "admin_key", key: null, session: null } as const;
  const entries = Array.from({ length: 1_203 }, (_, index) => entry(`dst_${index}`));
  await insertAuditEntries(env.DB, actor, entries, NOW);
  const { status, headers, text } = await call("GET", "/v1/audit/export");
  expect([status, headers.get("content-type")]).toEqual([200, "application/x-ndjson"]);
  const subjects = text
    .trim()
    .split("\n")
    .map((line: string) => JSON.parse(line).subject);
  expect(subjects).toEqual(entries.map(({ subject }) => subject).toReversed());
});

test("entries are removed when they are older than AUDIT_DAYS, the others stay", async () => {
  const actor = { kind: "admin_key", key: null, session: null } as const;
  await insertAuditEntries(env.DB, actor, [entry("old")], NOW - 366 * DAY);
  await insertAuditEntries(env.DB, actor, [entry("young")], NOW - 364 * DAY);
  await forgetAuditEntries(env.DB, NOW - 365 * DAY);
  expect(await lines()).toEqual([["destination.paused", "young"]]);
});

test("very long changes name only the fields", () => {
  const changes = changesBetween(
    { a: "x".repeat(9_000), b: 1, updated_at: 1 },
    { a: "", b: 1, updated_at: 2 },
  );
  expect(changes).toEqual({ a: { from: "(too long to store)", to: "(too long to store)" } });
  expect(changesBetween({ b: 1, updated_at: 1 }, { b: 1, updated_at: 2 })).toBeNull();
});
