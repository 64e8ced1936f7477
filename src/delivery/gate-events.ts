/** What is done when gates say that something has happened to their destinations: who is sick is paused, and all is told. */

import type { SettleResult } from "../core/settle.ts";
import type { Destination } from "../db/destinations.ts";
import { pauseStatements, type StatusChange, unpublishedChanges } from "../db/notifications.ts";
import { faultOf } from "../log.ts";
import { alertEvent } from "../notifications/operational-events.ts";
import {
  findUnpublished,
  publishStatusChanges,
  raisesNotifications,
  scheduleDigest,
} from "../notifications/publish.ts";
import type { Services } from "../services.ts";

/** News of a destination. */
export type DestinationResult = Readonly<{ destination: Destination; news: SettleResult }>;

/**
 * Heeds all that a batch has brought to light, and tells of it in one round trip.
 * @param gone pauses that have just been made
 */
export async function applySettleResults(
  services: Services,
  heard: readonly DestinationResult[],
  gone: readonly StatusChange[],
): Promise<void> {
  const paused = [...gone];
  for (const one of heard) {
    tellOfStorm(services, one);
    paused.push(...(await pauseIfSick(services, one)));
  }
  const told = heard.filter(({ destination }) => raisesNotifications(destination));
  const alerts = told.flatMap(({ destination, news }) =>
    news.alerts.map((alert) => alertEvent(destination, alert, news)),
  );
  await publishStatusChanges(services, paused, alerts);
  for (const { destination, news } of told)
    if (news.digestDue) await scheduleDigest(services, destination.id);
}

/** The pause that is made, if any. A failure is logged, not thrown: the gate says it again with the next failure. */
async function pauseIfSick(
  services: Services,
  { destination: { id }, news: { disableReason } }: DestinationResult,
): Promise<readonly StatusChange[]> {
  if (disableReason === undefined) return [];
  const { db, log } = services;
  const now = services.now();
  const untold = { ids: [id], at: now };
  try {
    const [, paused] = await db.batch<StatusChange>([
      pauseStatements(db, [id], disableReason, now),
      unpublishedChanges(db, untold),
    ]);
    return paused?.results ?? [];
  } catch (error) {
    log({ what: "pause_failed", destination: id, error: faultOf(error) });
    // It may be the answer alone that was lost.
    return findUnpublished(services, untold);
  }
}

/** What happens to a door is in the log already. */
function tellOfStorm({ log }: Services, { destination, news: { alerts, figures } }: DestinationResult): void {
  const { first, retries, failures } = figures.traffic;
  const line = { destination: destination.id, first_attempts: first, retries, failures };
  if (alerts.includes("storm_detected")) log({ what: "storm_detected", ...line });
  if (alerts.includes("recovered")) log({ what: "storm_over", ...line });
}
