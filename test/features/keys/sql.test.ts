/** Keys in D1: who finds which, what ends them, and that a change affects only one. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import {
  type ApiKeyInsert,
  findKey,
  insertKey,
  keyChangesSince,
  listKeys,
  lookUpKey,
  revokeKey,
  writeKeyUses,
} from "../../../src/features/keys/sql.ts";
import { execute, newWorld } from "../../support/world.ts";

const NOW = 1_800_000_000_000;
const key = (id: string, columns: Partial<ApiKeyInsert> = {}): ApiKeyInsert => ({
  id,
  hash: "h",
  scopes: [],
  createdAt: NOW,
  ...columns,
});

beforeEach(async () => {
  await newWorld();
  await execute("DELETE FROM api_keys");
  await insertKey(env.DB, key("key_a", { tenant: "acme" }));
  await insertKey(env.DB, key("key_b", { tenant: "acme" }));
  await insertKey(env.DB, key("key_g", { tenant: "globex" }));
  await insertKey(env.DB, key("key_o"));
});

describe("a key", () => {
  const listed = async (tenant?: string, after?: string, limit = 9) =>
    (await listKeys(env.DB, { tenant, after, limit })).map(({ id }) => id);

  test("is listed for its tenant and the operator, in order and by pages", async () => {
    expect(await listed()).toEqual(["key_a", "key_b", "key_g", "key_o"]);
    expect(await listed("acme")).toEqual(["key_a", "key_b"]);
    expect(await listed("acme", "key_a")).toEqual(["key_b"]);
    expect(await listed(undefined, "key_a", 2)).toEqual(["key_b", "key_g"]);
  });

  test("of another tenant, or of none, is not found and not revoked", async () => {
    expect(await findKey(env.DB, "key_a", "acme")).toMatchObject({ id: "key_a" });
    for (const id of ["key_g", "key_o"]) {
      expect(await findKey(env.DB, id, "acme")).toBeUndefined();
      expect(await revokeKey(env.DB, id, "acme", NOW)).toBeUndefined();
    }
    expect(await listed()).toHaveLength(4);
  });

  test("is revoked once and without others, and is then found only to be refused", async () => {
    expect(await revokeKey(env.DB, "key_a", undefined, NOW)).toMatchObject({ id: "key_a", revokedAt: NOW });
    expect(await revokeKey(env.DB, "key_a", undefined, NOW + 1)).toBeUndefined();
    expect(await findKey(env.DB, "key_a", "acme")).toBeUndefined();
    expect((await lookUpKey(env.DB, "key_a")).key).toMatchObject({ revokedAt: NOW });
    expect(await listed()).toEqual(["key_b", "key_g", "key_o"]);
  });

  test("has its own last use written, unless a later one has been", async () => {
    const uses = async () =>
      Promise.all(["key_a", "key_b"].map(async (id) => (await lookUpKey(env.DB, id)).key?.lastUsedAt));
    await writeKeyUses(env.DB, ["key_a"], NOW, NOW - 10);
    expect(await uses()).toEqual([NOW, null]);
    await writeKeyUses(env.DB, ["key_a"], NOW + 5, NOW - 1);
    expect(await uses()).toEqual([NOW, null]);
    await writeKeyUses(env.DB, ["key_a", "key_none"], NOW + 6, NOW);
    expect(await uses()).toEqual([NOW + 6, null]);
  });
});

describe("the changes of keys", () => {
  const since = (revision: number, limit = 9) => keyChangesSince(env.DB, revision, limit);

  test("are all changes since a revision, by whatever means, each key once, without uses", async () => {
    const { latest } = await since(0);
    expect(await since(latest)).toEqual({ latest, changes: [] });
    await writeKeyUses(env.DB, ["key_a", "key_b"], NOW, NOW - 1);
    await execute("UPDATE api_keys SET name = 'ops'");
    expect(await since(latest)).toEqual({ latest, changes: [] });
    await revokeKey(env.DB, "key_b", undefined, NOW);
    await execute("UPDATE api_keys SET scopes = '[]' WHERE id IN ('key_a', 'key_b')");
    await execute("UPDATE api_keys SET id = 'key_h' WHERE id = 'key_g'");
    await execute("DELETE FROM api_keys WHERE id = 'key_o'");
    await execute("INSERT OR IGNORE INTO api_keys (id, hash, created_at) VALUES ('key_o', 'h', 0)");
    const found = await since(latest);
    expect(found.changes.map(({ id }) => id)).toEqual(["key_a", "key_b", "key_g", "key_h", "key_o"]);
    expect(found.latest).toBe(found.changes.at(-1)?.revision);
    expect((await since(latest, 2)).changes.map(({ id }) => id)).toEqual(["key_a", "key_b"]);
    expect((await lookUpKey(env.DB, "key_none")).revision).toBe(found.latest);
  });

  test("never reuse a revision, even when all of them have been removed", async () => {
    const { latest } = await since(0);
    await execute("DELETE FROM key_changes");
    expect((await since(latest)).latest).toBe(0);
    await insertKey(env.DB, key("key_z"));
    expect((await since(latest)).changes).toEqual([{ id: "key_z", revision: latest + 1 }]);
  });
});
