/** The deliveries in a bundle's plan, their destinations, and their order. */

import { describe, expect, test } from "vitest";
import { eventAt, type Plan, storedHeader } from "../../src/core/bundle.ts";
import type { DeliveryRow } from "../../src/store/delivery.ts";
import { type BundleRow, foundOf, plannedIn } from "../../src/store/planned-deliveries.ts";

const BUNDLE = 7;
const AT = 1_000;

const events = [
  { tenant: "acme", type: "order.paid", tags: ["x"], channels: ["left"], ttlSeconds: 60 },
  { tenant: "other", type: "order.paid", tags: ["x", "y"] },
  { tenant: "acme", type: "order.sent", tags: ["y"], channels: ["left", "right"] },
  { tenant: "acme", type: "order" },
  { tenant: "other", type: "user.created", channels: ["right"], ttlSeconds: 5 },
];

/** `b` gets all events, `a` those of acme, and `c` the second one. */
const plan: Plan = { b: [0, 4], c: [1, 1], a: [0, 0, 2, 3] };

const row: BundleRow = {
  id: BUNDLE,
  acceptedAt: AT,
  deliverAt: null,
  plan: JSON.stringify(plan),
  header: JSON.stringify(
    storedHeader(
      events.map((one) => ({ ...one, bytes: 1 })),
      { encoding: "plain" },
    ),
  ),
};

/** The deliveries as index and destination. */
const namesOf = (filter: Partial<Parameters<typeof plannedIn>[1]>, from = row) =>
  plannedIn(from, { limit: 1, ...filter }).map(
    ({ eventId, destinationId }) => `${eventId - eventAt(BUNDLE, 0)}${destinationId}`,
  );

const ALL = ["0a", "0b", "1b", "1c", "2a", "2b", "3a", "3b", "4b"];

describe("the planned deliveries of a bundle", () => {
  test("are ordered by event and destination", () => {
    expect(namesOf({})).toEqual(ALL);
    const reversed = Object.fromEntries(Object.entries(plan).reverse());
    expect(namesOf({}, { ...row, plan: JSON.stringify(reversed) })).toEqual(ALL);
    const sorted = Object.fromEntries(Object.entries(plan).sort());
    expect(namesOf({}, { ...row, plan: JSON.stringify(sorted) })).toEqual(ALL);
  });

  test.each<[Parameters<typeof namesOf>[0], string[]]>([
    [{ destinationId: "a" }, ["0a", "2a", "3a"]],
    [{ destinationId: "d" }, []],
    [{ tenant: "acme" }, ["0a", "0b", "2a", "2b", "3a", "3b"]],
    [{ tenant: "other" }, ["1b", "1c", "4b"]],
    [{ tenant: "nobody" }, []],
    [{ type: "order.paid" }, ["0a", "0b", "1b", "1c"]],
    [{ type: "order.*" }, ["0a", "0b", "1b", "1c", "2a", "2b"]],
    [{ type: "*" }, ALL],
    [{ type: "none" }, []],
    [{ tag: "y" }, ["1b", "1c", "2a", "2b"]],
    [{ tag: "z" }, []],
    [{ channel: "right" }, ["2a", "2b", "4b"]],
    [{ channel: "x" }, []],
    [{ tenant: "acme", type: "order.*", tag: "x", channel: "left", destinationId: "b" }, ["0b"]],
    [{ tenant: "acme", type: "order.*", tag: "x", channel: "right" }, []],
    [{ accepted: {} }, ALL],
    [{ accepted: { since: AT } }, ALL],
    [{ accepted: { since: AT + 1 } }, []],
    [{ accepted: { until: AT } }, []],
    [{ accepted: { until: AT + 1 } }, ALL],
    [{ accepted: { since: AT - 1, until: AT + 9 } }, ALL],
  ])("may be filtered (%j)", (filter, expected) => {
    expect(namesOf(filter)).toEqual(expected);
  });

  test("of events that the header lacks have no type and no tenant", () => {
    const beyond = { ...row, plan: JSON.stringify({ a: [4, 5] }) };
    expect(namesOf({}, beyond)).toEqual(["4a", "5a"]);
    expect(namesOf({ type: "*" }, beyond)).toEqual(["4a"]);
    expect(namesOf({ tenant: "other" }, beyond)).toEqual(["4a"]);
  });

  test("have the times of their bundle and the times to live of their events", () => {
    expect(plannedIn({ ...row, deliverAt: AT + 9 }, { limit: 1, destinationId: "b" })).toEqual(
      [60, undefined, undefined, undefined, 5].map((ttlSeconds, i) => ({
        ...{ eventId: eventAt(BUNDLE, i), destinationId: "b", acceptedAt: AT, deliverAt: AT + 9 },
        ttlSeconds,
      })),
    );
  });
});

test("a delivery with a row is stored, and any other is planned", () => {
  const key = { eventId: eventAt(BUNDLE, 0), destinationId: "a" };
  const planned = { ...key, acceptedAt: AT, deliverAt: null, ttlSeconds: 60 };
  const stored = { ...key, state: "waiting" } as DeliveryRow;
  expect(foundOf(planned, stored, null)).toEqual({ ...key, destination: null, kind: "stored", row: stored });
  expect(foundOf(planned, undefined, null)).toEqual({ ...planned, destination: null, kind: "planned" });
});
