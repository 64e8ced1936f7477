/** Replays as jobs: found and listed by their own tenants, changed by one caller, and their ends counted once. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import type { DeliveryRow } from "../../src/store/delivery.ts";
import { countFailed, replayCountersOf } from "../../src/store/record.ts";
import {
  cancelReplaysOf,
  changeReplay,
  findReplay,
  findReplayJob,
  listReplays,
  overdueReplays,
  replayUnderWay,
} from "../../src/store/replays.ts";
import type { ReplayState } from "../../src/store/schema.ts";
import { insertRow } from "../support/api.ts";
import { emptyDatabase, rowsOfAll } from "../support/databases.ts";
import { execute } from "../support/world.ts";

const DB = { db: env.DB };
const NOW = 1_000_000;

type Inserted = Readonly<{
  id: string;
  tenant: string;
  destination: string;
  state: ReplayState;
  due?: number;
}>;

async function insertReplays(all: readonly Inserted[]): Promise<void> {
  await execute(
    `INSERT INTO replays (id, tenant, destination_id, include, since, until, rate_per_minute, state, pace, next_step_at,
       created_at, updated_at)
     SELECT value ->> 'id', value ->> 'tenant', value ->> 'destination', 'dead', 0, 1, 1, value ->> 'state', 1,
       coalesce(value ->> 'due', 0), 0, 0 FROM json_each(?1) ORDER BY key`,
    JSON.stringify(all),
  );
}

const one = (id: string, destination: string, state: ReplayState, due = 0, tenant = "acme"): Inserted => ({
  ...{ id, tenant, destination, state, due },
});

const stored = () => rowsOfAll<{ id: string }>("SELECT * FROM replays ORDER BY id");

beforeEach(emptyDatabase);

describe("a list of replays", () => {
  const tenants = ["acme", "other"];
  const states = ["completed", "cancelled", "completed", "cancelled", "completed"] as const;
  const all = Array.from({ length: 24 }, (_, i) =>
    one(`rpl_${i}`, `dst_${tenants[i % 2]}_${i % 3}`, states[i % 5] ?? "completed", 0, tenants[i % 2]),
  );

  /** The ids on each page. */
  async function pagesOf(filter: Partial<Parameters<typeof listReplays>[1]>): Promise<string[][]> {
    const pages: string[][] = [];
    let before: number | undefined;
    do {
      const asked = { tenant: undefined, destinationId: undefined, state: undefined, limit: 5, ...filter };
      const { replays, next } = await listReplays(DB, { ...asked, before });
      pages.push(replays.map(({ id }) => id));
      before = next;
    } while (before !== undefined && pages.length < 30);
    return pages;
  }

  test.each(
    [undefined, "acme", "nobody"].flatMap((tenant) =>
      [undefined, "dst_acme_0", "dst_other_1"].flatMap((destinationId) =>
        [undefined, "cancelled" as const].map((state) => ({ tenant, destinationId, state })),
      ),
    ),
  )("of %j shows each once, the newest first, on pages that are filled", async (filter) => {
    await insertReplays(all);
    const { tenant, destinationId, state } = filter;
    const meant = all
      .filter((replay) => tenant === undefined || replay.tenant === tenant)
      .filter((replay) => destinationId === undefined || replay.destination === destinationId)
      .filter((replay) => state === undefined || replay.state === state)
      .map(({ id }) => id)
      .reverse();
    for (const limit of [1, 3, 4, 24]) {
      const pages = await pagesOf({ ...filter, limit });
      expect(pages.flat()).toEqual(meant);
      for (const page of pages.slice(0, -1)) expect(page).toHaveLength(limit);
      expect(pages).toHaveLength(Math.max(1, Math.ceil(meant.length / limit)));
    }
  });

  test("continues behind a thousand replays in another state, on a page that may be empty", async () => {
    const many = Array.from({ length: 1_000 }, (_, i) => one(`rpl_many_${i}`, "dst_a", "completed"));
    await insertReplays([one("rpl_first", "dst_a", "cancelled"), ...many]);
    expect(await pagesOf({ state: "cancelled" })).toEqual([[], ["rpl_first"]]);
    await execute("DELETE FROM replays WHERE id = 'rpl_many_5'");
    expect(await pagesOf({ state: "cancelled" })).toEqual([["rpl_first"], []]);
    await execute("DELETE FROM replays WHERE id = 'rpl_many_6'");
    expect(await pagesOf({ state: "cancelled" })).toEqual([["rpl_first"]]);
  });
});

