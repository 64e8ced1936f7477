/**
 * Lists of deliveries in every state, of several tenants, in rows, packs and plans: each filter finds what a filter in code
 * finds, once, in order, page by page, with one database or several.
 */

import { beforeAll, describe, expect, test } from "vitest";
import { takesType } from "../../src/core/routing.ts";
import { homeOf } from "../../src/store/bundles.ts";
import type { Databases } from "../../src/store/databases.ts";
import { deliveriesByEvent } from "../../src/store/deliveries-by-event.ts";
import type { DeliveryRow, StoredState } from "../../src/store/delivery.ts";
import { storedStatus } from "../../src/store/delivery.ts";
import {
  type ListFilter,
  type MergedPage,
  type Positions,
  storedDeliveries,
} from "../../src/store/delivery-list.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase, testDatabases } from "../support/databases.ts";
import { storeDeliveries, storePacked } from "../support/delivery-rows.ts";
import { newDestination } from "../support/world.ts";

const [db, ...further] = testDatabases as [D1Database, ...D1Database[]];

const MINUTE = 60_000;
const NOW = 1_790_000_000_000;
const BUNDLES = 6;
const acceptedAt = (bundle: number) => NOW + bundle * 10 * MINUTE;

/** Destinations of two tenants, one between those of the other; one deleted, and one removed by hand. */
const [OWN, FOREIGN, SECOND, REMOVED, DELETED] = ["dst_1", "dst_2", "dst_3", "dst_4", "dst_5"] as const;

const EVENTS = [
  { tenant: "acme", type: "order.paid", channels: ["eu"], tags: ["x"] },
  { tenant: "rival", type: "order.paid", channels: ["us"], tags: ["x"] },
  { tenant: "acme", type: "order.pains", channels: ["eu", "us"], tags: ["y"] },
  { tenant: "acme", type: "orders", channels: [], tags: ["x", "y"] },
  { tenant: "rival", type: "user.new", channels: ["eu"], tags: [] },
] as const;

const destinationsOf = (tenant: string) => (tenant === "rival" ? [FOREIGN] : [OWN, SECOND, REMOVED, DELETED]);

type Listed = Readonly<{
  eventId: number;
  destinationId: string;
  state: StoredState | "queued";
  reason: string | null;
  status: number | null;
  acceptedAt: number;
  about: (typeof EVENTS)[number];
}>;

/** The stored form of a delivery, by turns: a row, a bit, or nothing. */
const row = (state: StoredState, reason: DeliveryRow["reason"], status: number | null) =>
  ({ kind: "row", state, reason, status }) as const;
const OUTCOMES = [
  { kind: "none", state: "queued", reason: null, status: null },
  row("waiting", "circuit_open", null),
  { kind: "waiting", state: "waiting", reason: "circuit_open", status: null },
  row("retrying", "http_503", 503),
  { kind: "inFlight", state: "retrying", reason: "in_flight", status: null },
  row("delivered", null, 200),
  { kind: "delivered", state: "delivered", reason: null, status: 204 },
  row("dead", "exhausted", 503),
  row("cancelled", "destination_deleted", null),
  { kind: "cancelled", state: "cancelled", reason: "destination_deleted", status: null },
  row("waiting", "http_503", 503),
] as const;

/** Stores every outcome for every destination, and returns what there is. */
async function store(databases: readonly D1Database[]): Promise<Listed[]> {
  for (const id of [OWN, SECOND]) await newDestination({ id });
  await newDestination({ id: FOREIGN, tenant: "rival" });
  await newDestination({ id: DELETED, deletedAt: 1 });
  const all: Listed[] = [];
  let turn = 0;
  for (let bundle = 0; bundle < BUNDLES; bundle++) {
    const number = bundle % databases.length;
    const events = [...EVENTS.slice(bundle % EVENTS.length), ...EVENTS.slice(0, bundle % EVENTS.length)];
    const home = databases[number] ?? db;
    const ids = await insertBundles(
      home,
      [
        {
          acceptedAt: acceptedAt(bundle),
          events: events.map(({ channels, tags, ...event }) => ({
            ...{ ...event, channels: [...channels], tags: [...tags] },
            destinations: destinationsOf(event.tenant),
          })),
        },
      ],
      number,
    );
    const kept = events.flatMap((about, index) =>
      destinationsOf(about.tenant).map((destinationId) => ({
        ...{ eventId: ids[index] ?? 0, destinationId, about, acceptedAt: acceptedAt(bundle) },
        outcome: OUTCOMES[turn++ % OUTCOMES.length] ?? OUTCOMES[0],
      })),
    );
    await storeDeliveries(
      home,
      kept.flatMap(({ outcome, eventId, destinationId }) =>
        outcome.kind === "row"
          ? [
              {
                eventId,
                destinationId,
                state: outcome.state,
                reason: outcome.reason,
                lastStatus: outcome.status,
              },
            ]
          : [],
      ),
    );
    await storePacked(
      home,
      kept.flatMap(({ outcome: { kind }, eventId, destinationId }) =>
        kind === "row" || kind === "none" ? [] : [{ eventId, destinationId, state: kind }],
      ),
      { status: 204 },
    );
    all.push(...kept.map(({ outcome: { kind: _, ...outcome }, ...one }) => ({ ...one, ...outcome })));
  }
  return all;
}

