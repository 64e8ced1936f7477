/** The queues' consumers in wrangler.toml. */
import { describe, expect, test } from "vitest";
import { readWranglerConfig } from "../tools/wrangler.ts";

type Consumer = Readonly<{
  queue: string;
  max_retries?: number;
  retry_delay?: number;
  dead_letter_queue?: string;
}>;

const config = (await readWranglerConfig()) as unknown as Readonly<{
  queues: Readonly<{ consumers: readonly Consumer[]; producers: readonly Readonly<{ queue: string }>[] }>;
}>;
const { consumers, producers } = config.queues;

test("there are four consumers", () => {
  expect(consumers.map(({ queue }) => queue)).toEqual([
    "breakwater-deliveries",
    "breakwater-drains",
    "breakwater-upkeep",
    "breakwater-dead",
  ]);
});

describe.each(consumers)("the consumer of $queue", ({
  queue,
  max_retries = 0,
  retry_delay = 0,
  dead_letter_queue,
}) => {
  test("retries the messages of a dead invocation after a while, not at once", () => {
    expect(retry_delay).toBeGreaterThanOrEqual(10);
  });

  test("has a producer in the same Worker, without which a deployment does not create the queue", () => {
    expect(producers.map((producer) => producer.queue)).toContain(queue);
  });

  const isRepeated = queue === "breakwater-drains" || queue === "breakwater-upkeep";

  if (!isRepeated)
    test("takes most of an hour to give up a message after crashes", () => {
      expect(max_retries * retry_delay).toBeGreaterThanOrEqual(45 * 60);
    });

  if (dead_letter_queue)
    test("has a dead-letter queue with a consumer", () => {
      expect(consumers.map((consumer) => consumer.queue)).toContain(dead_letter_queue);
    });
});
