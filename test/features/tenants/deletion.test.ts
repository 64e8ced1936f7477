/** A tenant deleted with everything: nothing of it can be used or read any more, and other tenants are not affected. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { scopes } from "../../../src/core/scopes.ts";
import { deleteTenant, erasing } from "../../../src/features/erasures/job.ts";
import { findErasure } from "../../../src/features/erasures/sql.ts";
import { byKey } from "../../../src/http/auth.ts";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { createPortal } from "../../../src/pages/portal/app.tsx";
import { signToken } from "../../../src/secrets/tokens.ts";
import { runCron } from "../../../src/upkeep.ts";
import { KEY, testApi } from "../../support/api.ts";
import { rowsOfAll } from "../../support/databases.ts";
import { interceptedD1 } from "../../support/intercept.ts";
import { storedBodies } from "../../support/stored-bodies.ts";
import { newWorld, storedRows, type World } from "../../support/world.ts";

const MINUTE = 60_000;

let world: World;
let api: ReturnType<typeof testApi>;
let services: World["services"];
beforeEach(async () => {
  world = await newWorld();
  services = { ...world.services, config: { ...world.services.config, adminKey: KEY } };
  // A cache of keys of its own.
  api = testApi({ services, authenticate: byKey() });
});

const remove = () => api.call("DELETE", "/v1/tenants/acme");

async function complete(id: string): Promise<void> {
  for (let step = 0; step < 20; step++) {
    await erasing.step(services, id);
    world.clock.pass(MINUTE);
  }
}

/** Follows a portal link. */
async function open(url: string) {
  const portal = createPortal({ services: () => services });
  const token = new URL(url).searchParams.get("token") ?? "";
  const body = new URLSearchParams({ token });
  const headers = { origin: "https://breakwater.test", "sec-fetch-site": "same-origin" };
  const request = new Request("https://breakwater.test/portal/enter", { method: "POST", body, headers });
  const answer = await portal.fetch(request, env, context);
  return { status: answer.status, cookie: answer.headers.get("set-cookie")?.split(";")[0] ?? "" };
}

const newTenant = async (tenant: string) => {
  const { call } = api;
  const destination = await call("POST", "/v1/destinations", {
    url: "https://example.com/hook",
    tenant,
    description: `of ${tenant}`,
    headers: { "x-key": "k" },
  });
  const event = await call("POST", "/v1/events", { type: "a", data: `of ${tenant}`, tenant });
  const key = await call("POST", "/v1/keys", { scopes: ["read"], tenant });
  await call("PATCH", `/v1/tenants/${tenant}`, { contact_email: `ops@${tenant}.example`, retention_days: 7 });
  return { destination: destination.json, event: event.json, key: key.json };
};

test("everything of a tenant is removed, with the erasure as receipt, and other tenants keep everything", async () => {
  const mine = await newTenant("acme");
  const theirs = await newTenant("rival");
  const svix = testApi({ services, create: createSvixApi });
  const application = (await svix.call("POST", "/api/v1/app", { name: "Acme", uid: "acme-app" })).json;
  const before = (await api.call("GET", `/v1/destinations/${theirs.destination.id}`)).json;

  const { status, json } = await remove();
  expect(status).toBe(202);
  expect(json).toMatchObject({ tenant: "acme", everything: true, state: "running" });
  await complete(json.id);

  const receipt = await findErasure(services, json.id, undefined);
  expect(receipt).toMatchObject({ state: "completed", events: 1, deliveries: 1 });
  expect((await storedBodies()).map((body) => body && JSON.parse(body).data)).toEqual(["", "of rival"]);
  expect((await api.call("GET", `/v1/destinations/${mine.destination.id}`)).status).toBe(404);
  expect((await api.call("GET", "/v1/tenants/acme")).json).toMatchObject({
    contact_email: null,
    retention_days: null,
  });
  const left = await rowsOfAll("SELECT * FROM destinations WHERE tenant = 'acme'");
  expect(JSON.stringify(left)).not.toMatch(/of acme|x-key/);
  expect((await storedRows()).map(({ state, destinationId }) => [destinationId, state])).toEqual([
    [mine.destination.id, "cancelled"],
  ]);

  expect((await api.call("GET", `/v1/destinations/${theirs.destination.id}`)).json).toEqual(before);
  expect((await api.call("GET", "/v1/tenants/rival")).json.retention_days).toBe(7);
  expect((await svix.call("GET", `/api/v1/app/${application.id}`)).status).toBe(200);
});

test("a tenant's application of the Svix API is removed too", async () => {
  const svix = testApi({ services, create: createSvixApi });
  const { id } = (await svix.call("POST", "/api/v1/app", { name: "Acme" })).json;
  await svix.call("POST", `/api/v1/app/${id}/endpoint`, { url: "https://example.com/" });
  expect((await api.call("DELETE", `/v1/tenants/${id}`)).status).toBe(202);
  expect((await svix.call("GET", `/api/v1/app/${id}`)).status).toBe(404);
  expect(await rowsOfAll("SELECT id FROM destinations WHERE deleted_at IS NULL")).toEqual([]);
});

