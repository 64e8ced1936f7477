/** Steps of a tail: what each shows, what it follows, and where an interrupted one continues. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import {
  newTail,
  resumeAfter,
  type Tail,
  type TailFilter,
  tailAfter,
  tailStep,
} from "../../src/store/delivery-tail.ts";
import { type BundleRow, insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { storeDeliveries, storePacked } from "../support/delivery-rows.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { execute } from "../support/world.ts";

beforeEach(emptyDatabase);

const databases = { db: env.DB };
const BEGINNING = tailAfter([]);

const step = (before: Tail = BEGINNING, filter: TailFilter = {}) => tailStep(databases, filter, before);

/** The news as event, destination and state. */
const shownBy = ({ news }: Awaited<ReturnType<typeof step>>) =>
  news.map(({ found }) => [
    found.eventId,
    found.destinationId,
    found.kind === "stored" ? found.row.state : "queued",
  ]);

/** The given number of bundles of one event for one destination. */
const bundles = (count: number, destination = "dst_a", tenant = "acme"): BundleRow[] =>
  Array.from({ length: count }, () => ({ events: [{ tenant, destinations: [destination] }] }));

describe("a tail", () => {
  test("of an empty database begins before its first event", async () => {
    const tail = await newTail(databases);
    expect(tail).toEqual({ after: [0], followed: [] });
    const idle = await step(tail);
    expect(idle).toEqual({ tail, news: [], isGap: false });
    const [event] = await insertBundles(env.DB, bundles(1));
    expect(shownBy(await step(idle.tail))).toEqual([[event, "dst_a", "queued"]]);
  });

  test("that begins now shows no earlier deliveries, and one without a position shows all", async () => {
    const [before] = await insertBundles(env.DB, bundles(1));
    const tail = await newTail(databases);
    const [after] = await insertBundles(env.DB, bundles(1));
    expect(shownBy(await step(tail))).toEqual([[after, "dst_a", "queued"]]);
    expect(shownBy(await step())).toEqual([
      [before, "dst_a", "queued"],
      [after, "dst_a", "queued"],
    ]);
  });

  test("shows events in the order of acceptance, whatever their numbers", async () => {
    const [later, earlier, last] = await insertBundles(
      env.DB,
      [20, 10, 30].map((acceptedAt) => ({ acceptedAt, events: [{ destinations: ["dst_a"] }] })),
    );
    expect(shownBy(await step()).map(([event]) => event)).toEqual([earlier, later, last]);
  });

  test("shows each delivery's state and each change once, and follows deliveries that have not ended", async () => {
    const [one = 0, two = 0, three = 0] = await insertBundles(env.DB, [
      { events: [{ destinations: ["dst_a", "dst_b"] }, { destinations: ["dst_a", "dst_b"] }] },
      { events: [{ destinations: ["dst_a", "dst_b"] }] },
    ]);
    const first = await step();
    expect(shownBy(first).map(([, , state]) => state)).toEqual(Array(6).fill("queued"));
    await storeDeliveries(env.DB, [
      { eventId: one, destinationId: "dst_a", state: "dead" },
      { eventId: two, destinationId: "dst_b", state: "retrying", attempts: 1, nextAttemptAt: 5 },
      { eventId: three, destinationId: "dst_b", state: "cancelled" },
    ]);
    await storePacked(env.DB, [
      { eventId: one, destinationId: "dst_b", state: "delivered" },
      { eventId: two, destinationId: "dst_a", state: "waiting" },
      { eventId: three, destinationId: "dst_a", state: "inFlight" },
    ]);
    const second = await step(first.tail);
    expect(shownBy(second)).toEqual([
      [one, "dst_a", "dead"],
      [one, "dst_b", "delivered"],
      [two, "dst_a", "waiting"],
      [two, "dst_b", "retrying"],
      [three, "dst_a", "in_flight"],
      [three, "dst_b", "cancelled"],
    ]);
    expect(second.tail.followed.map(({ planned }) => [planned.eventId, planned.destinationId])).toEqual([
      [two, "dst_a"],
      [two, "dst_b"],
      [three, "dst_a"],
    ]);
    const third = await step(second.tail);
    expect(third.news).toEqual([]);
    await execute("UPDATE deliveries SET next_attempt_at = 9 WHERE event_id = ?1", two);
    expect(shownBy(await step(third.tail))).toEqual([[two, "dst_b", "retrying"]]);
  });

  test("follows the newest hundred that have not ended", async () => {
    await insertBundles(env.DB, [{ events: Array(45).fill({ destinations: ["dst_a"] }) }]);
    let { tail } = await step();
    for (const count of [1, 2, 3]) {
      await insertBundles(env.DB, [{ events: Array(45).fill({ destinations: ["dst_a"] }) }]);
      ({ tail } = await step(tail));
      expect(tail.followed).toHaveLength(Math.min(100, 45 * (count + 1)));
    }
    expect(tail.followed.at(-1)?.planned.eventId).toBe(eventAt(4, 44));
    expect(tail.followed[0]?.planned.eventId).toBe(eventAt(2, 35));
  });

  test("skips an index of a plan without an event in its bundle", async () => {
    const [event] = await insertBundles(env.DB, bundles(1));
    await execute("UPDATE bundles SET plan = ?1", JSON.stringify({ dst_a: [0, 3] }));
    expect(shownBy(await step())).toEqual([[event, "dst_a", "queued"]]);
  });

  test("keeps following deliveries of a database that is no longer bound", async () => {
    const [event = 0] = await insertBundles(env.DB, bundles(1));
    const { tail } = await step();
    const [one] = tail.followed;
    const elsewhere = eventAt(beforeFirstBundleOf(1) + 1, 0);
    const followed = one ? [{ ...one, planned: { ...one.planned, eventId: elsewhere } }, one] : [];
    await storeDeliveries(env.DB, [{ eventId: event, destinationId: "dst_a", state: "waiting" }]);
    const next = await step({ ...tail, followed });
    expect(shownBy(next)).toEqual([[event, "dst_a", "waiting"]]);
    expect(next.tail.followed).toHaveLength(2);
  });
});

