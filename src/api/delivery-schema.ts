/** A delivery in JSON, the same wherever one is shown. Times are ISO 8601; absent fields do not apply. */
import { z } from "@hono/zod-openapi";

export const deliveryStates = ["queued", "waiting", "retrying", "delivered", "dead", "cancelled"] as const;

const time = z.iso.datetime();

const attempt = z.object({
  at: time,
  status: z.int().optional(),
  latency_ms: z.number(),
  error: z.string().optional(),
  note: z.string().optional(),
  response: z.string().optional().openapi({ description: "The beginning of the answer's body." }),
});

export const deliverySchema = z
  .object({
    id: z.string(),
    event_id: z.string(),
    destination_id: z.string(),
    state: z.enum(deliveryStates),
    reason: z.string().optional().openapi({ description: "Why it is where it is." }),
    attempts: z.int().openapi({ description: "HTTP exchanges made, and nothing else." }),
    next_attempt_at: time.optional(),
    waiting_until: time.optional().openapi({ description: "Absent when only a person can tell." }),
    give_up_at: time.openapi({
      description:
        "When it is given up: give_up_after its first attempt; expire_unattempted_after it was due, while it has had none.",
    }),
    last_status: z.int().optional(),
    last_error: z.string().optional().openapi({
      description:
        "`http_503` and its like, `timeout`, `connection_lost` (the request may have arrived), `refused`, `dns`, `network`.",
    }),
    delivered_at: time.optional(),
    log: z.array(attempt),
  })
  .openapi("Delivery");

export type DeliveryJson = z.infer<typeof deliverySchema>;
