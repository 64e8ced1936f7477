/** The answer of /v1/stats, for validation's twin: the description. */
import { z } from "@hono/zod-openapi";
import { windows } from "../policy/stats-window.ts";

const time = z.iso.datetime();
const share = (of: string) =>
  z
    .number()
    .nullable()
    .openapi({ description: `${of} Null without any.` });
const quantiles = z.object({ p50: z.number().nullable(), p95: z.number().nullable() });

const rates = {
  attempts: z.int(),
  first_attempts: z.int(),
  delivered: z.int().openapi({ description: "Deliveries that ended delivered." }),
  dead: z.int().openapi({ description: "Deliveries that ended dead." }),
  retry_rate: share("Of the first attempts, those that had to be tried again."),
  dead_letter_rate: share("Of the deliveries that ended, those that ended dead."),
  second_attempt_success_rate: share("Of the second attempts, those that delivered."),
  mean_attempts_to_success: share("Attempts that a delivered delivery had needed."),
  non_2xx_rate: share("Of all attempts, those that were answered, but not with a 2xx."),
  timeout_rate: share("Of all attempts, those that were not answered in time."),
  storm_ratio: z.number().openapi({ description: "Retries for each first attempt." }),
  latency_ms: quantiles,
  queue_delay_ms: quantiles.openapi({ description: "How long after their time attempts started." }),
  waiting: z
    .int()
    .openapi({ description: "Deliveries held at the door now; counted up to 1,000 for each destination." }),
  retrying: z.int().openapi({ description: "Deliveries to be tried again." }),
  dead_letters: z
    .int()
    .openapi({ description: "Dead deliveries that are kept; counted like the waiting ones." }),
};

const point = z.object({
  at: time,
  attempts: z.int(),
  retries: z.int(),
  failures: z.int(),
  delivered: z.int(),
  dead: z.int(),
});

const destinationStats = z
  .object({
    destination_id: z.string(),
    ...rates,
    circuit: z.enum(["closed", "half_open", "open"]),
    storm: z.boolean(),
  })
  .openapi("DestinationStats");

export const statsSchema = z
  .object({
    window: z.enum(windows),
    ...rates,
    retrying_for_a_day: z.int().openapi({ description: "Attempted, and not over a day after their event." }),
    deduplicated: z.int().nullable().openapi({
      description: "Requests ever that were answered from what was stored; null for a part of the whole.",
    }),
    keyed_requests: z.int().nullable().openapi({
      description:
        "Requests ever with an `Idempotency-Key`, the deduplicated among them; new ones are counted once a minute.",
    }),
    results: z.record(z.string(), z.int()).openapi({ description: "Attempts by what they came to." }),
    attempt_distribution: z.record(z.string(), z.int()).openapi({ description: "Attempts by their number." }),
    series: z
      .array(point)
      .openapi({ description: "Minutes of 15m and 1h, hours of 24h and 7d; the last has begun." }),
    destinations: z.array(destinationStats),
    coverage: z
      .object({ total: z.int(), asked: z.int(), sampled: z.int().nullable(), unreachable: z.int() })
      .openapi({
        description:
          "`asked` are listed under `destinations`, and what waits, is retried or dead is counted there: a hundred at " +
          "most, those in which something goes on. Where there are more, attempts, rates, latency and the series are " +
          "an estimate: they are those of `sampled` destinations, chosen by chance among all. Null: they are of all.",
      }),
  })
  .openapi("Stats");
