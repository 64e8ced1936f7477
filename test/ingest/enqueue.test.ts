/** Sends that fail after a commit are repeated for some seconds, and deliver nothing twice. */
import { beforeEach, describe, expect, test } from "vitest";
import { accept } from "../../src/ingest/accept.ts";
import { GroupCommit } from "../../src/ingest/intake.ts";
import { INTAKE_VERSION } from "../../src/ingest/intake-protocol.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";
import { newDestination, newWorld, START, storedRows, TENANT, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
  await newDestination();
});

type Failure = "before" | "after" | undefined;

/** A queue whose sends fail in turn, before or after they have taken the messages; it keeps the times of all sends. */
function failing(failureOf: (send: number) => Failure) {
  const sends: number[] = [];
  const taken: DeliveryMessage[] = [];
  const deliveries = {
    sendBatch: async (batch: Iterable<{ body: DeliveryMessage }>) => {
      sends.push(world.clock.now() - START);
      const failure = failureOf(sends.length);
      if (failure !== "before") taken.push(...[...batch].map(({ body }) => body));
      if (failure) throw new Error("Queue sendBatch failed: Internal Server Error");
    },
  } as unknown as Services["deliveries"];
  return { deliveries, sends, taken };
}

const post = (services: Services, count = 1) =>
  accept(
    services,
    Array.from({ length: count }, () => ({ tenant: TENANT, type: "a", data: 1 })),
  );

describe("a send that fails after the commit", () => {
  test("is repeated within seconds, and the delivery is made at once", async () => {
    const { deliveries, sends, taken } = failing((send) => (send <= 3 ? "before" : undefined));
    const accepted = await post({ ...world.services, deliveries });
    expect(accepted.kind).toBe("accepted");
    await world.settledThroughPauses();
    // The middle of each pause: 250, 500 and 1,000 ms, shortened by a quarter.
    expect(sends).toEqual([0, 188, 563, 1_313]);
    expect(taken).toHaveLength(1);
    expect(world.logged("enqueue_repeated")).toMatchObject([{ messages: 1, sends: 4 }]);
    expect(world.logged("enqueue_failed")).toEqual([]);
    await world.consume(taken);
    expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
  });

  test.each([
    ["least", 0],
    ["most", 0.999],
  ])("is given up after ten seconds, with the %s jitter", async (_which, chance) => {
    world.chance(chance);
    const { deliveries, sends } = failing(() => "before");
    await post({ ...world.services, deliveries });
    await world.settledThroughPauses();
    expect(sends.length).toBeGreaterThanOrEqual(6);
    expect(sends.length).toBeLessThanOrEqual(7);
    expect(sends.at(-1)).toBeLessThanOrEqual(10_000);
    expect(world.logged("enqueue_failed")).toMatchObject([{ messages: 1, sends: sends.length }]);
  });

  test("shares its ten seconds with the other messages of its request", async () => {
    const { deliveries, sends } = failing(() => "before");
    const many = Array.from({ length: 120 }, () => newDestination());
    await Promise.all(many);
    await post({ ...world.services, deliveries }, 100);
    await world.settledThroughPauses();
    expect(Math.max(...sends)).toBeLessThanOrEqual(10_000);
    const failed = world.logged("enqueue_failed");
    expect(failed.length).toBeGreaterThan(1);
    expect(sends).toHaveLength(failed.reduce((sum, line) => sum + Number(line.sends), 0));
    expect(failed.slice(1).every((line) => line.sends === 1)).toBe(true);
  });

  test("but had reached the queue delivers nothing twice", async () => {
    const { deliveries, taken } = failing((send) => (send === 1 ? "after" : undefined));
    await post({ ...world.services, deliveries }, 3);
    await world.settledThroughPauses();
    expect(taken).toHaveLength(2);
    await world.consume(taken.slice(0, 1));
    expect(await world.consume(taken.slice(1))).toEqual(["acked"]);
    await world.consume(taken);
    expect(world.receiver.calls).toHaveLength(3);
  });

  test("is repeated by intake too, which goes on committing meanwhile", async () => {
    const { deliveries, sends, taken } = failing((send) => (send <= 2 ? "before" : undefined));
    const intake = new GroupCommit({ ...world.services, deliveries });
    const event = (token: string) =>
      intake.accept({
        version: INTAKE_VERSION,
        database: 0,
        token,
        tenant: TENANT,
        type: "a",
        body: new TextEncoder().encode('{"type":"a","data":{}}'),
        deadlineAt: world.clock.now() + 5_000,
      });
    for (const token of ["one", "two", "three", "four"])
      expect(await event(token)).toMatchObject({ kind: "done", outcome: { kind: "accepted" } });
    await world.settledThroughPauses();
    // Two sends at once failed and are repeated; what gathered meanwhile is sent together.
    expect(sends).toHaveLength(5);
    expect(Math.max(...sends)).toBeLessThan(1_000);
    await world.consume(taken);
    const rows = await storedRows();
    expect(rows.map(({ state }) => state)).toEqual(Array(4).fill("delivered"));
    expect(world.receiver.calls).toHaveLength(4);
  });
});
