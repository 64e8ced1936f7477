/**
 * The consumer of the platform's dead-letter queue: messages that have failed a hundred times. Whatever made them
 * fail, a message of several deliveries does not tell which of them it was: those that were never attempted wait, and
 * are drained in ever smaller portions, and each of the others gets a message for itself. A delivery that was alone in
 * its message ends as dead, with the reason `poison`, where a person can see it and send it again.
 */

import { type LoadedDelivery, loadDeliveries } from "../db/deliveries.ts";
import { scheduleDrainAtGate } from "../gate/client.ts";
import { publishDead } from "../notifications/publish.ts";
import type { Services } from "../services.ts";
import {
  ackOrRetry,
  distinct,
  messageGroupFinder,
  messageGroupsOf,
  openDeliveriesOf,
  sendAlone,
} from "./message-group.ts";
import { overRow, waitingRow } from "./outcome.ts";
import { report } from "./recorder.ts";

export async function consumeDeadLetters(services: Services, batch: MessageBatch): Promise<void> {
  const messageGroups = messageGroupsOf(services, batch);
  const parts = messageGroups.flatMap((messageGroup) => messageGroup.parts);
  const { works } = await loadDeliveries(services, parts, { isDue: () => false });
  const messageGroupOf = messageGroupFinder(messageGroups, services.now());
  const byCarrier = Map.groupBy(distinct(works, messageGroups), messageGroupOf);
  const alone: LoadedDelivery[] = [];
  const among: LoadedDelivery[] = [];
  for (const [messageGroup, own] of byCarrier) {
    // A retry that has got a message of its own is left to that.
    if (!messageGroup) continue;
    const isAlone = messageGroup.isWhole && own.length === 1;
    (isAlone ? alone : among).push(...own.filter(isQueued));
  }
  const now = services.now();
  const dead = alone.map((work) => ({ work, row: overRow(work, "dead", "poison", now) }));
  const untried = among.filter(({ row }) => row === undefined);
  const refusal = { reason: "recovered", until: now } as const;
  const waiting = untried.map((work) => ({ work, row: waitingRow(work, refusal) }));
  await report(services, [...dead, ...waiting]);
  publishDead(services, dead);
  for (const { destination } of new Map(untried.map((work) => [work.destination.id, work])).values())
    services.background(scheduleDrainAtGate(services, destination.id));
  const tried = among.filter(({ row }) => row !== undefined);
  await sendAlone(
    services,
    openDeliveriesOf(tried.map((work) => ({ work, againAt: work.row?.nextAttemptAt ?? now }))),
  );
  for (const messageGroup of messageGroups) await ackOrRetry(services, messageGroup);
}

/** What has ended is over, and what waits is the drain's. */
function isQueued({ row }: LoadedDelivery): boolean {
  return row === undefined || row.state === "retrying";
}
