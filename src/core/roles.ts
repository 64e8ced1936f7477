/** The roles of persons, who sign in to the dashboard by Cloudflare Access. Pure. */
import { type Scope, scopes } from "./scopes.ts";

/** Each includes those before it. */
export const roles = [
  /** Reads everything but secrets. */
  "look",
  /** Sends again, cancels, replays, pauses, resumes, and sends test events. */
  "repair",
  /** Changes destinations with their secrets, event types and the settings of tenants. */
  "configure",
  /** Does everything: keys, portal links, erasures, the audit trail and whole tenants. */
  "own",
] as const;

export type Role = (typeof roles)[number];

export function isRoleAtLeast(role: Role, least: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(least);
}

/** The scopes that a key of the same rights would have. No key has the rights of the roles between the first and the last. */
export function scopesOfRole(role: Role): readonly Scope[] {
  return role === "own" ? scopes : ["read"];
}
