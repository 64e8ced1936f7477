/** Which destinations are examined first, by the activity in any of three databases. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import { watchedDestinations } from "../../src/store/watched-destinations.ts";
import { emptyDatabase, plainDestination } from "../support/api.ts";
import { testDatabases } from "../support/databases.ts";

const [, second, third] = testDatabases;
const databases = { db: env.DB, further: testDatabases.slice(1) };

beforeEach(async () => {
  await emptyDatabase();
  for (const name of "abcdef") await plainDestination(`dst_${name}`);
});

/** A delivery of the bundle with that place in its database. */
async function delivery(
  number: number,
  name: string,
  state: "waiting" | "retrying" | "delivered",
  place = 1,
): Promise<void> {
  await testDatabases[number]
    ?.prepare(
      `INSERT INTO deliveries (destination_id, event_id, state, give_up_at, next_attempt_at)
       VALUES (?1, ?2, ?3, 1, iif(?3 = 'retrying', ?2, NULL))`,
    )
    .bind(`dst_${name}`, eventAt(beforeFirstBundleOf(number) + place, 0), state)
    .run();
}

const watched = async (tenant: string | undefined, limit: number) =>
  (await watchedDestinations(databases, tenant, limit, () => 0.5)).destinations
    .map(({ id }) => id.slice(4))
    .join("");

test("among all destinations, those with waiting deliveries in any database come first, then those with retries", async () => {
  expect([second, third]).toHaveLength(2);
  await delivery(0, "a", "retrying");
  await delivery(1, "b", "retrying");
  await delivery(1, "d", "waiting");
  await delivery(1, "d", "retrying", 2);
  await delivery(2, "b", "waiting");
  await delivery(2, "e", "retrying");
  expect(await watched(undefined, 5)).toBe("bdae");
  expect(await watched(undefined, 2)).toBe("bd");
});

test("each database names as many destinations as are read, those with waiting deliveries first", async () => {
  await delivery(1, "f", "waiting");
  await delivery(1, "a", "retrying");
  await delivery(1, "f", "retrying", 2);
  await delivery(1, "b", "retrying", 3);
  expect(await watched(undefined, 2)).toBe("fa");
  expect(await watched(undefined, 1)).toBe("f");
});

test("among a tenant's destinations, the newest deliveries count by their places in their databases", async () => {
  await delivery(0, "c", "delivered", 9);
  await delivery(2, "a", "delivered", 5);
  await delivery(1, "b", "delivered", 7);
  await delivery(1, "a", "delivered", 2);
  await delivery(2, "f", "waiting", 1);
  expect(await watched("acme", 4)).toBe("fcba");
});