test("a deleted tenant's keys are refused, its sessions end, and its portal links do not open", async () => {
  const { key } = await newTenant("acme");
  const portal = createPortal({ services: () => services });
  const link = async () =>
    (await api.call("POST", "/v1/portal-links", { tenant: "acme", expires_in_s: 604_800 })).json.url;
  const visit = (cookie: string) =>
    portal.fetch(
      new Request("https://breakwater.test/portal", { headers: { cookie }, redirect: "manual" }),
      env,
      context,
    );
  const unused = await link();
  const opened = await open(await link());
  expect(opened.status).toBe(303);
  expect((await visit(opened.cookie)).status).toBe(200);

  await remove();
  expect((await open(unused)).status).toBe(403);
  expect((await visit(opened.cookie)).status).not.toBe(200);
  world.clock.pass(MINUTE + 1);
  const asKey = { authorization: `Bearer ${key.key}` };
  expect((await api.call("GET", "/v1/destinations", undefined, asKey)).status).toBe(401);

  expect((await open(await link())).status, "a link made later opens").toBe(303);
});

test("a link made after a deletion opens, however soon it ends; one from before stays worthless", async () => {
  await newTenant("acme");
  const link = async (seconds: number) =>
    (await api.call("POST", "/v1/portal-links", { tenant: "acme", expires_in_s: seconds })).json.url;
  const before = [await link(60), await link(604_800)];
  const atOnce = await link(3600);
  await remove();
  world.clock.pass(1);
  for (const url of [...before, atOnce]) expect((await open(url)).status).toBe(403);
  const after = [await link(60), await link(604_800)];
  for (const url of after) expect((await open(url)).status).toBe(303);
  world.clock.pass(1);
  await remove();
  expect((await open(await link(3600))).status, "made in the millisecond of the deletion").toBe(403);
});

test("a link without a creation time is worthless once its tenant was deleted", async () => {
  const visit = { rules: {}, language: null, theme: null, return_url: null };
  const claims = { id: "x", keyId: null, tenant: "acme", scopes: ["read"] as const, visit };
  const link = async (id: string) => {
    const expiresAt = services.now() + 604_800_000;
    const token = await signToken(services.config, "portal", { ...claims, id, expiresAt });
    return `https://breakwater.test/portal/enter?token=${token}`;
  };
  expect((await open(await link("first"))).status).toBe(303);
  await remove();
  world.clock.pass(30 * 24 * 60 * MINUTE);
  expect((await open(await link("second"))).status).toBe(403);
});

test("a link that is opened while its tenant is being deleted opens nothing", async () => {
  const { json } = await api.call("POST", "/v1/portal-links", { tenant: "acme" });
  world.clock.pass(1);
  const real = services.db;
  let isDeleted = false;
  // Right before the session is stored, when the link has been found valid.
  const db = interceptedD1(real, async (sql, work) => {
    if (!isDeleted && /insert into "sessions"/i.test(sql)) {
      isDeleted = true;
      await deleteTenant({ ...services, db: real }, "acme");
    }
    return work();
  });
  services = { ...services, db };
  const { status, cookie } = await open(json.url);
  expect([isDeleted, status, cookie]).toEqual([true, 403, ""]);
});

const context = {
  waitUntil: () => {},
  passThroughOnException: () => {},
  props: {},
} as unknown as ExecutionContext;

test("a deletion may be repeated, also while five erasures are running, and after any failure", async () => {
  await newTenant("acme");
  for (let i = 0; i < 5; i++) await api.call("POST", "/v1/erasures", { tenant: "acme", everything: true });
  let trips = 0;
  world.d1.failing(() => {
    trips += 1;
    return trips === 1 ? "after" : undefined;
  });
  expect((await remove()).status).toBe(503);
  world.d1.failing(() => undefined);
  const again = await remove();
  expect(again.status).toBe(202);
  await complete(again.json.id);
  expect(await storedBodies()).toEqual([""]);
  await runCron(services);
  expect((await remove()).status).toBe(202);
});

test("only an admin key of the operator may delete a tenant", async () => {
  await newTenant("acme");
  const asTenant = testApi({ services, authenticate: async () => ({ tenant: "acme", scopes }) });
  const reader = testApi({
    services,
    authenticate: async () => ({ scopes: ["read", "events:write"] as const }),
  });
  expect((await asTenant.call("DELETE", "/v1/tenants/acme")).status).toBe(403);
  expect((await asTenant.call("DELETE", "/v1/tenants/rival")).status).toBe(404);
  expect((await reader.call("DELETE", "/v1/tenants/acme")).status).toBe(403);
  expect((await api.call("DELETE", "/v1/tenants/a%20b")).status).toBe(404);
  expect(await rowsOfAll("SELECT id FROM erasures")).toEqual([]);
});
