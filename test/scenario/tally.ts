/**
 * What the receiver's log says of a run with kills: what never came, what came more than once, and what
 * explains it. At least once is the promise; a repeat that neither a kill nor a sender's lost patience
 * explains would be a fault, and so would be more repeats than can have been in flight.
 */
import type { Hit } from "../../src/local/receiver.ts";
import { deliveryOf, receptionsOf } from "./place.ts";

export type Tally = Readonly<{
  /** Events whose acceptance was heard. */
  accepted: number;
  /** Events received although no acceptance was heard: the stack died between the commit and the answer. */
  unheard: number;
  /** What every event was for, together. */
  deliveries: number;
  /** Of those, never answered with success while the sender still listened. */
  lost: number;
  /** Requests that failed, were turned away or hung. */
  failed: number;
  /** Receptions beyond the first of a delivery, by the kill that made them necessary. */
  repeatsAfterKill: readonly number[];
  /** Deliveries taken so shortly before each kill that they may not have been recorded. */
  inFlightAtKill: readonly number[];
  /** Repeats because the sender had given up on an answer that came after its timeout. */
  impatient: number;
  /** Repeats with no cause between them and the reception before. */
  unexplained: number;
}>;

/**
 * The longest time between a reception and its record: a batch starts attempts for five seconds, waits one
 * more for the last answer, and writes, which may take three tries of up to a second. What a kill repeats was
 * taken within it.
 */
const UNRECORDED_MS = 10_000;

/** What can be in flight at once here: one batch of the queue and one drain's lease; each runs one at a time. */
export const IN_FLIGHT = 100 + 60;

type Cause = Readonly<{ kill: number }> | "impatient" | "unexplained";

/**
 * @param paths where every event goes
 * @param kills when the stack was killed, epoch ms, ascending
 */
export function tally(
  accepted: readonly string[],
  hits: readonly Hit[],
  paths: readonly string[],
  kills: readonly number[],
): Tally {
  const receptions = receptionsOf(hits);
  const heard = new Set(accepted);
  // What one destination has got was committed, so all of them must have got it.
  const events = new Set([...accepted, ...[...receptions.values()].flat().map(({ id }) => id)]);
  const causes = [...receptions.values()].flatMap((taken) => causesOf(taken, kills));
  return {
    accepted: accepted.length,
    unheard: [...events].filter((id) => !heard.has(id)).length,
    deliveries: events.size * paths.length,
    lost: missing([...events], receptions, paths).length,
    failed: hits.filter(({ status }) => status !== 200).length,
    repeatsAfterKill: kills.map((_, i) => causes.filter((c) => typeof c === "object" && c.kill === i).length),
    inFlightAtKill: kills.map((at) => unrecordedAt(receptions, at)),
    impatient: causes.filter((cause) => cause === "impatient").length,
    unexplained: causes.filter((cause) => cause === "unexplained").length,
  };
}

/** The deliveries of these events that nobody has taken while the sender listened. */
export function missing(
  events: readonly string[],
  receptions: ReadonlyMap<string, readonly Hit[]>,
  paths: readonly string[],
): string[] {
  const all = events.flatMap((id) => paths.map((path) => deliveryOf({ path, id })));
  return all.filter((delivery) => !receptions.get(delivery)?.some(({ hungUp }) => !hungUp));
}

/** What explains each reception of a delivery beyond its first. */
function causesOf(taken: readonly Hit[], kills: readonly number[]): Cause[] {
  return taken.slice(1).map((repeat, i) => {
    const before = taken[i] ?? repeat;
    const kill = kills.findIndex((at) => at >= before.at && at <= repeat.at && isRecent(before, at));
    if (kill >= 0) return { kill };
    return before.hungUp ? "impatient" : "unexplained";
  });
}

function unrecordedAt(receptions: ReadonlyMap<string, readonly Hit[]>, kill: number): number {
  const isUnrecorded = (hit: Hit) => hit.at <= kill && isRecent(hit, kill);
  return [...receptions.values()].filter((taken) => taken.some(isUnrecorded)).length;
}

function isRecent({ at }: Hit, kill: number): boolean {
  return kill - at <= UNRECORDED_MS;
}