describe("a filter", () => {
  test("finds a tenant's or a destination's event among more of others than a step takes", async () => {
    await insertBundles(env.DB, bundles(1, "dst_own", "own"));
    await insertBundles(env.DB, bundles(60, "dst_foreign", "foreign"));
    for (const filter of [{ tenant: "own" }, { destinationId: "dst_own" }]) {
      const found = await step(BEGINNING, filter);
      expect(shownBy(found)).toEqual([[eventAt(1, 0), "dst_own", "queued"]]);
      expect(found.isGap).toBe(false);
    }
    expect(shownBy(await step(BEGINNING, { tenant: "own", destinationId: "dst_foreign" }))).toEqual([]);
  });

  test("does not confuse a tenant with one whose name has it as a part", async () => {
    await insertBundles(env.DB, [...bundles(1, "dst_a", "own"), ...bundles(60, "dst_b", "owner")]);
    expect(shownBy(await step(BEGINNING, { tenant: "own" }))).toHaveLength(1);
  });

  test("that nothing matches yet loses nothing that comes later", async () => {
    await insertBundles(env.DB, bundles(1, "dst_b", "foreign"));
    const { tail } = await step(BEGINNING, { tenant: "own" });
    const [event] = await insertBundles(env.DB, bundles(1, "dst_a", "own"));
    expect(shownBy(await step(tail, { tenant: "own" }))).toEqual([[event, "dst_a", "queued"]]);
  });
});

describe("a gap", () => {
  test.each([
    ["as many deliveries as a step takes are none", [50], false],
    ["one more is one", [51], true],
    ["so are as many bundles as it takes, as there may be more", Array(50).fill(1), true],
    ["fewer bundles are none", Array(49).fill(1), false],
  ])("%s", async (_, sizes: readonly number[], isGap) => {
    await insertBundles(
      env.DB,
      sizes.map((size) => ({ events: Array(size).fill({ destinations: ["dst_a"] }) })),
    );
    const found = await step();
    expect(found.isGap).toBe(isGap);
    expect(found.news).toHaveLength(Math.min(50, sizes.length * (sizes[0] ?? 0)));
  });

  test.each([
    [200, false],
    [201, true],
  ])("is reported if more bundles have come than a step reads: of %i ids", async (id, isGap) => {
    await insertBundles(env.DB, [{ id: 1, events: [{ destinations: ["dst_a"] }] }]);
    await insertBundles(env.DB, [{ id, events: [{ destinations: ["dst_a"] }] }]);
    const found = await step();
    expect(found.isGap).toBe(isGap);
    expect(found.news).toHaveLength(isGap ? 1 : 2);
  });
});

test("an event that comes between the reads of one step is shown once", async () => {
  await insertBundles(env.DB, bundles(1));
  let isLate = true;
  const db = interceptedD1(env.DB, async (sql, work) => {
    const results = await work();
    if (sql.includes("max(id)") && isLate) {
      isLate = false;
      await insertBundles(env.DB, bundles(1));
    }
    return results;
  });
  const first = await tailStep({ db }, {}, BEGINNING);
  expect(shownBy(first)).toHaveLength(2);
  expect(first.tail.after).toEqual([2]);
  expect((await tailStep({ db }, {}, first.tail)).news).toEqual([]);
});

describe("a tail that continues", () => {
  const followed = (...events: readonly number[]): Tail["followed"] =>
    events.map((eventId) => ({
      planned: { eventId, destinationId: "dst_a", acceptedAt: 1, deliverAt: null, ttlSeconds: undefined },
      event: { tenant: "acme", type: "a", acceptedAt: 1, tags: [], channels: [], isErased: false },
      destination: null,
      shown: "",
    }));

  test.each([
    ["begins where it ended when it follows nothing", 1_000, [], 1_000],
    ["begins before what has not ended", 1_000, [980, 950], 949],
    ["goes no further back than a hundred bundles", 1_000, [500], 900],
    ["begins before the first bundle", 30, [1], 0],
    ["has a beginning in an empty database", 0, [], 0],
  ])("%s", (_, newest, open, expected) => {
    const events = open.map((bundle) => eventAt(bundle, 3));
    expect(resumeAfter({ after: [newest], followed: followed(...events) })).toEqual([expected]);
  });

  test("goes back only in the databases of deliveries that have not ended", () => {
    const other = beforeFirstBundleOf(1);
    const tail = {
      after: [1_000, other + 500],
      followed: followed(eventAt(990, 0), eventAt(other + 450, 0)),
    };
    expect(resumeAfter(tail)).toEqual([989, other + 449]);
    expect(resumeAfter({ ...tail, followed: followed(eventAt(990, 0)) })).toEqual([989, other + 500]);
    expect(resumeAfter({ ...tail, followed: followed(eventAt(other + 450, 0)) })).toEqual([
      1_000,
      other + 449,
    ]);
  });
});
