/**
 * What the receiver's log says of a run with kills: what never came, what came more than once, and which
 * kill explains it. At least once is the promise; a repeat that no kill explains would be a fault.
 */
import type { Hit } from "../../src/local/receiver.ts";
import { deliveriesOf } from "./place.ts";

export type Tally = Readonly<{
  accepted: number;
  /** Accepted and never received. */
  lost: number;
  /** Received although no acceptance was heard: the stack died between the commit and the answer. */
  unheard: number;
  /** Receptions beyond the first of an event, by the kill that made them necessary. */
  repeatsAfterKill: readonly number[];
  /** Repeats with no kill between them and the reception before. */
  unexplained: number;
}>;

/** @param kills when the stack was killed, epoch ms, ascending */
export function tally(accepted: readonly string[], hits: readonly Hit[], kills: readonly number[]): Tally {
  const deliveries = deliveriesOf(hits);
  const heard = new Set(accepted);
  const between = [...deliveries.values()].flatMap((receptions) => killsBetween(receptions, kills));
  return {
    accepted: accepted.length,
    lost: accepted.filter((id) => !deliveries.has(id)).length,
    unheard: [...deliveries.keys()].filter((id) => !heard.has(id)).length,
    repeatsAfterKill: kills.map((_, i) => between.filter((kill) => kill === i).length),
    unexplained: between.filter((kill) => kill === -1).length,
  };
}

/** For each repeat the first kill after the reception that it repeats, if it came before the repeat; or -1. */
function killsBetween(receptions: readonly Hit[], kills: readonly number[]): number[] {
  return receptions.slice(1).map((hit, i) => {
    const before = receptions[i]?.at ?? 0;
    return kills.findIndex((at) => at >= before && at <= hit.at);
  });
}
