/**
 * Compares the receiver's log of a run with kills with the accepted events: what is missing, what arrived more than
 * once, and why. Delivery is at least once; a repeat that neither a kill nor a timeout of the sender explains is a
 * fault, and so are more repeats than can have been in flight.
 */
import type { Hit } from "../../tools/receiver.ts";
import { deliveryOf, receptionsOf } from "./test-stack.ts";

export type KillReport = Readonly<{
  /** Events that were answered with 202. */
  accepted: number;
  /** Events that arrived without a 202: the stack died between the commit and the answer. */
  unanswered: number;
  /** All events times all destinations. */
  deliveries: number;
  /** Deliveries never answered with success before the sender's timeout. */
  lost: number;
  /** Requests that failed, got 429 or hung. */
  failed: number;
  /** Repeats by the kill that caused them. */
  repeatsAfterKill: readonly number[];
  /** Deliveries answered so shortly before each kill that they may not have been recorded. */
  inFlightAtKill: readonly number[];
  /** Repeats after an answer that came after the sender's timeout. */
  timedOut: number;
  /** Repeats without such a cause. */
  unexplained: number;
}>;

/**
 * The longest time between a reception and its record: a batch starts attempts for five seconds, waits one more for the
 * last answer, and writes, which may take three tries of up to a second. Deliveries that a kill repeats were taken
 * within it.
 */
const UNRECORDED_MS = 10_000;

/** The most that can be in flight at once here: one batch of the queue and one drain's lease; each runs one at a time. */
export const IN_FLIGHT = 100 + 60;

type Cause = Readonly<{ kill: number }> | "timedOut" | "unexplained";

/**
 * @param paths where every event goes
 * @param kills when the stack was killed, epoch ms, ascending
 */
export function reportKills(
  accepted: readonly string[],
  hits: readonly Hit[],
  paths: readonly string[],
  kills: readonly number[],
): KillReport {
  const receptions = receptionsOf(hits);
  const answered = new Set(accepted);
  // An event that arrived anywhere was committed, so it must arrive everywhere.
  const events = new Set([...accepted, ...[...receptions.values()].flat().map(({ id }) => id)]);
  const causes = [...receptions.values()].flatMap((taken) => causesOf(taken, kills));
  return {
    accepted: accepted.length,
    unanswered: [...events].filter((id) => !answered.has(id)).length,
    deliveries: events.size * paths.length,
    lost: missing([...events], receptions, paths).length,
    failed: hits.filter(({ status }) => status !== 200).length,
    repeatsAfterKill: kills.map((_, i) => causes.filter((c) => typeof c === "object" && c.kill === i).length),
    inFlightAtKill: kills.map((at) => unrecordedAt(receptions, at)),
    timedOut: causes.filter((cause) => cause === "timedOut").length,
    unexplained: causes.filter((cause) => cause === "unexplained").length,
  };
}

/** The deliveries of these events that were not answered with 200 before the sender's timeout. */
export function missing(
  events: readonly string[],
  receptions: ReadonlyMap<string, readonly Hit[]>,
  paths: readonly string[],
): string[] {
  const all = events.flatMap((id) => paths.map((path) => deliveryOf({ path, id })));
  return all.filter((delivery) => !receptions.get(delivery)?.some(({ hungUp }) => !hungUp));
}

/** The cause of each repeat of a delivery. */
function causesOf(taken: readonly Hit[], kills: readonly number[]): Cause[] {
  return taken.slice(1).map((repeat, i) => {
    const before = taken[i] ?? repeat;
    const kill = kills.findIndex((at) => at >= before.at && at <= repeat.at && isRecent(before, at));
    if (kill >= 0) return { kill };
    return before.hungUp ? "timedOut" : "unexplained";
  });
}

function unrecordedAt(receptions: ReadonlyMap<string, readonly Hit[]>, kill: number): number {
  const isUnrecorded = (hit: Hit) => hit.at <= kill && isRecent(hit, kill);
  return [...receptions.values()].filter((taken) => taken.some(isUnrecorded)).length;
}

function isRecent({ at }: Hit, kill: number): boolean {
  return kill - at <= UNRECORDED_MS;
}
