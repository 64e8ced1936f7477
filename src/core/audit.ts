/** The audit trail: the fields of an entry, and which fields a change has changed. */

/** The audited actions. An entry names the object, the actor and the time. */
export const auditActions = [
  "agent_action.approved",
  "agent_action.refused",
  "agent_action.requested",
  "api_key.created",
  "api_key.revoked",
  "application.changed",
  "application.created",
  "application.deleted",
  "attempt.content_removed",
  "deliveries.cancelled",
  "delivery.cancelled",
  "delivery.skipped",
  "delivery.retried",
  "destination.certified",
  "destination.changed",
  "destination.created",
  "destination.deleted",
  "destination.paused",
  "destination.resumed",
  "destination.secret_rotated",
  "destination.secret_shown",
  "erasure.started",
  "event_type.changed",
  "event_type.deleted",
  "group.changed",
  "group.deleted",
  "group.reset",
  "master_key.rotated",
  "portal_link.created",
  "replay.cancelled",
  "replay.paused",
  "replay.resumed",
  "replay.started",
  "session.ended",
  "session.started",
  "tenant.changed",
  "tenant.deleted",
  "tenant.exported",
  "tenant.imported",
] as const;

export type AuditAction = (typeof auditActions)[number];

/**
 * The actor of a change: with an API key or `ADMIN_KEY`, at the dashboard, through a portal link, by a binding, an
 * agent over MCP with either key or within a visit of the portal, or Breakwater itself.
 */
export const actorKinds = [
  "api_key",
  "admin_key",
  "dashboard",
  "portal",
  "binding",
  "agent",
  "breakwater",
] as const;

export type Actor = Readonly<{
  kind: (typeof actorKinds)[number];
  /** The API key, or the one that opened the session or made the link; null: `ADMIN_KEY`. */
  key: string | null;
  /** The session at the dashboard, or the portal link, whose session has the same id. */
  session: string | null;
  /** The email of the person, or the name of the service token, that has signed in by Cloudflare Access; absent for others. */
  person?: string;
  /** The approver of an agent's request; absent for others. */
  approver?: Omit<Actor, "approver">;
}>;

/** The fields that a change has changed, each with its value before and after. */
export type Changes = Readonly<Record<string, Readonly<{ from: unknown; to: unknown }>>>;

/** Fields that change with every change, and carry no information. */
const FOLLOWING = new Set(["updated_at", "updatedAt"]);

/** The length of JSON beyond which an entry only names the fields: a row of D1 must stay small. */
const MOST_CHARACTERS = 8_192;

/**
 * The differences between two views of an object, as the API shows it, so without secrets. Null without differences.
 * Very long values are left out.
 */
export function changesBetween(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): Changes | null {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => !FOLLOWING.has(name) && JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  );
  if (names.length === 0) return null;
  const changes = Object.fromEntries(
    names.map((name) => [name, { from: before[name] ?? null, to: after[name] ?? null }]),
  );
  if (JSON.stringify(changes).length <= MOST_CHARACTERS) return changes;
  return Object.fromEntries(names.slice(0, 100).map((name) => [name, { from: TOO_LONG, to: TOO_LONG }]));
}

const TOO_LONG = "(too long to store)";
