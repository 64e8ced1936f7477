/** The API of groups, which only operators see. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import type { Principal } from "../../../src/core/principal.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

beforeEach(emptyDatabase);

const scopes = ["read", "admin", "ingest"] as unknown as Principal["scopes"];
const services = { gates: env.GATES, groups: env.GROUPS };
const operator = testApi({ authenticate: async () => ({ scopes }), services });
const tenant = testApi({ authenticate: async () => ({ scopes, tenant: "acme" }), services });

const target = { url: "https://hooks.example.com/x", tenant: "acme" };

describe("/v1/groups", () => {
  it("sets, shows, lists and removes the limits of a group", async () => {
    const set = await operator.call("PUT", "/v1/groups/host:hooks.example.com", { rate_per_second: 50 });
    expect(set).toMatchObject({
      status: 200,
      json: { max_concurrency: 100, rate_per_second: 50, rate_burst: 5 },
    });
    const shown = await operator.call("GET", "/v1/groups/host:hooks.example.com");
    expect(shown.json).toMatchObject({ rate_per_second: 50, state: { circuit: "closed", waiting: 0 } });
    await operator.call("POST", "/v1/destinations", { ...target, group: "billing" });
    expect((await operator.call("GET", "/v1/groups")).json).toMatchObject({
      data: [{ name: "billing", created_at: null }, { name: "host:hooks.example.com" }],
    });
    expect((await operator.call("DELETE", "/v1/groups/host:hooks.example.com")).status).toBe(204);
    expect((await operator.call("DELETE", "/v1/groups/host:hooks.example.com")).status).toBe(404);
    expect((await operator.call("POST", "/v1/groups/billing/reset")).status).toBe(200);
  });

  it("refuses limits out of their range, unknown fields and names of another form", async () => {
    const put = (name: string, body: unknown) => operator.call("PUT", `/v1/groups/${name}`, body);
    expect((await put("a", { max_concurrency: 0 })).status).toBe(422);
    expect((await put("a", { colour: "red" })).status).toBe(422);
    expect((await put("a%20b", {})).status).toBeGreaterThanOrEqual(400);
    expect((await put("host:..%2F", {})).status).toBeGreaterThanOrEqual(400);
  });

  it("finds no group by an impossible name", async () => {
    for (const name of ["a%20b", "x".repeat(65), "dashboard%2Fkeys"]) {
      expect((await operator.call("GET", `/v1/groups/${name}`)).status).toBe(404);
      expect((await operator.call("POST", `/v1/groups/${name}/reset`)).status).toBe(404);
    }
  });

  it("is refused to keys bound to a tenant, whatever its name", async () => {
    for (const [path, method] of [
      ["/v1/groups", "GET"],
      ["/v1/groups/a", "GET"],
      ["/v1/groups/a", "PUT"],
      ["/v1/groups/a", "DELETE"],
      ["/v1/groups/a/reset", "POST"],
    ] as const)
      expect((await tenant.call(method, path, method === "PUT" ? {} : undefined)).status).toBe(403);
  });
});

describe("the field `group` of a destination", () => {
  it("is set and seen only by the operator", async () => {
    const made = await operator.call("POST", "/v1/destinations", { ...target, group: "billing" });
    const { id } = made.json as { id: string };
    expect(made.json).toMatchObject({ group: "billing" });
    const seen = await tenant.call("GET", `/v1/destinations/${id}`);
    expect(seen.status).toBe(200);
    expect(seen.json).not.toHaveProperty("group");
    for (const group of ["other", null])
      expect((await tenant.call("PATCH", `/v1/destinations/${id}`, { group })).json).toMatchObject({
        status: 422,
        errors: [{ field: "group" }],
      });
    expect((await tenant.call("POST", "/v1/destinations", { ...target, group: "billing" })).status).toBe(422);
    const audit = await tenant.call("GET", "/v1/audit");
    expect(JSON.stringify(audit.json)).not.toContain("billing");
  });

  it("refuses names of another form", async () => {
    for (const group of ["", "a b", "host:evil", "-x", "x".repeat(65)])
      expect((await operator.call("POST", "/v1/destinations", { ...target, group })).status).toBe(422);
  });
});
