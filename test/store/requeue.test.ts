/** Ended deliveries are requeued one by one, whatever else is stored beside them; and an answer is forgotten alone. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import type { DeliveryRow } from "../../src/store/delivery.ts";
import { forgetExcerpt, requeueEnded } from "../../src/store/requeue.ts";
import { emptyDatabase } from "../support/databases.ts";
import { deliveryRow, storeDeliveries, storePacked } from "../support/delivery-rows.ts";
import { storedRows } from "../support/world.ts";

const [A, B] = ["dst_a", "dst_b"] as const;
const databases = { db: env.DB };

beforeEach(emptyDatabase);

const keyOf = ({ destinationId, eventId }: Pick<DeliveryRow, "destinationId" | "eventId">) =>
  `${destinationId} ${eventId}`;

/** Requeues them, and returns the keys of those that were, and of those that are not as they were. */
async function requeued(...wanted: readonly (readonly [destination: string, event: number])[]) {
  const before = new Map((await storedRows()).map((row) => [keyOf(row), row]));
  const found = await requeueEnded(
    databases,
    wanted.map(([destinationId, eventId]) => ({
      ...{ destinationId, eventId, lastStatus: 200, giveUpAt: 99 },
      log: before.get(keyOf({ destinationId, eventId }))?.log ?? [],
    })),
  );
  const after = await storedRows();
  const changed = after.filter((row) => JSON.stringify(row) !== JSON.stringify(before.get(keyOf(row))));
  expect([...found].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))).toEqual(changed);
  for (const row of changed) expect(row).toMatchObject({ state: "waiting", reason: "retried", giveUpAt: 99 });
  return changed.map(({ destinationId, eventId }) => [destinationId, eventId]);
}

const [e1, e2, e3, e4] = [eventAt(1, 0), eventAt(1, 1), eventAt(2, 0), eventAt(1, 60)] as const;

describe("among rows,", () => {
  test.each([
    "delivered",
    "dead",
    "cancelled",
  ] as const)("one that is %s is requeued alone", async (state) => {
    await storeDeliveries(
      env.DB,
      [A, B].flatMap((destinationId) => [e1, e2, e3].map((eventId) => ({ destinationId, eventId, state }))),
    );
    expect(await requeued([A, e2], [B, e3])).toEqual([
      [A, e2],
      [B, e3],
    ]);
  });

  test("those that have not ended stay, and so do those whose event was removed", async () => {
    await storeDeliveries(env.DB, [
      { destinationId: A, eventId: e1, state: "retrying", nextAttemptAt: 5 },
      { destinationId: A, eventId: e2, state: "waiting", reason: "paused" },
      { destinationId: A, eventId: e3, state: "dead", reason: "event_removed" },
      { destinationId: A, eventId: e4, state: "dead", reason: "exhausted" },
    ]);
    expect(await requeued([A, e1], [A, e2], [A, e3], [A, e4])).toEqual([[A, e4]]);
  });
});

describe("among packs,", () => {
  const all = [A, B].flatMap((destinationId) =>
    [e1, e2, e3, e4].map((eventId) => ({ destinationId, eventId })),
  );

  test.each(["delivered", "cancelled"] as const)("one that is %s is requeued alone", async (state) => {
    await storePacked(
      env.DB,
      all.map((key) => ({ ...key, state })),
    );
    expect(await requeued([A, e2], [B, e4])).toEqual([
      [A, e2],
      [B, e4],
    ]);
  });

  test("those that have not ended stay, and so do missing ones", async () => {
    await storePacked(env.DB, [
      { destinationId: A, eventId: e1, state: "waiting" },
      { destinationId: A, eventId: e2, state: "inFlight" },
      { destinationId: A, eventId: e3, state: "delivered" },
      { destinationId: B, eventId: e4, state: "delivered" },
    ]);
    expect(await requeued([A, e1], [A, e2], [A, e4], [B, e1], [B, e3], [A, e3])).toEqual([[A, e3]]);
  });
});

test("the answer of one attempt is removed, and nothing else", async () => {
  const entry = (at: number) =>
    ({ at, latencyMs: 2, status: 500, excerpt: `said at ${at}`, archived: true }) as const;
  const rows = [A, B].flatMap((destinationId) =>
    [e1, e2].map((eventId) => deliveryRow({ destinationId, eventId, log: [entry(1), entry(2)] })),
  );
  const open = (["waiting", "retrying"] as const).map((state, i) =>
    deliveryRow({ destinationId: "dst_c", eventId: eventAt(1, i), state, log: [entry(2)] }),
  );
  await storeDeliveries(env.DB, [...rows, ...open]);
  await forgetExcerpt(databases, { destinationId: A, eventId: e2 }, 2);
  for (const { destinationId, eventId } of open)
    await forgetExcerpt(databases, { destinationId, eventId }, 2);
  const forgotten = deliveryRow({
    ...{ destinationId: A, eventId: e2 },
    log: [entry(1), { at: 2, latencyMs: 2, status: 500 }],
  });
  expect(await storedRows()).toEqual([rows[0], forgotten, rows[2], rows[3], ...open]);
});

test.each(["delivered", "dead", "cancelled"] as const)("so it is of one that is %s", async (state) => {
  const log = [{ at: 1, latencyMs: 2, excerpt: "said" }];
  await storeDeliveries(env.DB, [{ destinationId: A, eventId: e1, state, log }]);
  await forgetExcerpt(databases, { destinationId: A, eventId: e1 }, 1);
  expect((await storedRows())[0]?.log).toEqual([{ at: 1, latencyMs: 2 }]);
});
