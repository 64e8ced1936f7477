/** The Worker: which handler answers what. Wiring only. */
import { createApp } from "./api/app.ts";
import { documentOf } from "./api/document.ts";
import { createDashboard } from "./dashboard/app.tsx";
import { bury } from "./delivery/bury.ts";
import { consume } from "./delivery/consume.ts";
import { answerBells } from "./delivery/drain.ts";
import { tick } from "./delivery/tick.ts";
import { createDocs } from "./docs/app.tsx";
import { watch } from "./metrics/watch.ts";
import { servicesOf } from "./services.ts";

export { DestinationGate } from "./gate/destination-gate.ts";
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
    switch (batch.queue) {
      case "breakwater-deliveries":
        return consume(services, batch);
      case "breakwater-drains":
        return answerBells(services, batch);
      case "breakwater-dead":
        return bury(services, batch);
      default:
        throw new Error(`No handler for the queue ${batch.queue}`);
    }
  },

  async scheduled(_controller, env, ctx) {
    const services = servicesOf(env, ctx);
    await tick(services).finally(() => watch(services));
  },
} satisfies ExportedHandler<Env>;
