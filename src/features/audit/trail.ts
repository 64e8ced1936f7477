/**
 * Writes the audit trail. An entry comes after its change, and before the caller gets the answer. If it cannot be
 * stored, its log line has all of it: a change that was made must not be answered with an error.
 */
import type { Actor } from "../../core/audit.ts";
import type { Principal } from "../../core/principal.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import { insertAuditEntries, type NewAuditEntry } from "./sql.ts";

/** Stores entries. A failure is logged, with all of them. */
export async function record(services: Services, principal: Principal, entries: readonly NewAuditEntry[]) {
  const actor = actorOf(principal);
  try {
    await insertAuditEntries(services.db, actor, entries, services.now());
  } catch (error) {
    const [who, what] = [JSON.stringify(actor), JSON.stringify(entries)];
    services.log({ what: "audit_not_stored", actor: who, entries: what, error: faultOf(error) });
  }
}

/** The actor's name in the trail. */
export function actorOf({ key: given, session, via, person, approver }: Principal): Actor {
  const key = given ?? null;
  if (via === "mcp")
    return { kind: "agent", key, session: session?.id ?? null, ...(approver && { approver }) };
  if (person) return { kind: "dashboard", key, session: null, person: person.name };
  if (session) return { kind: session.at, key, session: session.id };
  if (via === "binding") return { kind: "binding", key, session: null };
  return { kind: key === null ? "admin_key" : "api_key", key, session: null };
}
