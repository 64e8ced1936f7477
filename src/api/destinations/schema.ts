/**
 * A destination in JSON: what may be posted, what may be changed, what is shown. `null` stands for the
 * default everywhere, so that every optional field can be taken back. The URL is judged apart, by
 * delivery/url-guard.ts, because that depends on the deployment.
 */
import { z } from "@hono/zod-openapi";
import { previousSecrets } from "../../core/credentials.ts";
import {
  type Breaker,
  breakerSchema,
  defaultBreaker,
  defaultLimits,
  limitsSchema,
} from "../../core/limits.ts";
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
import { shakeHands } from "../../delivery/test-event.ts";
import { resolve, targetProblem } from "../../delivery/url-guard.ts";
import { schemes, secretBytes } from "../../secrets/signing.ts";
import { labelOf } from "../../secrets/vault.ts";
import type { Services } from "../../services.ts";
import { isoTime } from "../../time.ts";
import type { Principal } from "../auth.ts";
import type { ApiContext } from "../context.ts";
import { eventTypePattern, strict, tenantName } from "../parameters.ts";
import { type Checked, errorsOf, type FieldError, givenTo, invalid } from "../problems.ts";

const SECRET_EXPECTED = "whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an ed25519 key";

const wellFormed = z
  .string({ error: `expected ${SECRET_EXPECTED}` })
  .refine((text) => secretBytes(text) !== undefined, { error: `expected ${SECRET_EXPECTED}` });

/** The fields by which a caller says what is to be signed with. */
export const secretInput = {
  secret: wellFormed.nullish().openapi({
    description: "The signing secret, `whsec_…` or `whsk_…`; made for you when left out.",
  }),
  signature: z.enum(schemes).nullish().openapi({
    description: "`hmac-sha256` signs with a shared secret (v1), `ed25519` with a key pair (v1a).",
  }),
};

// §§ The headers a destination may add to its deliveries: well-formed, few, and none of those that belong to
// the connection (RFC 9110 §7.6.1), to the body that is signed, or to Standard Webhooks.

const MAX_HEADERS = 20;

const RESERVED: ReadonlySet<string> = new Set([
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
]);

const NAME_EXPECTED = "expected a header name (RFC 9110 token) of at most 100 characters";
const VALUE_EXPECTED = "expected 1 to 1024 printable ASCII characters without spaces around them";
const RESERVED_EXPECTED = "expected none of the headers that Breakwater sets itself";
const COUNT_EXPECTED = `expected at most ${MAX_HEADERS} headers, each named once`;

const name = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/, { error: NAME_EXPECTED, abort: true })
  .refine((given) => !isReserved(given.toLowerCase()), { error: RESERVED_EXPECTED });

const value = z
  .string({ error: VALUE_EXPECTED })
  .regex(/^[!-~]([ -~\t]{0,1022}[!-~])?$/, { error: VALUE_EXPECTED });

const headersSchema = z
  .record(name, value, { error: "expected an object of strings" })
  .refine((given) => areFew(Object.keys(given)), { error: COUNT_EXPECTED })
  .openapi({
    type: "object",
    additionalProperties: { type: "string" },
    description: "Sent with every delivery, beside Breakwater's own.",
  });

function isReserved(lowerName: string): boolean {
  return RESERVED.has(lowerName) || lowerName.startsWith("webhook-");
}

function areFew(names: readonly string[]): boolean {
  return (
    names.length <= MAX_HEADERS && new Set(names.map((given) => given.toLowerCase())).size === names.length
  );
}

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

type DestinationInput = z.infer<typeof destinationChange>;

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

// §§ What a schema alone cannot tell of a destination: whether its URL may be called in this deployment, and
// whether its breaker still makes sense together with what is stored.

/** Refuses a body with the faults of all its fields at once, those of the URL included. */
export function refuseFaults(result: Checked, c: ApiContext) {
  const { allowPrivateDestinations } = c.get("services").config;
  const errors = [...errorsOf(result), ...urlErrors(givenTo(result), allowPrivateDestinations)];
  return errors.length > 0 ? invalid(errors) : undefined;
}

/** The fault of a URL as the caller gave it, if it gave one. */
function urlErrors(given: unknown, allowPrivate: boolean): FieldError[] {
  const { url } = (given ?? {}) as { url?: unknown };
  const found = typeof url === "string" ? targetProblem(url, allowPrivate) : undefined;
  return found ? [{ field: "url", ...found }] : [];
}

/**
 * The fault of a URL whose name leads inside, where the deployment names a resolver. What the resolver cannot
 * tell now it is asked again before every batch.
 */
export async function leadErrors(services: Services, url: string | undefined): Promise<FieldError[]> {
  const resolution = url === undefined ? undefined : await resolve(services, url);
  if (resolution?.kind !== "private") return [];
  const expected = "a name that leads to public addresses only";
  return [{ field: "url", fault: `leads to ${resolution.address}`, expected }];
}

/** The longest cool-down is not shorter than the first, with what stays as `stored`. */
export function breakerErrors(
  input: DestinationInput["breaker"],
  stored: Breaker = defaultBreaker,
): FieldError[] {
  if (input === undefined || input === null) return [];
  const first = settled(input.cooldown_s, stored.cooldown_s, defaultBreaker.cooldown_s);
  const longest = settled(input.max_cooldown_s, stored.max_cooldown_s, defaultBreaker.max_cooldown_s);
  if (longest >= first) return [];
  const expected = `at least the cooldown_s of ${first}`;
  return [{ field: "breaker.max_cooldown_s", fault: `is ${longest}`, expected }];
}

/** What must not have changed when the write comes: two changes, each right, may be wrong together. */
export function decidedOn(
  { breaker }: DestinationInput,
  { breakerCooldownS, breakerMaxCooldownS }: Destination,
): Partial<Pick<Destination, "breakerCooldownS" | "breakerMaxCooldownS">> {
  return breaker ? { breakerCooldownS, breakerMaxCooldownS } : {};
}

function settled(given: number | null | undefined, stored: number, fallback: number): number {
  return given === undefined ? stored : (given ?? fallback);
}

// §§ The optional handshake when a destination is created: what the receiver allows becomes a limit of ours.

type Agreed = Readonly<{ ratePerSecond?: number }> | Readonly<{ errors: readonly FieldError[] }>;

const EXPECTED = "a receiver that answers OPTIONS with WebHook-Allowed-Origin naming this host, or *";

/** The limits to store; none when no handshake was asked for. A lower rate of the caller's own stays. */
export async function handshakeFor(
  services: Services,
  { url, handshake, rate_per_second: own }: z.infer<typeof newDestination>,
  origin: string,
): Promise<Agreed> {
  if (!handshake) return {};
  const answer = await shakeHands(services, url, origin);
  if (answer.kind === "refused") {
    return { errors: [{ field: "handshake", fault: `the receiver ${answer.fault}`, expected: EXPECTED }] };
  }
  const { ratePerSecond } = answer;
  if (ratePerSecond === undefined || (own ?? Number.POSITIVE_INFINITY) <= ratePerSecond) return {};
  const allowed = limitsSchema.shape.rate_per_second.safeParse(ratePerSecond);
  return allowed.success ? { ratePerSecond } : {};
}

// §§ A destination in JSON and its row: the one place that knows how each is written as the other.

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
