/** The Worker's queue handler, in a deployment whose queues have names of their own. */
import { createExecutionContext, env, waitOnExecutionContext } from "cloudflare:test";
import { expect, test } from "vitest";
import worker from "../src/worker.ts";
import { batchOf } from "./support/queues.ts";

async function handle(queue: string) {
  const ctx = createExecutionContext();
  await worker.queue?.(batchOf(queue, ["no message of ours"]).batch, env, ctx);
  await waitOnExecutionContext(ctx);
}

test.each([
  "breakwater-staging-deliveries",
  "breakwater-staging-drains",
  "breakwater-staging-dead",
  "shop-events",
])("messages of %s are handled, whatever the environment is called", async (queue) => {
  await expect(handle(queue)).resolves.toBeUndefined();
});

test("messages of a queue that is not the Worker's are refused, and so kept by the platform", async () => {
  await expect(handle("somebody-elses")).rejects.toThrow("No handler for the queue somebody-elses");
});
