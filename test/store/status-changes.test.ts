/** The statements behind notifications: destinations are paused once, changes are published once, and mails are limited. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { claimMail, isOperatorListening } from "../../src/features/notifications/sql.ts";
import {
  forgetStatements,
  pauseStatements,
  type StatusChange,
  type UnpublishedChanges,
  unpublishedChanges,
} from "../../src/store/status-changes.ts";
import { emptyDatabase, insertRow, plainDestination } from "../support/api.ts";
import { rowsOfAll } from "../support/databases.ts";

const HOUR = 3_600_000;

beforeEach(emptyDatabase);

test("only active destinations that are not deleted are paused", async () => {
  await plainDestination("dst_active");
  await plainDestination("dst_paused", { status: "paused", status_reason: "manual", status_changed_at: 3 });
  await plainDestination("dst_deleted", { deleted_at: 2 });
  await plainDestination("dst_unnamed");
  await pauseStatements(env.DB, ["dst_active", "dst_paused", "dst_deleted"], "gone", 9).run();
  const rows = await rowsOfAll(
    `SELECT id, status, status_reason AS reason, status_changed_at AS changed, updated_at AS updated
     FROM destinations ORDER BY id`,
  );
  const active = { status: "active", reason: null, changed: null, updated: 1 };
  expect(rows).toEqual([
    { id: "dst_active", status: "paused", reason: "gone", changed: 9, updated: 9 },
    { id: "dst_deleted", ...active },
    { id: "dst_paused", status: "paused", reason: "manual", changed: 3, updated: 1 },
    { id: "dst_unnamed", ...active },
  ]);
});

describe("changes that have not been published", () => {
  const change = (changedAt: number, id: string, status: "active" | "paused" = "paused") =>
    insertRow("status_changes", {
      changed_at: changedAt,
      destination_id: id,
      status,
      reason: status === "paused" ? "gone" : null,
      tenant: "acme",
      url: `https://${id}.example`,
    });

  const find = async (which: UnpublishedChanges) =>
    (await unpublishedChanges(env.DB, which).all<StatusChange>()).results;

  const left = async () =>
    (await find({ until: 99 })).map(({ changedAt, id, status }) => `${changedAt} ${id} ${status}`);

  beforeEach(async () => {
    await change(30, "dst_a");
    await change(30, "dst_b");
    await change(10, "dst_a");
    await change(10, "dst_a", "active");
    await change(10, "dst_b");
    await change(20, "dst_b");
  });

  test("are found by their destinations and one time, with their details", async () => {
    expect(await find({ ids: ["dst_b", "dst_c"], at: 10 })).toEqual([
      {
        ...{ id: "dst_b", tenant: "acme", url: "https://dst_b.example" },
        ...{ status: "paused", reason: "gone", changedAt: 10, isNoticed: 0 },
      },
    ]);
    expect(await find({ ids: ["dst_a"], at: 30 })).toMatchObject([{ id: "dst_a", changedAt: 30 }]);
    expect(await find({ ids: ["dst_a"], at: 20 })).toEqual([]);
  });

  test("are found up to a time, the oldest fifty of them first", async () => {
    expect((await find({ until: 20 })).map(({ changedAt }) => changedAt)).toEqual([10, 10, 10, 20]);
    for (let i = 0; i < 50; i++) await change(5, `dst_${i}`);
    const found = await find({ until: 99 });
    expect([found.length, new Set(found.map(({ changedAt }) => changedAt))]).toEqual([50, new Set([5])]);
  });

  test("are removed once they are published, without others", async () => {
    const published = [
      ...(await find({ ids: ["dst_a"], at: 30 })),
      ...(await find({ ids: ["dst_a"], at: 10 })).filter(({ status }) => status === "active"),
    ];
    await env.DB.batch(forgetStatements(env.DB, published));
    expect(await left()).toEqual([
      "10 dst_a paused",
      "10 dst_b paused",
      "20 dst_b paused",
      "30 dst_b paused",
    ]);
    expect(forgetStatements(env.DB, [])).toEqual([]);
  });
});

describe("a mail", () => {
  test("about the same subject is sent once an hour", async () => {
    expect(await claimMail(env.DB, "acme", "a", HOUR)).toBe(true);
    expect(await claimMail(env.DB, "acme", "a", 2 * HOUR - 1)).toBe(false);
    expect(await claimMail(env.DB, "acme", "b", 2 * HOUR - 1)).toBe(true);
    expect(await claimMail(env.DB, "acme", "a", 2 * HOUR)).toBe(true);
    expect(await claimMail(env.DB, "acme", "b", 2 * HOUR)).toBe(false);
  });

  test("is one of twenty in an hour to its recipient, whatever others get", async () => {
    const claim = (reader: string, about: number, now = 1) => claimMail(env.DB, reader, String(about), now);
    for (let i = 0; i < 19; i++) await claim("acme", i);
    await claim("acme2", 1);
    await claim("rival", 1);
    expect(await claim("acme", 19)).toBe(true);
    expect(await claim("acme", 20)).toBe(false);
    expect([await claim("acme2", 20), await claim("rival", 20)]).toEqual([true, true]);
    expect(await claim("acme", 20, HOUR + 1)).toBe(true);
  });
});

test("the operator receives notifications while one of its destinations is not deleted", async () => {
  await plainDestination("dst_tenant");
  await plainDestination("dst_deleted", { tenant: "operator", deleted_at: 1 });
  expect(await isOperatorListening(env.DB)).toBe(false);
  await plainDestination("dst_own", { tenant: "operator" });
  expect(await isOperatorListening(env.DB)).toBe(true);
});
