/**
 * A destination in JSON: what may be posted, what may be changed, what is shown. `null` stands for the
 * default everywhere, so that every optional field can be taken back. The URL is judged apart, by
 * delivery/target.ts, because that depends on the deployment.
 */
import { z } from "@hono/zod-openapi";
import { eventFilter } from "../policy/event-filter.ts";
import { breakerSchema, limitsSchema } from "../policy/limits.ts";
import { retrySpec } from "../policy/retry-spec.ts";
import { schemes } from "../secrets/signing-secret.ts";
import { headersSchema } from "./destination-headers.ts";
import { secretInput } from "./destination-secret.ts";
import { eventTypePattern, tenantName } from "./names.ts";
import { strict } from "./strict.ts";

const MAX_METADATA = 50;
const METADATA_EXPECTED = `expected at most ${MAX_METADATA} keys of 1 to 64 characters with strings of at most 500`;
const DESCRIPTION_EXPECTED = "expected a string of at most 500 characters";
const TYPES_EXPECTED = "expected a list of 1 to 100 event types or patterns";

const metadata = z
  .record(
    z.string().min(1, { error: METADATA_EXPECTED }).max(64, { error: METADATA_EXPECTED }),
    z.string({ error: METADATA_EXPECTED }).max(500, { error: METADATA_EXPECTED }),
    { error: METADATA_EXPECTED },
  )
  .refine((given) => Object.keys(given).length <= MAX_METADATA, { error: METADATA_EXPECTED })
  .openapi({ type: "object", additionalProperties: { type: "string" }, description: "Yours; never sent." });

const { shape: limits } = limitsSchema;
const { shape: breaker } = breakerSchema;

const breakerInput = strict({
  failure_ratio: breaker.failure_ratio.nullish(),
  min_attempts: breaker.min_attempts.nullish(),
  window_s: breaker.window_s.nullish(),
  cooldown_s: breaker.cooldown_s.nullish(),
  max_cooldown_s: breaker.max_cooldown_s.nullish(),
});

const url = z.string({ error: "expected an https URL" }).openapi({ example: "https://example.com/webhooks" });

const changeable = {
  event_types: z
    .array(eventTypePattern, { error: TYPES_EXPECTED })
    .min(1, { error: TYPES_EXPECTED })
    .max(100, { error: TYPES_EXPECTED })
    .nullish()
    .openapi({ description: "Which events it takes; null takes all." }),
  filter: eventFilter.nullish(),
  description: z.string({ error: DESCRIPTION_EXPECTED }).max(500).nullish(),
  metadata: metadata.nullish().openapi({ type: ["object", "null"] }),
  headers: headersSchema.nullish().openapi({ type: ["object", "null"] }),
  timeout_ms: limits.timeout_ms.nullish(),
  max_concurrency: limits.max_concurrency.nullish(),
  rate_per_second: limits.rate_per_second.nullish(),
  rate_burst: limits.rate_burst.nullish(),
  retry: retrySpec.nullish(),
  breaker: breakerInput.nullish(),
};

export const newDestination = strict({
  url,
  tenant: tenantName.optional(),
  ...secretInput,
  handshake: z.boolean({ error: "expected true or false" }).optional().openapi({
    description:
      "Ask the receiver first (CloudEvents webhook validation, OPTIONS); the rate that it allows becomes its rate.",
  }),
  ...changeable,
}).openapi("NewDestination");

export const destinationChange = strict({ url: url.optional(), ...changeable }).openapi("DestinationChange");

export type DestinationInput = z.infer<typeof destinationChange>;

export const destinationSchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    url: z.string(),
    status: z.enum(["active", "paused"]),
    status_reason: z.string().nullable(),
    event_types: z.array(z.string()).nullable(),
    filter: eventFilter.nullable(),
    description: z.string().nullable(),
    metadata: z.record(z.string(), z.string()),
    headers: z.record(z.string(), z.string()).openapi({
      description: "With their values for keys of the scope admin only: they may hold credentials.",
    }),
    signature: z.enum(schemes),
    secret_version: z.int().openapi({
      description: "1 at first, and one more with each rotation.",
    }),
    previous_secrets: z.array(z.object({ expires_at: z.iso.datetime() })).openapi({
      description: "Those that were replaced, the newest first: each signs as well until its time.",
    }),
    ...z.object(limits).shape,
    retry: retrySpec.nullable(),
    breaker: breakerSchema,
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("Destination");
