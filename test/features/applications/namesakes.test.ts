/** A `uid` of an application and the name of another tenant are never the same: one customer would have two tenants. */
import { beforeEach, describe, expect, test } from "vitest";

import { createSvixApi } from "../../../src/http/svix/app.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

const scopes = ["events:write", "read", "admin"] as const;
const operator = { authenticate: async () => ({ scopes }) };
const native = testApi(operator);
const svix = testApi({ ...operator, create: createSvixApi });

beforeEach(emptyDatabase);

const destination = (tenant: string, by = native) =>
  by.call("POST", "/v1/destinations", { url: "https://example.com/hook", tenant });
const application = (fields: object) => svix.call("POST", "/api/v1/app", { name: "Acme", ...fields });

describe("a uid that is the name of a tenant", () => {
  test.each([
    ["a destination", () => destination("acme")],
    ["settings", () => native.call("PATCH", "/v1/tenants/acme", { retention_days: 3 })],
    ["a key", () => native.call("POST", "/v1/keys", { scopes: ["read"], tenant: "acme" })],
  ])("with %s is refused, and the problem names the tenant", async (_, make) => {
    expect((await make()).status).toBeLessThan(300);
    const created = await application({ uid: "acme" });
    const detail = expect.stringContaining('"acme", the name of a tenant that is not an application');
    expect(created).toMatchObject({ status: 409, json: { detail } });
    const other = (await application({ uid: "other" })).json.id;
    const changed = await svix.call("PATCH", `/api/v1/app/${other}`, { uid: "acme" });
    expect(changed).toMatchObject({ status: 409, json: { detail } });
    const renamed = await svix.call("PATCH", `/api/v1/app/${other}`, { uid: "another", name: "New" });
    expect(renamed).toMatchObject({ status: 200, json: { uid: "another" } });
  });

  test("is free again once the tenant is deleted", async () => {
    await destination("acme");
    await native.call("DELETE", "/v1/tenants/acme");
    expect((await application({ uid: "acme" })).status).toBe(201);
  });
});

test.each([
  ["settings", "PATCH", "/v1/tenants/acme", { retention_days: 3 }],
  ["a key", "POST", "/v1/keys", { scopes: ["read"], tenant: "acme" }],
  ["a portal link", "POST", "/v1/portal-links", { tenant: "acme" }],
] as const)("%s of a tenant that is named like an application is refused", async (_, method, path, body) => {
  const { id } = (await application({ uid: "acme" })).json;
  const errors = [{ field: "tenant", fault: `is "acme", the uid of the application ${id}` }];
  expect(await native.call(method, path, body)).toMatchObject({ status: 409, json: { errors } });
  const own = JSON.parse(JSON.stringify(body).replace("acme", id));
  expect((await native.call(method, path.replace("acme", id), own)).status).toBeLessThan(300);
});

test("a key that is bound to a tenant makes keys and links as before, whatever applications are called", async () => {
  await application({ uid: "acme" });
  const bound = testApi({ authenticate: async () => ({ scopes, tenant: "acme" }) });
  expect((await bound.call("POST", "/v1/keys", { scopes: ["read"] })).status).toBe(201);
  expect((await bound.call("POST", "/v1/portal-links", { tenant: "acme" })).status).toBe(201);
});

describe("a destination of a tenant that is named like an application", () => {
  test("is refused, and the problem names the application, whose tenant takes it", async () => {
    const { id } = (await application({ uid: "acme" })).json;
    const errors = [{ field: "tenant", fault: `is "acme", the uid of the application ${id}` }];
    expect(await destination("acme")).toMatchObject({ status: 409, json: { errors } });
    expect((await destination(id)).status).toBe(201);
    expect((await svix.call("GET", "/api/v1/app/acme/endpoint")).json.data).toHaveLength(1);
  });

  test("is refused to a key of that tenant without mentioning the application", async () => {
    const { id } = (await application({ uid: "acme" })).json;
    const bound = testApi({ authenticate: async () => ({ scopes, tenant: "acme" }) });
    const { status, text } = await destination("acme", bound);
    expect(status).toBe(409);
    expect(text).not.toContain(id);
  });

  test("is refused by an import too", async () => {
    const { id } = (await application({ uid: "acme" })).json;
    await destination("source");
    const exported = (await native.call("GET", "/v1/tenants/source/export")).json;
    await native.call("DELETE", "/v1/tenants/source");
    const destinations = exported.destinations.map((one: object) => ({
      ...one,
      id: "dst_aaaaaaaaaaaaaaaaaaaa",
    }));
    const imported = await native.call("POST", "/v1/tenants/acme/import", {
      ...exported,
      tenant: "acme",
      destinations,
    });
    expect(imported).toMatchObject({ status: 409, json: { detail: expect.stringContaining(id) } });
  });
});
