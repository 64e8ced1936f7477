/**
 * Telling the operator: an event for the destinations of the reserved tenant, and a mail where one is wanted.
 *
 * The events go the way of all events: stored, sent, retried, held. That of which they tell is never their own
 * delivery: trouble at a destination of the operator's raises none, so that nothing can go round in circles.
 */

import { DIGEST_MS, isStalled } from "../core/alerts.ts";
import { type Destination, findDestination } from "../db/destinations.ts";
import {
  forgetStatements,
  isOperatorListening,
  OPERATOR,
  type StatusChange,
  type UnpublishedChanges,
  unpublishedChanges,
} from "../db/notifications.ts";
import { readHeartbeat } from "../db/sweep.ts";
import { digestAtGate, markDigestSent, reportUnattemptedDead } from "../gate/client.ts";
import { deliveryId, eventId } from "../ids.ts";
import { acceptOperational, type OperationalNotice } from "../ingest/accept.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { mail } from "./mail.ts";
import { deadEvent, type OperationalEvent, stallEvent, statusEvent } from "./operational-events.ts";

/**
 * Safe to repeat: an event is stored once, by its key. A failure is logged, not thrown: what is told has happened all
 * the same.
 * @param told changes of status that are no longer untold once the events are stored
 */
export async function publish(
  services: Services,
  events: readonly OperationalEvent[],
  told: readonly StatusChange[] = [],
): Promise<void> {
  if (events.length + told.length === 0) return;
  try {
    // Once more at once: whoever has this to tell says it only once. What is stored already is not stored again.
    const store = async () => {
      if (await isOperatorListening(services.db)) await acceptOperational(services, events.map(noticeOf));
    };
    if (events.length > 0) await store().catch(store);
    const forgotten = forgetStatements(services.db, told);
    if (forgotten.length > 0) await services.db.batch([...forgotten]);
    for (const event of events) await mail(services, event);
  } catch (error) {
    const types = [...new Set(events.map(({ type }) => type))].join(" ");
    services.log({ what: "announcements_lost", types, error: faultOf(error) });
  }
}

function noticeOf({ type, key, data }: OperationalEvent): OperationalNotice {
  return { tenant: OPERATOR, type, data, key };
}

/** Whether trouble at this destination is told of. */
export function isTold({ tenant }: Readonly<{ tenant: string }>): boolean {
  return tenant !== OPERATOR;
}

// §§ Destinations have been paused or resumed: a line in the log for each, and the operator is told.
//
// What is told comes from what D1 has on record, and not from having been the one who changed it: D1's answer may be
// lost, and a Worker may be killed behind the write. The event comes once, by its key; the line at least once.

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
export async function findUnpublished(
  services: Services,
  untold: UnpublishedChanges,
): Promise<readonly StatusChange[]> {
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
  await publishStatusChanges(
    services,
    await findUnpublished(services, { until: services.now() - LEFT_BEHIND_MS }),
  );
}

// §§ The dead, told of together: with the first of them a message is sent that comes after a minute, and whoever
// takes it asks the gate how many there are by then. So a storm of deaths is one event a minute for each
// destination, and costs a row a minute; where nobody dies, nothing.

/** A failure is logged, not thrown: the gate says it again with a later death. */
export async function scheduleDigest(services: Services, destination: string): Promise<void> {
  try {
    await services.drains.send({ deadLetterDigest: destination }, { delaySeconds: DIGEST_MS / 1000 });
  } catch (error) {
    services.log({ what: "toll_not_sent", destination, error: faultOf(error) });
  }
}

/** Tells of the destination's dead. Safe to repeat. */
export async function publishDigest(services: Services, id: string): Promise<void> {
  const deadLetterDigest = await digestAtGate(services, id);
  if (!deadLetterDigest || deadLetterDigest.dead === 0) return;
  const destination = await findDestination(services.db, id, undefined);
  if (destination && isTold(destination))
    await publish(services, [deadEvent(destination, deadLetterDigest, services.now())]);
  if (await markDigestSent(services, id, deadLetterDigest)) await scheduleDigest(services, id);
}

// §§ Deliveries that end dead without an attempt (expired while they waited, poisoned, their target forbidden)
// appear in no attempt's line and in no settlement: each leaves a line of its own, and their gates are told of
// them, behind everything that matters more.

export type DeadDelivery = Readonly<{
  /** The event's number. */
  event: number;
  destination: Pick<Destination, "id" | "tenant">;
  reason: string | null;
}>;

/** @param dead ended without an attempt, and recorded */
export function publishDead(services: Services, dead: readonly DeadDelivery[]): void {
  for (const { event, destination, reason } of dead) {
    const ids = { delivery: deliveryId(event, destination.id), event: eventId(event) };
    services.log({ what: "delivery_dead", ...ids, destination: destination.id, reason });
  }
  for (const theirs of Map.groupBy(dead, ({ destination }) => destination.id).values()) {
    const [first] = theirs;
    if (first) services.background(countDead(services, first.destination, theirs.length));
  }
}

/** So many of the destination's deliveries have ended dead without an attempt. */
export async function countDead(
  services: Services,
  { id, tenant }: Pick<Destination, "id" | "tenant">,
  deliveries: number,
): Promise<void> {
  const isDue = await reportUnattemptedDead(services, id, deliveries);
  if (isDue && isTold({ tenant })) await scheduleDigest(services, id);
}

// §§ The sweep's silence, told by whoever notices it: the tick that comes after it, or somebody who asks for health.

/** Looks, and tells of it when the sweep has fallen silent. */
export async function checkStall(services: Services): Promise<void> {
  await publishStall(services, await readHeartbeat(services.db));
}

/** @param heartbeatAt when a sweep last got through, epoch ms. Told once for each time: its silence has a name. */
export async function publishStall(services: Services, heartbeatAt: number | null): Promise<void> {
  const now = services.now();
  if (!isStalled(heartbeatAt, now)) return;
  services.log({ what: "sweep_stalled", heartbeat_at: heartbeatAt, age_ms: now - heartbeatAt });
  await publish(services, [stallEvent(heartbeatAt, now)]);
}
