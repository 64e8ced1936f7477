/** The cost of keys for the first database, with many of them and several isolates, and when a change takes effect. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { keyToken, REMEMBERED_MS } from "../../../src/core/credentials.ts";
import type { Principal } from "../../../src/core/principal.ts";
import { byKey } from "../../../src/http/auth.ts";

import { type Services, servicesOf } from "../../../src/services.ts";
import { testConfig } from "../../support/config.ts";
import { emptyDatabase } from "../../support/databases.ts";
import { meteredD1 } from "../../support/meter.ts";

const START = 1_800_000_000_000;
const HOUR = 3_600_000;
const MANY = 10_000;

beforeEach(emptyDatabase);

const idOf = (n: number) => `key_${n.toString(32).padStart(4, "0")}${"0".repeat(16)}`;
const tokenOf = (n: number) => keyToken(idOf(n), "s".repeat(32));

async function hashOf(n: number): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(tokenOf(n)));
  return new Uint8Array(digest).toHex();
}

/** Stores keys of these numbers, all of them used a moment ago, so that their use is not written. */
async function storeKeys(from: number, count: number, usedAt: number | null = START): Promise<void> {
  const keys = await Promise.all(
    Array.from({ length: count }, async (_, i) => [idOf(from + i), await hashOf(from + i)]),
  );
  await env.DB.prepare(
    `INSERT INTO api_keys (id, hash, scopes, created_at, last_used_at)
     SELECT value ->> 0, value ->> 1, '["read"]', 0, ?2 FROM json_each(?1)`,
  )
    .bind(JSON.stringify(keys), usedAt)
    .run();
}

/** A database that is counted, and isolates before it, each with a cache of its own and the test's clock. */
function world(count = 1) {
  const { db, used, failing } = meteredD1(env.DB);
  const pending: Promise<unknown>[] = [];
  let now = START;
  const platform = servicesOf(env, { waitUntil: () => {} });
  const services: Services = {
    ...platform,
    config: testConfig(),
    db,
    anonymousLimit: undefined,
    now: () => now,
    background: (work) => void pending.push(work),
  };
  const settled = async () => {
    while (pending.length > 0) await Promise.all(pending.splice(0));
  };
  const isolates = Array.from({ length: count }, () => {
    const authenticate = byKey();
    return async (n: number): Promise<boolean> => {
      const found = await authenticate(services, tokenOf(n));
      await settled();
      return (found as Principal | undefined)?.key === idOf(n);
    };
  });
  const pass = (ms: number) => {
    now += ms;
  };
  const [isolate = async () => false] = isolates;
  return { isolates, isolate, used, failing, pass };
}

async function all(isolate: (n: number) => Promise<boolean>, count: number): Promise<void> {
  for (let n = 0; n < count; n++) expect(await isolate(n)).toBe(true);
}

const revoke = (n: number) =>
  env.DB.prepare("UPDATE api_keys SET revoked_at = 1 WHERE id = ?1").bind(idOf(n)).run();

describe("10,000 keys in turn", () => {
  it("cost each of several isolates some twenty queries while it is cold, and none when it is full", async () => {
    await storeKeys(0, MANY);
    const { isolates, used, pass } = world(2);
    for (const isolate of isolates) {
      used();
      await all(isolate, MANY);
      const cold = used();
      expect(cold.queries).toBeLessThanOrEqual(25);
      expect(cold.rowsRead).toBeLessThan(1.1 * MANY);
      for (let n = 0; n < MANY; n += 10) expect(await isolate(n)).toBe(true);
      expect(used().queries).toBe(0);
    }
    // Some have slept for hours. Each checks once what has changed, and reads only that.
    pass(5 * HOUR);
    await env.DB.prepare("UPDATE api_keys SET last_used_at = ?1")
      .bind(START + 5 * HOUR)
      .run();
    await revoke(1);
    await env.DB.prepare("UPDATE api_keys SET scopes = '[]' WHERE id = ?1").bind(idOf(2)).run();
    for (const isolate of isolates) {
      used();
      expect([await isolate(0), await isolate(1), await isolate(2)]).toEqual([true, false, true]);
      const { queries, rowsRead } = used();
      // The check, two changed keys, and the uses of the two that are valid.
      expect(queries).toBeLessThanOrEqual(5);
      expect(rowsRead).toBeLessThan(20);
    }
  });
});

