/** The destinations whose figures are combined: only the caller's, and if there are many, a fair sample. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import type { FiguresQuery } from "../../../src/core/gate-view.ts";
import type { AttemptMetric } from "../../../src/core/metrics.ts";
import { ratesOf } from "../../../src/core/metrics.ts";
import { newRollups, rollupsAfter } from "../../../src/core/rollups.ts";
import { seededRandom } from "../../../src/core/seeded-random.ts";
import { checkThresholds } from "../../../src/features/notifications/thresholds.ts";
import { fleetSum, MOST_SHOWN, readFleet } from "../../../src/features/stats/fleet.ts";
import type { UpkeepQueueMessage } from "../../../src/queue-messages.ts";
import type { Services } from "../../../src/services.ts";
import { consumeUpkeep } from "../../../src/upkeep.ts";
import { emptyDatabase, NOW } from "../../support/api.ts";
import { figuresOf } from "../../support/figures.ts";
import { idleGateView } from "../../support/idle-gate-view.ts";
import { batchOf, type FakeQueue, fakeQueue } from "../../support/queues.ts";

beforeEach(emptyDatabase);

const idOf = (tenant: string, n: number) => `dst_${tenant}${String(n).padStart(16, "0")}`;

/**
 * The given number of destinations of a tenant (a word of four letters), the first `waiting` of which have waiting
 * deliveries.
 */
async function destinationsOf(tenant: string, count: number, waiting = 0): Promise<void> {
  const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)";
  const id = `'dst_${tenant}' || printf('%016d', i)`;
  await env.DB.prepare(
    `INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
     ${numbers} SELECT ${id}, ?2, 'https://example.com', '', 0, 0 FROM n`,
  )
    .bind(count, tenant)
    .run();
  if (waiting === 0) return;
  await env.DB.prepare(
    `INSERT INTO deliveries (destination_id, event_id, state, give_up_at)
     ${numbers} SELECT ${id}, i, 'waiting', 0 FROM n`,
  )
    .bind(waiting)
    .run();
}

const sample = (isFine: boolean): AttemptMetric => ({
  attempt: 1,
  result: isFine ? "2xx" : "5xx",
  end: isFine ? "delivered" : "again",
  tookMs: 5,
  lateMs: 0,
});

/** Services whose gates have each counted ten first attempts: those of failing destinations failed. */
function servicesWith(isSick: (id: string) => boolean) {
  const asked: string[] = [];
  const logged: object[] = [];
  const random = seededRandom(7);
  const services = {
    db: env.DB,
    config: { alertEmail: { from: "a@example.com", to: "b@example.com" } },
    mailer: { send: async () => {} },
    gates: {
      idFromName: (name: string) => name,
      get: (id: string) => ({
        figures: async (look: FiguresQuery) => {
          asked.push(id);
          const samples = Array.from({ length: 10 }, () => sample(!isSick(id)));
          return figuresOf(idleGateView, rollupsAfter(newRollups(NOW), samples, NOW), look, NOW);
        },
      }),
    },
    now: () => NOW,
    random,
    sleep: () => new Promise<void>(() => {}),
    log: (line: object) => void logged.push(line),
    background: () => {},
  } as unknown as Services;
  return { services, asked, logged };
}

const look: FiguresQuery = { windows: ["1h"], series: false };

describe("a tenant with more destinations than gates are called", () => {
  test("sees its own, whatever waits for others", async () => {
    await destinationsOf("mine", 150, 3);
    await destinationsOf("them", 120, 120);
    const { services } = servicesWith(() => false);
    const { seen, total } = await readFleet(services, { tenant: "mine" }, look);
    expect([total, seen.length]).toEqual([150, MOST_SHOWN]);
    expect(new Set(seen.map(({ row }) => row.tenant))).toEqual(new Set(["mine"]));
    const first = seen.slice(0, 3).map(({ row }) => row.id);
    expect(first.toSorted()).toEqual([1, 2, 3].map((n) => idOf("mine", n)));
  });

  test("sees those with the latest events first, when nothing waits", async () => {
    await destinationsOf("mine", 150);
    await env.DB.prepare(
      "INSERT INTO deliveries (destination_id, event_id, state, give_up_at) VALUES (?1, 128, 'delivered', 0), (?2, 256, 'delivered', 0)",
    )
      .bind(idOf("mine", 120), idOf("mine", 130))
      .run();
    const { services } = servicesWith(() => false);
    const { seen } = await readFleet(services, { tenant: "mine" }, look);
    expect(seen.slice(0, 2).map(({ row }) => row.id)).toEqual([idOf("mine", 130), idOf("mine", 120)]);
  });
});