type Filter = Omit<ListFilter, "before" | "limit">;

/** The same in code. */
function passes(filter: Filter, { about, ...one }: Listed): boolean {
  const { tenant, destinationId, status, reason, type, channel, tag, accepted = {} } = filter;
  const { since = 0, until = Number.POSITIVE_INFINITY } = accepted;
  return (
    (tenant === undefined || about.tenant === tenant) &&
    (destinationId === undefined || one.destinationId === destinationId) &&
    (status === undefined || one.status === status) &&
    (reason === undefined || one.reason === reason) &&
    (type === undefined || takesType([type], about.type)) &&
    (channel === undefined || (about.channels as readonly string[]).includes(channel)) &&
    (tag === undefined || (about.tags as readonly string[]).includes(tag)) &&
    one.acceptedAt >= since &&
    one.acceptedAt < until
  );
}

const compare = (a: string | number, b: string | number) => (a === b ? 0 : a < b ? 1 : -1);

/** All pages, each delivery as event, destination, state and whose it is. */
async function walk(pageAt: (before: Positions | undefined) => Promise<MergedPage>, limit: number) {
  const shown: (readonly unknown[])[] = [];
  let before: Positions | undefined;
  for (let page = 0; page < 100; page++) {
    const { found, next } = await pageAt(before);
    expect(found.length).toBeLessThanOrEqual(limit);
    shown.push(
      ...found.map((one) => [
        ...[one.eventId, one.destinationId, one.kind === "stored" ? storedStatus(one.row).state : "queued"],
        one.destination === null ? null : one.destination.tenant,
      ]),
    );
    if (!next) return shown;
    before = next;
  }
  throw new Error("The list does not end");
}

const shownAs = ({ eventId, destinationId, state, about }: Listed) => [
  ...[eventId, destinationId, state],
  destinationId === REMOVED ? null : about.tenant,
];

const STATES = ["waiting", "retrying", "delivered", "dead", "cancelled"] as const;

const FILTERS: readonly (readonly [what: string, filter: Filter])[] = [
  ["everything", {}],
  ["a tenant", { tenant: "acme" }],
  ["the other tenant", { tenant: "rival" }],
  ["a tenant without any", { tenant: "acm" }],
  ["a destination", { destinationId: SECOND }],
  ["a tenant's destination", { destinationId: SECOND, tenant: "acme" }],
  ["another tenant's destination", { destinationId: FOREIGN, tenant: "acme" }],
  ["a removed destination", { destinationId: REMOVED }],
  ["a tenant's removed destination", { destinationId: REMOVED, tenant: "acme" }],
  ["another tenant's removed destination", { destinationId: REMOVED, tenant: "rival" }],
  ["a status", { status: 503 }],
  ["a status of packs", { status: 204 }],
  ["a reason", { reason: "http_503" }],
  ["a reason of packs", { reason: "in_flight" }],
  ["a type", { type: "order.paid" }],
  ["a pattern of types", { type: "order.*", tenant: "acme" }],
  ["every type", { type: "*" }],
  ["a channel", { channel: "us" }],
  ["a channel that is no longer in use", { channel: "e" }],
  ["the time since a moment", { accepted: { since: acceptedAt(3) } }],
  ["the time until a moment", { accepted: { until: acceptedAt(3) } }],
  ["a time", { accepted: { since: acceptedAt(1), until: acceptedAt(4) }, tenant: "acme" }],
  ["a time between events", { accepted: { since: acceptedAt(2) + 1, until: acceptedAt(2) + 9 } }],
  ["all at once", { tenant: "acme", type: "order.*", channel: "eu", reason: "circuit_open" }],
];

