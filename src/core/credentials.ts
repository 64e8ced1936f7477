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

// §§ The secrets that were replaced and still sign beside the current one, each until a time of its own, so that
// rotating again never takes a secret away from a receiver that was promised more time.

/** As it is stored: sealed like the current one. `expires_at` is epoch ms. */
export type PreviousSecret = Readonly<{ secret: string; expires_at: number }>;

/** Every one of them is a signature more in each request: so many sign at once. */
export const MOST_PREVIOUS = 5;

/**
 * Those that still sign at `now`, the newest first; all that are stored when no time is given. A person may have
 * edited what is stored: what is no such secret is passed over.
 */
export function previousSecrets(stored: unknown, now = Number.NEGATIVE_INFINITY): readonly PreviousSecret[] {
  if (!Array.isArray(stored)) return [];
  return stored.filter((entry) => isPrevious(entry) && entry.expires_at > now).slice(0, MOST_PREVIOUS);
}

function isPrevious(entry: unknown): entry is PreviousSecret {
  const { secret, expires_at: at } = (entry ?? {}) as Readonly<Record<string, unknown>>;
  return typeof secret === "string" && typeof at === "number";
}
