/** Versions published, pinned and corrected while events are delivered: several isolates, calls that take time and fail, late messages. */
import { describe, expect, test } from "vitest";
import type { Services } from "../../src/services.ts";
import { changeDestination } from "../../src/store/destinations.ts";
import { findEventType, putEventType } from "../../src/store/event-types.ts";
import { changeEventVersion, insertEventVersion } from "../../src/store/event-versions.ts";
import { TENANT, virtualWorld } from "../support/virtual-world.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const TYPE = "order.paid";
/** Says how it was converted. */
const from = (version: number, change = 0) =>
  `{"by": "{{ data.by }}>${version}.${change}", "n": "{{ data.n }}"}`;

async function publish({ db, now }: Services): Promise<void> {
  const seen = await findEventType(db, TYPE);
  const made = { schema: "true", example: null, conversion: from((seen?.version ?? 0) + 1) };
  if (seen) await insertEventVersion(db, seen, made, now());
}

/**
 * Events of two minutes, to destinations that fail now and then: two of the first version, and one whose pinned version
 * changes.
 */
async function publishing(seed: number) {
  const world = virtualWorld({ seed, isDeadly: () => seed > 1 && world.engine.random() < 0.01 });
  const retry = { schedule: [5, 20, 60, 60, 60], max_attempts: 6 };
  const [first, other, pinned] = [0, 1, 2].map(() => world.destination({ retry, createdAt: 0 }));
  for (const id of [first, other, pinned])
    if (id) world.script(id, () => (world.engine.random() < 0.3 ? 500 : 204));
  const plain = { name: TYPE, description: null, schema: null, example: null, retentionDays: null };
  void world.invoke("put", ({ db, now }) =>
    putEventType(db, { ...plain, validates: false, archived: false }, now()),
  );
  world.trouble({ failing: 0.01, unanswered: 0.01, crashing: 0.005 });
  for (let i = 1; i <= 3; i++) {
    world.after(i * 25 * SECOND, () => void world.invoke("publish", publish));
    world.after(i * 25 * SECOND + 8 * SECOND, () => {
      const correction = { conversion: from(2, i) };
      void world.invoke("correct", ({ db, now }) => changeEventVersion(db, TYPE, 2, correction, now()));
      const pins = (at: number) => [{ pins: { [TYPE]: 1 + (i % 2) }, at, after: -1 }];
      void world.invoke("pin", ({ db, now }) =>
        changeDestination(db, pinned ?? "", { eventVersions: pins(now()) }, TENANT),
      );
    });
  }
  world.postSteadily(2, 2 * MINUTE, { data: { n: 7, by: "" } });
  await world.run(2 * MINUTE);
  world.trouble();
  await world.runUntil(() => world.open() === 0, 60 * MINUTE);
  return { world, first: first ?? "", other: other ?? "", pinned: pinned ?? "" };
}

describe.each([1, 2])("while versions are published, pinned and corrected (seed %i)", (seed) => {
  test("an event has the same bytes on every attempt, the same for endpoints of one version, and none is sent unconverted", async () => {
    const { world, first, other, pinned } = await publishing(seed);
    expect(world.broken()).toEqual([]);
    const bodiesAt = (id: string) =>
      new Map(
        [...Map.groupBy(world.requestsTo(id), ({ event }) => event)].map(([event, made]) => [
          event,
          [...new Set(made.map(({ body }) => body))],
        ]),
      );
    const [atFirst, atOther, atPinned] = [bodiesAt(first), bodiesAt(other), bodiesAt(pinned)];
    for (const bodies of [atFirst, atOther, atPinned])
      expect([...bodies].filter(([, each]) => each.length > 1)).toEqual([]);
    // Deliveries of one event are the same for each version.
    for (const [event, body] of atFirst)
      if (atOther.has(event)) expect([event, atOther.get(event)]).toEqual([event, body]);
    const ways = [...atFirst]
      .toSorted(([a], [b]) => a - b)
      .map(([, [body = ""]]) => JSON.parse(body).data.by as string);
    // Each conversion path is complete, and once a version exists, no later event has an earlier one.
    for (const way of ways) expect(way).toMatch(/^((>4\.0)?>3\.0)?(>2\.[0-3])?$/);
    const lengths = ways.map((way) => way.split(">").length);
    expect(lengths).toEqual(lengths.toSorted((a, b) => a - b));
    expect(new Set(ways).size).toBeGreaterThan(3);
    expect(new Set([...atPinned.values()].flat()).size).toBeGreaterThan(3);
  });
});
