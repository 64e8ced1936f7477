/**
 * What Breakwater sends to destinations of the tenant `operator`, as the document's webhooks: a contract that
 * only grows. Receivers verify and deduplicate these like every other event.
 */
import { z } from "@hono/zod-openapi";
import { thresholds } from "../core/alerts.ts";
import type { OperationalType } from "../notifications/operational-events.ts";
import type { Api } from "./context.ts";

const time = z.iso.datetime();

const who = {
  at: time,
  destination_id: z.string().openapi({ example: "dst_8m2x0f7q9a4r6t1v3w5y" }),
  tenant: z.string().openapi({ example: "acme" }),
  host: z.string().nullable().openapi({ example: "hooks.example.com", description: "Of its URL, no more." }),
};

const door = z.object({
  ...who,
  until: time.optional().openapi({ description: "When a circuit that has opened lets a probe in." }),
  last_15_minutes: z.object({
    first_attempts: z.int(),
    retries: z.int(),
    failures: z.int(),
    retry_ratio: z.number().openapi({ description: "Retries for each first attempt." }),
  }),
});

const status = z.object({
  ...who,
  reason: z.string().openapi({
    example: "gone",
    description:
      "`manual`; or `gone` (410), `rejecting` (more than a hundred refused for good in a row), `failing` (five days).",
  }),
});

const told: Readonly<Record<OperationalType, Readonly<{ summary: string; data: z.ZodObject }>>> = {
  "destination.circuit_opened": { summary: "A circuit has opened", data: door },
  "destination.circuit_closed": { summary: "A circuit has closed", data: door },
  "destination.storm_detected": { summary: "A retry storm has begun", data: door },
  "destination.recovered": { summary: "A retry storm is over", data: door },
  "destination.paused": { summary: "A destination has been paused", data: status },
  "destination.resumed": { summary: "A destination has been resumed", data: status },
  "delivery.dead": {
    summary: "Deliveries have ended dead",
    data: z.object({
      ...who,
      deliveries: z
        .int()
        .openapi({ description: "So many since then: one event a minute for a destination." }),
      since: time,
    }),
  },
  "sweep.stalled": {
    summary: "The sweep has been silent for five minutes",
    data: z.object({ at: time, heartbeat_at: time, age_s: z.int() }),
  },
  "threshold.crossed": {
    summary: "A figure is beyond its bound",
    data: z.object({
      at: time,
      threshold: z.enum(thresholds),
      value: z.number(),
      limit: z.number(),
      window: z.enum(["30m", "1h", "now"]),
      destinations: z.array(z.string()).openapi({
        description: "The destinations that have most part in it, the first the most: five at most.",
        example: ["dst_8m2x0f7q9a4r6t1v3w5y"],
      }),
    }),
  },
};

/** The data of each type of event. */
export function operationalData(type: OperationalType): z.ZodObject {
  return told[type].data;
}

/** Adds them to the document; there is nothing to answer. */
export function registerOperationalEvents(api: Api): void {
  for (const [type, { summary, data }] of Object.entries(told)) {
    const schema = z.object({ type: z.literal(type), timestamp: time, data });
    api.openAPIRegistry.registerWebhook({
      method: "post",
      path: type,
      summary,
      description: "Sent to the destinations of the tenant operator that take its type.",
      request: { body: { required: true, content: { "application/json": { schema } } } },
      responses: { 200: { description: "Any 2xx: it has arrived." } },
    });
  }
}
