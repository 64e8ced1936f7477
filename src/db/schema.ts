/**
 * The tables, as design: D1 remembers, and every written row is paid for.
 *
 * What goes right, or merely waits, costs two written rows for a whole bundle and destination: the bundle and the
 * pack. So bodies live in a rowid table (compact, ids in order, one row a write), packs and deliveries in `WITHOUT
 * ROWID` tables keyed by destination (its message log for free, one row a write), and every index is partial and is
 * touched only by what waits or goes wrong.
 *
 * Drizzle cannot say `WITHOUT ROWID`: it is added to the generated migration by hand, and a test holds
 * this file and the migrations together. Columns named `…_at` are epoch milliseconds.
 */
import { sql } from "drizzle-orm";
import {
  blob,
  index,
  integer,
  primaryKey,
  real,
  sqliteTable,
  text,
  uniqueIndex,
} from "drizzle-orm/sqlite-core";
import type { Plan, StoredHeader } from "../core/bundle.ts";
import type { PreviousSecret } from "../core/credentials.ts";
import type { PauseReason } from "../core/reasons.ts";
import type { RetrySpec } from "../core/retry/policy.ts";
import type { EventFilter } from "../core/routing.ts";
import { jsonText } from "./columns.ts";

/** Where a delivery with a row stands; one without a row is `queued`: the event's plan is its promise. */
export type StoredState = "waiting" | "retrying" | "delivered" | "dead" | "cancelled";

/** One HTTP exchange, as the delivery remembers it. */
export type AttemptEntry = Readonly<{
  at: number;
  latencyMs: number;
  status?: number;
  error?: string;
  note?: string;
  excerpt?: string;
  /** The message that brings the retry, if the delivery has got one of its own: see DeliveryMessage. */
  owner?: string;
}>;

/**
 * What was posted: the events that were committed together, of one tenant or of many (core/bundle.ts). `id` is given
 * in order, from the database's first number on (core/placement.ts), so that the sweep's watermark is exact. It is
 * never reused, because the newest row is never removed.
 */
export const bundles = sqliteTable(
  "bundles",
  {
    id: integer().primaryKey(),
    /** By which a repeated commit is known: a JSON array, of each event's token or of one for all of them. */
    tokens: text().notNull(),
    acceptedAt: integer("accepted_at").notNull(),
    /** Not to be delivered before this; null: at once. */
    deliverAt: integer("deliver_at"),
    /** Events in it, and deliveries planned for them together. */
    count: integer().notNull(),
    planned: integer().notNull(),
    /** The destinations chosen at acceptance, each with the indexes of the events that it gets, as runs. */
    plan: jsonText<Plan>({})().notNull(),
    /** What each event is: its tenant, its type, the bytes of its body. */
    header: jsonText<StoredHeader>({
      version: 1,
      encoding: "plain",
      tenants: [],
      types: [],
      events: [],
    })().notNull(),
    /** The exact bytes that every attempt sends, joined and compressed. Last, so that reading the rest does not read it. */
    body: blob().notNull(),
  },
  (t) => [index("bundles_scheduled").on(t.deliverAt).where(sql`deliver_at IS NOT NULL`)],
);

/** Raised by triggers with every change of a tenant's destinations that routing can see; by hand counts too. */
export const tenants = sqliteTable("tenants", {
  id: text().primaryKey(),
  revision: integer().notNull(),
});

/** Senders' names for their requests, so that sending one again does nothing twice. Kept as long as its events. */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    tenant: text().notNull(),
    key: text().notNull(),
    /** Digest of what was posted under the key, so that the key with other content is told apart. */
    fingerprint: text().notNull(),
    /** The bundles that its events are in, and for each event in the order posted which of them and the index there. */
    bundles: jsonText<readonly number[]>([])().notNull(),
    places: jsonText<readonly (readonly [number, number])[]>([])().notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.tenant, t.key] })],
);

/** One event for one destination, once more is to be said of it than a bit of its pack could. */
export const deliveries = sqliteTable(
  "deliveries",
  {
    destinationId: text("destination_id").notNull(),
    eventId: integer("event_id").notNull(),
    state: text().$type<StoredState>().notNull(),
    reason: text(),
    /** HTTP exchanges made since it was accepted, or made to wait again after its end; nothing else. */
    attempts: integer().notNull().default(0),
    nextAttemptAt: integer("next_attempt_at"),
    /** Which life this is: 0 since acceptance, one more each time that it begins again after an end. */
    life: integer().notNull().default(0),
    /** Of this life; null while there has been none. */
    firstAttemptAt: integer("first_attempt_at"),
    /** The age limit that counts at the moment: that of the unattempted, or of those that have been attempted. */
    giveUpAt: integer("give_up_at").notNull(),
    endedAt: integer("ended_at"),
    lastStatus: integer("last_status"),
    lastError: text("last_error"),
    /** The replay that made it wait again, whose progress its end counts for. */
    replay: text(),
    log: jsonText<readonly AttemptEntry[]>([])().notNull().default(sql`'[]'`),
  },
  (t) => [
    primaryKey({ columns: [t.destinationId, t.eventId] }),
    index("deliveries_retrying").on(t.nextAttemptAt).where(sql`state = 'retrying'`),
    // The attempts beside the key: a drain chooses by them, and reads nothing but the index.
    index("deliveries_waiting").on(t.destinationId, t.eventId, t.attempts).where(sql`state = 'waiting'`),
    index("deliveries_dead").on(t.destinationId, t.eventId).where(sql`state = 'dead'`),
  ],
);

