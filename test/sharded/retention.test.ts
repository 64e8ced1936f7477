/** Retention removes old bundles of each database separately; it reads destinations and replays from the first. */
import { beforeEach, expect, test } from "vitest";
import { bundleOf } from "../../src/core/bundle.ts";
import { databaseNumberOf } from "../../src/core/placement.ts";
import { retention } from "../../src/features/retention/job.ts";
import { readSystemHealth } from "../../src/store/stats.ts";
import { insertRow } from "../support/api.ts";
import { rowsOfAll } from "../support/databases.ts";
import { execute, newDestination, newWorld, storedRows, TENANT, type World } from "../support/world.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;

let world: World;
let here: string;
beforeEach(async () => {
  world = await newWorld();
  here = await newDestination();
});

const storedIds = async () => (await rowsOfAll<{ id: number }>("SELECT id FROM events")).map(({ id }) => id);

/** Delivers a bundle of two events a minute, for as many minutes as it takes until every database has some. */
async function history(): Promise<number[]> {
  for (let minute = 0; minute < 12; minute++) {
    await world.consume(await world.post(2));
    await world.settled();
    world.clock.pass(MINUTE);
  }
  return storedIds();
}

/** The events of the last bundle of each database. */
function newestOf(ids: readonly number[]): number[] {
  return [...Map.groupBy(ids, databaseNumberOf).values()].flatMap((own) => {
    const newest = bundleOf(Math.max(...own));
    return own.filter((id) => bundleOf(id) === newest);
  });
}

test("every database keeps its newest bundle, and loses all old ones", async () => {
  const ids = await history();
  const newest = newestOf(ids);
  expect(newest).toHaveLength(6);
  world.clock.pass(30 * DAY);
  await retention.run(world.services);
  expect(await storedIds()).toEqual(newest);
  expect((await storedRows()).map(({ eventId }) => eventId).sort((a, b) => a - b)).toEqual(newest);
  expect(world.logged("removed")).toMatchObject([{ events: 18, deliveries: 18 }]);
  for (const id of await history()) expect(newest.includes(id) || !ids.includes(id)).toBe(true);
});

test("a replay in the first database holds its events back in all, and a destination deleted there holds none", async () => {
  const ids = await history();
  const now = world.clock.now();
  await insertRow("replays", {
    id: "rpl_1",
    tenant: TENANT,
    destination_id: here,
    include: "delivered",
    since: 0,
    until: now,
    rate_per_minute: 100,
    state: "running",
    pace: 100,
    next_step_at: Number.MAX_SAFE_INTEGER,
    created_at: now,
    updated_at: now,
  });
  world.clock.pass(30 * DAY);
  await retention.run(world.services);
  expect(await storedIds()).toEqual(ids);
  await execute("UPDATE replays SET state = 'cancelled'");
  await rowsOfAll("UPDATE packs SET waiting0 = delivered0, delivered0 = 0, ended_at = NULL");
  await retention.run(world.services);
  expect(await storedIds()).toEqual(ids);
  await execute("DELETE FROM destinations");
  await retention.run(world.services);
  expect(await storedIds()).toEqual(newestOf(ids));
});

test("the size of each database is reported by its name", async () => {
  const { databases } = await readSystemHealth(world.services);
  expect(databases.map(({ name }) => name)).toEqual(["DB", "DB_1", "DB_2"]);
  for (const { bytes, headroomBytes } of databases) expect(bytes + headroomBytes).toBe(10_000_000_000);
});
