/**
 * A destination in JSON and its row: the one place that knows how each is written as the other.
 */
import type { z } from "@hono/zod-openapi";
import { maskedHeaders } from "../delivery/masked-headers.ts";
import { isoTime } from "../iso-time.ts";
import { defaultBreaker, defaultLimits } from "../policy/limits.ts";
import { previousSecrets } from "../policy/previous-secrets.ts";
import { labelOf } from "../secrets/seal.ts";
import { breakerOf, type Destination, limitsOf, statusOf } from "../store/destination-settings.ts";
import type { DestinationChange } from "../store/destinations.ts";
import type { Principal } from "./auth.ts";
import { type DestinationInput, destinationSchema } from "./destination-schema.ts";

/** What is shown of a destination to whoever asks: what counts, never its secret, header values to admins only. */
export function destinationView(
  row: Destination,
  { scopes }: Pick<Principal, "scopes">,
): z.infer<typeof destinationSchema> {
  const headers = readable("headers", row.headers, {});
  return {
    id: row.id,
    tenant: row.tenant,
    url: row.url,
    status: statusOf(row),
    status_reason: row.statusReason,
    event_types: readable("event_types", row.eventTypes, null),
    filter: readable("filter", row.filter, null),
    description: row.description,
    metadata: readable("metadata", row.metadata, {}),
    headers: scopes.includes("admin") ? headers : maskedHeaders(headers, headers),
    signature: labelOf(row.secret)?.scheme ?? "hmac-sha256",
    secret_version: row.secretVersion,
    previous_secrets: previousSecrets(row.previousSecrets).map((each) => ({
      expires_at: isoTime(each.expires_at),
    })),
    ...limitsOf(row),
    retry: readable("retry", row.retry, null),
    breaker: breakerOf(row),
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  };
}

type Shown = z.infer<typeof destinationSchema>;
type Written = "event_types" | "filter" | "metadata" | "headers" | "retry";

/** What is stored, unless a person has edited it into something else: then what that counts as. */
function readable<K extends Written>(field: K, stored: unknown, otherwise: Shown[K]): Shown[K] {
  const parsed = destinationSchema.shape[field].safeParse(stored);
  return parsed.success ? (parsed.data as Shown[K]) : otherwise;
}

/** The columns that an input sets, with the default where it says null; what it leaves out is undefined. */
export function columnsOf(input: DestinationInput): DestinationChange {
  return {
    url: input.url,
    eventTypes: input.event_types,
    filter: input.filter,
    description: input.description,
    metadata: input.metadata,
    headers: input.headers,
    timeoutMs: orDefault(input.timeout_ms, defaultLimits.timeout_ms),
    maxConcurrency: orDefault(input.max_concurrency, defaultLimits.max_concurrency),
    ratePerSecond: orDefault(input.rate_per_second, defaultLimits.rate_per_second),
    rateBurst: input.rate_burst,
    retry: input.retry,
    ...breakerColumns(input.breaker),
  };
}

function breakerColumns(input: DestinationInput["breaker"]) {
  const breaker = input === null ? defaultBreaker : (input ?? {});
  return {
    breakerFailureRatio: orDefault(breaker.failure_ratio, defaultBreaker.failure_ratio),
    breakerMinAttempts: orDefault(breaker.min_attempts, defaultBreaker.min_attempts),
    breakerWindowS: orDefault(breaker.window_s, defaultBreaker.window_s),
    breakerCooldownS: orDefault(breaker.cooldown_s, defaultBreaker.cooldown_s),
    breakerMaxCooldownS: orDefault(breaker.max_cooldown_s, defaultBreaker.max_cooldown_s),
  };
}

function orDefault(value: number | null | undefined, fallback: number): number | undefined {
  return value === null ? fallback : value;
}
