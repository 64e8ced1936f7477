/**
 * The tables of events and deliveries, which only this folder reads and writes. docs/data-model.md describes them for
 * people; this comment gives the reasons for their form.
 *
 * **Written rows are what D1 bills most.** A bundle whose deliveries all succeed, or merely wait, costs two written
 * rows for each destination: the bundle's (shared by all) and the pack's. So bodies are in a rowid table (compact, ids
 * in order, one row a write); packs and deliveries are `WITHOUT ROWID` tables keyed by destination (which makes the key
 * its message log, and saves an index); every index on them is partial and holds only what waits or has gone wrong.
 *
 * **Drizzle or SQL.** Ordinary queries use Drizzle. Raw SQL is for statements that have to do several things at once
 * (check and insert, or a batch that is one transaction), that take any number of values (`json_each` of one parameter:
 * D1 allows 100), or whose billed rows depend on their shape (a named index, a recursive walk). A comment on each says
 * what that saves. Fragments that several statements share are in sql.ts.
 *
 * Drizzle cannot express `WITHOUT ROWID`, triggers and views: they are added to the generated migration by hand, and
 * tests hold this file and the migrations together. Columns named `…_at` are epoch milliseconds.
 */
import { sql } from "drizzle-orm";
import { blob, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Plan, StoredHeader } from "../core/bundle.ts";
import type { DeliveryReason } from "../core/reasons.ts";
import { jsonText } from "./columns.ts";
import type { StoredRow } from "./delivery.ts";

/**
 * Events that were committed together, of one tenant or of many (core/bundle.ts). Ids are given in order, from the
 * database's first number on (core/placement.ts), so that the sweep's watermark is exact. They are never reused, because
 * the newest row is never removed.
 */
export const bundles = sqliteTable(
  "bundles",
  {
    id: integer().primaryKey(),
    /** Recognize a repeated commit: a JSON array with a token for each event, or one for all of them. */
    tokens: text().notNull(),
    acceptedAt: integer("accepted_at").notNull(),
    /** Not delivered before; null: delivered at once. */
    deliverAt: integer("deliver_at"),
    /** Number of events, and of deliveries planned for all of them. */
    count: integer().notNull(),
    planned: integer().notNull(),
    /** The destinations chosen at acceptance, each with the indexes of the events that it gets, as runs. */
    plan: jsonText<Plan>({})().notNull(),
    /** The tenant, the type and the size of each event. */
    header: jsonText<StoredHeader>({
      version: 1,
      encoding: "plain",
      tenants: [],
      types: [],
      events: [],
    })().notNull(),
    /** The exact bytes that attempts send, joined and compressed. The last column, so that reading the others skips it. */
    body: blob().notNull(),
  },
  (t) => [index("bundles_scheduled").on(t.deliverAt).where(sql`deliver_at IS NOT NULL`)],
);

/**
 * Which bundles have events with a tag, for lists. A row for each tag in a bundle, however many of its events have it: which
 * ones is in its header. Triggers insert and delete the rows with the bundle, so bundles without tags cost nothing.
 */
export const tags = sqliteTable(
  "tags",
  { tenant: text().notNull(), tag: text().notNull(), bundleId: integer("bundle_id").notNull() },
  (t) => [primaryKey({ columns: [t.tenant, t.tag, t.bundleId] })],
);

/** Idempotency keys, with where the events of their requests are. Kept as long as the events. */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    tenant: text().notNull(),
    key: text().notNull(),
    /** Digest of the request, which distinguishes a repeat from another request under the same key. */
    fingerprint: text().notNull(),
    /** The bundles of the events, and for each event in the order posted which of these it is in and its index there. */
    bundles: jsonText<readonly number[]>([])().notNull(),
    places: jsonText<readonly (readonly [number, number])[]>([])().notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.tenant, t.key] })],
);

