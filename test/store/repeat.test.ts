/**
 * Writes whose answer gets lost, against the real database: those that are marked leave and return the same when they are
 * made again, and those that count, claim or compare are not made again.
 */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { transientOf } from "../../src/core/transient.ts";
import { insertKey, revokeKey } from "../../src/features/keys/sql.ts";
import { claimMail } from "../../src/features/notifications/sql.ts";
import { endSession, findSession, insertSession } from "../../src/features/sessions/sql.ts";
import { repeatingDatabases } from "../../src/store/databases.ts";
import {
  changeDestination,
  insertDestination,
  replaceSecrets,
  setDestinationStatus,
} from "../../src/store/destinations.ts";
import { removeTombstones } from "../../src/store/retention.ts";
import { addToCount, countKeyed, readCounts, saveBacklogSnapshot } from "../../src/store/stats.ts";
import { forgetStatements } from "../../src/store/status-changes.ts";
import {
  beginSweep,
  moveCursor,
  moveWatermark,
  readCursor,
  readWatermark,
  saveSweep,
} from "../../src/store/sweep.ts";
import { emptyDatabase } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";
import { requeueOne } from "../support/requeue.ts";
import { execute } from "../support/world.ts";

const NOW = Date.parse("2050-06-01T12:00:00.000Z");
const LOST = "the answer got lost";

/** D1 whose first answer gets lost; calls are counted. */
function losing() {
  const metered = meteredD1(env.DB);
  let calls = 0;
  metered.failing(() => {
    calls += 1;
    return calls === 1 ? "after" : undefined;
  });
  const timing = { now: () => NOW, random: () => 0.5, sleep: async () => {}, onRepeat: () => {} };
  return { ...repeatingDatabases({ db: metered.db }, timing), calls: () => calls };
}

const all = async (table: string) => (await env.DB.prepare(`SELECT * FROM ${table}`).all()).results;

const destination = (id: string, more = {}) => ({
  id,
  tenant: "acme",
  url: "https://example.com/",
  secret: "sealed",
  createdAt: NOW,
  updatedAt: NOW,
  ...more,
});

beforeEach(emptyDatabase);

describe("a write that is marked as repeatable", () => {
  /** The rows before it, the write, its result, and the table with its effect. */
  const writes: Readonly<
    Record<
      string,
      [prepare: () => Promise<unknown>, write: (db: D1Database) => Promise<unknown>, table: string]
    >
  > = {
    moveWatermark: [() => moveWatermark(env.DB, 3), (db) => moveWatermark(db, 7), "sweeps"],
    moveCursor: [async () => {}, (db) => moveCursor(db, "retention", { at: 1, row: 2 }), "cursors"],
    saveSweep: [
      () => beginSweep(env.DB, "lease", NOW + 1, NOW),
      (db) => saveSweep(db, { lease: "lease", page: 0 }, { parts: {}, heartbeatAt: NOW, leasedUntil: 0 }),
      "sweeps",
    ],
    replaceSecrets: [
      () => insertDestination(env.DB, destination("dst_a"), 10),
      (db) => {
        const stored = {
          id: "dst_a",
          secret: "sealed",
          previousSecrets: null,
          headers: null,
          sealedHeaders: null,
          auth: null,
          targetToken: null,
          noticeTarget: null,
        };
        const before = { ...stored, texts: { headers: null, sealedHeaders: null, auth: null } };
        const secrets = { secret: "sealed anew", previousSecrets: [] };
        return replaceSecrets(db, [{ before, secrets, sealedHeaders: { "x-key": "sealed" } }]);
      },
      "destinations",
    ],
    saveBacklogSnapshot: [
      () => saveBacklogSnapshot(env.DB, { at: NOW - 60_000, backlogs: {} }),
      (db) => saveBacklogSnapshot(db, { at: NOW, backlogs: {} }),
      "backlog_snapshots",
    ],
    countKeyed: [
      () =>
        execute(
          `INSERT INTO bundles (id, tokens, accepted_at, count, planned, plan, header, body)
           VALUES (1, '[]', 1, 1, 0, '{}', '{"keys":[["acme","k"]]}', x'')`,
        ),
      (db) => countKeyed({ db }),
      "counts",
    ],
    forgetStatements: [
      async () => {
        await insertDestination(env.DB, destination("dst_a"), 10);
        await setDestinationStatus(
          env.DB,
          "dst_a",
          { status: "paused", statusReason: "manual" },
          undefined,
          NOW,
        );
      },
      (db) => {
        const change = {
          id: "dst_a",
          tenant: "acme",
          url: "",
          reason: null,
          status: "paused",
          changedAt: NOW,
        } as const;
        return db.batch(forgetStatements(db, [change]));
      },
      "status_changes",
    ],
    removeTombstones: [
      async () => {
        await insertDestination(env.DB, destination("dst_a"), 10);
        await changeDestination(env.DB, "dst_a", { deletedAt: NOW }, undefined);
      },
      (db) => removeTombstones(db, ["dst_a"]),
      "destinations",
    ],
  };

  test.each(Object.entries(writes))("is repeated, with the same effect and result: %s", async (_, [
    prepare,
    write,
    table,
  ]) => {
    await prepare();
    const untouched = await all(table);
    const once = withoutMeta(await write(env.DB));
    const left = await all(table);
    expect(left).not.toEqual(untouched);
    await emptyDatabase();
    await prepare();
    const { db, calls } = losing();
    expect(withoutMeta(await write(db))).toEqual(once);
    expect(calls()).toBe(2);
    expect(await all(table)).toEqual(left);
  });

  test("is found by its read, which is repeated as well", async () => {
    await moveWatermark(env.DB, 7);
    await moveCursor(env.DB, "retention", { at: 1, row: 2 });
    expect(await readWatermark(losing().db)).toBe(7);
    expect(await readCursor(losing().db, "retention")).toEqual({ at: 1, row: 2 });
  });
});

