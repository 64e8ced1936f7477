/** The Worker: which handler answers what. Wiring only. */
import { createApp } from "./api/app.ts";
import { documentOf } from "./api/openapi/document.ts";
import { createDashboard } from "./dashboard/app.tsx";
import { consumeDeliveries } from "./delivery/consumer.ts";
import { consumeDeadLetters } from "./delivery/dead-letters.ts";
import { createDocs } from "./docs-site/app.tsx";
import { runCron } from "./maintenance/cron.ts";
import { consumeDrains } from "./maintenance/drain-queue.ts";
import { checkThresholds } from "./notifications/thresholds.ts";
import { queueKindOf } from "./queue-messages.ts";
import { servicesOf } from "./services.ts";

export { DestinationGate } from "./gate/durable-object.ts";
export { Intake } from "./ingest/intake.ts";

const app = createApp();
const dashboard = createDashboard();
const docs = createDocs(() => documentOf(app));

/** By the first step of a path; whatever else is asked for is for the API to answer. */
const pages = new Map<string | undefined, Pick<typeof app, "fetch">>([
  ["dashboard", dashboard],
  ["docs", docs],
  ["problems", docs],
]);

export default {
  fetch(request, env, ctx) {
    const [, first] = new URL(request.url).pathname.split("/");
    return (pages.get(first) ?? app).fetch(request, env, ctx);
  },

  async queue(batch, env, ctx) {
    const services = servicesOf(env, ctx);
    switch (queueKindOf(batch.queue)) {
      case "deliveries":
        return consumeDeliveries(services, batch);
      case "drains":
        return consumeDrains(services, batch);
      case "dead":
        return consumeDeadLetters(services, batch);
      default:
        throw new Error(`No handler for the queue ${batch.queue}`);
    }
  },

  async scheduled(_controller, env, ctx) {
    const services = servicesOf(env, ctx);
    await runCron(services).finally(() => checkThresholds(services));
  },
} satisfies ExportedHandler<Env>;
