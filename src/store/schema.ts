/**
 * The tables, as design: D1 remembers, and every written row is paid for.
 *
 * An event delivered at its first attempt costs two written rows: the event and the outcome. So bodies
 * live in a rowid table (compact, ids in order, one row a write), deliveries in a `WITHOUT ROWID` table
 * keyed by destination (its message log for free, one row a write), and every index is partial and is
 * touched only by what goes wrong.
 *
 * Drizzle cannot say `WITHOUT ROWID`: it is added to the generated migration by hand, and a test holds
 * this file and the migrations together. Columns named `…_at` are epoch milliseconds.
 */
import { sql } from "drizzle-orm";
import { index, integer, primaryKey, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { RetrySpec } from "../policy/retry-spec.ts";

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
}>;

/**
 * What was posted. `id` is given by SQLite in order, so that the sweep's watermark is exact; it is never
 * reused because the newest row is never removed.
 */
export const events = sqliteTable("events", {
  id: integer().primaryKey(),
  tenant: text().notNull(),
  type: text().notNull(),
  acceptedAt: integer("accepted_at").notNull(),
  /** The destinations chosen at acceptance: a JSON array of ids. */
  plan: text({ mode: "json" }).$type<readonly string[]>().notNull(),
  /** The exact bytes that every attempt sends. Last, so that reading the rest does not read it. */
  body: text().notNull(),
});

/** One event for one destination, written with its first outcome. */
export const deliveries = sqliteTable(
  "deliveries",
  {
    destinationId: text("destination_id").notNull(),
    eventId: integer("event_id").notNull(),
    state: text().$type<StoredState>().notNull(),
    because: text(),
    /** HTTP exchanges made, and nothing else. */
    attempts: integer().notNull().default(0),
    nextAttemptAt: integer("next_attempt_at"),
    giveUpAt: integer("give_up_at").notNull(),
    endedAt: integer("ended_at"),
    lastStatus: integer("last_status"),
    lastError: text("last_error"),
    log: text({ mode: "json" }).$type<readonly AttemptEntry[]>().notNull().default(sql`'[]'`),
  },
  (t) => [
    primaryKey({ columns: [t.destinationId, t.eventId] }),
    index("deliveries_retrying").on(t.nextAttemptAt).where(sql`state = 'retrying'`),
    index("deliveries_waiting").on(t.destinationId, t.eventId).where(sql`state = 'waiting'`),
    index("deliveries_dead").on(t.destinationId, t.eventId).where(sql`state = 'dead'`),
  ],
);

/** A URL with its limits. Limits are plain columns, so that a person can change one by hand. */
export const destinations = sqliteTable(
  "destinations",
  {
    id: text().primaryKey(),
    tenant: text().notNull(),
    url: text().notNull(),
    /** Exact names and `prefix.*`; null takes every type. */
    eventTypes: text("event_types", { mode: "json" }).$type<readonly string[]>(),
    description: text(),
    metadata: text({ mode: "json" }).$type<Readonly<Record<string, string>>>(),
    headers: text({ mode: "json" }).$type<Readonly<Record<string, string>>>(),
    secret: text().notNull(),
    status: text().$type<"active" | "paused">().notNull().default("active"),
    statusReason: text("status_reason"),
    maxConcurrency: integer("max_concurrency").notNull().default(10),
    ratePerSecond: real("rate_per_second").notNull().default(100),
    rateBurst: integer("rate_burst").notNull().default(200),
    timeoutMs: integer("timeout_ms").notNull().default(15_000),
    retry: text({ mode: "json" }).$type<RetrySpec>(),
    breakerFailureRatio: real("breaker_failure_ratio").notNull().default(0.5),
    breakerMinAttempts: integer("breaker_min_attempts").notNull().default(5),
    breakerWindowS: integer("breaker_window_s").notNull().default(60),
    breakerCooldownS: integer("breaker_cooldown_s").notNull().default(30),
    breakerMaxCooldownS: integer("breaker_max_cooldown_s").notNull().default(300),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    /** A deleted destination stays as a tombstone, so that what was planned for it ends as cancelled. */
    deletedAt: integer("deleted_at"),
  },
  (t) => [index("destinations_by_tenant").on(t.tenant).where(sql`deleted_at IS NULL`)],
);

/** The sweep's memory: how far it has looked, and when it last did. One row. */
export const sweeps = sqliteTable("sweeps", {
  id: integer().primaryKey(),
  watermark: integer().notNull().default(0),
  heartbeatAt: integer("heartbeat_at").notNull(),
});
