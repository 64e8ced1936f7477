/**
 * A destination in JSON and as a row: what may be posted and changed, what is shown, and how each is written as the
 * other. `null` stands for the default everywhere, so that every optional field can be reset. What depends on the
 * deployment or on stored data is checked in validate.ts.
 */
import { z } from "@hono/zod-openapi";
import { previousSecrets } from "../../core/credentials.ts";
import { breakerSchema, defaultBreaker, defaultLimits, limitsSchema } from "../../core/limits.ts";
import { type PauseReason, pauseReasons } from "../../core/reasons.ts";
import { retrySpec } from "../../core/retry/policy.ts";
import { eventFilter } from "../../core/routing.ts";
import {
  breakerOf,
  type Destination,
  type DestinationChange,
  limitsOf,
  statusOf,
} from "../../db/destinations.ts";
import { maskedHeaders } from "../../delivery/http.ts";
import { destinationKinds, kindNameOf, shownTarget, targetFields } from "../../delivery/kinds/registry.ts";
import { schemes, secretBytes } from "../../secrets/signing.ts";
import { labelOf } from "../../secrets/vault.ts";
import { isoTime } from "../../time.ts";
import type { Principal } from "../context.ts";
import { eventTypePattern, strict, tenantName } from "../parameters.ts";

const MAX_HEADERS = 20;

/**
 * Headers of the connection (RFC 9110 §7.6.1), those that Breakwater sets, and those by which proxies say where a request
 * comes from: Cloudflare sets them itself, and receivers trust them.
 */
const RESERVED: ReadonlySet<string> = new Set([
  "cdn-loop",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "user-agent",
  "x-real-ip",
]);

const RESERVED_PREFIXES = ["webhook-", "cf-", "x-forwarded-"] as const;

const NAME_EXPECTED = "expected a header name (RFC 9110 token) of at most 100 characters";
const VALUE_EXPECTED = "expected 1 to 1024 printable ASCII characters without spaces around them";
const RESERVED_EXPECTED =
  "expected none of the headers that Breakwater sets itself, or Cloudflare and other proxies do (cf-*, cdn-loop, " +
  "x-forwarded-*, x-real-ip)";
const COUNT_EXPECTED = `expected at most ${MAX_HEADERS} headers, each named once`;

const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/, { error: NAME_EXPECTED, abort: true })
  .refine((given) => !isReserved(given.toLowerCase()), { error: RESERVED_EXPECTED });

const headerValue = z
  .string({ error: VALUE_EXPECTED })
  .regex(/^[!-~]([ -~\t]{0,1022}[!-~])?$/, { error: VALUE_EXPECTED });

const headersSchema = z
  .record(headerName, headerValue, { error: "expected an object of strings" })
  .refine((given) => areFewAndDistinct(Object.keys(given)), { error: COUNT_EXPECTED })
  .openapi({
    type: "object",
    additionalProperties: { type: "string" },
    description: "Headers to send with every delivery, in addition to Breakwater's own.",
  });

function isReserved(lowerName: string): boolean {
  return RESERVED.has(lowerName) || RESERVED_PREFIXES.some((prefix) => lowerName.startsWith(prefix));
}

function areFewAndDistinct(names: readonly string[]): boolean {
  return (
    names.length <= MAX_HEADERS && new Set(names.map((given) => given.toLowerCase())).size === names.length
  );
}

const MAX_METADATA = 50;
const METADATA_EXPECTED = `expected at most ${MAX_METADATA} keys of 1 to 64 characters with strings of at most 500`;

const metadata = z
  .record(
    z.string().min(1, { error: METADATA_EXPECTED }).max(64, { error: METADATA_EXPECTED }),
    z.string({ error: METADATA_EXPECTED }).max(500, { error: METADATA_EXPECTED }),
    { error: METADATA_EXPECTED },
  )
  .refine((given) => Object.keys(given).length <= MAX_METADATA, { error: METADATA_EXPECTED })
  .openapi({
    type: "object",
    additionalProperties: { type: "string" },
    description: "Keys and values of your own; never sent.",
  });

const { shape: limits } = limitsSchema;
const { shape: breaker } = breakerSchema;

const breakerInput = strict({
  failure_ratio: breaker.failure_ratio.nullish(),
  min_attempts: breaker.min_attempts.nullish(),
  window_s: breaker.window_s.nullish(),
  cooldown_s: breaker.cooldown_s.nullish(),
  max_cooldown_s: breaker.max_cooldown_s.nullish(),
});

const kindInput = z
  .enum(destinationKinds)
  .nullish()
  .openapi({
    description:
      "What deliveries are sent to, `https` unless given: an endpoint (`url`), a Cloudflare queue (`binding`, or " +
      "`account_id`, `queue_id` and `token`), or a Worker behind a service binding (`binding`, `path`). It stays as it is.",
  });

