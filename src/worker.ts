/**
 * The Worker: its handlers, none of which works while it is misconfigured. Wiring only.
 *
 * The same script runs in gates, in intake and in queue consumers. Code that no delivery needs is loaded by the first
 * invocation that needs it: the API with its schemas, the pages, the cron, drains and upkeep.
 */

import { consumeDeliveries } from "./delivery/consumer.ts";
import { consumeDeadLetters } from "./delivery/dead-letters.ts";
import { keepMessages } from "./jobs/keep-messages.ts";
import { logToConsole } from "./log.ts";
import { batchKindOf } from "./queue-messages.ts";
import { misconfigurationOf, type Notify, type Services, servicesOf } from "./services.ts";

export { Events } from "./bindings/entrypoint.ts";
export { DestinationGate } from "./gate/durable-object.ts";
export { TenantFunctions } from "./gate/functions-object.ts";
export { ReceiverGroup } from "./gate/group-object.ts";
export { Intake } from "./ingest/intake.ts";

export default {
  async fetch(request, env, ctx) {
    const { answerTo } = await import("./http/front.ts");
    const answer = await answerTo(request, env, ctx);
    // JSON repeats texts of callers: no browser may take it for a page.
    answer.headers.set("x-content-type-options", "nosniff");
    return answer;
  },

  async queue(batch, env, ctx) {
    const fault = misconfigurationOf(env);
    if (fault) return keepMessages(env, batch, fault, logToConsole);
    const services = servicesOf(env, ctx, notify);
    await consume(services, env, batch).finally(services.logOmitted);
  },

  async scheduled(_controller, env, ctx) {
    const fault = misconfigurationOf(env);
    if (fault) return logToConsole({ what: "misconfigured", handler: "cron", error: fault.message });
    const services = servicesOf(env, ctx, notify);
    const [{ runCron }, { checkThresholds }] = await Promise.all([
      import("./upkeep.ts"),
      import("./features/notifications/thresholds.ts"),
    ]);
    await runCron(services)
      .finally(() => checkThresholds(services))
      .finally(services.logOmitted);
  },
} satisfies ExportedHandler<Env>;

const notify: Notify = async (services, news) =>
  (await import("./features/notifications/publish.ts")).notify(services, news);

async function consume(services: Services, env: Env, batch: MessageBatch): Promise<void> {
  switch (batchKindOf(env, batch)) {
    case "deliveries":
      return consumeDeliveries(services, batch);
    case "drains":
      return (await import("./upkeep.ts")).consumeDrains(services, batch);
    case "upkeep":
      return (await import("./upkeep.ts")).consumeUpkeep(services, batch);
    case "dead":
      return consumeDeadLetters(services, batch);
    case "events":
      return (await import("./bindings/events-queue.ts")).consumeEvents(services, batch);
  }
}
