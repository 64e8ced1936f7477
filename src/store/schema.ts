/**
 * The tables of all but events and deliveries, which are in tables.ts, and destinations and groups, which are in destination.ts
 * and group.ts: tenants, event types, keys, the audit trail, and the progress of jobs. docs/data-model.md describes all of them for people.
 *
 * Drizzle cannot express triggers and views: they are added to the generated migration by hand, and tests hold this file
 * and the migrations together. Columns named `…_at` are epoch milliseconds.
 */
import { sql } from "drizzle-orm";
import { index, integer, primaryKey, real, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { Actor, AuditAction, Changes } from "../core/audit.ts";
import type { PauseReason, ReplayReason } from "../core/reasons.ts";
import type { BundleFault } from "../core/stored-bundle.ts";
import { jsonText } from "./columns.ts";

/**
 * Revisions of tenants' destinations. Triggers raise them with every change that affects routing, even one by hand. In
 * a further database: since when it has refused events of tenants that are pinned to the first one (commit.ts), epoch
 * ms.
 */
export const tenants = sqliteTable("tenants", {
  id: text().primaryKey(),
  revision: integer().notNull(),
});

/** A tenant's settings, made by an operator. A tenant without a row has the deployment's settings. */
export const tenantSettings = sqliteTable(
  "tenant_settings",
  {
    tenant: text().primaryKey(),
    /** Mails about its own destinations go there; null: none are sent. */
    contactEmail: text("contact_email"),
    /** For how long its events are kept; null: as long as the deployment keeps them. */
    retentionDays: integer("retention_days"),
    /** 1: the content of an event is erased once all of its deliveries have been delivered. */
    payloadFree: integer("payload_free").notNull().default(0),
    /** 1: no transformation in code runs for it. */
    functionsOff: integer("functions_off").notNull().default(0),
    /** The rights and limits of its portal's visitors. Edited into what is no JSON, it must not read as none. */
    portal: jsonText<Readonly<Record<string, unknown>> | null>({ "": "" })(),
    /** The name, logo and colour of its portal. */
    branding: jsonText<Readonly<Record<string, unknown>> | null>(null)(),
    /** When the tenant was last deleted with everything: portal links from before are worthless. */
    deletedAt: integer("deleted_at"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [
    index("tenant_settings_kept").on(t.retentionDays).where(sql`retention_days IS NOT NULL`),
    index("tenant_settings_payload_free").on(t.tenant).where(sql`payload_free = 1`),
    index("tenant_settings_kept_changed")
      .on(t.updatedAt)
      .where(sql`retention_days IS NOT NULL OR payload_free = 1`),
  ],
);

/** Erasures: jobs that remove the content of events, in steps. They stay as receipts. */
export const erasures = sqliteTable(
  "erasures",
  {
    id: text().primaryKey(),
    tenant: text().notNull(),
    /** The kind of target: one event, those of a time range, or the tenant with everything. */
    kind: text().$type<"event" | "range" | "tenant">().notNull(),
    eventId: integer("event_id"),
    since: integer(),
    until: integer(),
    /** Incomplete: some bundles could not be read in the last pass, and may have what was to be erased. */
    state: text().$type<"running" | "completed" | "incomplete">().notNull(),
    /**
     * Where the next step continues: the pass, the number of the database, the last bundle read there, the last event
     * in the archive, and how many destinations of the next bundle are done.
     */
    cursor: jsonText<readonly number[]>([])().notNull().default(sql`'[]'`),
    /** The progress so far. */
    events: integer().notNull().default(0),
    deliveries: integer().notNull().default(0),
    cancelled: integer().notNull().default(0),
    /** Bundles that this pass could not read, and so not erase. */
    unreadable: jsonText<readonly number[]>([])().notNull().default(sql`'[]'`),
    nextStepAt: integer("next_step_at").notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    endedAt: integer("ended_at"),
  },
  (t) => [
    index("erasures_by_tenant").on(t.tenant),
    index("erasures_running").on(t.nextStepAt).where(sql`state = 'running'`),
  ],
);

/** The trail of changes: who changed what, and when (audit.ts). A trigger refuses to change an entry. */
export const auditEntries = sqliteTable(
  "audit_entries",
  {
    /** Ascends with time, and contains it. */
    id: integer().primaryKey(),
    at: integer().notNull(),
    /** Null: a change of the deployment, not of a tenant. */
    tenant: text(),
    actor: jsonText<Actor | null>(null)().notNull(),
    action: text().$type<AuditAction>().notNull(),
    /** The id of the changed object. */
    subject: text().notNull(),
    /** The changed fields, without secrets. */
    changes: jsonText<Changes | null>(null)(),
  },
  (t) => [
    index("audit_entries_by_tenant").on(t.tenant, t.id),
    index("audit_entries_by_subject").on(t.subject, t.id),
  ],
);

/**
 * The catalogue of event types. Every change of a validated type, even one by hand, raises the revision of the tenant
 * without a name, so that commits notice it by the comparison that they make anyway.
 */
export const eventTypes = sqliteTable(
  "event_types",
  {
    name: text().primaryKey(),
    description: text(),
    /** A JSON Schema of the events' `data`, as JSON. */
    schema: text(),
    /** An example of `data`, as JSON. */
    example: text(),
    /** 1: events whose `data` does not fit are refused. */
    validates: integer().notNull(),
    archivedAt: integer("archived_at"),
    /** For how long events of this type are kept; null: as their tenant's. */
    retentionDays: integer("retention_days"),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    /** Its newest version, which `schema` and `example` are of. */
    version: integer().notNull().default(1),
    /** When that was published, epoch ms; of the first one: 0. */
    versionAt: integer("version_at").notNull().default(0),
  },
  (t) => [
    index("event_types_validating").on(t.name).where(sql`validates = 1`),
    index("event_types_posted").on(t.name).where(sql`validates = 1 OR version > 1`),
    index("event_types_kept").on(t.retentionDays).where(sql`retention_days IS NOT NULL`),
    index("event_types_kept_changed").on(t.updatedAt).where(sql`retention_days IS NOT NULL`),
  ],
);

export const eventTypeVersions = sqliteTable(
  "event_type_versions",
  {
    type: text().notNull(),
    version: integer().notNull(),
    /** A former version's; the newest one's are in `event_types`. */
    schema: text(),
    example: text(),
    /** The templates that have converted its data to the version before (core/event-versions.ts). */
    conversions: jsonText<unknown>(null)().notNull(),
    /** Epoch ms; of the first one: 0. */
    publishedAt: integer("published_at").notNull(),
    deprecatedAt: integer("deprecated_at"),
    sunsetAt: integer("sunset_at"),
  },
  (t) => [primaryKey({ columns: [t.type, t.version] })],
);

/** Applications of the Svix API: each is the tenant that is named by its id. Tenants of the native API have no row. */
export const applications = sqliteTable(
  "applications",
  {
    id: text().primaryKey(),
    /** The caller's own name for it. */
    uid: text(),
    name: text().notNull(),
    /** The rate of each of its endpoints that has none of its own; null: the default. */
    ratePerSecond: real("rate_per_second"),
    metadata: jsonText<Readonly<Record<string, string>> | null>(null)(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [uniqueIndex("applications_by_uid").on(t.uid).where(sql`uid IS NOT NULL`)],
);

/**
 * Changes of destinations' statuses that have not been published. A trigger writes them in the transaction that sets
 * `status_changed_at` and changes `status`.
 */
export const statusChanges = sqliteTable(
  "status_changes",
  {
    changedAt: integer("changed_at").notNull(),
    destinationId: text("destination_id").notNull(),
    status: text().$type<"active" | "paused">().notNull(),
    reason: text().$type<PauseReason>(),
    tenant: text().notNull(),
    url: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.changedAt, t.destinationId, t.status] })],
);

/** Counters of events without another lasting record: see stats.ts. */
export const counts = sqliteTable("counts", {
  name: text().primaryKey(),
  count: integer().notNull(),
});

/** API keys. The secret part is shown once and never stored; its digest is. */
export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text().primaryKey(),
    name: text(),
    /** The only tenant that it can see and change; null: all. */
    tenant: text(),
    scopes: jsonText<readonly string[]>([])().notNull(),
    /** The only destination that it can poll; null: all that it has access to. */
    destination: text(),
    hash: text().notNull(),
    /** `dashboard`: a person approves there what agents with this key change; null: it needs no approval. */
    confirm: text(),
    /** `portal`: visitors of its tenant's portal made it and manage it; null: it is the operator's, or the tenant's by API. */
    madeIn: text("made_in"),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at"),
    /** To the hour, so that a busy key does not write a row for each request. */
    lastUsedAt: integer("last_used_at"),
    revokedAt: integer("revoked_at"),
  },
  (t) => [
    index("api_keys_unrevoked").on(t.id).where(sql`revoked_at IS NULL`),
    index("api_keys_by_tenant").on(t.tenant, t.id).where(sql`revoked_at IS NULL`),
    index("api_keys_by_destination")
      .on(t.destination, t.id)
      .where(sql`destination IS NOT NULL AND revoked_at IS NULL`),
  ],
);

