/**
 * Removing a tenant: everything in the first database but its events' traces, in one transaction. Destinations stay as
 * tombstones, without what describes them or opens their receivers, until none of their deliveries is left.
 */

import type { RawRow } from "../../store/columns.ts";
import { applicationDeletion } from "../applications/sql.ts";
import { type ErasureInsert, erasureBeginning, erasureOf } from "../erasures/sql.ts";

const EMPTY_DESTINATIONS = `
  UPDATE destinations SET description = NULL, metadata = NULL, headers = NULL, sealed_headers = NULL, auth = NULL,
    target_token = NULL, notice_channel = NULL, notice_target = NULL, uid = NULL, transform = NULL, certification = NULL
  WHERE tenant = ?1`;

const REVOKE_KEYS = "UPDATE api_keys SET revoked_at = ?2 WHERE tenant = ?1 AND revoked_at IS NULL";

const END_SESSIONS = `
  UPDATE sessions SET ended_at = ?2 WHERE tenant = ?1 AND ended_at IS NULL AND expires_at > ?2`;

/** Agents' requests reveal the tenant's data. */
const FORGET_ACTIONS = "DELETE FROM agent_actions WHERE tenant = ?1";

/** Settings are removed; `deleted_at` makes links worthless that were made before. */
const CLEAR_SETTINGS = `
  INSERT INTO tenant_settings (tenant, deleted_at, created_at, updated_at) VALUES (?1, ?2, ?2, ?2)
  ON CONFLICT (tenant) DO UPDATE SET contact_email = NULL, retention_days = NULL, payload_free = 0, functions_off = 0,
    portal = NULL, branding = NULL, deleted_at = excluded.deleted_at, updated_at = excluded.updated_at`;

/** @param job the erasure that begins with it */
export async function eraseTenantRows(db: D1Database, tenant: string, job: ErasureInsert, now: number) {
  const [begun, , deleted] = await db.batch<RawRow>([
    erasureBeginning(db, job, true),
    ...applicationDeletion(db, tenant, now),
    db.prepare(EMPTY_DESTINATIONS).bind(tenant),
    db.prepare(REVOKE_KEYS).bind(tenant, now),
    db.prepare(END_SESSIONS).bind(tenant, now),
    db.prepare(FORGET_ACTIONS).bind(tenant),
    db.prepare(CLEAR_SETTINGS).bind(tenant, now),
  ]);
  const [raw] = begun?.results ?? [];
  if (raw === undefined) throw new Error("An erasure that begins always has a row");
  return { erasure: erasureOf(raw), destinations: (deleted?.results ?? []).map(({ id }) => String(id)) };
}

/**
 * Whether a portal link is from before its tenant was deleted, epoch ms. A link without a time may be.
 * @param deletedAt of the tenant's settings
 */
export function isLinkVoid(issuedAt: number | undefined, deletedAt: number | null | undefined): boolean {
  return deletedAt !== null && deletedAt !== undefined && (issuedAt ?? 0) <= deletedAt;
}
