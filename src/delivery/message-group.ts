/**
 * Deliveries and the queue: which deliveries a message holds, and how those that are still open come again at their
 * time. A message holds deliveries of whole bundles. It is acknowledged when all of them are done with; otherwise it is
 * retried when the next of them is due.
 *
 * A retry may have an owner: the mark of the message that delivers it. Without a mark it is the message of its bundle.
 * So two messages that name the same delivery do not both come for it.
 */

import {
  type BundlePart,
  bundleOf,
  type DeliveryKey,
  indexesOf,
  indexOf,
  partsOf,
  type Runs,
  runsInclude,
  runsOf,
} from "../core/bundle.ts";
import { portionsOf } from "../core/portions.ts";
import { atGate } from "../gate/client.ts";
import { randomText } from "../ids.ts";
import { faultOf } from "../log.ts";
import {
  batchesOf,
  type DeliveryMessage,
  delaySecondsUntil,
  deliveryMessage,
  MESSAGE_DELIVERIES,
} from "../queue-messages.ts";
import type { Services } from "../services.ts";
import type { LoadedDelivery } from "../store/deliveries.ts";
import { type DeliveryRow, entriesIn } from "../store/delivery.ts";
import type { Disposition } from "./outcome.ts";

/** A message and the deliveries that it alone holds: one named by two messages of a batch belongs to the first. */
export type MessageGroup = Readonly<{
  message: Message;
  parts: readonly BundlePart[];
  /** All deliveries that the message names belong to it. */
  isWhole: boolean;
  owner: string | undefined;
  takesWaiting: boolean;
}>;

/** A delivery whose message must come again. */
type OpenDelivery = Readonly<{
  key: DeliveryKey;
  /** Not before this, epoch ms; and by so much later at most. */
  at: number;
  slackMs: number;
  owner: string | undefined;
}>;

/** A message is replaced by new ones before the platform's limit of 100 retries makes it a dead letter. */
const MOST_RETRIES = 90;
/** A delivery may come this much later than its time, or by this share of its delay, to come together with others. */
const TOGETHER_MS = 1_000;
const TOGETHER_SHARE = 0.05;
/** Characters of the mark of a message for deliveries that waited. */
const OWNER_LENGTH = 16;
/** Every index of a bundle. */
const ALL: Runs = [0, 127];

export function openDeliveriesOf(dispositions: readonly Disposition[]): OpenDelivery[] {
  return dispositions.flatMap(({ delivery, row = delivery.row, retryAt: at }) => {
    if (at === undefined) return [];
    const key = { eventId: delivery.event.id, destinationId: delivery.destination.id };
    return { key, at, slackMs: slackOf(row, at), owner: row?.owner };
  });
}

function slackOf(row: DeliveryRow | undefined, at: number): number {
  const last = isToRetry(row) && row.nextAttemptAt === at ? entriesIn(row.log).at(-1) : undefined;
  return Math.max(TOGETHER_MS, last ? (at - last.at - last.latencyMs) * TOGETHER_SHARE : 0);
}

/** Whether a message comes for it at its time: for one in flight in case its sender is lost. */
export function isToRetry(row: DeliveryRow | undefined): row is DeliveryRow {
  return row?.state === "retrying" || row?.state === "in_flight";
}

/** The batch's messages, with each delivery once, or once for each owner. An unreadable message is logged and dropped. */
export function groupMessages(services: Services, batch: MessageBatch): MessageGroup[] {
  const claimed = new Map<string, Runs>();
  return batch.messages.flatMap((message) => {
    const named = deliveryMessage(message.body);
    if (!named) services.log({ what: "message_unreadable", message: message.id });
    const { bundles = [], owner, takesWaiting = false } = named ?? {};
    const parts = bundles.flatMap((part) => unclaimed(part, owner, claimed));
    if (parts.length === 0) message.ack();
    const isWhole = parts.length === bundles.length && parts.every((part, i) => part === bundles[i]);
    return parts.length > 0 ? [{ message, parts, isWhole, owner, takesWaiting }] : [];
  });
}