describe.each([
  ["of all", undefined],
  ["of a tenant", "mine"],
])("the rates %s", (_, tenant) => {
  test("represent all when not all are called, and not only those in trouble", async () => {
    await destinationsOf("mine", 1_000, 100);
    const { services, asked } = servicesWith((id) => id <= idOf("mine", 100));
    const fleet = await readFleet(services, { tenant }, look);
    expect(fleet.seen.filter(({ row }) => row.id <= idOf("mine", 100))).toHaveLength(100);
    expect(fleet.sampled).toHaveLength(MOST_SHOWN);
    expect(asked.length).toBeLessThanOrEqual(2 * MOST_SHOWN);
    expect(new Set(asked).size).toBe(asked.length);
    const { retryRate } = ratesOf(fleetSum(fleet, "1h"));
    expect(retryRate).toBeGreaterThan(0.02);
    expect(retryRate).toBeLessThan(0.2);
  });

  test("cover each of them when all can be called", async () => {
    await destinationsOf("mine", 100, 10);
    const { services } = servicesWith((id) => id <= idOf("mine", 10));
    const fleet = await readFleet(services, { tenant }, look);
    expect(fleet.sampled).toBe(fleet.seen);
    expect(ratesOf(fleetSum(fleet, "1h")).retryRate).toBeCloseTo(0.1);
  });
});

describe("the check of thresholds", () => {
  const crossed = (logged: readonly object[]) =>
    logged.flatMap((line) => ("threshold" in line ? [line.threshold] : []));

  test("covers all destinations, not only the hundred busiest", async () => {
    await destinationsOf("mine", 1_000, 60);
    const { services, logged } = servicesWith((id) => id <= idOf("mine", 60));
    await checkThresholds(services);
    expect(crossed(logged)).toEqual([]);
  });

  test("reports what is true of all of them", async () => {
    await destinationsOf("mine", 1_000, 200);
    const { services, logged } = servicesWith((id) => id <= idOf("mine", 200));
    await checkThresholds(services);
    expect(logged).toContainEqual(expect.objectContaining({ threshold: "retry_rate", value: 0.2 }));
  });

  /** Continues until nothing is on the queue; returns how many messages that took. */
  async function checkAll(services: Services, upkeep: FakeQueue<UpkeepQueueMessage>): Promise<number> {
    let messages = 0;
    await checkThresholds(services);
    for (let left = upkeep.taken(); left.length > 0; left = upkeep.taken())
      for (const { body } of left) {
        messages += 1;
        await consumeUpkeep(services, batchOf("breakwater-upkeep", [body]).batch);
      }
    return messages;
  }

  test("continues over the queue if there are more destinations than one invocation calls", async () => {
    await destinationsOf("mine", 2_100);
    const { services, asked, logged } = servicesWith((id) => id <= idOf("mine", 1_050));
    const upkeep = fakeQueue<UpkeepQueueMessage>();
    expect(await checkAll({ ...services, upkeep: upkeep.queue }, upkeep)).toBe(1);
    expect(new Set(asked).size).toBe(2_100);
    expect(asked).toHaveLength(2_100);
    expect(logged).toContainEqual(expect.objectContaining({ threshold: "retry_rate", value: 0.5 }));
    expect(logged).not.toContainEqual(expect.objectContaining({ what: "rates_checked_in_part" }));
  });

  test("says how many it covers if its time does not suffice, and continues behind them the next time", async () => {
    await destinationsOf("mine", 6_000);
    const { services, asked, logged } = servicesWith(() => true);
    const upkeep = fakeQueue<UpkeepQueueMessage>();
    let now = NOW;
    const get = (id: DurableObjectId) => {
      const stub = services.gates.get(id);
      const figures = (...given: Parameters<typeof stub.figures>) => {
        now += 200;
        return stub.figures(...given);
      };
      return { figures };
    };
    const gates = { idFromName: (name: string) => name, get } as unknown as Services["gates"];
    const slow = { ...services, gates, now: () => now, upkeep: upkeep.queue };
    await checkAll(slow, upkeep);
    const first = new Set(asked);
    expect(first.size).toBeGreaterThan(3_000);
    expect(first.size).toBeLessThan(4_500);
    expect(logged).toContainEqual({ what: "rates_checked_in_part", queried: first.size, total: 6_000 });
    now = NOW + 15 * 60_000;
    await checkAll(slow, upkeep);
    expect(new Set(asked).size).toBe(6_000);
  });
});

describe("the number of destinations", () => {
  test("is counted up to 10,000, and estimated to within a tenth beyond", async () => {
    await destinationsOf("mine", 30_000);
    await env.DB.prepare("UPDATE destinations SET deleted_at = 1 WHERE rowid % 3 = 0").run();
    const { services } = servicesWith(() => false);
    const { total, sampled } = await readFleet(services, {}, look);
    expect(sampled).toHaveLength(MOST_SHOWN);
    expect(total).toBeGreaterThan(18_000);
    expect(total).toBeLessThan(22_000);
  });
});
