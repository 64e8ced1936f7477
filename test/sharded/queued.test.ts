/** Queued deliveries of three databases in one list: the newest first, then those that are scheduled, the next due first. */
import { expect, test } from "vitest";
import { queuedDeliveries } from "../../src/store/queued-deliveries.ts";
import { insertRow } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase, testDatabases } from "../support/databases.ts";

const NOW = Date.parse("2026-11-21T09:00:00.000Z");
const [db = undefined as never, ...further] = testDatabases;
const [A, B] = ["dst_a", "dst_b"] as const;

/** When the bundles of each database were accepted, by the minute, and when those that are scheduled are due. */
const BUNDLES: readonly (readonly (readonly [accepted: number, due?: number])[])[] = [
  [[1], [4], [5, 90], [6, 60], [7, 90]],
  [[2], [5], [6, 70], [7, 90]],
  [[3], [4, 80], [5, 60], [8]],
];

test.each([1, 2, 5, 100])("%i a page, each once", async (limit) => {
  await emptyDatabase();
  for (const id of [A, B])
    await insertRow("destinations", {
      id,
      tenant: "acme",
      url: "",
      secret: "",
      created_at: 0,
      updated_at: 0,
    });
  const all: { event: number; accepted: number; due: number | undefined }[] = [];
  for (const [number, bundles] of BUNDLES.entries()) {
    const events = [A, B].map(() => ({ tenant: "acme", destinations: [A, B] }));
    const rows = bundles.map(([accepted, due]) => ({
      ...{ acceptedAt: NOW + accepted * 60_000, deliverAt: due && NOW + due * 60_000, events },
    }));
    const numbers = await insertBundles(testDatabases[number] ?? db, rows, number);
    all.push(
      ...numbers.map((event, i) => ({
        event,
        accepted: bundles[i >> 1]?.[0] ?? 0,
        due: bundles[i >> 1]?.[1],
      })),
    );
  }
  const sorted = all.toSorted((a, b) =>
    a.due === undefined && b.due === undefined
      ? b.accepted - a.accepted || b.event - a.event
      : (a.due ?? 0) - (b.due ?? 0) || a.event - b.event,
  );
  const shown: string[] = [];
  for (let before: Awaited<ReturnType<typeof queuedDeliveries>>["next"], pages = 0; pages < 100; pages++) {
    const { found, next } = await queuedDeliveries({ db, further }, { limit, before });
    expect(found.length).toBeLessThanOrEqual(limit);
    shown.push(...found.map(({ eventId, destination }) => `${eventId} ${destination?.id}`));
    if (next === undefined) break;
    before = next;
  }
  expect(shown).toEqual(sorted.flatMap(({ event }) => [`${event} ${B}`, `${event} ${A}`]));
});
