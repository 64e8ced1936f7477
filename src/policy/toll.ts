/**
 * The dead of a destination of whom nobody has been told: they are counted, and told of together. With the
 * first of them somebody is sent to ask after a minute; what dies meanwhile is in the same answer.
 */
export type Toll = Readonly<{
  dead: number;
  /** When the first of them died, epoch ms; 0 while there are none. */
  since: number;
  /** When somebody was last sent to ask, epoch ms; 0 when nobody is on the way. */
  sentAt: number;
}>;

export const noToll: Toll = { dead: 0, since: 0, sentAt: 0 };

/** How long the dead are gathered. */
export const TOLL_MS = 60_000;
/** Whoever was sent for so long ago has been lost on the way. */
const LOST_MS = 3 * TOLL_MS;

/** More have died: whether somebody is to be sent to ask, and then the toll knows of it. */
export function tollAfter(toll: Toll, dead: number, now: number): Readonly<{ toll: Toll; isDue: boolean }> {
  if (dead === 0) return { toll, isDue: false };
  const isOnTheWay = toll.sentAt > 0 && toll.sentAt <= now && now - toll.sentAt < LOST_MS;
  const counted = { dead: toll.dead + dead, since: toll.since || now };
  return { toll: { ...counted, sentAt: isOnTheWay ? toll.sentAt : now }, isDue: !isOnTheWay };
}

/** So many, of those who have died since then, have been told of; the rest are a toll of their own. Safe to repeat. */
export function tollPaid(
  toll: Toll,
  { dead, since }: Pick<Toll, "dead" | "since">,
  now: number,
): Readonly<{ toll: Toll; isDue: boolean }> {
  if (toll.since !== since) return { toll, isDue: false };
  return tollAfter(noToll, Math.max(0, toll.dead - dead), now);
}
