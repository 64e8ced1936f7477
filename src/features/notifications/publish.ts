/**
 * Notifications of the operator: operational events for the destinations of the reserved tenant, and mails.
 *
 * Operational events are stored, sent, retried and held like all events. Trouble at a destination of the operator itself
 * publishes nothing, so that no event can cause another one.
 */

import { linkHostOf } from "../../config.ts";
import { DIGEST_MS, isStalled } from "../../core/alerts.ts";
import { OPERATOR } from "../../core/principal.ts";
import { atGate } from "../../gate/client.ts";
import { acceptOperational } from "../../ingest/accept.ts";
import { postedEvent } from "../../ingest/bundle.ts";
import { faultOf, orLogged } from "../../log.ts";
import type { News, Services } from "../../services.ts";
import { findDestination } from "../../store/destinations.ts";
import { findUnpublished, forgetStatements, type StatusChange } from "../../store/status-changes.ts";
import { readHeartbeat } from "../../store/sweep.ts";
import { noteCircuits, noteDead, noticing } from "../notices/job.ts";
import { mail, mailContact } from "./mail.ts";
import {
  alertEvent,
  deadEvent,
  heldEvent,
  type OperationalEvent,
  stallEvent,
  statusEvent,
} from "./operational-events.ts";
import { isOperatorListening } from "./sql.ts";

/** Publishes what the engine reports, in one round trip. */
export async function notify(
  services: Services,
  { changes = [], alerts = [], digestsDue = [], held = [] }: News,
): Promise<void> {
  await noteCircuits(services, alerts);
  const raised = alerts.filter(({ destination }) => raisesNotifications(destination));
  const events = raised.flatMap(({ destination, result }) =>
    result.alerts.map((alert) => alertEvent(destination, alert, result)),
  );
  const holding = held.filter(({ destination }) => raisesNotifications(destination));
  events.push(...holding.map(({ destination, event }) => heldEvent(destination, event, services.now())));
  await publishStatusChanges(services, changes, events);
  for (const one of digestsDue.filter(raisesNotifications)) await scheduleDigest(services, one.id);
}

/**
 * Stores the events and mails them. Safe to repeat: an event is stored once, by its key. A failure is logged, not
 * thrown, because the caller's work is done even if the notification fails.
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
    const keyed = linked.map(({ type, key, data }) => ({
      ...postedEvent({ tenant: OPERATOR, type, data }),
      key,
    }));
    const store = async () => {
      if (await isOperatorListening(services.db)) await acceptOperational(services, keyed);
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
  // A trigger has stored the report: if this invocation is killed here, the next cron publishes it.
  for (const { id, isNoticed } of changes)
    if (isNoticed) await noticing.enqueue(services, id, services.now());
  // Before they count as published: if this invocation is killed between, the next cron publishes them.
  for (const { change } of raised) await mailContact(services, change);
  await publish(services, [...raised.map(({ event }) => event), ...others], changes);
}

/** Undefined for a change that an edit by hand has made unreadable: it must not hold up the others. */
function statusEventOf(services: Services, change: StatusChange): OperationalEvent | undefined {
  try {
    return statusEvent(change);
  } catch (error) {
    services.log({ what: "status_change_unreadable", destination: change.id, error: faultOf(error) });
    return undefined;
  }
}

/** Publishes a change by hand: the destination has had its new status since `at`, epoch ms. */
export async function publishStatusChangeOf(services: Services, destination: string, at: number) {
  await publishStatusChanges(services, await findUnpublished(services, { ids: [destination], at }));
}

/** For the cron: publishes changes that their makers could not publish. */
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
async function scheduleDigest(services: Services, destination: string): Promise<void> {
  await orLogged(services, { what: "dead_letter_digest_not_sent", destination }, () =>
    services.upkeep.send({ deadLetterDigest: destination }, { delaySeconds: DIGEST_MS / 1000 }),
  );
}

/** Publishes the destination's dead-letter digest. Safe to repeat. */
export async function publishDigest(services: Services, id: string): Promise<void> {
  const digest = await atGate(services, id, "deadLetterDigest");
  if (!digest || digest.dead === 0) return;
  const destination = await findDestination(services.db, id, undefined);
  if (destination) await noteDead(services, destination);
  if (destination && raisesNotifications(destination))
    await publish(services, [deadEvent(destination, digest, services.now())]);
  if (await atGate(services, id, "markDigestSent", digest)) await scheduleDigest(services, id);
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
