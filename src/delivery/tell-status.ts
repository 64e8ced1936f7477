/**
 * Destinations have been paused or resumed: a line in the log for each, and the operator is told.
 *
 * What is told comes from what D1 has on record, and not from having been the one who changed it: D1's answer may be
 * lost, and a Worker may be killed behind the write. The event comes once, by its key; the line at least once.
 */
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { type StatusChange, type UnpublishedChanges, unpublishedChanges } from "../store/status-changes.ts";
import { publish, isTold } from "./announce.ts";
import { type OperationalEvent, statusEvent } from "./operational-event.ts";

/** What is older than this has been left behind by whoever changed it. */
const LEFT_BEHIND_MS = 30_000;

/** Tells of changes together with `others`, in one round trip. */
export async function publishStatusChanges(
  services: Services,
  changes: readonly StatusChange[],
  others: readonly OperationalEvent[] = [],
): Promise<void> {
  for (const { id, status, reason } of changes) {
    const what = status === "paused" ? "destination_paused" : "destination_resumed";
    services.log({ what, destination: id, reason: reason ?? "manual" });
  }
  await publish(services, [...changes.filter(isTold).map(statusEvent), ...others], changes);
}

/** Those that are on record as untold. A failure is logged, not thrown: the next tick finds what is left. */
export async function findUnpublished(services: Services, untold: UnpublishedChanges): Promise<readonly StatusChange[]> {
  try {
    return (await unpublishedChanges(services.db, untold).all<StatusChange>()).results;
  } catch (error) {
    services.log({ what: "status_not_told", error: faultOf(error) });
    return [];
  }
}

/** A change by hand: the destination has had its new status since `at`, epoch ms. */
export async function publishTurned(services: Services, destination: string, at: number): Promise<void> {
  await publishStatusChanges(services, await findUnpublished(services, { ids: [destination], at }));
}

/** For the clock: tells of what others were not able to tell. */
export async function publishLeftovers(services: Services): Promise<void> {
  await publishStatusChanges(services, await findUnpublished(services, { until: services.now() - LEFT_BEHIND_MS }));
}