describe("a write that counts, claims or compares is not repeated when its answer was lost", () => {
  const session = {
    id: "s",
    keyId: null,
    portal: null,
    tenant: "acme",
    scopes: ["read" as const],
    createdAt: NOW,
    expiresAt: NOW + 1,
  };
  const key = { id: "key_a", name: "", hash: "h", scopes: ["read" as const], createdAt: NOW };

  test.each<[string, () => Promise<unknown>, (db: D1Database) => Promise<unknown>]>([
    ["a counter", async () => {}, (db) => addToCount(db, "deduplicated", 1)],
    ["the claim of a mail", async () => {}, (db) => claimMail(db, "operator", "about", NOW)],
    ["a session", async () => {}, (db) => insertSession(db, session)],
    ["a new key", async () => {}, (db) => insertKey(db, key)],
    ["a revocation", () => insertKey(env.DB, key), (db) => revokeKey(db, "key_a", undefined, NOW)],
    ["a new destination", async () => {}, (db) => insertDestination(db, destination("dst_a"), 10)],
    [
      "a rotation",
      () => insertDestination(env.DB, destination("dst_a"), 10),
      (db) => changeDestination(db, "dst_a", { secret: "other" }, undefined, { secret: "sealed" }),
    ],
    [
      "a pause",
      () => insertDestination(env.DB, destination("dst_a"), 10),
      (db) => setDestinationStatus(db, "dst_a", { status: "paused", statusReason: "manual" }, undefined, NOW),
    ],
    ["a sweep's lease", async () => {}, (db) => beginSweep(db, "lease", NOW + 1, NOW)],
    ["a requeue", async () => {}, (db) => requeueOne({ db }, { destinationId: "dst_a", eventId: 128 }, NOW)],
  ])("%s", async (_, prepare, write) => {
    await prepare();
    const { db, calls } = losing();
    const failure = await write(db).catch((error: unknown) => error);
    expect(transientOf(failure)).toBe("interrupted");
    expect(calls()).toBe(1);
  });

  test("so that it takes effect once", async () => {
    await expect(addToCount(losing().db, "deduplicated", 1)).rejects.toThrow(LOST);
    expect(await readCounts({ db: env.DB })).toEqual({ deduplicated: 1 });
    await insertSession(env.DB, session);
    await expect(endSession(losing().db, "s", NOW)).rejects.toThrow();
    expect(await findSession(env.DB, "s", NOW)).toBeUndefined();
  });
});

/** Without what D1 measured. */
function withoutMeta(result: unknown): unknown {
  return Array.isArray(result) ? result.map((one) => (one as { results?: unknown }).results ?? one) : result;
}
