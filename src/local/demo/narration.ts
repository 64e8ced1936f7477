/** One sentence on what is happening, for somebody who has never seen Breakwater. */
import { type CircuitSummary, circuitSummaryOf, isSlow, secondsTo } from "./door.ts";
import { QUIET_S } from "./fates.ts";
import { countOf, hasEnded, type DemoStanding } from "./standing.ts";

/** Several things happen at once: each is told for so long. */
const TOLD_MS = 3_000;

export function storyLines(standings: readonly DemoStanding[], startedAt: number, now: number): string {
  if (standings.every(hasEnded)) return "Nothing is under way: every delivery has ended.";
  const told = standings.flatMap((standing) => sentence(standing, circuitSummaryOf(standing, now), now) ?? []);
  const turn = Math.floor((now - startedAt) / TOLD_MS);
  return told[turn % told.length] ?? "Every event is delivered as it comes; nothing waits.";
}

function sentence(standing: DemoStanding, door: CircuitSummary, now: number): string | undefined {
  const { name } = standing.customer.fate;
  const waiting = countOf(standing, "waiting");
  switch (door.kind) {
    case "circuit_open":
      return `${name} is failing: circuit open, one request probes it in ${secondsTo(door.until, now)} s; ${waiting} wait.`;
    case "probing":
      return `${name}: one request finds out whether it is back; ${waiting} wait.`;
    case "held":
      return `${name} said 429, Retry-After: ${QUIET_S}: nobody sends it anything for ${secondsTo(door.until, now)} s; ${waiting} wait.`;
    case "paused":
      return `${name} said 410 Gone: paused; its owner must decide about ${waiting} events.`;
    case "draining":
      return isSlow(door)
        ? `${name} is slow: never more than ${standing.customer.fate.settings.max_concurrency} at once; ${waiting} wait their turn.`
        : `${name} is back: ${waiting} that waited go out, one first, then more with each success.`;
    case "open":
    case "deleted":
      return undefined;
  }
}