const databases = { db, further };
let all: Listed[];
beforeAll(async () => {
  await emptyDatabase();
  all = await store(testDatabases);
});

/** A tenant's list leads through its destinations, so those of removed ones are in none. */
const isReached = ({ destinationId }: Listed, filter: Filter) =>
  filter.tenant === undefined || filter.destinationId !== undefined || destinationId !== REMOVED;

async function expectStored(
  filter: Filter,
  state: StoredState | undefined,
  limit: number,
  among: Databases = databases,
) {
  const expected = all
    .filter(({ eventId }) => homeOf(among, eventId) !== undefined)
    .filter((one) => (state === undefined ? one.state !== "queued" : one.state === state))
    .filter((one) => passes(filter, one) && isReached(one, filter))
    .sort(
      (a, b) =>
        compare(a.destinationId, b.destinationId) ||
        compare(a.acceptedAt, b.acceptedAt) ||
        compare(a.eventId, b.eventId),
    );
  const shown = await walk((before) => storedDeliveries(among, state, { ...filter, limit, before }), limit);
  expect(shown).toEqual(expected.map(shownAs));
}

describe("the list by destination", () => {
  test.each(FILTERS)("of %s is complete and in order", async (_, filter) => {
    await expectStored(filter, undefined, 100);
  });

  test("continues at its position in each database, however small its pages", async () => {
    await expectStored({ destinationId: OWN, type: "order.paid" }, undefined, 1);
  });

  test.each([undefined, ...STATES])("of one database is complete and in order: %s", async (state) => {
    await expectStored({}, state, state ? 3 : 9, { db });
    await expectStored({ tenant: "acme" }, state, 4, { db });
  });

  test.each(STATES)("of %s deliveries is complete and in order, with a filter and without", async (state) => {
    await expectStored({}, state, 5);
    await expectStored({ destinationId: OWN, type: "order.*" }, state, 2);
    const accepted = { since: acceptedAt(1), until: acceptedAt(5) };
    await expectStored({ tenant: "acme", accepted, channel: "eu" }, state, 3);
  });
});

/** Before it has an outcome, a delivery to a deleted destination counts as cancelled. */
const stateOf = ({ state, destinationId }: Listed) =>
  state === "queued" && (destinationId === DELETED || destinationId === REMOVED) ? "cancelled" : state;

async function expectByEvent(filter: Filter, state: StoredState | "queued" | undefined, limit: number) {
  const expected = all
    .filter((one) => state === undefined || stateOf(one) === state)
    .filter((one) => passes(filter, one))
    .sort(
      (a, b) =>
        compare(a.acceptedAt, b.acceptedAt) ||
        compare(a.eventId, b.eventId) ||
        compare(a.destinationId, b.destinationId),
    );
  const { tenant, tag, ...others } = filter;
  const shown = await walk(
    (before) => deliveriesByEvent(databases, { tenant, tag, state }, { ...others, limit, before }),
    limit,
  );
  expect(shown).toEqual(expected.map(shownAs));
}

describe("the list by event", () => {
  const accepted = { since: acceptedAt(1), until: acceptedAt(4) };
  const tagged: typeof FILTERS = [
    ["a tag", { tenant: "acme", tag: "x" }],
    ["a tag of the other tenant", { tenant: "rival", tag: "x" }],
    ["a tag that it does not have", { tenant: "rival", tag: "y" }],
    ["a tag and a time", { tenant: "acme", tag: "y", accepted }],
    ["a tag and a destination", { tenant: "acme", tag: "x", destinationId: OWN, type: "orders" }],
  ];

  test.each([...FILTERS, ...tagged])("of %s is complete and in order", async (_, filter) => {
    await expectByEvent(filter, undefined, 100);
  });

  test.each([...STATES, "queued"] as const)("of what is %s is complete and in order", async (state) => {
    await expectByEvent({}, state, 5);
    await expectByEvent({ tenant: "acme", tag: "x" }, state, 2);
  });
});
