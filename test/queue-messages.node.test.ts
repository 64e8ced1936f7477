/** Which batch is which. */
import { expect, test } from "vitest";
import { batchesOf, batchKindOf, drainMessage, queueKindOf } from "../src/queue-messages.ts";

const part = { bundle: 7, destinations: ["dst_1"] };
const messages = {
  deliveries: [{ bundles: [part] }, { bundles: [part], owner: "o" }],
  drains: [{ destination: "dst_1", drains: 2 }, { destination: "dst_1" }, { waiting: ["dst_1", "dst_2"] }],
  upkeep: [
    { replay: "rpl_1" },
    { erasure: "ers_1", at: 2 },
    { deadLetterDigest: "dst_1" },
    { sweep: "lease", page: 1, until: 2 },
    { retention: 1, until: 2 },
    { content_retention: 1, until: 2 },
  ],
};
const everyMessage = [...messages.deliveries, ...messages.drains, ...messages.upkeep];
const batch = (queue: string, ...bodies: unknown[]) => ({
  queue,
  messages: bodies.map((body) => ({ body })),
});
const told = { QUEUE_NAMES: "acme-events,acme-two,lost-letters,acme-drains-dead" };

test.each([
  ...messages.deliveries.map((body) => ["deliveries", body] as const),
  ...messages.drains.map((body) => ["drains", body] as const),
  ...messages.upkeep.map((body) => ["upkeep", body] as const),
])("a message of %s is recognized by its shape on a queue of any name: %j", (kind, body) => {
  for (const name of ["mine", "acme-drains", "acme-deliveries", "acme-upkeep"])
    for (const env of [{}, { QUEUE_NAMES: "" }, told]) expect(batchKindOf(env, batch(name, body))).toBe(kind);
});

test.each(
  everyMessage,
)("a queue that the deployment names has that purpose, whatever is in it: %j", (body) => {
  expect(batchKindOf(told, batch("acme-events", body))).toBe("deliveries");
  expect(batchKindOf(told, batch("acme-two", body))).toBe("drains");
  expect(batchKindOf(told, batch("lost-letters", body))).toBe("dead");
  expect(batchKindOf(told, batch("acme-drains-dead", body))).toBe("upkeep");
});

test.each(
  everyMessage,
)("dead letters and events are recognized by the words in their queues' names: %j", (body) => {
  expect(batchKindOf({}, batch("acme-dead", body))).toBe("dead");
  expect(batchKindOf({}, batch("shop-events", body))).toBe("events");
  expect(batchKindOf(told, batch("shop-events", body))).toBe("events");
});

test("messages that no version has sent are logged and acknowledged", () => {
  expect(batchKindOf({}, batch("mine", null, "text", { bundles: 1 }))).toBe("deliveries");
});

test("an unreadable message does not hide the kind of the others", () => {
  expect(batchKindOf({}, batch("mine", null, { destination: "dst_1" }))).toBe("drains");
  expect(batchKindOf({}, batch("mine", null, { replay: "rpl_1" }))).toBe("upkeep");
});

test("a drain's message counts the reads before it that found only faults, if it has a number", () => {
  const order = { destination: "dst_1", drains: 2, alone: true };
  expect(drainMessage({ ...order, faultyReads: 3 })).toEqual({ ...order, faultyReads: 3 });
  expect(drainMessage({ ...order, faultyReads: "3", other: 1 })).toEqual(order);
  expect(drainMessage({ destination: "dst_1" })).toEqual({ destination: "dst_1", drains: 1 });
});

test("a batch has as many messages as the platform takes, and no more bytes", () => {
  const named = (destinations: number, count: number) => {
    const body = { bundles: [{ ...part, destinations: Array(destinations).fill(`dst_${"x".repeat(20)}`) }] };
    return Array.from({ length: count }, () => ({ body }));
  };
  expect(batchesOf([])).toEqual([]);
  expect(batchesOf(named(1, 250)).map(({ length }) => length)).toEqual([100, 100, 50]);
  const full = named(100, 100);
  const batches = batchesOf(full);
  expect(batches.flat()).toEqual(full);
  for (const batch of batches) {
    const bytes = batch.map(({ body }) => new TextEncoder().encode(JSON.stringify(body)).byteLength + 100);
    expect(bytes.reduce((sum, one) => sum + one)).toBeLessThan(256_000);
  }
  expect(batches.length).toBe(2);
});

test.each([
  ["breakwater-deliveries", "deliveries"],
  ["breakwater-staging-drains", "drains"],
  ["breakwater-dead-eu", "dead"],
  ["breakwater-upkeep", "upkeep"],
  ["deliveries-dead", "dead"],
  ["dead-poets-deliveries", "deliveries"],
  ["deliveries2", "deliveries"],
  ["deadline-drains", "drains"],
  ["shop-events", "events"],
  ["events-shop-eu", "events"],
  ["events-deliveries", "deliveries"],
  ["shop-events-dead", "dead"],
  ["prevents", undefined],
  ["breakwater-queue", undefined],
  ["undelivered", undefined],
])("the words in the name of the queue %s say %s", (name, kind) => {
  expect(queueKindOf(name)).toBe(kind);
});
