/**
 * The engine's reports: the results of settlements, by which failing destinations are paused, and deliveries that end
 * dead without an attempt. `services.notify` publishes them.
 */
import type { DisableReason } from "../core/reasons.ts";
import { atGate } from "../gate/client.ts";
import { deliveryId, eventId } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { DestinationResult, Services } from "../services.ts";
import type { Destination } from "../store/destination.ts";
import {
  findUnpublished,
  pauseStatements,
  type StatusChange,
  unpublishedChanges,
} from "../store/status-changes.ts";

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
    const { destination, result } = one;
    if (result.disableReason) paused.push(...(await disable(services, destination.id, result.disableReason)));
  }
  const alerts = results.filter(({ result }) => result.alerts.length > 0);
  const digestsDue = results.flatMap(({ destination, result }) => (result.digestDue ? destination : []));
  // Most settlements have no news: only one that has loads what publishes it.
  if (paused.length + alerts.length + digestsDue.length > 0)
    await services.notify(services, { changes: paused, alerts, digestsDue });
}

/** The pause that is made, if any. A failure is logged, not thrown: the gate repeats it with the next failure. */
async function disable(
  services: Services,
  id: string,
  disableReason: DisableReason,
): Promise<readonly StatusChange[]> {
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

type DeadDelivery = Readonly<{
  /** The event's number. */
  event: number;
  destination: Pick<Destination, "id" | "tenant">;
  reason: string | null;
}>;

/**
 * Logs deliveries that ended dead without an attempt (expired, poison, forbidden target) and counts them at their gates,
 * in the background: no attempt's log line and no settlement has them.
 * @param dead recorded already
 */
export function reportDead(services: Services, dead: readonly DeadDelivery[]): void {
  for (const { event, destination, reason } of dead) {
    const ids = { delivery: deliveryId(event, destination.id), event: eventId(event) };
    services.log({ what: "delivery_dead", ...ids, destination: destination.id, reason });
  }
  for (const theirs of Map.groupBy(dead, ({ destination }) => destination.id).values()) {
    const [first] = theirs;
    if (first) services.background(countDead(services, first.destination, theirs.length));
  }
}

/** Counts deliveries of the destination that ended dead without an attempt. */
export async function countDead(
  services: Services,
  destination: Pick<Destination, "id" | "tenant">,
  deliveries: number,
): Promise<void> {
  if (await atGate(services, destination.id, "countDead", deliveries))
    await services.notify(services, { digestsDue: [destination] });
}

/** Counts deliveries that a destination's transformation makes no request of. After too many of one version it is paused. */
export async function countTransformFaults(
  services: Services,
  destination: Pick<Destination, "id" | "tenant">,
  version: number,
  deliveries: number,
): Promise<void> {
  if (!(await atGate(services, destination.id, "countTransformFaults", version, deliveries))) return;
  const changes = await disable(services, destination.id, "transform_failing");
  if (changes.length > 0) await services.notify(services, { changes, alerts: [], digestsDue: [] });
}
