/** Which batch is which. */
import { expect, test } from "vitest";
import { batchKindOf, namesDeadQueue } from "../src/queue-messages.ts";

const part = { bundle: 7, destinations: ["dst_1"] };
const messages = {
  deliveries: [{ bundles: [part] }, { bundles: [part], owner: "o" }],
  drains: [
    { destination: "dst_1", drains: 2 },
    { destination: "dst_1" },
    { replay: "rpl_1" },
    { deadLetterDigest: "dst_1" },
    { sweep: "lease", page: 1, until: 2 },
    { retention: 1, until: 2 },
  ],
};
const batch = (queue: string, ...bodies: unknown[]) => ({
  queue,
  messages: bodies.map((body) => ({ body })),
});

test.each([
  ...messages.deliveries.map((body) => ["deliveries", body] as const),
  ...messages.drains.map((body) => ["drains", body] as const),
])("a message of %s is known by its shape on a queue of any name: %j", (kind, body) => {
  for (const name of ["mine", "acme-drains", "acme-deliveries"])
    expect(batchKindOf(batch(name, body), "lost-letters")).toBe(kind);
});

test.each([
  ...messages.deliveries,
  ...messages.drains,
])("the dead-letter queue is known by its name, whatever is in it: %j", (body) => {
  expect(batchKindOf(batch("lost-letters", body), "lost-letters")).toBe("dead");
  expect(batchKindOf(batch("acme-dead", body))).toBe("dead");
});

test("a name that is configured counts more than the words of another", () => {
  const { deliveries } = messages;
  expect(batchKindOf(batch("dead-poets", ...deliveries), "lost-letters")).toBe("deliveries");
});

test("messages that no version has sent go where they are logged and acknowledged", () => {
  expect(batchKindOf(batch("mine", null, "text", { bundles: 1 }))).toBe("deliveries");
});

test("one unreadable message does not hide what the others are", () => {
  expect(batchKindOf(batch("mine", null, { replay: "rpl_1" }))).toBe("drains");
});

test.each([
  ["breakwater-dead", true],
  ["breakwater-dead-eu", true],
  ["deliveries-dead", true],
  ["dead-poets-deliveries", false],
  ["deadline-drains", false],
  ["breakwater-deliveries", false],
  ["breakwater-queue", false],
  ["undead2", false],
])("whether %s is a dead-letter queue by its name: %s", (name, isDead) => {
  expect(namesDeadQueue(name)).toBe(isDead);
});
