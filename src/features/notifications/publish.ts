/**
 * Notifications of the operator: operational events for the destinations of the reserved tenant, and mails.
 *
 * Operational events are stored, sent, retried and held like all events. Trouble at a destination of the operator itself
 * publishes nothing, so that no event can cause another one.
 */

import { linkHostOf } from "../../config.ts";
import { DIGEST_MS, isStalled } from "../../core/alerts.ts";
import { OPERATOR } from "../../core/principal.ts";
import { digestAtGate, markDigestSent, reportUnattemptedDead } from "../../gate/client.ts";
import { deliveryId, eventId } from "../../ids.ts";
import { acceptOperational, type KeyedEvent } from "../../ingest/accept.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import { type Destination, findDestination } from "../../store/destinations.ts";
import {
  forgetStatements,
  isOperatorListening,
  type StatusChange,
  type UnpublishedChanges,
  unpublishedChanges,
} from "../../store/notifications.ts";
import { readHeartbeat } from "../../store/sweep.ts";
import { mail, mailContact } from "./mail.ts";
import { deadEvent, type OperationalEvent, stallEvent, statusEvent } from "./operational-events.ts";

/**
 * Stores the events and mails them. Safe to repeat: an event is stored once, by its key. A failure is logged, not thrown,
 * because the caller's own work is done whether or not anybody is notified of it.
 * @param published changes of status that count as published once the events are stored
 */
export async function publish(
  services: Services,
  events: readonly OperationalEvent[],
  published: readonly StatusChange[] = [],
): Promise<void> {
  if (events.length + published.length === 0) return;
  try {
    // Tried twice at once, because callers publish an event only once. A stored event is not stored again.
    const linked = events.map((event) => withLink(services, event));
    const store = async () => {
      if (await isOperatorListening(services.db)) await acceptOperational(services, linked.map(postedEvent));
    };
    if (events.length > 0) await store().catch(store);
    const statements = forgetStatements(services.db, published);
    if (statements.length > 0) await services.db.batch([...statements]);
    for (const event of linked) await mail(services, event);
  } catch (error) {
    const types = [...new Set(events.map(({ type }) => type))].join(" ");
    services.log({ what: "notifications_lost", types, error: faultOf(error) });
  }
}

/** With the page of the dashboard that shows what it is about, where the deployment's host is known. */
function withLink({ config }: Services, event: OperationalEvent): OperationalEvent {
  const host = linkHostOf(config);
  if (host === undefined) return event;
  const page = event.destination === undefined ? "" : `/destinations/${event.destination}`;
  return { ...event, data: { ...event.data, link: `https://${host}/dashboard${page}` } };
}

function postedEvent({ type, key, data }: OperationalEvent): KeyedEvent {
  return { tenant: OPERATOR, type, data, key };
}

/** Whether the operator is notified of trouble at this destination: it is, unless the destination is its own. */
export function raisesNotifications({ tenant }: Readonly<{ tenant: string }>): boolean {
  return tenant !== OPERATOR;
}

/** A recorded change of status that is older has not been published by the invocation that made it. */
const LEFT_BEHIND_MS = 30_000;

/**
 * Logs and publishes destinations that were paused or resumed, together with `others` in one round trip.
 *
 * The changes come from D1's record of them and not from the statement that made them, because D1's answer may be lost,
 * and a Worker may be killed after the write. The event is published once, by its key; the line is logged at least once.
 */
export async function publishStatusChanges(
  services: Services,
  changes: readonly StatusChange[],
  others: readonly OperationalEvent[] = [],
): Promise<void> {
  for (const { id, status, reason } of changes) {
    const what = status === "paused" ? "destination_paused" : "destination_resumed";
    services.log({ what, destination: id, reason: reason ?? "manual" });
  }
  const raised = changes.filter(raisesNotifications).flatMap((change) => {
    const event = statusEventOf(services, change);
    return event ? [{ change, event }] : [];
  });
  // Before they count as published: who is killed between leaves them to the next cron.
  for (const { change } of raised) await mailContact(services, change);
  await publish(services, [...raised.map(({ event }) => event), ...others], changes);
}

/** Undefined for a change that an edit by hand has made one that no event can tell: it must not hold up the others. */
function statusEventOf(services: Services, change: StatusChange): OperationalEvent | undefined {
  try {
    return statusEvent(change);
  } catch (error) {
    services.log({ what: "status_change_unreadable", destination: change.id, error: faultOf(error) });
    return undefined;
  }
}

/** Recorded changes that have not been published. A failure is logged: the next cron publishes them. */
export async function findUnpublished(
  services: Services,
  wanted: UnpublishedChanges,
): Promise<readonly StatusChange[]> {
  try {
    return (await unpublishedChanges(services.db, wanted).all<StatusChange>()).results;
  } catch (error) {
    services.log({ what: "status_changes_unavailable", error: faultOf(error) });
    return [];
  }
}

/** Publishes a change by hand: the destination has had its new status since `at`, epoch ms. */
export async function publishStatusChangeOf(
  services: Services,
  destination: string,
  at: number,
): Promise<void> {
  await publishStatusChanges(services, await findUnpublished(services, { ids: [destination], at }));
}

/** For the cron: publishes changes that those who made them could not publish. */
export async function publishLeftovers(services: Services): Promise<void> {
  await publishStatusChanges(
    services,
    await findUnpublished(services, { until: services.now() - LEFT_BEHIND_MS }),
  );
}

/**
 * Enqueues the destination's dead-letter digest, which is published a minute later with the number of deliveries that
 * have ended dead by then. So however many end dead, it is one event and one written row a minute and destination. A
 * failure is logged: the gate reports a due digest again with a later dead letter.
 */
export async function scheduleDigest(services: Services, destination: string): Promise<void> {
  try {
    await services.upkeep.send({ deadLetterDigest: destination }, { delaySeconds: DIGEST_MS / 1000 });
  } catch (error) {
    services.log({ what: "dead_letter_digest_not_sent", destination, error: faultOf(error) });
  }
}

/** Publishes the destination's dead-letter digest. Safe to repeat. */
export async function publishDigest(services: Services, id: string): Promise<void> {
  const digest = await digestAtGate(services, id);
  if (!digest || digest.dead === 0) return;
  const destination = await findDestination(services.db, id, undefined);
  if (destination && raisesNotifications(destination))
    await publish(services, [deadEvent(destination, digest, services.now())]);
  if (await markDigestSent(services, id, digest)) await scheduleDigest(services, id);
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

/** Counts deliveries of the destination that ended dead without an attempt. */
export async function countDead(
  services: Services,
  { id, tenant }: Pick<Destination, "id" | "tenant">,
  deliveries: number,
): Promise<void> {
  const isDue = await reportUnattemptedDead(services, id, deliveries);
  if (isDue && raisesNotifications({ tenant })) await scheduleDigest(services, id);
}

/** For the cron: publishes a stall of the sweep. `/v1/health` notices one too, in case the cron does not run. */
export async function checkStall(services: Services): Promise<void> {
  await publishStall(services, await readHeartbeat(services.db));
}

/**
 * Publishes a stall of the sweep, once for each heartbeat.
 * @param heartbeatAt the sweep's heartbeat, epoch ms
 */
export async function publishStall(services: Services, heartbeatAt: number | null): Promise<void> {
  const now = services.now();
  if (!isStalled(heartbeatAt, now)) return;
  services.log({ what: "sweep_stalled", heartbeat_at: heartbeatAt, age_ms: now - heartbeatAt });
  await publish(services, [stallEvent(heartbeatAt, now)]);
}