export type DeliveryRow = typeof deliveries.$inferSelect;

/** A mask has two integers: of the events 0 to 49 of the bundle, and of those from 50 on. */
const half = (name: string) => integer(name).notNull().default(0);

/**
 * The deliveries of one bundle at one destination whose fate is plain, a bit for each: see db/packs.ts. Whatever
 * else becomes of one is told by its own row.
 */
export const packs = sqliteTable(
  "packs",
  {
    destinationId: text("destination_id").notNull(),
    bundleId: integer("bundle_id").notNull(),
    waiting0: half("waiting0"),
    waiting1: half("waiting1"),
    inFlight0: half("in_flight0"),
    inFlight1: half("in_flight1"),
    delivered0: half("delivered0"),
    delivered1: half("delivered1"),
    cancelled0: half("cancelled0"),
    cancelled1: half("cancelled1"),
    /** Why those that wait were turned away last, and until when. */
    reason: text(),
    nextAttemptAt: integer("next_attempt_at"),
    /** When the sweep takes up what is in flight; null while nothing is. */
    recoverAt: integer("recover_at"),
    /** The age limit of the unattempted; null while none has waited or been in flight. */
    giveUpAt: integer("give_up_at"),
    /** When the last of those that have ended did. */
    endedAt: integer("ended_at"),
    /** How and when each has ended: see core/pack.ts. */
    ends: text().notNull().default(""),
  },
  (t) => [
    primaryKey({ columns: [t.destinationId, t.bundleId] }),
    index("packs_waiting").on(t.destinationId, t.bundleId).where(sql`(waiting0 | waiting1) <> 0`),
    index("packs_in_flight").on(t.recoverAt).where(sql`recover_at IS NOT NULL`),
  ],
);

export type PackRow = typeof packs.$inferSelect;

/** A URL with its limits. Limits are plain columns, so that a person can change one by hand. */
export const destinations = sqliteTable(
  "destinations",
  {
    id: text().primaryKey(),
    tenant: text().notNull(),
    url: text().notNull(),
    /** Exact names and `prefix.*`; null takes every type. */
    eventTypes: jsonText<readonly string[] | null>(null)("event_types"),
    description: text(),
    metadata: jsonText<Readonly<Record<string, string>> | null>(null)(),
    headers: jsonText<Readonly<Record<string, string>> | null>(null)(),
    /** Which `data` it wants; null takes all. */
    filter: jsonText<EventFilter | null>(null)(),
    /** Sealed with the master key, as are those before it, each of which signs beside it until it expires. */
    secret: text().notNull(),
    /** How often the secret has been replaced, from 1: names the one that a rotation means to replace. */
    secretVersion: integer("secret_version").notNull().default(1),
    /** The newest first. */
    previousSecrets: jsonText<readonly PreviousSecret[]>([])("previous_secrets"),
    status: text().$type<"active" | "paused">().notNull().default("active"),
    statusReason: text("status_reason").$type<PauseReason>(),
    statusChangedAt: integer("status_changed_at"),
    maxConcurrency: integer("max_concurrency").notNull().default(10),
    ratePerSecond: real("rate_per_second").notNull().default(100),
    /** Null: what follows from the rate. */
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
    /** A deleted destination stays as a tombstone, so that what was planned for it ends as cancelled. */
    deletedAt: integer("deleted_at"),
  },
  (t) => [
    // In order of id, so that a page of a tenant's own costs what it shows. The second has the deleted ones too.
    index("destinations_by_tenant").on(t.tenant, t.id).where(sql`deleted_at IS NULL`),
    index("destinations_ever_of_tenant").on(t.tenant, t.id),
    index("destinations_deleted").on(t.deletedAt).where(sql`deleted_at IS NOT NULL`),
  ],
);

/**
 * Changes of a destination's status of which nobody has been told, as they were. A trigger of the migration writes
 * them, in the transaction that sets `status_changed_at` and changes `status`.
 */
export const statusChanges = sqliteTable(
  "status_changes",
  {
    changedAt: integer("changed_at").notNull(),
    destinationId: text("destination_id").notNull(),
    status: text().$type<"active" | "paused">().notNull(),
    reason: text(),
    tenant: text().notNull(),
    url: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.changedAt, t.destinationId, t.status] })],
);

