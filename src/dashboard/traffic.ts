/** Attempts minute by minute, for charts: of one destination, or of many added up. Pure. */
import type { GateView } from "../policy/gate-view.ts";

/** Attempts that ended within one minute, `ago` minutes before now (0 is the current one). */
export type Bar = Readonly<{ ago: number; succeeded: number; failed: number }>;

const MINUTE_MS = 60_000;
export const MINUTES = 15;

/** One bar for each of the last 15 minutes, the oldest first. */
export function trafficOf(views: readonly (GateView | undefined)[], now: number): readonly Bar[] {
  const minutes = views.flatMap((view) => view?.minutes ?? []);
  return Array.from({ length: MINUTES }, (_, i) => {
    const ago = MINUTES - 1 - i;
    const ours = minutes.filter(({ from }) => Math.floor((now - from) / MINUTE_MS) === ago);
    const failed = ours.reduce((sum, { failures }) => sum + failures, 0);
    const attempts = ours.reduce((sum, { first, retries }) => sum + first + retries, 0);
    return { ago, succeeded: attempts - failed, failed };
  });
}
