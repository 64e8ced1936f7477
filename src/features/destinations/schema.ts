/**
 * A destination in JSON and as a row: what may be posted and changed, what is shown, and how each is written as the
 * other. `null` stands for the default everywhere, so that every optional field can be reset. What depends on the
 * deployment or on stored data is checked in validate.ts.
 */
import { z } from "@hono/zod-openapi";
import { bodyFormOf, bodyForms } from "../../core/content.ts";
import { previousSecrets } from "../../core/credentials.ts";
import {
  isReserved,
  MAX_DESCRIPTION,
  MAX_EVENT_TYPES,
  metadataLimits,
} from "../../core/destination-fields.ts";
import { breakerSchema, defaultBreaker, defaultLimits, limitsSchema } from "../../core/limits.ts";
import { templateOf, templates } from "../../core/message-templates.ts";
import { type PauseReason, pauseReasons } from "../../core/reasons.ts";
import { recordOf } from "../../core/record.ts";
import { retrySpec } from "../../core/retry/policy.ts";
import { channelsInEffect, destinationChannels, eventFilter } from "../../core/routing.ts";
import { namedHeaders, signatureForms } from "../../core/signature-forms.ts";
import { authOf, MASK, maskedHeaders, sealedHeaders } from "../../delivery/authorization.ts";
import { destinationKinds, kindNameOf, shownTarget, targetFields } from "../../delivery/kinds/registry.ts";
import { eventTypePattern, strict, tenantName } from "../../http/parameters.ts";
import { looksLikeId } from "../../ids.ts";
import { toBase64 } from "../../secrets/base64.ts";
import { isPlainTextSecret, schemes, secretBytes, signingKey } from "../../secrets/signing.ts";
import { sealedScheme, type Vault } from "../../secrets/vault.ts";
import {
  breakerOf,
  type Destination,
  type DestinationChange,
  limitsOf,
  statusOf,
  storedHeaders,
} from "../../store/destinations.ts";
import { isoTime } from "../../time.ts";
import { authColumn, authInput, authSchema } from "./auth.ts";
import { headersSchema, RESERVED_EXPECTED } from "./headers.ts";

const { keys: maxKeys, keyLength, valueLength } = metadataLimits;
const METADATA_EXPECTED = `expected at most ${maxKeys} keys of 1 to ${keyLength} characters with strings of at most ${valueLength}`;

const metadata = recordOf(
  z.string().min(1, { error: METADATA_EXPECTED }).max(keyLength, { error: METADATA_EXPECTED }),
  z.string({ error: METADATA_EXPECTED }).max(valueLength, { error: METADATA_EXPECTED }),
  { error: METADATA_EXPECTED },
)
  .refine((given) => Object.keys(given).length <= maxKeys, { error: METADATA_EXPECTED })
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

/** The forms of the core, none of which may set a header that is reserved for another purpose. */
const signatureFormsInput = signatureForms.superRefine((forms, ctx) => {
  for (const [index, form] of forms.entries()) {
    if (form.form !== "template") continue;
    for (const { field, name } of namedHeaders(form))
      if (isReserved(name))
        ctx.addIssue({ code: "custom", path: [index, field], message: RESERVED_EXPECTED });
  }
});

const kindInput = z
  .enum(destinationKinds)
  .nullish()
  .openapi({
    description:
      "What deliveries are sent to, `https` unless given: an endpoint (`url`), a Cloudflare queue (`binding`, or " +
      "`account_id`, `queue_id` and `token`), or a Worker behind a service binding (`binding`, `path`). It stays as it is.",
  });

const DESCRIPTION_EXPECTED = `expected a string of at most ${MAX_DESCRIPTION} characters`;
const TYPES_EXPECTED = `expected a list of 1 to ${MAX_EVENT_TYPES} event types or patterns`;

const BODY_EXPECTED = 'expected "envelope" or "data"';

const TEMPLATE_EXPECTED = `expected one of ${templates.join(", ")}`;

const UID_EXPECTED = "expected 1 to 256 letters, digits and _ . -";
const NO_ID_EXPECTED = "expected a name that does not look like an id of Breakwater";

/** The caller's own name for something. It never looks like an id, since things are found by either. */
export const uidField = z
  .string({ error: UID_EXPECTED })
  .regex(/^[A-Za-z0-9_.-]{1,256}$/, { error: UID_EXPECTED })
  .refine((given) => !looksLikeId(given), { error: NO_ID_EXPECTED });