/** What the sweep remembers of one of its parts. */
export type SweepPart = Readonly<{
  /** When it last got on, epoch ms: with all that there was to do, or with as much as it may do at once. */
  at: number;
  /** Whether it has left something for later. */
  behind: boolean;
  /** How often it has failed since it last got on. */
  failures: number;
  /** Where it goes on. */
  cursor: readonly (string | number)[];
}>;

/**
 * The sweep's memory, one row. The watermark is each database's own; everything else is in the first. `lease` names
 * the sweep that is at work until `leasedUntil`, and `page` the last of its pages that has begun.
 */
export const sweeps = sqliteTable("sweeps", {
  id: integer().primaryKey(),
  watermark: integer().notNull().default(0),
  /** When that part last got on that has been without progress for longest; 0 before the first sweep. */
  heartbeatAt: integer("heartbeat_at").notNull(),
  lease: text(),
  leasedUntil: integer("leased_until").notNull().default(0),
  page: integer().notNull().default(0),
  parts: jsonText<Readonly<Record<string, SweepPart>>>({})().notNull().default(sql`'{}'`),
});

/** Where a walk over the events has got to, for each walk that goes on from one sweep to the next. */
export const cursors = sqliteTable("cursors", {
  name: text().primaryKey(),
  /** The key of the last event that was looked at: its time, where the walk is in order of times, and its row. */
  at: integer().notNull(),
  eventId: integer("event_id").notNull(),
});

/** How often something happened that leaves no other trace. */
export const counts = sqliteTable("counts", {
  name: text().primaryKey(),
  count: integer().notNull(),
});

/** Who may call the API. The key itself is shown once and never stored: its digest is. */
export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text().primaryKey(),
    name: text(),
    /** The only tenant that it sees and touches; null: all of them. */
    tenant: text(),
    scopes: jsonText<readonly string[]>([])().notNull(),
    hash: text().notNull(),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at"),
    /** To the hour, so that a busy key does not write a row per request. */
    lastUsedAt: integer("last_used_at"),
    revokedAt: integer("revoked_at"),
  },
  (t) => [
    index("api_keys_standing").on(t.id).where(sql`revoked_at IS NULL`),
    index("api_keys_by_tenant").on(t.tenant, t.id).where(sql`revoked_at IS NULL`),
  ],
);

/** Where a replay stands. */
export type ReplayState = "running" | "paused" | "completed" | "cancelled";

/** Sending again what ended: a job that survives restarts. At most one a destination has not ended. */
export const replays = sqliteTable(
  "replays",
  {
    id: text().primaryKey(),
    tenant: text().notNull(),
    destinationId: text("destination_id").notNull(),
    include: text().$type<"dead" | "delivered">().notNull(),
    eventTypes: jsonText<readonly string[] | null>(null)("event_types"),
    since: integer().notNull(),
    until: integer().notNull(),
    ratePerMinute: integer("rate_per_minute").notNull(),
    state: text().$type<ReplayState>().notNull(),
    reason: text(),
    /** The last event looked at: where the next step begins. */
    cursor: integer().notNull().default(0),
    /** Deliveries that matched when it began, were set to wait again, and have ended since. */
    total: integer().notNull().default(0),
    moved: integer().notNull().default(0),
    delivered: integer().notNull().default(0),
    failed: integer().notNull().default(0),
    /** The rate of now, per minute: between a tenth and ten times the rate asked for. */
    pace: real().notNull(),
    nextStepAt: integer("next_step_at").notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    endedAt: integer("ended_at"),
  },
  (t) => [
    uniqueIndex("replays_under_way").on(t.destinationId).where(sql`state IN ('running', 'paused')`),
    index("replays_by_tenant").on(t.tenant),
    index("replays_by_destination").on(t.destinationId),
  ],
);

/** How deep backlogs were when the watch looked, within the last hour. */
export const backlogSnapshots = sqliteTable("backlog_snapshots", {
  at: integer().primaryKey(),
  /** By destination. */
  backlogs: text().notNull(),
});

/** Mails to the operator that went out within the hour, by what they were about. */
export const mails = sqliteTable("mails", {
  about: text().primaryKey(),
  sentAt: integer("sent_at").notNull(),
});

/** A person at the dashboard. Its id is that of the portal link it was opened by, so a link opens one only. */
export const sessions = sqliteTable(
  "sessions",
  {
    id: text().primaryKey(),
    /** The key that opened it, or made its link; null: the first one, `ADMIN_KEY`. */
    keyId: text("key_id"),
    /** The only tenant that it sees and touches; null: all of them. */
    tenant: text(),
    scopes: text({ mode: "json" }).$type<readonly string[]>().notNull(),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    endedAt: integer("ended_at"),
  },
  (t) => [index("sessions_by_expiry").on(t.expiresAt)],
);
