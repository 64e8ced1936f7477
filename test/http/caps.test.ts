/** Caps: the destinations of a tenant and the deliveries of a request are limited in the statement that inserts them. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { type Config, capsOf, parseConfig } from "../../src/config.ts";
import type { Principal } from "../../src/core/principal.ts";

import { countRows, emptyDatabase, KEY, testApi } from "../support/api.ts";
import { testConfig } from "../support/config.ts";
import { testDashboard } from "../support/dashboard.ts";
import { MASTER_KEYS } from "../support/vault.ts";

beforeEach(emptyDatabase);

const apiWith = (caps: Partial<Config>) => testApi({ services: { config: testConfig(caps) } });
const place = { url: "https://example.com/hook", tenant: "acme" };

async function destinations(count: number, tenant = "acme"): Promise<void> {
  await env.DB.prepare(
    `INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     SELECT 'dst_' || ?2 || printf('%016d', i), ?2, 'https://example.com', '', 0, 0 FROM n`,
  )
    .bind(count, tenant)
    .run();
}

describe("destinations of a tenant", () => {
  test("are refused beyond the cap, with the fault and what is expected", async () => {
    const { call } = apiWith({ maxDestinationsPerTenant: 3 });
    await destinations(3);
    const { status, json } = await call("POST", "/v1/destinations", place);
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      {
        field: "tenant",
        fault: "is acme, which has 3 destinations or more",
        expected: "at most 3 in a tenant: delete one that is no longer needed",
      },
    ]);
    expect(await countRows("destinations")).toBe(3);
  });

  test("that are deleted do not count, nor do other tenants'", async () => {
    const { call } = apiWith({ maxDestinationsPerTenant: 3 });
    await destinations(3);
    await destinations(3, "them");
    await env.DB.prepare(
      "UPDATE destinations SET deleted_at = 1 WHERE id = 'dst_acme0000000000000001'",
    ).run();
    expect((await call("POST", "/v1/destinations", place)).status).toBe(201);
    expect((await call("POST", "/v1/destinations", place)).status).toBe(422);
  });

  test("never exceed the cap, however many are created at the same moment", async () => {
    await destinations(1);
    const answers = await Promise.all(
      Array.from({ length: 6 }, () =>
        apiWith({ maxDestinationsPerTenant: 3 }).call("POST", "/v1/destinations", place),
      ),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 201, 422, 422, 422, 422]);
  });

  test("are at most a thousand unless the deployment sets another limit", async () => {
    await destinations(1_000);
    expect((await testApi().call("POST", "/v1/destinations", place)).status).toBe(422);
    const variables = {
      ADMIN_KEY: KEY,
      MASTER_KEYS,
      MAX_DESTINATIONS_PER_TENANT: "7",
      MAX_DELIVERIES_PER_REQUEST: "9",
    };
    expect(capsOf(parseConfig(variables))).toEqual({ destinations: 7, deliveries: 9 });
    const wrong = { ...variables, MAX_DESTINATIONS_PER_TENANT: "0", MAX_DELIVERIES_PER_REQUEST: "many" };
    expect(() => parseConfig(wrong)).toThrow(
      /MAX_DESTINATIONS_PER_TENANT expected a whole number, 1 to 10000.*MAX_DELIVERIES_PER_REQUEST expected a whole/,
    );
  });

  test("are refused in the portal with the same message", async () => {
    await destinations(3, "default");
    const browser = testDashboard({ services: { config: testConfig({ maxDestinationsPerTenant: 3 }) } });
    await browser.signIn();
    const { status, html } = await browser.post("/dashboard/destinations/new", { url: place.url });
    expect(status).toBe(422);
    expect(html).toContain("which has 3 destinations or more; expected at most 3 in a tenant");
  });
});

describe("deliveries of a request", () => {
  const caps = { maxDeliveriesPerRequest: 10 };
  const event = { type: "order.paid", data: {}, tenant: "acme" };

  test("are stored up to the cap, and beyond it refused as a whole", async () => {
    await destinations(5);
    const { call, messages } = apiWith(caps);
    expect((await call("POST", "/v1/events/batch", { events: [event, event] })).status).toBe(202);
    const sent = messages.length;
    const { status, json } = await call("POST", "/v1/events/batch", { events: [event, event, event] });
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      {
        field: "events",
        fault: "would make 15 deliveries",
        expected: "at most 10 in one request: fewer events, or events that fewer destinations take",
      },
    ]);
    expect([await countRows("events"), messages.length]).toEqual([2, sent]);
  });

  test("are the planned ones, not all destinations of the tenant", async () => {
    await destinations(5);
    await env.DB.prepare(
      `UPDATE destinations SET event_types = '["other"]' WHERE id > 'dst_acme0000000000000001'`,
    ).run();
    const events = Array(10).fill(event);
    expect((await apiWith(caps).call("POST", "/v1/events/batch", { events })).status).toBe(202);
  });

  test("of a single event are counted too", async () => {
    await destinations(11);
    const { status, json } = await apiWith(caps).call("POST", "/v1/events", event);
    expect([status, json.errors[0].field, await countRows("events")]).toEqual([422, "type", 0]);
  });

  test("leave the idempotency key of a refused request unused", async () => {
    await destinations(5);
    const { call } = apiWith(caps);
    const headers = { "idempotency-key": "k" };
    const refused = await call("POST", "/v1/events/batch", { events: [event, event, event] }, headers);
    expect(refused.status).toBe(422);
    expect((await call("POST", "/v1/events/batch", { events: [event] }, headers)).status).toBe(202);
  });

  test("never make a repeated request fail, whatever has been stored since", async () => {
    await destinations(5);
    const { call } = apiWith(caps);
    const headers = { "idempotency-key": "k" };
    const body = { events: [event, event] };
    const first = await call("POST", "/v1/events/batch", body, headers);
    await destinations(5, "them");
    for (const tenant of ["them", "them"]) await call("POST", "/v1/events", { ...event, tenant });
    await env.DB.prepare(
      "UPDATE bundles SET plan = (SELECT json_group_object(id, json('[0,0]')) FROM destinations) WHERE id > 1",
    ).run();
    const repeat = await call("POST", "/v1/events/batch", body, headers);
    expect([repeat.status, repeat.json]).toEqual([202, first.json]);
  });

  test("of an admin's request are counted over all its tenants", async () => {
    await destinations(5);
    await destinations(5, "them");
    const admin: Principal = { scopes: ["events:write"] };
    const { call } = testApi({ services: { config: testConfig(caps) }, authenticate: async () => admin });
    const events = [event, { ...event, tenant: "them" }];
    expect((await call("POST", "/v1/events/batch", { events })).status).toBe(202);
    expect((await call("POST", "/v1/events/batch", { events: [...events, event] })).status).toBe(422);
  });
});
