/** All upkeep of this Worker, which its cron begins and messages of the upkeep queue continue. Wiring only. */
import type { FleetRound } from "./core/fleet-round.ts";
import { MINUTE_MS } from "./core/rollups.ts";
import { archiveCleaning } from "./features/archive/job.ts";
import { forgetAuditEntries } from "./features/audit/sql.ts";
import { erasing } from "./features/erasures/job.ts";
import { noteSharedHosts } from "./features/groups/shared-hosts.ts";
import { noticing } from "./features/notices/job.ts";
import { checkStall, publishDigest, publishLeftovers } from "./features/notifications/publish.ts";
import { continueCheck } from "./features/notifications/thresholds.ts";
import { replaying } from "./features/replays/job.ts";
import { contentRetention } from "./features/retention/content-job.ts";
import { retention } from "./features/retention/job.ts";
import { KEPT_LONGER_MS } from "./ingest/accept.ts";
import { endReplaysOfDeleted, removeDeleted } from "./jobs/deleted-destinations.ts";
import { removeExpired } from "./jobs/expired-destinations.ts";
import { sweep } from "./jobs/sweep.ts";
import { unreadableRetry } from "./jobs/unreadable-retry.ts";
import { upkeepOf } from "./jobs/upkeep.ts";
import type { Services } from "./services.ts";
import { allOf, storeDatabaseCount } from "./store/databases.ts";
import { countKeyed } from "./store/stats.ts";

export const { runCron, consumeUpkeep, consumeDrains } = upkeepOf([
  // Before the sweep, whose heartbeat would end the stall unnoticed.
  { run: checkStall },
  sweep,
  replaying,
  { run: removeExpired },
  { run: (services) => endReplaysOfDeleted(services) },
  erasing,
  retention,
  { run: removeDeleted },
  { run: ({ db, now, config }) => forgetAuditEntries(db, now() - config.auditMs) },
  contentRetention,
  archiveCleaning,
  { run: publishLeftovers },
  noticing,
  { run: (services) => countKeyed(services, Math.floor(services.now() / MINUTE_MS)) },
  { run: storePlaces },
  { run: noteSharedHosts },
  unreadableRetry,
  { name: "alerts", receive: (services, { subject }) => continueCheck(services, subject as FleetRound) },
  { name: "deadLetterDigest", receive: (services, { subject }) => publishDigest(services, String(subject)) },
]);

/** Stores how many databases are to take new events. The history is kept for as long as keys may be, at least. */
function storePlaces(services: Services): Promise<void> {
  const { config, now } = services;
  const count = config.eventDatabases ?? allOf(services).length;
  return storeDatabaseCount(services, count, now(), now() - 2 * (config.retentionMs + KEPT_LONGER_MS));
}
