/** Which mails went out within the hour, so that whatever happens there are few. The table is as small as that. */
import { HOUR_MS } from "../policy/tallies.ts";

/** Mails an hour, about everything together. */
export const MAILS_AN_HOUR = 20;

const FORGET = "DELETE FROM mails WHERE sent_at <= ?1";
const CLAIM = `
  INSERT INTO mails (about, sent_at) SELECT ?1, ?2 WHERE (SELECT count(*) FROM mails) < ?3
  ON CONFLICT (about) DO NOTHING`;

/** Whether a mail about this may go out now; if so, none about the same may within the hour. */
export async function claimMail(db: D1Database, about: string, now: number): Promise<boolean> {
  const [, claimed] = await db.batch([
    db.prepare(FORGET).bind(now - HOUR_MS),
    db.prepare(CLAIM).bind(about, now, MAILS_AN_HOUR),
  ]);
  return (claimed?.meta.changes ?? 0) > 0;
}
