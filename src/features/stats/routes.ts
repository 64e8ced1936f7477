/** `GET /v1/stats`: statistics of a window of time, for one destination, a tenant or all. */
import { z } from "@hono/zod-openapi";
import { windows } from "../../core/rollups.ts";
import type { Api } from "../../http/context.ts";
import { answers, serve } from "../../http/routes.ts";
import { documented, strict, tenantName, time } from "../parameters.ts";
import { getStats } from "./service.ts";

const rate = (description: string) =>
  z.number().nullable().describe(`${description} Null when there are none.`);
const quantiles = z.object({ p50: z.number().nullable(), p95: z.number().nullable() });

const rates = {
  attempts: z.int(),
  first_attempts: z.int(),
  delivered: z.int().describe("Deliveries that ended delivered."),
  dead: z.int().describe("Deliveries that ended dead."),
  retry_rate: rate("The share of first attempts that were retried."),
  dead_letter_rate: rate("The share of ended deliveries that are dead."),
  second_attempt_success_rate: rate("The share of second attempts that succeeded."),
  mean_attempts_to_success: rate("The mean number of attempts of the delivered deliveries."),
  non_2xx_rate: rate("The share of attempts that were answered with another status than 2xx."),
  timeout_rate: rate("The share of attempts that timed out."),
  storm_ratio: z.number().describe("Retries for each first attempt."),
  latency_ms: quantiles,
  queue_delay_ms: quantiles.describe("How long after their due time attempts started."),
  waiting: z.int().describe("Deliveries that wait now; counted up to 1,000 for each destination."),
  retrying: z.int().describe("Deliveries with a retry to come."),
  dead_letters: z.int().describe("Dead deliveries that are stored; counted like the waiting ones."),
};

const point = z.object({
  at: time,
  attempts: z.int(),
  retries: z.int(),
  failures: z.int(),
  delivered: z.int(),
  dead: z.int(),
});

const destinationStats = documented("DestinationStats", {
  destination_id: z.string(),
  ...rates,
  circuit: z.enum(["closed", "half_open", "open"]),
  storm: z.boolean(),
});

const statsSchema = documented("Stats", {
  window: z.enum(windows),
  ...rates,
  retrying_for_a_day: z.int().describe("Deliveries that are still retried a day after their event."),
  deduplicated: z
    .int()
    .nullable()
    .describe(
      "Requests since the beginning that repeated an earlier one by their `Idempotency-Key`; null for one tenant or destination.",
    ),
  keyed_requests: z
    .int()
    .nullable()
    .describe(
      "Requests since the beginning with an `Idempotency-Key`, the deduplicated ones included; counted once a minute. " +
        "Null for one tenant or destination.",
    ),
  results: z.record(z.string(), z.int()).describe("Attempts by result."),
  attempt_distribution: z
    .record(z.string(), z.int())
    .describe("Attempts by number: first attempts, second attempts, …"),
  series: z
    .array(point)
    .describe("By the minute for 15m and 1h, by the hour for 24h and 7d; the last one is incomplete."),
  destinations: z.array(destinationStats),
  coverage: z
    .object({ total: z.int(), queried: z.int(), sampled: z.int().nullable(), unreachable: z.int() })
    .describe(
      "`destinations` lists `queried` of the `total` destinations, and `waiting`, `retrying` and " +
        "`dead_letters` count theirs: at most a hundred, the active ones first. Where there are more, attempts, rates, " +
        "latency and the series are estimated from `sampled` destinations, chosen at random; null means that they are " +
        "exact. `total` is an estimate where it is more than 10,000. `unreachable` is the number of gates that did not " +
        "answer.",
    ),
});

export function registerStats(api: Api): void {
  serve(api, "get", "/v1/stats", getStats, {
    summary: "Show statistics",
    description:
      "Rates, latencies, backlog and traffic over time: of one destination, of one tenant, or of everything.",
    tags: ["Monitoring"],
    query: strict({
      window: z.enum(windows).default("1h").describe("The length of time up to now."),
      destination_id: z.string().optional().describe("Only this destination."),
      tenant: tenantName.optional().describe("Only this tenant."),
    }),
    input: ({ query: { window, destination_id: destination, tenant } }) => ({ window, destination, tenant }),
    responses: answers(200, statsSchema, "The statistics of the window.", 404, 422),
  });
}
