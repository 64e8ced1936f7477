/**
 * The consumer of the platform's dead-letter queue: messages that have failed a hundred times. The cause need not be a
 * delivery: a crash of the invocation or a fault of the platform fails the whole batch. Deliveries that were never
 * attempted wait, and are drained in ever smaller portions. Each of the others gets a message of its own; one that was
 * alone in its message already ends as dead, with the reason `poison`, where an operator can see it and send it again.
 * One in flight does not end while its sender may live, because only the sender knows how the attempt ends: its message
 * comes again when the sender is lost.
 *
 * The dead-letter queue may lose its messages too. That loses no delivery: the sweep has found untried ones and overdue
 * retries by then, or finds them after the grace period.
 */

import { atGate } from "../gate/client.ts";
import type { Services } from "../services.ts";
import { type LoadedDelivery, loadDeliveries } from "../store/deliveries.ts";
import {
  ackOrRetry,
  distinct,
  groupMessages,
  isToRetry,
  type MessageGroup,
  messageGroupFinder,
  openDeliveriesOf,
  sendAlone,
} from "./message-group.ts";
import { reportDead } from "./news.ts";
import { deadAmong, overRow, waitingDisposition } from "./outcome.ts";
import { report } from "./recorder.ts";

export async function consumeDeadLetters(services: Services, batch: MessageBatch): Promise<void> {
  const messages = groupMessages(services, batch);
  const { alone, untried, tried } = await sortByCause(services, messages);
  const now = services.now();
  const dead = alone.map((delivery) => ({ delivery, row: overRow(delivery, "dead", "poison", now) }));
  const refusal = { reason: "recovered", until: now } as const;
  const waiting = untried.map((delivery) => waitingDisposition(delivery, refusal));
  await report(services, [...dead, ...waiting]);
  reportDead(services, deadAmong(dead));
  for (const id of new Set(untried.map(({ destination }) => destination.id)))
    services.background(atGate(services, id, "scheduleDrain"));
  const retries = tried.map((delivery) => ({ delivery, retryAt: delivery.row?.nextAttemptAt ?? now }));
  await sendAlone(services, openDeliveriesOf(retries));
  for (const message of messages) await ackOrRetry(services, message);
}

/**
 * Sorts deliveries into never attempted ones, attempted ones that end because they were alone in their message, and the
 * others.
 */
async function sortByCause(services: Services, messages: readonly MessageGroup[]) {
  const parts = messages.flatMap((message) => message.parts);
  const { deliveries } = await loadDeliveries(services, parts, { isDue: () => false });
  const now = services.now();
  const messageOf = messageGroupFinder(messages, now);
  const alone: LoadedDelivery[] = [];
  const untried: LoadedDelivery[] = [];
  const tried: LoadedDelivery[] = [];
  for (const [message, own] of Map.groupBy(distinct(deliveries, messages), messageOf)) {
    // A retry that another message owns is left to that message.
    if (!message) continue;
    const isAlone = message.isWhole && own.length === 1;
    for (const delivery of own.filter(isQueued)) {
      const mayEnd = isAlone && !mayHaveSender(delivery, now);
      (delivery.row === undefined ? untried : mayEnd ? alone : tried).push(delivery);
    }
  }
  return { alone, untried, tried };
}

/** Neither ended nor waiting. Waiting ones belong to the drain. */
function isQueued({ row }: LoadedDelivery): boolean {
  return row === undefined || isToRetry(row);
}

/** Whether it is in flight, and not overdue. */
function mayHaveSender({ row }: LoadedDelivery, now: number): boolean {
  return row?.state === "in_flight" && (row.nextAttemptAt ?? now) > now;
}
