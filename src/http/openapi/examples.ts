/**
 * The examples of the document. They belong together: one invoice is paid at one tenant, its event is posted, and a
 * delivery of it is retried. A schema without an example here gets one from the examples of its fields, or else from
 * their types. A test checks every example against its schema.
 */
import { defaultBreaker } from "../../core/limits.ts";
import { deliveryId, eventId } from "../../ids.ts";

const TIME = "2026-11-21T09:00:00.000Z";
const EVENT = eventId(4711);
const DESTINATION = "dst_3k9w5n2c8h6p0d4z7x1b";
const DELIVERY = deliveryId(4711, DESTINATION);
const REPLAY = "rpl_6t1v3w5y8m2x0f7q9a4r";
const ERASURE = "era_2x0f7q9a4r6t1v3w5y8m";

/** An id of each kind, by the name of its resource in paths. */
export const exampleIds: Readonly<Record<string, string>> = {
  events: EVENT,
  deliveries: DELIVERY,
  destinations: DESTINATION,
  keys: "key_8m2x0f7q9a4r6t1v3w5y",
  replays: REPLAY,
  erasures: ERASURE,
  attempts: "2026-11-21T09:00:01.164Z",
};

const invoice = { invoice: "inv_42", amount: 1999, currency: "EUR" };
const newEvent = { type: "invoice.paid", data: invoice, tenant: "acme" };
const queued = { id: DELIVERY, destination_id: DESTINATION, state: "queued" };

const consumer = {
  name: "billing",
  lag: { events: 12, is_more: false, seconds: 40 },
  pages: 1,
  returned: 0,
  fetched_at: TIME,
  committed_at: TIME,
};

