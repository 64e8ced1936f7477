/** Which destinations have waiting deliveries, how many, and for which reasons. */
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import {
  countWaiting,
  standingDestinations,
  waitingByReason,
  waitingDestinations,
} from "../../src/store/waiting.ts";
import { emptyDatabase } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";
import { insertDeliveries, insertDestinations, insertPacks } from "../support/stored-deliveries.ts";
import { walkedDestinations } from "../support/waiting-walk.ts";

const databases = { db: env.DB };

/** Each stands alone in its case: no row and no pack of a destination makes up for another's. */
const found = [
  { id: "dst_b", tenant: "acme", paused: false, deleted: false },
  { id: "dst_c", tenant: "acme", paused: false, deleted: false },
  { id: "dst_d", tenant: "acme", paused: true, deleted: false },
  { id: "dst_e", tenant: "other", paused: false, deleted: true },
  { id: "dst_f", tenant: "", paused: false, deleted: true },
  { id: "dst_g", tenant: "acme", paused: false, deleted: false },
  { id: "dst_i", tenant: "acme", paused: false, deleted: false },
];

const all = Array.from({ length: 100 }, (_, i) => i);

beforeAll(async () => {
  await emptyDatabase();
  await insertDestinations(env.DB, [
    { id: "dst_a" },
    { id: "dst_b" },
    { id: "dst_c" },
    { id: "dst_d", status: "paused" },
    { id: "dst_e", tenant: "other", deletedAt: 7 },
    { id: "dst_g" },
    { id: "dst_h" },
    { id: "dst_i" },
  ]);
  await insertDeliveries(env.DB, [
    { destination: "dst_a", event: 130, state: "delivered" },
    { destination: "dst_a", event: 131, state: "retrying" },
    { destination: "dst_b", event: 130, state: "waiting", reason: "rate" },
    { destination: "dst_b", event: 140, state: "waiting", reason: "circuit" },
    { destination: "dst_b", event: 150, state: "dead", reason: "rate" },
    { destination: "dst_d", event: 130, state: "waiting", reason: "paused" },
    { destination: "dst_e", event: 130, state: "waiting", reason: "rate" },
    { destination: "dst_g", event: 130, state: "waiting", reason: "rate" },
    { destination: "dst_g", event: 131, state: "waiting", reason: "slow" },
  ]);
  await insertPacks(env.DB, [
    { destination: "dst_a", bundle: 2, inFlight: [0], delivered: [1], cancelled: [2] },
    { destination: "dst_c", bundle: 2, waiting: [0, 49, 50, 99], inFlight: [1], reason: "rate" },
    { destination: "dst_c", bundle: 3, waiting: [60], delivered: [61], reason: "hold" },
    { destination: "dst_f", bundle: 2, waiting: [75], reason: "slow" },
    { destination: "dst_g", bundle: 2, waiting: [0, 1, 2], reason: "rate" },
    { destination: "dst_g", bundle: 3, waiting: [90, 91], reason: "hold" },
    { destination: "dst_h", bundle: 2, inFlight: [70], delivered: [71], cancelled: [72] },
    { destination: "dst_i", bundle: 2, waiting: all },
    { destination: "dst_i", bundle: 3, waiting: [0, 49], inFlight: all.slice(1, 49), delivered: [50, 99] },
    { destination: "dst_i", bundle: 4, waiting: [50, 99], cancelled: [49] },
  ]);
});

describe("destinations with waiting deliveries", () => {
  test("are found by their rows and by their packs, each once, with their details", async () => {
    const { ids, isLast } = await waitingDestinations([env.DB], "", 10);
    expect([await standingDestinations(databases, ids), isLast]).toEqual([found, true]);
  });

  test.each([
    1, 2, 3, 4, 5, 6, 7,
  ])("are found in order in pages of %d, and none after the last", async (limit) => {
    expect(await walkedDestinations(databases, limit)).toEqual(found.map(({ id }) => id));
  });
});

describe("the status of destinations", () => {
  test("comes in the requested order", async () => {
    const ids = ["dst_g", "dst_e", "dst_none", "dst_d"];
    const standing = await standingDestinations(databases, ids);
    expect(standing.map(({ id, paused, deleted }) => [id, paused, deleted])).toEqual([
      ["dst_g", false, false],
      ["dst_e", false, true],
      ["dst_none", false, true],
      ["dst_d", true, false],
    ]);
  });

  test("is not queried if there are none", async () => {
    const { db, used } = meteredD1(env.DB);
    expect(await standingDestinations({ db }, [])).toEqual([]);
    expect(used().roundTrips).toBe(0);
  });
});

describe("the waiting deliveries of a destination", () => {
  test.each([
    ["dst_a", {}],
    ["dst_b", { circuit: 1, rate: 1 }],
    ["dst_c", { hold: 1, rate: 4 }],
    ["dst_g", { hold: 2, rate: 4, slow: 1 }],
    ["dst_h", {}],
  ])("are counted by reason in rows and packs, without those of others (%s)", async (id, counts) => {
    expect(await waitingByReason(databases, id, 10)).toEqual(counts);
    const together = Object.values<number>(counts).reduce((sum, count) => sum + count, 0);
    expect(await countWaiting(databases, id, 100)).toBe(together);
  });

  test("are counted by reason among the first rows and the first packs only", async () => {
    expect(await waitingByReason(databases, "dst_g", 1)).toEqual({ rate: 4 });
  });

  test.each([1, 2, 5, 6, 7, 8])("are counted up to a limit (%d)", async (limit) => {
    expect(await countWaiting(databases, "dst_g", limit)).toBe(Math.min(limit, 7));
  });

  test("are distinguished from other states of a pack, at the ends of both halves", async () => {
    expect(await countWaiting(databases, "dst_i", 1_000)).toBe(104);
  });
});
