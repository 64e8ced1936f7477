/**
 * When credentials are valid: API keys, and the signing secrets that were replaced.
 *
 * An isolate caches what it has read of an API key, so a revoked key is rejected when that entry is stale at the
 * latest: well within the minute that is promised.
 *
 * After a rotation, replaced secrets still sign beside the current one, each until a time of its own, so that rotating
 * again never takes a secret from a receiver that was promised more time.
 */

/** How long a cached key counts, from when it was requested. */
export const REMEMBERED_MS = 30_000;

/** The least time between two writes of a key's last use: a busy key must not cost a row for each request. */
export const USE_WRITTEN_MS = 60 * 60_000;

type KeyTerms = Readonly<{
  /** Epoch ms; null: it does not end by itself. */
  expiresAt: number | null;
  /** Epoch ms; null: it has not been revoked. */
  revokedAt: number | null;
}>;

/** Whether a key is valid at `now`; in the millisecond in which it expires it no longer is. */
export function isInForce({ expiresAt, revokedAt }: KeyTerms, now: number): boolean {
  return revokedAt === null && (expiresAt === null || now < expiresAt);
}

/** Whether what was requested at `askedAt` (epoch ms) still counts. A clock that was set back makes it stale. */
export function isRemembered(askedAt: number, now: number): boolean {
  return askedAt <= now && now - askedAt < REMEMBERED_MS;
}

/** Whether to write a use at `now`, when the last one written was at `lastUsedAt` (epoch ms). */
export function isWorthWriting(lastUsedAt: number | null, now: number): boolean {
  return lastUsedAt === null || now - lastUsedAt >= USE_WRITTEN_MS;
}

/** A replaced secret as it is stored: encrypted like the current one. `expires_at` is epoch ms. */
export type PreviousSecret = Readonly<{ secret: string; expires_at: number }>;

/** Each adds a signature to every request: no more than this. */
export const MOST_PREVIOUS = 5;

/**
 * The replaced secrets that still sign at `now`, newest first; all stored ones when no time is given. Entries that were
 * edited by hand into something else are ignored.
 */
export function previousSecrets(stored: unknown, now = Number.NEGATIVE_INFINITY): readonly PreviousSecret[] {
  if (!Array.isArray(stored)) return [];
  return stored.filter((entry) => isPrevious(entry) && entry.expires_at > now).slice(0, MOST_PREVIOUS);
}

function isPrevious(entry: unknown): entry is PreviousSecret {
  const { secret, expires_at: at } = (entry ?? {}) as Readonly<Record<string, unknown>>;
  return typeof secret === "string" && typeof at === "number";
}