const polled = {
  id: EVENT,
  type: "invoice.paid",
  attempt: 1,
  headers: {
    "content-type": "application/json",
    "webhook-attempt": "1",
    "webhook-id": EVENT,
    "webhook-timestamp": "1795251600",
    "webhook-signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  },
  body: JSON.stringify({ type: "invoice.paid", timestamp: TIME, data: invoice }),
};

const delivery = {
  id: DELIVERY,
  event_id: EVENT,
  destination_id: DESTINATION,
  state: "retrying",
  reason: "http_503",
  attempts: 1,
  next_attempt_at: "2026-11-21T09:00:24.310Z",
  give_up_at: "2026-11-24T11:00:01.164Z",
  last_status: 503,
  log: [{ at: "2026-11-21T09:00:01.164Z", status: 503, latency_ms: 212, response: "back in a minute" }],
};

const attempt = {
  delivery_id: DELIVERY,
  at: "2026-11-21T09:00:01.164Z",
  status: 503,
  latency_ms: 212,
  archive: "kept",
  request: {
    url: "https://example.com/webhooks",
    headers: { "content-type": "application/json", "webhook-id": EVENT, "webhook-signature": "v1,***" },
    encoding: "utf-8",
    body: '{"type":"invoice.paid","timestamp":"2026-11-21T09:00:01.012Z","data":{"invoice":"inv_42"}}',
  },
  response: {
    headers: { "content-type": "text/html" },
    encoding: "utf-8",
    body: "<h1>Back in a minute</h1>",
    is_whole: true,
  },
};

const requeued = {
  id: DELIVERY,
  event_id: EVENT,
  destination_id: DESTINATION,
  state: "waiting",
  reason: "retried",
  attempts: 0,
  give_up_at: "2026-11-24T12:00:00.000Z",
  last_status: 204,
  log: [{ at: "2026-11-21T09:00:01.164Z", status: 204, latency_ms: 212 }],
};

const settings = {
  url: "https://example.com/webhooks",
  event_types: ["invoice.*"],
  description: "Bookkeeping",
  metadata: { owner: "team-billing" },
  max_concurrency: 4,
  rate_per_second: 20,
  retry: { preset: "breakwater", max_attempts: 12 },
};

const destination = {
  id: DESTINATION,
  tenant: "acme",
  kind: "https",
  uid: null,
  status: "active",
  status_reason: null,
  channels: null,
  headers: {},
  auth: null,
  secret_version: 1,
  previous_secrets: [],
  signature_forms: null,
  ...settings,
  timeout_ms: 15_000,
  rate_burst: 20,
  ordering: "key",
  ordering_path: "data.invoice",
  on_dead: "skip",
  breaker: { failure_ratio: 0.5, min_attempts: 5, window_s: 60, cooldown_s: 30, max_cooldown_s: 45 },
};

const replay = {
  id: REPLAY,
  tenant: "acme",
  destination_id: DESTINATION,
  include: "dead",
  event_types: ["invoice.*"],
  tag: null,
  since: "2026-11-20T09:00:00.000Z",
  until: "2026-11-20T10:00:00.000Z",
  rate_per_minute: 100,
  state: "running",
  reason: null,
  total: 1200,
  requeued: 300,
  delivered: 288,
  failed: 0,
  current_rate_per_minute: 124.5,
  ended_at: null,
};

const health = {
  destination_id: DESTINATION,
  status: "active",
  status_reason: null,
  circuit: "open",
  circuit_until: "2026-11-21T09:00:30.000Z",
  trips: 1,
  held_until: null,
  concurrency_window: 1,
  in_flight: 0,
  max_concurrency: 4,
  rate_per_second: 20,
  rate_tokens: 200,
  latency_ms: 212,
  refusal: { reason: "circuit_open", until: "2026-11-21T09:00:30.000Z" },
  waiting: { circuit_open: 38 },
  last_15_minutes: { first_attempts: 90, retries: 12, failures: 14, retry_ratio: 0.13, storm: false },
  transitions: [{ at: "2026-11-21T09:00:00.000Z", kind: "circuit_opened" }],
};

const rates = {
  attempts: 102,
  first_attempts: 90,
  delivered: 88,
  dead: 0,
  retry_rate: 0.1333,
  dead_letter_rate: 0,
  second_attempt_success_rate: 0.8333,
  mean_attempts_to_success: 1.1136,
  non_2xx_rate: 0.1373,
  timeout_rate: 0,
  storm_ratio: 0.1333,
  latency_ms: { p50: 120, p95: 480 },
  queue_delay_ms: { p50: 610, p95: 1400 },
  waiting: 38,
  retrying: 2,
  dead_letters: 0,
};

const listedEvent = {
  id: EVENT,
  tenant: "acme",
  type: "invoice.paid",
  timestamp: "2026-11-21T09:00:00.512Z",
};

const stats = {
  window: "1h",
  ...rates,
  retrying_for_a_day: 0,
  deduplicated: 3,
  keyed_requests: 480,
  results: { "2xx": 88, "5xx": 14 },
  attempt_distribution: { "1": 90, "2": 12 },
  series: [
    { at: "2026-11-21T08:59:00.000Z", attempts: 102, retries: 12, failures: 14, delivered: 88, dead: 0 },
  ],
  destinations: [{ destination_id: DESTINATION, ...rates, circuit: "open", storm: false }],
  coverage: { total: 1, queried: 1, sampled: null, unreachable: 0 },
};

const group = {
  name: "host:hooks.example.com",
  max_concurrency: 20,
  rate_per_second: 45,
  rate_burst: 5,
  breaker: defaultBreaker,
  created_at: "2026-11-21T08:00:00Z",
  updated_at: "2026-11-21T08:00:00Z",
};

const eventVersion = {
  schema: {
    type: "object",
    required: ["invoice", "total"],
    properties: {
      invoice: { type: "string" },
      total: { type: "object", required: ["amount"], properties: { amount: { type: "integer" } } },
    },
  },
  example: { invoice: invoice.invoice, total: { amount: invoice.amount } },
  conversion: '{"invoice": "{{ data.invoice }}", "amount": "{{ data.total.amount }}"}',
};

const eventType = {
  description: "An invoice has been paid in full.",
  schema: {
    type: "object",
    required: ["invoice", "amount"],
    properties: {
      invoice: { type: "string", pattern: "^inv_[0-9a-z]+$" },
      amount: { type: "integer", minimum: 0 },
      currency: { enum: ["EUR", "USD"] },
    },
  },
  example: invoice,
  validate: true,
};

/** Examples by schema name. A required field that is left out here gets an example from its own schema. */
export const schemaExamples: Readonly<Record<string, Record<string, unknown>>> = {
  NewEvent: newEvent,
  NewEvents: { events: [newEvent] },
  AcceptedEvent: { id: EVENT, deliveries: [queued] },
  Event: {
    id: EVENT,
    tenant: "acme",
    type: "invoice.paid",
    timestamp: "2026-11-21T09:00:00.512Z",
    data: invoice,
    deliveries: [delivery],
  },
  ListedEvent: listedEvent,
  BlockedKey: {
    delivery_id: DELIVERY,
    event_id: EVENT,
    state: "retrying",
    reason: "http_503",
    held: false,
    behind: 12,
  },
  SearchResult: {
    kind: "event",
    id: EVENT,
    matched: "content",
    tenant: "acme",
    event: listedEvent,
    excerpt: '{"invoice":"inv_42","amount":1999,"currency":"EUR"}',
  },
  PolledEvent: polled,
  PollPage: { data: [polled], iterator: "billing.1", done: true },
  PollConsumer: consumer,
  PollConsumers: { data: [consumer] },
  PollCommit: { consumer: "billing", iterator: "billing.0" },
  PollSeek: { consumer: "billing", since: "2026-11-21T09:00:00.000Z" },
  NewApiKey: { name: "checkout service", scopes: ["events:write"], tenant: "acme" },
  GroupLimits: { max_concurrency: 20, rate_per_second: 45, rate_burst: 5 },
  Group: group,
  GroupWithState: {
    ...group,
    state: {
      circuit: "closed",
      circuit_until: null,
      held_until: null,
      window: 20,
      in_flight: 6,
      waiting: 0,
      tenants: 4,
    },
  },
  NewEventType: eventType,
  EventType: { name: "invoice.paid", ...eventType, archived: false, version: 1, retention_days: null },
  NewEventVersion: eventVersion,
  EventVersionDraft: { schema: eventVersion.schema, conversion: eventVersion.conversion },
  EventVersionChange: { conversion: eventVersion.conversion },
  EventVersion: { version: 2, ...eventVersion, published_at: TIME, deprecated_at: null, sunset_at: null },
  EventVersions: {
    data: [{ version: 2, ...eventVersion, published_at: TIME, deprecated_at: null, sunset_at: null }],
  },
  VersionEndpoint: { destination_id: DESTINATION, tenant: "acme", version: 1 },
  EventVersionCheck: {
    looked_back_to: null,
    skipped: 0,
    tenants: [
      { tenant: "acme", events: 50, refused: 2, failed: 0, unfit: 0, faults: ["data#/invoice is missing"] },
    ],
  },
  Delivery: delivery,
  Attempt: attempt,
  WaitingFilter: { since: "2026-11-21T08:00:00Z", until: "2026-11-21T09:00:00Z", event_types: ["invoice.*"] },
  CancelledDeliveries: { cancelled: 1200, in_flight: 2, next_cursor: null },
  DeliveryIds: { delivery_ids: [DELIVERY] },
  DeliveryRepair: { action: "retry", tenant: "acme", destination_id: DESTINATION, state: "dead" },
  RepairedDeliveries: {
    repaired: 98,
    skipped: [{ why: "The event's content has been erased: there is nothing to send", count: 2 }],
    next_cursor: null,
  },
  DeliveryRetries: { data: [{ id: DELIVERY, delivery: requeued }] },
  NewDestination: { tenant: "acme", ...settings },
  DestinationChange: {
    max_concurrency: 2,
    description: null,
    retry: { schedule: [5, 60, 600, 3600] },
    signature_forms: [
      { form: "standard" },
      {
        form: "template",
        content: "{timestamp}.{body}",
        signature_header: "X-Acme-Signature",
        prefix: "t={timestamp},sig=",
      },
    ],
  },
  SecretRotation: { overlap_s: 3600 },
  Destination: destination,
  DestinationHealth: health,
  DestinationTest: {
    status: 204,
    latency_ms: 118,
    sent: {
      url: "https://example.com/webhooks",
      headers: {
        "webhook-attempt": "1",
        "webhook-id": "test_8m2x0f7q9a4r6",
        "webhook-timestamp": "1795251600",
        "webhook-signature": "v1,…",
      },
      body: '{"type":"breakwater.test","timestamp":"2026-11-21T09:00:00.000Z","data":{}}',
    },
  },
  Certification: {
    certified: false,
    at: TIME,
    checks: [
      { check: "valid", result: "passed", id: "test_8m2x0f7q9a4r6", status: 204, took_ms: 41 },
      {
        check: "old_timestamp",
        result: "failed",
        fault: "accepted",
        id: "test_6t1v3w5y8m2x0",
        status: 204,
        took_ms: 38,
        reason: "It was accepted with 204; expected 400 or 401.",
        fix: "Refuse a timestamp that differs from your clock by more than five minutes with 401.",
      },
    ],
  },
  DestinationDraft: {
    event_types: ["invoice.*"],
    filter: { amount: { gte: 1000 }, or: [{ currency: "EUR" }, { invoice: { prefix: "inv_" } }] },
  },
  TransformDraft: { template: { body: '{"text":"{{ type }}"}' } },
  TransformPreview: {
    events: [
      {
        event_id: EVENT,
        type: "invoice.paid",
        result: "sent",
        fault: null,
        before: {
          method: "POST",
          url: "https://example.com/webhooks",
          content_type: "application/json",
          headers: {},
          body: `{"type":"invoice.paid","timestamp":"${TIME}","data":{"invoice":"inv_42"}}`,
        },
        after: {
          method: "POST",
          url: "https://example.com/webhooks",
          content_type: "application/json",
          headers: {},
          body: '{"text":"invoice.paid"}',
        },
        changed: ["body"],
      },
    ],
  },
  TransformVersions: {
    data: [
      {
        version: 1,
        created_at: TIME,
        author: { kind: "api_key", key: "key_8m2x0f7q9a4r6t1v3w5y", session: null, person: null },
        template: { body: '{"text":"{{ type }}"}' },
        code: null,
      },
    ],
  },
  TransformRestoration: { version: 1 },
  DestinationPreview: {
    events: [
      {
        event_id: EVENT,
        type: "invoice.paid",
        timestamp: "2026-11-21T09:00:00.512Z",
        taken: true,
        reason: null,
        delivery_id: DELIVERY,
      },
    ],
    taken: 1,
    not_taken: 0,
  },
  NewReplay: {
    destination_id: DESTINATION,
    since: replay.since,
    until: replay.until,
    event_types: ["invoice.*"],
  },
  NewReplays: { destination_ids: [DESTINATION], since: replay.since, until: replay.until },
  StartedReplays: {
    data: [{ destination_id: DESTINATION, replay: { ...replay, created_at: TIME, updated_at: TIME } }],
  },
  Replay: replay,
  AuditEntry: {
    id: "aud_1bm8hcd2k00",
    at: "2026-11-21T09:00:00.000Z",
    tenant: "acme",
    actor: { kind: "api_key", key: "key_8m2x0f7q9a4r6t1v3w5y", session: null, person: null },
    action: "destination.changed",
    subject: DESTINATION,
    changes: { max_concurrency: { from: 10, to: 50 } },
  },
  TenantConfig: {
    version: 1,
    tenant: "acme",
    settings: { retention_days: 7 },
    destinations: [
      {
        id: DESTINATION,
        url: "https://example.com/webhooks",
        event_types: ["invoice.*"],
        max_concurrency: 20,
        omitted: ["secret"],
      },
    ],
  },
  TenantImport: {
    created: [{ id: DESTINATION, secret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", omitted: [] }],
    changed: [],
    unchanged: [],
    dry_run: false,
  },
  TenantChange: { contact_email: "ops@acme.example", retention_days: 7 },
  Tenant: {
    tenant: "acme",
    contact_email: "ops@acme.example",
    retention_days: 7,
    payload_free: false,
    functions: true,
    portal: { max_endpoints: 10, max_concurrency: 20, rate_per_second: 50 },
    branding: { name: "Acme", accent: "#0b6a72" },
    updated_at: "2026-11-21T09:00:00.000Z",
  },
  NewErasure: { tenant: "acme", event_id: EVENT },
  Erasure: {
    id: ERASURE,
    tenant: "acme",
    event_id: EVENT,
    since: null,
    until: null,
    everything: false,
    state: "completed",
    events: 1,
    deliveries: 2,
    cancelled: 1,
    unreadable_bundles: [],
    ended_at: "2026-11-21T09:17:00.000Z",
  },
  PortalLink: {
    url: "https://breakwater.example.workers.dev/portal/enter?token=…",
    tenant: "acme",
    read_only: false,
  },
  NewPortalLink: {
    tenant: "acme",
    expires_in_s: 3600,
    access: { may_rotate: false, max_endpoints: 5 },
    language: "en",
    return_url: "https://app.example.com/settings/webhooks",
  },
  TenantPortal: { max_endpoints: 10, max_concurrency: 20, rate_per_second: 50 },
  PortalBranding: { name: "Acme", accent: "#0b6a72" },
  Stats: stats,
  MasterKeyRotation: { rotated: 100, unreadable: [], next_cursor: "ImRzdF8za3c5Ig" },
};

/** As much of JSON Schema 2020-12 as the document uses. */
export type SchemaObject = Readonly<{
  $ref?: string;
  type?: string | readonly string[];
  format?: string;
  pattern?: string;
  description?: string;
  enum?: readonly unknown[];
  const?: unknown;
  default?: unknown;
  example?: unknown;
  properties?: Readonly<Record<string, SchemaObject>>;
  required?: readonly string[];
  additionalProperties?: boolean | SchemaObject;
  items?: SchemaObject;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  anyOf?: readonly SchemaObject[];
  oneOf?: readonly SchemaObject[];
  allOf?: readonly SchemaObject[];
}>;

export type Schemas = Readonly<Record<string, SchemaObject>>;

/** The schema that this one refers to; itself where it is no reference. */
export function resolved(schema: SchemaObject, schemas: Schemas): SchemaObject {
  const name = schemaNameOf(schema);
  const target = name === undefined ? undefined : schemas[name];
  return target === undefined ? schema : resolved(target, schemas);
}

/** The name of the schema that this one refers to. */
export function schemaNameOf({ $ref }: SchemaObject): string | undefined {
  return $ref?.split("/").at(-1);
}

/** An example of a schema: its required fields, and those that have an example of their own. */
export function exampleOf(given: SchemaObject, schemas: Schemas): unknown {
  const schema = resolved(given, schemas);
  const fields = schemaExamples[schemaNameOf(given) ?? ""];
  if (fields !== undefined) return exampleObject(schema, schemas, fields);
  const value = schema.example ?? schema.default ?? schema.const ?? schema.enum?.[0];
  if (value !== undefined) return value;
  const [choice] = schema.anyOf ?? schema.oneOf ?? [];
  if (choice) return exampleOf(choice, schemas);
  if (schema.allOf) {
    return Object.assign({}, ...schema.allOf.map((part) => exampleOf(part, schemas)));
  }
  switch (schemaTypeOf(schema)) {
    case "object":
      return exampleObject(schema, schemas, undefined);
    case "array":
      return schema.items ? [exampleOf(schema.items, schemas)] : [];
    case "string":
      return schema.format === "date-time" ? TIME : "text";
    case "integer":
    case "number":
      return schema.minimum ?? 1;
    case "boolean":
      return true;
    default:
      return null;
  }
}

/** The given fields and what is required besides; without given fields also what has an example of its own. */
function exampleObject(schema: SchemaObject, schemas: Schemas, given: Record<string, unknown> | undefined) {
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties ?? {}).filter(
    ([name, field]) => required.has(name) || (given ? name in given : hasExample(field, schemas)),
  );
  return Object.fromEntries(
    fields.map(([name, field]) => [name, given && name in given ? given[name] : exampleOf(field, schemas)]),
  );
}

function hasExample(field: SchemaObject, schemas: Schemas): boolean {
  const schema = resolved(field, schemas);
  return schema.example !== undefined || (schema.items !== undefined && hasExample(schema.items, schemas));
}

/** The type of a schema without `null`; `object` where only its properties show it. */
function schemaTypeOf({ type, properties }: SchemaObject): string | undefined {
  const name = typeof type === "string" ? type : type?.find((one) => one !== "null");
  return name ?? (properties === undefined ? undefined : "object");
}
