/** The destinations of a database of 0.1.0, as that version has stored and sealed them. */
import { describe, expect, test } from "vitest";
import { documentsOf, rowsIn } from "../../src/local/first-release.ts";
import { type MasterKeys, parseMasterKeys } from "../../src/secrets/vault.ts";

/** With which 0.1.0 has sealed the secrets below. */
const keys = parseMasterKeys(`k1:${Buffer.alloc(32, 7).toString("base64")}`) as MasterKeys;

const row = {
  id: "dst_yp14ks16sjhan0665ett",
  tenant: "acme",
  url: "https://example.com/hooks",
  event_types: '["order.*"]',
  description: "Shop",
  metadata: '{"a":"b"}',
  headers: '{"x-a":"1"}',
  filter: '{"order.total":{"gte":100}}',
  secret:
    "hmac-sha256.k1.wXOIORSRaAwKUFy5NG07u9r76q1bystg0pDqWSdIuyw13TUR3NhprTMkp60s_u3GTRnnsRYJasNIPXBDyD1Pr028",
  previous_secret: null,
  previous_secret_expires_at: null,
  status: "active",
  status_reason: null,
  status_changed_at: null,
  max_concurrency: 10,
  rate_per_second: 100,
  rate_burst: 200,
  timeout_ms: 15000,
  retry: '{"preset":"svix","max_attempts":5}',
  breaker_failure_ratio: 0.5,
  breaker_min_attempts: 5,
  breaker_window_s: 60,
  breaker_cooldown_s: 20,
  breaker_max_cooldown_s: 45,
  created_at: 1795382063574,
  updated_at: 1795382063574,
  deleted_at: null,
};

const printed = (...results: object[]) => JSON.stringify([{ results, success: true, meta: {} }]);

test("a destination is imported with its settings and its secret", async () => {
  expect(await documentsOf(rowsIn(printed(row)), keys)).toEqual([
    {
      tenant: "acme",
      body: {
        version: 1,
        destinations: [
          {
            id: "dst_yp14ks16sjhan0665ett",
            url: "https://example.com/hooks",
            status: "active",
            event_types: ["order.*"],
            filter: { "order.total": { gte: 100 } },
            description: "Shop",
            metadata: { a: "b" },
            headers: { "x-a": "1" },
            max_concurrency: 10,
            rate_per_second: 100,
            rate_burst: 200,
            timeout_ms: 15000,
            retry: { preset: "svix", max_attempts: 5 },
            breaker: {
              failure_ratio: 0.5,
              min_attempts: 5,
              window_s: 60,
              cooldown_s: 20,
              max_cooldown_s: 45,
            },
            secret: "whsec_Tz4dgw3MtSpdJRp7CfGOvAWOEadmWSq6",
          },
        ],
      },
    },
  ]);
});

test("deleted ones are left out, and tenants are imported apart, 200 destinations at a time", async () => {
  const many = Array.from({ length: 201 }, () => row);
  const other = { ...row, deleted_at: 1 };
  const documents = await documentsOf(rowsIn(printed(...many, other)), keys);
  expect(documents.map(({ body }) => body.destinations.length)).toEqual([200, 1]);
});

describe("nothing is imported", () => {
  test("while a secret does not open, and each is named", async () => {
    const others = parseMasterKeys(`k2:${Buffer.alloc(32, 8).toString("base64")}`) as MasterKeys;
    const moved = { ...row, id: "dst_00000000000000000000" };
    await expect(documentsOf(rowsIn(printed(row)), others)).rejects.toThrow(
      "Nothing has been imported.\ndst_yp14ks16sjhan0665ett: MASTER_KEYS has no key k1",
    );
    await expect(documentsOf(rowsIn(printed(row, moved)), keys)).rejects.toThrow(
      /^Nothing has been imported\.\ndst_00000000000000000000: The secret was not sealed with the key k1/,
    );
  });

  test.each([
    ["that is empty", ""],
    ["of something else", '{"error": "not found"}'],
    ["of a later version", printed({ id: row.id, tenant: "acme", url: row.url, secret: row.secret })],
  ])("from a file %s", (_what, text) => {
    expect(() => rowsIn(text)).toThrow("The file is not what this prints on a database of 0.1.0");
  });
});
