/**
 * The operational events in the OpenAPI document, as webhooks: what Breakwater sends to destinations of the tenant
 * `operator`. Receivers verify and deduplicate them like every other event. Fields are only ever added to this contract.
 */
import { z } from "@hono/zod-openapi";
import { thresholds } from "../../core/alerts.ts";
import type { OperationalType } from "../../core/operational-message.ts";
import { pauseReasons } from "../../core/reasons.ts";
import { deliveryId, eventId } from "../../ids.ts";
import { time } from "../parameters.ts";

const link = z.url().optional().openapi({
  example: "https://hooks.example.com/dashboard/destinations/dst_8m2x0f7q9a4r6t1v3w5y",
  description: "The page of the dashboard that shows it. Absent where the deployment has no `OWN_HOSTS`.",
});

const aboutDestination = {
  at: time,
  link,
  destination_id: z.string().openapi({ example: "dst_8m2x0f7q9a4r6t1v3w5y" }),
  tenant: z.string().openapi({ example: "acme" }),
  host: z.string().nullable().openapi({
    example: "hooks.example.com",
    description: "The host name of the URL, and nothing else of it; null for other kinds than `https`.",
  }),
};

const gateChange = z.object({
  ...aboutDestination,
  until: time.optional().describe("When an open circuit admits a probe."),
  last_15_minutes: z.object({
    first_attempts: z.int(),
    retries: z.int(),
    failures: z.int(),
    retry_ratio: z.number().describe("Retries for each first attempt."),
  }),
});

const statusChange = z.object({
  ...aboutDestination,
  reason: z.enum(pauseReasons).openapi({
    example: "gone",
    description:
      "`manual`: by an operator. `gone`: after a 410. `rejecting`: after more than a hundred refusals in a row. " +
      "`failing`: after five days without a success. `transform_failing`: after more than forty deliveries that its transformation failed for.",
  }),
});

const consumerLag = z.object({
  ...aboutDestination,
  consumer: z.string().openapi({ example: "billing" }),
  lag_s: z
    .int()
    .describe("For how many seconds the oldest event that it has not committed has been ready to fetch."),
  fetched_at: time.nullable().describe("When it last fetched, accurate to the minute."),
});

export const operationalEvents: Readonly<
  Record<OperationalType, Readonly<{ summary: string; data: z.ZodObject }>>
> = {
  "destination.circuit_opened": { summary: "A circuit has opened", data: gateChange },
  "destination.circuit_closed": { summary: "A circuit has closed", data: gateChange },
  "destination.storm_detected": { summary: "A retry storm has started", data: gateChange },
  "destination.recovered": { summary: "A retry storm has ended", data: gateChange },
  "destination.paused": { summary: "A destination has been paused", data: statusChange },
  "destination.resumed": { summary: "A destination has been resumed", data: statusChange },
  "delivery.dead": {
    summary: "Deliveries have become dead",
    data: z.object({
      ...aboutDestination,
      deliveries: z
        .int()
        .describe("Their number since `since`: at most one event a minute is sent for a destination."),
      since: time,
    }),
  },
  "delivery.held": {
    summary: "A dead delivery holds its key",
    data: z.object({
      ...aboutDestination,
      delivery_id: z.string().openapi({ example: deliveryId(4711, "dst_8m2x0f7q9a4r6t1v3w5y") }),
      event_id: z.string().openapi({ example: eventId(4711) }),
    }),
  },
  "consumer.lagging": { summary: "A consumer of a polled destination lags behind", data: consumerLag },
  "consumer.caught_up": {
    summary: "A consumer of a polled destination no longer lags behind",
    data: consumerLag,
  },
  "sweep.stalled": {
    summary: "The sweep has not run for five minutes",
    data: z.object({ at: time, link, heartbeat_at: time, age_s: z.int() }),
  },
  "threshold.crossed": {
    summary: "A figure is beyond its limit",
    data: z.object({
      at: time,
      link,
      threshold: z.enum(thresholds),
      value: z.number(),
      limit: z.number(),
      window: z.enum(["30m", "1h", "now"]),
      destinations: z.array(z.string()).openapi({
        description: "Up to five destinations that contribute most to it, the largest first.",
        example: ["dst_8m2x0f7q9a4r6t1v3w5y"],
      }),
      coverage: z
        .object({ total: z.int(), queried: z.int(), unreachable: z.int() })
        .optional()
        .describe(
          "With the window `1h`: the value is of the `queried` ones of about `total` destinations, and " +
            "`unreachable` gates did not answer. The next check continues with the others.",
        ),
    }),
  },
};