const DESCRIPTION_EXPECTED = "expected a string of at most 500 characters";
const TYPES_EXPECTED = "expected a list of 1 to 100 event types or patterns";

const changeable = {
  event_types: z
    .array(eventTypePattern, { error: TYPES_EXPECTED })
    .min(1, { error: TYPES_EXPECTED })
    .max(100, { error: TYPES_EXPECTED })
    .nullish()
    .openapi({ description: "The types of events that the destination takes; null means all." }),
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

export const SECRET_EXPECTED =
  "whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an ed25519 key";

const signingSecret = z
  .string({ error: `expected ${SECRET_EXPECTED}` })
  .refine((text) => secretBytes(text) !== undefined, { error: `expected ${SECRET_EXPECTED}` });

/** The fields by which a caller chooses the signing secret, on creation and on rotation. */
export const secretInput = {
  secret: signingSecret.nullish().openapi({
    description: "The signing secret, `whsec_…` or `whsk_…`; one is generated when it is left out.",
  }),
  signature: z.enum(schemes).nullish().openapi({
    description: "`hmac-sha256` signs with a shared secret (v1), `ed25519` with a key pair (v1a).",
  }),
};

/** What is shown of a new secret, once: of an ed25519 key only the public half, because nobody needs the other. */
export const shownSecret = {
  secret: z.string().optional().openapi({
    description: "The shared secret; it is shown only here.",
    example: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
  }),
  public_key: z.string().optional().openapi({ description: "With ed25519: `whpk_` and the public key." }),
};

const { url, ...otherTargetFields } = targetFields;

export const newDestination = strict({
  url,
  tenant: tenantName.optional(),
  kind: kindInput,
  ...otherTargetFields,
  ...secretInput,
  handshake: z
    .boolean({ error: "expected true or false" })
    .optional()
    .openapi({
      description:
        "Whether to ask the receiver for its consent first (CloudEvents webhook validation, OPTIONS). The rate that it " +
        "allows becomes the destination's rate.",
    }),
  ...changeable,
}).openapi("NewDestination");

export const destinationChange = strict({
  url,
  kind: kindInput,
  ...otherTargetFields,
  ...changeable,
}).openapi("DestinationChange");

export type DestinationInput = z.infer<typeof destinationChange>;

export const destinationSchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    kind: z.enum(destinationKinds),
    url: z.string().optional().openapi({ description: "The endpoint, of kind `https`." }),
    binding: z.string().optional().openapi({ description: "Of kind `queue` or `service`." }),
    path: z.string().optional().openapi({ description: "Of kind `service`." }),
    account_id: z.string().optional().openapi({ description: "Of kind `queue`, without a binding." }),
    queue_id: z.string().optional().openapi({ description: "Of kind `queue`, without a binding." }),
    status: z.enum(["active", "paused"]),
    status_reason: z
      .enum(pauseReasons)
      .nullable()
      .openapi({
        description:
          "Why it is paused: `manual`, by an operator; `gone`, after a 410; `rejecting`, after more than a hundred " +
          "refusals in a row; `failing`, after five days without a success.",
      }),
    event_types: z.array(z.string()).nullable(),
    filter: eventFilter.nullable(),
    description: z.string().nullable(),
    metadata: z.record(z.string(), z.string()),
    headers: z.record(z.string(), z.string()).openapi({
      description: "Their values are shown only to keys of the scope admin: they may be credentials.",
    }),
    signature: z.enum(schemes),
    secret_version: z.int().openapi({
      description: "1 at first; each rotation adds one.",
    }),
    previous_secrets: z.array(z.object({ expires_at: z.iso.datetime() })).openapi({
      description: "Secrets that were replaced and still sign until they expire, the newest first.",
    }),
    ...z.object(limits).shape,
    retry: retrySpec.nullable(),
    breaker: breakerSchema,
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("Destination");

/** A destination as the API shows it: never with its secret, and with header values to admins only. */
export function destinationView(
  row: Destination,
  { scopes }: Pick<Principal, "scopes">,
): z.infer<typeof destinationSchema> {
  const headers = readable("headers", row.headers, {});
  return {
    id: row.id,
    tenant: row.tenant,
    kind: kindNameOf(row.url),
    ...shownTarget(row.url),
    status: statusOf(row),
    status_reason: row.statusReason as PauseReason | null,
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
type JsonField = "event_types" | "filter" | "metadata" | "headers" | "retry";

/** The stored value; when it was edited into something that the schema refuses, the value that applies instead. */
function readable<K extends JsonField>(field: K, stored: unknown, otherwise: Shown[K]): Shown[K] {
  const parsed = destinationSchema.shape[field].safeParse(stored);
  return parsed.success ? (parsed.data as Shown[K]) : otherwise;
}

/** The columns that an input sets, but for its target: the default for null; undefined for what is left out. */
export function columnsOf(input: DestinationInput): DestinationChange {
  return {
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
