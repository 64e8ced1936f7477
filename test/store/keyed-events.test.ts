/** Events by the idempotency keys under which they were posted alone, and the keys by the events. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { EVENT_ID, eventOfKey, keysOfEvents } from "../../src/store/events.ts";
import { insertRow } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";

const DB = { db: env.DB };

/** A key whose request had events at these places. */
const insertKey = (tenant: string, key: string, ...events: (readonly [bundle: number, index: number])[]) =>
  insertRow("idempotency_keys", {
    ...{ tenant, key, fingerprint: "f", created_at: 0 },
    bundles: JSON.stringify(events.map(([bundle]) => bundle)),
    places: JSON.stringify(events.map(([, index], i) => [i, index])),
  });

/** Two tenants have the same key; one key is of several events; the header of a bundle names a key that is gone. */
beforeEach(async () => {
  await emptyDatabase();
  const events = [{ tenant: "acme" }, { tenant: "other" }, { tenant: "acme" }];
  const named = (...keys: [string, string][]) => ({ events, keys });
  await insertBundles(env.DB, [
    named(["acme", "one"], ["other", "one"], ["acme", "gone"]),
    named(["acme", "two"], ["acme", "many"]),
    named(["acme", "three"], ["other", "two"]),
  ]);
  await insertKey("acme", "one", [1, 2]);
  await insertKey("other", "one", [1, 1]);
  await insertKey("acme", "two", [2, 0]);
  await insertKey("acme", "many", [2, 1], [2, 2]);
  await insertKey("acme", "three", [3, 0]);
  await insertKey("other", "two", [3, 1]);
});

describe("an event that was posted with an idempotency key", () => {
  test("is found by its key, for its own tenant", async () => {
    expect(await eventOfKey(DB, "acme", "one")).toBe(eventAt(1, 2));
    expect(await eventOfKey(DB, "other", "one")).toBe(eventAt(1, 1));
    expect(await eventOfKey(DB, "acme", "two")).toBe(eventAt(2, 0));
    expect(await eventOfKey(DB, "other", "three")).toBeUndefined();
    expect(await eventOfKey(DB, "acme", "none")).toBeUndefined();
  });

  test("is named by its key, unless it was posted with others", async () => {
    const keys = (tenant: string, ...events: number[]) => keysOfEvents(DB, tenant, events);
    expect(await keys("acme", eventAt(1, 0), eventAt(2, 0))).toEqual(
      new Map([
        [eventAt(1, 2), "one"],
        [eventAt(2, 0), "two"],
      ]),
    );
    expect(await keys("other", eventAt(1, 1), eventAt(2, 0))).toEqual(new Map([[eventAt(1, 1), "one"]]));
    expect(await keys("acme", eventAt(3, 0))).toEqual(new Map([[eventAt(3, 0), "three"]]));
    expect(await keys("nobody", eventAt(1, 1))).toEqual(new Map());
    expect(await keys("acme")).toEqual(new Map());
  });
});

test("the prefix of stored keys of the Svix API's messages stays the same", () => {
  expect(EVENT_ID).toBe("svix-event-id:");
});
