/** The operational events as webhooks of the document. */
import { z } from "@hono/zod-openapi";
import type { Api } from "../../http/context.ts";
import { time } from "../parameters.ts";
import { operationalEvents } from "./webhooks.ts";

/** Adds the webhooks to the document; there is no route. */
export function registerOperationalEvents(api: Api): void {
  for (const [type, { summary, data }] of Object.entries(operationalEvents)) {
    const schema = z.object({ type: z.literal(type), timestamp: time, data });
    api.openAPIRegistry.registerWebhook({
      method: "post",
      path: type,
      summary,
      description: "Sent to the destinations of the tenant `operator` that take this type.",
      request: { body: { required: true, content: { "application/json": { schema } } } },
      responses: { 200: { description: "Any 2xx acknowledges the event." } },
    });
  }
}
