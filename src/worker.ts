/** The Worker: which handler answers what, and none of them while it is misconfigured. Wiring only. */

import { consumeEvents } from "./bindings/events-queue.ts";
import { consumeDeliveries } from "./delivery/consumer.ts";
import { consumeDeadLetters } from "./delivery/dead-letters.ts";
import { SERVICE_HOST } from "./delivery/kinds/service-binding.ts";
import { checkThresholds } from "./features/notifications/thresholds.ts";
import { createApp } from "./http/app.ts";
import { byKey } from "./http/auth.ts";
import { createDocs } from "./http/docs/app.tsx";
import { documentOf } from "./http/openapi/document.ts";
import { answerOf, misconfigured, problem } from "./http/problems.ts";
import { createSvixApi } from "./http/svix/app.ts";
import { runCron } from "./jobs/cron.ts";
import { consumeDrains } from "./jobs/drain-queue.ts";
import { keepMessages } from "./jobs/keep-messages.ts";
import { consumeUpkeep } from "./jobs/upkeep-queue.ts";
import { logToConsole } from "./log.ts";
import { createDashboard } from "./pages/dashboard/app.tsx";
import { createPortal } from "./pages/portal/app.tsx";
import { batchKindOf } from "./queue-messages.ts";
import { misconfigurationOf, type Services, servicesOf } from "./services.ts";

export { Events } from "./bindings/entrypoint.ts";
export { DestinationGate } from "./gate/durable-object.ts";
export { Intake } from "./ingest/intake.ts";

/** What answers in one isolate. Its parts share one cache of keys. */
function newDoors() {
  const authenticate = byKey();
  const app = createApp({ authenticate });
  const svix = createSvixApi({ authenticate });
  const byFirstStep = new Map<string | undefined, Pick<typeof app, "fetch">>([
    ["dashboard", createDashboard({ authenticate })],
    ["portal", createPortal()],
    ["api", svix],
    ["ingest", svix],
  ]);
  return { app, byFirstStep };
}

/** Made while the script is loaded, before the first request, for the isolate's `env`. */
const doors = newDoors();
let doorsAreFree = true;
/** By `env`, as the other state of an isolate is (services.ts): a second one is another isolate's. */
const doorsByEnv = new WeakMap<Env, typeof doors>();

function doorsOf(env: Env): typeof doors {
  const known = doorsByEnv.get(env) ?? (doorsAreFree ? doors : newDoors());
  doorsAreFree = false;
  doorsByEnv.set(env, known);
  return known;
}

const docs = createDocs(() => documentOf(doors.app));

/** By the first step of a path. The documentation needs no configuration, and describes the problem of a missing one. */
const documentation = new Map<string | undefined, Pick<typeof docs, "fetch">>([
  ["docs", docs],
  ["problems", docs],
]);

const LOOP =
  "The request is a delivery to a service binding that leads back to Breakwater: it would go round in circles";

export default {
  async fetch(request, env, ctx) {
    const answer = await answerTo(request, env, ctx);
    // JSON repeats texts of callers: no browser may take it for a page.
    answer.headers.set("x-content-type-options", "nosniff");
    return answer;
  },

  async queue(batch, env, ctx) {
    const fault = misconfigurationOf(env);
    if (fault) return keepMessages(env, batch, fault, logToConsole);
    const services = servicesOf(env, ctx);
    await consume(services, env, batch).finally(services.logOmitted);
  },

  async scheduled(_controller, env, ctx) {
    const fault = misconfigurationOf(env);
    if (fault) return logToConsole({ what: "misconfigured", handler: "cron", error: fault.message });
    const services = servicesOf(env, ctx);
    await runCron(services)
      .finally(() => checkThresholds(services))
      .finally(services.logOmitted);
  },
} satisfies ExportedHandler<Env>;

function answerTo(request: Request, env: Env, ctx: ExecutionContext): Response | Promise<Response> {
  const { hostname, pathname } = new URL(request.url);
  const [, first] = pathname.split("/");
  if (hostname.endsWith(SERVICE_HOST)) return problem(403, LOOP);
  const page = documentation.get(first);
  if (page) return page.fetch(request, env, ctx);
  const fault = misconfigurationOf(env);
  if (fault) return answerOf(misconfigured(fault, "fetch", logToConsole));
  const { app, byFirstStep } = doorsOf(env);
  return (byFirstStep.get(first) ?? app).fetch(request, env, ctx);
}

async function consume(services: Services, env: Env, batch: MessageBatch): Promise<void> {
  switch (batchKindOf(env, batch)) {
    case "deliveries":
      return consumeDeliveries(services, batch);
    case "drains":
      return consumeDrains(services, batch);
    case "upkeep":
      return consumeUpkeep(services, batch);
    case "dead":
      return consumeDeadLetters(services, batch);
    case "events":
      return consumeEvents(services, batch);
  }
}