describe("a replay", () => {
  test("is found by its id, for its tenant", async () => {
    await insertReplays([one("rpl_a", "dst_a", "completed"), one("rpl_b", "dst_b", "completed", 0, "other")]);
    const found = async (id: string, tenant: string | undefined) => (await findReplay(DB, id, tenant))?.id;
    expect(await found("rpl_b", undefined)).toBe("rpl_b");
    expect(await found("rpl_b", "other")).toBe("rpl_b");
    expect(await found("rpl_b", "acme")).toBeUndefined();
    expect(await found("rpl_c", undefined)).toBeUndefined();
  });

  test("is found with its destination, also when that is removed", async () => {
    await insertReplays([one("rpl_a", "dst_a", "running"), one("rpl_b", "dst_b", "running")]);
    await destination("dst_a", null);
    const [first, second] = [await findReplayJob(env.DB, "rpl_a"), await findReplayJob(env.DB, "rpl_b")];
    expect([first?.replay.id, first?.destination?.id]).toEqual(["rpl_a", "dst_a"]);
    expect([second?.replay.id, second?.destination]).toEqual(["rpl_b", null]);
    expect(await findReplayJob(env.DB, "rpl_c")).toBeUndefined();
  });

  test.each([
    ["running", true],
    ["paused", true],
    ["completed", false],
    ["cancelled", false],
  ] as const)("that is %s is under way: %j", async (state, isUnderWay) => {
    await insertReplays([one("rpl_a", "dst_a", state), one("rpl_b", "dst_b", "running")]);
    expect((await replayUnderWay(env.DB, "dst_a"))?.id).toBe(isUnderWay ? "rpl_a" : undefined);
  });

  test("is changed in one of the given states, without others", async () => {
    await insertReplays([one("rpl_a", "dst_a", "running"), one("rpl_b", "dst_b", "running")]);
    const pause = (from: ReplayState[]) =>
      changeReplay(env.DB, "rpl_a", from, { state: "paused", pace: 9 }, NOW);
    const before = await stored();
    expect(await pause(["paused", "completed"])).toBeUndefined();
    expect(await stored()).toEqual(before);
    expect(await pause(["paused", "running"])).toMatchObject({
      id: "rpl_a",
      state: "paused",
      pace: 9,
      updatedAt: NOW,
    });
    expect((await stored())[1]).toEqual(before[1]);
    expect((await findReplay(DB, "rpl_a", undefined))?.state).toBe("paused");
  });

  test("is overdue when it runs and its next step was due by then", async () => {
    await insertReplays([
      one("rpl_due", "dst_a", "running", NOW),
      one("rpl_long_due", "dst_b", "running", NOW - 1),
      one("rpl_later", "dst_c", "running", NOW + 1),
      one("rpl_paused", "dst_d", "paused", NOW - 1),
      one("rpl_over", "dst_e", "completed", NOW - 1),
    ]);
    expect((await overdueReplays(env.DB, NOW, 10)).sort()).toEqual(["rpl_due", "rpl_long_due"]);
    expect(await overdueReplays(env.DB, NOW, 1)).toHaveLength(1);
  });
});

async function destination(id: string, deletedAt: number | null): Promise<void> {
  const at = { created_at: 0, updated_at: 0, deleted_at: deletedAt };
  await insertRow("destinations", { id, tenant: "acme", url: "https://example.com/", secret: "", ...at });
}

describe("replays of deleted destinations", () => {
  beforeEach(async () => {
    for (const [id, deletedAt] of [
      ["dst_a", 5],
      ["dst_b", 5],
      ["dst_c", null],
      ["dst_d", 5],
    ] as const)
      await destination(id, deletedAt);
    await insertReplays([
      one("rpl_a", "dst_a", "running"),
      one("rpl_b", "dst_b", "paused"),
      one("rpl_c", "dst_c", "running"),
      one("rpl_d", "dst_d", "completed"),
      one("rpl_e", "dst_e", "running"),
    ]);
  });

  const cancelled = async (only?: string) => {
    const before = await stored();
    const found = await cancelReplaysOf(env.DB, "destination_deleted", NOW, only);
    const ids = found.map(({ id }) => id).sort();
    const end = { state: "cancelled", reason: "destination_deleted", ended_at: NOW, updated_at: NOW };
    expect(await stored()).toEqual(before.map((row) => (ids.includes(row.id) ? { ...row, ...end } : row)));
    return found.map(({ id, destinationId }) => [id, destinationId]).sort();
  };

  test("are cancelled, running or paused, while others continue and ended ones stay", async () => {
    expect(await cancelled()).toEqual([
      ["rpl_a", "dst_a"],
      ["rpl_b", "dst_b"],
    ]);
    expect(await cancelled()).toEqual([]);
  });

  test("are cancelled for a single destination, if that is deleted", async () => {
    expect(await cancelled("dst_c")).toEqual([]);
    expect(await cancelled("dst_b")).toEqual([["rpl_b", "dst_b"]]);
    expect(await cancelled("dst_d")).toEqual([]);
  });
});