const changeable = {
  uid: uidField.nullish().openapi({
    description: "Your own name for it, which no other destination of the tenant has at the same time.",
  }),
  event_types: z
    .array(eventTypePattern, { error: TYPES_EXPECTED })
    .min(1, { error: TYPES_EXPECTED })
    .max(MAX_EVENT_TYPES, { error: TYPES_EXPECTED })
    .nullish()
    .openapi({ description: "The types of events that the destination takes; null means all." }),
  channels: destinationChannels.nullish().openapi({
    description:
      "The destination takes only events that have one of these channels; null means that it takes events whatever their " +
      "channels.",
  }),
  filter: eventFilter.nullish(),
  description: z.string({ error: DESCRIPTION_EXPECTED }).max(MAX_DESCRIPTION).nullish(),
  metadata: metadata.nullish().openapi({ type: ["object", "null"] }),
  headers: headersSchema.nullish().openapi({ type: ["object", "null"] }),
  auth: authInput.nullish(),
  body: z
    .enum(bodyForms, { error: BODY_EXPECTED })
    .nullish()
    .openapi({
      description:
        "What is sent of an event: the `envelope` with its type, its timestamp and its `data`, or the `data` alone as it " +
        "was posted. Only with `data` does a destination take content that is not JSON.",
    }),
  template: z
    .enum(templates, { error: TEMPLATE_EXPECTED })
    .nullish()
    .openapi({
      description:
        "What an operational event is turned into: a message for Slack, Discord or Microsoft Teams, an alert for " +
        "PagerDuty, or an operational webhook of Svix, in place of `body`. Only for destinations of the tenant `operator`.",
    }),
  signature_forms: signatureFormsInput.nullish(),
  timeout_ms: limits.timeout_ms.nullish(),
  max_concurrency: limits.max_concurrency.nullish(),
  rate_per_second: limits.rate_per_second.nullish(),
  rate_burst: limits.rate_burst.nullish(),
  retry: retrySpec.nullish(),
  breaker: breakerInput.nullish(),
};

export const SECRET_EXPECTED =
  "whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an ed25519 key";
const ANY_SECRET_EXPECTED = `expected ${SECRET_EXPECTED}, or, for another signature form, 20 to 128 printable ASCII characters without spaces around them`;

/** Whether a plain text fits the destination's signature forms is checked in validate.ts. */
const signingSecret = z
  .string({ error: ANY_SECRET_EXPECTED })
  .refine((text) => secretBytes(text) !== undefined || isPlainTextSecret(text), {
    error: ANY_SECRET_EXPECTED,
  });

