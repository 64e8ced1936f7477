/**
 * The forms of credentials and when they are valid: API keys, and replaced signing secrets; and how callers without a
 * credential are counted.
 *
 * An API key is `bw_<id>_<secret><checksum>`. The checksum is a CRC-32 of what precedes it, and not secret: a key that
 * was mistyped or invented without knowing the format is recognised as such without a query, and a scanner for leaked
 * secrets can distinguish a key from a text that only looks like one.
 *
 * An isolate caches an API key as long as it knows that the key is unchanged: a revoked key is rejected within
 * `REMEMBERED_MS` everywhere.
 *
 * After a rotation, replaced secrets still sign beside the current one, each until a time of its own, so that rotating
 * again never takes a secret from a receiver that was promised more time.
 */

import { checksumOf } from "./crc32.ts";

/**
 * An API key as its owner gets it.
 * @param id `key_` and 20 characters
 * @param secret 32 characters
 */
export function keyToken(id: string, secret: string): string {
  const text = `bw_${id.slice(4)}_${secret}`;
  return text + digitsOfChecksum(text);
}

/** The id of the key that a token claims to be; undefined when it does not look like a key or its checksum is wrong. */
export function claimedKey(token: string): string | undefined {
  const [, text, id, checksum] = /^(bw_([0-9a-z]{20})_[0-9a-z]{32})([0-9a-z]{7})$/.exec(token) ?? [];
  return text !== undefined && digitsOfChecksum(text) === checksum ? `key_${id}` : undefined;
}

/** The CRC-32 of a text, in seven characters of base 36. */
function digitsOfChecksum(text: string): string {
  return checksumOf(new TextEncoder().encode(text)).toString(36).padStart(7, "0");
}

/**
 * The key by which requests without a valid credential are counted: the client's IPv4 address, or the /64 of its IPv6
 * address, because the owner of one such address usually has all of its /64.
 */
export function addressBlock(address: string): string {
  if (!address.includes(":")) return address;
  const [before = [], after] = address.split("::").map((part) => (part === "" ? [] : part.split(":")));
  const omitted = after === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const groups = [...before, ...Array<string>(omitted).fill("0"), ...(after ?? [])].slice(0, 4);
  return `${groups.map((group) => group.replace(/^0+(?=.)/, "").toLowerCase()).join(":")}::/64`;
}

/** How long cached keys count after changes were last read. */
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

/** Whether a read at `askedAt` (epoch ms) still counts. A clock that was set back makes it stale. */
export function isRemembered(askedAt: number, now: number, forMs = REMEMBERED_MS): boolean {
  return askedAt <= now && now - askedAt < forMs;
}

/** Whether to write a use at `now`, when the last one written was at `lastUsedAt` (epoch ms). */
export function isWorthWriting(lastUsedAt: number | null, now: number): boolean {
  return lastUsedAt === null || now - lastUsedAt >= USE_WRITTEN_MS;
}

/** A replaced secret as it is stored: encrypted like the current one. `expires_at` is epoch ms. */
export type PreviousSecret = Readonly<{ secret: string; expires_at: number }>;

/** The most replaced secrets: each adds a signature to every request. */
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