/** The part without what earlier messages have claimed: usually the part itself. */
function unclaimed(part: BundlePart, owner: string | undefined, claimed: Map<string, Runs>): BundlePart[] {
  const { bundle, destinations, indexes = ALL } = part;
  const rests = new Map<string, readonly number[]>();
  let isWhole = true;
  for (const destination of destinations) {
    const key = `${bundle} ${destination} ${owner ?? ""}`;
    const before = claimed.get(key);
    if (!before) {
      claimed.set(key, indexes);
      continue;
    }
    const wanted = indexesOf(indexes);
    const rest = wanted.filter((index) => !runsInclude(before, index));
    rests.set(destination, rest);
    isWhole &&= rest.length === wanted.length;
    claimed.set(key, [...before, ...runsOf(rest)]);
  }
  if (isWhole) return [part];
  return destinations.flatMap((destination) => {
    const rest = rests.get(destination);
    if (!rest) return [{ ...part, destinations: [destination] }];
    return rest.length > 0 ? [{ bundle, destinations: [destination], indexes: runsOf(rest) }] : [];
  });
}

/**
 * Finds the message that delivers a delivery. For a retry this is its owner, or any message that names it if it is overdue at
 * `now`. Undefined when none of these messages may deliver it.
 */
export function messageGroupFinder(
  messageGroups: readonly MessageGroup[],
  now: number,
): (delivery: LoadedDelivery) => MessageGroup | undefined {
  const owners = new Map<string, (readonly [Runs, MessageGroup])[]>();
  for (const messageGroup of messageGroups) {
    for (const { bundle, destinations, indexes = ALL } of messageGroup.parts) {
      for (const destination of destinations) {
        const key = `${bundle} ${destination}`;
        const some = owners.get(key);
        if (some) some.push([indexes, messageGroup]);
        else owners.set(key, [[indexes, messageGroup]]);
      }
    }
  }
  return ({ event, destination, row }) => {
    const some = owners.get(`${bundleOf(event.id)} ${destination.id}`) ?? [];
    const naming = some.filter(([indexes]) => runsInclude(indexes, indexOf(event.id)));
    const taking = row?.state === "waiting" && naming.find(([, messageGroup]) => messageGroup.takesWaiting);
    if (taking) return taking[1];
    if (!isToRetry(row)) return naming[0]?.[1];
    const own = naming.find(([, messageGroup]) => messageGroup.owner === row.owner);
    return (own ?? ((row.nextAttemptAt ?? 0) <= now ? naming[0] : undefined))?.[1];
  };
}

/** Each delivery once. Only messages with owners may name a delivery that another names too. */
export function distinct(
  deliveries: readonly LoadedDelivery[],
  messageGroups: readonly MessageGroup[],
): readonly LoadedDelivery[] {
  if (messageGroups.every(({ owner }) => owner === undefined)) return deliveries;
  const each = new Map(deliveries.map((one) => [`${one.event.id} ${one.destination.id}`, one]));
  return [...each.values()];
}

/** Acknowledges a message, or retries it when the next of its open deliveries is due. */
export async function ackOrRetry(
  services: Services,
  { message }: MessageGroup,
  open: readonly OpenDelivery[] = [],
): Promise<void> {
  if (open.length === 0) return message.ack();
  const now = services.now();
  const delaySeconds = delaySecondsUntil(wakeUpAt(open), now);
  if (message.attempts >= MOST_RETRIES && (await isReplaced(services, () => sendOpen(services, open))))
    message.ack();
  else message.retry({ delaySeconds });
}

