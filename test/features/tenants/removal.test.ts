/** Removing a tenant from the database: its keys, sessions, destinations and settings, and nothing of another tenant. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { eraseTenantRows, isLinkVoid } from "../../../src/features/tenants/removal.ts";
import { emptyDatabase, insertRow, plainDestination } from "../../support/api.ts";
import { rowsOfAll } from "../../support/databases.ts";

beforeEach(emptyDatabase);

const remove = (id: string, now: number) => {
  const target = { kind: "tenant", eventId: null, since: null, until: null } as const;
  return eraseTenantRows(
    env.DB,
    "acme",
    { id, tenant: "acme", ...target, nextStepAt: now, createdAt: now },
    now,
  );
};

const described = {
  description: "d",
  metadata: { a: "b" },
  headers: { x: "plain" },
  sealed_headers: { x: "sealed" },
  auth: { kind: "basic" },
  target_token: "token",
  transform: { version: 1, after: -1, at: 1, template: { headers: { "x-token": "t" } } },
  certification: "{}",
};

/** Everything of the tenant, with its name in all ids. */
async function newTenant(tenant: string): Promise<void> {
  const more = { tenant, ...described };
  await plainDestination(`dst_${tenant}`, { ...more, uid: `uid of ${tenant}` });
  await plainDestination(`dst_${tenant}_gone`, { ...more, deleted_at: 3 });
  const key = { tenant, scopes: [], created_at: 1 };
  await insertRow("api_keys", { ...key, id: `key_${tenant}`, hash: `1 ${tenant}` });
  await insertRow("api_keys", { ...key, id: `key_${tenant}_revoked`, hash: `2 ${tenant}`, revoked_at: 4 });
  const session = { tenant, scopes: [], created_at: 1 };
  await insertRow("sessions", { ...session, id: `ses_${tenant}`, expires_at: 51 });
  await insertRow("sessions", { ...session, id: `ses_${tenant}_expired`, expires_at: 50 });
  await insertRow("sessions", { ...session, id: `ses_${tenant}_ended`, expires_at: 99, ended_at: 5 });
  await insertRow("applications", { id: tenant, name: tenant, created_at: 1, updated_at: 1 });
  const portal = {
    retention_days: 7,
    payload_free: 1,
    functions_off: 1,
    portal: { a: 1 },
    branding: { b: 1 },
  };
  const times = { created_at: 1, updated_at: 1 };
  await insertRow("tenant_settings", { tenant, contact_email: "a@b.example", ...portal, ...times });
}

const all = async (tenant: string) => {
  const rows = (sql: string) => rowsOfAll<Record<string, unknown>>(sql, tenant);
  return {
    destinations: await rows("SELECT * FROM destinations WHERE tenant = ?1 ORDER BY id"),
    keys: await rows("SELECT id, revoked_at AS at FROM api_keys WHERE tenant = ?1 ORDER BY id"),
    sessions: await rows("SELECT id, ended_at AS at FROM sessions WHERE tenant = ?1 ORDER BY id"),
    applications: await rows("SELECT * FROM applications WHERE id = ?1"),
    settings: await rows("SELECT * FROM tenant_settings WHERE tenant = ?1"),
  };
};

test("a tenant's keys, links and settings are removed, and another tenant keeps everything", async () => {
  await newTenant("acme");
  await newTenant("rival");
  const theirs = await all("rival");
  const { erasure, destinations } = await remove("e1", 50);
  expect(erasure).toMatchObject({ id: "e1", tenant: "acme", kind: "tenant", state: "running" });
  expect(destinations).toEqual(["dst_acme"]);

  const mine = await all("acme");
  const empty = { ...Object.fromEntries(Object.keys(described).map((name) => [name, null])), uid: null };
  expect(mine.destinations).toMatchObject([
    { id: "dst_acme", ...empty, deleted_at: 50, updated_at: 50 },
    { id: "dst_acme_gone", ...empty, deleted_at: 3, updated_at: 1 },
  ]);
  expect(mine.keys).toEqual([
    { id: "key_acme", at: 50 },
    { id: "key_acme_revoked", at: 4 },
  ]);
  expect(mine.sessions).toEqual([
    { id: "ses_acme", at: 50 },
    { id: "ses_acme_ended", at: 5 },
    { id: "ses_acme_expired", at: null },
  ]);
  expect(mine.applications).toEqual([]);
  expect(mine.settings).toEqual([
    {
      ...{ tenant: "acme", contact_email: null, retention_days: null, payload_free: 0, portal: null },
      ...{ functions_off: 0, branding: null, deleted_at: 50, created_at: 1, updated_at: 50 },
    },
  ]);
  expect(await all("rival")).toEqual(theirs);
});

test("a tenant may be removed again, without settings and with the most erasures running", async () => {
  for (let i = 0; i < 8; i++) {
    const { erasure, destinations } = await remove(`e${i}`, i);
    expect([erasure.id, destinations]).toEqual([`e${i}`, []]);
  }
  expect((await all("acme")).settings).toMatchObject([{ deleted_at: 7, created_at: 0, updated_at: 7 }]);
});

test.each([
  [5, undefined, false],
  [5, null, false],
  [5, 4, false],
  [5, 5, true],
  [5, 6, true],
  [undefined, 0, true],
  [undefined, undefined, false],
  [undefined, null, false],
])("a link of %s is worthless after its tenant's deletion at %s: %s", (issuedAt, deletedAt, isVoid) => {
  expect(isLinkVoid(issuedAt, deletedAt)).toBe(isVoid);
});
