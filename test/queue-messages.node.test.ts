/** Which queue is which. */
import { expect, test } from "vitest";
import { queueKindOf } from "../src/queue-messages.ts";

test.each([
  ["breakwater-deliveries", "deliveries"],
  ["breakwater-staging-drains", "drains"],
  ["breakwater-dead-eu", "dead"],
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
])("the queue %s is for %s", (name, kind) => {
  expect(queueKindOf(name)).toBe(kind);
});
