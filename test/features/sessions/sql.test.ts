/** Sessions in D1: what opens one, what ends it, and that a change affects only one. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { insertKey, revokeKey } from "../../../src/features/keys/sql.ts";
import {
  endSession,
  findSession,
  forgetSessions,
  insertSession,
  replacePortalVisit,
  type Session,
} from "../../../src/features/sessions/sql.ts";
import { execute, newWorld } from "../../support/world.ts";

const NOW = 1_800_000_000_000;

beforeEach(async () => {
  await newWorld();
  await execute("DELETE FROM sessions");
  await execute("DELETE FROM api_keys");
});

describe("a session", () => {
  const session = (id: string, columns: Partial<Session> = {}) => ({
    id,
    keyId: null,
    tenant: null,
    scopes: [],
    portal: null,
    createdAt: NOW,
    expiresAt: NOW + 100,
    ...columns,
  });
  const isFound = async (id: string, now = NOW) => (await findSession(env.DB, id, now))?.id === id;

  test("is opened once by its id", async () => {
    expect(await insertSession(env.DB, session("one"))).toBe(true);
    expect(await insertSession(env.DB, session("one", { tenant: "globex" }))).toBe(false);
    expect(await findSession(env.DB, "one", NOW)).toMatchObject({ tenant: null });
  });

  test("is found by its id until it expires or is ended, and no other is", async () => {
    await insertSession(env.DB, session("one"));
    await insertSession(env.DB, session("two"));
    expect([await isFound("one"), await isFound("two"), await isFound("three")]).toEqual([true, true, false]);
    expect([await isFound("one", NOW + 99), await isFound("one", NOW + 100)]).toEqual([true, false]);
    await endSession(env.DB, "one", NOW + 1);
    expect([await isFound("one"), await isFound("two")]).toEqual([false, true]);
  });

  test("ends with its key: when that expires, is revoked or is gone", async () => {
    const key = { scopes: [], hash: "h", createdAt: NOW };
    await insertKey(env.DB, { ...key, id: "key_a", tenant: "acme" });
    await insertKey(env.DB, { ...key, id: "key_x", expiresAt: NOW + 50 });
    await insertSession(env.DB, session("of a", { keyId: "key_a" }));
    await insertSession(env.DB, session("of x", { keyId: "key_x" }));
    await insertSession(env.DB, session("of none", { keyId: "key_gone" }));
    expect([await isFound("of a"), await isFound("of x"), await isFound("of none")]).toEqual([
      true,
      true,
      false,
    ]);
    expect([await isFound("of x", NOW + 49), await isFound("of x", NOW + 50)]).toEqual([true, false]);
    await revokeKey(env.DB, "key_a", undefined, NOW);
    expect(await isFound("of a")).toBe(false);
  });

  test("stores the visitor's choices, without affecting other sessions", async () => {
    await insertSession(env.DB, session("one"));
    await insertSession(env.DB, session("two"));
    await replacePortalVisit(env.DB, "one", { theme: "dark" });
    expect(await findSession(env.DB, "one", NOW)).toMatchObject({ portal: { theme: "dark" } });
    expect(await findSession(env.DB, "two", NOW)).toMatchObject({ portal: null });
  });

  test("is removed once it has expired before the given time", async () => {
    await insertSession(env.DB, session("one"));
    await insertSession(env.DB, session("two", { expiresAt: NOW + 99 }));
    await forgetSessions(env.DB, NOW + 100);
    expect([await isFound("one"), await isFound("two")]).toEqual([true, false]);
    expect(await insertSession(env.DB, session("two"))).toBe(true);
    expect(await insertSession(env.DB, session("one"))).toBe(false);
  });
});
