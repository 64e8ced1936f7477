/** Every minute: what the clock is for. Each by itself, so that the failure of one keeps none of the others. */

import { countKeyed } from "../db/stats.ts";
import { faultOf } from "../log.ts";
import { checkStall, publishLeftovers } from "../notifications/publish.ts";
import type { UpkeepMessage } from "../queue-messages.ts";
import { wakeReplays } from "../replay/run.ts";
import type { Services } from "../services.ts";
import { removeDeleted, removeMore, removeOld } from "./retention.ts";
import { sweep, sweepPage } from "./sweep.ts";

/** The silence of the sweep is noticed before the next one ends it. */
const duties = [checkStall, sweep, wakeReplays, removeOld, removeDeleted, publishLeftovers, countKeyed];

/** Throws what the first of them threw, once all have ended, so that the platform counts a failure too. */
export async function runCron(services: Services): Promise<void> {
  const results = await Promise.allSettled(duties.map((duty) => duty(services)));
  const failed = results.filter((result) => result.status === "rejected");
  for (const { reason } of failed) services.log({ what: "tick_failed", error: faultOf(reason) });
  if (failed[0]) throw failed[0].reason;
}

/** Goes on with what a tick has left, as its message says. */
export function goOnWith(services: Services, message: UpkeepMessage): Promise<void> {
  return "sweep" in message ? sweepPage(services, message) : removeMore(services, message);
}
