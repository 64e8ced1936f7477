/** The receivers of notifications, and the limit on mails. */

import { OPERATOR } from "../../core/principal.ts";
import { HOUR_MS } from "../../core/rollups.ts";

/** Most mails in an hour to the operator, and to each tenant. */
const MAILS_AN_HOUR = 20;

const FORGET_MAILS = "DELETE FROM mails WHERE sent_at <= ?1";
const CLAIM_MAIL = `
  INSERT INTO mails (about, sent_at) SELECT ?1 || ': ' || ?4, ?2
  WHERE (SELECT count(*) FROM mails WHERE substr(about, 1, length(?1) + 2) = ?1 || ': ') < ?3
  ON CONFLICT (about) DO NOTHING`;

/** Whether a mail about this may be sent to the reader now; if so, none about the same may be within the hour. */
export async function claimMail(db: D1Database, reader: string, about: string, now: number) {
  const [, claimed] = await db.batch([
    db.prepare(FORGET_MAILS).bind(now - HOUR_MS),
    db.prepare(CLAIM_MAIL).bind(reader, now, MAILS_AN_HOUR, about),
  ]);
  return (claimed?.meta.changes ?? 0) > 0;
}

/** Whether the operator has a destination for Breakwater's own events. */
export async function isOperatorListening(db: D1Database): Promise<boolean> {
  const destination = "SELECT 1 FROM destinations d WHERE d.tenant = ?1 AND d.deleted_at IS NULL";
  return (await db.prepare(destination).bind(OPERATOR).first()) !== null;
}