/** A delivery (one event for one destination) whose state does not fit into a bit of a pack. */
export const deliveries = sqliteTable(
  "deliveries",
  {
    destinationId: text("destination_id").notNull(),
    eventId: integer("event_id").notNull(),
    state: text().$type<StoredRow["state"]>().notNull(),
    reason: text().$type<StoredRow["reason"]>(),
    /** HTTP exchanges in this generation; nothing else counts. */
    attempts: integer().notNull().default(0),
    nextAttemptAt: integer("next_attempt_at"),
    /** 0 since acceptance, and one more each time that it is requeued after an end, or planned later by a replay. */
    generation: integer().notNull().default(0),
    /** In this generation; null before. */
    firstAttemptAt: integer("first_attempt_at"),
    /** The age limit in effect. It differs before and after the first attempt. */
    giveUpAt: integer("give_up_at").notNull(),
    endedAt: integer("ended_at"),
    lastStatus: integer("last_status"),
    lastError: text("last_error"),
    /** The replay that requeued it, and that its end counts for. */
    replay: text(),
    log: jsonText<StoredRow["log"]>([])().notNull().default(sql`'[]'`),
  },
  (t) => [
    primaryKey({ columns: [t.destinationId, t.eventId] }),
    index("deliveries_retrying").on(t.nextAttemptAt).where(sql`state = 'retrying'`),
    // `attempts` is in the index because a drain chooses by it: so it reads nothing but the index.
    index("deliveries_waiting").on(t.destinationId, t.eventId, t.attempts).where(sql`state = 'waiting'`),
    index("deliveries_dead").on(t.destinationId, t.eventId).where(sql`state = 'dead'`),
  ],
);

/** A mask is two integers: for the events 0 to 49 of the bundle, and for those from 50 on. */
const half = (name: string) => integer(name).notNull().default(0);

/** The deliveries of one bundle to one destination whose state is plain, a bit for each: see packs.ts. */
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
    /** Why the waiting ones wait, and until when at least. */
    reason: text().$type<DeliveryReason>(),
    nextAttemptAt: integer("next_attempt_at"),
    /** When the sweep recovers those in flight; null when there are none. */
    recoverAt: integer("recover_at"),
    /** The age limit of those without an attempt; null while none has waited or been in flight. */
    giveUpAt: integer("give_up_at"),
    /** When the last of the ended ones ended. */
    endedAt: integer("ended_at"),
    /** How and when each ended one ended: see core/pack.ts. */
    ends: text().notNull().default(""),
  },
  (t) => [
    primaryKey({ columns: [t.destinationId, t.bundleId] }),
    index("packs_waiting").on(t.destinationId, t.bundleId).where(sql`(waiting0 | waiting1) <> 0`),
    index("packs_in_flight").on(t.recoverAt).where(sql`recover_at IS NOT NULL`),
  ],
);

/**
 * The open deliveries in lines (core/order.ts), the head of each first. Triggers insert the rows with the bundle,
 * delete each with the end of its delivery, and make the next one wait; so unordered deliveries have no rows here.
 */
export const lines = sqliteTable(
  "lines",
  {
    destinationId: text("destination_id").notNull(),
    line: text().notNull(),
    eventId: integer("event_id").notNull(),
    /** The age limit of the delivery before its first attempt. */
    giveUpAt: integer("give_up_at").notNull(),
    /** 1: its line waits when it ends as dead. */
    holds: integer().notNull(),
  },
  (t) => [primaryKey({ columns: [t.destinationId, t.line, t.eventId] })],
);

/** Former versions of transformations. A trigger keeps each when another one replaces it, a hundred for each destination. */
export const transforms = sqliteTable(
  "transforms",
  {
    destinationId: text("destination_id").notNull(),
    version: integer().notNull(),
    transform: jsonText<unknown>(null)().notNull(),
  },
  (t) => [primaryKey({ columns: [t.destinationId, t.version] })],
);

/**
 * Results of transformations in code, a row for each delivery (transform-results.ts). Retention removes them with their
 * bundle, and a trigger when a header says that their event is erased.
 */
export const transformResults = sqliteTable(
  "transform_results",
  {
    eventId: integer("event_id").notNull(),
    destinationId: text("destination_id").notNull(),
    version: integer().notNull(),
    /** The request, as JSON; null while there is only a fault. */
    made: text(),
    fault: text(),
  },
  (t) => [primaryKey({ columns: [t.eventId, t.destinationId] })],
);

export type PackRow = typeof packs.$inferSelect;
