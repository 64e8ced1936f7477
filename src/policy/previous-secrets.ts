/**
 * The secrets that were replaced and still sign beside the current one, each until a time of its own, so that
 * rotating again never takes a secret away from a receiver that was promised more time.
 */

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
