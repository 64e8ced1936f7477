/** The Worker in development: as it is, but for functions, which run in runtimes that can be ended (functions.ts). */
import worker, { DestinationGate, Events, Intake, ReceiverGroup, TenantFunctions } from "../../src/worker.ts";
import { withFunctions } from "./functions.ts";

export { DestinationGate, Events, Intake, ReceiverGroup, TenantFunctions };

export default {
  fetch: (request, env, ctx) => worker.fetch(request, withFunctions(env), ctx),
  queue: (batch, env, ctx) => worker.queue(batch, withFunctions(env), ctx),
  scheduled: (controller, env, ctx) => worker.scheduled(controller, withFunctions(env), ctx),
} satisfies ExportedHandler<Env>;
