/**
 * How long what is known of an API key may be relied on. A key that has been revoked is refused at the latest
 * when what an isolate remembers of it has become stale: well within the minute that is promised.
 */

/** What an isolate has read of a key counts for so long, from the moment it asked. */
export const REMEMBERED_MS = 30_000;

/** A key's last use is written down this often at most: a busy key shall not cost a row for each request. */
export const USE_WRITTEN_MS = 60 * 60_000;

export type KeyTerms = Readonly<{
  /** Epoch ms; null: it does not end by itself. */
  expiresAt: number | null;
  /** Epoch ms; null: it has not been revoked. */
  revokedAt: number | null;
}>;

/** Whether a key opens anything at `now`; in the millisecond in which it expires it no longer does. */
export function isInForce({ expiresAt, revokedAt }: KeyTerms, now: number): boolean {
  return revokedAt === null && (expiresAt === null || now < expiresAt);
}

/** Whether what was asked for at `askedAt` (epoch ms) may still be relied on. A clock set back makes it stale. */
export function isRemembered(askedAt: number, now: number): boolean {
  return askedAt <= now && now - askedAt < REMEMBERED_MS;
}

/** Whether a use at `now` is worth a written row, when the last one written down was at `lastUsedAt` (epoch ms). */
export function isWorthWriting(lastUsedAt: number | null, now: number): boolean {
  return lastUsedAt === null || now - lastUsedAt >= USE_WRITTEN_MS;
}