/**
 * The last change of each API key, by which isolates invalidate their cached keys (features/keys/sql.ts). Written by
 * triggers, so that a change by hand counts too. A use of the key is not a change.
 */
export const keyChanges = sqliteTable(
  "key_changes",
  {
    /** Never reused. */
    revision: integer().primaryKey({ autoIncrement: true }),
    keyId: text("key_id").notNull(),
  },
  (t) => [uniqueIndex("key_changes_by_key").on(t.keyId)],
);

export type ReplayState = "running" | "paused" | "completed" | "cancelled";

/** Replays: jobs that requeue ended deliveries of a destination, or plan missing ones. A destination has at most one under way. */
export const replays = sqliteTable(
  "replays",
  {
    id: text().primaryKey(),
    tenant: text().notNull(),
    destinationId: text("destination_id").notNull(),
    include: text().$type<"dead" | "delivered" | "missing">().notNull(),
    /** For `missing`: 1 for events that the destination takes now, 0 for all of its tenant's. */
    matching: integer().notNull().default(1),
    eventTypes: jsonText<readonly string[] | null>(null)("event_types"),
    /** Only events with this tag; null: all. */
    tag: text(),
    since: integer().notNull(),
    until: integer().notNull(),
    ratePerMinute: integer("rate_per_minute").notNull(),
    state: text().$type<ReplayState>().notNull(),
    reason: text().$type<ReplayReason>(),
    /** The last event read: where the next step begins. */
    cursor: integer().notNull().default(0),
    /** Deliveries selected when it began, requeued so far, and ended since. */
    total: integer().notNull().default(0),
    requeued: integer().notNull().default(0),
    delivered: integer().notNull().default(0),
    failed: integer().notNull().default(0),
    /** The current rate per minute: between a tenth and ten times the rate asked for. */
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

/** Backlogs of the last hour, from which alerts compute how fast they grow. */
export const backlogSnapshots = sqliteTable("backlog_snapshots", {
  at: integer().primaryKey(),
  /** By destination. */
  backlogs: text().notNull(),
});

/** Mails sent to the operator within the last hour, by subject: limits how many are sent. */
export const mails = sqliteTable("mails", {
  about: text().primaryKey(),
  sentAt: integer("sent_at").notNull(),
});

/**
 * Trouble at destinations with a notice channel, and the notices of it so far (features/notices). A row lasts as
 * long as the trouble, and at least until the next notice is allowed.
 */
export const notices = sqliteTable(
  "notices",
  {
    destinationId: text("destination_id").primaryKey(),
    /** The troubles that its tenant has been notified of, and that last. */
    notified: jsonText<readonly string[]>([])().notNull().default(sql`'[]'`),
    /** Since when its circuit has been open; null: it is closed, as far as is known. */
    openedAt: integer("opened_at"),
    /** When deliveries last ended dead; null: none within the hour. */
    deadAt: integer("dead_at"),
    /** When it was last paused by its failures: a trigger writes it. */
    disabledAt: integer("disabled_at"),
    /** When the last notice was begun; 0: none. It allows the next one an hour later. */
    sentAt: integer("sent_at").notNull().default(0),
    /** How often in a row the channel has refused a notice, and the last fault. */
    failures: integer().notNull().default(0),
    fault: text(),
    /** Raised with every change: a step saves nothing if another has changed the row before. */
    revision: integer().notNull().default(0),
    nextStepAt: integer("next_step_at").notNull(),
  },
  (t) => [index("notices_due").on(t.nextStepAt)],
);

/** Sessions at the dashboard and the portal. A session has the id of the portal link that opened it, so a link opens only one. */
export const sessions = sqliteTable(
  "sessions",
  {
    id: text().primaryKey(),
    /** The API key that opened it, or that made its link; null: `ADMIN_KEY`. */
    keyId: text("key_id"),
    /** The only tenant that it can see and change; null: all. */
    tenant: text(),
    scopes: text({ mode: "json" }).$type<readonly string[]>().notNull(),
    /** A portal visitor's rights, as the link says; null: a session of the dashboard. */
    portal: jsonText<Readonly<Record<string, unknown>> | null>({})(),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    endedAt: integer("ended_at"),
  },
  (t) => [index("sessions_by_expiry").on(t.expiresAt)],
);

/**
 * Calls of changing tools that a person has to approve (features/approvals/). `state`: `pending`, `refused`, `approved` while the
 * tool runs or where its end is unknown, then `done` or `failed`.
 */
export const agentActions = sqliteTable(
  "agent_actions",
  {
    id: text().primaryKey(),
    /** The only tenant that its agent sees and changes; null: all. */
    tenant: text(),
    /** The agent's API key, or the one that made the link of its visit. */
    keyId: text("key_id"),
    /** The visit of the portal that its agent belongs to. */
    sessionId: text("session_id"),
    tool: text().notNull(),
    /** As the agent has given it. */
    input: jsonText<unknown>(null)().notNull(),
    state: text().notNull(),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    decidedAt: integer("decided_at"),
    /** The tool's answer. */
    outcome: text(),
  },
  (t) => [
    index("agent_actions_by_tenant").on(t.tenant, t.createdAt),
    index("agent_actions_by_time").on(t.createdAt),
    index("agent_actions_pending").on(t.tenant, t.expiresAt).where(sql`state = 'pending'`),
  ],
);

/** The progress of one part of the sweep. */
export type SweepPart = Readonly<{
  /** When it last made progress, epoch ms: it did all its work, or as much as it may do at once. */
  at: number;
  /** Whether it has left work for later. */
  behind: boolean;
  /** How often it has failed since it last made progress. */
  failures: number;
  /** Where it continues. */
  cursor: readonly (string | number)[];
}>;

/**
 * The progress of the sweep, in one row. Each database has its own watermark; everything else is in the first. `lease`
 * names the sweep that is running until `leasedUntil`, and `page` is the last of its pages that has begun.
 */
export const sweeps = sqliteTable("sweeps", {
  id: integer().primaryKey(),
  watermark: integer().notNull().default(0),
  /** When the part that has been stuck for longest last made progress; 0 before the first sweep. */
  heartbeatAt: integer("heartbeat_at").notNull(),
  lease: text(),
  leasedUntil: integer("leased_until").notNull().default(0),
  page: integer().notNull().default(0),
  parts: jsonText<Readonly<Record<string, SweepPart>>>({})().notNull().default(sql`'{}'`),
});

/** Where walks over a table continue: see `Walk` in sweep.ts. */
export const cursors = sqliteTable("cursors", {
  name: text().primaryKey(),
  /** The last row looked at: its time, for walks in order of time, and its rowid. */
  at: integer().notNull(),
  rowId: integer("row_id").notNull(),
});

/** How many databases took new events since when, epoch ms: see database-history.ts. */
export const databaseCounts = sqliteTable("database_history", {
  since: integer().primaryKey(),
  count: integer().notNull(),
});

/**
 * Bundles with content that is to be erased and could not be when a walk of kept content passed them: deliveries of theirs
 * had not ended, they are due later, or the step's budget ended in the middle of one. In the database of the bundle.
 */
export const keptLater = sqliteTable(
  "kept_later",
  {
    bundleId: integer("bundle_id").primaryKey(),
    /** Not looked at before. */
    lookAt: integer("look_at").notNull(),
    /** An erasure of some of its events that has been begun; null: none. */
    begun: jsonText<BegunErasure | null>(null)(),
  },
  (t) => [index("kept_later_due").on(t.lookAt)],
);

/** The progress of erasing some of a bundle's events. */
export type BegunErasure = Readonly<{
  why: "over" | "delivered";
  /** The indexes of the events. */
  events: readonly number[];
  /** Destinations of the plan that are done. */
  destinations: number;
}>;

/** Bundles of all databases that jobs could not read, until they can be read or are gone. In the first database. */
export const unreadableBundles = sqliteTable(
  "unreadable_bundles",
  {
    bundleId: integer("bundle_id").primaryKey(),
    fault: text().$type<BundleFault>().notNull(),
    foundAt: integer("found_at").notNull(),
    /** When it was last tried again. */
    checkedAt: integer("checked_at").notNull(),
  },
  (t) => [index("unreadable_bundles_checked").on(t.checkedAt)],
);