describe("a change of a key", () => {
  it("takes effect within 30 seconds in an isolate that is never idle, for one query in ten seconds", async () => {
    await storeKeys(0, 100);
    const { isolate, used, pass } = world();
    await all(isolate, 100);
    await revoke(7);
    used();
    let isValid = true;
    for (let second = 1; isValid && second < 30; second++) {
      pass(1_000);
      for (let n = 8; n < 12; n++) expect(await isolate(n)).toBe(true);
      isValid = await isolate(7);
    }
    expect(isValid).toBe(false);
    expect(used().queries).toBeLessThanOrEqual(3);
  });

  it("takes effect at the first request of an isolate that was idle", async () => {
    await storeKeys(0, 2);
    const { isolate, pass } = world();
    await all(isolate, 2);
    await revoke(1);
    pass(REMEMBERED_MS);
    expect(await isolate(1)).toBe(false);
    expect(await isolate(0)).toBe(true);
  });

  it("takes effect when more keys have changed than are read at once", async () => {
    await storeKeys(0, 1_500);
    const { isolate, pass, used } = world();
    await all(isolate, 10);
    await env.DB.exec("UPDATE api_keys SET revoked_at = 1 WHERE id <> 'key_0000000000000000000'");
    pass(HOUR);
    used();
    expect([await isolate(3), await isolate(4)]).toEqual([false, false]);
    expect(used().queries).toBeLessThan(10);
  });

  it("takes effect when the database was restored to an earlier time", async () => {
    await storeKeys(0, 3);
    const { isolate, pass } = world();
    await all(isolate, 3);
    await revoke(2);
    await env.DB.exec("DELETE FROM key_changes");
    pass(HOUR);
    expect([await isolate(2), await isolate(0)]).toEqual([false, true]);
  });

  it("does not prolong any key while the database is away, and queries it again at once", async () => {
    await storeKeys(0, 1);
    const { isolate, pass, failing } = world();
    await all(isolate, 1);
    failing(() => "before");
    pass(REMEMBERED_MS - 1);
    expect(await isolate(0)).toBe(true);
    pass(1);
    await expect(isolate(0)).rejects.toThrow();
    failing(() => undefined);
    expect(await isolate(0)).toBe(true);
  });

  it("is not needed for a new key, which is valid at once", async () => {
    await storeKeys(0, 1);
    const { isolate } = world();
    expect([await isolate(0), await isolate(5)]).toEqual([true, false]);
    await storeKeys(6, 1);
    expect(await isolate(6)).toBe(true);
  });

  it("makes an id valid that was used before its key existed", async () => {
    await storeKeys(0, 1);
    const { isolate, pass, used } = world();
    await isolate(0);
    expect(await isolate(5)).toBe(false);
    used();
    expect(await isolate(5)).toBe(false);
    expect(used().queries).toBe(0);
    await storeKeys(5, 1);
    pass(REMEMBERED_MS);
    expect(await isolate(5)).toBe(true);
  });
});

describe("the last uses of keys", () => {
  it("are written together if many keys are used, and separately if few are", async () => {
    await storeKeys(0, 1_000, null);
    const { isolate, used, pass } = world();
    const unwritten = async () =>
      (
        await env.DB.prepare("SELECT count(*) AS n FROM api_keys WHERE last_used_at IS NULL").first<{
          n: number;
        }>()
      )?.n;
    await isolate(0);
    expect(await unwritten()).toBe(999);
    used();
    for (let n = 0; n < 1_000; n++) expect(await isolate(n)).toBe(true);
    expect(used().queries).toBeLessThan(30);
    pass(10_000);
    await isolate(0);
    expect(await unwritten()).toBe(0);
  });
});
