/** Applying what gates report when leases are settled: failing destinations are paused, and alerts are published. */
import type { SettleResult } from "../core/settle.ts";
import { alertEvent } from "../features/notifications/operational-events.ts";
import {
  findUnpublished,
  publishStatusChanges,
  raisesNotifications,
  scheduleDigest,
} from "../features/notifications/publish.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import type { Destination } from "../store/destinations.ts";
import { pauseStatements, type StatusChange, unpublishedChanges } from "../store/notifications.ts";

export type DestinationResult = Readonly<{ destination: Destination; result: SettleResult }>;

/**
 * Applies the results of a batch, and publishes everything in one round trip.
 * @param gone destinations that have just been paused, because they answered 410
 */
export async function applySettleResults(
  services: Services,
  results: readonly DestinationResult[],
  gone: readonly StatusChange[],
): Promise<void> {
  const paused = [...gone];
  for (const one of results) {
    logStorm(services, one);
    paused.push(...(await disableIfFailing(services, one)));
  }
  const published = results.filter(({ destination }) => raisesNotifications(destination));
  const alerts = published.flatMap(({ destination, result }) =>
    result.alerts.map((alert) => alertEvent(destination, alert, result)),
  );
  await publishStatusChanges(services, paused, alerts);
  for (const { destination, result } of published)
    if (result.digestDue) await scheduleDigest(services, destination.id);
}

/** The pause that is made, if any. A failure is logged, not thrown: the gate repeats it with the next failure. */
async function disableIfFailing(
  services: Services,
  { destination: { id }, result: { disableReason } }: DestinationResult,
): Promise<readonly StatusChange[]> {
  if (disableReason === undefined) return [];
  const { db, log } = services;
  const now = services.now();
  const unpublished = { ids: [id], at: now };
  try {
    const [, paused] = await db.batch<StatusChange>([
      pauseStatements(db, [id], disableReason, now),
      unpublishedChanges(db, unpublished),
    ]);
    return paused?.results ?? [];
  } catch (error) {
    log({ what: "pause_failed", destination: id, error: faultOf(error) });
    // The pause may have been made, and only D1's answer lost.
    return findUnpublished(services, unpublished);
  }
}

/** Changes of the circuit are in the log already. */
function logStorm({ log }: Services, { destination, result: { alerts, figures } }: DestinationResult): void {
  const { first, retries, failures } = figures.traffic;
  const line = { destination: destination.id, first_attempts: first, retries, failures };
  if (alerts.includes("storm_detected")) log({ what: "storm_detected", ...line });
  if (alerts.includes("recovered")) log({ what: "storm_over", ...line });
}
