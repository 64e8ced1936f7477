/** The Worker: which handler answers what. Wiring only. */
import { createApp } from "./api/app.ts";
import { createDashboard } from "./dashboard/app.tsx";
import { bury } from "./delivery/bury.ts";
import { consume } from "./delivery/consume.ts";
import { answerBells } from "./delivery/drain.ts";
import { tick } from "./delivery/tick.ts";
import { servicesOf } from "./services.ts";

export { DestinationGate } from "./gate/destination-gate.ts";

const app = createApp();
const dashboard = createDashboard();

export default {
  fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    return (/^\/dashboard(\/|$)/.test(pathname) ? dashboard : app).fetch(request, env, ctx);
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
    await tick(servicesOf(env, ctx));
  },
} satisfies ExportedHandler<Env>;
