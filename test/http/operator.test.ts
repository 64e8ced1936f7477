/** The reserved tenant `operator`: only the operator posts and creates for it. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import type { Principal } from "../../src/core/principal.ts";

import { countRows, emptyDatabase, testApi } from "../support/api.ts";
import { operationalEvents } from "../support/operational.ts";

beforeEach(emptyDatabase);

const all = ["events:write", "read", "admin"] as const;

function apiOf(principal: Principal) {
  return testApi({ authenticate: async () => principal });
}

const bodies: readonly (readonly [string, string, unknown])[] = [
  ["an event", "/v1/events", { type: "a.b", data: 1, tenant: "operator" }],
  ["a batch", "/v1/events/batch", { events: [{ type: "a.b", data: 1, tenant: "operator" }] }],
  ["a destination", "/v1/destinations", { url: "https://example.com/", tenant: "operator" }],
  ["a portal link", "/v1/portal-links", { tenant: "operator" }],
];

describe.each(bodies)("%s of the tenant operator", (_, path, body) => {
  it.each<[string, Principal]>([
    ["a key bound to another tenant", { scopes: all, tenant: "acme" }],
    ["a key bound to that tenant", { scopes: all, tenant: "operator" }],
    ["a key bound to none that is no admin's", { scopes: ["events:write", "read"] }],
  ])("is refused to %s, and stores nothing", async (_, principal) => {
    expect((await apiOf(principal).call("POST", path, body)).status).toBe(403);
    expect(await countRows("events")).toBe(0);
    expect(await countRows("destinations")).toBe(0);
  });

  it("is allowed to the operator", async () => {
    const { status } = await apiOf({ scopes: all }).call("POST", path, body);
    expect([201, 202]).toContain(status);
  });
});

it("a key bound to the reserved tenant is refused too", async () => {
  const api = apiOf({ scopes: all, tenant: "operator" });
  expect((await api.call("POST", "/v1/events", { type: "a.b", data: 1 })).status).toBe(403);
});

describe("an operator's pause and resume", () => {
  const url = "https://example.com/hooks";
  const create = async (tenant: string) => {
    const { json } = await testApi().call("POST", "/v1/destinations", { url, tenant });
    return json.id as string;
  };

  it("are published and logged once each, however often they are repeated", async () => {
    await create("operator");
    const id = await create("acme");
    const api = testApi();
    for (const action of ["pause", "pause", "resume", "resume"]) {
      expect((await api.call("POST", `/v1/destinations/${id}/${action}`)).status).toBe(200);
    }
    const data = { destination_id: id, tenant: "acme", host: "example.com", reason: "manual" };
    expect(await operationalEvents(env.DB)).toMatchObject([
      { type: "destination.paused", data },
      { type: "destination.resumed", data },
    ]);
    expect(api.messages).toHaveLength(2);
    expect(api.log.filter(({ what }) => what.startsWith("destination_"))).toEqual([
      { what: "destination_paused", destination: id, reason: "manual" },
      { what: "destination_resumed", destination: id, reason: "manual" },
    ]);
  });

  it("of the operator's own destination are not published", async () => {
    const id = await create("operator");
    await create("operator");
    await testApi().call("POST", `/v1/destinations/${id}/pause`);
    expect(await operationalEvents(env.DB)).toEqual([]);
  });
});
