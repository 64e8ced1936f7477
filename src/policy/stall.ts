/** When the sweep counts as silent: it comes every minute, and one that takes long or fails once is no stall. */

export const STALLED_AFTER_MS = 5 * 60_000;

/** @param heartbeatAt when a sweep last got through, epoch ms; null before the first, which is no stall yet */
export function isStalled(heartbeatAt: number | null, now: number): heartbeatAt is number {
  return heartbeatAt !== null && now - heartbeatAt > STALLED_AFTER_MS;
}
