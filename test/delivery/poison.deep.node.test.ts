/** Poison: a delivery that ends every invocation that attempts it, as one does that needs more memory than there is. */
import { describe, expect, test } from "vitest";
import { type VirtualWorld, virtualWorld } from "../support/virtual-world.ts";

const MINUTE = 60_000;
const NEIGHBOURS = 60;

/** The first event of the world is poison. */
const world = (seed: number) => virtualWorld({ seed, isDeadly: ({ event }) => event === FIRST_EVENT });
const FIRST_EVENT = 128;

const places: readonly (readonly [where: string, post: (world: VirtualWorld) => void])[] = [
  [
    "of its bundle",
    (world) => {
      world.destination();
      void world.post(NEIGHBOURS + 1);
    },
  ],
  [
    "of its destination, in other bundles",
    (world) => {
      world.destination();
      for (let i = 0; i <= NEIGHBOURS; i++) void world.post(1);
    },
  ],
  [
    "of other destinations",
    (world) => {
      world.destination({ eventTypes: ["sick"] });
      world.destination({ eventTypes: ["order.paid"] });
      void world.post(1, { type: "sick" });
      for (let i = 0; i < NEIGHBOURS; i++) void world.post(1);
    },
  ],
];

describe.each(places)("poison beside deliveries %s", (_, post) => {
  test.each([
    1, 2, 3,
  ])("delays them by minutes at most, and is itself neither lost nor dead (seed %d)", async (seed) => {
    const poisoned = world(seed);
    post(poisoned);
    await poisoned.run(5 * MINUTE);
    const rows = poisoned.rows();
    expect(rows.filter(({ state }) => state === "delivered")).toHaveLength(NEIGHBOURS);
    await poisoned.run(2 * 60 * MINUTE);
    const [poison] = poisoned.rows().filter(({ eventId }) => eventId === FIRST_EVENT);
    expect(poison).toMatchObject({ state: "waiting", attempts: 0 });
    // It is tried about once a minute, finally alone: others are sent again at most once or twice because of it.
    expect(poisoned.platform.invocations.crashes()).toBeLessThan(200);
    expect(poisoned.requests.length).toBeLessThan(3 * NEIGHBOURS);
    expect(poisoned.broken()).toEqual([]);
  });
});
