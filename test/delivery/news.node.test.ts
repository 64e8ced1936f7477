/** The reports of gates when leases are settled: paused destinations, and notifications of the operator. */
import { beforeEach, expect, test } from "vitest";
import type { SettleResult } from "../../src/core/settle.ts";
import { applySettleResults } from "../../src/delivery/news.ts";
import type { Services } from "../../src/services.ts";
import { type ByHand, worldByHand } from "../support/by-hand.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { storedDestination } from "../support/loaded-delivery.ts";

let world: ByHand;
let shop: string;
let other: string;
let own: string;
beforeEach(() => {
  world = worldByHand();
  [shop, other] = [world.destination(), world.destination()];
  own = world.destination({ tenant: "operator" });
});

function resultFor(id: string, result: Partial<SettleResult> = {}) {
  const figures = {
    ...{ circuitUntil: null, trips: 0, heldUntil: null },
    traffic: { first: 5, retries: 3, failures: 2, retryRatio: 0.375 },
  };
  const tenant = id === own ? "operator" : "acme";
  return {
    destination: storedDestination({ id, tenant }),
    result: {
      at: world.now(),
      figures,
      alerts: [],
      events: [],
      digestDue: false,
      ...result,
    } as unknown as SettleResult,
  };
}

const apply = (
  results: Parameters<typeof applySettleResults>[1],
  {
    gone = [] as Parameters<typeof applySettleResults>[2],
    instead = (_: Services): Partial<Services> => ({}),
  } = {},
) =>
  world.handled("settle", (services) =>
    applySettleResults({ ...services, ...instead(services) }, results, gone),
  );

const paused = () =>
  world
    .sql<{ id: string; reason: string }>(
      "SELECT id, status_reason AS reason FROM destinations WHERE status = 'paused' ORDER BY id",
    )
    .map(({ id, reason }) => [id, reason]);
const published = () =>
  world
    .sql<{ type: string }>("SELECT type FROM events WHERE tenant = 'operator' ORDER BY id")
    .map(({ type }) => type);
const unpublished = () => world.sql("SELECT * FROM status_changes");

test("a destination that fails for too long is paused, which is logged, published, and no other is", async () => {
  await apply([resultFor(shop, { disableReason: "failing" as never }), resultFor(other)]);
  expect(paused()).toEqual([[shop, "failing"]]);
  expect(world.logged("destination_paused")).toMatchObject([{ destination: shop, reason: "failing" }]);
  expect(published()).toEqual(["destination.paused"]);
  expect(unpublished()).toEqual([]);
});

test("destinations that are gone are published with the others", async () => {
  await apply([resultFor(shop, { disableReason: "failing" as never })], {
    gone: [
      {
        id: other,
        tenant: "acme",
        url: "https://a.example/",
        status: "paused",
        reason: "gone",
        changedAt: world.now(),
      },
    ],
  });
  expect(world.logged("destination_paused").map(({ destination, reason }) => [destination, reason])).toEqual([
    [other, "gone"],
    [shop, "failing"],
  ]);
  expect(published()).toEqual(["destination.paused", "destination.paused"]);
});

test.each<[string, (work: () => Promise<unknown>) => Promise<unknown>, number]>([
  ["could not be made is left to the gate's next report", () => Promise.reject(new Error("D1 is away")), 0],
  [
    "was made, with its answer lost, is still published",
    async (work) => {
      await work();
      throw new Error("D1 is away");
    },
    1,
  ],
])("a pause that %s", async (_, fault, made) => {
  let trips = 0;
  const instead = ({ db }: Services) => ({
    db: interceptedD1(db, (_sql, work) => {
      trips += 1;
      return (trips === 1 ? fault(work) : work()) as ReturnType<typeof work>;
    }),
  });
  await apply([resultFor(shop, { disableReason: "failing" as never }), resultFor(other)], { instead });
  expect(world.logged("pause_failed")).toEqual([
    { what: "pause_failed", destination: shop, error: "Error: D1 is away" },
  ]);
  expect(paused()).toHaveLength(made);
  expect(world.logged("destination_paused")).toHaveLength(made);
  expect(published()).toHaveLength(made);
});

test("alerts are published, except those about the operator's own destinations", async () => {
  await apply([
    resultFor(shop, { alerts: ["circuit_opened"] }),
    resultFor(own, { alerts: ["circuit_opened"], digestDue: true }),
    resultFor(other),
  ]);
  expect(published()).toEqual(["destination.circuit_opened"]);
  expect(world.sentUpkeep()).toEqual([]);
});

test("a storm is logged with its traffic, and its end too", async () => {
  await apply([
    resultFor(shop, { alerts: ["storm_detected"] }),
    resultFor(other, { alerts: ["recovered"] }),
    resultFor(shop, { alerts: ["circuit_opened"] }),
  ]);
  const traffic = { first_attempts: 5, retries: 3, failures: 2 };
  expect(world.log.filter(({ what }) => what.startsWith("storm"))).toEqual([
    { what: "storm_detected", destination: shop, ...traffic },
    { what: "storm_over", destination: other, ...traffic },
  ]);
});

test("a digest that is due is scheduled, and no other", async () => {
  await apply([resultFor(shop, { digestDue: true }), resultFor(other)]);
  expect(world.sentUpkeep().map(({ body }) => body)).toEqual([{ deadLetterDigest: shop }]);
});

test("nothing to report is nothing to do", async () => {
  world.calls();
  await apply([resultFor(shop), resultFor(other)]);
  expect(world.calls()).toEqual({});
  expect(world.log).toEqual([]);
});
