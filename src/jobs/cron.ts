/** The cron, every minute. Its tasks run side by side, so that the failure of one does not keep the others from running. */

import { MINUTE_MS } from "../core/rollups.ts";
import { cleanArchive } from "../features/archive/job.ts";
import { recoverErasures } from "../features/erasures/job.ts";
import { checkStall, publishLeftovers } from "../features/notifications/publish.ts";
import { continueCheck } from "../features/notifications/thresholds.ts";
import { recoverReplays } from "../features/replays/job.ts";
import { eraseMore, eraseOver } from "../features/retention/content-job.ts";
import { removeDeleted, removeMore, removeOld, removeOldChanges } from "../features/retention/job.ts";
import { KEPT_LONGER_MS } from "../ingest/accept.ts";
import { faultOf } from "../log.ts";
import type { UpkeepMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { allOf, storeDatabaseCount } from "../store/databases.ts";
import { countKeyed } from "../store/stats.ts";
import { sweep, sweepPage } from "./sweep.ts";
import { retryUnreadable } from "./unreadable-retry.ts";

/** `checkStall` comes before the sweep whose heartbeat would end the stall unnoticed. */
const tasks = [
  checkStall,
  sweep,
  recoverReplays,
  recoverErasures,
  removeOld,
  removeDeleted,
  removeOldChanges,
  eraseOver,
  cleanArchive,
  publishLeftovers,
  (services) => countKeyed(services, Math.floor(services.now() / MINUTE_MS)),
  storePlaces,
  retryUnreadable,
] satisfies ((services: Services) => Promise<void>)[];

/** Stores how many databases are to take new events. The history is kept for as long as keys may be, at least. */
function storePlaces(services: Services): Promise<void> {
  const { config, now } = services;
  const count = config.eventDatabases ?? allOf(services).length;
  return storeDatabaseCount(services, count, now(), now() - 2 * (config.retentionMs + KEPT_LONGER_MS));
}

/** Throws the first task's error once all have ended, so that the platform counts the invocation as failed. */
export async function runCron(services: Services): Promise<void> {
  const results = await Promise.allSettled(tasks.map((task) => task(services)));
  const failed = results.filter((result) => result.status === "rejected");
  for (const { reason } of failed) services.log({ what: "cron_task_failed", error: faultOf(reason) });
  if (failed[0]) throw failed[0].reason;
}

/** Continues the sweep or retention where the invocation before has stopped. */
export function continueUpkeep(services: Services, message: UpkeepMessage): Promise<void> {
  if ("kept" in message) return eraseMore(services, message);
  if ("alerts" in message) return continueCheck(services, message.alerts);
  return "sweep" in message ? sweepPage(services, message) : removeMore(services, message);
}