describe("the ends of replayed deliveries", () => {
  const EVENT = 128;

  const row = (fields: Partial<DeliveryRow> = {}): DeliveryRow => ({
    ...{
      destinationId: "dst_a",
      eventId: EVENT,
      state: "delivered",
      reason: null,
      attempts: 2,
      nextAttemptAt: null,
    },
    ...{ generation: 1, firstAttemptAt: 1, giveUpAt: 9, endedAt: NOW, lastStatus: null, lastError: null },
    ...{ replay: "rpl_a", log: [], ...fields },
  });

  const store = (fields: Partial<DeliveryRow> = {}) => {
    const { destinationId, eventId, state, attempts, generation, giveUpAt, replay } = row({
      state: "waiting",
      ...fields,
    });
    const ids = { destination_id: destinationId, event_id: eventId };
    return insertRow("deliveries", { ...ids, state, attempts, generation, give_up_at: giveUpAt, replay });
  };

  const counts = async () =>
    Object.fromEntries(
      (await rowsOfAll<{ id: string; delivered: number; failed: number }>("SELECT * FROM replays")).map(
        ({ id, delivered, failed }) => [id, [delivered, failed]],
      ),
    );

  /** The replays' counts of delivered and failed ones after these ends. */
  async function counted(...rows: DeliveryRow[]) {
    const statements = replayCountersOf(env.DB, rows);
    if (statements.length > 0) await env.DB.batch(statements);
    return counts();
  }

  beforeEach(async () => {
    await insertReplays([
      one("rpl_a", "dst_a", "running"),
      one("rpl_b", "dst_b", "completed"),
      one("rpl_c", "dst_c", "running"),
    ]);
    await execute("UPDATE replays SET delivered = 10, failed = 20");
  });

  test("are counted for their replays, delivered or not, in one statement", async () => {
    await store();
    await store({ eventId: EVENT + 1 });
    await store({ eventId: EVENT + 2, state: "retrying" });
    await store({ destinationId: "dst_b", replay: "rpl_b" });
    await store({ destinationId: "dst_b", eventId: EVENT + 1, replay: null });
    const ends = [
      row(),
      row({ eventId: EVENT + 1, state: "dead" }),
      row({ eventId: EVENT + 2, state: "cancelled" }),
      row({ destinationId: "dst_b", replay: "rpl_b", state: "dead" }),
    ];
    expect(await counted(...ends)).toEqual({ rpl_a: [11, 22], rpl_b: [10, 21], rpl_c: [10, 20] });
    expect(replayCountersOf(env.DB, ends)).toHaveLength(1);
  });

  test("are counted for the replay that the delivery belongs to now", async () => {
    await store({ replay: "rpl_c" });
    expect(await counted(row())).toEqual({ rpl_a: [10, 20], rpl_b: [10, 20], rpl_c: [11, 20] });
    await execute("UPDATE deliveries SET replay = NULL");
    expect(await counted(row())).toMatchObject({ rpl_c: [11, 20] });
  });

  test.each<[string, Partial<DeliveryRow>]>([
    ["has ended already", { state: "delivered" }],
    ["has had more attempts since", { attempts: 3 }],
    ["has been sent again since", { generation: 2 }],
    ["is of another event", { eventId: EVENT + 1 }],
    ["is of another destination", { destinationId: "dst_c" }],
  ])("are not counted when the delivery %s", async (_, fields) => {
    await store(fields);
    expect(await counted(row())).toEqual({ rpl_a: [10, 20], rpl_b: [10, 20], rpl_c: [10, 20] });
  });

  test("cost no statement when no replay or no end is recorded", async () => {
    expect(replayCountersOf(env.DB, [])).toEqual([]);
    expect(
      replayCountersOf(env.DB, [row({ replay: null }), row({ endedAt: null, state: "retrying" })]),
    ).toEqual([]);
    await store();
    await store({ eventId: EVENT + 1 });
    const ends = [row(), row({ eventId: EVENT + 1, endedAt: null, state: "retrying" })];
    expect(await counted(...ends)).toMatchObject({ rpl_a: [11, 20] });
  });

  test("without an attempt are counted as failed, of those that still wait past their age limits", async () => {
    const names: (readonly [string, number])[] = [];
    const named = async (fields: Partial<DeliveryRow>) => {
      const { destinationId, eventId } = row(fields);
      names.push([destinationId, eventId]);
      await store(fields);
    };
    await named({ giveUpAt: 50 });
    await named({ giveUpAt: 49, eventId: EVENT + 1 });
    await named({ giveUpAt: 51, eventId: EVENT + 2 });
    await named({ state: "retrying", eventId: EVENT + 3 });
    await named({ replay: null, eventId: EVENT + 4 });
    await named({ replay: "rpl_b", destinationId: "dst_b" });
    await store({ eventId: EVENT + 5 });
    await store({ destinationId: "dst_b", eventId: EVENT + 1 });
    await countFailed(env.DB, "waiting", JSON.stringify(names), 50).run();
    expect(await counts()).toEqual({ rpl_a: [10, 22], rpl_b: [10, 21], rpl_c: [10, 20] });
  });
});
