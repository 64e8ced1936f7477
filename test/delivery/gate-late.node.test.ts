/**
 * A gate that answers late, and a database that refuses writes of one destination: nothing is lost, and nothing is sent again
 * except after a lost write.
 */
import type { SQLInputValue } from "node:sqlite";
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import type { Services } from "../../src/services.ts";
import { type ByHand, worldByHand } from "../support/by-hand.ts";
import { interceptedD1 } from "../support/intercept.ts";

const EVENTS = 6;
/** How long a lease lives: 5 s to read, 5 s to start attempts, a second for each, and 5 s to record. */
const LEASE_MS = 16_000;
/** Attempts that start later might outlive it, or not be recorded before its end. */
const STARTS_MS = LEASE_MS - 6_000;

let world: ByHand;
beforeEach(() => {
  world = worldByHand();
});

const sleep = (ms: number) => new Promise<void>((resolve) => void world.after(ms, resolve));
const passed = (ms: number) => world.handled("pause", ({ sleep }) => sleep(ms));
const states = (id: string) => world.rows(id).map(({ state }) => state);
const delivered = Array(EVENTS).fill("delivered");

async function posted(destination: string) {
  world.script(destination, { status: 204, afterMs: 20 });
  await world.post(EVENTS);
  return { bundles: [{ bundle: 1, destinations: [destination] }] };
}

describe("a gate that answers late", () => {
  test.each([
    [1_000, 0],
    [6_000, 0],
    [9_500, 0],
    [9_500, 4_000],
  ])("by %i ms, with D1 slow by %i ms then, has its deliveries sent once, while its lease lives", async (ms, slowMs) => {
    const destination = world.destination({ timeoutMs: 1_000, maxConcurrency: 10 });
    const message = await posted(destination);
    const from = world.now();
    let isSlow = false;
    world.answering(async ({ method }, real) => {
      const answer = await real();
      if (method !== "admit" || world.now() > from + 1_000) return answer;
      await sleep(ms);
      isSlow = true;
      return answer;
    });
    const instead = ({ db, sleep }: Services) => ({
      db: interceptedD1(db, async (_, work) => {
        if (isSlow) await sleep(slowMs);
        return work();
      }),
    });
    let again: Promise<unknown> | undefined;
    world.after(ms + 10, () => {
      again = world.consume([message]);
    });
    await world.consume([message], { instead });
    await again;
    // Deliveries that were not started in time wait for a drain.
    await passed(2 * LEASE_MS);
    await world.drain({ destination, drains: 1 });
    expect(states(destination)).toEqual(delivered);
    const starts = world.requestsTo(destination).map(({ at }) => at - from);
    expect(starts).toHaveLength(EVENTS);
    expect(starts.filter((start) => start > STARTS_MS && start < LEASE_MS)).toEqual([]);
  });
});

test("when a database takes no outcomes, the deliveries of its bundle are sent again, and no others", async () => {
  const FAR = beforeFirstBundleOf(1) + 1;
  const [near, far] = [world.destination(), world.destination()];
  world.script(far, { status: 204, afterMs: 20 });
  const message = await posted(near);
  const { direct, bindingFor } = memoryD1();
  const [bundle = {}] = world.sql<Record<string, SQLInputValue>>("SELECT * FROM bundles");
  const columns = Object.keys(bundle);
  direct
    .prepare(`INSERT INTO bundles (${columns}) VALUES (${columns.map(() => "?")})`)
    .run(...Object.values({ ...bundle, id: FAR }));
  let isAway = true;
  const further = [
    bindingFor(async (sql, work) => {
      if (isAway && sql.includes("INSERT")) throw new Error("This database is away");
      return work();
    }),
  ];
  const messages = [message, { bundles: [{ bundle: FAR, destinations: [far] }] }];
  const stored = () => direct.prepare("SELECT 1 FROM packs WHERE destination_id = ?").all(far);
  const results = await world.consume(messages, { instead: () => ({ further }) });
  expect(results).toEqual(["acked", { retryIn: expect.any(Number) }]);
  expect([states(near), stored()]).toEqual([delivered, []]);

  isAway = false;
  // The lease expires: it was not settled, because nothing was recorded under it.
  await passed(60_000);
  expect(await world.consume(messages, { instead: () => ({ further }) })).toEqual(["acked", "acked"]);
  expect(stored()).toHaveLength(1);
  expect([near, far].map((id) => world.requestsTo(id).length)).toEqual([EVENTS, 2 * EVENTS]);
});