/** The fields by which a caller chooses the signing secret, on creation and on rotation. */
export const secretInput = {
  secret: signingSecret.nullish().openapi({
    description:
      "The signing secret, `whsec_…` or `whsk_…`; one is generated when it is left out. For signature forms other than " +
      "`standard` and `svix` it may be any 20 to 128 printable ASCII characters without spaces around them.",
  }),
  signature: z.enum(schemes).nullish().openapi({
    description:
      "`hmac-sha256` signs with a shared secret (v1), `ed25519` with a key pair (v1a), in the form `standard` alone.",
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

export type ShownSecret = Readonly<{ secret?: string; public_key?: string }>;

/** What is shown of a new secret: the shared secret, or the public half of a key pair. */
export async function shownOfSecret(secret: string): Promise<ShownSecret> {
  const { publicKey } = await signingKey(secret);
  return publicKey ? { public_key: `whpk_${toBase64(publicKey)}` } : { secret };
}

const { url, ...otherTargetFields } = targetFields;

const statusField = z.enum(["active", "paused"], { error: 'expected "active" or "paused"' });

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
  status: statusField.optional().openapi({
    description: "`paused` creates it paused: what is posted for it waits until it is resumed.",
  }),
  ...changeable,
}).openapi("NewDestination");

export const destinationChange = strict({
  url,
  kind: kindInput,
  ...otherTargetFields,
  ...changeable,
}).openapi("DestinationChange");

/** Settings to be tried on past events; those of the destination apply where they are left out. */
export const destinationTrial = strict({
  event_types: changeable.event_types,
  channels: changeable.channels,
  filter: changeable.filter,
}).openapi("DestinationTrial");

export type NewDestinationInput = z.infer<typeof newDestination>;
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
    uid: z.string().nullable(),
    status: statusField,
    status_reason: z
      .enum(pauseReasons)
      .nullable()
      .openapi({
        description:
          "Why it is paused: `manual`, by an operator; `gone`, after a 410; `rejecting`, after more than a hundred " +
          "refusals in a row; `failing`, after five days without a success.",
      }),
    event_types: z.array(z.string()).nullable(),
    channels: z.array(z.string()).nullable(),
    filter: eventFilter.nullable(),
    description: z.string().nullable(),
    metadata: z.record(z.string(), z.string()),
    headers: z.record(z.string(), z.string()).openapi({
      description: `Their names; each value is shown as \`${MASK}\`, because it may be a credential.`,
      example: { "x-api-key": MASK },
    }),
    auth: authSchema.nullable(),
    body: z.enum(bodyForms),
    template: z.enum(templates).nullable(),
    signature: z.enum(schemes),
    secret_version: z.int().openapi({
      description: "1 at first; each rotation adds one.",
    }),
    previous_secrets: z.array(z.object({ expires_at: z.iso.datetime() })).openapi({
      description: "Secrets that were replaced and still sign until they expire, the newest first.",
    }),
    signature_forms: signatureForms.nullable(),
    ...z.object(limits).shape,
    retry: retrySpec.nullable(),
    breaker: breakerSchema,
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("Destination");

/** A destination as the API shows it: never with its secret, nor with the values of its headers. */
export function destinationView(row: Destination): z.infer<typeof destinationSchema> {
  const { values: headers } = storedHeaders(row);
  return {
    id: row.id,
    tenant: row.tenant,
    kind: kindNameOf(row.url),
    ...shownTarget(row.url),
    uid: row.uid,
    status: statusOf(row),
    status_reason: row.statusReason as PauseReason | null,
    event_types: readable("event_types", row.eventTypes, null),
    channels: channelsInEffect(row.channels)?.slice() ?? null,
    filter: readable("filter", row.filter, null),
    description: row.description,
    metadata: readable("metadata", row.metadata, {}),
    headers: maskedHeaders(headers, headers),
    auth: authOf(row),
    body: bodyFormOf(row.body),
    template: templateOf(row.template) ?? null,
    signature: sealedScheme(row.secret) ?? "hmac-sha256",
    secret_version: row.secretVersion,
    previous_secrets: previousSecrets(row.previousSecrets).map((each) => ({
      expires_at: isoTime(each.expires_at),
    })),
    signature_forms: readable("signature_forms", row.signatureForms, null),
    ...limitsOf(row),
    retry: readable("retry", row.retry, null),
    breaker: breakerOf(row),
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  };
}

type Shown = z.infer<typeof destinationSchema>;
type JsonField = "event_types" | "filter" | "metadata" | "retry" | "signature_forms";

/** The stored value; when it was edited into something that the schema refuses, the value that applies instead. */
function readable<K extends JsonField>(field: K, stored: unknown, otherwise: Shown[K]): Shown[K] {
  const parsed = destinationSchema.shape[field].safeParse(stored);
  return parsed.success ? (parsed.data as Shown[K]) : otherwise;
}

/** The columns that an input sets, but for its target: the default for null; undefined for what is left out. */
export async function columnsOf(
  vault: Vault,
  id: string,
  input: DestinationInput,
): Promise<DestinationChange> {
  return {
    uid: input.uid,
    eventTypes: input.event_types,
    channels: input.channels,
    filter: input.filter,
    description: input.description,
    metadata: input.metadata,
    ...(await headerColumns(vault, id, input.headers)),
    auth: await authColumn(vault, id, input.auth),
    body: orDefault(input.body, "envelope"),
    template: input.template,
    signatureForms: input.signature_forms,
    timeoutMs: orDefault(input.timeout_ms, defaultLimits.timeout_ms),
    maxConcurrency: orDefault(input.max_concurrency, defaultLimits.max_concurrency),
    ratePerSecond: orDefault(input.rate_per_second, defaultLimits.rate_per_second),
    rateBurst: input.rate_burst,
    retry: input.retry,
    ...breakerColumns(input.breaker),
  };
}

/** Headers are stored sealed; those that are stored plain end with the change. */
async function headerColumns(vault: Vault, id: string, headers: DestinationInput["headers"]) {
  if (headers === undefined) return {};
  const isEmpty = headers === null || Object.keys(headers).length === 0;
  return { headers: null, sealedHeaders: isEmpty ? null : await sealedHeaders(vault, id, headers) };
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

function orDefault<T>(value: T | null | undefined, fallback: T): T | undefined {
  return value === null ? fallback : value;
}
