/**
 * The dead of a destination of whom nobody has been told: they are counted, and told of together. With the
 * first of them somebody is sent to ask after a minute; what dies meanwhile is in the same answer.
 */
export type DeadLetterDigest = Readonly<{
  dead: number;
  /** When the first of them died, epoch ms; 0 while there are none. */
  since: number;
  /** When somebody was last sent to ask, epoch ms; 0 when nobody is on the way. */
  sentAt: number;
}>;

export const emptyDigest: DeadLetterDigest = { dead: 0, since: 0, sentAt: 0 };

/** How long the dead are gathered. */
export const DIGEST_MS = 60_000;
/** Whoever was sent for so long ago has been lost on the way. */
const LOST_MS = 3 * DIGEST_MS;

/** More have died: whether somebody is to be sent to ask, and then the toll knows of it. */
export function digestAfter(deadLetterDigest: DeadLetterDigest, dead: number, now: number): Readonly<{ deadLetterDigest: DeadLetterDigest; isDue: boolean }> {
  if (dead === 0) return { deadLetterDigest, isDue: false };
  const isOnTheWay = deadLetterDigest.sentAt > 0 && deadLetterDigest.sentAt <= now && now - deadLetterDigest.sentAt < LOST_MS;
  const counted = { dead: deadLetterDigest.dead + dead, since: deadLetterDigest.since || now };
  return { deadLetterDigest: { ...counted, sentAt: isOnTheWay ? deadLetterDigest.sentAt : now }, isDue: !isOnTheWay };
}

/** So many, of those who have died since then, have been told of; the rest are a toll of their own. Safe to repeat. */
export function afterDigestSent(
  deadLetterDigest: DeadLetterDigest,
  { dead, since }: Pick<DeadLetterDigest, "dead" | "since">,
  now: number,
): Readonly<{ deadLetterDigest: DeadLetterDigest; isDue: boolean }> {
  if (deadLetterDigest.since !== since) return { deadLetterDigest, isDue: false };
  return digestAfter(emptyDigest, Math.max(0, deadLetterDigest.dead - dead), now);
}
