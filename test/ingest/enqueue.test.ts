/** Sends that fail after a commit are repeated for some seconds, and deliver nothing twice. */
import { beforeEach, describe, expect, test } from "vitest";
import { postedEvent } from "../../src/ingest/bundle.ts";
import type { CommittedBundle } from "../../src/ingest/commit.ts";
import { enqueueBundles, enqueueCommitted } from "../../src/ingest/enqueue.ts";
import { GroupCommit } from "../../src/ingest/intake.ts";
import { INTAKE_VERSION } from "../../src/ingest/intake-protocol.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";
import { accept } from "../support/accept.ts";
import { newDestination, newWorld, START, storedRows, TENANT, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
  await newDestination();
});

type Failure = "before" | "after" | undefined;

/** A queue whose sends fail in turn, before or after they have taken the messages; it records the times of all sends. */
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

describe("the messages for bundles", () => {
  async function messagesFor(bundles: readonly CommittedBundle[]): Promise<string[]> {
    expect(await enqueueBundles(world.services, bundles, 0)).toBe(true);
    expect(world.log).toEqual([]);
    return world.deliveryQueue
      .taken()
      .map(({ body }) =>
        body.bundles.map(({ bundle, destinations }) => `${bundle}: ${destinations}`).join("; "),
      );
  }

  test.each<[string, Record<string, number[]>[], string[]]>([
    ["are none without destinations", [{}, {}], []],
    ["name a hundred deliveries", [{ a: [0, 59], b: [0, 39] }], ["1: a,b"]],
    ["name no more", [{ a: [0, 59], b: [0, 40] }], ["1: a", "1: b"]],
    [
      "are shared by bundles",
      [{ a: [0, 0] }, { b: [1, 1], c: [0, 0] }, { a: [0, 0] }],
      ["1: a; 2: b,c; 3: a"],
    ],
    [
      "continue in the middle of a bundle",
      [{ a: [0, 79] }, { b: [0, 9], c: [0, 10], d: [0, 88], e: [0, 0] }, { f: [0, 0] }],
      ["1: a; 2: b", "2: c,d", "2: e; 3: f"],
    ],
    ["count each run of a destination", [{ a: [0, 1, 5, 98], b: [0, 4] }], ["1: a", "1: b"]],
  ])("%s", async (_what, plans, expected) => {
    expect(await messagesFor(plans.map((plan, i) => ({ id: i + 1, plan })))).toEqual(expected);
  });

  test("are delayed until the bundles are due, rounded up to seconds, one time for each", async () => {
    const now = world.clock.now();
    const times = [undefined, now + 1_500, now - 5, now + 2_000, now + 1_500, undefined];
    const bundles = times.map((deliverAt, i) => ({
      ...{ id: i, plan: { a: [0, 0] } },
      ...(deliverAt !== undefined && { deliverAt }),
    }));
    await enqueueBundles(world.services, bundles, 0);
    const taken = world.deliveryQueue.taken();
    expect(taken.map(({ body, ...rest }) => [body.bundles.map(({ bundle }) => bundle).join(), rest])).toEqual(
      [
        ["0,5", {}],
        ["1,4", { delaySeconds: 2 }],
        ["2", { delaySeconds: 0 }],
        ["3", { delaySeconds: 2 }],
      ],
    );
  });

  test("are left to the sweep if they are due later than two and a half minutes after the commit", async () => {
    const dueIn = [undefined, 0, 150_000, 150_001, 86_400_000];
    const bundles = dueIn.map((ms, id) => ({
      ...{ id, plan: { a: [0, 0] } },
      ...(ms !== undefined && { deliverAt: world.clock.now() + ms }),
    }));
    await enqueueCommitted(world.services, bundles);
    const sent = world.deliveryQueue.taken().flatMap(({ body }) => body.bundles.map(({ bundle }) => bundle));
    expect(sent).toEqual([0, 1, 2]);
  });
});

describe("a send", () => {
  const bundles = Array.from({ length: 101 }, (_, id) => ({ id, plan: { a: [0, 99] } }));

  test("whose repeat succeeds is complete", async () => {
    const { deliveries, taken } = failing((send) => (send === 1 ? "before" : undefined));
    const sending = enqueueBundles({ ...world.services, deliveries }, bundles, 1_000);
    await world.clock.asleep(188);
    world.clock.pass(188);
    expect(await sending).toBe(true);
    expect(taken).toHaveLength(101);
  });

  test("that fails without a repeat leaves the rest to be tried once each", async () => {
    const { deliveries, sends, taken } = failing((send) => (send === 1 ? "before" : undefined));
    expect(await enqueueBundles({ ...world.services, deliveries }, bundles, 0)).toBe(false);
    expect([sends.length, taken.length]).toEqual([2, 1]);
    expect(world.logged("enqueue_failed")).toMatchObject([{ messages: 100, sends: 1 }]);
  });
});

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

  test("but has reached the queue delivers nothing twice", async () => {
    const { deliveries, taken } = failing((send) => (send === 1 ? "after" : undefined));
    await post({ ...world.services, deliveries }, 3);
    await world.settledThroughPauses();
    expect(taken).toHaveLength(2);
    await world.consume(taken.slice(0, 1));
    expect(await world.consume(taken.slice(1))).toEqual(["acked"]);
    await world.consume(taken);
    expect(world.receiver.calls).toHaveLength(3);
  });

  test("is repeated by intake too, which continues to commit meanwhile", async () => {
    const { deliveries, sends, taken } = failing((send) => (send <= 2 ? "before" : undefined));
    const intake = new GroupCommit({ ...world.services, deliveries });
    const event = (token: string) =>
      intake.accept(INTAKE_VERSION, 0, {
        token,
        events: [postedEvent({ tenant: TENANT, type: "a", data: {} })],
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
