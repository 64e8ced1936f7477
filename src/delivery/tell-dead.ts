/**
 * Deliveries that end dead without an attempt (expired while they waited, poisoned, their target forbidden)
 * appear in no settlement: their gates are told of them, behind everything that matters more.
 */
import { tellGateOfDead } from "../gate/gate-client.ts";
import type { Services } from "../services.ts";
import type { Verdict } from "./verdicts.ts";

/** @param verdicts decided without an attempt, and recorded */
export function tellDead(services: Services, verdicts: readonly Verdict[]): void {
  const dead = verdicts.filter(({ row }) => row?.state === "dead");
  for (const [destination, theirs] of Map.groupBy(dead, ({ work }) => work.destination.id))
    services.background(tellGateOfDead(services, destination, theirs.length));
}