/** Retries a message with all its deliveries after a pause. */
export async function postpone(services: Services, messageGroup: MessageGroup, delaySeconds: number) {
  const { message, parts, owner, takesWaiting } = messageGroup;
  const body = {
    bundles: parts,
    ...(owner !== undefined && { owner }),
    ...(takesWaiting && { takesWaiting }),
  };
  const again = async () => void (await services.deliveries.send(body, { delaySeconds }));
  if (message.attempts >= MOST_RETRIES && (await isReplaced(services, again))) message.ack();
  else message.retry({ delaySeconds });
}

/**
 * The time of the first of them and of those that are due soon after it: one invocation serves all of these. None comes
 * before its time, nor later than its slack allows.
 */
export function wakeUpAt(open: readonly Pick<OpenDelivery, "at" | "slackMs">[]): number {
  let until = Number.POSITIVE_INFINITY;
  for (const { at, slackMs } of open) until = Math.min(until, at + slackMs);
  let last = 0;
  for (const { at } of open) if (at <= until) last = Math.max(last, at);
  return last;
}

/** Whether new messages have taken the old one's place. */
async function isReplaced(services: Services, send: () => Promise<void>): Promise<boolean> {
  try {
    await send();
    return true;
  } catch (error) {
    services.log({ what: "replace_failed", error: faultOf(error) });
    return false;
  }
}

/** Sends messages for retries that have none. */
export async function sendRetries(services: Services, dispositions: readonly Disposition[]): Promise<void> {
  await sendOpen(services, openDeliveriesOf(dispositions));
}

/** Deliveries that are due together share a message, which names open deliveries and nothing else. */
async function sendOpen(services: Services, open: readonly OpenDelivery[]): Promise<void> {
  const messages = [...Map.groupBy(open, ({ owner }) => owner)].flatMap(([owner, some]) =>
    togetherOf(some).map((together) => messageFor(together, owner, services.now())),
  );
  for (const batch of batchesOf(messages)) await services.deliveries.sendBatch(batch);
}

/** Groups deliveries that come in the same invocation. */
function togetherOf(open: readonly OpenDelivery[]): OpenDelivery[][] {
  const groups: OpenDelivery[][] = [];
  let rest = open;
  while (rest.length > 0) {
    const at = wakeUpAt(rest);
    groups.push(rest.filter((one) => one.at <= at));
    rest = rest.filter((one) => one.at > at);
  }
  return groups;
}

/** One message for all of them, when the last is due. */
function messageFor(
  open: readonly OpenDelivery[],
  owner: string | undefined,
  now: number,
): MessageSendRequest<DeliveryMessage> {
  const bundles = partsOf(open.map(({ key }) => key));
  const delaySeconds = delaySecondsUntil(Math.max(...open.map(({ at }) => at)), now);
  return { body: { bundles, ...(owner !== undefined && { owner }) }, delaySeconds };
}

/**
 * Has waiting deliveries attempted now, with live traffic, without a drain. If the queue does not take their message,
 * drains come for them.
 */
export async function attemptWaiting(services: Services, keys: readonly DeliveryKey[]): Promise<void> {
  if (keys.length === 0) return;
  const messages = portionsOf(keys, MESSAGE_DELIVERIES).map((some) => ({
    body: { bundles: partsOf(some), owner: randomText(OWNER_LENGTH), takesWaiting: true } as const,
  }));
  try {
    for (const batch of batchesOf(messages)) await services.deliveries.sendBatch(batch);
  } catch (error) {
    services.log({ what: "waiting_not_enqueued", deliveries: keys.length, error: faultOf(error) });
    const destinations = new Set(keys.map(({ destinationId }) => destinationId));
    await Promise.all([...destinations].map((id) => atGate(services, id, "scheduleDrain")));
  }
}

/** A message for each of them alone, at its time. */
export async function sendAlone(services: Services, open: readonly OpenDelivery[]): Promise<void> {
  const messages = open.map((one) => messageFor([one], one.owner, services.now()));
  for (const batch of batchesOf(messages)) await services.deliveries.sendBatch(batch);
}
