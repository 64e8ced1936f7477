/**
 * Destinations as they are stored: their table, and the meaning of its columns for the delivery path. Settings are
 * plain columns that an operator may edit: a value out of its range counts as its default, so that it stops no
 * delivery.
 */
import { type InferSelectModel, sql } from "drizzle-orm";
import { index, integer, real, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { BodyForm } from "../core/content.ts";
import type { PreviousSecret } from "../core/credentials.ts";
import type { EventFilter } from "../core/event-filter.ts";
import type { Pause } from "../core/gate-state.ts";
import {
  type Breaker,
  breakerShape,
  burstOf,
  defaultBreaker,
  defaultLimits,
  type GateSettings,
  gateSettingsFrom,
  type Limits,
  limitShape,
} from "../core/limits.ts";
import { type DeadEnd, ORDERING_PATH, type Ordering, type OrderRule, orderings } from "../core/order.ts";
import type { PauseReason } from "../core/reasons.ts";
import { type RetryPolicy, type RetrySpec, resolveRetry, retryShape } from "../core/retry/policy.ts";
import { type NumberShape, readAs } from "../core/shape.ts";
import type { SignatureForm } from "../core/signature-forms.ts";
import { jsonText } from "./columns.ts";

/** An endpoint URL with its limits. Limits are plain columns, so that an operator can change them by hand. */
export const destinations = sqliteTable(
  "destinations",
  {
    id: text().primaryKey(),
    tenant: text().notNull(),
    /** Where deliveries go: an https URL, or the target of another kind as `kind:…` (delivery/kinds). */
    url: text().notNull(),
    /** Exact names and `prefix.*`; null takes every type. */
    eventTypes: jsonText<readonly string[] | null>(null)("event_types"),
    description: text(),
    metadata: jsonText<Readonly<Record<string, string>> | null>(null)(),
    /** As the version before 0.3 has stored them, or an operator by hand: they count instead of the sealed ones. */
    headers: jsonText<Readonly<Record<string, string>> | null>(null)(),
    /** By name, each value sealed with the master key. Edited into what is no JSON, it must not read as none. */
    sealedHeaders: jsonText<Readonly<Record<string, string>> | null>({ "": "" })("sealed_headers"),
    /** How requests authenticate, its secret sealed. Edited into what is no JSON, it must not read as nothing. */
    auth: jsonText<Readonly<Record<string, unknown>> | null>({})(),
    /** The form in which it gets events. */
    body: text().$type<BodyForm>().notNull().default("envelope"),
    /** The message format of operational events for a service for people or on-call; null: as `body` says. */
    template: text(),
    /** Events with channels go to it only if they have one of these; null: regardless of their channels. */
    channels: jsonText<readonly string[] | null>(null)(),
    /** A filter on the events' `data`; null takes all. */
    filter: jsonText<EventFilter | null>(null)(),
    /** Sealed with the master key, like the previous ones, which sign beside it until they expire. */
    secret: text().notNull(),
    /** 1, and one more with each rotation: a request to rotate names the version that it replaces. */
    secretVersion: integer("secret_version").notNull().default(1),
    /** The newest first. */
    previousSecrets: jsonText<readonly PreviousSecret[]>([])("previous_secrets"),
    /** How attempts are signed; null: Standard Webhooks. */
    signatureForms: jsonText<readonly SignatureForm[] | null>(null)("signature_forms"),
    status: text().$type<"active" | "paused">().notNull().default("active"),
    statusReason: text("status_reason").$type<PauseReason>(),
    statusChangedAt: integer("status_changed_at"),
    maxConcurrency: integer("max_concurrency").notNull().default(10),
    ratePerSecond: real("rate_per_second").notNull().default(100),
    /** Null: derived from the rate. */
    rateBurst: integer("rate_burst"),
    timeoutMs: integer("timeout_ms").notNull().default(15_000),
    retry: jsonText<RetrySpec | null>(null)(),
    breakerFailureRatio: real("breaker_failure_ratio").notNull().default(0.5),
    breakerMinAttempts: integer("breaker_min_attempts").notNull().default(5),
    breakerWindowS: integer("breaker_window_s").notNull().default(60),
    breakerCooldownS: integer("breaker_cooldown_s").notNull().default(30),
    breakerMaxCooldownS: integer("breaker_max_cooldown_s").notNull().default(45),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    /** Set on tombstones of deleted destinations, which stay so that planned deliveries end as cancelled. */
    deletedAt: integer("deleted_at"),
    /** The token for calls of the target, sealed; null if it needs none. */
    targetToken: text("target_token"),
    /** The channel that notifies its tenant, and of which trouble (features/notices); null: none. */
    noticeChannel: jsonText<Readonly<Record<string, unknown>> | null>(null)("notice_channel"),
    /** The URL or address of the notice channel, sealed. */
    noticeTarget: text("notice_target"),
    /** The caller's name for it, unique in its tenant: see http/svix/endpoints.ts. */
    uid: text(),
    /** Shares a receiver's capacity with the others of that name; `host`: with those of the same host; null: with none. */
    group: text("group_name"),
    /** Which of its deliveries are made one after the other; null: none are. */
    ordering: text().$type<Ordering>(),
    /** Where in an event its key is; null: its `ordering_key`. */
    orderingPath: text("ordering_path"),
    /** What happens when the head of a line ends as dead; null: the next one continues. */
    onDead: text("on_dead").$type<DeadEnd>(),
    /** The current version of its transformation (core/transform); null: it never had one. Edited into what is no JSON, it must not read as none. */
    transform: jsonText<Readonly<Record<string, unknown>> | null>({})(),
    /** Its pins to versions of event types (core/event-versions.ts); null: none. */
    eventVersions: jsonText<readonly unknown[] | null>(["unreadable"])("event_versions"),
    /**
     * The last result of the conformance suite (core/certification.ts), as JSON that no delivery reads; null: the suite
     * was not run on this target.
     */
    certification: text(),
    /** When it ends, epoch ms: from then on it gets nothing, whether or not its row is still there. Null: it has no end. */
    expiresAt: integer("expires_at"),
    /**
     * The owner of its MCP Events subscription: an API key, a visit of the portal, or `admin`; null: it is not a
     * subscription.
     */
    subscriber: text(),
    /** The cursor that deliveries of a subscription have. Events behind it have been delivered or given up. */
    eventCursor: text("event_cursor"),
  },
  (t) => [
    // In order of id, so that a page reads only what it shows. The second one has deleted destinations too.
    index("destinations_by_tenant").on(t.tenant, t.id).where(sql`deleted_at IS NULL`),
    index("destinations_by_tenant_with_deleted").on(t.tenant, t.id),
    index("destinations_deleted").on(t.deletedAt).where(sql`deleted_at IS NOT NULL`),
    index("destinations_by_group").on(t.group).where(sql`group_name IS NOT NULL AND deleted_at IS NULL`),
    index("destinations_expiring").on(t.expiresAt).where(sql`expires_at IS NOT NULL AND deleted_at IS NULL`),
    index("destinations_by_subscriber")
      .on(t.subscriber)
      .where(sql`subscriber IS NOT NULL AND deleted_at IS NULL`),
    uniqueIndex("destinations_by_uid").on(t.tenant, t.uid).where(sql`uid IS NOT NULL AND deleted_at IS NULL`),
  ],
);

export type Destination = InferSelectModel<typeof destinations>;

const headerMap = { kind: "record", of: { kind: "text" } } as const;

/**
 * A destination's custom headers as they are stored, each value sealed unless `isPlain`. Breakwater's writes seal them
 * and clear the plain column: so a value there is newer, from a version before 0.3 or an operator. Other forms in the
 * plain column are ignored.
 */
export function storedHeaders({
  headers,
  sealedHeaders,
}: Pick<Destination, "headers" | "sealedHeaders">): Readonly<{
  values: Readonly<Record<string, string>>;
  isPlain: boolean;
}> {
  const plain = readAs(headerMap, headers);
  if (plain) return { values: plain, isPlain: true };
  const values = sealedHeaders === null ? {} : (readAs(headerMap, sealedHeaders) ?? UNREADABLE);
  return { values, isPlain: false };
}

/** No key opens this value: a destination whose headers cannot be read is not sent to without them. */
const UNREADABLE = { "": "" };

export function gateSettingsOf(row: Destination): GateSettings {
  return gateSettingsFrom(limitsOf(row), breakerOf(row), statusOf(row) === "paused");
}

/** Whether nothing is sent to it any more: it is deleted, or has expired. */
export function isDestinationOver(
  { deletedAt, expiresAt }: Pick<Destination, "deletedAt" | "expiresAt">,
  now: number,
): boolean {
  return deletedAt !== null || (expiresAt !== null && expiresAt <= now);
}

/** Whether it is an MCP Events subscription. */
export function isSubscription({ subscriber }: Pick<Destination, "subscriber">): boolean {
  return typeof subscriber === "string";
}

/** The status in effect: anything but `paused` counts as active. */
export function statusOf({ status }: Pick<Destination, "status">): "active" | "paused" {
  return status === "paused" ? "paused" : "active";
}

export function pauseOf(
  row: Pick<Destination, "status" | "statusReason" | "statusChangedAt" | "updatedAt">,
): Pause | undefined {
  if (statusOf(row) !== "paused") return undefined;
  return { at: row.statusChangedAt ?? row.updatedAt, reason: row.statusReason ?? "manual" };
}

/** The limits in effect, as the API writes them. */
export function limitsOf(row: Destination): Limits {
  const { rate_burst: _, ...defaults } = defaultLimits;
  const limits = usable(limitShape.fields, defaults, {
    timeout_ms: row.timeoutMs,
    max_concurrency: row.maxConcurrency,
    rate_per_second: row.ratePerSecond,
  });
  return { ...limits, rate_burst: ownBurstOf(row) ?? burstOf(limits.rate_per_second) };
}

/** The burst that has been set; null when it follows from the rate. */
export function ownBurstOf(row: Pick<Destination, "rateBurst">): number | null {
  return readAs(limitShape.fields.rate_burst, row.rateBurst) ?? null;
}

type BreakerColumn = `breaker${"FailureRatio" | "MinAttempts" | "WindowS" | "CooldownS" | "MaxCooldownS"}`;

/** The settings of the circuit breaker in effect of a destination or a group, as the API writes them. */
export function breakerOf(row: Readonly<Partial<Record<BreakerColumn, number | null>>>): Breaker {
  return usable(breakerShape.fields, defaultBreaker, {
    failure_ratio: row.breakerFailureRatio,
    min_attempts: row.breakerMinAttempts,
    window_s: row.breakerWindowS,
    cooldown_s: row.breakerCooldownS,
    max_cooldown_s: row.breakerMaxCooldownS,
  });
}

/** How it orders its deliveries; undefined: it does not. */
export function orderRuleOf(
  row: Pick<Destination, "ordering" | "orderingPath" | "onDead" | "retry">,
): OrderRule | undefined {
  const by = orderings.find((one) => one === row.ordering);
  if (by === undefined) return undefined;
  const path = row.orderingPath !== null && ORDERING_PATH.test(row.orderingPath) ? row.orderingPath : null;
  const { expireUnattemptedAfterMs: expireAfterMs } = retryPolicyOf(row);
  return { by, path, holds: row.onDead === "hold", expireAfterMs };
}

const resolved = new WeakMap<object, RetryPolicy>();

/** The destination's retry policy, resolved once for each loaded row; the default when the stored one is invalid. */
export function retryPolicyOf(row: Pick<Destination, "retry">): RetryPolicy {
  const known = resolved.get(row);
  if (known) return known;
  const policy = resolveRetry(readAs(retryShape, row.retry));
  resolved.set(row, policy);
  return policy;
}

/** The values, with the default for each that is out of its range. */
export function usable<T extends Readonly<Record<string, number>>>(
  shapes: Readonly<Record<keyof T, NumberShape>>,
  defaults: T,
  values: Readonly<Record<keyof T, number | null | undefined>>,
): T {
  const pairs = Object.keys(defaults).map((name) => [
    name,
    readAs(shapes[name as keyof T], values[name]) ?? defaults[name],
  ]);
  return Object.fromEntries(pairs) as T;
}

/** The destinations of a JSON list of ids in `?1`, in its order, to be put behind FROM. */
export const LISTED_DESTINATIONS = "json_each(?1) j CROSS JOIN destinations d ON d.id = j.value";
